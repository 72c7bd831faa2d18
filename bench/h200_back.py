"""h200_back.py -- the gradients of bench/h200_rows.py's checks: what goes back through norms, softmax, gates and activations.

In: a place, extents, what is stored and how.  Out: what a case is made of (given, out, rules), from formulas in f64.
Each gradient is written once, as the number that is stored with the magnitude of what it is a sum of; kinds of storage are h200_rules'.
"""
import torch

from h200_rules import ACT, BF16, F32, F64, add_experts, add_stored, largest, plain_sum, single, slope, tokens_of, total

STEP = 2.0 ** -20                                            # of the terms' magnitudes: what f32 brings to their sum


def norm_slope(p, m, n, full, layer=False):
    """(given, gradient, magnitudes, {sum over rows: (numbers, magnitudes)}, the gradient's name)"""
    dy, x, w = p.normal(m, n), p.normal(m, n), p.normal(n, scale=0.3, offset=1.0)
    u = x.to(F64)
    mu = u.mean(-1, keepdim=True) if layer else torch.zeros(m, 1, device=p.device, dtype=F64)
    rstd = (1 / torch.sqrt((u - mu).square().mean(-1) + 1e-5)).to(F32)
    given, d = {"dy": dy, "x": x, "w": w, "rstd": rstd}, dy.to(F64)
    r = rstd.to(F64)[:, None]
    if layer:
        given["mu"] = mu[:, 0].to(F32)
        mu = given["mu"].to(F64)[:, None]
    h, by = (u - mu) * r, d * w.to(F64)
    dx = (by - h * (by * h).mean(-1, keepdim=True) - (by.mean(-1, keepdim=True) if layer else 0)) * r
    size = (by.abs() + h.abs() * (by * h).abs().mean(-1, keepdim=True) + by.abs().mean(-1, keepdim=True)) * r
    if full == "all":
        given["dres"] = p.normal(m, n)
        dx, size = dx + given["dres"].to(F64), size + given["dres"].to(F64).abs()
    sums = {"dw": ((d * h).sum(0), (d * h).abs().sum(0))}
    if layer:
        sums["db"] = d.sum(0), d.abs().sum(0)
    return given, dx, size, sums, "dx"


def softmax_slope(p, m, n, full, scale="factor"):
    dy, y = p.normal(m, n), torch.softmax(p.normal(m, n, dtype=F32), -1).to(BF16)
    d, q = dy.to(F64), y.to(F64)
    dot = (d * q).sum(-1, keepdim=True)
    size = 0.7 * q * (d.abs() + (d * q).abs().sum(-1, keepdim=True))
    return {"dy": dy, "y": y, scale: 0.7}, 0.7 * q * (d - dot), size, {}, "dx"


def clamped_slopes(gate, up):
    kept, s = gate.clamp_max(7), torch.sigmoid(1.702 * gate.clamp_max(7))
    by_gate = (s + 1.702 * kept * s * (1 - s)) * (up.clamp(-7, 7) + 1)
    return torch.where(gate <= 7, by_gate, torch.zeros_like(gate)), torch.where(up.abs() <= 7, kept * s, torch.zeros_like(gate))


def unit_slopes(d, u, n, f, gated=True, clamped=False):
    """The gradient of h or x, and its magnitudes."""
    if not gated:
        return d * slope(f, u), d.abs() * (1 + u.abs())
    gate, up = u[..., :n], u[..., n:]
    by_gate, by_up = clamped_slopes(gate, up) if clamped else (up * slope(f, gate), ACT[f](gate))
    size = torch.cat((d * (up.abs() + clamped), d * gate), -1).abs() * (1 + torch.cat((gate, gate), -1).abs())
    return torch.cat((d * by_gate, d * by_up), -1), size


def unit_slope(p, m, n, full, f="silu", gated=True, clamped=False):
    dy, x = p.normal(m, n), p.normal(m, 2 * n if gated else n, scale=2.0)
    given, u = {"dy": dy, "h" if gated else "x": x}, x.to(F64)
    if full == "all":
        given["b"] = p.normal(u.shape[1])
        u = u + given["b"].to(F64)
    ref, size = unit_slopes(dy.to(F64), u, n, f, gated, clamped)
    return given, ref, size, {"db": (ref.sum(0), size.sum(0))}, "dh" if gated else "dx"


def static_scale(p, given, kind, q):
    """The scale of the whole tensor, where 8 bits have one, put among what is given."""
    if kind != "plain" or q == BF16:
        return 1.0
    given["scale"] = torch.full((1,), 0.0037, device=p.device, dtype=F32)
    return given["scale"].to(F64)


def back(p, m, n, full, of=unit_slope, kind="plain", q=BF16, g=0, mx=False, **how):
    """kind: plain (16 bits, or 8 in units of a scale), rows, both.  full: "" plain, "sums" with the sums of columns, "all"."""
    given, v, size, sums, name = of(p, m, n, full, **how)
    out, rules = {}, {}
    s = static_scale(p, given, kind, q)
    if full == "all" and (kind != "plain" or q != BF16):
        given["amax"] = torch.full((1,), 0.25 * float(v.abs().max()), device=p.device, dtype=F32)
        rules["amax"] = single(v.abs().amax().reshape(1), 8, float(size.max()) * STEP)
    ragged = kind == "both" and g and v.shape[1] != n and n % g  # a group of both halves: not row-wise
    names = {"y": None if ragged else name, "yt": name + "t", "scale": None if ragged else "scale"}
    add_stored(p, out, rules, kind, v, q, g, mx, full == "all" and q != BF16, names, error=size * STEP, ulps=8, s=s,
               wide=lambda ref: plain_sum(ref, size / s))
    for column, (ref, terms) in sums.items() if full else ():
        out[column] = p.empty(tuple(ref.shape), F32)
        rules[column] = total(ref, terms)
    return given, out, rules


def back_masked(p, m, n, full, f="silu", kind="plain", q=BF16, g=0, mx=False):
    tokens = tokens_of(m, kind, q)
    dy, h = p.normal(3, m, n), p.normal(3, m, 2 * n, scale=2.0)
    given, out, rules = {"dy": dy, "h": h, "tokens": p.ints(tokens)}, {}, {}
    v, size = unit_slopes(dy.to(F64), h.to(F64), n, f)
    s = static_scale(p, given, kind, q)
    if full and (kind != "plain" or q != BF16):
        given["amax"] = torch.full((1,), 0.25, device=p.device, dtype=F32)
        rules["amax"] = single(largest(v, tokens), 8, float(size.max()) * STEP)
    ragged = kind == "both" and n % g
    names = {"y": None if ragged else "dh", "yt": "dht", "scale": None if ragged else "scale"}
    add_experts(p, out, rules, kind, tokens, v, q, g, mx, names, size * STEP, s, size / s)
    return given, out, rules
