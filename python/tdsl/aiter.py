"""tdsl.aiter -- AITER's calls on tdsl's kernels: `from tdsl import aiter` instead of `import aiter`.

In: arguments as AITER takes them; torch tensors, or anything that tdsl takes.  Out: what AITER's function returns; outputs that
the caller allocates there are written here too.  ROWS is the whole of it: a call, its signature, the kernel that serves it, and
which argument goes where.  A call or a value that no row serves is refused by name with Refused (a NotImplementedError): nothing
is approximated.  A kernel that arrives adds a row; a row whose kernel the pack lacks is refused as well.
"""
import inspect

import numpy as np

from . import bundled
from ._tensor import is_torch


class Refused(NotImplementedError):
    """A call of AITER, or a value of one of its arguments, that tdsl has no kernel for."""


# ---- what the rows are made of

def flat(scale):
    """Scales as [M] of [M, 1], the same memory."""
    if scale.ndim == 2 and scale.shape[1] != 1:
        raise Refused(f"scales of shape {tuple(scale.shape)}; [M] or [M, 1] are expected")
    return scale.view(-1) if is_torch(scale) else scale.reshape(-1)


def swapped(a, b):
    """A view with two dimensions swapped."""
    return lambda t: t.transpose(a, b) if is_torch(t) else t.swapaxes(a, b)


def starts(sizes):
    """Sizes of groups -> the first row of each, and the end."""
    if is_torch(sizes):
        import torch
        return torch.nn.functional.pad(sizes.cumsum(0), (1, 0)).to(torch.int32)
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)


def inverse_root(scale, q):
    """The softmax's scale: 1 / sqrt(D) unless it is given."""
    return q.shape[-1] ** -0.5 if scale is None else scale


def fp8(dtype):
    """None or an 8-bit float with 4 bits of exponent: the chip's own."""
    return dtype is None or "float8_e4m3" in str(dtype)


def false(value):
    return not value


class Like:
    """Stands for the element type of another argument."""

    def __init__(self, name):
        self.name = name


class Row:
    """call: AITER's name; signature: its arguments; kernel: ours; takes: our parameter -> theirs, or (function, theirs...);
    gives: our outputs -> views of what the kernel returns, where AITER returns them; only: argument -> value or test."""

    def __init__(self, call, signature, kernel, takes, only=None, gives=None):
        self.call, self.kernel, self.takes, self.only, self.gives = call, kernel, takes, only or {}, gives
        self.signature = inspect.signature(eval(f"lambda {signature}: None"))


def test(given, name, wanted):
    """Whether an argument has the value wanted, passes the test, or (name of another) has its type."""
    value = given[name]
    if callable(wanted):
        return wanted(value)
    if isinstance(wanted, Like):
        return value is None or value == given[wanted.name].dtype
    return value is wanted or (type(value) in (int, float, bool, str, tuple) and value == wanted)


PLAIN = {"use_model_sensitive_rmsnorm": 0}
WHOLE = (-1, -1)
ROWS = [
    Row("rmsnorm2d_fwd_with_dynamicquant", "out, input, yscale, weight, epsilon, use_model_sensitive_rmsnorm=0, group_size=0, shuffle_scale=False",
        "rmsnorm_quant", {"x": "input", "w": "weight", "eps": "epsilon", "y": "out", "scale": (flat, "yscale")},
        {**PLAIN, "group_size": 0, "shuffle_scale": false}),
    Row("silu_and_mul_quant", "out, input, scale, group_size, limit=0.0, shuffle_scale=False",
        "swiglu_quant", {"h": "input", "y": "out", "scale": "scale"}, {"group_size": 128, "limit": 0.0, "shuffle_scale": false}),
    Row("act_mul_and_fp8_group_quant", "x, activation, group_size, dtype_quant=None",
        "swiglu_quant", {"h": "x"}, {"activation": "silu", "group_size": 128, "dtype_quant": fp8}, gives=()),
    Row("gmm", "lhs, rhs, group_sizes, bias=None, preferred_element_type=None, existing_out=None",
        "grouped_gemm", {"a": "lhs", "b": (swapped(1, 2), "rhs"), "first": (starts, "group_sizes"), "c": "existing_out"},
        {"bias": None, "preferred_element_type": Like("lhs")}, gives=()),
    Row("flash_attn_func", "q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), bias=None, alibi_slopes=None, "
        "deterministic=True, return_lse=False, return_attn_probs=False",
        "attention", {"q": (swapped(1, 2), "q"), "k": (swapped(1, 2), "k"), "v": (swapped(1, 2), "v"), "scale": (inverse_root, "softmax_scale", "q")},
        {"dropout_p": 0.0, "causal": True, "window_size": WHOLE, "bias": None, "alibi_slopes": None, "return_lse": false, "return_attn_probs": false},
        gives=(swapped(1, 2),)),
]
# Calls that AITER has and no kernel here serves yet.
WITHOUT = """
rms_norm rmsnorm2d_fwd rmsnorm2d_fwd_with_add rmsnorm2d_fwd_with_add_dynamicquant rmsnorm2d_fwd_with_smoothquant
rmsnorm2d_fwd_with_add_smoothquant layernorm2d_fwd layernorm2d_fwd_with_add layernorm2d_fwd_with_dynamicquant
layernorm2d_fwd_with_add_dynamicquant silu_and_mul gelu_and_mul gelu_tanh_and_mul scaled_silu_and_mul act_mul_and_mxfp4_quant
fused_rms_fp8_group_quant fused_rms_fp8_per_tensor_static_quant fused_clamp_act_mul static_per_tensor_quant
dynamic_per_tensor_quant dynamic_per_token_scaled_quant per_group_quant_hip gemm_a8w8 gemm_a8w8_blockscale gemm_a4w4 ptgmm nptgmm
fused_moe flash_attn_varlen_func rope_fwd rope_cached_fwd reshape_and_cache
""".split()


# ---- calls

def _serve(row, given):
    """Runs a row's kernel."""
    pack = bundled()
    if row.kernel not in pack.kernels:
        raise Refused(f"aiter.{row.call}: needs the kernel {row.kernel!r}; the pack holds {', '.join(pack.kernels)}")
    values = {}
    for name, source in row.takes.items():
        function, *sources = source if isinstance(source, tuple) else (None, source)
        value = [given[s] for s in sources]
        try:
            values[name] = function(*value) if function else value[0]
        except Refused as e:
            raise Refused(f"aiter.{row.call}: {sources[0]}: {e}") from None
    result = getattr(pack, row.kernel)(**values)
    if row.gives is None:
        return None
    result = result if isinstance(result, tuple) else (result,)
    result = tuple(view(r) for view, r in zip(row.gives, result)) if row.gives else result
    return result[0] if len(result) == 1 else result


def _call(name, rows):
    def call(*args, **named):
        why = []
        for row in rows:
            bound = row.signature.bind(*args, **named)
            bound.apply_defaults()
            wrong = next((a for a, wanted in row.only.items() if not test(bound.arguments, a, wanted)), None)
            if wrong is None:
                return _serve(row, bound.arguments)
            wanted = row.only.get(wrong)
            why.append(f"{wrong}={bound.arguments[wrong]!r} is not served" + ("" if callable(wanted) or isinstance(wanted, Like) else f", {wrong}={wanted!r} is"))
        raise Refused(f"aiter.{name}: {'; '.join(why)}")
    call.__name__ = call.__qualname__ = name
    call.__signature__ = rows[0].signature
    call.__doc__ = "AITER's call on the kernel " + ", or ".join(dict.fromkeys(row.kernel for row in rows)) + f": {name}{rows[0].signature}"
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
