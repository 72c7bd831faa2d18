"""tdsl.aiter -- AITER's calls on tdsl's kernels: `from tdsl import aiter` instead of `import aiter`.

In: arguments as AITER takes them; torch tensors, or anything that tdsl takes.  Out: what AITER's function returns; outputs that
the caller allocates there are written here too.  ROWS is the whole of it: a call, its signature, the kernel that serves it, and
which argument goes where.  A call or a value that no row serves is refused by name with Refused (a NotImplementedError): nothing
is approximated.  A kernel that arrives adds a row; a row whose kernel the pack lacks is refused as well.

Scales mean the same in both: what to multiply by to get the numbers back.
"""
import inspect

import numpy as np

from . import bundled
from ._device import device_at
from ._tensor import NUMPY, is_torch, torch_dtype


class Refused(NotImplementedError):
    """A call of AITER, or a value of one of its arguments, that tdsl has no kernel for."""


# ---- tensors of either library

def type_name(tensor_or_type):
    """"bfloat16" of a tensor, of torch.bfloat16 and of numpy's type."""
    kind = tensor_or_type if isinstance(tensor_or_type, type) else getattr(tensor_or_type, "dtype", tensor_or_type)
    return str(kind if isinstance(kind, str) or "torch" in str(kind) else np.dtype(kind)).rpartition(".")[2]


def empty(like, shape, kind=None):
    """A new tensor of like's library, with elements of `kind` (None: like's)."""
    if is_torch(like):
        import torch
        return like.new_empty(shape, dtype=getattr(torch, kind) if isinstance(kind, str) else kind)
    if not isinstance(like, np.ndarray):
        raise Refused(f"outputs of {type(like).__name__} are not allocated here")
    return np.empty(shape, kind or like.dtype)


def named(like, code):
    """The element type of DLPack's code as like's library names it."""
    return torch_dtype(code) if is_torch(like) else NUMPY[code]


F32, BYTE, E8M0 = (2, 32), (1, 8), (14, 8)


def swapped(a, b):
    """A view with two dimensions swapped."""
    return lambda t: t.transpose(a, b) if is_torch(t) else t.swapaxes(a, b)


# ---- arguments: their tensors to ours

def flat(scale):
    """Scales of any shape as [M], the same memory."""
    if is_torch(scale):
        return scale.view(-1)
    found = scale.reshape(-1)
    if found.size and not np.may_share_memory(found, scale):
        raise Refused(f"scales of shape {tuple(scale.shape)} that are no compact view")
    return found


def power(scale):
    """Scales of one byte as e8m0: AITER holds them as bytes."""
    if type_name(scale) != "uint8":
        return scale
    return scale.view(named(scale, E8M0))


def starts(sizes):
    """Sizes of groups -> the first row of each, and the end."""
    if is_torch(sizes):
        import torch
        return torch.nn.functional.pad(sizes.cumsum(0), (1, 0)).to(torch.int32)
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)


def inverse_root(scale, q):
    """The softmax's scale: 1 / sqrt(D) unless it is given."""
    return q.shape[-1] ** -0.5 if scale is None else scale


def alike(tensor):
    """An output like an input; absent where that is."""
    return None if tensor is None else empty(tensor, tuple(tensor.shape))


def typed(tensor, kind):
    """An output like an input, with elements of another type; None: as the kernel says."""
    return None if kind is None else empty(tensor, tuple(tensor.shape), kind)


def chip_fp8(tensor, kind):
    """An output like an input, with fp8 elements of the chip's own kind where none is named."""
    if kind is None:
        kernel = bundled().quantize_128
        y = next(i for i, p in enumerate(kernel.params) if p.name == "y")
        kind = named(tensor, kernel.element(0, y, device_at(tensor.device if is_torch(tensor) else None).target))
    return typed(tensor, kind)


def half(tensor, out):
    """An output of half the columns; one that is given stays."""
    return empty(tensor, (*tensor.shape[:-1], tensor.shape[-1] // 2)) if out is None else out


def half_typed(tensor, kind, out=None):
    """The same with elements of another type; None: as the kernel says."""
    return out if out is not None or kind is None else empty(tensor, (*tensor.shape[:-1], tensor.shape[-1] // 2), kind)


def row_scales(tensor):
    return empty(tensor, (*tensor.shape[:-1], 1), named(tensor, F32))


def turned(columns):
    """Makes group scales whose memory holds them column by column; `columns` of the input belong to one column of the output."""
    def make(tensor, size):
        return swapped(0, 1)(empty(tensor, (-(-tensor.shape[-1] // columns // size), tensor.shape[0]), named(tensor, F32)))
    return make


def unturned(scale):
    """The same memory as AITER shows it: compact rows."""
    return swapped(0, 1)(scale).reshape(tuple(scale.shape))


def as_bytes(scale):
    return scale.view(named(scale, BYTE))


# ---- values that a row serves

def false(value):
    return not value


def positive(value):
    return value > 0


def not_positive(value):
    return value <= 0


def given(value):
    return value is not None


def f32(value):
    return type_name(value) == "float32"


def byte(value):
    """A type or a tensor of e8m0, or bytes that stand for it."""
    return type_name(value) in ("uint8", "float8_e8m0fnu")


def fp8(value):
    return value is not None and "float8_e4m3" in type_name(value)


def int8_or_fp8(value):
    return type_name(value) == "int8" or fp8(value)


def whole(window):
    """No window and no sink."""
    return tuple(window) in ((-1, -1), (-1, -1, 0))


def one_row(q):
    """One query sees every key, causal or not."""
    return q.shape[1] == 1


class Like:
    """Stands for the element type of another argument; None stands for bf16, AITER's default."""

    def __init__(self, name):
        self.name = name


class Row:
    """call: AITER's name; signature: its arguments; kernel: ours; takes: our parameter -> the name of theirs, (function, names of
    theirs...), or a number; only: argument -> the value or the test that it must pass; gives: what AITER's function returns, from
    our outputs by name and their arguments."""

    def __init__(self, call, signature, kernel, takes, only=None, gives=None):
        self.call, self.kernel, self.takes, self.only, self.gives = call, kernel, takes, only or {}, gives
        self.signature = inspect.signature(eval(f"lambda {signature}: None"))


def test(arguments, name, wanted):
    """Whether an argument has the value wanted, passes the test, or (Like another) has its type."""
    value = arguments[name]
    if callable(wanted):
        return wanted(value)
    if isinstance(wanted, Like):
        return type_name(value or "bfloat16") == type_name(arguments[wanted.name])
    return value is wanted or (type(value) in (int, float, bool, str, tuple) and value == wanted)


# ---- the rows

def only_y(r, a):
    return r["y"]


def y_and_scale(r, a):
    return r["y"], r["scale"]


def y_and_turned(r, a):
    return r["y"], unturned(r["scale"])


PLAIN = {"use_model_sensitive_rmsnorm": 0}
SIZED = {"num_rows": None, "num_rows_factor": 1}
RMS = {"x": "input", "w": "weight", "eps": "epsilon", "y": "out"}
LAYER = {**RMS, "b": "bias"}
ADDED = {"res": "residual_in", "res_out": "residual_out"}
BY_ROW = {"scale": (flat, "yscale")}
SMOOTH = {"smooth": "xscale", **BY_ROW}
GEMMA = {"offset": (float, "gemma_norm")}
ROWS = []


def rows(call, signature, *more):
    ROWS.extend(Row(call, signature, *m) for m in more)


for _name in ("rms_norm", "rmsnorm2d_fwd"):
    rows(_name, "input, weight, epsilon, use_model_sensitive_rmsnorm=0",
         ("rmsnorm", {**RMS, "y": (alike, "input")}, PLAIN, only_y),
         # T5's rounding; AITER's forms with a sum or codes round elsewhere than rmsnorm_t5, and are not served
         ("rmsnorm_t5", {**RMS, "y": (alike, "input")}, {"use_model_sensitive_rmsnorm": positive}, only_y))
rows("rmsnorm2d_fwd_with_add", "out, input, residual_in, residual_out, weight, epsilon, gemma_norm=False, use_model_sensitive_rmsnorm=0",
     ("rmsnorm", {**RMS, **ADDED, **GEMMA}, PLAIN))
# Scales: one f32 a row; f32 for 128 columns; powers of two for 128 and for 32.
for _name, _first, _by_row, _added in (("rmsnorm2d_fwd_with_dynamicquant", "out, input", "rmsnorm_quant", {}),
                                   ("rmsnorm2d_fwd_with_add_dynamicquant", "out, input, residual_in, residual_out", "add_rmsnorm_quant", ADDED)):
    rows(_name, _first + ", yscale, weight, epsilon, use_model_sensitive_rmsnorm=0, group_size=0, shuffle_scale=False",
         (_by_row, {**RMS, **_added, **BY_ROW}, {**PLAIN, "shuffle_scale": false, "group_size": 0, "yscale": f32}),
         ("rmsnorm_128", {**RMS, **_added, "scale": "yscale"}, {**PLAIN, "shuffle_scale": false, "group_size": 128, "yscale": f32}),
         ("rmsnorm_128_e8m0", {**RMS, **_added, "scale": (power, "yscale")}, {**PLAIN, "shuffle_scale": false, "group_size": 128, "yscale": byte}),
         ("rmsnorm_mxfp8", {**RMS, **_added, "scale": (power, "yscale")}, {**PLAIN, "shuffle_scale": false, "group_size": 32, "yscale": byte}))
rows("rmsnorm2d_fwd_with_smoothquant", "out, input, xscale, yscale, weight, epsilon, use_model_sensitive_rmsnorm=0",
     ("add_rmsnorm_quant", {**RMS, **SMOOTH}, PLAIN))
rows("rmsnorm2d_fwd_with_add_smoothquant",
     "out, input, residual_in, residual_out, xscale, yscale, weight, epsilon, out_before_quant=None, use_model_sensitive_rmsnorm=0",
     ("add_rmsnorm_quant", {**RMS, **ADDED, **SMOOTH}, {**PLAIN, "out_before_quant": None}))
for _name in ("layer_norm", "layernorm2d_fwd"):
    rows(_name, "input, weight, bias, epsilon=1e-5, x_bias=None", ("layernorm", {**LAYER, "y": (alike, "input")}, {"x_bias": None}, only_y))
rows("layernorm2d_fwd_with_add", "out, input, residual_in, residual_out, weight, bias, epsilon, x_bias=None",
     ("layernorm", {**LAYER, **ADDED}, {"x_bias": None}))
for _name, _more in (("dynamicquant", BY_ROW), ("smoothquant", SMOOTH)):
    _scales = "xscale, yscale" if _more is SMOOTH else "yscale"
    rows("layernorm2d_fwd_with_" + _name, f"out, input, {_scales}, weight, bias, epsilon=1e-5, x_bias=None",
         ("layernorm_quant", {**LAYER, **_more}, {"x_bias": None}))
    rows("layernorm2d_fwd_with_add_" + _name, f"out, input, residual_in, residual_out, {_scales}, weight, bias, epsilon=1e-5, x_bias=None",
         ("layernorm_quant", {**LAYER, **ADDED, **_more}, {"x_bias": None}))


def second(r, a):
    """The second input's norm and, where asked for, the first one's before it is quantised: launches of their own."""
    norm = bundled().rmsnorm
    out1 = norm(x=a["inp1"], w=a["inp1_weight"], eps=a["inp1_epsilon"], res=a["res1"], y=alike(a["inp1"])) if a["output_unquantized_inp1"] else None
    out2 = None if a["inp2"] is None else norm(x=a["inp2"], w=a["inp2_weight"], eps=a["inp2_epsilon"], y=alike(a["inp2"]))
    return out1, out2, r.get("res_out")


FUSED = {"x": "inp1", "w": "inp1_weight", "eps": "inp1_epsilon", "res": "res1", "res_out": (alike, "res1"), "y": (typed, "inp1", "dtype_quant")}
IN_TWO = "inp2=None, inp2_weight=None, inp2_epsilon=None"
rows("fused_rms_fp8_group_quant", f"inp1, inp1_weight, inp1_epsilon, {IN_TWO}, group_size=128, dtype_quant=None, res1=None, "
     "output_unquantized_inp1=False, transpose_scale=False, is_x_scale_strided=False",
     ("rmsnorm_128", FUSED, {"group_size": 128, "transpose_scale": false}, lambda r, a: (y_and_scale(r, a), *second(r, a))),
     ("rmsnorm_128", {**FUSED, "scale": (turned(1), "inp1", "group_size")}, {"group_size": 128, "transpose_scale": True},
      lambda r, a: (y_and_scale(r, a) if a["is_x_scale_strided"] else y_and_turned(r, a), *second(r, a))))
rows("fused_rms_fp8_per_tensor_static_quant", f"inp1, inp1_weight, inp1_epsilon, inp1_scale, {IN_TWO}, dtype_quant=None, res1=None, "
     "output_unquantized_inp1=False, rmsnorm_convert_to_inp1_type=False",
     ("rmsnorm", {**FUSED, "y": (chip_fp8, "inp1", "dtype_quant"), "scale": (flat, "inp1_scale")}, {"rmsnorm_convert_to_inp1_type": false},
      lambda r, a: (r["y"], *second(r, a))))

# Gates: the first half of the columns; with a limit the gate is at most that, and the other half within it.
CLAMPED = {"h": "input", "y": "out", "limit": "limit", "alpha": 1.0, "offset": 0.0}
GATED = {"silu": "swiglu", "gelu": "geglu", "gelu_tanh": "geglu_tanh"}
rows("silu_and_mul", "out, input, limit=0.0",
     ("swiglu", {"h": "input", "y": "out"}, {"limit": not_positive}), ("swiglu_clamped", CLAMPED, {"limit": positive}))
rows("gelu_and_mul", "out, input", ("geglu", {"h": "input", "y": "out"}))
rows("gelu_tanh_and_mul", "out, input", ("geglu_tanh", {"h": "input", "y": "out"}))
rows("scaled_silu_and_mul", "out, input, scale", ("swiglu", {"h": "input", "y": "out", "scale": (flat, "scale")}))
rows("silu_and_mul_quant", "out, input, scale, group_size, limit=0.0, shuffle_scale=False",
     *((kernel, {**takes, "scale": (power, "scale")}, {"group_size": size, "scale": kind, "limit": limit, "shuffle_scale": false})
       for kernel, takes, size, kind, limit in (("swiglu_quant", {"h": "input", "y": "out"}, 128, f32, not_positive),
                                                ("swiglu_clamped_128", CLAMPED, 128, f32, positive),
                                                ("swiglu_128_e8m0", {"h": "input", "y": "out"}, 128, byte, not_positive),
                                                ("swiglu_clamped_128_e8m0", CLAMPED, 128, byte, positive),
                                                ("swiglu_mxfp8", {"h": "input", "y": "out"}, 32, byte, not_positive),
                                                ("swiglu_clamped_mxfp8", CLAMPED, 32, byte, positive))))
rows("act_mul_and_fp8_group_quant", "x, activation, group_size, dtype_quant=None",
     *((f"{kernel}_{'quant' if kernel == 'swiglu' else 128}", {"h": "x", "y": (half_typed, "x", "dtype_quant")},
        {"activation": activation, "group_size": 128}, y_and_scale) for activation, kernel in GATED.items()))
CLAMP = ("inp, out=None, scale=None, swiglu_limit=0.0, activation='silu', weights=None, dtype_quant=None, transpose_scale=False, "
         "quant_block_size=128, scale_dtype_fmt='fp32', shuffle_scale=False")
PLAIN_CLAMP = {"dtype_quant": None, "weights": None}
QUANT_CLAMP = {"dtype_quant": fp8, "weights": None, "shuffle_scale": false}
LIMITED = {"limit": "swiglu_limit", "alpha": 1.0, "offset": 0.0}
TO_HALF = {"h": "inp", "y": (half, "inp", "out")}
TO_QUANT = {"h": "inp", "y": (half_typed, "inp", "dtype_quant", "out")}
rows("fused_clamp_act_mul", CLAMP,
     *((kernel, TO_HALF, {**PLAIN_CLAMP, "activation": activation, "swiglu_limit": not_positive}, only_y) for activation, kernel in GATED.items()),
     ("swiglu_clamped", {**TO_HALF, **LIMITED}, {**PLAIN_CLAMP, "activation": "silu", "swiglu_limit": positive}, only_y),
     *((kernel, {**TO_QUANT, **takes, "scale": (turned(2), "inp", "quant_block_size") if turn else "scale"},
        {**QUANT_CLAMP, "activation": activation, "swiglu_limit": limit, "quant_block_size": 128, "scale_dtype_fmt": "fp32",
         "transpose_scale": True if turn else false, **({"scale": None} if turn else {})}, y_and_turned if turn else y_and_scale)
       for turn in (False, True) for activation, kernel, takes, limit in (
           ("silu", "swiglu_quant", {}, not_positive), ("gelu", "geglu_128", {}, not_positive), ("gelu_tanh", "geglu_tanh_128", {}, not_positive),
           ("silu", "swiglu_clamped_128", LIMITED, positive))),
     *((kernel, {**TO_QUANT, **takes, "scale": (lambda s: s if s is None else power(s), "scale")},
        {**QUANT_CLAMP, "activation": "silu", "swiglu_limit": limit, "quant_block_size": 32, "scale_dtype_fmt": "ue8m0", "transpose_scale": false},
        lambda r, a: (r["y"], as_bytes(r["scale"])))
       for kernel, takes, limit in (("swiglu_mxfp8", {}, not_positive), ("swiglu_clamped_mxfp8", LIMITED, positive))))
# Quantisation by itself.
rows("static_per_tensor_quant", "out, input, scale", ("cast_transpose", {"x": "input", "y": "out", "scale": (flat, "scale")}))
rows("dynamic_per_tensor_quant", "out, input, scale", ("quantize_current", {"x": "input", "y": "out", "scale": (flat, "scale")}))
rows("per_tensor_quant_hip", "x, scale=None, quant_dtype='int8', num_rows=None, num_rows_factor=1",
     ("quantize_current", {"x": "x", "y": (typed, "x", "quant_dtype")}, {**SIZED, "scale": None, "quant_dtype": int8_or_fp8}, y_and_scale),
     ("cast_transpose", {"x": "x", "y": (typed, "x", "quant_dtype"), "scale": (flat, "scale")}, {**SIZED, "scale": given, "quant_dtype": int8_or_fp8},
      lambda r, a: (r["y"], flat(a["scale"]))))
rows("dynamic_per_token_scaled_quant", "out, input, scales, scale_ub=None, shuffle_scale=False, num_rows=None, num_rows_factor=1",
     ("quantize_rows", {"x": "input", "y": "out", "scale": (flat, "scales"), "cap": "scale_ub"}, {**SIZED, "shuffle_scale": false}))
rows("per_token_quant_hip", "x, scale=None, quant_dtype='int8', num_rows=None, num_rows_factor=1",
     ("quantize_rows", {"x": "x", "y": (typed, "x", "quant_dtype"), "scale": (lambda x: flat(row_scales(x)), "x")},
      {**SIZED, "scale": None, "quant_dtype": int8_or_fp8}, lambda r, a: (r["y"], r["scale"].reshape((*a["x"].shape[:-1], 1)))))
rows("smoothquant_fwd", "out, input, x_scale, y_scale",
     ("quantize_rows", {"x": "input", "smooth": "x_scale", "y": "out", "scale": (flat, "y_scale")}))
GROUPS = (("quantize_128", 128, f32), ("quantize_128_e8m0", 128, byte), ("quantize_mxfp8", 32, byte))
rows("dynamic_per_group_scaled_quant", "out, input, scales, group_size=32, shuffle_scale=True, num_rows=None, num_rows_factor=1",
     *((kernel, {"x": "input", "y": "out", "scale": (power, "scales")}, {**SIZED, "out": fp8, "group_size": size, "scales": kind, "shuffle_scale": false})
       for kernel, size, kind in GROUPS))
BY_GROUP = {"x": "x", "y": (typed, "x", "quant_dtype")}
rows("per_group_quant_hip", "x, scale=None, quant_dtype='int8', group_size=128, transpose_scale=False, num_rows=None, num_rows_factor=1, "
     "scale_type='float32'",
     *((kernel, BY_GROUP, {**SIZED, "scale": None, "quant_dtype": fp8, "group_size": size, "scale_type": kind, "transpose_scale": false}, y_and_scale)
       for kernel, size, kind in GROUPS),
     ("quantize_128", {**BY_GROUP, "scale": (turned(1), "x", "group_size")},
      {**SIZED, "scale": None, "quant_dtype": fp8, "group_size": 128, "scale_type": f32, "transpose_scale": True}, y_and_turned))

rows("softmax", "x", ("softmax_rows", {"x": (lambda x: x[None], "x")}, None, lambda r, a: r["y"][0]))
# config and grid_dim are hints to AITER's kernel: they change no result.
rows("gmm", "lhs, rhs, group_sizes, bias=None, preferred_element_type=None, existing_out=None, work_stealing=False, config=None, grid_dim=None",
     ("grouped_gemm", {"a": "lhs", "b": (swapped(1, 2), "rhs"), "first": (starts, "group_sizes"), "c": "existing_out"},
      {"bias": None, "preferred_element_type": Like("lhs"), "work_stealing": false}, lambda r, a: r["c"]))
for _only in ({"causal": True}, {"causal": False, "q": one_row}):
    rows("flash_attn_func", "q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1, 0), bias=None, alibi_slopes=None, "
         "deterministic=True, return_lse=False, return_attn_probs=False, how_v3_bf16_cvt=1, cu_seqlens_q=None, cu_seqlens_kv=None, sink_ptr=None, "
         "num_splits=0",
         ("attention", {"q": (swapped(1, 2), "q"), "k": (swapped(1, 2), "k"), "v": (swapped(1, 2), "v"), "scale": (inverse_root, "softmax_scale", "q")},
          {"dropout_p": 0.0, **_only, "window_size": whole, "bias": None, "alibi_slopes": None, "return_lse": false, "return_attn_probs": false,
           "cu_seqlens_q": None, "cu_seqlens_kv": None, "sink_ptr": None}, lambda r, a: swapped(1, 2)(r["o"])))
# Calls that AITER has and no kernel here serves.
WITHOUT = """
act_mul_and_mxfp4_quant gemm_a8w8 gemm_a8w8_blockscale gemm_a4w4 ptgmm nptgmm fused_moe flash_attn_varlen_func rope_fwd
rope_cached_fwd reshape_and_cache moe_smoothquant_fwd per_1x32_f4_quant_hip
""".split()


# ---- calls

def _serve(row, arguments):
    """Runs a row's kernel."""
    pack = bundled()
    if row.kernel not in pack.kernels:
        raise Refused(f"aiter.{row.call}: needs the kernel {row.kernel!r}; the pack holds {', '.join(pack.kernels)}")
    values = {}
    for name, source in row.takes.items():
        function, *sources = source if isinstance(source, tuple) else (None, source)
        try:
            value = source if isinstance(source, float) else function(*(arguments[s] for s in sources)) if function else arguments[source]
        except Refused as e:
            raise Refused(f"aiter.{row.call}: {sources[0]}: {e}") from None
        if value is not None:
            values[name] = value
    kernel = pack[row.kernel]
    result = kernel(**values)
    if row.gives is None:
        return None
    names = [kernel.params[i].name for i in kernel.outputs]
    names = [n for n in names if n in values or not next(p for p in kernel.params if p.name == n).is_optional]
    return row.gives(dict(zip(names, result if isinstance(result, tuple) else (result,))), arguments)


def _said(value):
    """A value as a refusal shows it."""
    return f"<{type_name(value)}{list(value.shape)}>" if hasattr(value, "shape") and not isinstance(value, type) else repr(value)


def _call(name, some):
    def call(*args, **named):
        why = {}
        bound = some[0].signature.bind(*args, **named)
        bound.apply_defaults()
        for row in some:
            wrong = next((a for a, wanted in row.only.items() if not test(bound.arguments, a, wanted)), None)
            if wrong is None:
                return _serve(row, bound.arguments)
            wanted = row.only[wrong]
            fixed = not (callable(wanted) or isinstance(wanted, Like))
            why[f"{wrong}={_said(bound.arguments[wrong])} is not served" + (f", {wrong}={wanted!r} is" if fixed else "")] = None
        raise Refused(f"aiter.{name}: {'; '.join(why)}")
    call.__name__ = call.__qualname__ = name
    call.__signature__ = some[0].signature
    call.__doc__ = "AITER's call on the kernel " + ", or ".join(dict.fromkeys(row.kernel for row in some)) + f": {name}{some[0].signature}"
    return call


def _refusal(name):
    def call(*args, **named):
        raise Refused(f"aiter.{name}: tdsl has no kernel for it yet; served are {', '.join(served())}")
    call.__name__ = call.__qualname__ = name
    call.__doc__ = "Not served: no kernel yet."
    return call


def served():
    """The calls that the bundled pack serves."""
    return sorted({row.call for row in ROWS if row.kernel in bundled().kernels})


for _name in dict.fromkeys(row.call for row in ROWS):
    globals()[_name] = _call(_name, [row for row in ROWS if row.call == _name])
for _name in WITHOUT:
    globals()[_name] = _refusal(_name)


def __getattr__(name):
    if name.startswith("_"):
        raise AttributeError(name)
    raise AttributeError(f"tdsl.aiter has no {name!r}; served are {', '.join(served())}")
