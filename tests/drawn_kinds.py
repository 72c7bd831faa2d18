"""drawn_kinds.py -- other kinds of kernels drawn at random: prefix sums, gradients with sums of columns, attention, products with scales.

In: a name, which seeds it.  Out: its text, as drawn_kernel.py's."""
import re

from drawn_kernel import Axis, Kernel, Value


class Scan(Kernel):
    """With prefix sums of what is held: rows, columns, planes, beside products, in loops."""
    GROUPS, FORMS = (0,), ("rows", "rows", "rows", "columns", "planes", "product")

    def statements(self, axes, over, count):
        for _ in range(count):
            held = [name for name, grouped in over if not grouped and self.axis(name).kind == "held" and not self.axis(name).group]
            if not held or self.chance(.6):
                super().statements(axes, over, 1)
                continue
            name, kind = self.random.choice(held), self.one_of("f32", "f32", "i32", "i64")
            v, more = self.value(kind, axes, self.one_of(1, 2)), self.load(sorted(set(self.some(axes)) | {name}), kind)
            v = self.joined(f"({v.text} + {more.text})", kind, [v, more])
            of = f"scan({v.text} over {name})"
            self.bind(Value(f"({of} * 0.01)", kind, v.varies, False, v.size * 8) if kind == "f32" else Value(of, kind, v.varies, v.exact, v.size))


class Gradient(Kernel):
    """Sums of columns beside results of rows, as gradients have them: both in groups of rows, or rows that are reduced and then the groups; at the end
    what the groups leave is added up.  Where rows are whole there are no fewer than workgroups that take them in turn, 1,056, each of which has one."""

    def inner(self, group, results):
        """Groups of rows: results, where there are some, and one to three sums; the names of what these leave."""
        self.known, self.lines, self.partial = [], [], False
        self.axes = [Axis("m", "by", "M", group), Axis("n", "tiled", "N")]
        self.statements(["m", "n"], [], self.one_of(1, 2, 3, 5))
        values, parts = [v for v in self.known if v.kind == "f32"] or [self.load(["m", "n"], "f32")], []
        for v in values[-self.one_of(1, 1, 2, 2, 3):]:
            missing = {"m", "n"} - v.varies
            if missing:
                v = self.joined(f"({v.text} + {self.load(sorted(missing), 'f32').text})", "f32", [v, Value("", "f32", missing)], exact=False)
            parts.append(f"part{len(parts)}")
            self.declared.append(f"    temp {parts[-1]}: f32[cdiv(M, {group}), N]")
            self.lines.append(f"{parts[-1]}[m/{group}, n] = sum({v.text} over m)")
            if results and not self.chance(.2):
                held = self.one_of("f32", "bf16", "f16")
                self.results.append(f"y{len(self.results)}: {held}[M, N]")
                self.lines.append(f"y{len(self.results) - 1}[m, n] = {v.text if held == 'f32' else f'{held}({v.text})'}")
        return [f"    each m in M by {group}, n in N tiled {{"] + [f"        {x}" for x in self.lines] + ["    }"], parts

    def text(self):
        self.declared, group, rows, body = [], self.one_of(8, 16, 32, 64), self.chance(.4), []
        if rows:
            self.known, self.lines, self.partial, self.fresh_temps = [], [], False, []
            self.axes = [Axis("m", "unit", "M"), Axis("n", "held", "N")]
            self.statements(["m", "n"], [("n", False)], self.one_of(2, 3, 4))
            self.store(self.known[-1])
            body = ["    each m in M {", "        n = 0..N"] + [f"        {x}" for x in self.lines] + ["    }"]
        groups, parts = self.inner(group, not rows)
        sums = [f"s{i}" for i in range(len(parts))]
        self.results += [f"{s}_: f32[N]" for s in sums]
        body += groups + ["    each n in N tiled {"] + [f"        {s}: f32[n] = 0" for s in sums] + [f"        for p in cdiv(M, {group}) tiled {{"]
        body += [f"            {s} += sum({p}[p, n] over p)" for s, p in zip(sums, parts)] + ["        }"] + [f"        {s}_[n] = {s}" for s in sums] + ["    }"]
        sizes = [f"M={self.one_of(1088, 1360)} N=16", f"M={self.one_of(1, 33, 70)} N={self.one_of(7, 33)}"]
        notes = "".join(x + "\n" for x in self.notes)
        return (f"# sizes: {', '.join(sizes)}\n# chips: sm_90a\n{notes}# bound: 2e-3\n# spares: classes\nkernel {self.name}({', '.join(self.inputs)})\n    -> ({', '.join(self.results)})\n{{\n" + "\n".join(self.declared + body) + "\n}\n")


class Attention(Kernel):
    """Softmax over tiles of keys between two products: of one query or of tiles of them, with what models add to the scores, and other ranges of keys."""

    def tensor(self, axes, kinds, optional=False):
        """An input with these axes in some order, the last one last: what it is where it is read."""
        names = axes[:-1]
        self.random.shuffle(names)
        names, name, held = names + axes[-1:], f"t{len(self.inputs)}", self.one_of(*kinds)
        extents = {"b": "B", "h": "H", "g": "G", "i": "S", "j": "L", "d": "D", "r": "R", "e": "E"}
        self.inputs.append(f"{name}{'?' if optional else ''}: {held}[{', '.join(extents[x] for x in names)}]")
        return f"{name}[{', '.join(names)}]"

    def scores(self, i, held):
        """The lines that make s of a tile of keys."""
        lines = [f"s = dot({self.tensor(['b', 'h'] + i + ['d'], [held])}, {self.tensor(['b', 'g', 'j', 'd'], [held])} over d)"]
        if self.chance(.3):
            self.held.append("r = 0..R")
            lines[0] += f" + dot({self.tensor(['b', 'h'] + i + ['r'], [held])}, {self.tensor(['b', 'g', 'j', 'r'], [held])} over r)"
        lines.append(f"x = s * {self.one_of('0.125', 'rsqrt(f32(D))', 'scale')}")
        if "scale" in lines[-1]:
            self.inputs.append("scale: f32 = 0.25")
        more = ["x"]
        if self.chance(.3):
            more[0] = "20.0 * tanh(x * 0.05)"
        if self.chance(.4):
            axes = self.one_of(["h"] + i + ["j"], ["b", "j"], ["h", "j"], ["j"])
            more.append(f"f32({self.tensor(axes, ['f32', 'bf16'], self.chance(.5))})")
        if self.chance(.3):
            more.append(f"0.02 * f32((h + 1) * (j - {i[0] if i else 3}))")
        lines.append(f"y = {' + '.join(more)}")
        if self.chance(.3):
            lines.append(f"z = select({self.tensor(self.one_of(['b', 'j'], i + ['j']), ['i1'])}, y, f32.lowest)")
        return lines, lines[-1][0]

    def keys(self, i):
        """The range of the keys, and which of them are seen."""
        low, high = "0", "L"
        if self.chance(.3):
            high = self.numbers(["b"], "L")
        if self.chance(.2):
            low = self.numbers(["b"], 9)
        seen = [self.one_of("j <= i + (L - S)", "j > i + (L - S) - 9", "j <= i")] * self.chance(.5) if i else []
        seen += [self.one_of("j % 3 != 1", "j < 40", "j >= 2 * h")] * self.chance(.25)
        return f"{'' if low == '0' and high == 'L' else low + '..'}{high} tiled{' where ' * bool(seen)}{' and '.join(seen)}"

    def text(self):
        self.axes, self.held = [Axis("b", "unit", "B"), Axis("h", "unit", "H")], ["d = 0..D"]
        i, held, narrow = ["i"] if self.chance(.75) else [], self.one_of("bf16", "bf16", "f16"), self.chance(.3)
        self.axes += [Axis("i", "tiled", "S")] * bool(i)
        rows, value = ", ".join(i), "d" if self.chance(.7) else "e"
        self.held += ["e = 0..E"] * (value == "e")
        lines, score = self.scores(i, held)
        v = self.tensor(["b", "g", "j", value], [held])
        sink = self.tensor(["h"], ["f32"], True) if self.chance(.3) else ""
        of, states = f"[{rows}]" if rows else "", f"[{', '.join(i + [value])}]"
        lines = ["g = h / (H / G)", f"top: f32{of} = {sink or 'f32.lowest'}", f"den: f32{of} = {'1' if sink else '0'}", f"acc: f32{states} = 0",
                 f"for j in {self.keys(i)} {{"] + lines
        lines += [f"new, old, p = softmax_step({score}, top over j)", "den = den * old + sum(p over j)",
                  f"acc = acc * old + dot({held}(p), {v} over j)", "top = new", "}", "o = select(den > 0, acc * (1 / den), 0)"]
        order = ", ".join(["b", "h"] + i)
        shape = order.upper().replace("I", "S")
        if narrow:
            lines.append(f"y0[{order}, {value}], y1[{order}] = quantize(o over {value}, i8)")
            self.results += [f"y0: i8[{shape}, {value.upper()}]", f"y1: f32[{shape}]"]
        else:
            lines.append(f"y0[{order}, {value}] = {held}(o)")
            self.results.append(f"y0: {held}[{shape}, {value.upper()}]")
        if self.chance(.4):
            self.results.append(f"lse?: f32[{shape}]")
            lines.append(f"lse[{order}] = select(den > 0, max(top, -9999.0) + log(den), 0)")
        depth, body = 2, [f"    each b in B, h in H{', i in S tiled' if i else ''} {{"] + [" " * 8 + x for x in self.held]
        for line in lines:
            depth -= line == "}"
            body.append("    " * depth + line)
            depth += line.endswith("{")
        sizes = []
        for _ in range(3):
            g = self.one_of(1, 2)
            of = {"B": self.one_of(1, 2), "H": g * self.one_of(1, 2, 3), "G": g, "S": self.one_of(1, 2, 5, 33), "L": self.one_of(1, 7, 33, 64, 70),
                  "D": self.one_of(8, 16, 40, 64, 72), "R": self.one_of(8, 16), "E": self.one_of(16, 33, 48)}
            whole = "\n".join(body) + " ".join(self.inputs + self.results)
            sizes.append(" ".join(f"{x}={of[x]}" for x in of if re.search(rf"\b{x}\b", whole)))
        notes = "".join(x + "\n" for x in self.notes)
        return (f"# sizes: {', '.join(sizes)}\n{notes}# bound: 4e-2\n# spares: classes\nkernel {self.name}({', '.join(self.inputs)})\n    -> ({', '.join(self.results)})\n"
                "    require H % G == 0\n{\n" + "\n".join(body) + "\n    }\n}\n")


class Product(Kernel):
    """Sums of products over tiles and groups: of operands as they are, of codes and their scales, of several products a round; rows of groups; masks."""
    SCALED, PLAIN = ("fp8", "fp8", "bf8", "e2m1", "e2m1"), ("bf16", "bf16", "f16", "fp8", "bf8", "e2m1", "i8", "e4m3", "e4m3fnuz")

    def tensor(self, held, axes, extents):
        """An input, and how it is read; e2m1 lies along k, of which there is an even number."""
        order = list(axes)
        if self.chance(.3) and held != "e2m1":
            order[-1], order[-2] = order[-2], order[-1]
        name = f"t{len(self.inputs)}"
        self.inputs.append(f"{name}: {held}[{', '.join(extents[x] for x in order)}]")
        return f"{name}[{', '.join(order)}]"

    def scale(self, axes, extents):
        """Of groups of what is contracted, of rows, or of both."""
        group, name = self.one_of(32, 32, 32, 16, 64, 128), f"t{len(self.inputs)}"
        parts = {"k": (f"cdiv({extents['k']}, {group})", f"k/{group}")}
        order = self.one_of(axes, axes, axes, [x for x in axes if x != "k"], ["k"], axes[::-1])
        self.inputs.append(f"{name}: e8m0[{', '.join(parts.get(x, (extents[x],))[0] for x in order)}]")
        return f"{name}[{', '.join(parts.get(x, (0, x))[1] for x in order)}]"

    def operand(self, held, axes, scaled):
        extents = {"m": "M", "n": "N", "k": "K", "e": "E"}
        read = self.tensor(held, axes, extents)
        return f"scaled({read}, {self.scale(axes, extents)})" if scaled else read

    def term(self, a, b):
        """One product of operands with these axes, and whether it is of integers."""
        if self.chance(.65):
            both, narrow = self.chance(.6), [self.one_of(*self.SCALED) for _ in range(2)]
            other = narrow[1] if both else self.one_of("bf16", "bf16", *self.SCALED)
            sides = [self.operand(narrow[0], a, True), self.operand(other, b, both)] if self.chance(.5) else [self.operand(other, a, both), self.operand(narrow[0], b, True)]
            return f"dot({sides[0]}, {sides[1]} over k)", False
        held = self.one_of(*self.PLAIN)
        return f"dot({self.operand(held, a, False)}, {self.operand(held, b, False)} over k)", held == "i8"

    def text(self):
        experts, form = self.chance(.3), self.one_of("tiled", "tiled", "tiled", "by", "held")
        group = self.one_of(32, 64, 128)
        a, b = ["m", "k"], (["e"] if experts else []) + ["n", "k"]
        heads = ["e in E", "m in first[e]..first[e+1] tiled"] if experts else ["m in M tiled"]
        if experts:
            self.inputs.append("first: i32[E + 1]")
            self.notes.append("# ragged: first M")
        body, products = [], self.one_of(1, 1, 1, 2)
        terms = [self.term(a, b) for _ in range(products)]
        seen = self.one_of("", "", "", "k < L", "k >= 6", "k % 3 != 1") if form == "tiled" else ""
        if "L" in seen:
            self.inputs.append("ends: f32[L]")
        loop = {"tiled": f"for k in K tiled{' where ' * bool(seen)}{seen} {{", "by": f"for k in K by {group} {{"}.get(form)
        for p, (term, whole) in enumerate(terms):
            if form == "held":
                body.append(f"        acc{p} = {term}")
            else:
                body.append(f"        acc{p}: {'i32' if whole else 'f32'}[m, n] = 0")
        if loop:
            body.append("        " + loop)
            body += [f"            acc{p} += {term}" for p, (term, _) in enumerate(terms)]
            body.append("        }")
        else:
            body.insert(0, "        k = 0..K")
        sums = [f"f32(acc{p})" if whole else f"acc{p}" for p, (_, whole) in enumerate(terms)]
        value = f"{sums[0]} * tanh({sums[1]} * 0.01)" if products == 2 else sums[0]
        if self.chance(.3):
            self.inputs.append("bias: f32[N]")
            value = f"{value} + bias[n]"
        if self.chance(.2):
            self.inputs.append("more: f32[cdiv(N, 64)]")
            value = f"({value}) * more[n/64]"
        held = self.one_of("f32", "bf16")
        self.results = [f"y: {held}[M, N]"]
        body.append(f"        y[m, n] = {value if held == 'f32' else f'bf16({value})'}")
        sizes = []
        for _ in range(3):
            k = self.one_of(2, 34, 64, 96, 128) if form == "held" else self.one_of(2, 32, 62, 64, 96, 128, 256, 300, 512)
            of = {"M": self.one_of(1, 5, 33, 70, 130), "N": self.one_of(8, 16, 33, 64, 136), "K": k, "E": self.one_of(1, 3), "L": self.one_of(1, 33, 40, 64)}
            whole = " ".join(self.inputs + self.results)
            sizes.append(" ".join(f"{x}={of[x]}" for x in of if re.search(rf"\b{x}\b", whole)))
        notes = "".join(x + "\n" for x in self.notes)
        return (f"# sizes: {', '.join(sizes)}\n{notes}# bound: 2e-2\n# spares: classes\nkernel {self.name}({', '.join(self.inputs)})\n    -> {self.results[0]}\n{{\n"
                f"    each {', '.join(heads + ['n in N tiled'])} {{\n" + "\n".join(body) + "\n    }\n}\n")
