"""python_cost.py -- what a warm call from Python costs on the host, up to the driver's launch, on `null:gfx942`.

In: nothing but the package on Python's path.  Out: lines that end in nanoseconds, one JSON object last: numpy arrays with outputs
allocated and given, torch tensors where torch is.  16 shapes alternate, four of them strided; each figure is the median of batches,
Python's loop included.
"""
import json
import statistics
import time

import ml_dtypes
import numpy as np
import tdsl

SHAPES, BATCHES, CALLS = 16, 41, 16 * 32


def measure(calls):
    """Median nanoseconds of one of `calls`, which take turns."""
    def batch(functions):
        start = time.perf_counter_ns()
        for _ in range(CALLS // SHAPES):
            for f, args, named in functions:
                f(*args, **named)
        return (time.perf_counter_ns() - start) / CALLS
    nothing = [(lambda *args, **named: None, a, n) for _, a, n in calls]
    batch(calls)
    return statistics.median(batch(calls) for _ in range(BATCHES)), statistics.median(batch(nothing) for _ in range(BATCHES))


def arrays(new, dtype):
    made = []
    for i in range(SHAPES):
        m, n = 16 + 7 * i, 1024 + 64 * i
        x = new((m, n + 64), dtype)[:, :n] if i % 4 == 0 else new((m, n), dtype)
        made.append((x, new((n,), dtype)))
    return made


def main():
    tdsl.open("null:gfx942")
    f, found = tdsl.rmsnorm_quant, {}
    kinds = {"numpy": arrays(np.zeros, ml_dtypes.bfloat16)}
    try:
        import torch
        kinds["torch"] = arrays(lambda shape, dtype: torch.zeros(shape, dtype=dtype), torch.bfloat16)
    except ImportError:
        pass
    for kind, inputs in kinds.items():
        outputs = [f(*a) for a in inputs]
        found[f"{kind}, outputs allocated"], empty = measure([(f, a, {}) for a in inputs])
        found[f"{kind}, outputs given"], _ = measure([(f, a, {"y": y, "scale": s}) for a, (y, s) in zip(inputs, outputs)])
        print(f"an empty function in the loop: {empty:.0f} ns, included below")
    for name, value in found.items():
        print(f"warm call, {name}: {value:.0f} ns")
    print(json.dumps(found))


main()
