"""tdsl -- kernels from a pack as Python functions, on numpy arrays or anything that offers DLPack.

    import numpy as np, ml_dtypes, tdsl
    tdsl.open("sim:gfx942")                                  # or "hip:0"; the first device opened is the default
    y, scale = tdsl.rmsnorm_quant(x, w, eps=1e-6)            # functions of the bundled pack
    y, scale = tdsl.rmsnorm_quant(x, w, y=np.int8)           # another output type; or y=array to write into
    pack = tdsl.open_pack("kernels.tpack")                   # any other pack: pack.rmsnorm_quant(...)
    pack = tdsl.compile(text, targets=["gfx950"])            # text to functions, where libtdslc.so is at hand

Arguments are the kernel's inputs, then its scalars, by position or by name; outputs are allocated unless they are given by
name.  Strides are followed and nothing is copied on a simulated device or where a tensor already lies on the device; numpy
arrays on a real GPU are copied there and the outputs back.  Errors are tdsl.Error with the library's text and its code.
"""
import ctypes
from ctypes import POINTER, byref, c_char_p, c_int64, c_void_p

import ml_dtypes
import numpy as np

from ._abi import (HERE, Arg, CompileOptions, DeviceInfo, DLDataType, DLTensor, InstanceInfo, KernelInfo, LastCall, PackInfo,
                   ParamInfo, capsule_pointer, capsule_valid, lib)

__all__ = ["Error", "Device", "Kernel", "Pack", "compile", "last_call", "open", "open_pack"]

CPU, GPU_KINDS = 1, ("hip", "cuda")
DTYPES = {
    np.dtype(np.int8): (0, 8), np.dtype(np.int32): (0, 32), np.dtype(np.int64): (0, 64), np.dtype(np.uint8): (1, 8),
    np.dtype(np.float16): (2, 16), np.dtype(np.float32): (2, 32), np.dtype(ml_dtypes.bfloat16): (4, 16),
    np.dtype(ml_dtypes.float8_e4m3fn): (10, 8), np.dtype(ml_dtypes.float8_e4m3fnuz): (11, 8),
    np.dtype(ml_dtypes.float8_e5m2): (12, 8), np.dtype(ml_dtypes.float8_e5m2fnuz): (13, 8),
    np.dtype(ml_dtypes.float8_e8m0fnu): (14, 8),
}
NUMPY = {code: dtype for dtype, code in DTYPES.items()}


class Error(RuntimeError):
    """What the library refused, in its words; `code` is its number and `name` its name, e.g. "TDSL_ESHAPE"."""

    def __init__(self, code):
        super().__init__(lib.tdsl_error().decode(errors="replace"))
        self.code, self.name = code, lib.tdsl_error_name(code).decode()


def _check(code):
    if code < 0:
        raise Error(code)
    return code


class Device:
    """An open device with one stream (its default one, or `native`)."""

    def __init__(self, name, native=None):
        self.handle, self.stream, info = c_void_p(), c_void_p(), DeviceInfo()
        _check(lib.tdsl_open(byref(self.handle), name.encode()))
        _check(lib.tdsl_stream_open(byref(self.stream), self.handle, native))
        _check(lib.tdsl_device_query(byref(info), self.handle))
        self.name, self.kind, self.target = name, info.kind.decode(), info.target.decode()

    def __repr__(self):
        return f"tdsl.Device({self.name!r}, target={self.target!r})"

    def sync(self):
        _check(lib.tdsl_sync(self.stream))


_devices = {}


def open(name):
    """The device of this name, opened once.  The first one opened is the default of every call."""
    if name not in _devices:
        _devices[name] = Device(name)
    return _devices[name]


def _device(device):
    if isinstance(device, Device):
        return device
    if device is not None:
        return open(device)
    handle, info = c_void_p(), DeviceInfo()
    _check(lib.tdsl_default(byref(handle)))
    _check(lib.tdsl_device_query(byref(info), handle))
    return open(info.name.decode())


class _Tensor:
    """A DLTensor and everything that must live as long as it: shape, strides, array or capsule, device memory."""

    def __init__(self, value, what):
        self.value, self.device, self.pointer = value, None, None
        if isinstance(value, np.ndarray):
            self.from_numpy(value, what)
        elif hasattr(value, "__dlpack__"):
            self.capsule = value.__dlpack__()
            kind = next((k for k in (b"dltensor", b"dltensor_versioned") if capsule_valid(self.capsule, k)), None)
            if kind is None:
                raise TypeError(f"{what}: __dlpack__ gave a capsule of an unknown kind")
            # DLManagedTensor starts with its tensor; the versioned one with version, context, deleter and flags
            offset = 0 if kind == b"dltensor" else 32
            self.t = DLTensor.from_address(capsule_pointer(self.capsule, kind) + offset)
        else:
            raise TypeError(f"{what}: a numpy array or an object with __dlpack__ is expected, not {type(value).__name__}")

    def from_numpy(self, array, what):
        if array.dtype not in DTYPES:
            raise TypeError(f"{what}: no kernel takes elements of type {array.dtype}")
        if any(s % array.itemsize for s in array.strides):
            raise TypeError(f"{what}: strides {array.strides} are no multiples of the element's {array.itemsize} bytes")
        n = array.ndim
        self.shape = (c_int64 * max(n, 1))(*array.shape)
        self.strides = (c_int64 * max(n, 1))(*(s // array.itemsize for s in array.strides))
        code, bits = DTYPES[array.dtype]
        self.t = DLTensor(data=array.ctypes.data, ndim=n, dtype=DLDataType(code, bits, 1), shape=self.shape, strides=self.strides)
        self.t.device.device_type = CPU

    def to_device(self, device, upload):
        """Moves a numpy array to device memory, compact; `fetch` brings it back."""
        info = DeviceInfo()
        _check(lib.tdsl_device_query(byref(info), device.handle))
        dense = np.ascontiguousarray(self.value)
        self.device, self.pointer = device, c_void_p()
        _check(lib.tdsl_alloc(byref(self.pointer), device.handle, max(dense.nbytes, 1)))
        if upload and dense.nbytes:
            _check(lib.tdsl_upload(device.handle, self.pointer, dense.ctypes.data, dense.nbytes))
        self.t.data, self.t.device, self.t.strides = self.pointer.value, info.dl, None

    def fetch(self):
        dense = np.empty(self.value.shape, self.value.dtype)
        if dense.nbytes:
            _check(lib.tdsl_download(self.device.handle, dense.ctypes.data, self.pointer, dense.nbytes))
        self.value[...] = dense

    def release(self):
        if self.pointer is not None:
            lib.tdsl_free(self.device.handle, self.pointer)


class Kernel:
    """One kernel of a pack: called like a function.  `params` tells names, roles and extents."""

    def __init__(self, handle, pack):
        info = KernelInfo()
        _check(lib.tdsl_kernel_query(byref(info), handle))
        self.handle, self.pack = handle, pack                # the pack must outlive its kernels
        self.__name__, self.__doc__ = info.name.decode(), (info.doc or b"").decode()
        self.letters = info.signature.decode()               # one a parameter, see tdsl.h
        self.params, self.instances = [], []
        for i in range(info.nparams):
            param = ParamInfo()
            _check(lib.tdsl_kernel_param(byref(param), handle, i))
            self.params.append(param)
        for i in range(info.ninstances):
            instance = InstanceInfo()
            _check(lib.tdsl_kernel_instance(byref(instance), handle, i))
            self.instances.append(instance.name.decode())

    def __repr__(self):
        return f"<tdsl kernel {self.__name__}({', '.join(p.name.decode() for p in self.params)})>"

    def _bind(self, args, named):
        """Values by parameter: positions go to the inputs and scalars; what is only an output must be named."""
        takes = [i for i, p in enumerate(self.params) if p.is_input or not p.is_tensor]
        if len(args) > len(takes):
            raise TypeError(f"{self.__name__} takes {len(takes)} arguments by position, {len(args)} were given")
        values = dict(zip(takes, args))
        names = {p.name.decode(): i for i, p in enumerate(self.params)}
        for name, value in named.items():
            if name not in names:
                raise TypeError(f"{self.__name__} has no parameter {name!r}; it has {', '.join(names)}")
            if names[name] in values:
                raise TypeError(f"{self.__name__}: {name} was given twice")
            values[names[name]] = value
        return values

    def __call__(self, *args, device=None, stage=None, **named):
        """Runs the kernel and returns its outputs: one array, or a tuple in the order of the signature.

        device: a name or a Device; None = the default.  stage: copy numpy arrays to device memory and back; None = where
        the device is a real GPU.
        """
        device, values = _device(device), self._bind(args, named)
        stage = device.kind in GPU_KINDS if stage is None else stage
        array = (Arg * len(self.params))()
        tensors, wanted = {}, {}
        for i, param in enumerate(self.params):
            value, name = values.get(i), param.name.decode()
            if not param.is_tensor:
                self._scalar(array[i], i, value)
            elif param.is_output and (value is None or isinstance(value, (type, np.dtype))):
                wanted[i] = value                            # allocated below
            elif value is not None:
                tensors[i] = _Tensor(value, f"{self.__name__}: {name}")
                array[i].t = ctypes.pointer(tensors[i].t)
            elif not param.is_optional:
                raise TypeError(f"{self.__name__}: {name} is missing")
        if wanted and any(not isinstance(t.value, np.ndarray) for t in tensors.values()):
            raise TypeError(f"{self.__name__}: outputs of DLPack inputs are not allocated here; give them by name")
        for i, dtype in wanted.items():
            if self.params[i].is_optional and dtype is None:
                continue
            tensors[i] = _Tensor(self._allocate(i, dtype, array, device), self.params[i].name.decode())
        for i in wanted:
            if i in tensors:
                array[i].t = ctypes.pointer(tensors[i].t)
        self._run(array, tensors, device, stage)
        results = [tensors[i].value for i, p in enumerate(self.params) if p.is_output and i in tensors]
        return results[0] if len(results) == 1 else tuple(results)

    def _scalar(self, arg, index, value):
        param = self.params[index]
        if value is None:
            if not param.has_default:
                raise TypeError(f"{self.__name__}: {param.name.decode()} is missing")
            value = param.default_value
        if self.letters[index] in "il":
            arg.i = int(value)
        else:
            arg.f = float(value)

    def _allocate(self, index, dtype, array, device):
        found, shape = DLDataType(), (c_int64 * 8)()
        rank = _check(lib.tdsl_output(byref(found), shape, self.handle, device.stream, array, len(self.params), index))
        if dtype is None:
            dtype = NUMPY.get((found.code, found.bits))
            if dtype is None:
                raise TypeError(f"{self.__name__}: {self.params[index].name.decode()} has a type that numpy lacks; give it by name")
        return np.empty(tuple(shape[:rank]), dtype)

    def _run(self, array, tensors, device, stage):
        n = len(self.params)
        try:
            if stage:
                for i, tensor in tensors.items():
                    if isinstance(tensor.value, np.ndarray):
                        tensor.to_device(device, upload=self.params[i].is_input)
            size = _check(lib.tdsl_workspace(self.handle, device.stream, array, n))
            workspace = c_void_p()
            if size:
                _check(lib.tdsl_alloc(byref(workspace), device.handle, size))
            try:
                _check(lib.tdsl_call(self.handle, device.stream, array, n, workspace, size))
                if size or stage:
                    device.sync()
            finally:
                if size:
                    lib.tdsl_free(device.handle, workspace)
            for i, tensor in tensors.items():
                if tensor.pointer is not None and self.params[i].is_output:
                    tensor.fetch()
        finally:
            for tensor in tensors.values():
                tensor.release()


class Pack:
    """An open pack: its kernels are attributes, and `kernels` is the list of their names."""

    def __init__(self, handle):
        self.handle, info = handle, PackInfo()
        _check(lib.tdsl_pack_query(byref(info), handle))
        self.targets = [info.targets[i].decode() for i in range(info.ntargets)]
        self.kernels = []
        for i in range(info.nkernels):
            kernel = c_void_p()
            _check(lib.tdsl_pack_kernel(byref(kernel), handle, i))
            kernel = Kernel(kernel, self)
            self.kernels.append(kernel.__name__)
            setattr(self, kernel.__name__, kernel)

    def __del__(self):
        lib.tdsl_pack_close(self.handle)


def open_pack(path=None):
    """Opens the pack at `path`, or the one bundled with the package."""
    if path is None:
        places = [HERE / "kernels.tpack", HERE.parent.parent / "build" / "kernels.tpack"]
        path = next((p for p in places if p.exists()), places[0])
    handle = c_void_p()
    _check(lib.tdsl_pack_open(byref(handle), str(path).encode()))
    return Pack(handle)


def compile(text, file="text.tdsl", targets=None, kernels=None, instances=None):
    """Compiles text of the tile language in this process.  Error.args has all diagnostics."""
    def names(values):
        return None if values is None else (c_char_p * (len(values) + 1))(*(v.encode() for v in values), None)
    options = CompileOptions()
    for field, values in (("targets", targets), ("kernels", kernels), ("instances", instances)):
        if values is not None:
            setattr(options, field, ctypes.cast(names(values), POINTER(c_char_p)))
    handle, data = c_void_p(), text.encode()
    code = lib.tdsl_compile(byref(handle), data, len(data), file.encode(), byref(options))
    if code < 0:
        error = Error(code)
        error.args = ((lib.tdsl_compile_messages() or b"").decode(errors="replace") or error.args[0],)
        raise error
    return Pack(handle)


def last_call():
    """What this thread's last call ran: kernel, instance, variant's predicate, target."""
    last = LastCall()
    _check(lib.tdsl_last_call(byref(last)))
    return {name: getattr(last, name).decode() for name in ("kernel", "instance", "predicate", "target")}


_bundled = None


def __getattr__(name):
    global _bundled
    if name.startswith("_"):
        raise AttributeError(name)
    if _bundled is None:
        _bundled = open_pack()
    try:
        return getattr(_bundled, name)
    except AttributeError:
        raise AttributeError(f"tdsl has no {name!r}; the bundled pack has {', '.join(_bundled.kernels)}") from None
