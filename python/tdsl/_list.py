"""Lists of tensors: many arrays as one argument of a kernel whose text says `x: list T[K, N]`.

In: a Python list or tuple of arrays.  Out: TensorList, which stands for them where a Tensor stands for one.  The table of addresses that
the runtime keeps on the device is opened once for the same addresses and sizes: it holds nothing else, so that a table used again is
right whatever happened to the arrays in between.  Of those that no call holds the least recently used are closed, when the streams that
used them are done (but for streams known by a number alone); one that was used while torch captured a graph is never closed, since the graph has its address.
"""
import ctypes
import sys
import threading
from collections import OrderedDict
from ctypes import POINTER, byref, c_void_p

from ._abi import DLDataType, DLTensor, lib
from ._device import Error, check
from ._tensor import HOST, Tensor

TABLES = 256                                                 # kept
_tables, _lock = OrderedDict(), threading.Lock()


def _place(t):
    """All that a table and the checks of tdsl_list_open see of a tensor."""
    strides = tuple(t.strides[:t.ndim]) if t.strides else None
    return t.device.device_type, t.device.device_id, t.data, t.byte_offset, t.dtype.code, t.dtype.bits, t.dtype.lanes, tuple(t.shape[:t.ndim]), strides


class _Table:
    """An opened list.  `calls` counts those that hold it now; `streams` are the addresses of the runtime's streams that it was used on, with
    what keeps the driver's stream there (a stream of cupy, say)."""

    def __init__(self, device, code, tensors):
        items, self.handle = (POINTER(DLTensor) * max(len(tensors), 1))(*[ctypes.pointer(t.t) for t in tensors]), c_void_p()
        check(lib.tdsl_list_open(byref(self.handle), device.handle, DLDataType(*code, 1), items, len(tensors)))
        self.calls, self.streams, self.captured = 0, {}, False

    def close(self):
        for stream in self.streams:
            lib.tdsl_sync(stream)                            # a failure of that work is told by the next call on its stream
        lib.tdsl_list_close(self.handle)


def _is_captured(tensors):
    """Whether torch is capturing a graph on the stream where a call with these tensors runs."""
    gpu = any(t.library == "torch" and not t.on_host for t in tensors)
    return gpu and sys.modules["torch"].cuda.is_current_stream_capturing()


def _table_take(device, code, tensors):
    """The table of these on a device; the call that it is for gives it back by `_table_give`."""
    key = (device.handle.value, code, *[_place(t.t) for t in tensors])
    captured = _is_captured(tensors)
    with _lock:
        table = _tables.get(key)
        if table is None:
            table = _tables[key] = _Table(device, code, tensors)
        _tables.move_to_end(key)
        table.calls += 1
        table.captured |= captured
    return table


def _table_give(table):
    """Ends a call's use of a table, and closes what is kept beyond TABLES."""
    with _lock:
        table.calls -= 1
        over = len(_tables) - TABLES
        idle = [key for key, t in _tables.items() if not t.calls and not t.captured] if over > 0 else []
        closed = [_tables.pop(key) for key in idle[:over]]
    for table in closed:
        table.close()


class TensorList:
    """One argument that is a list; what Tensor has, of all its tensors."""

    def __init__(self, value, what, output=False):
        if not isinstance(value, (list, tuple)):
            raise TypeError(f"{what}: a list of arrays is expected, not {type(value).__name__}")
        self.value, self.what, self.pointer, self.table = list(value), what, None, None
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
        """The DLTensor of the list, good until `release`; an empty list's elements are of type `code`."""
        try:
            self.table = _table_take(device, self.code or code, self.items)
            return lib.tdsl_list_tensor(self.table.handle)
        except Error as error:
            error.args = (f"{self.what}: {error.args[0]}",)  # the runtime knows the tensor's number, not the argument
            raise

    def use(self, stream, owner):
        """Tells that work on a stream of the runtime reads the table; owner keeps the driver's stream, None: nothing here does.  Such a
        stream may be gone when the table is closed: it is not waited for, and the driver's own wait before it frees memory has to do."""
        if owner is not None:
            self.table.streams[stream.value] = owner

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
        if self.table is not None:
            _table_give(self.table)
        for t in self.items:
            t.release()
