"""e2e_new_kernel_test.py -- a kernel that nothing was tuned for goes from text to results on both chips.

tests/e2e_new_kernel.tdsl is built with `tdslc build`, run with `tdslc run` on the simulated devices, from and to safetensors
files, and compared with numpy in f64: scales within 4 f32 ulp, codes at most one step apart in one of 10^4 elements.
"""
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import ml_dtypes

sys.path.insert(0, str(Path(__file__).resolve().parent))
import safetensors
from totals import Totals

B = Path(os.environ.get("B", "build"))
OUT = B / "test" / "new_kernel"
TEXT = Path(__file__).resolve().parent / "e2e_new_kernel.tdsl"


def tdslc(*arguments):
    result = subprocess.run([B / "tdslc", *map(str, arguments)], capture_output=True, text=True)
    if result.returncode:
        raise RuntimeError(f"tdslc {' '.join(map(str, arguments))}: exit {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


def build(t):
    tdslc("build", TEXT, "-o", OUT / "new.tpack", "--target", "gfx942,gfx950")
    listing = tdslc("list", OUT / "new.tpack")
    t.check("gated_lse" in listing, f"the listing does not name the kernel:\n{listing}")


def ulp(found, expected):
    return np.abs(found.astype(np.float32).view(np.int32).astype(np.int64) - expected.astype(np.float32).view(np.int32)).max(initial=0)


def run(t, chip, m, n):
    what = f"gated_lse on {chip}, M {m}, N {n}"
    rng = np.random.default_rng(m * 1000 + n)
    x, g = ((rng.standard_normal((m, n)) * 2).astype(ml_dtypes.bfloat16) for _ in range(2))
    if m > 2:
        g[1] = 0                                             # a row whose outputs are all zero: scale 1
    safetensors.write(OUT / "in.safetensors", {"x": x, "g": g})
    tdslc("run", OUT / "new.tpack", "gated_lse", "--device", f"sim:{chip}", "--in", OUT / "in.safetensors", "--out", OUT / "out.safetensors")
    out = safetensors.read(OUT / "out.safetensors")
    u = x.astype(np.float64)
    top = u.max(axis=1, keepdims=True)
    lse = (top + np.log(np.exp(u - top).sum(axis=1, keepdims=True)))[:, 0]
    v = np.tanh(g.astype(np.float64)) * u
    amax = np.abs(v).max(axis=1, keepdims=True)
    scale = np.where(amax > 0, np.maximum(amax / 127, 2.0**-126), 1)
    y = np.clip(np.rint(v / scale), -127, 127)
    t.check({k: (a.dtype, a.shape) for k, a in out.items()}
            == {"y": (np.dtype(np.int8), (m, n)), "scale": (np.dtype(np.float32), (m,)), "lse": (np.dtype(np.float32), (m,))},
            f"{what}: outputs {[(k, a.dtype, a.shape) for k, a in out.items()]}")
    t.check(ulp(out["scale"], scale[:, 0]) <= 4, f"{what}: scales {ulp(out['scale'], scale[:, 0])} ulp away")
    error = np.abs(out["lse"] - lse).max()
    t.check(error <= 4e-6, f"{what}: lse {error} away")
    distance = np.abs(out["y"] - y)
    t.check(distance.max() <= 1 and (distance > 0).sum() <= max(1, 1e-4 * y.size), f"{what}: codes {distance.max()} steps away, {(distance > 0).sum()} of {y.size}")


totals = Totals()
OUT.mkdir(parents=True, exist_ok=True)
totals.run(build)
for chip in ("gfx942", "gfx950"):
    for m, n in ((1, 1), (3, 8), (5, 100), (4, 769), (3, 4096), (2, 20000)):
        totals.run(run, chip, m, n)
totals.finish()
