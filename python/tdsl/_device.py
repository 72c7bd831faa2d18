"""Errors, devices and streams.

In: names of devices, streams as integers or as the objects of torch and cupy.  Out: Device objects, each with the runtime's
handles; they are opened once, on whatever thread, and stay open, as the runtime's default device does.
"""
import os
import sys
import threading
from ctypes import byref, c_void_p

from ._abi import DeviceInfo, core, lib

GPU_KINDS = ("hip", "cuda")
lock = threading.RLock()                                     # of what is opened once: devices, their streams, the bundled pack


class Error(RuntimeError):
    """What the library refused, in its words; `code` is its number and `name` its name, e.g. "TDSL_ESHAPE".

    text None = that of this thread's last call of the library.  Copies and pickles keep text, code and notes.
    """

    def __init__(self, code, text=None):
        super().__init__(lib.tdsl_error().decode(errors="replace") if text is None else text)
        self.code, self.name = code, lib.tdsl_error_name(code).decode()

    def __reduce__(self):
        return type(self), (self.code, str(self)), self.__dict__


def check(code):
    if code < 0:
        raise Error(code)
    return code


def fail(code):
    raise Error(code)


def native_of(stream, what="stream"):
    """The driver's stream as an integer (0 = its default one): of an integer, None, or an object of torch (cuda_stream) or cupy (ptr)."""
    native = getattr(stream, "cuda_stream", getattr(stream, "ptr", stream)) or 0
    if not isinstance(native, int) or not 0 <= native < 2**64:
        raise TypeError(f"{what} is {stream!r:.80}; the driver's stream is expected: an integer, or a stream of torch or cupy")
    return native


class Device:
    """An open device.  `stream` is the runtime's stream for the driver's default one; `on` gives those for others."""

    def __init__(self, name):
        if not isinstance(name, str):
            raise TypeError(f"a device's name is expected, such as \"hip:0\", not {name!r:.80}")
        self.handle, info = c_void_p(), DeviceInfo()
        check(lib.tdsl_open(byref(self.handle), name.encode()))
        check(lib.tdsl_device_query(byref(info), self.handle))
        self.name, self.kind, self.target, self.dl = name, info.kind.decode(), info.target.decode(), info.dl
        self.streams = {}
        self.stream = self.on(0)
        core.place(name, self, self.handle.value, self.stream.value, self.kind not in GPU_KINDS)

    def __repr__(self):
        return f"tdsl.Device({self.name!r}, target={self.target!r})"

    def on(self, native):
        """The runtime's stream for a stream of the driver: an integer, or an object of torch (cuda_stream) or cupy (ptr)."""
        native = native_of(native)
        with lock:
            if native not in self.streams:
                stream = c_void_p()
                check(lib.tdsl_stream_open(byref(stream), self.handle, native or None))
                self.streams[native] = stream
                if self.kind in GPU_KINDS:
                    core.stream(self.dl.device_type, self.dl.device_id, native, stream.value)
        return self.streams[native]

    def sync(self):
        """Waits for the work of the default stream; errors of earlier launches show here."""
        check(lib.tdsl_sync(self.stream))


_devices = {}


def _forked():
    """In a forked child, where a driver's devices do not work: opening one there asks the library, which refuses it."""
    for name in [n for n, device in _devices.items() if device.kind in GPU_KINDS]:
        del _devices[name]
    lock.release()


os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=_forked)


def open(name):
    """The device of this name ("hip:0", "cuda:0", "sim:gfx942", "null:gfx942"), opened once.  The first one is the default of every call."""
    if not isinstance(name, str):
        raise TypeError(f"tdsl.open: a device's name is expected, such as \"hip:0\", not {name!r:.80}")
    with lock:
        if name not in _devices:
            _devices[name] = Device(name)
        return _devices[name]


def device_of(device, what="device"):
    """A Device for a Device, a name, or None: the default device by the runtime's rules."""
    if isinstance(device, Device):
        return device
    if device is not None and not isinstance(device, str):
        raise TypeError(f"{what} is {device!r:.80}; a Device is expected, or a name such as \"hip:0\"")
    if device is not None:
        return open(device)
    handle, info = c_void_p(), DeviceInfo()
    check(lib.tdsl_default(byref(handle)))
    check(lib.tdsl_device_query(byref(info), handle))
    return open(info.name.decode())


def device_at(place):
    """A Device for a torch.device: that GPU; the default device for any other place, and for None."""
    if place is None or place.type != "cuda":
        return device_of(None)
    return open(f"{'hip' if sys.modules['torch'].version.hip else 'cuda'}:{place.index or 0}")


def set_default(device):
    """Makes a device (or the one of this name) the default of every call."""
    device = device_of(device)
    check(lib.tdsl_set_default(device.handle))
    return device
