"""drawn_kernel.py -- kernels drawn at random: what all kinds of them are put together from, and the ordinary kind.

In: a name, which seeds it.  Out: its text, with the comments that lower_test asks for.

Each text is right by construction: rows, tiles, groups of one and two axes, columns, products, one to three phases; loads of every type under
any order of subscripts, shifted, divided, gathered and beyond the ends; tensors as views; scalars, `where`, optional results, updates in any order; arithmetic,
comparisons, casts, reductions, loops with state, stores of what varies with any part of the axes, temporaries that later phases
read.  `exact` says of a value that no order of sums shows in it: only such a one is compared, rounded to few bits, or made an integer; others
differ within a bound.  Magnitudes are kept so small that nothing overflows."""
import random
import re
from collections import namedtuple

TYPES = ["f32", "f32", "bf16", "f16", "e4m3", "e5m2", "i8", "u8", "i32", "fp8"]
STORED = {("f32", True): ["f32", "bf16", "f16", "fp8", "e5m2", "i8"], ("f32", False): ["f32", "bf16", "f16", "f32"],
          ("i32", True): ["i32", "i32", "i8", "u8"], ("i64", True): ["i64", "i64", "i32", "u8"], ("i1", True): ["i8", "u8", "i32"]}
ROWS = [1, 2, 3, 5, 16, 33, 64, 70]
COLUMNS = [1, 2, 7, 8, 16, 24, 33, 48, 64, 77, 96, 100, 128, 130, 200, 256, 257, 384, 512, 769, 1024, 2000, 4096]
MANY_INPUTS, MOST_PARAMETERS, MOST_ELEMENTS = 24, 32, 40000      # from which on loads are shared; the language's; of M x N, and 16 times as many of M x N x K

# An index: its kind is "unit" (a number), "tiled", "held" or "by"; groups of `group` positions, 0 where there are none.
Axis = namedtuple("Axis", "name kind extent group", defaults=[0])


class Value:
    """An expression: what it varies with (names of axes, "n/16" for a group of n's), and how large it gets."""

    def __init__(self, text, kind, varies, exact=True, size=2.0):
        self.text, self.kind, self.varies, self.exact, self.size = text, kind, frozenset(varies), exact, size


class Kernel:
    GROUPS = (0, 8, 16, 24, 32, 48, 64, 128)                         # of rows
    FORMS = ("rows", "rows", "rows", "points", "groups", "blocks", "columns", "product", "planes")   # of the first phase

    def __init__(self, name):
        self.random = random.Random(name)
        self.name = name
        self.inputs, self.results, self.notes, self.names = [], [], [], 0
        self.temps = []                                              # (name, kind, what it varies with, exact, size) of the phases before

    def one_of(self, *choices):
        return self.random.choice(choices)

    def chance(self, p):
        return self.random.random() < p

    # --- values

    def scalar(self, kind):
        name = f"c{len(self.inputs)}"
        default = self.one_of("0.5", "-1.25", "3.0") if kind == "f32" else self.one_of("0", "2", "-3", "7" if kind == "i32" else "9007199254740991")
        self.inputs.append(f"{name}: {kind} = {default}")
        return Value(name, kind, [], True, 7)

    def numbers(self, axes, below):
        """A tensor's whole numbers in 0 .. below - 1, one for each position of these axes: places in another one, lengths."""
        name, where = f"t{len(self.inputs)}", [self.subscript(a) for a in axes] or [("0", "1")]
        self.inputs.append(f"{name}{'?' if self.chance(.05) else ''}: i32[{', '.join(e for _, e in where)}]")
        self.notes.append(f"# below: {name} {below}")
        return f"{name}[{', '.join(s for s, _ in where)}]"

    def axis(self, what):
        return next(a for a in self.axes if a.name == what.split("/")[0])

    def subscript(self, what):
        a = self.axis(what)
        return (f"{a.name}/{a.group}", f"cdiv({a.extent}, {a.group})") if "/" in what else (a.name, a.extent)

    def joined(self, text, kind, values, exact=None, size=None):
        varies = frozenset().union(*[v.varies for v in values])
        varies -= {a.name + "/" + str(a.group) for a in self.axes if a.name in varies}
        return Value(text, kind, varies, all(v.exact for v in values) if exact is None else exact, max(v.size for v in values) if size is None else size)

    def load(self, axes, kind):
        axes, subscripts = list(axes), []
        self.random.shuffle(axes)
        for a in axes:
            at, extent = self.subscript(a)
            if "/" not in a and self.chance(.12):
                c = self.one_of(1, 2, 3, 7, 8)
                d = c + 1 + (c + 1 == self.axis(a).group)              # by as many as a group has it would be the group's number
                at, extent = self.one_of((f"{at} + {c}", extent), (f"{at} - {c}", extent), (f"{at} / {d}", f"cdiv({extent}, {d})"),
                                         (f"{at} % {c + 1}", f"{c + 1}"), (f"{extent} + {at}", f"2*{extent}"))
            subscripts.append((at, extent))
        if len(subscripts) < 6 and self.chance(.05):
            subscripts.insert(self.random.randrange(len(subscripts) + 1), (str(self.one_of(0, 1, 2)), "3"))
        if axes and self.chance(.08):
            rows, most = self.one_of((5, 5), (7, 9))
            at = self.random.randrange(len(axes))
            subscripts[at] = (self.numbers(axes[at:at + self.one_of(1, 1, 2)], most), str(rows))
        subscripts = subscripts or [("0", "1")]
        held = kind if kind in ("i1", "i64") else self.one_of("i32", "i32", "i8", "u8") if kind == "i32" else self.one_of(*TYPES)
        name = f"t{len(self.inputs)}"
        optional = "?" if held != "i1" and self.chance(.1) else ""
        self.inputs.append(f"{name}{optional}: {held}[{', '.join(e for _, e in subscripts)}]")
        text = f"{name}[{', '.join(s for s, _ in subscripts)}]"
        return Value(text if held == kind else f"{kind}({text})", kind, axes, True, 2 if held[0] in "fbe" else 100)

    def keep(self, last):
        """A value of this phase for the next one, in a temporary; not of a last phase, nor where some positions are not there."""
        kept = [v for v in self.known if v.kind in ("f32", "i32") and v.varies]
        if last or self.partial or not kept or not self.chance(.8):
            return
        v, name = self.random.choice(kept), f"kept{len(self.temps)}"
        axes = sorted(v.varies)
        self.random.shuffle(axes)
        where = [self.subscript(a) for a in axes]
        self.declared.append(f"    temp {name}: {v.kind}[{', '.join(e for _, e in where)}]")
        self.lines.append(f"{name}[{', '.join(s for s, _ in where)}] = {v.text}")
        self.fresh_temps.append((name, v.kind, axes, v.exact, v.size))

    def kept(self, kind, axes):
        """What a phase before has kept, at this one's positions: of an axis that is not here at the first one."""
        of = [t for t in self.temps if t[1] == kind]
        if not of:
            return None
        name, _, varies, exact, size = self.random.choice(of)
        here, at, mine = {a.name: a for a in self.axes if a.name in axes}, [], []
        for w in varies:
            index, _, group = w.partition("/")
            a = here.get(index)
            at.append("0" if a is None else w)
            if a is not None:
                mine.append(w if group and str(a.group) == group else index)
        return Value(f"{name}[{', '.join(at)}]", kind, mine, exact, size)

    def some(self, axes):
        axes = [a for a in axes if "/" not in a]
        return axes if self.chance(.7) else [a for a in axes if self.chance(.6)]

    def leaf(self, kind, axes):
        kept = self.kept(kind, axes) if self.temps and self.chance(.25) else None
        if kept:
            return kept
        known = [v for v in self.known if v.kind == kind and all(w.split("/")[0] in axes for w in v.varies)]
        if known and (len(self.inputs) > MANY_INPUTS or self.chance(.65)):
            return self.random.choice(known[-6:])
        if kind != "i1" and (len(self.inputs) > MANY_INPUTS or self.chance(.08)):
            if self.chance(.3):
                return self.scalar(kind)
            number = self.one_of("0.5", "2.0", "-1.25", "3.0", "0.125") if kind == "f32" else self.one_of("1", "3", "7", "16", "-5")
            return Value(f"i64({number})" if kind == "i64" else number, kind, [], True, 16)
        if kind == "i32" and self.chance(.3):
            a = self.random.choice(axes)
            extent = self.axis(a).extent
            return Value(extent, "i32", [], True, 3000) if extent.isalpha() and self.chance(.2) else Value(a, "i32", [a], True, 3000)
        optional = [x.split("?")[0] for x in self.inputs if "?" in x]
        if kind == "i1" and optional and self.chance(.2):
            return Value(f"has({self.random.choice(optional)})", "i1", [])
        return self.load(self.some(axes), kind)

    def exact(self, kind, axes, depth):
        for _ in range(6):
            inputs, notes = len(self.inputs), len(self.notes)
            v = self.value(kind, axes, depth)
            if v.exact:
                return v
            del self.inputs[inputs:], self.notes[notes:]
        return self.load(self.some(axes), kind)

    def value(self, kind, axes, depth):
        if depth <= 0 or self.chance(.12):
            return self.leaf(kind, axes)
        return {"i1": self.condition, "i32": self.integer, "i64": self.wide, "f32": self.real}[kind](axes, depth - 1)

    def condition(self, axes, depth):
        way = self.random.randrange(5)
        if way < 3:
            kind = "f32" if way < 2 else self.one_of("i32", "i32", "i64")
            a, b = (f(kind, axes, depth) for f in (self.exact if way < 2 else self.value,) * 2)
            return self.joined(f"({a.text} {self.one_of('<', '<=', '>', '>=', '==', '!=')} {b.text})", "i1", [a, b], size=1)
        a = self.value("i1", axes, depth)
        if way == 4:
            return self.joined(f"(not {a.text})", "i1", [a])
        b = self.value("i1", axes, depth)
        return self.joined(f"({a.text} {self.one_of('and', 'or')} {b.text})", "i1", [a, b])

    def wide(self, axes, depth):
        """Of 64 bits: of 32 ones, or what these have too."""
        if self.chance(.4):
            a = self.value("i32", axes, depth)
            return self.joined(f"i64({a.text})", "i64", [a])
        return self.integer(axes, depth, "i64")

    def integer(self, axes, depth, kind="i32"):
        way = self.random.randrange(11)
        if way >= 8:
            of = self.one_of("i64", "i32") if way == 10 else "i64" if way == 9 else "f32"
            a = self.exact(of, axes, depth)
            if way == 8 or kind == "i64":
                low = "-1000.0" if of == "f32" else "-1000"
                return self.joined(f"{kind}(min(max({a.text}, {low}), {low[1:]}))" if of == "f32" else f"{'abs' if of == kind else kind}({a.text})", kind, [a], size=1000)
            if way == 9:
                return self.joined(f"i32({a.text})", kind, [a])
            b = self.value(of, axes, depth)
            return self.joined(f"philox({a.text}, {b.text})", kind, [a, b])
        a = self.value(kind, axes, depth)
        if way == 7:
            return self.joined(f"{self.one_of('shl', 'shr')}({a.text}, {self.one_of(0, 1, 3, 5)})", kind, [a])
        b = self.value(kind, axes, depth)
        if way == 6:
            c = self.value("i1", axes, depth)
            same = a.text in (b.text, f"shl({b.text}, 0)", f"shr({b.text}, 0)") or b.text in (f"shl({a.text}, 0)", f"shr({a.text}, 0)")
            return a if same else self.joined(f"select({c.text}, {a.text}, {b.text})", kind, [a, b, c])
        if way == 5:
            return self.joined(f"{self.one_of('min', 'max', 'bitand', 'bitor', 'bitxor', 'cdiv')}({a.text}, {b.text})", kind, [a, b])
        return self.joined(f"({a.text} {self.one_of('+', '-', '*', '/', '%')} {b.text})", kind, [a, b])

    def real(self, axes, depth):
        way = self.random.randrange(14)
        if way in (7, 8, 13):
            a = self.exact("f32", axes, depth)
            if way == 13:
                return self.joined(f"from_bits(bitand(bits({a.text}), {self.one_of('-65536', '-8192', '0x7fffffff')}))", "f32", [a])
            if way == 7:
                return self.joined(f"f32({self.one_of('bf16', 'f16', 'fp8', 'e5m2', 'e4m3', 'bf16')}({a.text}))", "f32", [a])
            return self.joined(f"{self.one_of('floor', 'ceil', 'round')}({a.text})", "f32", [a], size=a.size + 1)
        if way == 9:
            a = self.value(self.one_of("i32", "i32", "i64"), axes, depth)
            return self.joined(f"f32(min(max({a.text}, -1000), 1000))", "f32", [a], size=1000)
        a = self.value("f32", axes, depth)
        if way == 10:
            return self.joined(f"{self.one_of('abs', '-')}({a.text})", "f32", [a])
        if way == 12:
            text = self.one_of("tanh({})", "sigmoid({})", "silu({})", "gelu({})", "softplus({})", "sqrt(abs({}) + 1.0)", "exp(-abs({}))", "gelu_tanh({})",
                               "log(abs({}) + 0.5)", "log2(abs({}) + 0.5)", "exp2(min({}, 3.0))", "erf({})", "rsqrt(abs({}) + 0.5)", "sin({})", "cos({})",
                               "rcp(abs({}) + 0.5)", "normcdf({})", "qgelu({})")
            return self.joined(text.format(a.text), "f32", [a], exact=False)
        b = self.value("f32", axes, depth)
        if way == 11:
            return self.joined(f"({a.text} / (abs({b.text}) + 1.0))", "f32", [a, b], exact=False)
        if way == 4 or a.size * b.size > 1e4:
            return self.joined(f"{self.one_of('min', 'max')}({a.text}, {b.text})", "f32", [a, b])
        if way in (5, 6):
            c = self.value("f32" if way == 5 else "i1", axes, depth)
            if way == 5:
                return self.joined(f"fma({a.text}, {b.text}, {c.text})", "f32", [a, b, c], size=a.size * b.size + c.size)
            return a if a.text == b.text else self.joined(f"select({c.text}, {a.text}, {b.text})", "f32", [a, b, c])
        sign = self.one_of("+", "-", "*")
        return self.joined(f"({a.text} {sign} {b.text})", "f32", [a, b], size=a.size * b.size if sign == "*" else a.size + b.size)

    def reduced(self, axes, over):
        name, grouped = self.random.choice(over)
        kind = self.one_of("f32", "f32", "f32", "f32", "i32", "i32", "i1", "i64")
        v = self.value(kind, axes, self.one_of(1, 2, 3))
        if name not in v.varies:
            more = self.load(sorted(set(self.some(axes)) | {name}), kind)
            v = self.joined(f"({v.text} {'and' if kind == 'i1' else '+'} {more.text})", kind, [v, more])
        a = self.axis(name)
        left = v.varies - {name} | ({f"{name}/{a.group}"} if grouped or a.kind == "by" else set())
        over = f"{name} by {a.group}" if grouped else name
        other = [x.name for x in self.axes if x.kind == "held" and x.name in left]
        if other and not grouped and self.chance(.4):
            over, left = f"{name}, {other[0]}", left - {other[0]}
        if kind == "i1":
            return Value(f"{self.one_of('any', 'all')}({v.text} over {over})", kind, left, v.exact, 1)
        if v.exact and a.kind == "held" and not a.group and "," not in over and self.chance(.12):
            return Value(f"argmax({v.text} over {over})", "i32", left, True, 4096)
        if kind in ("i32", "i64"):
            return Value(f"{self.one_of('sum', 'max', 'min', 'prod')}({v.text} over {over})", kind, left, v.exact, v.size)
        f = self.one_of("sum", "mean", "max", "min", "max")
        if f in ("max", "min"):
            return Value(f"min(max({f}({v.text} over {over}), -9999.0), 9999.0)", kind, left, v.exact, v.size)
        return Value(f"mean({v.text} over {over})" if f == "mean" else f"(sum({v.text} over {over}) * 0.01)", kind, left, False, v.size * 8)

    # --- statements

    def fresh(self, letter):
        self.names += 1
        return f"{letter}{self.names}"

    def bind(self, v):
        name = self.fresh("v")
        self.lines.append(f"{name} = {v.text}")
        self.known.append(Value(name, v.kind, v.varies, v.exact, v.size))

    def statements(self, axes, over, count):
        for _ in range(count):
            self.bind(self.reduced(axes, over) if over and self.chance(.4) else self.value(self.one_of("f32", "f32", "f32", "f32", "i32", "i32", "i1", "i64"), axes, self.one_of(1, 2, 3, 3)))

    def quantised(self, axes, over):
        """A value in few bits and its scale, both stored, the first with its own axes; of quantize_mx both are exact."""
        name, grouped = self.random.choice(over)
        a, scaled = self.axis(name), self.chance(.5)
        v, more = self.value("f32", axes, 2), self.load(sorted(set(self.some(axes)) | {name}), "f32")
        v = self.joined(f"({v.text} + {more.text})", "f32", [v, more])
        q, s, of = self.fresh("q"), self.fresh("s"), self.one_of("e4m3", "e5m2", "fp8", "i8") if scaled else self.one_of("e4m3", "e5m2", "e2m1", "e2m1")
        left = v.varies - {name} | ({f"{name}/{a.group}"} if grouped or a.kind == "by" else set())
        call = "quantize" if scaled else "quantize_mx"
        self.lines.append(f"{q}, {s} = {call}({v.text} over {name}{f' by {a.group}' if grouped else ''}, {of})")
        y, last = f"y{len(self.results)}", name if of == "e2m1" else self.random.choice(sorted(v.varies))
        order = sorted(v.varies - {last}) + [last]
        self.results.append(f"{y}: {of}[{', '.join(self.subscript(x)[1] for x in order)}]")
        self.lines.append(f"{y}[{', '.join(self.subscript(x)[0] for x in order)}] = {q}")
        self.known += [Value(f"f32({q})", "f32", v.varies, v.exact and not scaled, 448), Value(s, "f32", left, v.exact and not scaled, 1e4)]
        self.store(self.known[-1], "f32" if scaled else self.one_of("e8m0", "f32"))

    def bounds(self, axes):
        """A range of a loop: of a number, of what a tensor says of this position or of each of its axes; and the most positions that it has."""
        most, way = self.one_of("3", "5"), self.random.randrange(6)
        if way < 3:
            return most, most
        of = [a for a in axes if self.axis(a).kind == "unit"] if way < 5 else self.some(axes)
        low = self.numbers(of, 3) if self.chance(.3) else self.one_of("0", "0", "1", "-2")
        return f"{low}..{self.numbers(of, 7)}", "5"

    def loop(self, axes, over, nested=False):
        kind, state, t, (times, most) = self.one_of("f32", "f32", "i32", "i64"), self.fresh("s"), self.fresh("k"), self.bounds(axes)
        varies = [a for a in axes if self.axis(a).kind != "unit"]
        first = self.one_of("0", "1.5", "f32.lowest") if kind == "f32" else "0"
        if self.chance(.25):
            v = self.leaf(kind, axes)
            missing = sorted(set(varies) - v.varies)
            first = f"min({v.text}, {'4.0' if kind == 'f32' else '9'})"
            first = f"fill({first} over {', '.join(missing)})" if missing else first
        where = f" where {t} {self.one_of('<', '!=', '>')} {self.random.choice(axes)}" if self.chance(.15) else ""
        self.lines += [f"{state}: {kind}{'[' + ', '.join(varies) + ']' if varies else ''} = {first}", f"for {t} in {times}{where} {{"]
        outside = list(self.known)
        self.axes.append(Axis(t, "unit", most))
        self.statements(axes + [t], over, self.one_of(1, 2))
        if not nested and self.chance(.2):
            self.loop(axes + [t], over, True)
        v, more = self.value(kind, axes + [t], 2), self.load(axes + [t], kind)
        step = f"(min(max({v.text}, -4.0), 4.0) + {more.text})" if kind == "f32" else f"({v.text} + {more.text})"
        update = self.one_of(f"{state} max= {step}", f"{state} += {step}", f"{state} = {state} * {'0.5' if kind == 'f32' else '3'} + {step}")
        units = [a for a in axes + [t] if self.axis(a).kind == "unit"]
        if units and self.chance(.2):
            update = f"if {self.random.choice(units)} % 3 != {self.one_of(0, 1)} {{ {update} }}"
        self.lines += [update, "}"]
        self.axes.pop()
        self.known = outside + [Value(state, kind, axes, kind != "f32" and v.exact, 1e4)]

    def sweep(self, axes):
        """State over tiles, or groups, of another axis, which are reduced one after the other."""
        kind, state, k = self.one_of("f32", "f32", "i32"), self.fresh("s"), self.fresh("k")
        varies, group = [a for a in axes if self.axis(a).kind != "unit"], self.one_of(0, 0, 16, 32)
        low = self.one_of("", "", "2..", f"{self.numbers([a for a in axes if self.axis(a).kind == 'unit'], 9)}..")
        self.lines += [f"{state}: {kind}{'[' + ', '.join(varies) + ']' if varies else ''} = 0",
                       f"for {k} in {'' if group else low}K{f' by {group}' if group else ' tiled'}{self.one_of('', '', f' where {k} % 5 != 1')} {{"]
        outside = list(self.known)
        self.axes.append(Axis(k, "by" if group else "tiled", "K", group))
        v, more = self.value(kind, axes + [k], 2), self.load(axes + [k], kind)
        term = f"min(max({v.text}, -4.0), 4.0) + {more.text}" if kind == "f32" else f"{v.text} + {more.text}"
        f = self.one_of("sum", "sum", "max")
        self.lines += [f"{state} {'+=' if f == 'sum' else 'max='} {f}({term} over {k}){' * 0.05' if kind == 'f32' else ''}", "}"]
        self.axes.pop()
        self.known = outside + [Value(state, kind, axes, kind == "i32" and v.exact, 50)]

    def row_in_place(self, axes):
        """A tensor that is read here; the line that stores to it at the end, of a value with all of the axes."""
        names = list(axes)
        self.random.shuffle(names)
        held = self.one_of("f32", "bf16", "f16", "i32")
        kind, name, where = "i32" if held == "i32" else "f32", f"x{len(self.inputs)}", [self.subscript(a) for a in names]
        at = f"{name}[{', '.join(s for s, _ in where)}]"
        self.inputs.append(f"inout {name}: {held}[{', '.join(e for _, e in where)}]")
        self.bind(Value(at if held == kind else f"f32({at})", kind, axes, True, 100))

        def line():
            known = [v for v in self.known if v.kind == kind and v.varies == set(axes) and (v.exact or kind == "f32")]
            v = self.random.choice(known)
            return f"{at} = {v.text if held == kind else f'{held}({v.text})'}"
        return line

    def store(self, v, held=None):
        missing = [a.name for a in self.axes if a.kind != "held" and not {a.name, f"{a.name}/{a.group}"} & v.varies]
        if self.partial and missing:             # nobody knows which workgroup is the first that is there
            more = self.load(missing, v.kind)
            v = self.joined(f"({v.text} {'and' if v.kind == 'i1' else '+'} {more.text})", v.kind, [v, more])
        axes = sorted(v.varies)
        self.random.shuffle(axes)
        where = [self.subscript(a) for a in axes] or [("0", "1")]
        held, name = held or self.one_of(*STORED.get((v.kind, v.exact), STORED[(v.kind, True)])), f"y{len(self.results)}"
        self.results.append(f"{name}{'?' if self.chance(.1) else ''}: {held}[{', '.join(e for _, e in where)}]")
        self.lines.append(f"{name}[{', '.join(s for s, _ in where)}] = {v.text if v.kind == held else f'{held}({v.text})'}")

    def update(self, axes):
        """A tensor that many positions raise or add to, in places that a tensor gives or in those of some axes: only what no order shows."""
        kind, name = self.one_of("i32", "i32", "f32"), f"sum{len(self.inputs)}"
        v = self.exact(kind, axes, 2)
        if kind == "f32":
            v = Value(f"floor(min(max({v.text}, -9.0), 9.0))", kind, v.varies, True, 9)
        named = sorted(v.varies | {a.name for a in self.axes if a.kind in ("tiled", "by") and a.name not in v.varies and f"{a.name}/{a.group}" not in v.varies})
        where = [self.subscript(a) for a in named]
        if len(named) > len(v.varies):
            v = Value(f"fill({v.text} over {', '.join(sorted(set(named) - v.varies))})", kind, named, True, v.size)
        if named and self.chance(.4):
            where = [(self.numbers(named, 6), "5")]
        where = where or [("0", "1")]
        self.inputs.append(f"inout {name}: {kind}[{', '.join(e for _, e in where)}]")
        self.notes.append(f"# below: {name} 50")
        self.lines.append(f"{name}[{', '.join(s for s, _ in where)}] {self.one_of('+=', '+=', 'max=', 'min=')} {v.text}")

    def product(self, batch):
        """Sums of products in acc, over tiles or over groups, each with its scale; of rows that a tensor gives."""
        held, group = self.one_of("bf16", "bf16", "f16", "fp8", "i8", "f32"), self.one_of(0, 0, 0, 8, 16, 24, 32, 48, 64)
        kind = "i32" if held == "i8" and not group else "f32"
        a, b = (f"{batch}{self.one_of(*order)}" for order in (("m, k", "k, m"), ("n, k", "k, n")))
        n = len(self.inputs)
        self.inputs += [f"t{n}: {held}[{a.upper()}]", f"t{n + 1}: {held}[{b.upper()}]"]
        if self.chance(.15):
            a = re.sub(r"\bm\b", self.numbers(["m"], "M"), a)
        term = f"dot(t{n}[{a}], t{n + 1}[{b}] over k)"
        if group:
            self.inputs.append(f"t{len(self.inputs)}: f32[M, cdiv(K, {group})]")
            term = (term if held != "i8" else f"f32({term})") + f" * t{len(self.inputs) - 1}[m, k/{group}] * 0.3"
        low = self.one_of("", "", "", "3..")
        self.lines += [f"acc: {kind}[m, n] = 0", f"for k in {f'K by {group}' if group else low + 'K tiled'} {{", f"acc += {term}", "}"]
        self.known.append(Value("acc" if kind == "i32" else "(acc * 0.05)", kind, [x.name for x in self.axes], kind == "i32", 8))

    def where(self, a):
        """Some of the positions of an index of `each`, by it and by those in front of it."""
        if not self.chance(.12):
            return ""
        self.partial = True
        units = [x.name for x in self.axes[:self.axes.index(a)] if x.kind == "unit"]
        limits = ["5", "20", "40"] + [f"3 * {u}" for u in units] + [self.numbers(units, a.extent)] * self.chance(.4)
        return f" where {a.name} {self.one_of('<', '<', '>=')} {self.one_of(*limits)}" + self.one_of("", "", f" and {a.name} % 3 != 1")

    def phase(self, form, last):
        self.known, self.lines, before, self.partial, self.fresh_temps = [], [], [], False, []
        self.axes = [Axis("b", "unit", "B")] if self.chance(.2) else []
        batch, over = "b, " if self.axes else "", []
        if form == "rows":
            group = self.one_of(*self.GROUPS)
            self.axes += [Axis("m", "unit", "M"), Axis("n", "held", "N", group)]
            over = [("n", False)] + ([("n", True)] * 2 if group else [])
        elif form == "groups":
            self.axes += [Axis("m", "unit", "M"), Axis("n", "by", "N", self.one_of(8, 16, 24, 32, 40, 64, 128))]
            over = [("n", False)]
        elif form == "blocks":
            self.axes += [Axis("m", "by", "M", self.one_of(8, 16, 24, 32, 64)), Axis("n", "by", "N", self.one_of(16, 32, 64, 128))]
            over = [("n", False), ("m", False)]
        elif form == "columns":
            self.axes += [Axis("m", "held", "M"), Axis("n", "tiled", "N")]
            over = [("m", False)]
        elif form == "planes":
            self.axes += [Axis("m", "unit", "M"), Axis("k", "held", "K"), Axis("n", "held", "N")]
            over = [("n", False), ("k", False)]
        else:
            self.axes += [Axis("m", "tiled" if form == "product" else self.one_of("unit", "tiled"), "M"), Axis("n", "tiled", "N")]
        if form == "product" and self.chance(.5):
            self.axes[-1] = self.one_of(Axis("n", "held", "N"), Axis("n", "by", "N", self.one_of(8, 24, 32, 64, 128)))
            over = [("n", False)]
        axes, in_place = [a.name for a in self.axes], None
        head = [f"{a.name} in {a.extent}" + {"unit": "", "tiled": " tiled", "by": f" by {a.group}"}[a.kind] + self.where(a) for a in self.axes if a.kind != "held"]
        before = [f"{a.name} = 0..{a.extent}" for a in self.axes if a.kind == "held"]
        if form == "product":
            self.product(batch)
        elif self.chance(.25):
            self.loop(axes, over if form == "rows" else [])
        elif self.chance(.15) and form not in ("planes", "blocks"):
            self.sweep(axes)
        if self.chance(.12):
            in_place = self.row_in_place(axes)
        self.statements(axes, over, self.one_of(2, 3, 4, 6))
        if self.chance(.15):
            self.loop(axes, over)
        if over and self.chance(.15) and not self.partial:
            self.quantised(axes, over)
        for v in self.random.sample(self.known, min(len(self.known), self.one_of(1, 2, 3))):
            self.store(v)
        self.store(self.known[-1])
        if in_place:
            self.lines.append(in_place())
        self.keep(last)
        if self.chance(.2):
            self.update(axes)
        self.temps += self.fresh_temps
        depth, out = 2, [f"    each {', '.join(head)} {{"]
        for line in before + self.lines:
            depth -= line == "}"
            out.append("    " * depth + line)
            depth += line.endswith("{")
        return out + ["    }"]

    def text(self):
        form, body, self.declared = self.one_of(*self.FORMS), [], []
        phases = self.one_of(1, 1, 1, 2, 2, 3)
        for i in range(phases):
            body += self.phase(form, i == phases - 1)
            form = self.one_of("rows", "points", "groups")
        whole = "\n".join(body) + " ".join(self.inputs + self.results)
        sizes = []
        for _ in range(4):
            n, m = self.one_of(*COLUMNS), self.one_of(*ROWS)
            m = m if m * n <= MOST_ELEMENTS else 2
            k = self.one_of(1, 3, 8, 16, 32, 33, 64, 100, 128)
            of = {"M": m, "N": n, "B": self.one_of(1, 2), "K": k if m * n * k <= 16 * MOST_ELEMENTS else 3}
            of.update({s: of[s] + of[s] % 2 for s in re.findall(r"e2m1\[[^]]*\b([MNBK])\]", whole)})   # whose elements lie in pairs
            sizes.append(" ".join(f"{s}={of[s]}" for s in "MNBK" if re.search(rf"\b{s}\b", whole)))
        if self.chance(.4):
            self.notes.append(f"# views: {self.random.randrange(1, 1000)}")
        notes = "".join(x + "\n" for x in self.notes)
        return (f"# sizes: {', '.join(sizes)}\n{notes}# bound: 2e-3\n# spares: classes\nkernel {self.name}({', '.join(self.inputs)})\n    -> ({', '.join(self.results)})\n{{\n" +
                "\n".join(self.declared + body) + "\n}\n" + self.pack(sizes))

    def pack(self, sizes):
        """A line that gives some of the columns, and some of the optional tensors, variants of their own."""
        if not self.chance(.25):
            return ""
        columns = sorted({int(n) for n in re.findall(r"N=(\d+)", " ".join(sizes))})[:2]
        optional = [x.split("?")[0] for x in self.inputs + self.results if "?" in x]
        given = self.random.sample(optional, self.random.randrange(len(optional) + 1))
        parts = [f"N {' '.join(str(n) for n in columns)}"] if columns else []
        parts += [f"with {' '.join(x + self.one_of('', '', '?') for x in given)}".rstrip()] if optional and self.chance(.6) else []
        return f"pack {{\n    {self.name}: {', '.join(parts)}\n}}\n" if parts else ""
