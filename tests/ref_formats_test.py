"""ref_formats_test.py -- the references' own number formats against ml_dtypes: every code, every tie and its neighbours."""
import ctypes
import os
import sys
from pathlib import Path

import ml_dtypes
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from totals import Totals

lib = ctypes.CDLL(str(Path(os.environ.get("B", "build")).resolve() / "tests" / "libref.so"))
lib.ref_code_value.restype = lib.ref_half_value.restype = lib.ref_code_max.restype = ctypes.c_double
lib.ref_code_round.argtypes, lib.ref_code_round.restype = [ctypes.c_int, ctypes.c_double], ctypes.c_uint8
lib.ref_code_value.argtypes, lib.ref_code_step.argtypes = [ctypes.c_int, ctypes.c_uint8], [ctypes.c_int, ctypes.c_uint8]
lib.ref_half_value.argtypes = [ctypes.c_int, ctypes.c_uint16]
lib.ref_half_round.argtypes, lib.ref_half_round.restype = [ctypes.c_int, ctypes.c_double], ctypes.c_uint16


def codes(t, number, dtype, count=256):
    values = np.arange(count, dtype=np.uint8).view(dtype).astype(np.float64)
    mine = np.array([lib.ref_code_value(number, c) for c in range(count)])
    t.check(np.array_equal(values, mine, equal_nan=True), f"{dtype}: values differ")
    finite = np.unique(values[np.isfinite(values)])
    ties = (finite[1:] + finite[:-1]) / 2
    points = np.concatenate([finite, ties, np.nextafter(ties, np.inf), np.nextafter(ties, -np.inf), [1e9, -1e9, -0.0]])
    clipped = np.clip(points, finite[0], finite[-1])
    # ml_dtypes rounds f64 by way of f32 in old versions; the neighbours of ties are compared as f32 for that reason
    clipped = clipped.astype(np.float32).astype(np.float64)
    expected = clipped.astype(dtype).view(np.uint8)
    found = np.array([lib.ref_code_round(number, x) for x in clipped], np.uint8)
    t.check((expected == found).all(), f"{dtype}: {clipped[expected != found][:5]} round to {found[expected != found][:5]}")
    if count == 256:
        t.check(np.isnan(lib.ref_code_value(number, lib.ref_code_round(number, float("nan")))), f"{dtype}: NaN does not stay NaN")


def half(t, number, dtype):
    values = np.arange(65536, dtype=np.uint32).astype(np.uint16).view(dtype).astype(np.float64)
    mine = np.array([lib.ref_half_value(number, c) for c in range(65536)])
    t.check(np.array_equal(values, mine, equal_nan=True), f"{dtype}: values differ")
    rng = np.random.default_rng(3)
    finite = np.unique(values[np.isfinite(values)])
    ties = ((finite[1:] + finite[:-1]) / 2)[::5].astype(np.float32)
    points = np.concatenate([rng.integers(0, 1 << 32, 50000, dtype=np.uint32).view(np.float32), ties, np.nextafter(ties, np.float32(9)),
                             (rng.standard_normal(20000) * 2.0 ** rng.integers(-30, 20, 20000)).astype(np.float32)])
    points = points[~np.isnan(points)]
    expected = points.astype(dtype).view(np.uint16)
    found = np.array([lib.ref_half_round(number, float(x)) for x in points], np.uint16)
    t.check((expected == found).all(), f"{dtype}: {points[expected != found][:5]} round wrongly")


np.seterr(over="ignore")
totals = Totals()
totals.run(codes, 0, ml_dtypes.float8_e4m3fn)
totals.run(codes, 1, ml_dtypes.float8_e4m3fnuz)
totals.run(codes, 3, ml_dtypes.float4_e2m1fn, 16)
totals.run(codes, 4, ml_dtypes.float8_e5m2)
totals.run(codes, 5, ml_dtypes.float8_e5m2fnuz)
totals.run(half, 0, ml_dtypes.bfloat16)
totals.run(half, 1, np.float16)
totals.finish()
