"""python_cost.py -- what a warm call from Python costs on the host, up to the driver's launch, on `null:gfx942`.

In: nothing but the package on Python's path.  Out: lines that end in nanoseconds, one JSON object last: numpy arrays with outputs
allocated and given, torch tensors where torch is.  Beside torch's, as floors, what torch takes for the same outputs without any call
of ours: torch.empty twice, and an operator written in Python that does just that.  16 shapes alternate, four of them strided; each
figure is the median of batches, which take turns, in the thread's processor time, Python's loop included.
"""
import importlib.util
import json
import statistics
import time

import ml_dtypes
import numpy as np
import tdsl

SHAPES, BATCHES, CALLS = 16, 41, 16 * 32


def measure(kinds):
    """By name: the median nanoseconds of one of its calls, which take turns."""
    def batch(calls):
        start = time.thread_time_ns()
        for _ in range(CALLS // SHAPES):
            for f, args, named in calls:
                f(*args, **named)
        return (time.thread_time_ns() - start) / CALLS
    for calls in kinds.values():
        batch(calls)
    times = {name: [] for name in kinds}
    for _ in range(BATCHES):
        for name, calls in kinds.items():
            times[name].append(batch(calls))
    return {name: statistics.median(t) for name, t in times.items()}


def arrays(new, dtype):
    made = []
    for i in range(SHAPES):
        m, n = 16 + 7 * i, 1024 + 64 * i
        x = new((m, n + 64), dtype)[:, :n] if i % 4 == 0 else new((m, n), dtype)
        made.append((x, new((n,), dtype)))
    return made


def of_torch(f):
    """Calls with torch's tensors, and the floors: the same outputs made by torch alone."""
    import torch
    import tdsl.torch
    inputs = arrays(lambda shape, dtype: torch.zeros(shape, dtype=dtype), torch.bfloat16)
    outputs = [f(*a) for a in inputs]

    def make(x, w, like):
        return torch.empty(like[0].shape, dtype=like[0].dtype), torch.empty(like[1].shape, dtype=like[1].dtype)
    of_shape = {x.shape: o for (x, _), o in zip(inputs, outputs)}
    torch.library.define("floor::make", "(Tensor x, Tensor w, float eps=1e-6) -> (Tensor, Tensor)")
    torch.library.impl("floor::make", "CompositeExplicitAutograd")(lambda x, w, eps=0: make(x, w, of_shape[x.shape]))
    torch.library.register_autograd("floor::make", lambda ctx, *grads: None, setup_context=lambda ctx, inputs, output: None)
    return {
        "torch, outputs allocated": [(f, a, {}) for a in inputs],
        "torch, outputs given": [(f, a, {"y": y, "scale": s}) for a, (y, s) in zip(inputs, outputs)],
    }, {
        "torch.ops.tdsl": [(torch.ops.tdsl.rmsnorm_quant, a, {}) for a in inputs],
        "floor: torch.empty twice, in Python": [(make, (*a, o), {}) for a, o in zip(inputs, outputs)],
        "floor: an operator in Python that calls torch.empty twice": [(torch.ops.floor.make, a, {}) for a in inputs],
    }


def main():
    tdsl.open("null:gfx942")
    f = tdsl.rmsnorm_quant
    inputs = arrays(np.zeros, ml_dtypes.bfloat16)
    kinds = {"numpy, outputs allocated": [(f, a, {}) for a in inputs],
             "numpy, outputs given": [(f, a, dict(zip(("y", "scale"), f(*a)))) for a in inputs]}
    beside = {"an empty function in the loop": [(lambda *args, **named: None, a, {}) for a in inputs]}
    if importlib.util.find_spec("torch"):
        calls, floors = of_torch(f)
        kinds.update(calls)
        beside.update(floors)
    found = measure({**kinds, **beside})
    for name, value in found.items():
        print(f"{'warm call, ' * (name in kinds)}{name}: {value:.0f} ns")
    print(json.dumps({name: found[name] for name in kinds}))


main()
