"""h200_rows.py -- every row kernel of kernels.tdsl with inputs, an f64 reference and the rule its results must follow, in torch.

In: a place (device, the target's fp8), a kernel's name and extents.  Out: cases: arguments by name, outputs poisoned, and what to expect
of each.  References are written here and in h200_back.py from the kernels' formulas, in f64 torch operations on the same place; where
numerics leave no choice (quantising given numbers, casts, sums of two) the expectation is bytes, from f32 operations.  The rules: h200_rules.py.
"""
import math

import torch

from h200_back import back, back_masked, norm_slope, softmax_slope
from h200_rules import (ACT, BF16, E8, F32, F64, FP4, TOP, U8, Case, add_experts, add_stored, cast, cdiv, exact_groups, largest, mx_of, numbers_of, plain, plain_sum,
                        same, single, spread, tokens_of, total, turned)

# ---- families: (place, M, N, full, **constants) -> (given, out, rules).  full: with every optional argument.

def static_scale(p, given, full, q):
    """The scale of the whole tensor, where there is one, put among what is given."""
    if not (full or q in TOP):
        return 1.0
    given["scale"] = torch.full((1,), 0.037, device=p.device, dtype=F32)
    return given["scale"].to(F64)


def rounded(v, w):
    """v, then v * w, each rounded to bf16, as T5's text has it; and what f32 may bring to it: a step where it may round the other way."""
    def of(k):
        return (((v * k).to(BF16).to(F64) * w) * k).to(BF16).to(F64)
    here, low, high = of(1.0), of(1 - 2.0 ** -21), of(1 + 2.0 ** -21)
    return here, torch.maximum((here - low).abs(), (here - high).abs()) * 1.01 + here.abs() * 2.0 ** -23


def norm(p, m, n, full, layer=False, kind="plain", q=None, g=0, mx=False, must_w=False, smooth=False, t5=False):
    """kind: plain (static scale, q a 16-bit type or 8 bits), rows, groups, both."""
    x, w = p.normal(m, n), p.normal(n, scale=0.3, offset=1.0)
    given, out, rules = {"x": x}, {}, {}
    u, eps, offset, v = x.to(F64), 1e-5, 0.0, None
    if full:
        given["res"] = p.normal(m, n)
        u = u + given["res"].to(F64)
        out["res_out"] = p.empty((m, n), BF16)
        rules["res_out"] = same((x.to(F32) + given["res"].to(F32)).to(BF16))
        out["rstd"] = p.empty((m,), F32)
    amax = full and not (layer and kind == "both")
    if amax:
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
    if t5:
        v, error = rounded(c * r, offset + w.to(F64))
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
    if amax:
        rules["amax"] = single(torch.maximum(v.abs().amax().reshape(1), given["amax"].to(F64)), 8, 0.0 if error is None else float(error.max()))
    s = static_scale(p, given, full, q) if kind == "plain" else 1.0
    # 16 bits: what cancels is small beside the row, and the mean errs by what it is a sum of; a step of T5's rounding is an ulp
    terms = (c.abs() + u.abs().mean(-1, keepdim=True)) * ((offset + w.to(F64)) * r).abs() / s if layer else None
    wide = (lambda ref: plain_sum(ref, terms)) if layer else (lambda ref: plain_sum(ref, error / s * 2.0 ** 20)) if t5 else plain
    add_stored(p, out, rules, kind, v, q, g, mx, turned_too=full, error=error, s=s, wide=wide)
    return given, out, rules


def unit(p, m, n, full, f="silu", gated=True, kind="plain", q=None, g=128, mx=False, clamped=False, smooth=False, amax=False):
    """F(gate) * up, or F(x): plain with a static scale, rows, groups, or groups both ways.  amax: raised whatever the kind."""
    wide = 2 * n if gated else n
    x = p.normal(m, wide, scale=2.0)
    given, out, rules = {"h" if gated else "x": x}, {}, {}
    u = x.to(F64)
    if full:
        given["b"] = p.normal(wide)
        u = u + given["b"].to(F64)
    v, terms = gate_of(u, n, f, clamped) if gated else (ACT[f](u), u.abs())
    if smooth and full:
        given["smooth"] = p.normal(n, dtype=F32, scale=0.1, offset=1.0)
        v = v * given["smooth"].to(F64)
    s = static_scale(p, given, full, q) if kind == "plain" else 1.0
    if full and (amax or (kind == "plain" and not clamped)):
        given["amax"] = torch.full((1,), 0.25, device=p.device, dtype=F32)
        rules["amax"] = single(v.abs().amax().reshape(1).clamp_min(0.25), 8)
    add_stored(p, out, rules, kind, v, q, g, mx, turned_too=full and not clamped, error=terms * 2.0 ** -21, ulps=8, s=s,
               wide=lambda ref: plain_sum(ref, terms / s))
    return given, out, rules


def gate_of(u, n, f, clamped=False):
    """F(gate) * up, and what f32's errors lie beside: 1 + tanh, 1 + erf and 1 - sigmoid cancel, which is seen beside gate * up."""
    gate, up = u[..., :n], u[..., n:]
    if not clamped:
        return ACT[f](gate) * up, (gate * up).abs()
    kept = gate.clamp_max(7)
    return kept * torch.sigmoid(1.702 * kept) * (up.clamp(-7, 7) + 1), gate.abs() * (up.abs() + 1)


def masked(p, m, n, full, f="silu", kind="plain", q=BF16, g=128, mx=False):
    tokens = tokens_of(m, kind, q)
    h = p.normal(3, m, 2 * n)
    given, out, rules = {"h": h, "tokens": p.ints(tokens)}, {}, {}
    v, terms = gate_of(h.to(F64), n, f)
    s = static_scale(p, given, full, q) if kind == "plain" else 1.0
    if full:
        given["amax"] = torch.full((1,), 0.25, device=p.device, dtype=F32)
        rules["amax"] = single(largest(v, tokens), 8)
    add_experts(p, out, rules, kind, tokens, v, q, g, mx, error=terms * 2.0 ** -21, s=s, terms=terms / s)
    return given, out, rules


def quantized(p, m, n, full, kind="rows", q=None, g=0, mx=False):
    """Given numbers in 8 bits: the bytes are defined."""
    x = p.normal(m, n, scale=3.0)
    given, out, rules = {"x": x}, {}, {}
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
        out = {"y": p.empty((m, n), q), "scale": p.empty((m, cdiv(n, g)), E8 if mx else F32)}
    elif kind == "both":
        y, s = exact_groups(v, g, q, mx)
        yt, st = exact_groups(v.T, g, q, mx)
        out = {"y": p.empty((m, n), q), "scale": p.empty((cdiv(n, g), m), E8 if mx else F32),
               "yt": p.empty((n, m), q), "scale_t": p.empty((cdiv(m, g), n), E8 if mx else F32)}
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
        out = {"y": p.empty((m, n), q), "scale": p.empty(tuple(s.shape), E8 if mx else F32)}
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


def dequantized(p, m, n, full, kind="rows", g=128, mx=False, q=None):
    """kind: tensor, rows, groups or blocks that share a scale."""
    y = cast(p.normal(m, n, dtype=F32, scale=2.0 if q == FP4 else 50.0).clamp(-200, 200), q or p.fp8)
    shape = {"tensor": (1,), "rows": (m,), "groups": (m, cdiv(n, g)), "blocks": (cdiv(m, g), cdiv(n, g))}[kind]
    s = p.normal(*shape, dtype=F32).abs()
    if mx:
        codes_ = torch.randint(100, 150, shape, generator=p.random, device=p.device)
        s, given = torch.exp2(codes_.to(F32) - 127), codes_.to(U8).view(E8)
    by = s[:, None] if kind == "rows" else s
    if kind == "blocks":
        by = by.repeat_interleave(g, 0)[:m]
    if kind in ("groups", "blocks"):
        by = spread(by, g, n)
    return {"y": y, "scale": given if mx else s}, {"x": p.empty((m, n), BF16)}, {"x": same((numbers_of(y) * by).to(BF16))}


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


def products_mx(p, m, n, full, q=None, weights=False):
    """Codes of q by codes, or bf16 by codes; 32 of a row share a power of two."""
    e, k, rows = 3, 544 if full else 96, m + 5

    def operand(*shape):
        codes = cast(p.normal(*shape, k, dtype=F32, scale=2.0 if q == FP4 else 50.0).clamp(-200, 200), q or p.fp8)
        scale = torch.randint(118, 130, (*shape, k // 32), generator=p.random, device=p.device, dtype=torch.int32).to(U8)
        wide = numbers_of(codes).to(F64).view(*shape, k // 32, 32) * torch.exp2(scale.to(F64) - 127)[..., None]
        return codes, scale.view(E8), wide.view(*shape, k)
    first = [0, rows // 2, rows // 2, rows]
    b, sb, wb = operand(e, n)
    given = {"b": b, "sb": sb, "first": p.ints(first)}
    if weights:
        given["a"] = p.normal(rows, k, scale=0.3)
        wa = given["a"].to(F64)
    else:
        given["a"], given["sa"], wa = operand(rows)
    of = lambda f: torch.cat([f(wa[x:y]) @ f(wb[i]).T for i, (x, y) in enumerate(zip(first, first[1:]))])
    return given, {"c": p.empty((rows, n), BF16)}, {"c": plain_sum(of(lambda t: t), of(torch.abs))}


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
KERNELS = {
    "rmsnorm_quant": [(norm, dict(kind="rows", q=FP8, must_w=True)), (norm, dict(kind="rows", q=torch.int8, must_w=True))],
    "rmsnorm": [(norm, dict(q=BF16)), (norm, dict(q=FP8))],
    "layernorm": [(norm, dict(q=BF16, layer=True)), (norm, dict(q=FP8, layer=True))],
    "add_rmsnorm_quant": [(norm, dict(kind="rows", q=FP8, smooth=True)), (norm, dict(kind="rows", q=torch.int8, smooth=True))],
    "layernorm_quant": [(norm, dict(kind="rows", q=FP8, layer=True, smooth=True)), (norm, dict(kind="rows", q=torch.int8, layer=True, smooth=True))],
    "rmsnorm_both_mxfp8": [(norm, dict(kind="both", q=FP8, g=32, mx=True))], "layernorm_both_mxfp8": [(norm, dict(kind="both", q=FP8, g=32, mx=True, layer=True))],
    "swiglu_quant": [(unit, dict(kind="groups", q=FP8, g=128))],
    "swiglu_clamped": [(unit, dict(q=BF16, clamped=True)), (unit, dict(q=FP8, clamped=True))],
    "swiglu_clamped_128": [(unit, dict(kind="groups", q=FP8, clamped=True))],
    "swiglu_masked": [(masked, {})], "swiglu_masked_128": [(masked, dict(kind="groups", q=FP8))], "swiglu_masked_128_e8m0": [(masked, dict(kind="groups", q=FP8, mx=True))],
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
    "add": [(added, {})], "softmax_rows": [(softmax, {})], "softmax_bwd": [(back, dict(of=softmax_slope, scale="scale"))],
    "rmsnorm_bwd": [(back, dict(of=norm_slope))], "layernorm_bwd": [(back, dict(of=norm_slope, layer=True))],
    "delayed_scaling": [(recipe, {})], "multi_tensor_amax": [(recipe, dict(kind="amax"))], "multi_tensor_l2norm": [(recipe, dict(kind="l2norm"))],
    "multi_tensor_scale": [(recipe, dict(kind="scale"))], "multi_tensor_adam": [(recipe, dict(kind="adam")), (recipe, dict(kind="adam", param=F32))],
    "grouped_gemm": [(products, {})], "grouped_gemm_mx": [(products_mx, {}), (products_mx, dict(q=FP4))],
    "grouped_gemm_mx_weights": [(products_mx, dict(weights=True)), (products_mx, dict(q=FP4, weights=True))], "attention": [(attend, {})],
}
for _layer in ("rmsnorm", "layernorm"):
    for _name, _g, _mx in (("128", 128, False), ("128_e8m0", 128, True), ("mxfp8", 32, True)):
        KERNELS[f"{_layer}_{_name}"] = [(norm, dict(kind="groups", q=FP8, g=_g, mx=_mx, layer=_layer == "layernorm"))]
GATES = {"swiglu": "silu", "geglu": "gelu", "geglu_tanh": "gelu_tanh", "reglu": "relu", "sreglu": "srelu", "qgeglu": "qgelu"}
for _name, _f in GATES.items():
    KERNELS[_name] = [(unit, dict(f=_f, q=BF16)), (unit, dict(f=_f, q=FP8))]
    KERNELS[f"{_name}_bwd"] = [(back, dict(f=_f))]
    KERNELS[f"{_f}_act"] = [(unit, dict(f=_f, q=BF16, gated=False)), (unit, dict(f=_f, q=FP8, gated=False))]
    KERNELS[f"{_f}_bwd"] = [(back, dict(f=_f, gated=False))]
for _name, _f in (("swiglu", "silu"), ("geglu", "gelu"), ("geglu_tanh", "gelu_tanh")):
    KERNELS[f"{_name}_rows"] = [(unit, dict(f=_f, kind="rows", q=FP8, smooth=True))]
    KERNELS[f"{_name}_128"] = [(unit, dict(f=_f, kind="groups", q=FP8))]
for _name, _g in (("swiglu_128_e8m0", 128), ("swiglu_mxfp8", 32)):
    KERNELS[_name] = [(unit, dict(kind="groups", q=FP8, g=_g, mx=True))]
for _f in ("gelu_tanh", "relu", "srelu"):
    KERNELS[f"{_f}_128"] = [(unit, dict(f=_f, kind="groups", q=FP8, gated=False))]
MATRIX = ("grouped_gemm", "grouped_gemm_mx", "grouped_gemm_mx_weights", "attention")
# Arguments that stand in every case of these.
BARE = {"rmsnorm_quant", "swiglu_quant", "quantize_128", "quantize_128_e8m0", "quantize_mxfp8", "quantize_128x128", "quantize_128x128_e8m0",
        "quantize_both_128", "quantize_both_128_e8m0", "quantize_both_mxfp8", "dequantize_rows", "dequantize_128", "dequantize_mxfp8", "dequantize_128x128", "add",
        "swiglu_masked", "swiglu_masked_128", "swiglu_masked_128_e8m0", "rmsnorm_both_mxfp8", "layernorm_both_mxfp8", "delayed_scaling", "multi_tensor_amax",
        "multi_tensor_l2norm", "multi_tensor_scale", "multi_tensor_adam", "grouped_gemm"}


# ---- kernels that nothing is timed of, most of which packs hold as text alone and compile at their first call: the same formulas, stored in every other way
KINDS = {"static": dict(q=FP8), "rows": dict(kind="rows", q=FP8), "128": dict(kind="groups", q=FP8, g=128), "128_e8m0": dict(kind="groups", q=FP8, g=128, mx=True),
         "mxfp8": dict(kind="groups", q=FP8, g=32, mx=True), "mxfp4": dict(kind="groups", q=FP4, g=32, mx=True),
         "both_128": dict(kind="both", q=FP8, g=128), "both_128_e8m0": dict(kind="both", q=FP8, g=128, mx=True),
         "both_mxfp8": dict(kind="both", q=FP8, g=32, mx=True), "both_mxfp4": dict(kind="both", q=FP4, g=32, mx=True)}
GROUPS, BOTH = ("128", "128_e8m0", "mxfp8", "mxfp4"), ("both_128", "both_mxfp8", "both_mxfp4")
REST = {"rmsnorm_t5": [(norm, dict(q=BF16, t5=True)), (norm, dict(q=FP8, t5=True))], "rmsnorm_t5_quant": [(norm, dict(kind="rows", q=FP8, t5=True, smooth=True))],
        "quantize_mxfp4": [(quantized, KINDS["mxfp4"])], "quantize_both_mxfp4": [(quantized, KINDS["both_mxfp4"])],
        "dequantize": [(dequantized, dict(kind="tensor"))], "dequantize_128_e8m0": [(dequantized, dict(kind="groups", mx=True))],
        "dequantize_mxfp4": [(dequantized, dict(kind="groups", g=32, mx=True, q=FP4))], "dequantize_128x128_e8m0": [(dequantized, dict(kind="blocks", mx=True))],
        "swiglu_clamped_bwd": [(back, dict(clamped=True))]}


def add_rest(prefix, kinds, family, **how):
    for kind in kinds:
        if f"{prefix}_{kind}" not in KERNELS:
            REST[f"{prefix}_{kind}"] = [(family, {**KINDS[kind], **how})]


for _name in ("rmsnorm", "layernorm"):
    add_rest(_name, GROUPS + BOTH + ("both_128_e8m0",), norm, layer=_name == "layernorm")
    add_rest(f"{_name}_bwd", ("static", "rows") + BOTH, back, of=norm_slope, layer=_name == "layernorm")
add_rest("rmsnorm_t5", GROUPS, norm, t5=True)
add_rest("softmax_bwd", ("static", "rows") + BOTH, back, of=softmax_slope)
for _name, _f in [*GATES.items(), ("swiglu_clamped", "silu")] + [(f, f) for f in GATES.values()]:
    _how = dict(f=_f, gated=_name != _f, clamped=_name == "swiglu_clamped")
    add_rest(_name, ("rows",), unit, smooth=True, amax=True, **_how)
    add_rest(_name, GROUPS + BOTH, unit, amax=True, **_how)
    add_rest(f"{_name}_bwd", ("static", "rows") + BOTH, back, **_how)
for _name, _f in GATES.items():
    if _name != "swiglu":
        REST[f"{_name}_masked"] = [(masked, dict(f=_f)), (masked, dict(f=_f, q=FP8))]
    REST[f"{_name}_masked_bwd"] = [(back_masked, dict(f=_f))]
    add_rest(f"{_name}_masked_bwd", ("static", "rows"), back_masked, f=_f)
for _name in ("swiglu", "geglu", "geglu_tanh"):
    add_rest(f"{_name}_masked", ("rows", "128"), masked, f=GATES[_name])
    add_rest(f"{_name}_masked_bwd", BOTH, back_masked, f=GATES[_name])
add_rest("swiglu_masked", ("mxfp8", "mxfp4") + BOTH, masked)

SQUARES = [(128, 256), (160, 2912), (512, 4096)]            # whole groups both ways; rows of 91 scales
SUMMED = {k for k, families in KERNELS.items() if k.endswith("_bwd") and k != "softmax_bwd"}
CROWDS = [(8200, 520), (4200, 1288), (2100, 4096), (1100, 5128),       # of rows that workgroups take in turn, of each class
          (8200, 1000), (2103, 4000), (2800, 3000)]                    # in one piece and in several, of both widths, the last of which ends early
HEADS = [(16928, 64), (16901, 40), (8464, 128), (8451, 104), (4232, 256), (2116, 512), (2115, 456), (8200, 1024), (4100, 2048), (1100, 8192)]   # rows of heads, and as long as a class, of norms
ODD_CROWDS = [(300, 500), (1030, 5001)]                                   # that begin anywhere
ODD_ROWS = [(2051, 1001), (2050, 2001), (1030, 4001), (140, 6001), (520, 8001)]      # of each class of norms
SHORT_PIECES = [(65539, 56), (65537, 120), (65543, 248)]                   # of gates and activations, several to a workgroup
FULL = {"": "", "sums": " with sums of columns", "all": " with all options"}
# Of the rest's: short and long rows, few and many, that begin anywhere, whole blocks, members of a cluster.
FEW = [(1, 4096), (7, 770), (130, 4096), (66, 1000), (2, 20000), (34, 64), (300, 502), (256, 1024), (384, 2048), (2050, 250), (64, 7168), (96, 8192)]


def halves_fit(kind, q, m, n):
    return q != FP4 or (n % 2 == 0 and (kind != "both" or m % 2 == 0))


def options(name):
    if name in REST:
        plain = name.startswith(("quantize", "dequantize")) or name.endswith("_masked_bwd")
        sums = "_bwd" in name and not name.startswith("softmax") and "_masked_" not in name
        return ("",) if plain else ("", "sums", "all") if sums else ("", "all")
    return ("",) if name in BARE else ("", "sums", "all") if name in SUMMED else ("", "all")


def cases(name, place, shapes):
    """The cases of a kernel, made one after the other: each shape, plain and with every optional argument."""
    if name in REST:
        shapes = FEW if place.device == "cuda" else shapes
    elif "_both_" in name:
        shapes = shapes + SQUARES[:3 if place.device == "cuda" else 1]
    if name in SUMMED and place.device == "cuda":
        shapes = shapes + CROWDS + ODD_CROWDS + (HEADS + ODD_ROWS if "norm" in name else SHORT_PIECES)
    for family, constants in KERNELS.get(name) or REST[name]:
        constants = {k: place.fp8 if v is FP8 else v for k, v in constants.items()}
        for m, n in shapes:
            if not halves_fit(constants.get("kind"), constants.get("q"), m, n):
                continue
            for full in options(name):
                kind = str(constants.get("q", constants.get("param", ""))).removeprefix("torch.")
                label = f"{name} ({m}, {n}){' ' + kind if kind else ''}{FULL[full]}"
                yield Case(label, *family(place, m, n, full, **constants))
