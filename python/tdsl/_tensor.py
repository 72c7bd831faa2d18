"""Anything that holds numbers -> a DLTensor for the runtime, and new arrays of the same library.

In: numpy arrays (ml_dtypes' types as well, which numpy's own DLPack refuses), torch tensors, and every object with
__dlpack__ and __dlpack_device__ (cupy, jax, ...), by versioned and unversioned capsules.  Out: Tensor, which keeps everything
alive that its DLTensor points to.  Nothing is copied here except by `stage`, between host memory and a real GPU.

torch's tensors are read by their own attributes: that also takes tensors that require gradients and the fp8 types of releases
whose DLPack lacks them, and the stream is torch's current one, so that nothing has to wait.
"""
import sys
from ctypes import POINTER, byref, c_int64, c_uint32, c_uint64, c_void_p, cast

import ml_dtypes
import numpy as np

from ._abi import DLDataType, DLTensor, capsule_pointer, capsule_valid, core, lib
from ._device import check

CPU, CUDA, ROCM = 1, 2, 10
HOST = (CPU, 3, 11)                                          # pinned memory counts as the host's
READ_ONLY = 1
DTYPES = {
    np.dtype(np.bool_): (6, 8), np.dtype(np.int8): (0, 8), np.dtype(np.int32): (0, 32), np.dtype(np.int64): (0, 64),
    np.dtype(np.uint8): (1, 8), np.dtype(np.float16): (2, 16), np.dtype(np.float32): (2, 32), np.dtype(np.float64): (2, 64),
    np.dtype(ml_dtypes.bfloat16): (4, 16), np.dtype(ml_dtypes.float8_e4m3fn): (10, 8),
    np.dtype(ml_dtypes.float8_e4m3fnuz): (11, 8), np.dtype(ml_dtypes.float8_e5m2): (12, 8),
    np.dtype(ml_dtypes.float8_e5m2fnuz): (13, 8), np.dtype(ml_dtypes.float8_e8m0fnu): (14, 8),
}
E2M1 = (17, 4)                                               # two a byte: numpy holds the bytes
NUMPY = {code: dtype for dtype, code in DTYPES.items()}
TORCH = {(6, 8): "bool", (0, 8): "int8", (0, 32): "int32", (0, 64): "int64", (1, 8): "uint8", (2, 16): "float16", (2, 32): "float32",
         (2, 64): "float64", (4, 16): "bfloat16", (10, 8): "float8_e4m3fn", (11, 8): "float8_e4m3fnuz", (12, 8): "float8_e5m2",
         (13, 8): "float8_e5m2fnuz", (14, 8): "float8_e8m0fnu", (17, 4): "float4_e2m1fn_x2"}
CODES = {name: code for code, name in TORCH.items()}
for _dtype, _code in DTYPES.items():
    core.dtype(_dtype, *_code)


class e2m1:
    """A numpy array of bytes, each with two e2m1 numbers (low bits first), as an argument of that type."""

    def __init__(self, packed):
        if not isinstance(packed, np.ndarray):
            raise TypeError(f"e2m1: an array of uint8 is expected, not {type(packed).__name__}")
        if packed.dtype != np.uint8 or not packed.ndim:
            raise TypeError(f"e2m1: an array of uint8 is expected, not of {packed.dtype} with {packed.ndim} dimensions")
        self.packed = packed


def is_torch(value):
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, getattr(torch, "Tensor", ()))


def torch_dtype(code):
    """torch's type for a DLPack code, None where this torch has none."""
    return getattr(sys.modules["torch"], TORCH.get(code, ""), None)


def torch_code(dtype, what):
    """DLPack's code for a type of torch; TypeError where no kernel takes it."""
    code = CODES.get(str(dtype).partition(".")[2])
    if code is None:
        raise TypeError(f"{what}: no kernel takes elements of type {dtype}")
    return code


class Tensor:
    """One tensor argument: `t` is its DLTensor, `value` what the caller has, `library` the one that made it."""

    def __init__(self, value, what, output=False):
        self.value, self.pointer, self.device, self.library = value, None, None, "numpy"
        if isinstance(value, np.ndarray):
            self.from_numpy(value, what)
            if output and not value.flags.writeable:
                raise TypeError(f"{what}: the array is read-only; an output is written")
        elif isinstance(value, e2m1):
            self.from_numpy(value.packed, what)
            self.t.dtype = DLDataType(*E2M1, 2)
            self.value = value.packed
        elif is_torch(value):
            self.library = "torch"
            self.from_torch(value, what)
        elif hasattr(value, "__dlpack__"):
            self.library = type(value).__module__.partition(".")[0].partition("lib")[0]
            self.from_dlpack(value, what, output)
        else:
            raise TypeError(f"{what}: a numpy array or an object with __dlpack__ is expected, not {type(value).__name__}")

    def fill(self, data, shape, strides, dtype, lanes, device):
        n = len(shape)
        self.shape, self.strides = (c_int64 * max(n, 1))(*shape), (c_int64 * max(n, 1))(*strides)
        self.t = DLTensor(data=data, ndim=n, dtype=DLDataType(*dtype, lanes), shape=self.shape, strides=self.strides)
        self.t.device.device_type, self.t.device.device_id = device

    def from_numpy(self, array, what):
        code = DTYPES.get(array.dtype)
        if code is None:
            raise TypeError(f"{what}: no kernel takes elements of type {array.dtype}")
        if any(s % array.itemsize for s in array.strides):
            raise TypeError(f"{what}: strides {array.strides} are no multiples of the element's {array.itemsize} bytes")
        core.dtype(array.dtype, *code)                       # equal types may be several objects
        self.fill(array.ctypes.data, array.shape, [s // array.itemsize for s in array.strides], code, 1, (CPU, 0))

    def from_torch(self, tensor, what):
        code = torch_code(tensor.dtype, what)
        kind = tensor.device.type
        if kind not in ("cpu", "cuda"):
            raise TypeError(f"{what}: a tensor on {tensor.device}; the CPU or a GPU is expected")
        if tensor.is_neg():                                  # a view whose numbers are the negated ones in memory
            raise TypeError(f"{what}: the tensor's negative bit is set, as that of the imaginary part of a conjugate; resolve_neg() gives one that can be taken")
        gpu = ROCM if sys.modules["torch"].version.hip else CUDA
        self.fill(tensor.data_ptr(), tensor.shape, tensor.stride(), code, 2 if code == E2M1 else 1,
                  (CPU, 0) if kind == "cpu" else (gpu, tensor.device.index or 0))

    def from_dlpack(self, value, what, output):
        kind, number = value.__dlpack_device__() if hasattr(value, "__dlpack_device__") else (CPU, 0)
        self.t = DLTensor()                                  # where it lies is known before the stream is
        self.t.device.device_type, self.t.device.device_id = int(kind), int(number)
        self.what, self.output = what, output
        if int(kind) in HOST:
            self.take(None)

    def take(self, stream):
        """Asks for the capsule; on a GPU the producer makes `stream` (the driver's, 0 = its default) wait for its work."""
        if stream == 0 and self.t.device.device_type in (2, 13):
            stream = 1                                       # what DLPack calls CUDA's default one; 0 is HIP's
        named = {} if stream is None else {"stream": stream}
        try:
            self.capsule = self.value.__dlpack__(max_version=(1, 1), **named)
        except TypeError:                                    # before DLPack 1.0
            self.capsule = self.value.__dlpack__(**named)
        if capsule_valid(self.capsule, b"dltensor_versioned"):
            at = capsule_pointer(self.capsule, b"dltensor_versioned")
            major = c_uint32.from_address(at).value
            if major != 1:
                raise TypeError(f"{self.what}: DLPack {major}; version 1 is expected")
            if self.output and c_uint64.from_address(at + 24).value & READ_ONLY:
                raise TypeError(f"{self.what}: the tensor is read-only; an output is written")
            self.t = DLTensor.from_address(at + 32)          # version, context, deleter and flags come first
        elif capsule_valid(self.capsule, b"dltensor"):
            self.t = DLTensor.from_address(capsule_pointer(self.capsule, b"dltensor"))
        else:
            raise TypeError(f"{self.what}: __dlpack__ gave a capsule of an unknown kind")

    @property
    def on_host(self):
        return self.t.device.device_type in HOST

    def stage(self, device, upload):
        """Moves a numpy array to device memory, compact; `fetch` brings it back."""
        dense = np.ascontiguousarray(self.value)
        self.device, self.pointer = device, c_void_p()
        check(lib.tdsl_alloc(byref(self.pointer), device.handle, max(dense.nbytes, 1)))
        if upload and dense.nbytes:
            check(lib.tdsl_upload(device.handle, self.pointer, dense.ctypes.data, dense.nbytes))
        self.t.data, self.t.device, self.t.strides = self.pointer.value, device.dl, cast(None, POINTER(c_int64))

    def fetch(self):
        dense = np.empty(self.value.shape, self.value.dtype)
        if dense.nbytes:
            check(lib.tdsl_download(self.device.handle, dense.ctypes.data, self.pointer, dense.nbytes))
        self.value[...] = dense

    def release(self):
        if self.pointer is not None:
            lib.tdsl_free(self.device.handle, self.pointer)


def allocate(library, like, code, shape, dtype, what):
    """A new array of `library` ("torch": where the tensor `like` lies; else numpy) with elements of `code`, or of `dtype` if given."""
    if library == "torch":
        torch = sys.modules["torch"]
        dtype = torch_dtype(code) if dtype is None else dtype
        if dtype is None:
            raise TypeError(f"{what} has a type that this torch lacks; give it by name")
        if not isinstance(dtype, torch.dtype):
            raise TypeError(f"{what} is {dtype!r}; a type of torch is expected, as the inputs are torch's")
        if code == E2M1:
            shape = (*shape[:-1], shape[-1] // 2)
        return torch.empty(shape, dtype=dtype, device=like.device)
    if code == E2M1 and dtype is None:
        return e2m1(np.empty((*shape[:-1], shape[-1] // 2), np.uint8))
    try:
        dtype = NUMPY[code] if dtype is None else np.dtype(dtype)
    except TypeError:
        raise TypeError(f"{what} is {dtype!r}; a type of numpy is expected, as the inputs are not torch's") from None
    return np.empty(shape, dtype)
