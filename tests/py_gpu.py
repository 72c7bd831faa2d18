"""py_gpu.py -- calls on hip:N, with the simulated driver in the place of ROCm's: run by wheel_test.py in a process of its own.

In: TDSL_HIP_LIBRARY, which names libtdsl_sim.so; its devices are gfx942 and gfx950.  Out: totals in Check's form.
Seen here: numpy arrays copied to the device and back; tensors that lie there, by capsules and by DLPack's exchange functions, which
torch has; the device that follows from them, and the stream that the launch gets.  The tensor type is a small class here.
"""
import ctypes
import importlib.util
import os
import sys
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import tdsl
from py_calls import Managed, Producer, capsule_new, raises, rng, rows, same, torch_places
from tdsl import _list
from tdsl._abi import DLTensor, lib
from tdsl._device import check, device_of
from tdsl._kernel import current_stream
from totals import Totals

READ = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(DLTensor))
STREAM = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
OTHER = ctypes.CFUNCTYPE(ctypes.c_int)
ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(DLTensor), ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p, ctypes.c_void_p)
DELETE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
streams = {0: 0, 1: 0}                                       # the current one of each device
asked = []


class Exchange(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("previous", ctypes.c_void_p), ("allocate", ALLOCATE),
                ("from_object", OTHER), ("to_object", OTHER), ("read", READ), ("stream", STREAM)]


class OnDevice(Producer):
    """A copy of an array in the memory of hip:N; by capsules."""

    def __init__(self, array, number, versioned=True):
        self.hip = device_of(f"hip:{number}")
        super().__init__(array, versioned, device=(10, number))
        pointer = ctypes.c_void_p()
        check(lib.tdsl_alloc(ctypes.byref(pointer), self.hip.handle, max(array.nbytes, 1)))
        check(lib.tdsl_upload(self.hip.handle, pointer, array.ctypes.data, array.nbytes))
        self.managed.t.data = pointer

    def fetch(self):
        back = np.empty_like(self.array)
        self.hip.sync()
        check(lib.tdsl_download(self.hip.handle, back.ctypes.data, self.managed.t.data, back.nbytes))
        return back


@READ
def read(tensor, out):
    ctypes.memmove(out, ctypes.byref(tensor.managed.t), ctypes.sizeof(DLTensor))
    return 0


@STREAM
def stream(kind, number, out):
    asked.append((kind, number))
    out[0] = streams[number] or None
    return 0


rooms, freed, refused = {}, [], []                           # what was asked for, by its address; what of it was given back


@DELETE
def delete(managed):
    freed.append(managed)


@ALLOCATE
def allocate(like, out, context, error):
    """Bytes on a device, four behind a multiple of 16."""
    like = like.contents
    if refused or (like.ndim, like.dtype.bits, like.device.device_type) != (1, 8, 10):
        return -1
    room, pointer = Managed(major=1), ctypes.c_void_p()
    check(lib.tdsl_alloc(ctypes.byref(pointer), device_of(f"hip:{like.device.device_id}").handle, like.shape[0] + 4))
    ctypes.memmove(ctypes.byref(room.t), ctypes.byref(like), ctypes.sizeof(DLTensor))
    room.t.data, room.deleter = pointer.value + 4, ctypes.cast(delete, ctypes.c_void_p).value
    rooms[ctypes.addressof(room)] = room
    out[0] = ctypes.addressof(room)
    return 0


other = OTHER(lambda: -1)
table = Exchange(1, 3, None, allocate, other, other, read, stream)


class Exchanged(OnDevice):
    """The same by the exchange functions, as torch's tensors."""
    __dlpack_c_exchange_api__ = capsule_new(ctypes.addressof(table), b"dlpack_exchange_api", None)


def staged(t):
    x, w = rows()
    for number, chip in enumerate(("gfx942", "gfx950")):
        t.check(same(tdsl.rmsnorm_quant(x, w, device=f"hip:{number}"), tdsl.rmsnorm_quant(x, w, device=f"sim:{chip}")), f"numpy arrays on hip:{number}")
        t.check(tdsl.last_call()["target"] == chip, f"the target: {tdsl.last_call()}")
    t.check(same(tdsl.rmsnorm_quant(x, w), tdsl.rmsnorm_quant(x, w, device="hip:0")), "numpy arrays on the default device")
    y = np.empty((5, 256), ml_dtypes.float8_e4m3fnuz)
    t.check(tdsl.rmsnorm_quant(x, w, y=y)[0] is y and same((y,), tdsl.rmsnorm_quant(x, w)), "copied back into an array given")
    # elements that a kernel leaves alone stay what they were in an array given
    h, tokens, y = rng.standard_normal((3, 7, 96)).astype(ml_dtypes.bfloat16), np.array([3, 0, 7], np.int32), np.full((3, 7, 48), 5, ml_dtypes.bfloat16)
    wanted = y.copy()
    tdsl.swiglu_masked(h, tokens, y=wanted, device="sim:gfx942")
    t.check((wanted[1] == 5).all() and same((tdsl.swiglu_masked(h, tokens, y=y),), (wanted,)), "what was not written came back as something else")


def on_device(t):
    x, w = rows()
    for kind in (OnDevice, Exchanged):
        for number, chip in ((1, "gfx950"), (0, "gfx942")):
            wanted = tdsl.rmsnorm_quant(x, w, device=f"sim:{chip}")
            dx, dw, dy, ds = (kind(a, number) for a in (x, w, np.zeros_like(wanted[0]), np.zeros_like(wanted[1])))
            for again in range(2):
                back = tdsl.rmsnorm_quant(dx, dw, y=dy, scale=ds)
                t.check(back[0] is dy and same((dy.fetch(), ds.fetch()), wanted), f"{kind.__name__} on hip:{number}: another result")
                t.check(tdsl.last_call()["target"] == chip, f"{kind.__name__}: ran on {tdsl.last_call()}")
            if kind is OnDevice:
                t.check(dx.asked[0].get("stream") == 0, f"the stream handed to the producer: {dx.asked}")
            else:
                t.check((10, number) in asked and not dx.asked, f"asked for streams of {asked}, for capsules {dx.asked}")
    tdsl.rmsnorm_quant(dx, w, eps=1.0, y=dy, scale=ds)
    t.check(same((dy.fetch(), ds.fetch()), tdsl.rmsnorm_quant(x, w, eps=1.0, device="sim:gfx942")), "a tensor on the device and a numpy array")
    mixed = OnDevice(x, 0), OnDevice(w, 1)
    raises(t, tdsl.Error, "'w'", lambda: tdsl.rmsnorm_quant(*mixed, y=dy, scale=ds))
    raises(t, TypeError, "give them by name", lambda: tdsl.rmsnorm_quant(OnDevice(x, 0), OnDevice(w, 0)))
    t.check(Managed.t.offset == 32, "DLManagedTensorVersioned")


def workspace(t):
    """Where tensors lie on a device their library gives the workspace; where it does not, the call goes the longer way."""
    x, w = rows(64, 256)
    rstd, kernel, longer = np.ones(64, np.float32), tdsl.rmsnorm_bwd, []
    outputs = np.zeros_like(x), np.zeros(256, np.float32)
    wanted = kernel(x, x, w, rstd, dx=outputs[0].copy(), dw=outputs[1].copy(), device="sim:gfx942")
    dx, dw, *given = (Exchanged(a, 0) for a in (*outputs, x, x, w, rstd))
    slow = type(kernel)._slow

    def counted(self, *args, **named):
        longer.append(1)
        return slow(self, *args, **named)
    kernel(*given, dx=dx, dw=dw)                             # opens the stream
    type(kernel)._slow = counted
    try:
        for refuses in (False, False, True):
            before = len(rooms), len(freed), len(longer)
            refused[:] = [1] * refuses
            lib.tdsl_upload(dx.hip.handle, dw.managed.t.data, outputs[1].ctypes.data, outputs[1].nbytes)
            kernel(*given, dx=dx, dw=dw)
            t.check(same((dx.fetch(), dw.fetch()), wanted), f"a workspace {'refused' if refuses else 'given'}: another result")
            t.check((len(rooms) - before[0], len(freed) - before[1], len(longer) - before[2]) == ((0, 0, 1) if refuses else (1, 1, 0)),
                    f"a workspace {'refused' if refuses else 'given'}: {before} to {len(rooms)}, {len(freed)}, {len(longer)}")
        t.check(sorted(freed) == sorted(rooms), "another room was given back than was asked for")
    finally:
        type(kernel)._slow = slow
        refused.clear()


def lists(t):
    """Lists of tensors that lie on the device; a list of torch's is asked for its first one's stream."""
    arrays = [np.arange(n, dtype=np.float32).astype(ml_dtypes.bfloat16) for n in (5, 0, 250)]
    for number in (0, 1):
        amax = OnDevice(np.zeros(3, np.float32), number)
        tdsl.multi_tensor_amax([OnDevice(a, number) for a in arrays], amax=amax)
        t.check(amax.fetch().tolist() == [4, 0, 249], f"lists on hip:{number}: {amax.fetch()}")
    # a table's streams are waited for before it is closed
    log, names, kept = [], ("tdsl_sync", "tdsl_list_close"), _list.TABLES
    real = {name: getattr(lib, name) for name in names}
    for name in names:
        setattr(lib, name, lambda handle, name=name: log.append((name, getattr(handle, "value", handle))) or real[name](handle))
    try:
        hip, _list.TABLES = device_of("hip:1"), 0
        given = [OnDevice(a, 1) for a in arrays]
        amax = OnDevice(np.zeros(3, np.float32), 1)
        tdsl.multi_tensor_amax(given, amax=amax)
        closed = [i for i, (name, _) in enumerate(log) if name == "tdsl_list_close"]
        t.check(closed and log[closed[-1] - 1] == ("tdsl_sync", hip.stream.value), f"before a table was closed: {log}")
        log.clear()                                          # a stream known by its number alone may be gone by then
        tdsl.multi_tensor_amax(given, amax=amax, stream=0)
        t.check([name for name, _ in log] == ["tdsl_list_close"], f"of a table used on a stream given as a number: {log}")
        capturing = SimpleNamespace(cuda=SimpleNamespace(is_current_stream_capturing=lambda: True))
        before, sys.modules["torch"] = sys.modules.get("torch"), capturing
        places = [SimpleNamespace(library=library, on_host=host) for library, host in (("torch", False), ("torch", True), ("numpy", True))]
        t.check([_list._is_captured([p]) for p in places] == [True, False, False] and not _list._is_captured([]), "what is captured")
        sys.modules["torch"] = before
        if before is None:
            del sys.modules["torch"]
        real["captured"], _list._is_captured = _list._is_captured, lambda tensors: True
        log.clear()
        tdsl.multi_tensor_amax(given, amax=amax)
        _list._is_captured = real.pop("captured")
        tdsl.multi_tensor_amax(given[:1], amax=OnDevice(np.zeros(1, np.float32), 1))
        t.check([name for name, _ in log].count("tdsl_list_close") == 1, f"of a table that a graph has and another one: {log}")
    finally:
        _list.TABLES = kept
        for name in names:
            setattr(lib, name, real[name])
    cuda = SimpleNamespace(current_stream=lambda device: SimpleNamespace(cuda_stream={"cuda:1": 11}[device]))
    before, sys.modules["torch"] = sys.modules.get("torch"), SimpleNamespace(cuda=cuda)
    for value in (SimpleNamespace(device="cuda:1"), [SimpleNamespace(device="cuda:1"), None]):
        t.check(current_stream(SimpleNamespace(library="torch", value=value)) == 11, f"the stream of {value}")
    del sys.modules["torch"]
    if before:
        sys.modules["torch"] = before


def operators(t):
    """Operators of torch's tensors on ROCm's GPUs, which torch calls cuda:N, seen by fake ones: each chip's own fp8."""
    if not importlib.util.find_spec("torch"):
        print("operators: skipped: torch is not installed")
        return
    import torch
    import tdsl.torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    before, torch.version.hip = torch.version.hip, "6.4"
    for number, kind in enumerate((torch.float8_e4m3fnuz, torch.float8_e4m3fn)):
        with FakeTensorMode():
            x, w = (torch.empty(*shape, dtype=torch.bfloat16, device=f"cuda:{number}") for shape in ((5, 256), (256,)))
            y, scale = torch.ops.tdsl.rmsnorm_quant(x, w)
            plan = tdsl.torch._kernels["rmsnorm_quant"].plan({"x": x, "w": w}, {}, set())
        t.check((y.dtype, y.shape, scale.shape, y.device.index) == (kind, (5, 256), (5,), number), f"hip:{number}: {y.dtype}, {y.device}")
        t.check(plan[0] == [("y", [5, 256], kind), ("scale", [5], torch.float32)] and plan[3], f"hip:{number}: {plan}")
    torch.version.hip = before


def forked(t):
    """A child does not get the devices that were open before: opening one is refused as in C, the simulated ones work."""
    x, w = rows()
    wanted = tdsl.rmsnorm_quant(x, w, device="sim:gfx942")
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            for name in ("hip:0", "hip:1"):
                try:
                    tdsl.open(name)
                    os.write(write, b"opened\n")
                except tdsl.Error as error:
                    os.write(write, f"{error.name} {error}\n".encode())
            os.write(write, b"same\n" if same(tdsl.rmsnorm_quant(x, w, device="sim:gfx942"), wanted) else b"another\n")
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        lines = pipe.read().splitlines()
    os.waitpid(child, 0)
    t.check(len(lines) == 3 and all(s.startswith("TDSL_EDEVICE") and "before this process was forked" in s for s in lines[:2]) and lines[2] == "same", f"a forked child: {lines}")
    t.check(tdsl.open("hip:0") is tdsl.open("hip:0"), "the parent's device")


totals = Totals()
tdsl.open("hip:0")
totals.run(torch_places, "hip", "6.4")
for function in (staged, on_device, workspace, lists, operators, forked):
    totals.run(function)
totals.finish()
