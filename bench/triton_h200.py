"""triton_h200.py -- Triton's side of bench/h200.py: plain, idiomatic kernels with a small tuning space each.

In: tensors that are dense, extents, and constants: R rows a program, BLOCK columns (for row kernels a power of two not below N), warps.
Out: the same results as the pack's kernels of these names.  The first five and their spaces are those with which the project's figures for
Triton were first taken; the others cover the rest of the row kernels in the same manner.  Row kernels hold R whole rows a program.
"""
import triton
import triton.language as tl


@triton.jit
def nothing(X):
    pass


@triton.jit
def _scale(n, FMAX: tl.constexpr, axis: tl.constexpr):
    return tl.maximum(tl.max(tl.abs(n), axis), 1e-12) / FMAX


@triton.jit
def _power(s):
    """e8m0 rounded up: the code, and one over the scale."""
    b = s.to(tl.int32, bitcast=True)
    e = tl.minimum(((b >> 23) & 255) + ((b & 0x7FFFFF) != 0).to(tl.int32), 254)
    return e, ((254 - e) << 23).to(tl.float32, bitcast=True)


@triton.jit
def _groups(x, m, Y, S, o, so, sm, P: tl.constexpr, Q: tl.constexpr, G: tl.constexpr, FMAX: tl.constexpr, MX: tl.constexpr):
    """Stores P x Q values in groups of G columns with a scale each: f32, or e8m0 rounded up."""
    y = tl.reshape(x, (P, Q // G, G))
    s = _scale(y, FMAX, 2)
    if MX:
        e, inv = _power(s)
        tl.store(S + so, e.to(tl.uint8), mask=sm)
    else:
        inv = 1.0 / s
        tl.store(S + so, s, mask=sm)
    tl.store(Y + o, tl.reshape(y * inv[:, :, None], (P, Q)).to(Y.dtype.element_ty), mask=m)


@triton.jit
def rms_row_quant(X, W, RES, RES_OUT, Y, S, M, N, eps, FMAX: tl.constexpr, R: tl.constexpr, BLOCK: tl.constexpr, ADD: tl.constexpr, LAYER: tl.constexpr):
    """[residual add +] RMSNorm or LayerNorm, one 8-bit scale a row."""
    r = tl.program_id(0) * R + tl.arange(0, R)
    c = tl.arange(0, BLOCK)
    m = (r[:, None] < M) & (c[None, :] < N)
    o = r[:, None].to(tl.int64) * N + c[None, :]
    x = tl.load(X + o, mask=m, other=0.0).to(tl.float32)
    if ADD:
        x += tl.load(RES + o, mask=m, other=0.0).to(tl.float32)
        tl.store(RES_OUT + o, x.to(RES_OUT.dtype.element_ty), mask=m)
    w = tl.load(W + c, mask=c < N, other=0.0).to(tl.float32)[None, :]
    if LAYER:
        x = tl.where(m, x - (tl.sum(x, 1) / N)[:, None], 0.0)
    n = x * tl.rsqrt(tl.sum(x * x, 1) / N + eps)[:, None] * w
    s = _scale(n, FMAX, 1)
    tl.store(S + r, s, mask=r < M)
    tl.store(Y + o, (n * (1.0 / s)[:, None]).to(Y.dtype.element_ty), mask=m)


@triton.jit
def norm_block_quant(X, W, Y, S, M, N, eps, FMAX: tl.constexpr, R: tl.constexpr, BLOCK: tl.constexpr, G: tl.constexpr, MX: tl.constexpr,
                     LAYER: tl.constexpr):
    """A norm, one scale per G columns: f32, or e8m0 rounded up."""
    r = tl.program_id(0) * R + tl.arange(0, R)
    c = tl.arange(0, BLOCK)
    m = (r[:, None] < M) & (c[None, :] < N)
    o = r[:, None].to(tl.int64) * N + c[None, :]
    x = tl.load(X + o, mask=m, other=0.0).to(tl.float32)
    w = tl.load(W + c, mask=c < N, other=0.0).to(tl.float32)[None, :]
    if LAYER:
        x = tl.where(m, x - (tl.sum(x, 1) / N)[:, None], 0.0)
    n = x * tl.rsqrt(tl.sum(x * x, 1) / N + eps)[:, None] * w
    g = tl.arange(0, BLOCK // G)
    so = r[:, None].to(tl.int64) * (N // G) + g[None, :]
    _groups(n, m, Y, S, o, so, (r[:, None] < M) & (g[None, :] < N // G), R, BLOCK, G, FMAX, MX)


@triton.jit
def glu_block_quant(X, Y, S, M, N, FMAX: tl.constexpr, R: tl.constexpr, BLOCK: tl.constexpr, G: tl.constexpr, GELU: tl.constexpr):
    """X [M, 2N] -> Y fp8 [M, N], S f32 [M, N/G]: silu(gate) * up, or gelu_tanh(gate) * up."""
    r = tl.program_id(0) * R + tl.arange(0, R)
    pid = tl.program_id(1)
    c = pid * BLOCK + tl.arange(0, BLOCK)
    m = (r[:, None] < M) & (c[None, :] < N)
    i = r[:, None].to(tl.int64) * 2 * N + c[None, :]
    g = tl.load(X + i, mask=m, other=0.0).to(tl.float32)
    u = tl.load(X + i + N, mask=m, other=0.0).to(tl.float32)
    if GELU:
        y = g * tl.sigmoid(1.5957691216057308 * (g + 0.044715 * g * g * g)) * u
    else:
        y = g * tl.sigmoid(g) * u
    yb = tl.reshape(y, (R, BLOCK // G, G))
    s = _scale(yb, FMAX, 2)
    k = pid * (BLOCK // G) + tl.arange(0, BLOCK // G)
    tl.store(S + r[:, None].to(tl.int64) * (N // G) + k[None, :], s, mask=(r[:, None] < M) & (k[None, :] < N // G))
    tl.store(Y + r[:, None].to(tl.int64) * N + c[None, :], tl.reshape(yb * (1.0 / s)[:, :, None], (R, BLOCK)).to(Y.dtype.element_ty), mask=m)


@triton.jit
def row_quant(X, Y, S, M, N, FMAX: tl.constexpr, R: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0) * R + tl.arange(0, R)
    c = tl.arange(0, BLOCK)
    m = (r[:, None] < M) & (c[None, :] < N)
    o = r[:, None].to(tl.int64) * N + c[None, :]
    x = tl.load(X + o, mask=m, other=0.0).to(tl.float32)
    s = _scale(x, FMAX, 1)
    tl.store(S + r, s, mask=r < M)
    tl.store(Y + o, (x * (1.0 / s)[:, None]).to(Y.dtype.element_ty), mask=m)


@triton.jit
def cast_transpose(X, Y, YT, SCALE, M, N, BM: tl.constexpr, BN: tl.constexpr):
    """Static scale, by which is multiplied; Y [M, N] and YT [N, M] in one pass."""
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    c = tl.program_id(1) * BN + tl.arange(0, BN)
    m = (r[:, None] < M) & (c[None, :] < N)
    q = (tl.load(X + r[:, None].to(tl.int64) * N + c[None, :], mask=m, other=0.0).to(tl.float32) * tl.load(SCALE)).to(Y.dtype.element_ty)
    tl.store(Y + r[:, None].to(tl.int64) * N + c[None, :], q, mask=m)
    tl.store(YT + c[:, None].to(tl.int64) * M + r[None, :], tl.trans(q), mask=(c[:, None] < N) & (r[None, :] < M))


# ---- the rest of the row kernels

@triton.jit
def _unit(x, F: tl.constexpr):
    """0 x, 1 silu, 2 gelu, 3 gelu_tanh, 4 relu, 5 squared relu, 6 quick gelu."""
    if F == 1:
        x = x * tl.sigmoid(x)
    elif F == 2:
        x = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    elif F == 3:
        x = x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
    elif F == 4:
        x = tl.maximum(x, 0.0)
    elif F == 5:
        x = tl.maximum(x, 0.0) * tl.maximum(x, 0.0)
    elif F == 6:
        x = x * tl.sigmoid(1.702 * x)
    return x


@triton.jit
def _slope(x, F: tl.constexpr):
    if F == 1:
        s = tl.sigmoid(x)
        x = s + x * s * (1.0 - s)
    elif F == 2:
        x = 0.5 * (1.0 + tl.erf(x * 0.7071067811865476)) + x * 0.3989422804014327 * tl.exp(-0.5 * x * x)
    elif F == 3:
        s = tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
        x = s + x * s * (1.0 - s) * 1.5957691216057308 * (1.0 + 0.134145 * x * x)
    elif F == 4:
        x = tl.where(x > 0, 1.0, 0.0)
    elif F == 5:
        x = 2.0 * tl.maximum(x, 0.0)
    elif F == 6:
        s = tl.sigmoid(1.702 * x)
        x = s + 1.702 * x * s * (1.0 - s)
    return x


@triton.jit
def _gate(X, r, c, m, N, F: tl.constexpr, GLU: tl.constexpr, CLAMP: tl.constexpr):
    """F(gate) * up, the clamped form, or F(x), of a tile."""
    if GLU:
        i = r[:, None].to(tl.int64) * 2 * N + c[None, :]
        g = tl.load(X + i, mask=m, other=0.0).to(tl.float32)
        u = tl.load(X + i + N, mask=m, other=0.0).to(tl.float32)
        if CLAMP:
            g = tl.minimum(g, 7.0)
            y = g * tl.sigmoid(1.702 * g) * (tl.minimum(tl.maximum(u, -7.0), 7.0) + 1.0)
        else:
            y = _unit(g, F) * u
    else:
        y = _unit(tl.load(X + r[:, None].to(tl.int64) * N + c[None, :], mask=m, other=0.0).to(tl.float32), F)
    return y


@triton.jit
def unit_block_quant(X, Y, S, M, N, FMAX: tl.constexpr, R: tl.constexpr, BLOCK: tl.constexpr, G: tl.constexpr, F: tl.constexpr, GLU: tl.constexpr,
                     CLAMP: tl.constexpr, MX: tl.constexpr):
    r = tl.program_id(0) * R + tl.arange(0, R)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    m = (r[:, None] < M) & (c[None, :] < N)
    k = tl.program_id(1) * (BLOCK // G) + tl.arange(0, BLOCK // G)
    rows = r[:, None].to(tl.int64)
    _groups(_gate(X, r, c, m, N, F, GLU, CLAMP), m, Y, S, rows * N + c[None, :], rows * (N // G) + k[None, :], (r[:, None] < M) & (k[None, :] < N // G),
            R, BLOCK, G, FMAX, MX)


@triton.jit
def _masked_row(X, Y, S, row, N, FMAX: tl.constexpr, BLOCK: tl.constexpr, KIND: tl.constexpr, G: tl.constexpr, MX: tl.constexpr):
    """silu(gate) * up of BLOCK columns of a row: as they are, in 8 bits with one scale (BLOCK is the row then), or one a group."""
    r = row + tl.arange(0, 1)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    m = (r[:, None] >= 0) & (c[None, :] < N)
    o = r[:, None].to(tl.int64) * N + c[None, :]
    y = _gate(X, r, c, m, N, 1, True, False)
    if KIND == "groups":
        k = tl.program_id(1) * (BLOCK // G) + tl.arange(0, BLOCK // G)
        _groups(y, m, Y, S, o, r[:, None].to(tl.int64) * (N // G) + k[None, :], k[None, :] < N // G, 1, BLOCK, G, FMAX, MX)
    else:
        if KIND == "rows":
            s = _scale(y, FMAX, 1)
            tl.store(S + r, s)
            y = y * (1.0 / s)[:, None]
        tl.store(Y + o, y.to(Y.dtype.element_ty), mask=m)


@triton.jit
def masked_rows(X, TOKENS, Y, S, M, N, FMAX: tl.constexpr, BLOCK: tl.constexpr, KIND: tl.constexpr, G: tl.constexpr, MX: tl.constexpr):
    """The rows that are there, one program a row and BLOCK columns."""
    row = tl.program_id(0)
    if row % M < tl.load(TOKENS + row // M):
        _masked_row(X, Y, S, row, N, FMAX, BLOCK, KIND, G, MX)


@triton.jit
def masked_rounds(X, TOKENS, Y, S, M, N, P, FMAX: tl.constexpr, BLOCK: tl.constexpr, KIND: tl.constexpr, G: tl.constexpr, MX: tl.constexpr,
                  STAGES: tl.constexpr):
    """The same by P programs a group and BLOCK columns, each of which takes every P-th row that is there."""
    group = tl.program_id(0) // P
    for i in tl.range(tl.program_id(0) % P, tl.load(TOKENS + group), P, num_stages=STAGES):
        _masked_row(X, Y, S, group * M + i, N, FMAX, BLOCK, KIND, G, MX)


@triton.jit
def unit_static(X, SCALE, Y, M, N, R: tl.constexpr, BLOCK: tl.constexpr, F: tl.constexpr, GLU: tl.constexpr, CLAMP: tl.constexpr, SCALED: tl.constexpr):
    r = tl.program_id(0) * R + tl.arange(0, R)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    m = (r[:, None] < M) & (c[None, :] < N)
    y = _gate(X, r, c, m, N, F, GLU, CLAMP)
    if SCALED:
        y = y * (1.0 / tl.load(SCALE))
    tl.store(Y + r[:, None].to(tl.int64) * N + c[None, :], y.to(Y.dtype.element_ty), mask=m)


@triton.jit
def unit_row_quant(X, Y, S, M, N, FMAX: tl.constexpr, R: tl.constexpr, BLOCK: tl.constexpr, F: tl.constexpr):
    r = tl.program_id(0) * R + tl.arange(0, R)
    c = tl.arange(0, BLOCK)
    m = (r[:, None] < M) & (c[None, :] < N)
    y = _gate(X, r, c, m, N, F, True, False)
    s = _scale(y, FMAX, 1)
    tl.store(S + r, s, mask=r < M)
    tl.store(Y + r[:, None].to(tl.int64) * N + c[None, :], (y * (1.0 / s)[:, None]).to(Y.dtype.element_ty), mask=m)


@triton.jit
def norm_static(X, W, SCALE, Y, M, N, eps, R: tl.constexpr, BLOCK: tl.constexpr, LAYER: tl.constexpr, SCALED: tl.constexpr):
    r = tl.program_id(0) * R + tl.arange(0, R)
    c = tl.arange(0, BLOCK)
    m = (r[:, None] < M) & (c[None, :] < N)
    o = r[:, None].to(tl.int64) * N + c[None, :]
    x = tl.load(X + o, mask=m, other=0.0).to(tl.float32)
    w = tl.load(W + c, mask=c < N, other=0.0).to(tl.float32)[None, :]
    if LAYER:
        x = tl.where(m, x - (tl.sum(x, 1) / N)[:, None], 0.0)
    n = x * tl.rsqrt(tl.sum(x * x, 1) / N + eps)[:, None] * w
    if SCALED:
        n = n * (1.0 / tl.load(SCALE))
    tl.store(Y + o, n.to(Y.dtype.element_ty), mask=m)


@triton.jit
def dequant(Y, S, X, M, N, R: tl.constexpr, BLOCK: tl.constexpr, GM: tl.constexpr, GN: tl.constexpr, E8: tl.constexpr):
    """One scale per GM x GN; GN 0: a row."""
    r = tl.program_id(0) * R + tl.arange(0, R)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    m = (r[:, None] < M) & (c[None, :] < N)
    o = r[:, None].to(tl.int64) * N + c[None, :]
    if GN == 0:
        s = tl.load(S + r, mask=r < M, other=0.0)[:, None]
    else:
        s = tl.load(S + (r[:, None] // GM).to(tl.int64) * (N // GN) + c[None, :] // GN, mask=m, other=0)
    if E8:
        s = (s.to(tl.int32) << 23).to(tl.float32, bitcast=True)
    tl.store(X + o, (tl.load(Y + o, mask=m, other=0.0).to(tl.float32) * s).to(X.dtype.element_ty), mask=m)


@triton.jit
def add_rows(X, RES, Y, COUNT, BLOCK: tl.constexpr):
    o = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    m = o < COUNT
    y = tl.load(X + o, mask=m, other=0.0).to(tl.float32) + tl.load(RES + o, mask=m, other=0.0).to(tl.float32)
    tl.store(Y + o, y.to(Y.dtype.element_ty), mask=m)


@triton.jit
def softmax_row(X, Y, M, N, scale, R: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0) * R + tl.arange(0, R)
    c = tl.arange(0, BLOCK)
    m = (r[:, None] < M) & (c[None, :] < N)
    o = r[:, None].to(tl.int64) * N + c[None, :]
    x = tl.load(X + o, mask=m, other=float("-inf")).to(tl.float32) * scale
    e = tl.exp(x - tl.max(x, 1)[:, None])
    tl.store(Y + o, (e / tl.sum(e, 1)[:, None]).to(Y.dtype.element_ty), mask=m)


@triton.jit
def softmax_back(DY, Y, DX, M, N, scale, R: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0) * R + tl.arange(0, R)
    c = tl.arange(0, BLOCK)
    m = (r[:, None] < M) & (c[None, :] < N)
    o = r[:, None].to(tl.int64) * N + c[None, :]
    d = tl.load(DY + o, mask=m, other=0.0).to(tl.float32)
    p = tl.load(Y + o, mask=m, other=0.0).to(tl.float32)
    tl.store(DX + o, (scale * p * (d - tl.sum(d * p, 1)[:, None])).to(DX.dtype.element_ty), mask=m)


@triton.jit
def norm_back(DY, X, W, RSTD, MU, DX, M, N, R: tl.constexpr, BLOCK: tl.constexpr, LAYER: tl.constexpr):
    """The gradient of the input alone."""
    r = tl.program_id(0) * R + tl.arange(0, R)
    c = tl.arange(0, BLOCK)
    m = (r[:, None] < M) & (c[None, :] < N)
    o = r[:, None].to(tl.int64) * N + c[None, :]
    rstd = tl.load(RSTD + r, mask=r < M, other=0.0)[:, None]
    x = tl.load(X + o, mask=m, other=0.0).to(tl.float32)
    if LAYER:
        x = tl.where(m, x - tl.load(MU + r, mask=r < M, other=0.0)[:, None], 0.0)
    h = x * rstd
    d = tl.load(DY + o, mask=m, other=0.0).to(tl.float32) * tl.load(W + c, mask=c < N, other=0.0).to(tl.float32)[None, :]
    y = d - h * (tl.sum(d * h, 1) / N)[:, None]
    if LAYER:
        y = y - (tl.sum(d, 1) / N)[:, None]
    tl.store(DX + o, (y * rstd).to(DX.dtype.element_ty), mask=m)


@triton.jit
def norm_back_swept(DY, X, W, RSTD, MU, DX, PARTS, PARTS_B, M, N, R: tl.constexpr, BLOCK: tl.constexpr, LAYER: tl.constexpr, STAGES: tl.constexpr):
    """The gradient of the input, and of the weight (and the bias) what the rows of one program sum up to, R at a time: row p of PARTS [programs, N] for
    program p."""
    c = tl.arange(0, BLOCK)[None, :]
    w = tl.load(W + c, mask=c < N, other=0.0).to(tl.float32)
    dw = tl.zeros([R, BLOCK], dtype=tl.float32)
    db = tl.zeros([R, BLOCK], dtype=tl.float32)
    for first in tl.range(tl.program_id(0) * R, M, tl.num_programs(0) * R, num_stages=STAGES):
        r = first + tl.arange(0, R)
        there = (r[:, None] < M) & (c < N)
        o = r[:, None].to(tl.int64) * N + c
        x = tl.load(X + o, mask=there, other=0.0).to(tl.float32)
        g = tl.load(DY + o, mask=there, other=0.0).to(tl.float32)
        rstd = tl.load(RSTD + r, mask=r < M, other=0.0)[:, None]
        if LAYER:
            x = tl.where(there, x - tl.load(MU + r, mask=r < M, other=0.0)[:, None], 0.0)
        h = x * rstd
        d = g * w
        y = d - h * (tl.sum(d * h, 1) / N)[:, None]
        if LAYER:
            y = y - (tl.sum(d, 1) / N)[:, None]
            db += g
        dw += g * h
        tl.store(DX + o, (y * rstd).to(DX.dtype.element_ty), mask=there)
    c = tl.arange(0, BLOCK)
    p = tl.program_id(0).to(tl.int64) * N + c
    tl.store(PARTS + p, tl.sum(dw, 0), mask=c < N)
    if LAYER:
        tl.store(PARTS_B + p, tl.sum(db, 0), mask=c < N)


@triton.jit
def column_sums(PARTS, OUT, P, N, BP: tl.constexpr, BN: tl.constexpr):
    """OUT [N] = sums over the P rows of PARTS, all of them f32."""
    c = tl.program_id(0) * BN + tl.arange(0, BN)
    a = tl.zeros([BP, BN], dtype=tl.float32)
    for p in range(0, P, BP):
        r = p + tl.arange(0, BP)
        a += tl.load(PARTS + r[:, None] * N + c[None, :], mask=(r[:, None] < P) & (c[None, :] < N), other=0.0)
    tl.store(OUT + c, tl.sum(a, 0), mask=c < N)


class Swept:
    """norm_back_swept of as many programs as its grid has, and column_sums of what they leave, as one kernel of one launch is called."""

    def __getitem__(self, grid):
        def launch(dy, x, w, rstd, mu, dx, parts, parts_b, dw, db, m, n, *, R, BLOCK, LAYER, STAGES, num_warps):
            norm_back_swept[grid](dy, x, w, rstd, mu, dx, parts, parts_b, m, n, R=R, BLOCK=BLOCK, LAYER=LAYER, STAGES=STAGES, num_warps=num_warps)
            for p, out in ((parts, dw), (parts_b, db))[:2 if LAYER else 1]:
                column_sums[(triton.cdiv(n, 32),)](p, out, grid[0], n, BP=64, BN=32, num_warps=4)
        return launch

    def warmup(self, dy, x, w, rstd, mu, dx, parts, parts_b, dw, db, m, n, *, grid, num_warps, **meta):
        norm_back_swept.warmup(dy, x, w, rstd, mu, dx, parts, parts_b, m, n, grid=grid, num_warps=num_warps, **meta)
        column_sums.warmup(parts, dw, 132, n, BP=64, BN=32, grid=grid, num_warps=4)


@triton.jit
def unit_back(DY, X, DX, M, N, R: tl.constexpr, BLOCK: tl.constexpr, F: tl.constexpr, GLU: tl.constexpr):
    r = tl.program_id(0) * R + tl.arange(0, R)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    m = (r[:, None] < M) & (c[None, :] < N)
    o = r[:, None].to(tl.int64) * N + c[None, :]
    d = tl.load(DY + o, mask=m, other=0.0).to(tl.float32)
    if GLU:
        i = r[:, None].to(tl.int64) * 2 * N + c[None, :]
        g = tl.load(X + i, mask=m, other=0.0).to(tl.float32)
        u = tl.load(X + i + N, mask=m, other=0.0).to(tl.float32)
        tl.store(DX + i, (d * u * _slope(g, F)).to(DX.dtype.element_ty), mask=m)
        tl.store(DX + i + N, (d * _unit(g, F)).to(DX.dtype.element_ty), mask=m)
    else:
        x = tl.load(X + o, mask=m, other=0.0).to(tl.float32)
        tl.store(DX + o, (d * _slope(x, F)).to(DX.dtype.element_ty), mask=m)


@triton.jit
def unit_back_swept(DY, X, B, DX, PARTS, M, N, R: tl.constexpr, BLOCK: tl.constexpr, F: tl.constexpr, GLU: tl.constexpr, STAGES: tl.constexpr):
    """The gradient of what F is of, X + B, and what the rows of one program sum up to, R at a time, of BLOCK columns of each half: row p of PARTS
    [programs, N or 2 N] for program p."""
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    there = c < N
    b = tl.load(B + c, mask=there, other=0.0).to(tl.float32)[None, :]
    wide = 2 * N if GLU else N
    sums = tl.zeros([R, BLOCK], dtype=tl.float32)
    up_sums = tl.zeros([R, BLOCK], dtype=tl.float32)
    if GLU:
        up_b = tl.load(B + N + c, mask=there, other=0.0).to(tl.float32)[None, :]
    for first in tl.range(tl.program_id(0) * R, M, tl.num_programs(0) * R, num_stages=STAGES):
        r = (first + tl.arange(0, R))[:, None]
        m = (r < M) & there[None, :]
        i = r.to(tl.int64) * wide + c[None, :]
        d = tl.load(DY + r.to(tl.int64) * N + c[None, :], mask=m, other=0.0).to(tl.float32)
        x = tl.load(X + i, mask=m, other=0.0).to(tl.float32) + b
        if GLU:
            up = tl.load(X + i + N, mask=m, other=0.0).to(tl.float32) + up_b
            du = d * _unit(x, F)
            tl.store(DX + i + N, du.to(DX.dtype.element_ty), mask=m)
            up_sums += du
            d = d * up
        d = d * _slope(x, F)
        tl.store(DX + i, d.to(DX.dtype.element_ty), mask=m)
        sums += d
    p = PARTS + tl.program_id(0).to(tl.int64) * wide + c
    tl.store(p, tl.sum(sums, 0), mask=there)
    if GLU:
        tl.store(p + N, tl.sum(up_sums, 0), mask=there)


class UnitSwept:
    """unit_back_swept, and column_sums of what its programs leave, as one kernel of one launch is called."""

    def __getitem__(self, grid):
        def launch(dy, x, b, dx, parts, db, m, n, *, R, BLOCK, F, GLU, STAGES, num_warps):
            unit_back_swept[grid](dy, x, b, dx, parts, m, n, R=R, BLOCK=BLOCK, F=F, GLU=GLU, STAGES=STAGES, num_warps=num_warps)
            wide = 2 * n if GLU else n
            column_sums[(triton.cdiv(wide, 32),)](parts, db, grid[0], wide, BP=64, BN=32, num_warps=4)
        return launch

    def warmup(self, dy, x, b, dx, parts, db, m, n, *, grid, num_warps, **meta):
        unit_back_swept.warmup(dy, x, b, dx, parts, m, n, grid=grid, num_warps=num_warps, **meta)
        column_sums.warmup(parts, db, 132, n, BP=64, BN=32, grid=grid, num_warps=4)


@triton.jit
def tile_quant(X, Y, S, M, N, FMAX: tl.constexpr, G: tl.constexpr, MX: tl.constexpr):
    """One scale per G x G."""
    r = tl.program_id(0) * G + tl.arange(0, G)
    c = tl.program_id(1) * G + tl.arange(0, G)
    m = (r[:, None] < M) & (c[None, :] < N)
    o = r[:, None].to(tl.int64) * N + c[None, :]
    x = tl.load(X + o, mask=m, other=0.0).to(tl.float32)
    s = tl.maximum(tl.max(tl.max(tl.abs(x), 1), 0), 1e-12) / FMAX
    at = S + tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)
    if MX:
        e, inv = _power(s)
        tl.store(at, e.to(tl.uint8))
    else:
        inv = 1.0 / s
        tl.store(at, s)
    tl.store(Y + o, (x * inv).to(Y.dtype.element_ty), mask=m)


@triton.jit
def both_quant(X, Y, S, YT, ST, M, N, FMAX: tl.constexpr, B: tl.constexpr, G: tl.constexpr, MX: tl.constexpr, F: tl.constexpr, GLU: tl.constexpr,
               CLAMP: tl.constexpr):
    """A gate, F or what is there, in groups of G columns, and transposed in groups of G rows, from one read of B x B."""
    r = tl.program_id(0) * B + tl.arange(0, B)
    c = tl.program_id(1) * B + tl.arange(0, B)
    m = (r[:, None] < M) & (c[None, :] < N)
    _both(_gate(X, r, c, m, N, F, GLU, CLAMP), r, c, m, tl.program_id(0), tl.program_id(1), Y, S, YT, ST, M, N, B, B, G, FMAX, MX)


@triton.jit
def _both(x, r, c, m, i, j, Y, S, YT, ST, M, N, P: tl.constexpr, Q: tl.constexpr, G: tl.constexpr, FMAX: tl.constexpr, MX: tl.constexpr):
    """Stores tile (i, j) of P x Q both ways; scales of a group side by side."""
    k = j * (Q // G) + tl.arange(0, Q // G)
    l = i * (P // G) + tl.arange(0, P // G)
    rows, columns = r[:, None].to(tl.int64), c[:, None].to(tl.int64)
    _groups(x, m, Y, S, rows * N + c[None, :], k[None, :].to(tl.int64) * M + rows, (r[:, None] < M) & (k[None, :] < N // G), P, Q, G, FMAX, MX)
    _groups(tl.trans(x), (c[:, None] < N) & (r[None, :] < M), YT, ST, columns * M + r[None, :], l[None, :].to(tl.int64) * N + columns,
            (c[:, None] < N) & (l[None, :] < M // G), Q, P, G, FMAX, MX)


@triton.jit
def norm_both_quant(X, W, Y, S, YT, ST, M, N, eps, FMAX: tl.constexpr, R: tl.constexpr, BLOCK: tl.constexpr, G: tl.constexpr, LAYER: tl.constexpr):
    """A norm of R rows, swept for their sums and then block by block; e8m0 scales both ways."""
    r = tl.program_id(0) * R + tl.arange(0, R)
    rows = r[:, None].to(tl.int64) * N
    total = tl.zeros((R, BLOCK), tl.float32)
    squares = tl.zeros((R, BLOCK), tl.float32)
    for j in range(0, tl.cdiv(N, BLOCK)):
        c = j * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(X + rows + c[None, :], mask=(r[:, None] < M) & (c[None, :] < N), other=0.0).to(tl.float32)
        total += x
        squares += x * x
    mu = tl.sum(total, 1) / N
    if not LAYER:
        mu = mu * 0.0
    rstd = tl.rsqrt(tl.sum(squares, 1) / N - mu * mu + eps)
    for j in range(0, tl.cdiv(N, BLOCK)):
        c = j * BLOCK + tl.arange(0, BLOCK)
        m = (r[:, None] < M) & (c[None, :] < N)
        x = tl.load(X + rows + c[None, :], mask=m, other=0.0).to(tl.float32)
        w = tl.load(W + c, mask=c < N, other=0.0).to(tl.float32)
        v = tl.where(m, (x - mu[:, None]) * w[None, :] * rstd[:, None], 0.0)
        _both(v, r, c, m, tl.program_id(0), j, Y, S, YT, ST, M, N, R, BLOCK, G, FMAX, True)


UNITS = {"none": 0, "silu": 1, "gelu": 2, "gelu_tanh": 3, "relu": 4, "srelu": 5, "qgelu": 6}


def row_space(n):
    """(rows a program, warps) for kernels that hold whole rows of n columns."""
    p = triton.next_power_of_2(n)
    if p > 16384:
        return p, [(1, 8), (1, 16), (1, 32)]
    if p <= 512:
        return p, [(r, w) for r in (1, 2, 4, 8, 16, 32, 64) for w in (1, 2, 4, 8) if 256 <= r * p // w <= 4096 or (r == 1 and w == 1)]
    return p, [(r, w) for r in (1, 2, 4, 8) for w in (1, 2, 4, 8, 16) if 512 <= r * p // w <= 4096 or (r == 1 and w in (4, 8, 16))]


TILE_SPACE = ((1, 512, 1), (1, 1024, 2), (1, 1024, 4), (1, 2048, 4), (1, 2048, 8), (4, 512, 4), (2, 1024, 4), (4, 1024, 8)) # rows, columns, warps
SQUARE_SPACE = tuple((p, q, w) for p in (32, 64, 128) for q in (32, 64, 128) for w in (4, 8))
