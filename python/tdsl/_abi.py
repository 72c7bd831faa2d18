"""The C interface of libtdsl_rt.so for ctypes: structures, prototypes and where the library is found.

In: nothing.  Out: `lib`, the loaded library, the structures of tdsl.h, and `core`, the module of the warm path (core.c).  The order of fields is the header's; a change
there is a change here.  The library is looked for in $TDSL_LIBRARY, beside this file (an installed wheel), then in the
source tree's build folder.
"""
import ctypes
import importlib.util
import os
from ctypes import CDLL, POINTER, Structure, Union, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint8, c_uint16, c_uint64, c_void_p
from pathlib import Path

HERE = Path(__file__).resolve().parent


class DLDevice(Structure):
    _fields_ = [("device_type", c_int32), ("device_id", c_int32)]


class DLDataType(Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class DLTensor(Structure):
    _fields_ = [("data", c_void_p), ("device", DLDevice), ("ndim", c_int32), ("dtype", DLDataType),
                ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)), ("byte_offset", c_uint64)]


class Arg(Union):
    _fields_ = [("t", POINTER(DLTensor)), ("f", c_double), ("i", c_int64)]


class DeviceInfo(Structure):
    _fields_ = [("name", c_char_p), ("kind", c_char_p), ("target", c_char_p), ("library", c_char_p), ("dl", DLDevice)]


class CompileOptions(Structure):
    _fields_ = [("targets", POINTER(c_char_p)), ("kernels", POINTER(c_char_p)), ("instances", POINTER(c_char_p)),
                ("jobs", c_int), ("library_path", c_char_p)]


class Warm(Structure):
    _fields_ = [("pack", c_void_p), ("text", c_char_p), ("n", c_size_t), ("file", c_char_p), ("kernel", c_char_p), ("instance", c_char_p),
                ("target", c_char_p), ("given", c_char_p)]


class PackInfo(Structure):
    _fields_ = [("nkernels", c_int), ("ntargets", c_int), ("targets", POINTER(c_char_p)), ("tdsl_version", c_char_p),
                ("llvm_version", c_char_p), ("options", c_char_p), ("licence", c_char_p)]


class KernelInfo(Structure):
    _fields_ = [("name", c_char_p), ("doc", c_char_p), ("signature", c_char_p), ("nparams", c_int), ("ninstances", c_int),
                ("nvariants", c_int), ("has_workspace", c_int)]


class ParamInfo(Structure):
    _fields_ = [("name", c_char_p), ("is_tensor", c_int), ("is_input", c_int), ("is_output", c_int), ("is_optional", c_int),
                ("rank", c_int), ("extents", c_char_p), ("has_default", c_int), ("default_value", c_double)]


class InstanceInfo(Structure):
    _fields_ = [("name", c_char_p)]


class LastCall(Structure):
    _fields_ = [("kernel", c_char_p), ("instance", c_char_p), ("predicate", c_char_p), ("target", c_char_p),
                ("variant", c_int), ("launches", c_int), ("remembered", c_int)]


PROTOTYPES = {
    "tdsl_error": (c_char_p, []),
    "tdsl_error_name": (c_char_p, [c_int]),
    "tdsl_open": (c_int, [POINTER(c_void_p), c_char_p]),
    "tdsl_default": (c_int, [POINTER(c_void_p)]),
    "tdsl_set_default": (c_int, [c_void_p]),
    "tdsl_device_query": (c_int, [POINTER(DeviceInfo), c_void_p]),
    "tdsl_stream_open": (c_int, [POINTER(c_void_p), c_void_p, c_void_p]),
    "tdsl_stream_close": (None, [c_void_p]),
    "tdsl_sync": (c_int, [c_void_p]),
    "tdsl_alloc": (c_int, [POINTER(c_void_p), c_void_p, c_int64]),
    "tdsl_free": (c_int, [c_void_p, c_void_p]),
    "tdsl_upload": (c_int, [c_void_p, c_void_p, c_void_p, c_int64]),
    "tdsl_download": (c_int, [c_void_p, c_void_p, c_void_p, c_int64]),
    "tdsl_pack_open": (c_int, [POINTER(c_void_p), c_char_p]),
    "tdsl_pack_close": (None, [c_void_p]),
    "tdsl_pack_query": (c_int, [POINTER(PackInfo), c_void_p]),
    "tdsl_pack_source": (c_char_p, [c_void_p]),
    "tdsl_pack_kernel": (c_int, [POINTER(c_void_p), c_void_p, c_int]),
    "tdsl_kernel_query": (c_int, [POINTER(KernelInfo), c_void_p]),
    "tdsl_kernel_param": (c_int, [POINTER(ParamInfo), c_void_p, c_int]),
    "tdsl_kernel_instance": (c_int, [POINTER(InstanceInfo), c_void_p, c_int]),
    "tdsl_kernel_dtype": (c_int, [POINTER(c_char_p), POINTER(DLDataType), c_void_p, c_int, c_int, c_char_p]),
    "tdsl_output": (c_int, [POINTER(DLDataType), POINTER(c_int64), c_void_p, c_void_p, POINTER(Arg), c_int, c_int]),
    "tdsl_workspace": (c_int64, [c_void_p, c_void_p, POINTER(Arg), c_int]),
    "tdsl_list_open": (c_int, [POINTER(c_void_p), c_void_p, DLDataType, POINTER(POINTER(DLTensor)), c_int64]),
    "tdsl_list_tensor": (POINTER(DLTensor), [c_void_p]),
    "tdsl_list_close": (None, [c_void_p]),
    "tdsl_call": (c_int, [c_void_p, c_void_p, POINTER(Arg), c_int, c_void_p, c_int64]),
    "tdsl_last_call": (c_int, [POINTER(LastCall)]),
    "tdsl_compile": (c_int, [POINTER(c_void_p), c_char_p, c_size_t, c_char_p, POINTER(CompileOptions)]),
    "tdsl_compile_messages": (c_char_p, []),
    "tdsl_warm_up": (c_int, [POINTER(Warm), c_int, c_int]),
}


BUILD = HERE.parent.parent / "build"                         # in the source tree


def load():
    named = os.environ.get("TDSL_LIBRARY")
    for place in (named, HERE / "libtdsl_rt.so", BUILD / "libtdsl_rt.so"):
        if place and Path(place).exists():
            try:
                library = CDLL(str(place))
                for name, (result, arguments) in PROTOTYPES.items():
                    function = getattr(library, name)
                    function.restype, function.argtypes = result, arguments
            except (OSError, AttributeError) as error:       # no library, or another one
                said = "TDSL_LIBRARY names " if place is named else ""
                raise ImportError(f"{said}{place}, which is no libtdsl_rt.so that this package can use: {error}") from None
            return library
    raise ImportError("libtdsl_rt.so is neither beside the package nor named by TDSL_LIBRARY")


def load_core():
    for folder in (HERE, BUILD / "python"):
        path = folder / "_core.abi3.so"
        if path.exists():
            spec = importlib.util.spec_from_file_location("tdsl._core", path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    raise ImportError(f"_core.abi3.so is not beside {HERE / '__init__.py'}: the package is incomplete")


lib = load()
core = load_core()
capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
capsule_pointer.restype, capsule_pointer.argtypes = c_void_p, [ctypes.py_object, c_char_p]
capsule_valid = ctypes.pythonapi.PyCapsule_IsValid
capsule_valid.restype, capsule_valid.argtypes = c_int, [ctypes.py_object, c_char_p]
