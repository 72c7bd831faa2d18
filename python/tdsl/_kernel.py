"""Kernels and packs as Python objects.

In: handles of the runtime.  Out: Kernel, called like a function, and Pack, whose attributes are its kernels.  A call that is
plain (the default device, host memory or torch's exchange functions, workspace on a GPU alone) is done by core.c; `_slow` below serves
every call and says what is wrong with one.
"""
import ctypes
import difflib
import inspect
import keyword
import operator
import os
import sys
from ctypes import POINTER, byref, c_char_p, c_int64, c_void_p

import numpy as np

from ._abi import Arg, CompileOptions, DLDataType, InstanceInfo, KernelInfo, LastCall, PackInfo, ParamInfo, Warm, core, lib
from ._device import GPU_KINDS, Error, check, device_of, fail, native_of
from ._list import TensorList
from ._tensor import Tensor, allocate

try:
    from numpy._core import _multiarray_umath as _numpy
except ImportError:                                          # numpy 1
    from numpy.core import _multiarray_umath as _numpy

core.bind(*(ctypes.cast(getattr(lib, f"tdsl_{name}"), c_void_p).value
            for name in ("call", "output", "default", "device_query", "workspace")),
          fail, _numpy._ARRAY_API)
CONTROLS = ("out", "device", "stream", "stage")


class Param:
    """One parameter: name, role, extents as text, default, and its element types over the kernel's instances."""

    def __init__(self, kernel, index, letter, instances):
        info = ParamInfo()
        check(lib.tdsl_kernel_param(byref(info), kernel, index))
        self.name, self.letter, self.rank = info.name.decode(), letter, info.rank
        self.is_tensor, self.is_input, self.is_output, self.is_optional = (
            bool(info.is_tensor), bool(info.is_input), bool(info.is_output), bool(info.is_optional))
        self.is_list = letter == "L"
        self.extents = (info.extents or b"").decode()
        self.default = info.default_value if info.has_default else None
        if self.default is not None and letter in "il":
            self.default = int(self.default)
        self.by_instance = []
        for i in range(instances):
            name, dl = c_char_p(), DLDataType()
            check(lib.tdsl_kernel_dtype(byref(name), byref(dl), kernel, i, index, None))
            self.by_instance.append(name.value.decode())
        self.types = list(dict.fromkeys(self.by_instance))

    def __repr__(self):
        return f"{self.name}: {'list ' if self.is_list else ''}{'|'.join(self.types)}" + (f"[{self.extents}]" if self.is_tensor else "")


class Kernel(core.Kernel):
    """One kernel of a pack, called like a function: inputs and scalars by position or name, outputs by name or allocated.

    A call returns the outputs: one array, or a tuple in the order of the signature; arrays of the inputs' library.  Beside
    the kernel's own parameters every call takes, by name:
    out     the outputs to write into, one or a tuple in order (None = allocate); the same as giving them by name
    device  a name or a Device; None = where the inputs are, for host arrays the default device
    stream  the driver's stream: an integer, or a stream of torch or cupy; None = the inputs' library's current one
    stage   True: copy numpy arrays (given outputs too) to device memory and the outputs back; None = where the device is a real GPU
    A parameter of such a name comes before that meaning; one named like a keyword of Python is given with an underscore behind, `in_`.
    An output given as a type (y=np.int8, torch.int8) is allocated with it and selects the instance.
    """

    def __init__(self, handle, pack):
        info = KernelInfo()
        check(lib.tdsl_kernel_query(byref(info), handle))
        self.handle, self.pack = handle, pack                # the pack must outlive its kernels
        self.__name__ = self.__qualname__ = info.name.decode()
        letters, self.about = info.signature.decode(), (info.doc or b"").decode().strip()
        self.params = [Param(handle, i, letters[i], info.ninstances) for i in range(info.nparams)]
        self.instances = []
        for i in range(info.ninstances):
            instance = InstanceInfo()
            check(lib.tdsl_kernel_instance(byref(instance), handle, i))
            self.instances.append(instance.name.decode())
        self.outputs = [i for i, p in enumerate(self.params) if p.is_tensor and p.is_output]
        self.takes = [i for i, p in enumerate(self.params) if p.is_input or not p.is_tensor]
        self.has_workspace = bool(info.has_workspace)
        self.__signature__ = signature_of(self)
        self.__doc__ = doc_of(self)
        self._setup(handle.value, [(p.name, p.letter, p.is_input, p.is_output, p.is_optional, p.default) for p in self.params],
                    self.has_workspace)

    def __repr__(self):
        return f"<tdsl kernel {self.__name__}({', '.join(p.name for p in self.params)})>"

    def element(self, instance, index, target):
        """DLPack's (code, bits) of a parameter in an instance, on a target where that decides."""
        name, dl = c_char_p(), DLDataType()
        check(lib.tdsl_kernel_dtype(byref(name), byref(dl), self.handle, instance, index, target.encode()))
        return dl.code, dl.bits

    def _bind(self, args, named):
        """Values by parameter: positions go to the inputs and scalars; what is only an output must be named."""
        if len(args) > len(self.takes):
            raise TypeError(f"{self.__name__} takes {len(self.takes)} arguments by position, {len(args)} were given")
        values = dict(zip(self.takes, args))
        names = {p.name: i for i, p in enumerate(self.params)}
        for name, value in named.items():
            name = name if name in names else next((n for n in names if shown(n) == name), name)
            if name not in names:
                raise TypeError(f"{self.__name__} has no parameter {name!r}; it has {', '.join(names)}")
            if names[name] in values:
                raise TypeError(f"{self.__name__}: {name} was given twice")
            values[names[name]] = value
        return values

    def _out(self, out, values):
        """Spreads `out` over the outputs."""
        pure = [i for i in self.outputs if not self.params[i].is_input]
        out = out if isinstance(out, (tuple, list)) else (out,)
        if len(out) > len(pure):
            raise TypeError(f"{self.__name__}: out has {len(out)} arrays; there are {len(pure)} outputs")
        for i, value in zip(pure, out):
            if value is not None and values.get(i) is not None:
                raise TypeError(f"{self.__name__}: {self.params[i].name} was given by name and in out")
            values[i] = values.get(i) if value is None else value

    def _slow(self, /, *args, **named):
        """Any call, see the class."""
        names = {p.name for p in self.params}
        control = {c: named.pop(c, None) for c in CONTROLS if c not in names}
        values = self._bind(args, named)
        if control.get("out") is not None:
            self._out(control["out"], values)
        array = (Arg * len(self.params))()
        tensors, wanted = {}, {}
        for i, param in enumerate(self.params):
            value = values.get(i)
            if not param.is_tensor:
                self._scalar(array[i], param, value)
            elif param.is_output and not param.is_input and (value is None or is_dtype(value)):
                if value is not None or not param.is_optional:
                    wanted[i] = value                        # allocated below
            elif value is not None:
                tensors[i] = (TensorList if param.is_list else Tensor)(value, f"{self.__name__}: {param.name}", param.is_output)
            elif not param.is_optional:
                raise TypeError(f"{self.__name__}: {param.name} is missing")
        device, stream, owner = self._place(tensors, control.get("device"), control.get("stream"))
        stage = control.get("stage")
        stage = (device.kind in GPU_KINDS if stage is None else stage) and any(t.library == "numpy" for t in tensors.values())
        try:
            self._stage(tensors, stage and device, upload=True)        # outputs too: a kernel may leave elements unwritten
            self._give(tensors, tensors, array, device)
            made = {i: (TensorList if self.params[i].is_list else Tensor)(self._allocate(i, dtype, array, stream, tensors), f"{self.__name__}: {self.params[i].name}", True)
                    for i, dtype in wanted.items()}
            tensors.update(made)
            self._stage(made, stage and device, upload=False)
            self._give(made, tensors, array, device)
            for i, tensor in tensors.items():
                if self.params[i].is_list:
                    tensor.use(stream, owner)
            self._run(array, device, stream, tensors, wait=stage)
            for i, tensor in tensors.items():
                if tensor.pointer is not None and self.params[i].is_output:
                    tensor.fetch()
        finally:
            for tensor in tensors.values():
                tensor.release()
        results = [tensors[i].value for i in self.outputs if i in tensors]
        return results[0] if len(results) == 1 else tuple(results)

    def _give(self, some, tensors, array, device):
        """Puts tensors into the array of arguments; an empty list's elements are of the first type that the others allow."""
        known = {i: t.code for i, t in tensors.items() if self.params[i].is_list and t.code}
        for i, tensor in some.items():
            if not self.params[i].is_list:
                array[i].t = ctypes.pointer(tensor.t)
                continue
            types = [{j: self.element(n, j, device.target) for j in (i, *known)} for n in range(len(self.instances))]
            fits = next((of for of in types if all(of[j] == code for j, code in known.items())), types[0])
            array[i].t = tensor.open(device, fits[i])

    def _scalar(self, arg, param, value):
        """Puts a number into an argument: integers from whatever is one (numpy's and bools too), others from whatever has a float."""
        if value is None:
            if param.default is None:
                raise TypeError(f"{self.__name__}: {param.name} is missing")
            value = param.default
        whole = param.letter in "il"
        try:
            if whole:
                value = int(value) if isinstance(value, np.bool_) else operator.index(value)
            elif isinstance(value, (str, bytes, bytearray)):             # of which float() makes numbers
                raise TypeError
            else:
                arg.f = float(value)
        except (TypeError, ValueError):
            kind = "an integer" if whole else "a number"
            raise TypeError(f"{self.__name__}: {param.name} is {value!r:.80}; {kind} is expected") from None
        except OverflowError:
            raise TypeError(f"{self.__name__}: {param.name} is larger than any number of 64 bits") from None
        if whole:
            if not -2**63 <= value < 2**63:
                raise TypeError(f"{self.__name__}: {param.name} is {value}, which 64 bits do not hold")
            arg.i = value                                    # the library refuses what 32 bits do not hold, where the kernel has those

    def _place(self, tensors, device, stream):
        """Where the call runs: the device asked for, else that of the inputs on a GPU, else the default; the stream; and what
        keeps the driver's stream, None where it was given as a number."""
        gpu = next((t for t in tensors.values() if not t.on_host), None)
        if device is None and gpu is not None:
            kind = "cuda" if gpu.t.device.device_type in (2, 13) else "hip"
            device = f"{kind}:{gpu.t.device.device_id}"
        device = device_of(device, f"{self.__name__}: device")
        owner = None if isinstance(stream, int) else stream or "the library"
        if stream is None and gpu is not None:
            stream = current_stream(gpu)
            owner = stream or owner
        native = native_of(stream, f"{self.__name__}: stream")
        handle = device.on(native)
        for tensor in tensors.values():
            if not tensor.on_host and tensor.library != "torch":
                tensor.take(native)
        return device, handle, owner

    def _allocate(self, index, dtype, array, stream, tensors):
        found, shape = DLDataType(), (c_int64 * 8)()
        name = f"{self.__name__}: {self.params[index].name}"
        rank = check(lib.tdsl_output(byref(found), shape, self.handle, stream, array, len(self.params), index))
        torch = next((t for t in tensors.values() if t.library == "torch"), None)
        other = next((t for t in tensors.values() if not t.on_host and t.library not in ("torch", "numpy")), None)
        if other is not None and torch is None:
            raise TypeError(f"{name}: outputs of {type(other.value).__name__} on a GPU are not allocated here; give them by name")
        if self.params[index].is_list:
            like = next(t for i, t in tensors.items() if self.params[i].is_list and self.params[i].extents == self.params[index].extents)
            return [allocate(like.library, t.value, (found.code, found.bits), tuple(t.t.shape[:t.t.ndim]), dtype, name) for t in like.items]
        return allocate("torch" if torch else "numpy", torch and torch.value, (found.code, found.bits), tuple(shape[:rank]), dtype, name)

    @staticmethod
    def _stage(tensors, device, upload):
        """Gives numpy arrays room in the device's memory, with their contents if `upload`; device False: leaves them where they are."""
        for tensor in tensors.values():
            if device and tensor.library == "numpy":
                tensor.stage(device, upload)

    def _run(self, array, device, stream, tensors, wait):
        """Workspace is torch's where the tensors are: it is kept until the stream has used it, and nothing has to wait."""
        n, workspace = len(self.params), c_void_p()
        size = check(lib.tdsl_workspace(self.handle, stream, array, n)) if self.has_workspace else 0
        like = next((t.value for t in tensors.values() if t.library == "torch"), None) if size else None
        if like is not None:
            room = like.new_empty(size + 16, dtype=sys.modules["torch"].uint8)
            workspace.value = (room.data_ptr() + 15) // 16 * 16
        elif size:
            check(lib.tdsl_alloc(byref(workspace), device.handle, size))
        try:
            check(lib.tdsl_call(self.handle, stream, array, n, workspace, size))
            if wait or (size and like is None):
                check(lib.tdsl_sync(stream))
        finally:
            if size and like is None:
                lib.tdsl_free(device.handle, workspace)


def is_dtype(value):
    return isinstance(value, (type, str, np.dtype)) or type(value).__name__ == "dtype"


def current_stream(tensor):
    """The stream on which the library of a GPU tensor works now: torch's by number, torch keeps it; cupy's own object, which has to be kept."""
    if tensor.library == "torch":
        first = tensor.value[0] if isinstance(tensor.value, list) else tensor.value
        return sys.modules["torch"].cuda.current_stream(first.device).cuda_stream
    if tensor.library == "cupy":
        return sys.modules["cupy"].cuda.get_current_stream()
    return 0                                                 # the default one, which __dlpack__ makes wait


def shown(name):
    """A parameter's name in Python's signatures: `in`, say, is `in_` there, and calls take both."""
    return name + "_" * keyword.iskeyword(name)


def signature_of(kernel):
    def parameter(p, kind, default=inspect.Parameter.empty):
        return inspect.Parameter(shown(p.name), kind, default=default)
    both, named = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    # Python wants a default after the first one; the call itself says what is missing.
    front, seen = [], False
    for p in (kernel.params[i] for i in kernel.takes):
        seen = seen or p.is_optional or p.default is not None
        front.append(parameter(p, both, p.default if seen else inspect.Parameter.empty))
    back = [parameter(p, named, None) for p in kernel.params if p.is_tensor and p.is_output and not p.is_input]
    names = {p.name for p in kernel.params}
    back += [inspect.Parameter(c, named, default=None) for c in CONTROLS if c not in names]
    return inspect.Signature(front + back)


def doc_of(kernel):
    """The docstring: the kernel's own comment, its parameters with types and extents, its instances."""
    lines = [kernel.about or kernel.__name__, ""]
    for title, some in (("Inputs", [p for p in kernel.params if p.is_tensor and p.is_input]), ("Scalars", [p for p in kernel.params if not p.is_tensor]),
                        ("Outputs", [p for p in kernel.params if p.is_tensor and p.is_output])):
        if some:
            lines.append(f"{title}:")
            lines += [f"    {p!r}" + (" (may be absent)" if p.is_optional else "") + (f" = {p.default:g}" if p.default is not None else "") for p in some]
    lines.append("Instances: " + ("; ".join(kernel.instances) if any(kernel.instances) else "one"))
    return "\n".join(lines)


class _Closer:
    """Closes a pack when the Pack and the last of its kernels are gone."""

    def __init__(self, handle):
        self.handle, self.close = handle, lib.tdsl_pack_close

    def __del__(self):
        self.close(self.handle)


class Pack:
    """An open pack: its kernels by name are items, pack["rmsnorm"], and attributes, pack.rmsnorm; `kernels` is the list of their names.

    A kernel named like an attribute of every pack (`kernels`, `targets`) is an item alone.
    """

    def __init__(self, handle):
        self._keep, info = _Closer(handle), PackInfo()
        check(lib.tdsl_pack_query(byref(info), handle))
        self.targets = [info.targets[i].decode() for i in range(info.ntargets)]
        self._by_name = {}
        for i in range(info.nkernels):
            kernel = c_void_p()
            check(lib.tdsl_pack_kernel(byref(kernel), handle, i))
            kernel = Kernel(kernel, self._keep)
            self._by_name[kernel.__name__] = kernel
        self.kernels = list(self._by_name)
        for name in self.kernels:
            if not hasattr(self, name):
                setattr(self, name, self._by_name[name])

    def __getitem__(self, name):
        """The kernel of this name; KeyError names those that it may have meant."""
        if name in self._by_name:
            return self._by_name[name]
        near = difflib.get_close_matches(str(name), self.kernels)
        meant = f"; did you mean {' or '.join(near)}?" if near else f"; it has {', '.join(self.kernels)}"
        raise KeyError(f"the pack has no kernel {name!r}{meant}")

    def __iter__(self):
        return iter(self.kernels)


def open_pack(path):
    """Opens the pack at `path`: text, bytes or a path object."""
    handle = c_void_p()
    check(lib.tdsl_pack_open(byref(handle), os.fsencode(path)))
    return Pack(handle)


def _names(values, what):
    """A list of names; one that is no list, or has what is no name, is a TypeError."""
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        raise TypeError(f"{what} is a list of names, found {values!r:.80}")
    values = list(values)
    for value in values:
        if not isinstance(value, str):
            raise TypeError(f"{what} is a list of names, found {value!r:.80} in it")
    return values


def compile(text, file="text.tdsl", targets=None, kernels=None, instances=None):
    """Compiles text of the tile language in this process and returns a Pack.

    file: the text's name in messages, a path.  targets, kernels, instances: lists of names ("gfx950"; "T=bf16,Q=fp8"); None = the default device's target, all kernels, and
    the instances of the text's pack block.  Where the text is wrong, Error's text has all diagnostics.  Needs libtdslc.so: docs/python.md says from where.
    """
    if not isinstance(text, str):
        raise TypeError(f"tdsl.compile: text is a str, not {type(text).__name__}")
    options = CompileOptions()
    for field, values in (("targets", targets), ("kernels", kernels), ("instances", instances)):
        if values is not None:
            names = [v.encode() for v in _names(values, f"tdsl.compile: {field}")]
            setattr(options, field, ctypes.cast((c_char_p * (len(names) + 1))(*names, None), POINTER(c_char_p)))
    handle, data = c_void_p(), text.encode()
    code = lib.tdsl_compile(byref(handle), data, len(data), os.fsencode(file), byref(options))
    error = Error(code) if code < 0 else None
    if error and error.name == "TDSL_ECOMPILE":              # only then are the messages this text's
        error.args = (lib.tdsl_compile_messages().decode(errors="replace") or error.args[0],)
    if error:
        raise error
    return Pack(handle)


def warm_up(kernels, targets=None, jobs=0):
    """Compiles kernels ahead, in parallel, so that no call waits for it; returns how many entries are ready.

    kernels: for each a Kernel, whose pack's text is compiled, or (Kernel, instance) or (Kernel, instance, given).  instance: "T=bf16,Q=fp8"; None = the
    instances in the text's pack block, where a kernel with several possible ones must be listed.  given: the names of the optional tensors that calls
    will bring, for code specialised for exactly those, which calls use in place of code that tests for each; None = as the pack block has it.  targets:
    names; None = the default device's.  jobs: threads; 0 = as many as processors and memory allow.  If something cannot be compiled, the first failure
    is raised as an Error; the other entries are ready all the same.
    """
    items = []
    targets = [None] if targets is None else _names(targets, "tdsl.warm_up: targets")
    for entry in kernels:
        kernel, instance, given = (*entry, None, None)[:3] if isinstance(entry, tuple) else (entry, None, None)
        if not isinstance(kernel, Kernel) or (isinstance(entry, tuple) and len(entry) > 3):
            raise TypeError(f"expected a kernel, (kernel, instance) or (kernel, instance, given), found {entry!r}")
        if instance is not None and not isinstance(instance, str):
            raise TypeError(f"{kernel.__name__}: instance is a text such as \"T=bf16\", found {instance!r:.80}")
        given = None if given is None else _names(given, f"{kernel.__name__}: given")
        for target in targets:
            items.append(Warm(pack=kernel.pack.handle, kernel=kernel.__name__.encode(), instance=None if instance is None else instance.encode(), target=target and target.encode(),
                              given=None if given is None else " ".join(given).encode()))
    return check(lib.tdsl_warm_up((Warm * len(items))(*items), len(items), jobs))


def last_call():
    """What this thread's last call ran: kernel, instance, variant's predicate, target."""
    last = LastCall()
    check(lib.tdsl_last_call(byref(last)))
    return {name: getattr(last, name).decode() for name in ("kernel", "instance", "predicate", "target")}
