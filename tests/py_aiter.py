"""py_aiter.py -- AITER's calls: each row of the table against numpy in f64 and ml_dtypes' formats, on both chips, with numpy's arrays and
torch's tensors; what is not served is refused by name; run by wheel_test.py.

A case is one call with its inputs, and what each result is: f64 numbers that were rounded (`near`), or numbers that were quantised (`coded`).
"""
import importlib.util

import ml_dtypes
import numpy as np
from py_calls import raises

import tdsl
from tdsl import aiter

bf16, e8m0 = ml_dtypes.bfloat16, ml_dtypes.float8_e8m0fnu
FP8 = {"gfx942": (ml_dtypes.float8_e4m3fnuz, 240.0), "gfx950": (ml_dtypes.float8_e4m3fn, 448.0)}
rng = np.random.default_rng(23)


# ---- the arrays of a library

class Numpy:
    name = "numpy"
    new = staticmethod(lambda shape, dtype: np.zeros(shape, dtype))
    put = get = staticmethod(lambda array: array)
    kind = staticmethod(np.dtype)


class Torch:
    """The same arrays as torch's; numpy lacks the narrow types on the way there and back."""
    name = "torch"

    @staticmethod
    def kind(dtype):
        import torch
        return getattr(torch, np.dtype(dtype).name)

    @staticmethod
    def put(array):
        import torch
        plain = {1: np.uint8, 2: np.int16}.get(array.dtype.itemsize, array.dtype)
        return torch.from_numpy(array.view(plain)).view(Torch.kind(array.dtype))

    @staticmethod
    def get(tensor):
        import torch
        dtype = np.dtype(getattr(ml_dtypes, str(tensor.dtype).partition(".")[2], None) or str(tensor.dtype).partition(".")[2])
        plain = {1: torch.uint8, 2: torch.int16}.get(dtype.itemsize, tensor.dtype)
        return tensor.view(plain).numpy().view(dtype)

    @staticmethod
    def new(shape, dtype):
        return Torch.put(np.zeros(shape, dtype))


# ---- references

def wide(x):
    return x.astype(np.float64)


def rms(x, w, eps=1e-6, res=None, offset=0.0):
    u = wide(x) + (0 if res is None else wide(res))
    return u / np.sqrt((u * u).mean(axis=-1, keepdims=True) + eps) * (wide(w) + offset)


def layer(x, w, b, eps=1e-5, res=None):
    u = wide(x) + (0 if res is None else wide(res))
    c = u - u.mean(axis=-1, keepdims=True)
    return c / np.sqrt((c * c).mean(axis=-1, keepdims=True) + eps) * wide(w) + wide(b)


def erf(x):
    from math import erf as one
    return np.vectorize(one, otypes=[float])(x)


ACTIVATIONS = {"silu": lambda g: g / (1 + np.exp(-g)), "gelu": lambda g: 0.5 * g * (1 + erf(g / np.sqrt(2))),
               "gelu_tanh": lambda g: 0.5 * g * (1 + np.tanh(np.sqrt(2 / np.pi) * (g + 0.044715 * g**3)))}


def gate(h, activation="silu", limit=0.0):
    g, up = wide(h[..., :h.shape[-1] // 2]), wide(h[..., h.shape[-1] // 2:])
    if limit > 0:
        g, up = np.minimum(g, limit), np.clip(up, -limit, limit)
    return ACTIVATIONS[activation](g) * up


def places(codes):
    """Where 8-bit codes stand among their format's values."""
    if codes.dtype == np.int8:
        return codes.astype(int)
    bits = codes.view(np.uint8).astype(int)
    return np.where(bits & 0x80, -(bits & 0x7f), bits)


def in_groups(u, size):
    """Columns in groups of `size` (0: the row, None: everything), filled up with zeros."""
    if size is None:
        return u.reshape(1, 1, -1)
    size = size or u.shape[-1]
    u = np.concatenate([u, np.zeros((*u.shape[:-1], -u.shape[-1] % size))], axis=-1)
    return u.reshape(-1, u.shape[-1] // size, size)


class Case:
    def __init__(self, t, chip, library):
        self.t, self.chip, self.library = t, chip, library
        self.fp8, self.top = FP8[chip]

    def of(self, *shape, dtype=bf16, scale=1.0):
        return (rng.standard_normal(shape) * scale).astype(dtype)

    def call(self, name, *args, **named):
        """The call with arrays of the library; new(shape, type) stands for an output, and what it holds afterwards is returned first."""
        self.name = f"{name} on {self.chip}, {self.library.name}"
        outputs = []

        def one(value):
            if isinstance(value, np.ndarray):
                return self.library.put(value)
            if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], tuple):
                outputs.append(self.library.new(*value))
                return outputs[-1]
            return self.library.kind(value) if isinstance(value, type) else value
        result = getattr(aiter, name)(*[one(a) for a in args], **{k: one(v) for k, v in named.items()})
        self.t.check(not outputs or result is None or name in ("fused_clamp_act_mul", "gmm"), f"{self.name}: outputs were given, and {result} came back")

        def back(value):
            return None if value is None else tuple(back(v) for v in value) if isinstance(value, tuple) else self.library.get(value)
        result = back(result)
        return [*map(back, outputs), *(result if isinstance(result, tuple) else () if outputs and result is None else (result,))]

    def near(self, found, u, dtype=bf16):
        """Rounded once to 16 bits: within one unit in the last place."""
        bits = {bf16: 8, np.float16: 11}[dtype]
        self.t.check(found.dtype == dtype and found.shape == u.shape, f"{self.name}: {found.dtype}{found.shape}; {dtype}{u.shape} is expected")
        worst = (np.abs(wide(found) - u) / np.maximum(np.abs(u), 1e-6)).max(initial=0)
        self.t.check(worst <= 2.0**-bits, f"{self.name}: a relative error of {worst}")

    def coded(self, y, scale, u, size, power=False, dtype=None, top=None, error=0.0):
        """Codes of u in groups of `size` columns, and their scales."""
        dtype, top = dtype or self.fp8, top or self.top
        g = in_groups(u, size)
        amax = np.abs(g).max(axis=-1)
        wanted = np.where(amax > 0, amax / top, 1.0)
        if power:
            mantissa, exponent = np.frexp(wanted)
            wanted = np.exp2(exponent - (mantissa == 0.5))
        self.codes(y, u, wanted, size, dtype, top, error)
        found = scale.view(e8m0).astype(np.float64) if power else wide(scale)
        self.t.check(found.size == wanted.size, f"{self.name}: scales of shape {scale.shape}")
        error = np.abs(found.reshape(wanted.shape) / wanted - 1).max(initial=0)
        self.t.check(error <= (0 if power else 4 * 2.0**-23), f"{self.name}: a scale is wrong by {error}")

    def codes(self, y, u, scale, size, dtype=None, top=None, error=0.0):
        """Codes of u with known scales, saturated: one step away at most, and that only where u lies half-way to within f32's errors and `error`."""
        dtype, top = dtype or self.fp8, top or self.top
        g, lowest = in_groups(u, size) / scale[..., None], -128 if dtype == np.int8 else -top
        wanted = np.clip(g, lowest, top)
        wanted = (np.rint(wanted) if dtype == np.int8 else wanted.astype(np.float32)).astype(dtype)
        g, wanted, error = (a.reshape(*u.shape[:-1], -1)[..., :u.shape[-1]].reshape(u.shape) for a in (g, wanted, error / scale[..., None] + 0 * g))
        self.t.check(y.dtype == dtype and y.shape == u.shape, f"{self.name}: {y.dtype}{y.shape}; {np.dtype(dtype)}{u.shape} is expected")
        away = np.abs(places(y) - places(wanted))
        half = (wide(y) + wide(wanted)) / 2
        tie = np.abs(g - half) <= 2.0**-20 * np.abs(half) + error
        self.t.check(away.max(initial=0) <= 1 and tie[away > 0].all() and (away > 0).mean() <= 1e-2,
                     f"{self.name}: codes differ by {away.max()}, {(away > 0).mean()} of them, {(~tie[away > 0]).sum()} not at ties")


# ---- the calls

def norms(t, chip, library):
    c = Case(t, chip, library)
    x, res, w, b = c.of(5, 384), c.of(5, 384), c.of(384), c.of(384)
    smooth = np.abs(c.of(384, dtype=np.float32)) + np.float32(.1)
    total = wide(x) + wide(res)
    for name in ("rms_norm", "rmsnorm2d_fwd"):
        c.near(c.call(name, x, w, 1e-6)[0], rms(x, w))
        u = wide(x) / np.sqrt((wide(x)**2).mean(axis=-1, keepdims=True) + 1e-6)
        found, wanted = c.call(name, x, w, 1e-6, 1)[0], (u.astype(bf16).astype(np.float32) * w.astype(np.float32)).astype(bf16)
        t.check((found != wanted).mean() < 1e-2 and np.allclose(wide(found), wide(wanted), rtol=2.0**-6), f"{c.name}: T5's rounding")
    for name in ("layer_norm", "layernorm2d_fwd"):
        u = layer(x, w, b)
        y = c.call(name, x, w, b, 1e-5)[0]
        t.check((np.abs(wide(y) - u) <= 2.0**-8 * np.abs(u) + 2.0**-20).all(), f"{c.name}: another result")     # x * w + b cancels
    out = ((5, 384), bf16)
    for gemma in (False, True):
        y, s = c.call("rmsnorm2d_fwd_with_add", out, x, res, out, w, 1e-6, gemma)
        c.near(y, rms(x, w, res=res, offset=float(gemma)))
        c.near(s, total)
    y, s = c.call("layernorm2d_fwd_with_add", out, x, res, out, w, b, 1e-5)
    u = layer(x, w, b, res=res)
    t.check((np.abs(wide(y) - u) <= 2.0**-8 * np.abs(u) + 2.0**-20).all(), f"{c.name}: another result")
    c.near(s, total)
    # quantised: by rows to both types, by groups, powers of two
    kinds = [(0, np.float32, (5, 1), c.fp8, c.top), (0, np.float32, (5,), np.int8, 127.0), (128, np.float32, (5, 3), c.fp8, c.top),
             (128, np.uint8, (5, 3), c.fp8, c.top), (32, e8m0, (5, 12), c.fp8, c.top)]
    for size, kind, shape, dtype, top in kinds:
        out = ((5, 384), dtype)
        y, s = c.call("rmsnorm2d_fwd_with_dynamicquant", out, x, (shape, kind), w, 1e-6, group_size=size)
        c.coded(y, s, rms(x, w), size, kind is not np.float32, dtype, top)
        y, r, s = c.call("rmsnorm2d_fwd_with_add_dynamicquant", out, x, res, ((5, 384), bf16), (shape, kind), w, 1e-6, group_size=size)
        c.coded(y, s, rms(x, w, res=res), size, kind is not np.float32, dtype, top)
        c.near(r, total)
    for dtype, top in ((c.fp8, c.top), (np.int8, 127.0)):
        out, scale, rounded = ((5, 384), dtype), ((5, 1), np.float32), ((5, 384), bf16)
        y, s = c.call("rmsnorm2d_fwd_with_smoothquant", out, x, smooth, scale, w, 1e-6)
        c.coded(y, s, rms(x, w) * smooth, 0, False, dtype, top)
        y, r, s = c.call("rmsnorm2d_fwd_with_add_smoothquant", out, x, res, rounded, smooth, scale, w, 1e-6)
        c.coded(y, s, rms(x, w, res=res) * smooth, 0, False, dtype, top)
        c.near(r, total)
        y, s = c.call("layernorm2d_fwd_with_dynamicquant", out, x, scale, w, b, 1e-5)
        c.coded(y, s, layer(x, w, b), 0, False, dtype, top)
        y, s = c.call("layernorm2d_fwd_with_smoothquant", out, x, smooth, scale, w, b, 1e-5)
        c.coded(y, s, layer(x, w, b) * smooth, 0, False, dtype, top)
        y, r, s = c.call("layernorm2d_fwd_with_add_dynamicquant", out, x, res, rounded, scale, w, b, 1e-5)
        c.coded(y, s, layer(x, w, b, res=res), 0, False, dtype, top)
        c.near(r, total)
        y, r, s = c.call("layernorm2d_fwd_with_add_smoothquant", out, x, res, rounded, smooth, scale, w, b, 1e-5)
        c.coded(y, s, layer(x, w, b, res=res) * smooth, 0, False, dtype, top)
        c.near(r, total)


def fused_norms(t, chip, library):
    c = Case(t, chip, library)
    x, res, w, x2, w2 = c.of(5, 384), c.of(5, 384), c.of(384), c.of(5, 200), c.of(200)
    static = np.array([0.03], np.float32)

    def rest(found, more):
        out1, out2, out_res = found
        t.check((out1 is None) == (not more) and (out2 is None) == (not more) and (out_res is None) == (not more), f"{c.name}: {found}")
        if more:
            c.near(out1, rms(x, w, 1e-5, res=res))
            c.near(out2, rms(x2, w2, 1e-4))
            c.near(out_res, wide(x) + wide(res))
    for more in ({}, {"inp2": x2, "inp2_weight": w2, "inp2_epsilon": 1e-4, "res1": res, "output_unquantized_inp1": True}):
        u = rms(x, w, 1e-5, res=more.get("res1"))
        for turned in ({}, {"transpose_scale": True}, {"transpose_scale": True, "is_x_scale_strided": True}, {"dtype_quant": c.fp8}):
            (y, s), *found = c.call("fused_rms_fp8_group_quant", x, w, 1e-5, **turned, **more)
            t.check(s.shape == (5, 3), f"{c.name}: scales of shape {s.shape}")
            # compact memory that holds the scales column by column
            s = s.reshape(3, 5).T if turned.get("transpose_scale") and not turned.get("is_x_scale_strided") else s
            c.coded(y, np.ascontiguousarray(s), u, 128)
            rest(found, more)
        for kind in ({}, {"dtype_quant": c.fp8}):
            y, *found = c.call("fused_rms_fp8_per_tensor_static_quant", x, w, 1e-5, static, **kind, **more)
            c.codes(y, u, wide(static)[:, None], None)
            rest(found, more)


CANCELS = 2.0**-18                                          # what 1 + erf and 1 + tanh lose in f32 where a gate is far below 0


def gates(t, chip, library):
    c = Case(t, chip, library)
    h, out = c.of(5, 768, scale=2.0), ((5, 384), bf16)
    for name, activation in (("silu_and_mul", "silu"), ("gelu_and_mul", "gelu"), ("gelu_tanh_and_mul", "gelu_tanh")):
        y, = c.call(name, out, h)
        u = gate(h, activation)
        t.check((np.abs(wide(y) - u) <= 2.0**-8 * np.abs(u) + CANCELS).all(), f"{c.name}: another result")
        c.coded(*c.call("act_mul_and_fp8_group_quant", h, activation, 128), u, 128, error=CANCELS)
        c.coded(*c.call("act_mul_and_fp8_group_quant", h, activation, 128, c.fp8), u, 128, error=CANCELS)
    c.near(c.call("silu_and_mul", out, h, 1.5)[0], gate(h, limit=1.5))
    scale = np.array([0.02], np.float32)
    c.codes(c.call("scaled_silu_and_mul", ((5, 384), c.fp8), h, scale)[0], gate(h), wide(scale)[:, None], None)
    out = ((5, 384), c.fp8)
    for size, kind, shape, limit in ((128, np.float32, (5, 3), 0.0), (128, np.float32, (5, 3), 1.5), (128, e8m0, (5, 3), 0.0), (128, e8m0, (5, 3), 1.5),
                                     (32, np.uint8, (5, 12), 0.0), (32, np.uint8, (5, 12), 1.5)):
        y, s = c.call("silu_and_mul_quant", out, h, (shape, kind), size, limit)
        c.coded(y, s, gate(h, limit=limit), size, kind is not np.float32)


def clamped(t, chip, library):
    c = Case(t, chip, library)
    h = c.of(5, 768, scale=2.0)
    for activation, limit in (("silu", 0.0), ("gelu", 0.0), ("gelu_tanh", -1.0), ("silu", 1.5)):
        u, named = gate(h, activation, limit), {"activation": activation, "swiglu_limit": limit}
        for more in ({}, {"out": ((5, 384), bf16)}):
            y = c.call("fused_clamp_act_mul", h, **named, **more)[0]
            t.check(y.dtype == bf16 and (np.abs(wide(y) - u) <= 2.0**-8 * np.abs(u) + CANCELS).all(), f"{c.name}: another result")
        c.coded(*c.call("fused_clamp_act_mul", h, **named, dtype_quant=c.fp8), u, 128, error=CANCELS)
        y, s, *same = c.call("fused_clamp_act_mul", h, ((5, 384), c.fp8), ((5, 3), np.float32), **named, dtype_quant=c.fp8)
        c.coded(y, s, u, 128, error=CANCELS)
        t.check((same[0].view(np.uint8) == y.view(np.uint8)).all() and (same[1] == s).all(), f"{c.name}: what is given is not returned")
        y, s = c.call("fused_clamp_act_mul", h, **named, dtype_quant=c.fp8, transpose_scale=True)
        c.coded(y, np.ascontiguousarray(s.reshape(3, 5).T), u, 128, error=CANCELS)
    for limit in (0.0, 1.5):
        y, s = c.call("fused_clamp_act_mul", h, swiglu_limit=limit, dtype_quant=c.fp8, quant_block_size=32, scale_dtype_fmt="ue8m0")
        t.check(s.dtype == np.uint8 and s.shape == (5, 12), f"{c.name}: scales {s.dtype}{s.shape}")
        c.coded(y, s, gate(h, limit=limit), 32, True)


def quantised(t, chip, library):
    c = Case(t, chip, library)
    x, smooth = c.of(5, 384), np.abs(c.of(384, dtype=np.float32)) + np.float32(.1)
    u, given = wide(x), np.array([0.01], np.float32)
    out, one = ((5, 384), c.fp8), ((1,), np.float32)
    c.codes(c.call("static_per_tensor_quant", out, x, given)[0], u, wide(given)[:, None], None)
    c.coded(*c.call("dynamic_per_tensor_quant", out, x, one), u, None)
    c.coded(*c.call("per_tensor_quant_hip", x, quant_dtype=c.fp8), u, None)
    y, s = c.call("per_tensor_quant_hip", x, given, c.fp8)
    c.codes(y, u, wide(given)[:, None], None)
    t.check(s.shape == (1,) and s[0] == given[0], f"{c.name}: the scale {s}")
    for dtype, top in ((c.fp8, c.top), (np.int8, 127.0)):
        out = ((5, 384), dtype)
        for shape in ((5,), (5, 1)):
            c.coded(*c.call("dynamic_per_token_scaled_quant", out, x, (shape, np.float32)), u, 0, False, dtype, top)
        y, s = c.call("dynamic_per_token_scaled_quant", out, x, ((5, 1), np.float32), np.array([1.25], np.float32))
        c.codes(y, u, np.full((5, 1), 1.25 / top), 0, dtype, top)
        t.check(np.allclose(s, 1.25 / top, rtol=4 * 2.0**-23), f"{c.name}: the bound of the scale")
        for more in (x, x.reshape(5, 3, 128)):
            y, s = c.call("per_token_quant_hip", more, quant_dtype=dtype)
            t.check(s.shape == (*more.shape[:-1], 1), f"{c.name}: scales of shape {s.shape}")
            c.coded(y, s, wide(more), 0, False, dtype, top)
        y, s = c.call("smoothquant_fwd", out, x, smooth, ((5, 1), np.float32))
        c.coded(y, s, u * smooth, 0, False, dtype, top)
    t.check(c.call("per_token_quant_hip", x)[0].dtype == np.int8, "per_token_quant_hip: int8 is AITER's default")
    for size, kind in ((128, np.float32), (128, np.uint8), (32, e8m0)):
        out, power = ((5, 384), c.fp8), kind is not np.float32
        c.coded(*c.call("dynamic_per_group_scaled_quant", out, x, ((5, 384 // size), kind), size, False), u, size, power)
        y, s = c.call("per_group_quant_hip", x, quant_dtype=c.fp8, group_size=size, scale_type=e8m0 if power else np.float32)
        t.check(s.shape == (5, 384 // size), f"{c.name}: scales of shape {s.shape}")
        c.coded(y, s, u, size, power)
    y, s = c.call("per_group_quant_hip", x, quant_dtype=c.fp8, transpose_scale=True)
    t.check(s.shape == (5, 3), f"{c.name}: scales of shape {s.shape}")
    c.coded(y, np.ascontiguousarray(s.reshape(3, 5).T), u, 128)


def products(t, chip, library):
    c = Case(t, chip, library)
    lhs, rhs, sizes = c.of(30, 64), c.of(3, 64, 40), np.array([11, 0, 19], np.int32)
    wanted = np.concatenate([wide(lhs[:11]) @ wide(rhs[0]), wide(lhs[11:]) @ wide(rhs[2])])
    for more in ({}, {"preferred_element_type": bf16, "config": {"BLOCK_SIZE_M": 64}}, {"existing_out": ((30, 40), bf16)}):
        found = c.call("gmm", lhs, rhs, sizes, **more)[0]
        error = np.linalg.norm(wide(found) - wanted) / np.linalg.norm(wanted)
        t.check(error < 2.5e-3, f"gmm: relative L2 error {error}")
    x = c.of(6, 300)
    e = np.exp(wide(x) - wide(x).max(axis=1, keepdims=True))
    c.near(c.call("softmax", x)[0], e / e.sum(axis=1, keepdims=True))


def attention(t, chip, library):
    c = Case(t, chip, library)
    for rows, causal in ((9, True), (1, True), (1, False)):
        q, k, v = c.of(1, rows, 4, 64), c.of(1, 20, 2, 64), c.of(1, 20, 2, 64)
        o = c.call("flash_attn_func", q, k, v, causal=causal, softmax_scale=None if rows > 1 else 0.2)[0]
        kk, vv = (np.repeat(wide(a), 2, axis=2) for a in (k, v))
        s = np.einsum("bshd,blhd->bhsl", wide(q), kk) * (0.125 if rows > 1 else 0.2)
        s = np.where(np.arange(20) <= np.arange(rows)[:, None] + 20 - rows, s, -np.inf)
        p = np.exp(s - s.max(axis=-1, keepdims=True))
        wanted = np.einsum("bhsl,blhd->bshd", p / p.sum(axis=-1, keepdims=True), vv)
        error = np.linalg.norm(wide(o) - wanted) / np.linalg.norm(wanted)
        t.check(o.shape == q.shape and error < 4e-3, f"{c.name}: relative L2 error {error}")


def refused(t):
    x, w = (rng.standard_normal(s).astype(bf16) for s in ((2, 128), (128,)))
    y, s = np.zeros((2, 128), FP8["gfx942"][0]), np.zeros((2, 1), np.float32)
    q, k = (rng.standard_normal(s).astype(bf16) for s in ((1, 9, 4, 64), (1, 20, 2, 64)))
    lhs, rhs, sizes = x, rng.standard_normal((1, 128, 8)).astype(bf16), np.array([2], np.int32)
    for name in aiter.WITHOUT:
        raises(t, NotImplementedError, f"aiter.{name}: ", lambda: getattr(aiter, name)(x, w))
        t.check(name not in {row.call for row in aiter.ROWS}, f"{name} is both served and not")
    for name, args, named, text in (
            ("rmsnorm2d_fwd_with_add", (x, x, x, x, w, 1e-6, False, 1), {}, "use_model_sensitive_rmsnorm=1 is not served"),
            ("rmsnorm2d_fwd_with_dynamicquant", (y, x, s, w, 1e-6), {"group_size": 32}, "yscale=<float32[2, 1]> is not served"),
            ("rmsnorm2d_fwd_with_dynamicquant", (y, x, s, w, 1e-6), {"group_size": 64}, "group_size=64 is not served, group_size=32 is"),
            ("rmsnorm2d_fwd_with_dynamicquant", (y, x, s, w, 1e-6), {"shuffle_scale": True}, "shuffle_scale=True"),
            ("dynamic_per_token_scaled_quant", (y.reshape(2, 2, 64), x.reshape(2, 2, 64), np.zeros((2, 3, 1), np.float32)[:, :2]), {}, "no compact view"),
            ("rmsnorm2d_fwd_with_add_smoothquant", (y, x, x, x, s, s, w, 1e-6), {"out_before_quant": x}, "out_before_quant=<bfloat16[2, 128]>"),
            ("layernorm2d_fwd", (x, w, w), {"x_bias": w}, "x_bias"),
            ("fused_rms_fp8_group_quant", (x, w, 1e-6), {"group_size": 64}, "group_size=64"),
            ("fused_rms_fp8_per_tensor_static_quant", (x, w, 1e-6, s[:1]), {"rmsnorm_convert_to_inp1_type": True}, "rmsnorm_convert_to_inp1_type"),
            ("act_mul_and_fp8_group_quant", (x, "silu", 32), {}, "group_size=32"),
            ("act_mul_and_fp8_group_quant", (x, "relu", 128), {}, "activation='relu'"),
            ("silu_and_mul_quant", (x, x, s, 128), {"shuffle_scale": True}, "shuffle_scale"),
            ("fused_clamp_act_mul", (x,), {"weights": s}, "weights=<float32[2, 1]>"),
            ("fused_clamp_act_mul", (x,), {"swiglu_limit": 2.0, "activation": "gelu"}, "activation='gelu'"),
            ("per_group_quant_hip", (x,), {}, "quant_dtype='int8'"),
            ("per_token_quant_hip", (x, s), {}, "scale=<float32[2, 1]>"),
            ("dynamic_per_token_scaled_quant", (y, x, s), {"num_rows": s}, "num_rows"),
            ("gmm", (lhs, rhs, sizes), {"bias": lhs}, "bias"),
            ("gmm", (lhs, rhs, sizes), {"preferred_element_type": np.float32}, "preferred_element_type"),
            ("gmm", (lhs.astype(np.float16), rhs.astype(np.float16), sizes), {}, "preferred_element_type"),
            ("flash_attn_func", (q, k, k), {}, "causal=False"),
            ("flash_attn_func", (q, k, k), {"causal": True, "window_size": (4, 0)}, "window_size=(4, 0)"),
            ("flash_attn_func", (q, k, k), {"causal": True, "return_lse": True}, "return_lse"),
            ("flash_attn_func", (q, k, k), {"causal": True, "dropout_p": 0.1}, "dropout_p=0.1 is not served, dropout_p=0.0 is")):
        raises(t, NotImplementedError, text, lambda: getattr(aiter, name)(*args, **named))
        raises(t, NotImplementedError, f"aiter.{name}: ", lambda: getattr(aiter, name)(*args, **named))
    # what the kernel itself refuses stays refused
    raises(t, tdsl.Error, "y", lambda: aiter.act_mul_and_fp8_group_quant(x, "silu", 128, FP8["gfx950"][0]))
    raises(t, TypeError, "argument", lambda: aiter.silu_and_mul(x))
    raises(t, AttributeError, "served are", lambda: aiter.nothing)
    t.check(set(aiter.served()) == {row.call for row in aiter.ROWS}, "the pack of all kernels serves every row")


def table(t, ran):
    """The table fits the signatures and the kernels, and every row of it ran."""
    for row in aiter.ROWS:
        names = set(row.signature.parameters)
        sources = {s for source in row.takes.values() if not isinstance(source, float) for s in (source[1:] if isinstance(source, tuple) else (source,))}
        t.check(sources | set(row.only) <= names, f"{row.call}: the row names {sources - names}")
        t.check(set(row.takes) <= {p.name for p in getattr(tdsl, row.kernel).params}, f"{row.call}: {row.kernel} lacks a parameter of the row")
        t.check(row in ran, f"{row.call}: the row of {row.kernel} with {row.only} was not run")


def checks(totals):
    ran, serve = set(), aiter._serve

    def watched(row, arguments):
        ran.add(row)
        return serve(row, arguments)
    aiter._serve = watched
    libraries = [Numpy] + ([Torch] if importlib.util.find_spec("torch") else [])
    for library, chip in [(Numpy, "gfx950"), *((library, "gfx942") for library in libraries)]:
        tdsl.set_default(f"sim:{chip}")
        for function in (norms, fused_norms, gates, clamped, quantised, products, attention):
            totals.run(function, chip, library)
    aiter._serve = serve
    totals.run(table, ran)
    totals.run(refused)
