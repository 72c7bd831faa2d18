"""py_cuda.py -- cuda:N from Python, with a driver of the tests' own in the place of NVIDIA's: run by wheel_test.py in a process of its own.

In: TDSL_CUDA_LIBRARY, which names libcuda_fake.so.  Out: totals in Check's form.  The driver runs no kernel of the bundled pack; seen here is
what comes before: which device a name, a tensor and a stream mean, and that nothing on the way expects another kind of GPU.
"""
import ctypes

import numpy as np
import tdsl
from py_calls import Producer, raises, rows
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


totals = Totals()
for function in (devices, placed):
    totals.run(function)
totals.finish()
