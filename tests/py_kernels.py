"""py_kernels.py -- the kernels of the bundled pack through the Python package, on both chips; run by wheel_test.py.

References are numpy's, formats ml_dtypes': nothing of tdsl computes what is expected.
"""
import ml_dtypes
import numpy as np
import tdsl

CHIPS = ("gfx942", "gfx950")
bf16 = ml_dtypes.bfloat16
fp8 = {"gfx942": (ml_dtypes.float8_e4m3fnuz, 240.0), "gfx950": (ml_dtypes.float8_e4m3fn, 448.0)}
rng = np.random.default_rng(7)


def normal(*shape, scale=1.0):
    return (rng.standard_normal(shape) * scale).astype(bf16)


def steps(codes):
    """Position of 8-bit float codes among the format's values."""
    bits = codes.view(np.uint8).astype(np.int32)
    return np.where(bits & 0x80, -(bits & 0x7f), bits)


def quantize(u, chip):
    dtype, top = fp8[chip]
    amax = np.abs(u).max(axis=-1, keepdims=True)
    scale = np.where(amax > 0, np.maximum(amax / top, 2.0**-126), 1.0)
    return np.clip(u / scale, -top, top).astype(np.float32).astype(dtype), scale[..., 0]


def compare(t, what, y, scale, u, chip):
    expected, s = quantize(u, chip)
    t.check(y.dtype == expected.dtype, f"{what}: outputs of type {y.dtype}")
    distance = np.abs(steps(y) - steps(expected.reshape(y.shape)))
    t.check(distance.max(initial=0) <= 1 and (distance > 0).mean() <= 1e-3, f"{what}: codes differ: {distance.max()}, {(distance > 0).mean()}")
    error = np.abs(scale / s.reshape(scale.shape) - 1).max(initial=0)
    t.check(error <= 4 * 2.0**-23, f"{what}: scales differ by {error}")


def rmsnorm_quant(t, chip):
    x, w = normal(5, 769), normal(769)
    y, scale = tdsl.rmsnorm_quant(x, w, device="sim:" + chip)
    v = x.astype(np.float64)
    u = v / np.sqrt((v * v).mean(axis=1, keepdims=True) + 1e-6) * w.astype(np.float64)
    compare(t, f"rmsnorm_quant {chip}", y, scale, u, chip)
    last = tdsl.last_call()
    t.check(last["kernel"] == "rmsnorm_quant" and last["target"] == chip, f"last call: {last}")
    strided = tdsl.rmsnorm_quant(np.repeat(x, 2, axis=0)[::2], w, device="sim:" + chip)
    t.check((strided[0].view(np.uint8) == y.view(np.uint8)).all(), f"rmsnorm_quant {chip}: strided rows differ")
    staged = tdsl.rmsnorm_quant(x, w, device="sim:" + chip, stage=True)
    t.check((staged[0].view(np.uint8) == y.view(np.uint8)).all(), f"rmsnorm_quant {chip}: by device memory differs")
    out = np.empty_like(y)
    tdsl.rmsnorm_quant(x, w, y=out, device="sim:" + chip)
    t.check((out.view(np.uint8) == y.view(np.uint8)).all(), f"rmsnorm_quant {chip}: into a given array differs")


def swiglu_quant(t, chip):
    h = normal(4, 2 * 384)
    y, scale = tdsl.swiglu_quant(h, device="sim:" + chip)
    v = h.astype(np.float64)
    gate, up = v[:, :384], v[:, 384:]
    compare(t, f"swiglu_quant {chip}", y, scale, (gate / (1 + np.exp(-gate)) * up).reshape(4, 3, 128), chip)


def grouped_gemm(t, chip):
    a, b = normal(50, 96), normal(3, 40, 96)
    first = np.array([0, 20, 20, 50], np.int32)
    c = tdsl.grouped_gemm(a, b, first, device="sim:" + chip)
    expected = np.concatenate([a[s:e].astype(np.float64) @ b[i].astype(np.float64).T for i, (s, e) in enumerate(((0, 20), (20, 20), (20, 50)))])
    error = np.linalg.norm(c.astype(np.float64) - expected) / np.linalg.norm(expected)
    t.check(error < 2.5e-3, f"grouped_gemm {chip}: relative L2 error {error}")


def grouped_gemm_mx(t, chip):
    """What quantize_mxfp8 makes of bf16, as it is."""
    first = np.array([0, 20, 20, 50], np.int32)
    (a, sa), (b, sb) = (tdsl.quantize_mxfp8(normal(rows, 96), device="sim:" + chip) for rows in (50, 120))
    c = tdsl.grouped_gemm_mx(a, sa, b.reshape(3, 40, 96), sb.reshape(3, 40, 3), first, device="sim:" + chip)
    x, w = ((q.astype(np.float64).reshape(-1, 32) * s.astype(np.float64).reshape(-1, 1)).reshape(-1, 96) for q, s in ((a, sa), (b, sb)))
    expected = np.concatenate([x[s:e] @ w.reshape(3, 40, 96)[i].T for i, (s, e) in enumerate(((0, 20), (20, 20), (20, 50)))])
    error = np.linalg.norm(c.astype(np.float64) - expected) / np.linalg.norm(expected)
    t.check(error < 2.5e-3, f"grouped_gemm_mx {chip}: relative L2 error {error}")


def attention(t, chip):
    q, k, v = normal(1, 4, 33, 64), normal(1, 2, 70, 64), normal(1, 2, 70, 64)
    o = tdsl.attention(q, k, v, 0.125, device="sim:" + chip)
    kk, vv = np.repeat(k, 2, axis=1).astype(np.float64), np.repeat(v, 2, axis=1).astype(np.float64)
    s = q.astype(np.float64) @ kk.swapaxes(2, 3) * 0.125
    s = np.where(np.arange(70) <= np.arange(33)[:, None] + 37, s, -np.inf)
    p = np.exp(s - s.max(axis=-1, keepdims=True))
    expected = p @ vv / p.sum(axis=-1, keepdims=True)
    error = np.linalg.norm(o.astype(np.float64) - expected) / np.linalg.norm(expected)
    t.check(error < 4e-3, f"attention {chip}: relative L2 error {error}")


def errors(t, chip):
    for call, name in ((lambda: tdsl.rmsnorm_quant(normal(4, 64), normal(65), device="sim:" + chip), "TDSL_ESHAPE"),
                       (lambda: tdsl.rmsnorm_quant(normal(4, 64).astype(np.float32), normal(64), device="sim:" + chip), "TDSL_EDTYPE")):
        try:
            call()
            t.check(False, f"{name} expected on {chip}")
        except tdsl.Error as e:
            t.check(e.name == name and len(str(e)) > 10, f"{name} expected, found {e.name}: {e}")


def missing(t):
    for call in (lambda: tdsl.rmsnorm_quant(normal(4, 64)), lambda: tdsl.attention(1, 2, 3, 4, 5, 6), lambda: tdsl.rmsnorm_quant(1, 2, wrong=3)):
        try:
            call()
            t.check(False, "TypeError expected")
        except TypeError as e:
            t.check(True, str(e))
    try:
        tdsl.nothing_of_this_name
        t.check(False, "AttributeError expected")
    except AttributeError as e:
        t.check("rmsnorm_quant" in str(e), f"the names at hand are not told: {e}")


def checks(totals):
    for chip in CHIPS:
        for kernel in (rmsnorm_quant, swiglu_quant, grouped_gemm, grouped_gemm_mx, attention, errors):
            totals.run(kernel, chip)
    totals.run(missing)
