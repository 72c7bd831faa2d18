"""tdsl -- kernels from a pack as Python functions, on numpy arrays or anything that offers DLPack.

    import numpy as np, ml_dtypes, tdsl
    tdsl.open("sim:gfx942")                                  # or "hip:0", "cuda:0"; the first device opened is the default
    y, scale = tdsl.rmsnorm_quant(x, w, eps=1e-6)            # functions of the bundled pack
    y, scale = tdsl.rmsnorm_quant(x, w, y=np.int8)           # another output type; or y=array to write into
    pack = tdsl.open_pack("kernels.tpack")                   # any other pack: pack.rmsnorm_quant(...)
    pack = tdsl.compile(text, targets=["gfx950"])            # text to functions, where libtdslc.so is at hand
    tdsl.warm_up([tdsl.rmsnorm_mxfp4])                       # what calls would compile, ahead and in parallel

Arguments are the kernel's inputs, then its scalars, by position or by name; outputs are allocated by the inputs' library (numpy
or torch) unless they are given by name or by out=.  Strides are followed and nothing is copied on a simulated device or where a
tensor already lies on the device; numpy arrays on a real GPU are copied there (given outputs too) and the outputs back.  Errors are tdsl.Error
with the library's text and its code.  tdsl.torch registers torch operators; tdsl.aiter offers AITER's calls.
"""
import os
from pathlib import Path

from ._abi import BUILD, HERE
from ._device import Device, Error, open, set_default
from ._device import lock as _lock
from ._kernel import Kernel, Pack, compile, last_call, warm_up
from ._kernel import open_pack as _open_pack
from ._tensor import e2m1

__all__ = ["Device", "Error", "Kernel", "Pack", "add_pack", "bundled", "compile", "e2m1", "last_call", "open", "open_pack", "set_default", "warm_up"]

for _public in (Device, Error, Kernel, Pack, e2m1, compile, last_call, open, set_default, warm_up):
    _public.__module__ = __name__
_bundled = None


def open_pack(path=None):
    """Opens the pack at `path`, or the one bundled with the package."""
    if path is None:
        places = [HERE / "kernels.tpack", BUILD / "kernels.tpack"]
        path = next((p for p in places if p.exists()), places[0])
    return _open_pack(path)


def bundled():
    """The pack bundled with the package, opened once."""
    global _bundled
    with _lock:
        if _bundled is None:
            _bundled = open_pack()
        return _bundled


def add_pack(pack):
    """Makes the kernels of a Pack, or of the pack at a path, attributes of tdsl, before those of the packs already there."""
    pack = pack if isinstance(pack, Pack) else open_pack(pack)
    for name in pack.kernels:
        if name not in __all__:
            globals()[name] = pack[name]
    return pack


def _environment(name):
    """The first pack with this kernel of those in TDSL_PACK_PATH: files, and folders of *.tpack, separated by colons.

    An entry that cannot be opened hides no other; where none has the kernel, the AttributeError tells of it.
    """
    trouble = None
    for place in filter(None, os.environ.get("TDSL_PACK_PATH", "").split(":")):
        for path in sorted(Path(place).glob("*.tpack")) if Path(place).is_dir() else [Path(place)]:
            try:
                pack = _open_pack(path)
            except Error as error:
                trouble = trouble or error
                continue
            if name in pack.kernels:
                return pack
    if trouble:
        raise AttributeError(f"tdsl has no {name!r}: neither the bundled pack nor TDSL_PACK_PATH, where an entry cannot be opened: {trouble}") from trouble
    return None


def __getattr__(name):
    if name.startswith("_"):
        raise AttributeError(name)
    if name in ("torch", "aiter"):
        raise AttributeError(f"tdsl.{name} is a module of its own: import tdsl.{name}")
    pack = bundled()
    if name not in pack.kernels:
        pack = _environment(name)
    if pack is None:
        raise AttributeError(f"tdsl has no {name!r}; the bundled pack has {', '.join(bundled().kernels)}")
    globals()[name] = pack[name]                    # the next look-up does not come here
    return globals()[name]


def __dir__():
    return sorted({*globals(), *bundled().kernels})
