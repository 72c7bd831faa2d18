"""sim_num_test.py LIB -- base/num.c against ml_dtypes, code by code.

LIB is a shared library that exports num_to_f32, num_from_f32 and num_max. Every code of the narrow formats, every
pattern of bf16 and f16, their neighbours and ties, and random f32 patterns are converted both ways. Needs numpy and
ml_dtypes. Prints one line a format and the number of differences; exit 0 when there are none.
"""
import ctypes
import re
import sys
from pathlib import Path

import ml_dtypes
import numpy as np

np.seterr(all="ignore")
lib = ctypes.CDLL(sys.argv[1])
lib.num_to_f32.restype = ctypes.c_float
lib.num_from_f32.argtypes = [ctypes.c_float, ctypes.c_int, ctypes.c_bool]
lib.num_from_f32.restype = ctypes.c_uint32

rows = re.findall(r"^X\((\w+)", (Path(__file__).parent.parent / "base/dtype.def").read_text(), re.M)
number = {name: i + 1 for i, name in enumerate(rows)}
formats = {
    "BF16": (ml_dtypes.bfloat16, 16), "F16": (np.float16, 16), "E4M3": (ml_dtypes.float8_e4m3fn, 8),
    "E4M3FNUZ": (ml_dtypes.float8_e4m3fnuz, 8), "E5M2": (ml_dtypes.float8_e5m2, 8),
    "E5M2FNUZ": (ml_dtypes.float8_e5m2fnuz, 8), "E8M0": (ml_dtypes.float8_e8m0fnu, 8),
    "E2M1": (ml_dtypes.float4_e2m1fn, 4),
}


def bits_of(x, nbits):
    return x.view(np.uint16 if nbits == 16 else np.uint8)


def main():
    rng = np.random.default_rng(1)
    bad = 0
    for name, (dtype, nbits) in formats.items():
        t = number[name]
        codes = np.arange(1 << nbits, dtype=np.uint16 if nbits == 16 else np.uint8)
        wide = codes.view(dtype).astype(np.float32)
        mine = np.array([lib.num_to_f32(int(c), t) for c in codes], dtype=np.float32)
        same = (wide.view(np.uint32) == mine.view(np.uint32)) | (np.isnan(wide) & np.isnan(mine))
        wrong = int((~same).sum())
        # inputs of the narrowing: every value, the ties between neighbours, one f32 step about both, random patterns
        finite = np.unique(wide[np.isfinite(wide)])
        ties = ((finite[1:].astype(np.float64) + finite[:-1]) / 2).astype(np.float32)
        base = np.concatenate([wide, ties])
        xs = np.concatenate([base, np.nextafter(base, np.float32(np.inf)), np.nextafter(base, np.float32(-np.inf)),
                             rng.integers(0, 1 << 32, 100000, dtype=np.uint32).view(np.float32),
                             (rng.standard_normal(50000) * 2.0 ** rng.integers(-20, 20, 50000)).astype(np.float32),
                             np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 448, 464, 465, 480, 240, 248, 61440], np.float32)])
        if name == "E8M0":
            # the package gives NaN for negative numbers and zero and rounds f32 denormals up; here the magnitude is
            # rounded to the nearest power of two everywhere
            xs = np.abs(xs)
            xs = xs[~(xs < 2.0**-126)]
        top = np.float32(finite.max())
        for saturate in (False, True):
            ins = np.clip(xs, -top, top) if saturate else xs
            ref = bits_of(ins.astype(dtype), nbits).astype(np.uint32)
            got = np.array([lib.num_from_f32(float(x), t, saturate) for x in xs], dtype=np.uint32)
            if name == "E2M1":
                ref &= 0xF
            nan = np.isnan(xs)
            if name == "E2M1":
                same = (ref == got) | (nan & ((got & 7) == 7))
            else:
                back = bits_of(got.astype(codes.dtype), nbits).view(dtype).astype(np.float32)
                same = (ref == got) | (np.isnan(back) & np.isnan(bits_of(ref.astype(codes.dtype), nbits).view(dtype).astype(np.float32)))
            for i in np.flatnonzero(~same)[:4]:
                print(f"  {name} saturate={saturate}: {float(xs[i]).hex()} gives {got[i]:#x}, not {ref[i]:#x}")
            wrong += int((~same).sum())
        print(f"{name}: {len(codes)} codes, {2 * len(xs)} conversions, {wrong} differ")
        bad += wrong
    return 1 if bad else 0


sys.exit(main())
