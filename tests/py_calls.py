"""py_calls.py -- how kernels are called from Python: capsules of every kind, outputs given, errors, threads; run by wheel_test.py.

The producers of capsules are small classes here, so that each form (versioned or not, read-only, of a later version, on a GPU)
is seen without the libraries that have it.
"""
import ast
import copy
import ctypes
import gc
import inspect
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import ml_dtypes
import numpy as np
import tdsl
from tdsl import _list
from tdsl._abi import DLTensor, lib
from tdsl._device import device_at, device_of
from tdsl._tensor import DTYPES

bf16 = ml_dtypes.bfloat16
rng = np.random.default_rng(11)


class Managed(ctypes.Structure):
    """DLManagedTensorVersioned, and DLManagedTensor from `t` on."""
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
                ("flags", ctypes.c_uint64), ("t", DLTensor), ("context0", ctypes.c_void_p), ("deleter0", ctypes.c_void_p)]


capsule_new = ctypes.pythonapi.PyCapsule_New
capsule_new.restype, capsule_new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Producer:
    """An array that offers nothing but DLPack."""

    def __init__(self, array, versioned, major=1, flags=0, device=(1, 0)):
        self.array, self.versioned, self.device, self.asked = array, versioned, device, []
        n = array.ndim
        self.shape, self.strides = (ctypes.c_int64 * n)(*array.shape), (ctypes.c_int64 * n)(*(s // array.itemsize for s in array.strides))
        self.managed = Managed(major=major, minor=0, flags=flags)
        t = self.managed.t
        t.data, t.ndim, t.shape, t.strides = array.ctypes.data, n, self.shape, self.strides
        t.device.device_type, t.device.device_id = device
        t.dtype.code, t.dtype.bits, t.dtype.lanes = (*DTYPES[array.dtype], 1)

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **named):
        self.asked.append(named)
        if not self.versioned and "max_version" in named:
            raise TypeError("max_version is not known here")
        at = ctypes.addressof(self.managed) if self.versioned else ctypes.addressof(self.managed.t)
        self.name = b"dltensor_versioned" if self.versioned else b"dltensor"
        return capsule_new(at, self.name, None)


def rows(m=5, n=256):
    return rng.standard_normal((m, n)).astype(bf16), rng.standard_normal(n).astype(bf16)


def same(a, b):
    return all(x.dtype == y.dtype and x.shape == y.shape and (x.view(np.uint8) == y.view(np.uint8)).all() for x, y in zip(a, b))


def raises(t, kind, text, call):
    try:
        call()
        t.check(False, f"{kind.__name__} with {text!r} expected")
    except kind as e:
        t.check(text in str(e), f"{kind.__name__}: {text!r} expected, found {e}")


def torch_places(t, kind, hip):
    """Whom a torch.device means to torch of that version of HIP (None: CUDA's), which calls either's GPUs cuda; what is no GPU the default device."""
    with patch.dict(sys.modules, torch=SimpleNamespace(version=SimpleNamespace(hip=hip))):
        for number in (0, 1):
            found = device_at(SimpleNamespace(type="cuda", index=number)).name
            t.check(found == f"{kind}:{number}", f"cuda:{number} of torch is {found}")
        for place in (None, SimpleNamespace(type="cpu", index=None), SimpleNamespace(type="meta", index=None)):
            t.check(device_at(place) is device_of(None), f"{place} is {device_at(place)}")


def capsules(t):
    x, w = rows()
    wanted = tdsl.rmsnorm_quant(x, w)
    for versioned in (False, True):
        px, pw = Producer(x, versioned), Producer(w, versioned)
        t.check(same(tdsl.rmsnorm_quant(px, pw), wanted), f"capsules, versioned {versioned}: another result")
        t.check(px.asked[0].get("max_version") == (1, 1), f"asked for {px.asked}")
        out = np.empty_like(wanted[0]), np.empty_like(wanted[1])
        tdsl.rmsnorm_quant(px, pw, y=Producer(out[0], versioned), scale=out[1])
        t.check(same(out, wanted), f"capsules as outputs, versioned {versioned}: another result")
    t.check(same(tdsl.rmsnorm_quant(Producer(np.repeat(x, 2, axis=0)[::2], True), w), wanted), "a strided capsule: another result")
    raises(t, TypeError, "read-only", lambda: tdsl.rmsnorm_quant(x, w, y=Producer(np.empty_like(wanted[0]), True, flags=1)))
    raises(t, TypeError, "DLPack 2", lambda: tdsl.rmsnorm_quant(Producer(x, True, major=2), w))
    raises(t, TypeError, "__dlpack__", lambda: tdsl.rmsnorm_quant([1.0], w))
    # on a GPU: the stream is handed over, and the null: device takes tensors of any place
    gpu = Producer(x, True, device=(10, 0))
    y, scale = np.empty_like(wanted[0]), np.empty_like(wanted[1])
    tdsl.rmsnorm_quant(gpu, w, device="null:gfx942", stream=0x1234, y=y, scale=scale)
    t.check(gpu.asked[0].get("stream") == 0x1234, f"the stream handed to the producer: {gpu.asked}")
    raises(t, TypeError, "give them by name", lambda: tdsl.rmsnorm_quant(Producer(x, True, device=(10, 0)), w, device="null:gfx942"))
    raises(t, tdsl.Error, "hip", lambda: tdsl.rmsnorm_quant(Producer(x, True, device=(10, 77)), w))


def outputs(t):
    x, w = rows()
    wanted = tdsl.rmsnorm_quant(x, w)
    out = np.empty_like(wanted[0]), np.empty_like(wanted[1])
    back = tdsl.rmsnorm_quant(x, w, out=out)
    t.check(back[0] is out[0] and back[1] is out[1] and same(out, wanted), "out=: another result, or other arrays")
    back = tdsl.rmsnorm_quant(x, w, out=(None, out[1]))
    t.check(back[1] is out[1] and same(back, wanted), "out= with one array: another result")
    y = np.empty_like(wanted[0])
    t.check(tdsl.rmsnorm_quant(x, w, y=y)[0] is y and same((y,), wanted), "y=array: another result")
    for kind in (np.int8, "int8", np.dtype(np.int8)):
        t.check(tdsl.rmsnorm_quant(x, w, y=kind)[0].dtype == np.int8, f"y={kind!r}: another type")
    raises(t, TypeError, "3 arrays", lambda: tdsl.rmsnorm_quant(x, w, out=(*out, out[0])))
    raises(t, TypeError, "by name and in out", lambda: tdsl.rmsnorm_quant(x, w, y=y, out=out))
    y.flags.writeable = False
    raises(t, TypeError, "read-only", lambda: tdsl.rmsnorm_quant(x, w, y=y))
    t.check(same(tdsl.rmsnorm_quant(x, w, eps=1e-6), wanted) and same(tdsl.rmsnorm_quant(w=w, x=x), wanted), "arguments by name: another result")
    t.check(not same(tdsl.rmsnorm_quant(x, w, 10.0), wanted), "eps by position has no effect")
    three = tdsl.rmsnorm_quant(np.stack([x, x]), w)
    t.check(three[1].size == 10 and same((three[0].reshape(10, -1)[:5], three[1].reshape(-1)[:5]), wanted), "a 3-D input: another result")
    empty = tdsl.rmsnorm_quant(x[:0], w)
    t.check(empty[0].shape[0] == 0 and empty[1].shape == (0,), f"no rows: {[a.shape for a in empty]}")


def warm_is_slow(t):
    """Both ways of a call agree, over element types, strides and shapes; the second warm call too."""
    for i in range(12):
        x, w = rows(1 + i, 64 + 33 * i)
        x, w = (x.astype(np.float16), w.astype(np.float16)) if i % 3 == 1 else (x, w)
        x = np.concatenate([x, x], axis=1)[:, :x.shape[1]] if i % 4 == 2 else np.repeat(x, 2, axis=0)[::2] if i % 4 == 3 else x
        for device in ("sim:gfx942", "sim:gfx950"):
            tdsl.set_default(device)
            wanted = tdsl.rmsnorm_quant._slow(x, w, 1e-5)
            t.check(same(tdsl.rmsnorm_quant(x, w, 1e-5), wanted) and same(tdsl.rmsnorm_quant(x, w, eps=1e-5), wanted), f"case {i} on {device} differs")
    tdsl.set_default("sim:gfx942")


def heads(t):
    """Heads of a slice, [tokens, heads, D] of longer tokens: two strides, by the variants for aligned short rows; as a dense copy, and as f64 has it."""
    for device in ("sim:gfx942", "sim:gfx950"):
        for tokens, many, d in ((5, 4, 128), (3, 7, 64), (9, 2, 256), (2, 3, 96)):
            x = rng.standard_normal((tokens, many + 3, d)).astype(bf16)[:, 1:many + 1]
            w = rng.standard_normal(d).astype(bf16)
            what = f"{tokens} x {many} x {d} on {device}"
            for kernel, given in ((tdsl.rmsnorm, {"w": w}), (tdsl.layernorm, {"w": w, "b": w}), (tdsl.quantize_rows, {}), (tdsl.rmsnorm_quant, {"w": w})):
                got = kernel(x, **given, device=device)
                text = tdsl.last_call()["predicate"]
                dense = kernel(np.ascontiguousarray(x), **given, device=device)
                t.check("aligned" in text and "N<=256" in text or f"N={d} " in text, f"{kernel.__name__} {what}: variant {text}")
                t.check(same(got if isinstance(got, tuple) else (got,), dense if isinstance(dense, tuple) else (dense,)), f"{kernel.__name__} {what}: not as dense rows")
            f = x.astype(np.float64)
            want = f / np.sqrt((f * f).mean(-1, keepdims=True) + 1e-6) * w.astype(np.float64)
            out = np.zeros((tokens, many + 2, d), bf16)
            tdsl.rmsnorm(x, w=w, y=out[:, :many], device=device)
            t.check(np.abs(out[:, :many].astype(np.float64) - want).max() <= 2.0 ** -8 * np.abs(want).max() and not out[:, many:].any(), f"rmsnorm {what}: written into a slice")


def workspace(t):
    """A kernel of which some variants need a workspace: the longer way is taken for those alone."""
    x, w = rows(64, 256)
    rstd, kernel, longer = np.ones(64, np.float32), tdsl.rmsnorm_bwd, []
    slow, given = type(kernel)._slow, dict(dx=np.empty_like(x))

    def counted(self, *args, **named):
        longer.append(sorted(named))
        return slow(self, *args, **named)
    wanted = slow(kernel, x, x, w, rstd, dx=np.empty_like(x), dw=np.empty(256, np.float32))
    type(kernel)._slow = counted
    try:
        for _ in range(2):
            t.check(same((kernel(x, x, w, rstd, **given),), wanted[:1]), "without dw: another dx")
        t.check(not longer, f"without dw: {len(longer)} of 2 calls took the longer way")
        t.check(same(kernel(x, x, w, rstd, **given, dw=np.empty(256, np.float32)), wanted) and longer == [["dw", "dx"]], f"with dw: {longer}")
    finally:
        type(kernel)._slow = slow


def errors(t):
    x, w = rows()
    code = error = None
    try:
        tdsl.rmsnorm_quant(x, w[:-1])
    except tdsl.Error as e:
        code, error = e.code, e
        t.check(e.name == "TDSL_ESHAPE" and "rmsnorm_quant" in str(e) and "'w'" in str(e), f"{e.name}: {e}")
    t.check(code == -3, f"the code of a wrong shape: {code}")
    for again in (copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))):
        back = again(error)
        t.check(type(back) is tdsl.Error and (back.code, back.name, str(back)) == (error.code, error.name, str(error)), f"a copy of an error: {back!r}")
    y = np.empty((4, 256), ml_dtypes.float8_e4m3fnuz)
    raises(t, tdsl.Error, "y", lambda: tdsl.rmsnorm_quant(x, w, y=y))
    buffer = np.zeros(5 * 256 * 2, np.uint8)
    raises(t, tdsl.Error, "overlaps", lambda: tdsl.rmsnorm_quant(buffer.view(bf16).reshape(5, 256), w, y=buffer[:1280].view(ml_dtypes.float8_e4m3fnuz).reshape(5, 256)))
    raises(t, TypeError, "no kernel takes elements of type", lambda: tdsl.rmsnorm_quant(x.astype(np.complex64), w))
    raises(t, TypeError, "is missing", lambda: tdsl.attention(x, x, x))
    raises(t, TypeError, "given twice", lambda: tdsl.rmsnorm_quant(x, w, x=x))
    raises(t, tdsl.Error, "negative strides", lambda: tdsl.rmsnorm_quant(x[::-1], w))
    raises(t, TypeError, "no parameter 'nothing'", lambda: tdsl.rmsnorm_quant(x, w, nothing=1))
    raises(t, tdsl.Error, "null:gfx1", lambda: tdsl.open("null:gfx1"))
    for call, words in ((lambda: tdsl.open(3), "tdsl.open: a device's name is expected"), (lambda: tdsl.open([]), "tdsl.open: "),
                        (lambda: tdsl.rmsnorm_quant(x, w, device=3), "rmsnorm_quant: device is 3"), (lambda: tdsl.set_default(3), "device is 3"),
                        (lambda: tdsl.rmsnorm_quant(x, w, stream="a"), "rmsnorm_quant: stream is 'a'"),
                        (lambda: tdsl.rmsnorm_quant(x, w, stream=2**70), "rmsnorm_quant: stream is 118"), (lambda: tdsl.open("null:gfx942").on(-1), "stream is -1"),
                        (lambda: tdsl.compile(3), "tdsl.compile: text is a str, not int"),
                        (lambda: tdsl.compile("", targets="gfx950"), "targets is a list of names, found 'gfx950'"),
                        (lambda: tdsl.compile("", kernels=[3]), "tdsl.compile: kernels is a list of names, found 3 in it"),
                        (lambda: tdsl.warm_up([tdsl.rmsnorm], targets="gfx950"), "tdsl.warm_up: targets is a list of names"),
                        (lambda: tdsl.warm_up([(tdsl.rmsnorm, 3)]), "rmsnorm: instance is a text"),
                        (lambda: tdsl.warm_up([(tdsl.rmsnorm, None, [3])]), "rmsnorm: given is a list of names, found 3 in it"),
                        (lambda: tdsl.e2m1(3), "e2m1: an array of uint8 is expected, not int"),
                        (lambda: tdsl.rmsnorm_quant(x, w, y=np.int16), "rmsnorm_quant: y: no kernel takes elements of type int16"),
                        (lambda: tdsl.rmsnorm_quant(x, w, y="integer"), "rmsnorm_quant: y is 'integer'; a type of numpy is expected")):
        raises(t, TypeError, words, call)
    raises(t, tdsl.Error, "nowhere", lambda: tdsl.open_pack("/nowhere.tpack"))


def halves(t):
    """Elements of half a byte, of which there are none: numpy gives such arrays strides of 0."""
    y, scale = tdsl.quantize_mxfp4(np.zeros((0, 32), bf16))
    t.check(y.shape == (0, 16) and scale.shape == (0, 1) and tdsl.dequantize_mxfp4(tdsl.e2m1(y), scale).shape == (0, 32), "no rows of e2m1")


def scalars(t):
    """Which values a scalar takes: an i32 and an f32 of one kernel."""
    x = rng.standard_normal((1, 4, 64)).astype(bf16)
    plain, causal = tdsl.softmax_rows(x), tdsl.softmax_rows(x, causal=1)
    t.check(not same((plain,), (causal,)), "causal has no effect")
    f = tdsl.softmax_rows                                    # with a tuple and a dictionary, and with names and without
    t.check(all(same((y,), (causal,)) for y in (type(f).__call__(f, x, causal=1), f(*(x,), **{"causal": 1}), f(x=x, causal=1))), "ways to call")
    t.check(sys.version_info < (3, 12) or type(f).__flags__ >> 11 & 1, "calls come with a tuple and a dictionary")   # Py_TPFLAGS_HAVE_VECTORCALL
    raises(t, TypeError, "no parameter 'n0'", lambda: f(x, **{f"n{i}": i for i in range(40)}))
    raises(t, TypeError, "no parameter 'n0'", lambda: type(f).__call__(f, x, **{f"n{i}": i for i in range(40)}))
    raises(t, TypeError, "40 were given", lambda: f(*[x] * 40))
    raises(t, TypeError, "40 were given", lambda: type(f).__call__(f, *[x] * 40))
    for value in (True, np.True_, np.int8(1), np.int64(1), np.uint8(1), np.array(1)):
        t.check(same((tdsl.softmax_rows(x, causal=value),), (causal,)), f"causal={value!r}")
    for value in (1, True, np.float32(1), np.int32(1), np.array(1.0)):
        t.check(same((tdsl.softmax_rows(x, scale=value),), (plain,)), f"scale={value!r}")
    for value in (1.0, np.float32(1), np.float64(1), np.float16(1), "1", [1], 1j):
        raises(t, TypeError, "softmax_rows: causal is", lambda: tdsl.softmax_rows(x, causal=value))
    for value in ("1", b"1", [1], 1j, np.ones(2), 10**400):
        raises(t, TypeError, "softmax_rows: scale is", lambda: tdsl.softmax_rows(x, scale=value))
    raises(t, tdsl.Error, "causal' is 2147483648; expected an i32", lambda: tdsl.softmax_rows(x, causal=2**31))
    raises(t, TypeError, "64 bits", lambda: tdsl.softmax_rows(x, causal=-2**63 - 1))


def items(t):
    """A pack's kernels by name."""
    pack = tdsl.bundled()
    t.check(pack["rmsnorm_quant"] is pack.rmsnorm_quant and list(pack) == pack.kernels and "rmsnorm" in pack and "rmsnrm" not in pack, "items of a pack")
    raises(t, KeyError, "rmsnorm_quant", lambda: pack["rmsnrm_quant"])
    raises(t, KeyError, "it has rmsnorm_quant, rmsnorm", lambda: pack["zzzzz"])
    raises(t, KeyError, "no kernel 0", lambda: pack[0])


def paths(t):
    """Names of files as text, bytes and path objects, of bytes that are no UTF-8 too."""
    with tempfile.TemporaryDirectory() as folder:
        name = os.fsencode(folder) + b"/k\xff\xe9.tpack"
        shutil.copy(os.fsencode(Path(os.environ["B"]) / "wheel/ship/mykernels/kernels.tpack"), name)
        for path in (name, os.fsdecode(name), Path(os.fsdecode(name))):
            t.check(tdsl.open_pack(path).kernels == ["scaled"], f"open_pack({path!r})")
            t.check(tdsl.add_pack(path).kernels == ["scaled"], f"add_pack({path!r})")
        del tdsl.scaled
        os.environ["TDSL_PACK_PATH"] = os.fsdecode(name)
        t.check(tdsl.scaled.__name__ == "scaled", "TDSL_PACK_PATH")
        del tdsl.scaled, os.environ["TDSL_PACK_PATH"]


def described(t):
    """Signatures, docstrings and stubs say what the pack says."""
    tree = ast.parse((Path(tdsl.__file__).parent / "__init__.pyi").read_text())
    stubs = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
    for name in tdsl.bundled().kernels:
        kernel = getattr(tdsl, name)
        found = stubs[name].args
        t.check([a.arg for a in found.args + found.kwonlyargs] == list(inspect.signature(kernel).parameters), f"the stub of {name}")
        t.check(ast.get_docstring(stubs[name]) == inspect.cleandoc(kernel.__doc__) and len(kernel.about) > 10, f"the docstring of {name}")
        t.check(all(p.name in kernel.__doc__ and (not p.extents or p.extents in kernel.__doc__) for p in kernel.params), f"{name}: {kernel.__doc__}")
    t.check(all(n in stubs or n[0].isupper() or n == "e2m1" for n in tdsl.__all__), "a function has no stub")
    t.check("rmsnorm_quant" in dir(tdsl), "dir(tdsl) lacks a kernel")


def other_packs(t):
    """TDSL_PACK_PATH and add_pack, with the pack that docs/shipping.md builds."""
    folder = Path(os.environ["B"]) / "wheel/ship/mykernels"
    x, w = np.ones((3, 40), np.float32), np.arange(40, dtype=np.float32)
    raises(t, AttributeError, "rmsnorm_quant", lambda: tdsl.scaled)
    os.environ["TDSL_PACK_PATH"] = "/nowhere"
    raises(t, AttributeError, "no 'scaled': neither the bundled pack nor TDSL_PACK_PATH, where an entry cannot be opened: /nowhere", lambda: tdsl.scaled)
    t.check(not hasattr(tdsl, "scaled"), "hasattr with an entry that is not there")
    os.environ["TDSL_PACK_PATH"] = f"/nowhere:{folder}"
    t.check((tdsl.scaled(x, w) == w).all(), "a kernel of TDSL_PACK_PATH, beside an entry that is not there")
    del os.environ["TDSL_PACK_PATH"]
    pack = tdsl.add_pack(folder / "kernels.tpack")
    t.check(tdsl.scaled is pack.scaled and pack.kernels == ["scaled"] and "gfx950" in pack.targets, f"add_pack: {pack.kernels}")
    kernel = pack.scaled
    del pack, tdsl.scaled
    gc.collect()
    t.check((kernel(x, w) == w).all(), "a kernel whose pack is gone")
    raises(t, AttributeError, "import tdsl.torch", lambda: getattr(tdsl, "torch"))


def library(t):
    """TDSL_LIBRARY naming what is no library, or another one: an ImportError that says so."""
    for path, words in ((__file__, "invalid ELF header"), (Path(os.environ["B"]) / "libtdsl_sim.so", "undefined symbol: tdsl_error")):
        r = subprocess.run([sys.executable, "-c", "import tdsl"], env={**os.environ, "TDSL_LIBRARY": str(path)}, capture_output=True, text=True)
        last = (r.stderr.splitlines() or [""])[-1]
        t.check(last.startswith(f"ImportError: TDSL_LIBRARY names {path}, which is no libtdsl_rt.so") and words in last, f"TDSL_LIBRARY={path}: {last}")


def kept(t):
    """Nothing leaks and nothing is dropped: counts of references before and after many calls, good and bad."""
    x, w = rows()
    y, scale = tdsl.rmsnorm_quant(x, w, device="null:gfx942")
    tdsl.set_default(tdsl.open("null:gfx942"))

    def call():
        tdsl.rmsnorm_quant(x, w)
        tdsl.rmsnorm_quant(x, w, y=y, scale=scale)
        tdsl.rmsnorm_quant(x, w, eps=1)
        try:
            tdsl.rmsnorm_quant(x, w[:7])
        except tdsl.Error:
            pass
    things = (x, w, y, scale, x.dtype, y.dtype, tdsl.rmsnorm_quant, None)
    call()
    gc.collect()
    before = [sys.getrefcount(o) for o in things]
    for _ in range(500):
        call()
    gc.collect()
    after = [sys.getrefcount(o) for o in things]
    t.check(all(abs(a - b) < 100 for a, b in zip(before, after)), f"references before {before}, after {after}")
    tdsl.set_default("sim:gfx942")


def threads(t):
    x, w = rows(4, 512)
    wanted, wrong = tdsl.rmsnorm_quant(x, w), []

    def work(i):
        for j in range(4):
            rows_ = slice(0, 1 + (i + j) % 4)
            if not same(tdsl.rmsnorm_quant(x[rows_], w), (wanted[0][rows_], wanted[1][rows_])):
                wrong.append(i)
    some = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in some:
        thread.start()
    for thread in some:
        thread.join()
    t.check(not wrong, f"threads {wrong} got other results")


def opened_once(t):
    """What two threads ask for at once for the first time is opened once: a device, a stream, the bundled pack."""
    def both(function, what):
        """The results of two threads, where opening takes long."""
        real, found, opened = getattr(lib, what), [], []

        def long(*args):
            opened.append(1)
            time.sleep(0.05)
            return real(*args)
        setattr(lib, what, long)
        some = [threading.Thread(target=lambda: found.append(function())) for _ in range(2)]
        for thread in some:
            thread.start()
        for thread in some:
            thread.join()
        setattr(lib, what, real)
        t.check(len(found) == 2 and found[0] is found[1] and len(opened) == 1, f"{what}: opened {len(opened)} times")
    both(lambda: tdsl.open("null:sm_90a"), "tdsl_open")
    both(lambda: tdsl.open("null:sm_90a").on(0x77), "tdsl_stream_open")
    before, tdsl._bundled = tdsl._bundled, None
    both(tdsl.bundled, "tdsl_pack_open")
    tdsl._bundled = before


def lists(t):
    """Kernels over lists of tensors: results, outputs allocated like the inputs, and what is refused."""
    tdsl.set_default("sim:gfx942")
    grads = [rng.standard_normal(s).astype(bf16) for s in ((769,), (0,), (4, 32), (1,))]
    params, mean1, mean2 = ([np.full(g.shape, v, np.float32) for g in grads] for v in (1.0, 0.0, 0.0))
    decay = np.array([0.5, 0, 0, 0.25], np.float32)
    tdsl.multi_tensor_adam(grads, decay, params, mean1, mean2, rate=0.125, correct1=0.1, correct2=0.001)
    for g, d, p, m, v in zip(grads, decay, params, mean1, mean2):
        g = g.astype(np.float64)
        a, b = (1 - np.float64(np.float32(0.9))) * g, (1 - np.float64(np.float32(0.999))) * g * g
        t.check(np.allclose(m, a, rtol=1e-5) and np.allclose(v, b, rtol=1e-5), f"means of {g.shape}")
        t.check(np.allclose(p, 1 - 0.125 * (a / 0.1 / (np.sqrt(b / 0.001) + 1e-8) + d), rtol=1e-4), f"parameters of {g.shape}")
    scaled = tdsl.multi_tensor_scale(grads, np.full(4, 2, np.float32), y=bf16)
    t.check([s.shape for s in scaled] == [g.shape for g in grads] and all((s == 2 * g).all() for s, g in zip(scaled, grads)), "scaled")
    largest = np.zeros(4, np.float32)
    tdsl.multi_tensor_amax(tuple(grads), largest)
    t.check(largest.tolist() == [float(abs(g.astype(np.float32)).max(initial=0)) for g in grads], f"largest {largest}")
    grads[2] *= 2                                            # the same addresses, other numbers
    tdsl.multi_tensor_amax(grads, largest)
    t.check(largest[2] == float(abs(grads[2].astype(np.float32)).max()), "again")
    t.check(tdsl.multi_tensor_scale([], np.zeros(0, np.float32)) == [], "no tensors")
    tdsl.multi_tensor_amax([], np.zeros(0, np.float32))
    x = rng.standard_normal((4, 6)).astype(bf16)
    for wrong, kind, words in ((x, TypeError, "a list of arrays is expected"), ([x, x[:, ::2], x, x], tdsl.Error, "x: tdsl_list_open: tensor 1 is not contiguous"),
                               ([x, x.astype(np.float32), x, x], tdsl.Error, "tensor 1: DLPack type"), ([x], tdsl.Error, "'amax', dimension 0: extent 4"),
                               ([None, x, x, x], TypeError, "x[0]")):
        try:
            tdsl.multi_tensor_amax(wrong, largest)
            t.check(False, f"{words}: nothing was refused")
        except kind as error:
            t.check(words in str(error), f"{words}: {error}")
    # while a call runs, other threads' lists do not close its table
    grads, largest, closed, wrong = [x, x + bf16(1)], np.zeros(2, np.float32), [], []
    call, close, kept = lib.tdsl_call, lib.tdsl_list_close, _list.TABLES

    def others(*args):
        """The call, after as many calls by another thread as push out every table that may be."""
        if threading.current_thread() is threading.main_thread():
            at, before = args[2][0].t.contents.data, len(closed)
            thread = threading.Thread(target=lambda: [tdsl.multi_tensor_amax([x.reshape(-1)[i:]], np.zeros(1, np.float32)) for i in range(24)])
            thread.start()
            thread.join()
            wrong.extend([at] * (at in closed[before:]))
            t.check(len(closed) > before, "no table was closed")
        return call(*args)

    def counted(handle):
        closed.append(lib.tdsl_list_tensor(handle).contents.data)
        close(handle)
    lib.tdsl_call, lib.tdsl_list_close, _list.TABLES = others, counted, 1
    try:
        tdsl.multi_tensor_amax(grads, largest)
    finally:
        lib.tdsl_call, lib.tdsl_list_close, _list.TABLES = call, close, kept
    t.check(not wrong, "the table of a call was closed before the call")
    t.check("list bf16" in tdsl.multi_tensor_amax.__doc__, "the docstring says what a list is")


def checks(totals):
    for function in (capsules, lists, outputs, warm_is_slow, heads, workspace, errors, scalars, halves, items, paths, described, other_packs, library, kept, threads, opened_once):
        totals.run(function)
