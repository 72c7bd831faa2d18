"""py_cuda.py -- cuda:N from Python, with a driver of the tests' own in the place of NVIDIA's: run by wheel_test.py in a process of its own.

In: TDSL_CUDA_LIBRARY, which names libcuda_fake.so.  Out: totals in Check's form.  The driver runs no kernel of the bundled pack; seen here is
what comes before: which device a name, a tensor and a stream mean, and that nothing on the way expects another kind of GPU.
"""
import ctypes
import importlib.util
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import tdsl
from py_calls import Producer, raises, rows, torch_places
from tdsl._abi import lib
from tdsl._device import check, device_of
from totals import Totals


def devices(t):
    for number in (0, 1):
        device = tdsl.open(f"cuda:{number}")
        t.check((device.kind, device.target) == ("cuda", "sm_90a"), f"{device!r}: {device.kind}")
        t.check((device.dl.device_type, device.dl.device_id) == (2, number), f"{device!r}: DLPack's {device.dl.device_type}, {device.dl.device_id}")
        pointer, back = ctypes.c_void_p(), np.zeros(100, np.uint8)
        check(lib.tdsl_alloc(ctypes.byref(pointer), device.handle, 100))
        check(lib.tdsl_upload(device.handle, pointer, np.arange(100, dtype=np.uint8).ctypes.data, 100))
        check(lib.tdsl_download(device.handle, back.ctypes.data, pointer, 100))
        t.check((back == np.arange(100)).all(), f"{device!r}: memory")
        lib.tdsl_free(device.handle, pointer)
    t.check(device_of(None).name == "cuda:0", f"the default device: {device_of(None)}")
    raises(t, tdsl.Error, "cuda:7", lambda: tdsl.open("cuda:7"))


def placed(t):
    """Tensors of kDLCUDA choose cuda:N and get its stream; host arrays are staged there."""
    x, w = rows()
    y, scale = tdsl.rmsnorm_quant(x, w, device="null:gfx942")
    for number in (1, 0):
        gpu = Producer(x, True, device=(2, number))
        raises(t, tdsl.Error, f"cuda:{number}", lambda: tdsl.rmsnorm_quant(gpu, w, y=y, scale=scale))
        t.check(gpu.asked[0].get("stream") == 1, f"the stream handed to the producer: {gpu.asked}")
        raises(t, tdsl.Error, "sm_90a", lambda: tdsl.rmsnorm_quant(x, w, device=f"cuda:{number}"))


TEXT = """
kernel cuda_rows[T: bf16](x: T[M, N]) -> (y: fp8[M, N], scale: f32[M])
{
    each m in M { n = 0..N
        y[m, n], scale[m] = quantize(f32(x[m, n]) over n) }
}
pack {
    cuda_rows: T bf16
}
"""


def operators(t):
    """Operators of torch's tensors on a GPU, seen by fake ones: element types and shapes are asked of the GPU where they lie."""
    if not importlib.util.find_spec("torch"):
        print("operators: skipped: torch is not installed")
        return
    import torch
    import tdsl.torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    with tempfile.TemporaryDirectory() as folder:
        text, pack = Path(folder, "k.tdsl"), Path(folder, "k.tpack")
        text.write_text(TEXT)
        subprocess.run([Path(os.environ.get("B", "build"), "tdslc"), "build", text, "-o", pack, "--target", "gfx942,sm_90a"], check=True)
        tdsl.torch.register(tdsl.open_pack(pack))
    ocp, fnuz = torch.float8_e4m3fn, torch.float8_e4m3fnuz
    for default, host in (("null:gfx942", fnuz), ("cuda:0", ocp)):
        tdsl.set_default(default)
        for place, kind in (("cuda:0", ocp), ("cuda:1", ocp), ("cpu", host)):
            with FakeTensorMode():
                x = torch.empty(5, 256, dtype=torch.bfloat16, device=place)
                y, scale = torch.ops.tdsl.cuda_rows(x)
                plan = tdsl.torch._kernels["cuda_rows"].plan({"x": x}, {}, set())
            t.check((y.dtype, y.shape, scale.shape, str(y.device)) == (kind, (5, 256), (5,), place), f"{place}, by default {default}: {y.dtype}, {y.device}")
            t.check(plan[0] == [("y", [5, 256], kind), ("scale", [5], torch.float32)] and plan[3], f"{place}, by default {default}: {plan}")


totals = Totals()
totals.run(torch_places, "cuda", None)
for function in (devices, placed, operators):
    totals.run(function)
totals.finish()
