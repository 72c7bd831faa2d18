"""Lists of tensors: many arrays as one argument of a kernel whose text says `x: list T[K, N]`.

In: a Python list or tuple of arrays.  Out: TensorList, which stands for them where a Tensor stands for one.  The table of addresses that
the runtime keeps on the device is opened once for the same addresses and sizes: it holds nothing else, so that a table used again is
right whatever happened to the arrays in between.  The least recently used ones are closed.
"""
import ctypes
from collections import OrderedDict
from ctypes import POINTER, byref, c_void_p

from ._abi import DLDataType, DLTensor, lib
from ._device import Error, check
from ._tensor import HOST, Tensor

TABLES = 256                                                 # kept
_tables = OrderedDict()


def _place(t):
    """All that a table and the checks of tdsl_list_open see of a tensor."""
    strides = tuple(t.strides[:t.ndim]) if t.strides else None
    return t.device.device_type, t.device.device_id, t.data, t.byte_offset, t.dtype.code, t.dtype.bits, t.dtype.lanes, tuple(t.shape[:t.ndim]), strides


def _table(device, code, tensors):
    """The DLTensor of a list of these, on a device."""
    key = (device.handle.value, code, *[_place(t.t) for t in tensors])
    if key in _tables:
        _tables.move_to_end(key)
        return lib.tdsl_list_tensor(_tables[key])
    items, handle = (POINTER(DLTensor) * max(len(tensors), 1))(*[ctypes.pointer(t.t) for t in tensors]), c_void_p()
    check(lib.tdsl_list_open(byref(handle), device.handle, DLDataType(*code, 1), items, len(tensors)))
    _tables[key] = handle
    if len(_tables) > TABLES:
        lib.tdsl_list_close(_tables.popitem(last=False)[1])
    return lib.tdsl_list_tensor(handle)


class TensorList:
    """One argument that is a list; what Tensor has, of all its tensors."""

    def __init__(self, value, what, output=False):
        if not isinstance(value, (list, tuple)):
            raise TypeError(f"{what}: a list of arrays is expected, not {type(value).__name__}")
        self.value, self.what, self.pointer = list(value), what, None
        self.items = [Tensor(v, f"{what}[{i}]", output) for i, v in enumerate(value)]
        self.library = self.items[0].library if self.items else "numpy"

    @property
    def t(self):
        return self.items[0].t if self.items else DLTensor(device=(1, 0))

    @property
    def on_host(self):
        return all(t.t.device.device_type in HOST for t in self.items)

    @property
    def code(self):
        """Of its elements; None where there are none."""
        return (self.t.dtype.code, self.t.dtype.bits) if self.items else None

    def take(self, stream):
        for t in self.items:
            if not t.on_host and t.library != "torch":
                t.take(stream)

    def open(self, device, code):
        try:
            return _table(device, self.code or code, self.items)
        except Error as error:
            error.args = (f"{self.what}: {error.args[0]}",)  # the runtime knows the tensor's number, not the argument
            raise

    def stage(self, device, upload):
        for t in self.items:
            if t.library == "numpy":
                t.stage(device, upload)
        self.pointer = True

    def fetch(self):
        for t in self.items:
            if t.pointer is not None:
                t.fetch()

    def release(self):
        for t in self.items:
            t.release()
