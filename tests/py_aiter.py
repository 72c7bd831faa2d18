"""py_aiter.py -- AITER's calls on numpy arrays: those served give what the references give, the others are refused by name;
run by wheel_test.py."""
import ml_dtypes
import numpy as np
from py_calls import raises, rng, rows, same

import tdsl
from tdsl import aiter

bf16 = ml_dtypes.bfloat16


def served(t):
    x, w = rows(6, 384)
    wanted = tdsl.rmsnorm_quant(x, w, eps=1e-5)
    out, scale = np.empty_like(wanted[0]), np.empty((6, 1), np.float32)
    t.check(aiter.rmsnorm2d_fwd_with_dynamicquant(out, x, scale, w, 1e-5) is None, "a call with given outputs returns nothing")
    t.check(same((out, scale[:, 0].copy()), wanted), "rmsnorm2d_fwd_with_dynamicquant")
    wanted = tdsl.swiglu_quant(x)
    t.check(same(aiter.act_mul_and_fp8_group_quant(x[:, :256], "silu", 128), tdsl.swiglu_quant(x[:, :256])), "act_mul_and_fp8_group_quant")
    out, scale = np.empty_like(wanted[0]), np.empty_like(wanted[1])
    aiter.silu_and_mul_quant(out, x, scale, 128)
    t.check(same((out, scale), wanted), "silu_and_mul_quant")


def products(t):
    lhs, rhs = rng.standard_normal((30, 64)).astype(bf16), rng.standard_normal((3, 64, 40)).astype(bf16)
    sizes = np.array([11, 0, 19], np.int32)
    found = aiter.gmm(lhs, rhs, sizes).astype(np.float64)
    wanted = np.concatenate([lhs[:11].astype(np.float64) @ rhs[0].astype(np.float64), lhs[11:].astype(np.float64) @ rhs[2].astype(np.float64)])
    error = np.linalg.norm(found - wanted) / np.linalg.norm(wanted)
    t.check(error < 2.5e-3, f"gmm: relative L2 error {error}")
    raises(t, aiter.Refused, "bias", lambda: aiter.gmm(lhs, rhs, sizes, bias=lhs))


def attention(t):
    q, k, v = (rng.standard_normal(s).astype(bf16) for s in ((1, 9, 4, 64), (1, 20, 2, 64), (1, 20, 2, 64)))
    o = aiter.flash_attn_func(q, k, v, causal=True)
    wanted = tdsl.attention(q.swapaxes(1, 2).copy(), k.swapaxes(1, 2).copy(), v.swapaxes(1, 2).copy(), 0.125)
    t.check(o.shape == q.shape and (o == wanted.swapaxes(1, 2)).all(), "flash_attn_func")
    for named in ({}, {"causal": True, "window_size": (4, 0)}, {"causal": True, "return_lse": True}, {"causal": True, "dropout_p": 0.1}):
        raises(t, NotImplementedError, "aiter.flash_attn_func: ", lambda: aiter.flash_attn_func(q, k, v, **named))


def refused(t):
    x, w = rows(2, 128)
    for name in aiter.WITHOUT:
        raises(t, NotImplementedError, f"aiter.{name}: ", lambda: getattr(aiter, name)(x, w))
        t.check(name not in {row.call for row in aiter.ROWS}, f"{name} is both served and not")
    raises(t, NotImplementedError, "group_size=32", lambda: aiter.act_mul_and_fp8_group_quant(x, "silu", 32))
    raises(t, NotImplementedError, "activation='gelu'", lambda: aiter.act_mul_and_fp8_group_quant(x, "gelu", 128))
    raises(t, NotImplementedError, "shuffle_scale", lambda: aiter.silu_and_mul_quant(x, x, x, 128, shuffle_scale=True))
    t.check(set(aiter.served()) <= {row.call for row in aiter.ROWS}, "served")
    for row in aiter.ROWS:                                   # the table fits the signatures and the kernels
        names = set(row.signature.parameters)
        sources = {s for source in row.takes.values() for s in (source[1:] if isinstance(source, tuple) else (source,))}
        t.check(sources | set(row.only) <= names, f"{row.call}: the row names {sources - names}")
        if row.kernel in tdsl.bundled().kernels:
            t.check(set(row.takes) <= {p.name for p in getattr(tdsl, row.kernel).params}, f"{row.call}: {row.kernel} lacks a parameter of the row")


def checks(totals):
    for function in (served, products, attention, refused):
        totals.run(function)
