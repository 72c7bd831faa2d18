"""make_stubs.py FOLDER -- type stubs and docstrings for the package in FOLDER, from the kernels of its pack.

In: the package, complete, importable as tdsl.  Out: FOLDER/__init__.pyi, one function a kernel with its parameters, defaults and
docstring, after the package's own functions.  The docstrings at run time (help, ?) come from the same text: _kernel.doc_of.
"""
import keyword
import sys
from pathlib import Path

import tdsl
from tdsl._kernel import shown

HEAD = '''"""Functions of tdsl and of the bundled pack ({targets}); written by make_stubs.py from the pack."""
from collections.abc import Iterator, Sequence
from typing import Any

Array = Any   # numpy.ndarray, torch.Tensor, or another object with __dlpack__; outputs come from the inputs' library
Output = Any  # an array to write into, or an element type to allocate

class Error(RuntimeError):
    code: int
    name: str

class Device:
    name: str
    kind: str
    target: str
    def on(self, native: Any) -> Any: ...
    def sync(self) -> None: ...

class Param:
    name: str
    rank: int
    extents: str
    types: list[str]
    default: float | int | None
    is_tensor: bool
    is_list: bool
    is_input: bool
    is_output: bool
    is_optional: bool

class Kernel:
    params: list[Param]
    instances: list[str]
    def __call__(self, *args: Any, out: Any = ..., device: Device | str | None = ..., stream: Any = ..., stage: bool | None = ..., **named: Any) -> Any: ...

class Pack:
    targets: list[str]
    kernels: list[str]
    def __getattr__(self, name: str) -> Kernel: ...
    def __getitem__(self, name: str) -> Kernel: ...
    def __iter__(self) -> Iterator[str]: ...

class e2m1:
    def __init__(self, packed: Any) -> None: ...

def open(name: str) -> Device: ...
def set_default(device: Device | str) -> Device: ...
def open_pack(path: Any = ...) -> Pack: ...
def bundled() -> Pack: ...
def add_pack(pack: Any) -> Pack: ...
def compile(text: str, file: Any = ..., targets: Sequence[str] | None = ..., kernels: Sequence[str] | None = ...,
            instances: Sequence[str] | None = ...) -> Pack: ...
def warm_up(kernels: Iterable[Kernel | tuple[Kernel, str | None] | tuple[Kernel, str | None, Iterable[str] | None]],
            targets: Sequence[str] | None = ..., jobs: int = ...) -> int: ...
def last_call() -> dict[str, str]: ...
'''
CONTROLS = {"out": "Any", "device": "Device | str | None", "stream": "Any", "stage": "bool | None"}


def stub(kernel):
    """One kernel as a function of a stub file."""
    by_name, parts, starred = {shown(p.name): p for p in kernel.params}, [], False
    for p in kernel.__signature__.parameters.values():
        if p.kind is p.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        param = by_name.get(p.name)
        if param is None:
            kind = CONTROLS[p.name]
        elif not param.is_tensor:
            kind = "int" if param.letter in "il" else "float"
        elif param.is_list:
            kind = "Sequence[Array]" if param.is_input else "Sequence[Array] | Any"
        elif param.is_input:
            kind = "Array | None" if param.is_optional else "Array"
        else:
            kind = "Output"
        default = "" if p.default is p.empty else " = ..." if p.default is None else f" = {p.default!r}"
        parts.append(f"{p.name}: {kind}{default}")
    kinds = ["list[Array]" if kernel.params[i].is_list else "Array" for i in kernel.outputs]
    result = kinds[0] if len(kinds) == 1 else f"tuple[{', '.join(kinds)}]" if not any(kernel.params[i].is_optional for i in kernel.outputs) else "tuple[Array, ...]"
    doc = kernel.__doc__.replace("\\", "\\\\").replace('"""', "'''").replace("\n", "\n    ")
    doc = "\n".join(line.rstrip() for line in doc.split("\n"))
    return f'\ndef {kernel.__name__}({", ".join(parts)}) -> {result}:\n    """{doc}\n    """\n'


def main(folder):
    pack = tdsl.bundled()
    text = HEAD.format(targets=", ".join(pack.targets)) + "".join(stub(pack[k]) for k in pack if not keyword.iskeyword(k))
    compile(text, "__init__.pyi", "exec")                    # what is written parses
    (folder / "__init__.pyi").write_text(text)


main(Path(sys.argv[1]))
