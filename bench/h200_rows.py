"""h200_rows.py -- every row kernel of the pack with inputs, an f64 reference and the rule its results must follow, in torch.

In: a place (device, the target's fp8), a kernel's name and extents.  Out: cases: arguments by name, outputs poisoned, and what to expect
of each.  References are written here from the kernels' formulas, in f64 torch operations on the same place; where numerics leave no
choice (quantising given numbers, casts, sums of two) the expectation is bytes, from f32 operations.  The rules are those of the
project's tests: scales within 4 f32 ulp; codes one step apart at most, in at most one of 10^4 elements, ties to within f32's errors left
out; 16-bit results within 1 ulp for 99.99 % and 2 always; sums beside the sum of their terms' magnitudes.
"""
import math

import torch

F64, F32, BF16, U8 = torch.float64, torch.float32, torch.bfloat16, torch.uint8
TOP = {torch.float8_e4m3fn: 448.0, torch.float8_e4m3fnuz: 240.0, torch.int8: 127.0}
POISON = 0xFF                                                # NaN in most types
TIE = 2.0 ** -19                                             # f32 brings a few ulp to a quotient of products
BESIDE = 1e-4                                                # of codes, so many may be a step beside the reference's


class Place:
    """Where tensors are made, and with which numbers; fp8: the target's own type."""

    def __init__(self, device, fp8, seed=1):
        self.device, self.fp8 = device, fp8
        self.random = torch.Generator(device=device).manual_seed(seed)

    def normal(self, *shape, dtype=BF16, scale=1.0, offset=0.0):
        return (torch.randn(*shape, generator=self.random, device=self.device, dtype=F32) * scale + offset).to(dtype)

    def empty(self, shape, dtype):
        """Poisoned: what is not written does not agree."""
        made = torch.empty(shape, device=self.device, dtype=dtype)
        made.view(U8).fill_(POISON)
        return made

    def ints(self, values):
        return torch.tensor(values, device=self.device, dtype=torch.int32)


# ---- rules: (got) -> None, or what is wrong

def ulp(x, bits, least):
    """The step of a format with `bits` bits of significand at |x|, f64."""
    _, e = torch.frexp(x.abs())
    return torch.exp2((e.to(F64) - bits).clamp_min(least))


def plain(ref):
    """16-bit results; rows are the last dimension."""
    def rule(got):
        bits, least = (8, -133) if got.dtype == BF16 else (11, -24)
        rounded, g = ref.to(got.dtype).to(F64), got.to(F64)
        if not torch.equal(torch.isnan(rounded), torch.isnan(g)):
            return "NaN on one side"
        off = ((g - rounded).abs() / ulp(rounded, bits, least)).nan_to_num(0)
        flat = ref.reshape(-1, ref.shape[-1]) if ref.dim() else ref.reshape(1, 1)
        small = (flat.abs() < flat.square().mean(-1, keepdim=True).sqrt() * 2.0 ** -10).reshape(ref.shape)
        off = off.masked_fill(small, 0)
        over1, over2 = int((off > 1.001).sum()), int((off > 2.001).sum())
        if over2 or over1 > max(1e-4 * off.numel(), 0):
            return f"{over1} of {off.numel()} over 1 ulp, {over2} over 2, worst {float(off.max()):.3g}"
        far = float((g - rounded).abs().masked_fill(~small, 0).max() / max(float(ref.abs().max()), 1e-30))
        return f"small elements off by {far:.2g} of the largest" if far > 2.0 ** -9 else None
    return rule


def single(ref, ulps=4.0, slack=0.0):
    """f32 results; nothing below 2^-10 of the root mean square counts.  slack: what f32 loses besides where terms cancel."""
    def rule(got):
        floor = ref.square().mean().sqrt() * 2.0 ** -10
        off = ((got.to(F64) - ref).abs() - slack) / ulp(torch.maximum(ref.abs(), floor), 24, -149)
        worst = float(off.max()) if off.numel() else 0.0
        return None if worst <= ulps else f"{worst:.3g} ulp of f32 off; {ulps:g} allowed"
    return rule


def total(ref, terms, updates=0):
    """Sums in f32: `terms` is the sum of magnitudes.  updates: so many are added up by atomics in any order, each rounded to half an ulp."""
    allowed = 2.0 ** -20 + 2.0 ** -22 * math.sqrt(updates)

    def rule(got):
        worst = float(((got.to(F64) - ref).abs() / terms.clamp_min(1e-30)).max())
        return None if worst <= allowed else f"{worst:.3g} of the terms' magnitudes off; {allowed:.3g} allowed"
    return rule


def same(want):
    def rule(got):
        a, b = (x.reshape(-1).contiguous().view(U8) for x in (got, want.to(got.device)))
        wrong = int((a != b).sum()) if a.shape == b.shape else -1
        return None if wrong == 0 else f"{wrong} of {a.numel()} bytes differ"
    return rule


def steps(dtype, device):
    """The finite values of a code in order, and of each byte its place among them (-1000: NaN)."""
    every = torch.arange(256, device=device, dtype=torch.int32).to(U8)
    value = (every.view(torch.int8).to(F64) if dtype == torch.int8 else every.view(dtype).to(F32).to(F64))
    value = torch.where(value == -128, torch.full_like(value, math.nan), value) if dtype == torch.int8 else value
    finite = torch.unique(value[torch.isfinite(value)])
    place = torch.searchsorted(finite, value.nan_to_num(0))
    return finite, torch.where(torch.isfinite(value), place, torch.full_like(place, -1000))


class Beside:
    """Codes beside the reference's, of all that rules of codes looked at: BESIDE is a rate, of which a call of few has more by chance."""
    wrong = looked_at = 0

    @classmethod
    def take(cls):
        """What is wrong with the rate since the last call, None = nothing."""
        wrong, n, cls.wrong, cls.looked_at = cls.wrong, cls.looked_at, 0, 0
        return f"{wrong} of {n} codes of all calls differ" if wrong > max(1, BESIDE * n) else None


def codes(exact, skip=None, slack=None):
    """exact: values in steps of the scale, not rounded, f64.  skip: elements whose scale was itself at a boundary.  slack: the error that
    f32 may bring where terms cancel.  Of one call's codes three standard deviations more than BESIDE may differ, of all calls' BESIDE (Beside)."""
    def rule(got):
        finite, place = steps(got.dtype, got.device)
        middle = (finite[1:] + finite[:-1]) / 2
        want = torch.searchsorted(middle, exact.contiguous())
        found = place[got.contiguous().view(U8).long()].reshape(want.shape)
        off = (found - want).abs()
        near = torch.minimum((exact - middle[(want - 1).clamp_min(0)]).abs(), (exact - middle[want.clamp_max(len(middle) - 1)]).abs())
        tie = near <= TIE * exact.abs().clamp_min(float(finite[finite > 0].min()) / 2)
        if slack is not None:
            tie |= near <= slack
        off = torch.where(tie & (off == 1), torch.zeros_like(off), off)
        if skip is not None:
            off = off.masked_fill(skip, 0)
        wrong, far = int((off > 0).sum()), int((off > 1).sum())
        most = BESIDE * off.numel()
        Beside.wrong, Beside.looked_at = Beside.wrong + wrong, Beside.looked_at + off.numel()
        if far or wrong > max(1, most + 3 * math.sqrt(most)):
            return f"{wrong} of {off.numel()} codes differ, {far} by more than a step"
        return None
    return rule


def powers(code, edge):
    """e8m0 scales: equal where f32 cannot fall on the other side of a power of two."""
    def rule(got):
        wrong = int(((got.contiguous().view(U8).reshape(code.shape).to(torch.int32) != code) & ~edge).sum())
        return None if wrong == 0 else f"{wrong} of {code.numel()} scales differ"
    return rule


# ---- formulas, f64

ACT = {
    "silu": lambda x: x * torch.sigmoid(x), "gelu": lambda x: 0.5 * x * (1 + torch.erf(x * math.sqrt(0.5))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3))),
    "relu": torch.relu, "srelu": lambda x: torch.relu(x) ** 2, # the slope at 0 is 0, as lib/act.tdsl has it: that of clamp_min is 1
    "qgelu": lambda x: x * torch.sigmoid(1.702 * x),
    "none": lambda x: x,
}


def slope(name, x):
    x = x.detach().clone().requires_grad_(True)
    with torch.enable_grad():
        ACT[name](x).sum().backward()
    return x.grad


def groups(v, g):
    """[..., N] -> [..., groups, g], padded with 0."""
    n = v.shape[-1]
    return torch.nn.functional.pad(v, (0, -n % g)).unflatten(-1, (-1, g))


def spread(s, g, n):
    return s.repeat_interleave(g, -1)[..., :n]


def scale_of(top, q):
    return torch.where(top > 0, (top / TOP[q]).clamp_min(2.0 ** -126), torch.ones_like(top))


def mx_of(top, q):
    """(code, scale, whether f32 could fall on either side) of the smallest power of two not below top / max."""
    part, e = torch.frexp(top / TOP[q])
    e = torch.where(part == 0.5, e - 1, e)
    code = torch.where(top > 0, (e + 127).clamp(0, 254), torch.full_like(e, 127))
    edge = (top > 0) & ((part - 0.5).abs() < 2.0 ** -20) | ((1 - part).abs() < 2.0 ** -20)
    return code.to(torch.int32), torch.exp2(code.to(F64) - 127), edge


def grouped(v, g, q, mx, error=None, ulps=4.0):
    """Rules of y and scale for v quantised in groups of g columns.  error: what f32 may bring to v."""
    n, top = v.shape[-1], groups(v, g).abs().amax(-1)
    if mx:
        code, s, edge = mx_of(top, q)
        if error is not None:                                # where it is large beside the group's numbers
            off = groups(error, g).amax(-1)
            edge = edge | (mx_of((top - off).clamp_min(0), q)[0] != mx_of(top + off, q)[0])
        by = spread(s, g, n)
        return {"y": codes(v / by, spread(edge, g, n), None if error is None else error / by), "scale": powers(code, edge)}
    s = scale_of(top, q)
    by = spread(s, g, n)
    return {"y": codes(v / by, slack=None if error is None else error / by), "scale": single(s, ulps, 0.0 if error is None else groups(error, g).amax(-1) / TOP[q])}


def cdiv(a, b):
    return -(-a // b)


# ---- quantising given numbers in f32: the bytes are defined

def cast(v, q):
    if q == torch.int8:
        return v.clamp(-127, 127).round().to(q)
    return v.clamp(-TOP[q], TOP[q]).to(q) if q in TOP else v.to(q)


def exact_groups(x, g, q, mx):
    """(q, scale) of x (f32), computed on the host as the language's quantize and quantize_mx say."""
    x = x.to("cpu")
    n = x.shape[-1]
    top = groups(x, g).abs().amax(-1)
    if mx:
        code, s, _ = mx_of(top.to(F64), q)
        s = s.to(F32)
        return cast(x / spread(s, g, n), q), code.to(U8)
    s = torch.where(top > 0, (top / TOP[q]).clamp_min(2.0 ** -126), torch.ones_like(top))
    return cast(x * spread(1 / s, g, n), q), s


class Case:
    """One call: `given` by name (tensors and scalars), `out` the outputs by name, `rules` by output's name."""

    def __init__(self, label, given, out, rules):
        self.label, self.given, self.out, self.rules = label, given, out, rules

    def check(self):
        """What is wrong, a text an output; empty where all agree."""
        wrong = []
        for name, rule in self.rules.items():
            found = self.out[name] if name in self.out else self.given[name]
            text = rule(torch.cat(found) if isinstance(found, list) else found)
            if text:
                wrong.append(f"{name}: {text}")
        return wrong


# ---- families: (place, M, N, full, **constants) -> Case.  full: with every optional argument.

def static_scale(p, given, full, q):
    """The scale of the whole tensor, where there is one, put among what is given."""
    if not (full or q in TOP):
        return 1.0
    given["scale"] = torch.full((1,), 0.037, device=p.device, dtype=F32)
    return given["scale"].to(F64)


def transposed(rule, ref, slack, q):
    """Of the transposed output beside that of `rule`."""
    return codes(ref.T, slack=None if slack is None else slack.T) if q in TOP else lambda got: rule(got.T.contiguous())


def norm(p, m, n, full, layer=False, kind="plain", q=None, g=0, mx=False, must_w=False, smooth=False):
    """kind: plain (static scale, q a 16-bit type or 8 bits), rows, groups."""
    x, w = p.normal(m, n), p.normal(n, scale=0.3, offset=1.0)
    given, out, rules = {"x": x}, {}, {}
    u, eps, offset, v = x.to(F64), 1e-5, 0.0, None
    if full:
        given["res"] = p.normal(m, n)
        u = u + given["res"].to(F64)
        out["res_out"] = p.empty((m, n), BF16)
        rules["res_out"] = same((x.to(F32) + given["res"].to(F32)).to(BF16))
        out["rstd"] = p.empty((m,), F32)
        given["amax"] = torch.full((1,), 0.25, device=p.device, dtype=F32)
    given["w"] = w
    if not must_w:
        given["offset"] = offset = 0.5 if full else 0.0
    given["eps"] = eps
    mu = u.mean(-1, keepdim=True) if layer else torch.zeros(m, 1, device=p.device, dtype=F64)
    c = u - mu
    r = 1 / torch.sqrt((c * c).mean(-1, keepdim=True) + eps)
    v = c * (offset + w.to(F64)) * r
    error = (v.abs() + mu.abs() * r) * 2.0 ** -22 if layer else None # the mean is taken off, the bias added
    if layer and full:
        given["b"] = p.normal(n)
        v = v + given["b"].to(F64)
        error = error + given["b"].to(F64).abs() * 2.0 ** -22
        out["mu"] = p.empty((m,), F32)
        size = u.abs().mean(-1)
        rules["mu"] = total(mu[:, 0], size)
    if smooth and full:
        given["smooth"] = p.normal(n, dtype=F32, scale=0.1, offset=1.0)
        v = v * given["smooth"].to(F64)
        error = None if error is None else error * given["smooth"].to(F64).abs()
    if full:
        rules["rstd"] = single(r[:, 0])
        rules["amax"] = single(torch.maximum(v.abs().amax().reshape(1), given["amax"].to(F64)), 8)
    if kind == "plain":
        s = static_scale(p, given, full, q)
        out["y"] = p.empty((m, n), q)
        slack = None if error is None else error / s
        rules["y"] = codes(v / s, slack=slack) if q in TOP else plain(v / s)
        if full:
            out["yt"] = p.empty((n, m), q)
            rules["yt"] = transposed(rules["y"], v / s, slack, q)
        if layer and q not in TOP:                           # what cancels is small beside the row, and the mean errs by what it is a sum of
            rules["y"] = plain_sum(v / s, (c.abs() + u.abs().mean(-1, keepdim=True)) * ((offset + w.to(F64)) * r).abs() / s)
            if full:
                rules["yt"] = lambda got, rule=rules["y"]: rule(got.T.contiguous())
    elif kind == "rows":
        s = scale_of(v.abs().amax(-1, keepdim=True), q)
        out["y"], out["scale"] = p.empty((m, n), q), p.empty((m,), F32)
        rules["y"], rules["scale"] = codes(v / s, slack=None if error is None else error / s), single(s[:, 0], slack=0.0 if error is None else error.amax(-1) / TOP[q])
    else:
        out["y"], out["scale"] = p.empty((m, n), q), p.empty((m, cdiv(n, g)), torch.float8_e8m0fnu if mx else F32)
        rules.update(grouped(v, g, q, mx, error))
    return given, out, rules


def plain_sum(ref, terms):
    """16-bit results that are a sum: half an ulp of the result and f32's error of the terms."""
    def rule(got):
        rounded = ref.to(got.dtype).to(F64)
        allowed = 1.001 * ulp(rounded, 8 if got.dtype == BF16 else 11, -133) + terms * 2.0 ** -20
        wrong = int((~((got.to(F64) - rounded).abs() <= allowed)).sum()) # NaN never passes
        return None if wrong == 0 else f"{wrong} of {ref.numel()} off by more than an ulp and f32's errors"
    return rule


def turned(rule):
    """Of scales that lie group by group."""
    return lambda got: rule(got.T.contiguous())


def add_transposed(p, out, rules, v, g, q, mx, error=None, ulps=4.0):
    """The same once more of v's columns, in groups of g rows; both ways a group's scales lie side by side."""
    n, m = v.shape[1], v.shape[0]
    down = grouped(v.T.contiguous(), g, q, mx, None if error is None else error.T.contiguous(), ulps)
    kind = torch.float8_e8m0fnu if mx else F32
    out["scale"], rules["scale"] = p.empty((cdiv(n, g), m), kind), turned(rules["scale"])
    out["yt"], out["scale_t"] = p.empty((n, m), q), p.empty((cdiv(m, g), n), kind)
    rules["yt"], rules["scale_t"] = down["y"], turned(down["scale"])


def norm_both(p, m, n, full, layer=False):
    given, out, rules = norm(p, m, n, False, kind="groups", q=p.fp8, g=32, mx=True, layer=layer)
    u, w = given["x"].to(F64), given["w"].to(F64)
    mu = u.mean(-1, keepdim=True) if layer else torch.zeros(m, 1, device=p.device, dtype=F64)
    r = 1 / torch.sqrt(((u - mu) ** 2).mean(-1, keepdim=True) + given["eps"])
    v = (u - mu) * w * r
    add_transposed(p, out, rules, v, 32, p.fp8, True, (v.abs() + mu.abs() * r) * 2.0 ** -22 if layer else None)
    return given, out, rules


def unit(p, m, n, full, f="silu", gated=True, kind="plain", q=None, g=128, mx=False, clamped=False, smooth=False):
    """F(gate) * up, or F(x): plain with a static scale, rows, groups, or groups both ways."""
    wide = 2 * n if gated else n
    x = p.normal(m, wide, scale=2.0)
    given, out, rules = {"h" if gated else "x": x}, {}, {}
    u = x.to(F64)
    if full:
        given["b"] = p.normal(wide)
        u = u + given["b"].to(F64)
    if clamped:
        gate, up = u[:, :n].clamp_max(7), u[:, n:].clamp(-7, 7)
        v = gate * torch.sigmoid(1.702 * gate) * (up + 1)
    else:
        v = ACT[f](u[:, :n]) * u[:, n:] if gated else ACT[f](u)
    if smooth and full:
        given["smooth"] = p.normal(n, dtype=F32, scale=0.1, offset=1.0)
        v = v * given["smooth"].to(F64)
    # 1 + tanh, 1 + erf and 1 - sigmoid cancel: what f32 loses there is seen beside gate * up
    terms = u[:, :n].abs() * ((u[:, n:].abs() + 1 if clamped else u[:, n:].abs()) if gated else 1)
    error = terms * 2.0 ** -21
    if kind == "plain":
        s = static_scale(p, given, full, q)
        out["y"] = p.empty((m, n), q)
        rules["y"] = codes(v / s, slack=error / s) if q in TOP else plain_sum(v / s, terms / s)
        if full and not clamped:
            given["amax"] = torch.full((1,), 0.25, device=p.device, dtype=F32)
            rules["amax"] = single(v.abs().amax().reshape(1).clamp_min(0.25), 8)
            out["yt"] = p.empty((n, m), q)
            rules["yt"] = transposed(rules["y"], v / s, error / s, q)
    elif kind == "rows":
        s = scale_of(v.abs().amax(-1, keepdim=True), q)
        out["y"], out["scale"] = p.empty((m, n), q), p.empty((m,), F32)
        rules["y"], rules["scale"] = codes(v / s, slack=error / s), single(s[:, 0], 8)
    else:
        out["y"], out["scale"] = p.empty((m, n), q), p.empty((m, cdiv(n, g)), torch.float8_e8m0fnu if mx else F32)
        rules.update(grouped(v, g, q, mx, error, 8))
        if kind == "both":
            add_transposed(p, out, rules, v, g, q, mx, error, 8)
    return given, out, rules


def masked(p, m, n, full, kind="plain", mx=False):
    tokens = [m, 0, max(m // 2, 1)]
    h = p.normal(3, m, 2 * n)
    given, out, rules = {"h": h, "tokens": p.ints(tokens)}, {}, {}
    u = h.to(F64)
    v = ACT["silu"](u[..., :n]) * u[..., n:]
    there = torch.arange(m, device=p.device)[None, :] < given["tokens"][:, None]

    def of(rule, make):
        """The rule for rows that are there; the others must hold the poison still."""
        def inner(got):
            if not bool((got.view(U8).reshape(3, m, -1)[~there] == POISON).all()):
                return "rows that are not there were written"
            return make(got[there])
        return inner
    if kind == "plain":
        out["y"] = p.empty((3, m, n), BF16)
        rules["y"] = of("y", lambda got: plain_sum(v[there], (u[..., :n] * u[..., n:]).abs()[there])(got))
    else:
        out["y"], out["scale"] = p.empty((3, m, n), p.fp8), p.empty((3, m, cdiv(n, 128)), torch.float8_e8m0fnu if mx else F32)
        want = grouped(v[there], 128, p.fp8, mx, ulps=8)
        rules["y"], rules["scale"] = of("y", want["y"]), of("scale", want["scale"])
    return given, out, rules


def quantized(p, m, n, full, kind="rows", q=None, g=0, mx=False):
    """Given numbers in 8 bits: the bytes are defined."""
    x = p.normal(m, n, scale=3.0)
    given, out, rules = {"x": x}, {}, {}
    e8 = torch.float8_e8m0fnu
    v = x.to(F32)
    if kind == "rows":
        if full:
            given["smooth"] = p.normal(n, dtype=F32, scale=0.1, offset=1.0)
            v = v * given["smooth"]
        y, s = exact_groups(v, n, q, False)
        out = {"y": p.empty((m, n), q), "scale": p.empty((m,), F32)}
        s = s.reshape(m)
    elif kind == "groups":
        y, s = exact_groups(v, g, q, mx)
        out = {"y": p.empty((m, n), q), "scale": p.empty((m, cdiv(n, g)), e8 if mx else F32)}
    elif kind == "both":
        y, s = exact_groups(v, g, q, mx)
        yt, st = exact_groups(v.T, g, q, mx)
        out = {"y": p.empty((m, n), q), "scale": p.empty((cdiv(n, g), m), e8 if mx else F32),
               "yt": p.empty((n, m), q), "scale_t": p.empty((cdiv(m, g), n), e8 if mx else F32)}
        rules = {"yt": same(yt), "scale_t": turned(same(st))}
    elif kind == "blocks":
        host = v.to("cpu")
        pad = torch.nn.functional.pad(host, (0, -n % g, 0, -m % g)).unflatten(1, (-1, g)).unflatten(0, (-1, g))
        top = pad.abs().amax((1, 3))
        if mx:
            s, scale, _ = mx_of(top.to(F64), q)
            by = scale.to(F32).repeat_interleave(g, 0)[:m].repeat_interleave(g, 1)[:, :n]
            y, s = cast(host / by, q), s.to(U8)
        else:
            s = torch.where(top > 0, (top / TOP[q]).clamp_min(2.0 ** -126), torch.ones_like(top))
            y = cast(host * (1 / s).repeat_interleave(g, 0)[:m].repeat_interleave(g, 1)[:, :n], q)
        out = {"y": p.empty((m, n), q), "scale": p.empty(tuple(s.shape), e8 if mx else F32)}
    elif kind == "current":
        top = v.to("cpu").abs().max()
        s = (top / TOP[q]).clamp_min(2.0 ** -126).reshape(1)
        y = cast(v.to("cpu") * (1 / s), q)
        out = {"y": p.empty((m, n), q), "scale": p.empty((1,), F32)}
        if full:
            out["yt"] = p.empty((n, m), q)
            rules["yt"] = same(y.T)
    else:                                                    # cast
        s = torch.full((1,), 0.037, dtype=F32)
        if full or q in TOP:
            given["scale"] = s.to(p.device)
        else:
            s = torch.ones(1)
        y = cast(v.to("cpu") * (1 / s), q)
        out = {"y": p.empty((m, n), q)}
        if full:
            out["yt"] = p.empty((n, m), q)
            given["amax"] = torch.full((1,), 0.25, device=p.device, dtype=F32)
            rules.update(yt=same(y.T), amax=same(v.abs().max().clamp_min(0.25).reshape(1)))
        return given, out, {**rules, "y": same(y)}
    return given, out, {**rules, "y": same(y), "scale": turned(same(s)) if kind == "both" else same(s)}


def dequantized(p, m, n, full, kind="rows", g=0, mx=False):
    y = p.normal(m, n, dtype=F32, scale=50.0).clamp(-200, 200).to(p.fp8)
    if kind == "rows":
        s = p.normal(m, dtype=F32).abs()
        by = s[:, None]
    elif kind == "groups":
        s = p.normal(m, cdiv(n, g), dtype=F32).abs()
        if mx:
            s = torch.randint(100, 150, s.shape, generator=p.random, device=p.device).to(U8)
            by = spread(torch.exp2(s.to(F32) - 127), g, n)
            s = s.view(torch.float8_e8m0fnu)
        else:
            by = spread(s, g, n)
    else:
        s = p.normal(cdiv(m, 128), cdiv(n, 128), dtype=F32).abs()
        by = s.repeat_interleave(128, 0)[:m].repeat_interleave(128, 1)[:, :n]
    return {"y": y, "scale": s}, {"x": p.empty((m, n), BF16)}, {"x": same((y.to(F32) * by).to(BF16))}


def added(p, m, n, full):
    x, res = p.normal(m, n), p.normal(m, n)
    return {"x": x, "res": res}, {"y": p.empty((m, n), BF16)}, {"y": same((x.to(F32) + res.to(F32)).to(BF16))}


def softmax(p, m, n, full):
    b, s = 2, max(m, 1)
    x = p.normal(b, s, n, scale=3.0)
    given, causal = {"x": x, "scale": 0.7}, full and s <= n
    v = x.to(F64) * 0.7
    if full:
        given["mask"] = p.normal(s, n)
        v = v + given["mask"].to(F64)
    if causal:
        given["causal"] = 1
        seen = torch.arange(n, device=p.device)[None, :] <= torch.arange(s, device=p.device)[:, None] + (n - s)
        v = v.masked_fill(~seen, -math.inf)
    return given, {"y": p.empty((b, s, n), BF16)}, {"y": plain(torch.softmax(v, -1))}


def softmax_back(p, m, n, full):
    dy, y = p.normal(m, n), torch.softmax(p.normal(m, n, dtype=F32), -1).to(BF16)
    d, q = dy.to(F64), y.to(F64)
    dot = (d * q).sum(-1, keepdim=True)
    size = 0.7 * q * (d.abs() + (d * q).abs().sum(-1, keepdim=True))
    return {"dy": dy, "y": y, "scale": 0.7}, {"dx": p.empty((m, n), BF16)}, {"dx": plain_sum(0.7 * q * (d - dot), size)}


def norm_back(p, m, n, full, layer=False):
    dy, x, w = p.normal(m, n), p.normal(m, n), p.normal(n, scale=0.3, offset=1.0)
    u = x.to(F64)
    mu = u.mean(-1, keepdim=True) if layer else torch.zeros(m, 1, device=p.device, dtype=F64)
    rstd = (1 / torch.sqrt((u - mu).square().mean(-1) + 1e-5)).to(F32)
    given, out, rules = {"dy": dy, "x": x, "w": w, "rstd": rstd}, {"dx": p.empty((m, n), BF16)}, {}
    r = rstd.to(F64)[:, None]
    if layer:
        given["mu"] = mu[:, 0].to(F32)
        mu = given["mu"].to(F64)[:, None]
    h, d = (u - mu) * r, dy.to(F64) * w.to(F64)
    dx = (d - h * (d * h).mean(-1, keepdim=True) - (d.mean(-1, keepdim=True) if layer else 0)) * r
    size = (d.abs() + h.abs() * (d * h).abs().mean(-1, keepdim=True) + d.abs().mean(-1, keepdim=True)) * r
    if full == "all":
        given["dres"] = p.normal(m, n)
        dx, size = dx + given["dres"].to(F64), size + given["dres"].to(F64).abs()
    if full:
        out["dw"] = p.empty((n,), F32)
        rules["dw"] = total((dy.to(F64) * h).sum(0), (dy.to(F64) * h).abs().sum(0))
        if layer:
            out["db"] = p.empty((n,), F32)
            rules["db"] = total(dy.to(F64).sum(0), dy.to(F64).abs().sum(0))
    return given, out, {**rules, "dx": plain_sum(dx, size)}


def unit_back(p, m, n, full, f="silu", gated=True):
    dy, x = p.normal(m, n), p.normal(m, 2 * n if gated else n, scale=2.0)
    given, out, rules, u, d = {"dy": dy, "h" if gated else "x": x}, {}, {}, x.to(F64), dy.to(F64)
    if full == "all":
        given["b"] = p.normal(u.shape[1])
        u = u + given["b"].to(F64)
    gate = u[:, :n]
    ref = torch.cat((d * u[:, n:] * slope(f, gate), d * ACT[f](gate)), 1) if gated else d * slope(f, gate)
    size = torch.cat((d * u[:, n:], d * gate), 1).abs() if gated else d.abs()
    size = size * (1 + u.abs() if not gated else 1 + torch.cat((gate, gate), 1).abs())
    name = "dh" if gated else "dx"
    out[name] = p.empty(tuple(x.shape), BF16)
    rules[name] = plain_sum(ref, size)
    if full:
        out["db"] = p.empty((x.shape[1],), F32)
        rules["db"] = total(ref.sum(0), size.sum(0))
    return given, out, rules


def recipe(p, m, n, full, kind="scaling", param=BF16):
    if kind == "scaling":
        rows, k, top = 5, n, 448.0
        history = p.normal(rows, k, dtype=F32).abs()
        history[:, 0] = 0
        given = {"history": history.clone(), "scale": torch.ones(k, device=p.device), "inverse": torch.ones(k, device=p.device), "top": top}
        amax = history.amax(0).to(F64)
        s = torch.where(amax > 0, amax / top, torch.ones_like(amax))
        moved = torch.cat((torch.zeros(1, k, device=p.device), history[:-1]))
        return given, {}, {"history": same(moved), "scale": single(s), "inverse": single(1 / s)}
    size = m * n
    first = [0, size // 3, size // 3, size]
    x = p.normal(size)
    listed = lambda t: [t[a:b] for a, b in zip(first, first[1:])]
    parts = listed(x)
    given = {"x": parts}
    if kind == "amax":
        given["amax"] = torch.full((3,), 0.25, device=p.device, dtype=F32)
        return given, {}, {"amax": same(torch.stack([part.abs().max().to(F32).clamp_min(0.25) if len(part) else torch.tensor(0.25, device=p.device) for part in parts]))}
    if kind == "l2norm":
        given["squares"] = torch.ones(3, device=p.device, dtype=F32)
        want = torch.stack([1 + part.to(F64).square().sum() for part in parts])
        return given, {}, {"squares": total(want, want, size / 256)}    # the fewest elements that a workgroup adds up itself
    each = torch.tensor([0, 1, 2], device=p.device).repeat_interleave(torch.tensor([b - a for a, b in zip(first, first[1:])], device=p.device))
    if kind == "scale":
        given["factor"] = p.normal(3, dtype=F32)
        return given, {"y": listed(p.empty((size,), BF16))}, {"y": same((x.to(F32) * given["factor"][each]).to(BF16))}
    param_, mean1, mean2 = p.normal(size, dtype=param), p.normal(size, dtype=F32), p.normal(size, dtype=F32).abs()
    given = {"grad": parts, "decay": torch.tensor([0.0, 0.1, 0.01], device=p.device), "param": listed(param_), "mean1": listed(mean1),
             "mean2": listed(mean2), "rate": 0.01, "correct1": 0.1, "correct2": 0.2}
    gr, par, m1, m2 = x.to(F64), param_.to(F64), mean1.to(F64), mean2.to(F64)
    beta1, beta2, rate, eps, c1, c2 = (float(torch.tensor(v, dtype=F32)) for v in (0.9, 0.999, 0.01, 1e-8, 0.1, 0.2)) # scalars are f32
    a, b = beta1 * m1 + (1 - beta1) * gr, beta2 * m2 + (1 - beta2) * gr * gr
    new = par - rate * (a / c1 / (torch.sqrt(b / c2) + eps) + given["decay"].to(F64)[each] * par)
    size_a, size_p = 0.9 * m1.abs() + 0.1 * gr.abs(), par.abs() + 0.1 * (m1.abs() + gr.abs()) / torch.sqrt(b / 0.2)
    close = lambda ref, terms: (lambda got: None if bool(((got.to(F64) - ref).abs() <= terms * 2.0 ** -20 + 1e-30).all()) else "off by more than f32's errors")
    return given, {}, {"mean1": close(a, size_a), "mean2": close(b, b), "param": plain_sum(new, size_p) if param == BF16 else close(new, size_p)}


def products(p, m, n, full):
    e, k, rows = 3, 96, m + 5
    a, b = p.normal(rows, k, scale=0.3), p.normal(e, n, k, scale=0.3)
    first = [0, rows // 2, rows // 2, rows]
    ref = torch.cat([a[x:y].to(F64) @ b[i].to(F64).T for i, (x, y) in enumerate(zip(first, first[1:]))])
    size = torch.cat([a[x:y].to(F64).abs() @ b[i].to(F64).abs().T for i, (x, y) in enumerate(zip(first, first[1:]))])
    return {"a": a, "b": b, "first": p.ints(first)}, {"c": p.empty((rows, n), BF16)}, {"c": plain_sum(ref, size)}


def attend(p, m, n, full):
    b, h, g, s, d = 1, 4, 2, m + 1, 128 if full else 64
    length = s + 7
    q, k, v = p.normal(b, h, s, d), p.normal(b, g, length, d), p.normal(b, g, length, d)
    scale = 1 / math.sqrt(d)
    seen = torch.arange(length, device=p.device)[None, :] <= torch.arange(s, device=p.device)[:, None] + (length - s)
    kk, vv = k.repeat_interleave(h // g, 1), v.repeat_interleave(h // g, 1)
    ref = torch.softmax((q.to(F64) @ kk.to(F64).transpose(-1, -2) * scale).masked_fill(~seen, -math.inf), -1) @ vv.to(F64)
    rounded = torch.softmax((q.to(F32) @ kk.to(F32).transpose(-1, -2) * scale).masked_fill(~seen, -math.inf), -1).to(BF16).to(F32) @ vv.to(F32)
    bound = 1.25 * float((rounded.to(BF16).to(F64) - ref).norm() / ref.norm()) + 1e-6

    def rule(got):
        off = float((got.to(F64) - ref).norm() / ref.norm())
        return None if off <= bound else f"relative L2 {off:.2e}; {bound:.2e} allowed"
    return {"q": q, "k": k, "v": v, "scale": scale}, {"o": p.empty((b, h, s, d), BF16)}, {"o": rule}


FP8 = "fp8"                                                  # the target's own
E = "e8m0"
KERNELS = {
    "rmsnorm_quant": [(norm, dict(kind="rows", q=FP8, must_w=True)), (norm, dict(kind="rows", q=torch.int8, must_w=True))],
    "rmsnorm": [(norm, dict(q=BF16)), (norm, dict(q=FP8))],
    "layernorm": [(norm, dict(q=BF16, layer=True)), (norm, dict(q=FP8, layer=True))],
    "add_rmsnorm_quant": [(norm, dict(kind="rows", q=FP8, smooth=True)), (norm, dict(kind="rows", q=torch.int8, smooth=True))],
    "layernorm_quant": [(norm, dict(kind="rows", q=FP8, layer=True, smooth=True)), (norm, dict(kind="rows", q=torch.int8, layer=True, smooth=True))],
    "rmsnorm_both_mxfp8": [(norm_both, {})], "layernorm_both_mxfp8": [(norm_both, dict(layer=True))],
    "swiglu_quant": [(unit, dict(kind="groups", q=FP8, g=128))],
    "swiglu_clamped": [(unit, dict(q=BF16, clamped=True)), (unit, dict(q=FP8, clamped=True))],
    "swiglu_clamped_128": [(unit, dict(kind="groups", q=FP8, clamped=True))],
    "swiglu_masked": [(masked, {})], "swiglu_masked_128": [(masked, dict(kind="groups"))], "swiglu_masked_128_e8m0": [(masked, dict(kind="groups", mx=True))],
    "cast_transpose": [(quantized, dict(kind="cast", q=BF16)), (quantized, dict(kind="cast", q=FP8))],
    "quantize_rows": [(quantized, dict(q=FP8)), (quantized, dict(q=torch.int8))],
    "quantize_128": [(quantized, dict(kind="groups", q=FP8, g=128))], "quantize_128_e8m0": [(quantized, dict(kind="groups", q=FP8, g=128, mx=True))],
    "quantize_mxfp8": [(quantized, dict(kind="groups", q=FP8, g=32, mx=True))],
    "quantize_128x128": [(quantized, dict(kind="blocks", q=FP8, g=128))], "quantize_128x128_e8m0": [(quantized, dict(kind="blocks", q=FP8, g=128, mx=True))],
    "quantize_both_128": [(quantized, dict(kind="both", q=FP8, g=128))], "quantize_both_mxfp8": [(quantized, dict(kind="both", q=FP8, g=32, mx=True))],
    "quantize_both_128_e8m0": [(quantized, dict(kind="both", q=FP8, g=128, mx=True))],
    "swiglu_both_128": [(unit, dict(kind="both", q=FP8))], "swiglu_clamped_both_128": [(unit, dict(kind="both", q=FP8, clamped=True))],
    "swiglu_both_mxfp8": [(unit, dict(kind="both", q=FP8, g=32, mx=True))],
    "swiglu_clamped_both_mxfp8": [(unit, dict(kind="both", q=FP8, g=32, mx=True, clamped=True))],
    "gelu_tanh_both_mxfp8": [(unit, dict(f="gelu_tanh", kind="both", q=FP8, g=32, mx=True, gated=False))],
    "quantize_current": [(quantized, dict(kind="current", q=FP8))],
    "dequantize_rows": [(dequantized, {})], "dequantize_128": [(dequantized, dict(kind="groups", g=128))],
    "dequantize_mxfp8": [(dequantized, dict(kind="groups", g=32, mx=True))], "dequantize_128x128": [(dequantized, dict(kind="blocks"))],
    "add": [(added, {})], "softmax_rows": [(softmax, {})], "softmax_bwd": [(softmax_back, {})],
    "rmsnorm_bwd": [(norm_back, {})], "layernorm_bwd": [(norm_back, dict(layer=True))],
    "delayed_scaling": [(recipe, {})], "multi_tensor_amax": [(recipe, dict(kind="amax"))], "multi_tensor_l2norm": [(recipe, dict(kind="l2norm"))],
    "multi_tensor_scale": [(recipe, dict(kind="scale"))], "multi_tensor_adam": [(recipe, dict(kind="adam")), (recipe, dict(kind="adam", param=F32))],
    "grouped_gemm": [(products, {})], "attention": [(attend, {})],
}
for _layer in ("rmsnorm", "layernorm"):
    for _name, _g, _mx in (("128", 128, False), ("128_e8m0", 128, True), ("mxfp8", 32, True)):
        KERNELS[f"{_layer}_{_name}"] = [(norm, dict(kind="groups", q=FP8, g=_g, mx=_mx, layer=_layer == "layernorm"))]
for _name, _f in (("swiglu", "silu"), ("geglu", "gelu"), ("geglu_tanh", "gelu_tanh"), ("reglu", "relu"), ("sreglu", "srelu"), ("qgeglu", "qgelu")):
    KERNELS[_name] = [(unit, dict(f=_f, q=BF16)), (unit, dict(f=_f, q=FP8))]
    KERNELS[f"{_name}_bwd"] = [(unit_back, dict(f=_f))]
    KERNELS[f"{_f}_act"] = [(unit, dict(f=_f, q=BF16, gated=False)), (unit, dict(f=_f, q=FP8, gated=False))]
    KERNELS[f"{_f}_bwd"] = [(unit_back, dict(f=_f, gated=False))]
for _name, _f in (("swiglu", "silu"), ("geglu", "gelu"), ("geglu_tanh", "gelu_tanh")):
    KERNELS[f"{_name}_rows"] = [(unit, dict(f=_f, kind="rows", q=FP8, smooth=True))]
    KERNELS[f"{_name}_128"] = [(unit, dict(f=_f, kind="groups", q=FP8))]
for _name, _g in (("swiglu_128_e8m0", 128), ("swiglu_mxfp8", 32)):
    KERNELS[_name] = [(unit, dict(kind="groups", q=FP8, g=_g, mx=True))]
for _f in ("gelu_tanh", "relu", "srelu"):
    KERNELS[f"{_f}_128"] = [(unit, dict(f=_f, kind="groups", q=FP8, gated=False))]
MATRIX = ("grouped_gemm", "attention")
# Arguments that stand in every case of these.
BARE = {"rmsnorm_quant", "swiglu_quant", "quantize_128", "quantize_128_e8m0", "quantize_mxfp8", "quantize_128x128", "quantize_128x128_e8m0",
        "quantize_both_128", "quantize_both_128_e8m0", "quantize_both_mxfp8", "dequantize_rows", "dequantize_128", "dequantize_mxfp8", "dequantize_128x128", "add",
        "swiglu_masked", "swiglu_masked_128", "swiglu_masked_128_e8m0", "rmsnorm_both_mxfp8", "layernorm_both_mxfp8", "delayed_scaling", "multi_tensor_amax",
        "multi_tensor_l2norm", "multi_tensor_scale", "multi_tensor_adam", "grouped_gemm"}


SQUARES = [(128, 256), (160, 2912), (512, 4096)]            # whole groups both ways; rows of 91 scales


SUMMED = {"rmsnorm_bwd", "layernorm_bwd"} | {k for k, families in KERNELS.items() if families[0][0] is unit_back}
CROWDS = [(8200, 520), (4200, 1288), (2100, 4096), (1100, 5128),       # of rows that workgroups take in turn, of each class
          (8200, 1000), (2103, 4000), (2800, 3000)]                    # in one piece and in several, of both widths, the last of which ends early
HEADS = [(16928, 64), (16901, 40), (8464, 128), (8451, 104), (4232, 256), (2116, 512), (2115, 456), (8200, 1024), (4100, 2048), (1100, 8192)]   # rows of heads, and as long as a class, of norms
ODD_CROWDS = [(300, 500), (1030, 5001)]                                   # that begin anywhere
ODD_ROWS = [(2051, 1001), (2050, 2001), (1030, 4001), (140, 6001), (520, 8001)]      # of each class of norms
SHORT_PIECES = [(65539, 56), (65537, 120), (65543, 248)]                   # of gates and activations, several to a workgroup
FULL = {"": "", "sums": " with sums of columns", "all": " with all options"}


def cases(name, place, shapes):
    """The cases of a kernel, made one after the other: each shape, plain and with every optional argument."""
    if "_both_" in name:
        shapes = shapes + SQUARES[:3 if place.device == "cuda" else 1]
    if name in SUMMED and place.device == "cuda":
        shapes = shapes + CROWDS + ODD_CROWDS + (HEADS + ODD_ROWS if "norm" in name else SHORT_PIECES)
    for family, constants in KERNELS[name]:
        constants = {k: place.fp8 if v is FP8 else v for k, v in constants.items()}
        for m, n in shapes:
            for full in ("",) if name in BARE else ("", "sums", "all") if name in SUMMED else ("", "all"):
                kind = str(constants.get("q", constants.get("param", ""))).removeprefix("torch.")
                label = f"{name} ({m}, {n}){' ' + kind if kind else ''}{FULL[full]}"
                yield Case(label, *family(place, m, n, full, **constants))
