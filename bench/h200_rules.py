"""h200_rules.py -- the rules that results of the checks follow, the formulas they are made of, and what quantises, in torch.

In: references in f64, with f32's errors where terms cancel.  Out: rules (got) -> None, or what is wrong; of a kind of storage all its
outputs' shapes and rules (shapes_of, rules_of).  The rules are those of the project's tests: scales within 4 f32 ulp; codes one step apart
at most, in at most one of 10^4 elements, ties to within f32's errors left out; 16-bit results within 1 ulp for 99.99 % and 2 always; sums
beside the sum of their terms' magnitudes.
"""
import math

import torch

F64, F32, BF16, U8 = torch.float64, torch.float32, torch.bfloat16, torch.uint8
E8, FP4 = torch.float8_e8m0fnu, getattr(torch, "float4_e2m1fn_x2", None)     # of e2m1 two lie in a byte, the first one low
TOP = {torch.float8_e4m3fn: 448.0, torch.float8_e4m3fnuz: 240.0, torch.int8: 127.0, FP4: 6.0}
HALVES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)            # e2m1 without its sign
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
        if dtype == FP4:
            return self.empty((*shape[:-1], shape[-1] // 2), U8).view(FP4)
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


def plain_sum(ref, terms):
    """16-bit results that are a sum: half an ulp of the result and f32's error of the terms."""
    def rule(got):
        rounded = ref.to(got.dtype).to(F64)
        allowed = 1.001 * ulp(rounded, 8 if got.dtype == BF16 else 11, -133) + terms * 2.0 ** -20
        wrong = int((~((got.to(F64) - rounded).abs() <= allowed)).sum()) # NaN never passes
        return None if wrong == 0 else f"{wrong} of {ref.numel()} off by more than an ulp and f32's errors"
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


def in_bytes(x):
    return x.view(U8).reshape(-1) if x.dtype == FP4 else x.reshape(-1).contiguous().view(U8)


def codes_of(x):
    """A number each, of e2m1 half a byte."""
    b = x.contiguous().view(U8)
    return torch.stack((b & 15, b >> 4), -1).flatten(-2) if x.dtype == FP4 else b


def numbers_of(x):
    """What codes stand for, f32."""
    if x.dtype != FP4:
        return x.to(F32)
    return torch.tensor(HALVES + tuple(-v for v in HALVES), device=x.device, dtype=F32)[codes_of(x).long()]


def same(want):
    def rule(got):
        a, b = (in_bytes(x) for x in (got, want.to(got.device)))
        wrong = int((a != b).sum()) if a.shape == b.shape else -1
        return None if wrong == 0 else f"{wrong} of {a.numel()} bytes differ"
    return rule


def steps(dtype, device):
    """The finite values of a code in order, and of each byte its place among them (-1000: NaN)."""
    every = torch.arange(256, device=device, dtype=torch.int32).to(U8)
    if dtype == FP4:
        value = torch.tensor(HALVES + tuple(-v for v in HALVES), device=device, dtype=F64)[(every & 15).long()]
    else:
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
        found = place[codes_of(got).long()].reshape(want.shape)
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
    # (1 + erf(z)) / 2 is erfc(-z) / 2, and (1 + tanh(z)) / 2 sigmoid(2 z): where they are near 0 nothing of them is left in f64 otherwise
    "silu": lambda x: x * torch.sigmoid(x), "gelu": lambda x: 0.5 * x * torch.erfc(-x * math.sqrt(0.5)),
    "gelu_tanh": lambda x: x * torch.sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)),
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

def halves(v):
    """e2m1 of v, to the nearest and of two as near to the even code, two a byte."""
    value = torch.tensor(HALVES, device=v.device, dtype=v.dtype)
    size, middle = v.abs(), (value[1:] + value[:-1]) / 2
    code = torch.searchsorted(middle, size.contiguous())
    code = code + ((code % 2 == 1) & (size == middle[code.clamp_max(6)])).to(code.dtype)
    code = code + 8 * torch.signbit(v).to(code.dtype)
    return (code[..., ::2] + 16 * code[..., 1::2]).to(U8).view(FP4)


def cast(v, q):
    if q == FP4:
        return halves(v)
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


# ---- what kernels of a kind store: plain (a type of 16 bits, or 8 bits in units of one scale), rows, groups, both (ways)

def shapes_of(kind, m, n, q, g=0, mx=False, turned_too=False):
    """{output: (extents, type)} of m rows of n columns."""
    scale = E8 if mx else F32
    found = {"y": ((m, n), q)}
    if kind == "rows":
        found["scale"] = (m,), F32
    elif kind == "groups":
        found["scale"] = (m, cdiv(n, g)), scale
    elif kind == "both":
        found.update(scale=((cdiv(n, g), m), scale), yt=((n, m), q), scale_t=((cdiv(m, g), n), scale))
    elif turned_too:
        found["yt"] = (n, m), q
    return found


def rules_of(kind, v, q, g=0, mx=False, error=None, ulps=4.0, s=1.0, wide=None):
    """The rules of the same outputs.  v: what is stored, f64; error: what f32 may bring to it; wide: the rule of v / s where q is no code."""
    if kind == "plain":
        slack = None if error is None else error / s
        rule = codes(v / s, slack=slack) if q in TOP else wide(v / s)
        across = codes((v / s).T, slack=None if slack is None else slack.T) if q in TOP else turned(rule)
        return {"y": rule, "yt": across}
    if kind == "rows":
        s = scale_of(v.abs().amax(-1, keepdim=True), q)
        return {"y": codes(v / s, slack=None if error is None else error / s), "scale": single(s[:, 0], ulps, 0.0 if error is None else error.amax(-1) / TOP[q])}
    found = grouped(v, g, q, mx, error, ulps)
    if kind == "both":
        down = grouped(v.T.contiguous(), g, q, mx, None if error is None else error.T.contiguous(), ulps)
        found.update(scale=turned(found["scale"]), yt=down["y"], scale_t=turned(down["scale"]))
    return found


def turned(rule):
    """Of what lies column by column."""
    return lambda got: rule(got.T.contiguous())


def add_stored(p, out, rules, kind, v, q, g=0, mx=False, turned_too=False, names=None, **how):
    """Outputs and rules of v, by the names of `names` where they are others than y, yt, scale and scale_t; None = not wanted."""
    names, found = names or {}, rules_of(kind, v, q, g, mx, **how)
    for name, (shape, dtype) in shapes_of(kind, *v.shape, q, g, mx, turned_too).items():
        name, rule = names.get(name, name), found[name]
        if name:
            out[name], rules[name] = p.empty(shape, dtype), rule


def tokens_of(m, kind, q):
    """Rows that are there of three experts' m: all, none and half; an even number of what is stored across two a byte."""
    even = 2 if q == FP4 and kind == "both" else 1
    return [m, 0, max(m // 2 // even * even, even)]


def add_experts(p, out, rules, kind, tokens, v, q, g=0, mx=False, names=None, error=None, s=1.0, terms=None):
    """The same by expert, of the first tokens[e] of whose rows v [E, M, N] counts; what is not there must hold the poison still."""
    names, (_, m, n) = names or {}, v.shape
    found = [rules_of(kind, v[e, :t], q, g, mx, error[e, :t], 8, s, lambda ref, e=e, t=t: plain_sum(ref, terms[e, :t])) if t else {} for e, t in enumerate(tokens)]
    for name, (shape, dtype) in shapes_of(kind, m, n, q, g, mx).items():
        called = names.get(name, name)
        if called:
            across = name == "yt" or (name == "scale" and kind == "both")
            there = [cdiv(t, g) if name == "scale_t" else t // 2 if name == "yt" and q == FP4 else t for t in tokens]
            out[called] = p.empty((len(tokens), *shape), dtype)
            rules[called] = by_expert([r.get(name) for r in found], there, int(across))


def largest(v, tokens):
    """The largest magnitude of what is there, f64[1]."""
    return torch.stack([v[e, :t].abs().amax() if t else v.new_zeros(()) for e, t in enumerate(tokens)]).amax().reshape(1)


def by_expert(found, there, dim):
    def rule(got):
        raw = got.view(U8) if got.dtype == FP4 else got
        for e, count in enumerate(there):
            rest = raw[e].narrow(dim, count, raw.shape[1 + dim] - count).contiguous()
            if rest.numel() and not bool((in_bytes(rest) == POISON).all()):
                return f"expert {e}: what is not there was written"
            part = raw[e].narrow(dim, 0, count).contiguous()
            text = found[e](part.view(FP4) if got.dtype == FP4 else part) if count else None
            if text:
                return f"expert {e}: {text}"
        return None
    return rule


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


