"""h200_works.py -- what bench/h200.py times: the row kernels, each with whoever does the same.

In: nothing but the pack's names.  Out: works(), one Work a kernel: its tensors, the bytes that must move, Triton's candidates (kernel,
arguments, constants, warps, grid: bench/triton_h200.py), torch's expression, and the shapes.  How they are timed is h200_times.py's.
"""
import torch
import torch.nn.functional as F
import triton

import triton_h200 as tk

BF16, F32, U8, FP8, E8 = torch.bfloat16, torch.float32, torch.uint8, torch.float8_e4m3fn, torch.float8_e8m0fnu
TOP = 448.0
SHAPES = [(1, 4096), (128, 4096), (4096, 4096), (16384, 4096), (8192, 8192), (32768, 8192), (4096, 16384), (65536, 1024), (16384, 7168)]
GLU_SHAPES = [(1, 14336), (128, 14336), (4096, 14336), (16384, 14336), (16384, 2048)]
SQUARE_SHAPES = [(4096, 4096), (16384, 4096), (8192, 14336)]
OTHER_SHAPES = [(1, 4096), (128, 4096), (4096, 4096), (16384, 4096)]
SUM_SHAPES = OTHER_SHAPES + [(8192, 8192), (65536, 1024)]
HEAD_SHAPES = [(524288, 128)]                             # norms of queries and keys: a row for each of a token's heads
ODD_SHAPES = [(128, 5001), (4096, 5001), (16384, 4100), (65536, 60), (16384, 250)]
LONG_SHAPES = [(4096, 20480), (2048, 32768), (1024, 65536), (128, 65536)]
LONG_NAMES = ("norm", "_rows", "softmax")                 # of kernels whose rows are reduced whole
SHORT_SHAPES = [(1024, 128), (32768, 128), (262144, 128), (131072, 256), (65536, 512)]     # of the kernels of LONG_NAMES
BETWEEN_SHAPES = [(4096, 1536), (4096, 2560), (4096, 4608), (4096, 10240)]
QUICK = {(1, 4096), (128, 4096), (16384, 4096), (1, 14336), (128, 14336), (4096, 14336)}
# Triton's times on the machine where the space was first measured, us: repeated rows must come within 5 %.
BEFORE = {
    "rmsnorm_quant": dict(zip(SHAPES, (4.6, 5.4, 19.4, 56.4, 58.3, 207, 64.0, 53.1, 101))),
    "layernorm_quant": dict(zip(SHAPES, (4.7, 5.7, 20.4, 60.8, 63.7, 229, 72.4, 56.1, 113))),
    "add_rmsnorm_quant": dict(zip(SHAPES, (5.4, 6.2, 35.2, 116, 118, 444, 126, 115, 201))),
    "rmsnorm_128": dict(zip(SHAPES, (4.0, 5.3, 18.8, 54.5, 57.6, 206, 65.4, 53.7, 98.9))),
    "rmsnorm_mxfp8": dict(zip(SHAPES, (4.3, 5.4, 17.9, 54.3, 59.5, 207, 62.9, 53.5, 100))),
    "quantize_rows": dict(zip(SHAPES, (4.2, 4.7, 17.5, 53.0, 53.0, 189, 53.6, 53.1, 87.3))),
    "swiglu_128": dict(zip(GLU_SHAPES, (4.0, 7.3, 78.2, 288, 47.5))),
    "cast_transpose": dict(zip(SQUARE_SHAPES, (23.2, 75.2, 126))),
}


class Work:
    """One kernel to time.  make(M, N, device) -> tensors by name, inputs random; given: the pack's inputs by name, ("scale", "one") for
    tensor "one" as scale; out: its outputs."""

    def __init__(self, name, shapes, make, nbytes, given, out, triton, eager=None, scalars=None, first=False, kernel=None):
        self.name, self.shapes, self.make, self.nbytes, self.out, self.triton, self.eager = name, shapes, make, nbytes, out, triton, eager
        self.given = [g if isinstance(g, tuple) else (g, g) for g in given]
        self.scalars, self.kernel, self.first = scalars or {}, kernel or name.removesuffix("_fp8"), first

    def ours(self, pack, t):
        f, x = getattr(pack, self.kernel), t[self.given[0][1]]
        named = {**{a: t[b] for a, b in self.given[1:]}, **self.scalars, **{o: t[o] for o in self.out}}
        return lambda: f(x, **named)


def bf(*shape, device):
    return torch.randn(*shape, device=device, dtype=BF16)


def empty(*shape, dtype=F32, device):
    return torch.empty(*shape, device=device, dtype=dtype)


# ---- torch's expressions, traced by torch.compile and run eagerly

def t_rows(v):
    s = v.abs().amax(-1, keepdim=True).clamp_min(1e-12) / TOP
    return (v * (1 / s)).to(FP8), s


def t_groups(v, g):
    b = v.unflatten(-1, (-1, g))
    s = b.abs().amax(-1, keepdim=True).clamp_min(1e-12) / TOP
    return (b * (1 / s)).to(FP8).flatten(-2), s


def t_norm(x, w, layer):
    x, w = x.float(), w.float()
    return F.layer_norm(x, (x.shape[-1],), w, None, 1e-6) if layer else F.rms_norm(x, (x.shape[-1],), w, 1e-6)


def t_unit(f, x):
    return {"none": lambda v: v, "silu": F.silu, "gelu": F.gelu, "gelu_tanh": lambda v: F.gelu(v, approximate="tanh"), "relu": F.relu,
            "srelu": lambda v: F.relu(v).square(), "qgelu": lambda v: v * torch.sigmoid(1.702 * v)}[f](x)


def t_gate(f, h):
    g, u = h.float().chunk(2, -1)
    return t_unit(f, g) * u


def t_add(x, r, w):
    s = x.float() + r.float()
    return (s.to(x.dtype), *t_rows(F.rms_norm(s, (s.shape[-1],), w.float(), 1e-6)))


# ---- what is timed

def scale_bytes(kind, m, n, g, mx):
    """Of m x n values: one in f32 a row, or one a group of g, in f32 or 8 bits (mx)."""
    return {"rows": 4 * m, "groups": m * n // g * (1 if mx else 4) if g else 0}.get(kind, 0)


def norm_work(name, layer, kind, shapes, add=False, mx=False, g=0, out=FP8, first=False):
    """kind: rows, groups, static."""
    def make(m, n, device):
        t = dict(x=bf(m, n, device=device), w=bf(n, device=device), y=empty(m, n, dtype=out, device=device))
        if add:
            t.update(res=bf(m, n, device=device), res_out=empty(m, n, dtype=BF16, device=device))
        if kind == "rows":
            t["scale"] = empty(m, device=device)
        elif kind == "groups":
            t["scale"] = empty(m, n // g, dtype=E8 if mx else F32, device=device)
        else:
            t["one"] = torch.full((1,), 0.05, device=device)
        return t

    def candidates(m, n):
        p, space = tk.row_space(n)
        for r, w in space:
            grid, label = (triton.cdiv(m, r),), f"R{r} w{w}"
            if kind == "rows":
                yield label, tk.rms_row_quant, lambda t: (t["x"], t["w"], t.get("res", t["x"]), t.get("res_out", t["x"]), t["y"], t["scale"], m, n, 1e-6), dict(
                    FMAX=TOP, R=r, BLOCK=p, ADD=add, LAYER=layer), w, grid
            elif kind == "groups":
                yield label, tk.norm_block_quant, lambda t: (t["x"], t["w"], t["y"], t["scale"].view(U8) if mx else t["scale"], m, n, 1e-6), dict(
                    FMAX=TOP, R=r, BLOCK=p, G=g, MX=mx, LAYER=layer), w, grid
            else:
                yield label, tk.norm_static, lambda t: (t["x"], t["w"], t["one"], t["y"], m, n, 1e-6), dict(
                    R=r, BLOCK=p, LAYER=layer, SCALED=out is FP8), w, grid

    def nbytes(m, n):
        base = m * n * (2 + (1 if out is FP8 else 2)) + (4 * m * n if add else 0)
        return base + scale_bytes(kind, m, n, g, mx)
    given = ["x", "w"] + (["res"] if add else [])
    eager = None
    if kind == "rows":
        eager = (lambda t: t_add(t["x"], t["res"], t["w"])) if add else (lambda t: t_rows(t_norm(t["x"], t["w"], layer)))
    elif kind == "groups" and not mx:
        eager = lambda t: t_groups(t_norm(t["x"], t["w"], layer), g)
    elif kind == "static" and out is BF16:
        eager = lambda t: t_norm(t["x"], t["w"], layer).to(BF16)
    if kind == "static" and out is FP8:
        given = given + [("scale", "one")]
    return Work(name, shapes, make, nbytes, given, ["y"] + (["scale"] if kind != "static" else []) + (["res_out"] if add else []), candidates, eager, dict(eps=1e-6), first)


def unit_work(name, f, gated, kind, shapes, mx=False, g=128, out=FP8, clamp=False, peers=False, first=False):
    def make(m, n, device):
        t = {"x": bf(m, 2 * n if gated else n, device=device), "y": empty(m, n, dtype=out, device=device)}
        if kind == "groups":
            t["scale"] = empty(m, n // g, dtype=E8 if mx else F32, device=device)
        elif kind == "rows":
            t["scale"] = empty(m, device=device)
        else:
            t["one"] = torch.full((1,), 0.05, device=device)
        return t

    def candidates(m, n):
        if kind == "rows":
            p, space = tk.row_space(n)
            for r, w in space:
                yield f"R{r} w{w}", tk.unit_row_quant, lambda t: (t["x"], t["y"], t["scale"], m, n), dict(FMAX=TOP, R=r, BLOCK=p, F=tk.UNITS[f]), w, (triton.cdiv(m, r),)
            return
        for r, k, w in tk.TILE_SPACE:
            grid, label = (triton.cdiv(m, r), triton.cdiv(n, k)), f"R{r} b{k} w{w}"
            if peers:
                yield label, tk.glu_block_quant, lambda t: (t["x"], t["y"], t["scale"], m, n), dict(FMAX=TOP, R=r, BLOCK=k, G=g, GELU=f == "gelu_tanh"), w, grid
            elif kind == "groups":
                yield label, tk.unit_block_quant, lambda t: (t["x"], t["y"], t["scale"].view(U8) if mx else t["scale"], m, n), dict(
                    FMAX=TOP, R=r, BLOCK=k, G=g, F=tk.UNITS[f], GLU=gated, CLAMP=clamp, MX=mx), w, grid
            else:
                yield label, tk.unit_static, lambda t: (t["x"], t["one"], t["y"], m, n), dict(
                    R=r, BLOCK=k, F=tk.UNITS[f], GLU=gated, CLAMP=clamp, SCALED=out is FP8), w, grid

    def nbytes(m, n):
        return m * n * ((4 if gated else 2) + (1 if out is FP8 else 2)) + scale_bytes(kind, m, n, g, mx)
    eager = None
    value = (lambda t: t_gate(f, t["x"])) if gated else (lambda t: t_unit(f, t["x"].float()))
    if not clamp and not mx:
        eager = {"groups": lambda t: t_groups(value(t), g), "rows": lambda t: t_rows(value(t))}.get(kind) or (
            (lambda t: value(t).to(BF16)) if out is BF16 else (lambda t: (value(t) * (1 / t["one"])).to(FP8)))
    return Work(name, shapes, make, nbytes, [("h" if gated else "x", "x")] + ([("scale", "one")] if kind == "static" and out is FP8 else []),
                ["y"] + (["scale"] if kind != "static" else []), candidates, eager, first=first)


def row_work(name, shapes, first=False):
    def candidates(m, n):
        p, space = tk.row_space(n)
        for r, w in space:
            yield f"R{r} w{w}", tk.row_quant, lambda t: (t["x"], t["y"], t["scale"], m, n), dict(FMAX=TOP, R=r, BLOCK=p), w, (triton.cdiv(m, r),)
    return Work(name, shapes, lambda m, n, device: dict(x=bf(m, n, device=device), y=empty(m, n, dtype=FP8, device=device), scale=empty(m, device=device)),
                           lambda m, n: m * n * 3 + 4 * m, ["x"], ["y", "scale"], candidates, lambda t: t_rows(t["x"].float()), first=first)


def cast_work():
    def make(m, n, device):
        return dict(x=bf(m, n, device=device), y=empty(m, n, dtype=FP8, device=device), yt=empty(n, m, dtype=FP8, device=device), one=torch.ones(1, device=device))

    def candidates(m, n):
        for p, q, w in tk.SQUARE_SPACE:
            yield f"{p}x{q} w{w}", tk.cast_transpose, lambda t: (t["x"], t["y"], t["yt"], t["one"], m, n), dict(BM=p, BN=q), w, (triton.cdiv(m, p), triton.cdiv(n, q))
    return Work("cast_transpose", SQUARE_SHAPES, make, lambda m, n: m * n * 4, ["x", ("scale", "one")], ["y", "yt"], candidates,
                           lambda t: ((v := (t["x"].float() * t["one"]).to(FP8)), v.t().contiguous()), first=True)


def square_work(name, g, mx, both, f="none", gated=False, clamp=False):
    e = E8 if mx else F32
    given = "h" if gated else "x"

    def make(m, n, device):
        t = {given: bf(m, 2 * n if gated else n, device=device), "y": empty(m, n, dtype=FP8, device=device)}
        if both:
            t.update(scale=empty(n // g, m, dtype=e, device=device), yt=empty(n, m, dtype=FP8, device=device), scale_t=empty(m // g, n, dtype=e, device=device))
        else:
            t["scale"] = empty(triton.cdiv(m, g), n // g, dtype=e, device=device)
        return t

    def candidates(m, n):
        def u(s):
            return s.view(U8) if mx else s
        for b, w in ((128, 4), (128, 8), (128, 16)) + (((64, 4), (64, 8), (32, 2), (32, 4)) if both and g == 32 else ()):
            grid = (triton.cdiv(m, b), triton.cdiv(n, b))
            if both:
                yield f"{b} w{w}", tk.both_quant, lambda t: (t[given], t["y"], u(t["scale"]), t["yt"], u(t["scale_t"]), m, n), dict(
                    FMAX=TOP, B=b, G=g, MX=mx, F=tk.UNITS[f], GLU=gated, CLAMP=clamp), w, grid
            else:
                yield f"{b} w{w}", tk.tile_quant, lambda t: (t["x"], t["y"], u(t["scale"]), m, n), dict(FMAX=TOP, G=g, MX=mx), w, grid

    def nbytes(m, n):
        return m * n * ((6 if gated else 4) if both else 3) + (2 * scale_bytes("groups", m, n, g, mx) if both else 0)
    return Work(name, SQUARE_SHAPES[:2], make, nbytes, [given], ["y", "scale"] + (["yt", "scale_t"] if both else []), candidates)


def norm_both_work(name, layer):
    """Counted as read once, though a row's norm comes before its groups of 32 rows: a multiprocessor does not hold so many, but a cluster of them does."""
    def make(m, n, device):
        return dict(x=bf(m, n, device=device), w=bf(n, device=device), y=empty(m, n, dtype=FP8, device=device), scale=empty(n // 32, m, dtype=E8, device=device),
                    yt=empty(n, m, dtype=FP8, device=device), scale_t=empty(m // 32, n, dtype=E8, device=device))

    def candidates(m, n):
        for b, w in ((32, 2), (32, 4), (64, 4), (128, 4), (128, 8), (256, 8)):
            yield f"32x{b} w{w}", tk.norm_both_quant, lambda t: (t["x"], t["w"], t["y"], t["scale"].view(U8), t["yt"], t["scale_t"].view(U8), m, n, 1e-6), dict(
                FMAX=TOP, R=32, BLOCK=b, G=32, LAYER=layer), w, (triton.cdiv(m, 32),)
    return Work(name, SQUARE_SHAPES[:2], make, lambda m, n: m * n * 4 + m * n // 16, ["x", "w"], ["y", "scale", "yt", "scale_t"], candidates, scalars=dict(eps=1e-6))


def dequant_work(name, gm, gn, mx):
    def make(m, n, device):
        shape = (m,) if not gn else (triton.cdiv(m, gm), n // gn)
        scale = torch.full(shape, 121, device=device, dtype=U8).view(E8) if mx else torch.rand(shape, device=device)
        return dict(y=torch.randn(m, n, device=device).to(FP8), scale=scale, x=empty(m, n, dtype=BF16, device=device))

    def candidates(m, n):
        for r, k, w in tk.TILE_SPACE:
            yield f"R{r} b{k} w{w}", tk.dequant, lambda t: (t["y"], t["scale"].view(U8) if mx else t["scale"], t["x"], m, n), dict(
                R=r, BLOCK=k, GM=gm, GN=gn, E8=mx), w, (triton.cdiv(m, r), triton.cdiv(n, k))
    return Work(name, OTHER_SHAPES, make, lambda m, n: m * n * 3 + (0 if gm > 1 else scale_bytes("groups" if gn else "rows", m, n, gn, mx)), ["y", "scale"], ["x"], candidates,
                           None if mx or gn else lambda t: (t["y"].float() * t["scale"][:, None]).to(BF16))


def back_work(name, f, gated):
    def make(m, n, device):
        wide = 2 * n if gated else n
        return {"dy": bf(m, n, device=device), "h" if gated else "x": bf(m, wide, device=device), "dh" if gated else "dx": empty(m, wide, dtype=BF16, device=device)}
    a, b = ("h", "dh") if gated else ("x", "dx")

    def candidates(m, n):
        for r, k, w in tk.TILE_SPACE:
            yield f"R{r} b{k} w{w}", tk.unit_back, lambda t: (t["dy"], t[a], t[b], m, n), dict(R=r, BLOCK=k, F=tk.UNITS[f], GLU=gated), w, (triton.cdiv(m, r), triton.cdiv(n, k))
    return Work(name, OTHER_SHAPES, make, lambda m, n: m * n * (10 if gated else 6), ["dy", a], [b], candidates)


def norm_back_work(name, layer):
    def make(m, n, device):
        return dict(dy=bf(m, n, device=device), x=bf(m, n, device=device), w=bf(n, device=device), rstd=torch.rand(m, device=device), mu=torch.zeros(m, device=device),
                    dx=empty(m, n, dtype=BF16, device=device))

    def candidates(m, n):
        p, space = tk.row_space(n)
        for r, w in space:
            yield f"R{r} w{w}", tk.norm_back, lambda t: (t["dy"], t["x"], t["w"], t["rstd"], t["mu"], t["dx"], m, n), dict(R=r, BLOCK=p, LAYER=layer), w, (triton.cdiv(m, r),)
    return Work(name, OTHER_SHAPES, make, lambda m, n: m * n * 6 + 8 * m, ["dy", "x", "w", "rstd"] + (["mu"] if layer else []), ["dx"], candidates)


def norm_sums_work(name, kernel, layer):
    """The gradients of the weight (and the bias) as well."""
    out = ["dx", "dw"] + ["db"] * layer

    def make(m, n, device):
        sums = {o: empty(n, device=device) for o in ("dw", "db")}
        return dict(dy=bf(m, n, device=device), x=bf(m, n, device=device), w=bf(n, device=device), rstd=torch.rand(m, device=device), mu=torch.zeros(m, device=device),
                    dx=empty(m, n, dtype=BF16, device=device), parts=empty(4 * 132, n, device=device), parts_b=empty(4 * 132, n, device=device), **sums)

    def candidates(m, n):
        block = triton.next_power_of_2(n)
        for p in sorted({min(132 * k, m) for k in (1, 2, 4)}):
            for r in (1,) if n > 512 else (2048 // block, 4096 // block, 8192 // block):
                for warps in (2, 4, 8, 16):
                    for stages in (1, 4):
                        yield (f"{p} R{r} w{warps} s{stages}", tk.Swept(), lambda t: (*(t[a] for a in ("dy", "x", "w", "rstd", "mu", "dx", "parts", "parts_b", "dw", "db")), m, n),
                               dict(R=r, BLOCK=block, LAYER=layer, STAGES=stages), warps, (p,))

    def eager(t):
        return torch.ops.aten.native_layer_norm_backward(t["dy"], t["x"], t["x"].shape[1:], t["mu"][:, None], t["rstd"][:, None], t["w"], t["w"], [True] * 3)
    return Work(name, SUM_SHAPES + HEAD_SHAPES, make, lambda m, n: m * n * 6 + 8 * m, ["dy", "x", "w", "rstd"] + ["mu"] * layer, out, candidates, eager if layer else None, kernel=kernel)


def back_sums_work(name, kernel, f, gated):
    """The gradient of the bias as well."""
    a, g = ("h", "dh") if gated else ("x", "dx")

    def make(m, n, device):
        wide = 2 * n if gated else n
        return {"dy": bf(m, n, device=device), a: bf(m, wide, device=device), "b": bf(wide, device=device), g: empty(m, wide, dtype=BF16, device=device),
                "db": empty(wide, device=device), "parts": empty(8 * 132, wide, device=device)}

    def candidates(m, n):
        for block in sorted({min(triton.next_power_of_2(n), k) for k in (512, 1024, 2048, 4096)}):
            pieces = triton.cdiv(n, block)
            for p in sorted({min(-(-132 * k // pieces), m) for k in (1, 2, 4, 8)}):
                for r, warps, stages in ((1, 4, 1), (1, 8, 1), (1, 16, 1), (4, 8, 1), (1, 4, 3), (1, 8, 3)):
                    yield (f"b{block} {p} r{r} w{warps} s{stages}", tk.UnitSwept(), lambda t: (t["dy"], t[a], t["b"], t[g], t["parts"], t["db"], m, n),
                           dict(R=r, BLOCK=block, F=tk.UNITS[f], GLU=gated, STAGES=stages), warps, (p, pieces))
    return Work(name, SUM_SHAPES, make, lambda m, n: m * n * (10 if gated else 6), ["dy", a, "b"], [g, "db"], candidates, kernel=kernel)


def plain_works():
    def row(kernel, args, **meta):
        def candidates(m, n):
            p, space = tk.row_space(n)
            for r, w in space:
                yield f"R{r} w{w}", kernel, lambda t: args(t, m, n), dict(R=r, BLOCK=p, **meta), w, (triton.cdiv(m, r),)
        return candidates

    def adds(m, n):
        for k, w in ((1024, 4), (2048, 4), (2048, 8), (4096, 8), (8192, 8)):
            yield f"b{k} w{w}", tk.add_rows, lambda t: (t["x"], t["res"], t["y"], m * n), dict(BLOCK=k), w, (triton.cdiv(m * n, k),)
    yield Work("add", OTHER_SHAPES, lambda m, n, device: dict(x=bf(m, n, device=device), res=bf(m, n, device=device), y=empty(m, n, dtype=BF16, device=device)),
                          lambda m, n: m * n * 6, ["x", "res"], ["y"], adds, lambda t: t["x"] + t["res"])
    yield Work("softmax_rows", OTHER_SHAPES, lambda m, n, device: dict(x=bf(1, m, n, device=device), y=empty(1, m, n, dtype=BF16, device=device)),
                          lambda m, n: m * n * 4, ["x"], ["y"], row(tk.softmax_row, lambda t, m, n: (t["x"], t["y"], m, n, 1.0)), lambda t: torch.softmax(t["x"], -1))
    yield Work("softmax_bwd", OTHER_SHAPES, lambda m, n, device: dict(dy=bf(m, n, device=device), y=torch.rand(m, n, device=device).to(BF16), dx=empty(m, n, dtype=BF16, device=device)),
                          lambda m, n: m * n * 6, ["dy", "y"], ["dx"], row(tk.softmax_back, lambda t, m, n: (t["dy"], t["y"], t["dx"], m, n, 1.0)))


def masked_work(kernel, kind, mx=False, out=FP8, crowd="", shapes=((128, 4096), (2048, 4096))):
    """Rows of groups, of which some are there.  crowd: nothing, four groups of m rows, two thirds there; few, 32 groups with m / 32 rows each,
    as when a model answers; hot, 32 groups, one full and m / 128 rows in each other."""
    def counts(m):
        return {"few": [m // 32] * 32, "hot": [m if e == 5 else m // 128 for e in range(32)]}.get(crowd, [m, m // 2, m // 4, m])

    def make(m, n, device):
        groups = len(counts(m))
        t = dict(h=bf(groups, m, 2 * n, device=device), tokens=torch.tensor(counts(m), dtype=torch.int32).to(device), y=torch.zeros(groups, m, n, device=device, dtype=out))
        if kind != "plain":
            t["scale"] = torch.zeros(groups, m, *[n // 128] * (kind == "groups"), device=device, dtype=E8 if mx else F32)
        return t

    def candidates(m, n):
        def args(t):
            return t["h"], t["tokens"], t["y"], t["scale"].view(U8) if mx else t.get("scale", t["y"]), m, n
        groups, whole = len(counts(m)), triton.next_power_of_2(n)
        space = [(whole, 4), (whole, 8), (whole, 16)] if kind == "rows" else [(512, 1), (1024, 2), (1024, 4), (2048, 4), (2048, 8)]
        for k, w in space:
            meta = dict(FMAX=TOP, BLOCK=k, KIND=kind, G=128, MX=mx)
            yield f"b{k} w{w}", tk.masked_rows, args, meta, w, (groups * m, triton.cdiv(n, k))
            for p, stages in ((32, 3), (128, 1), (128, 3), (512, 1)):
                if p <= m:
                    yield f"b{k} w{w} by {p}, {stages} deep", tk.masked_rounds, lambda t, p=p: (*args(t), p), dict(
                        **meta, STAGES=stages), w, (groups * p, triton.cdiv(n, k))

    def nbytes(m, n):                                        # of the rows that are there
        rows = sum(counts(m))
        return rows * n * (4 + out.itemsize) + scale_bytes(kind, rows, n, 128, mx)
    name = f"{kernel}_{crowd}" if crowd else kernel
    return Work(name, list(shapes), make, nbytes, ["h", "tokens"], ["y"] + ["scale"] * (kind != "plain"), candidates, kernel=kernel)


def works():
    """All, those of BEFORE first."""
    yield norm_work("rmsnorm_quant", False, "rows", SHAPES, first=True)
    yield norm_work("layernorm_quant", True, "rows", SHAPES, first=True)
    yield norm_work("add_rmsnorm_quant", False, "rows", SHAPES, add=True, first=True)
    yield norm_work("rmsnorm_128", False, "groups", SHAPES, g=128, first=True)
    yield norm_work("rmsnorm_mxfp8", False, "groups", SHAPES, g=32, mx=True, first=True)
    yield row_work("quantize_rows", SHAPES, first=True)
    yield unit_work("swiglu_128", "silu", True, "groups", GLU_SHAPES, peers=True, first=True)
    yield unit_work("geglu_tanh_128", "gelu_tanh", True, "groups", GLU_SHAPES, peers=True, first=True)
    yield cast_work()
    for layer in (False, True):
        name = "layernorm" if layer else "rmsnorm"
        yield norm_work(name, layer, "static", OTHER_SHAPES, out=BF16)
        yield norm_work(f"{name}_fp8", layer, "static", OTHER_SHAPES)
        yield norm_work(f"{name}_128_e8m0", layer, "groups", OTHER_SHAPES, g=128, mx=True)
    yield norm_work("layernorm_128", True, "groups", OTHER_SHAPES, g=128)
    yield norm_work("layernorm_mxfp8", True, "groups", OTHER_SHAPES, g=32, mx=True)
    for name, f in (("swiglu", "silu"), ("geglu", "gelu"), ("geglu_tanh", "gelu_tanh"), ("reglu", "relu"), ("sreglu", "srelu"), ("qgeglu", "qgelu")):
        yield unit_work(name, f, True, "static", OTHER_SHAPES, out=BF16)
        yield unit_work(f"{name}_fp8", f, True, "static", OTHER_SHAPES)
        yield unit_work(f"{f}_act", f, False, "static", OTHER_SHAPES, out=BF16)
        yield unit_work(f"{f}_act_fp8", f, False, "static", OTHER_SHAPES)
        yield back_work(f"{name}_bwd", f, True)
        yield back_work(f"{f}_bwd", f, False)
    for name, f in (("swiglu_rows", "silu"), ("geglu_rows", "gelu"), ("geglu_tanh_rows", "gelu_tanh")):
        yield unit_work(name, f, True, "rows", OTHER_SHAPES)
    yield unit_work("swiglu_quant", "silu", True, "groups", OTHER_SHAPES)
    yield unit_work("geglu_128", "gelu", True, "groups", OTHER_SHAPES)
    yield unit_work("swiglu_128_e8m0", "silu", True, "groups", OTHER_SHAPES, mx=True)
    yield unit_work("swiglu_mxfp8", "silu", True, "groups", OTHER_SHAPES, mx=True, g=32)
    yield unit_work("swiglu_clamped", "silu", True, "static", OTHER_SHAPES, out=BF16, clamp=True)
    yield unit_work("swiglu_clamped_128", "silu", True, "groups", OTHER_SHAPES, clamp=True)
    for f in ("gelu_tanh", "relu", "srelu"):
        yield unit_work(f"{f}_128", f, False, "groups", OTHER_SHAPES)
    yield unit_work("quantize_128", "none", False, "groups", OTHER_SHAPES)
    yield unit_work("quantize_128_e8m0", "none", False, "groups", OTHER_SHAPES, mx=True)
    yield unit_work("quantize_mxfp8", "none", False, "groups", OTHER_SHAPES, mx=True, g=32)
    yield masked_work("swiglu_masked_128_e8m0", "groups", True)
    for name, kind, out in (("swiglu_masked_128", "groups", FP8), ("swiglu_masked_rows", "rows", FP8), ("swiglu_masked", "plain", BF16)):
        yield masked_work(name, kind, out=out)
        yield masked_work(name, kind, out=out, crowd="few", shapes=((1024, 2048), (4096, 2048)))
        yield masked_work(name, kind, out=out, crowd="hot", shapes=((1024, 2048),))
    for name, g, mx, both in (("quantize_128x128", 128, False, False), ("quantize_128x128_e8m0", 128, True, False), ("quantize_both_128", 128, False, True),
                              ("quantize_both_128_e8m0", 128, True, True), ("quantize_both_mxfp8", 32, True, True)):
        yield square_work(name, g, mx, both)
    for mx, g, kind in ((False, 128, "128"), (True, 32, "mxfp8")):
        yield square_work(f"swiglu_both_{kind}", g, mx, True, "silu", True)
        yield square_work(f"swiglu_clamped_both_{kind}", g, mx, True, "silu", True, True)
    yield square_work("gelu_tanh_both_mxfp8", 32, True, True, "gelu_tanh")
    yield norm_both_work("rmsnorm_both_mxfp8", False)
    yield norm_both_work("layernorm_both_mxfp8", True)
    for name, gm, gn, mx in (("dequantize_rows", 1, 0, False), ("dequantize_128", 1, 128, False), ("dequantize_mxfp8", 1, 32, True), ("dequantize_128x128", 128, 128, False)):
        yield dequant_work(name, gm, gn, mx)
    yield norm_back_work("rmsnorm_bwd", False)
    yield norm_back_work("layernorm_bwd", True)
    yield norm_sums_work("rmsnorm_bwd_dw", "rmsnorm_bwd", False)
    yield norm_sums_work("layernorm_bwd_dw_db", "layernorm_bwd", True)
    yield back_sums_work("swiglu_bwd_db", "swiglu_bwd", "silu", True)
    yield back_sums_work("silu_bwd_db", "silu_bwd", "silu", False)
    yield from plain_works()
