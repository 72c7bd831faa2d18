"""tdsl.torch -- the kernels as torch operators: torch.ops.tdsl.NAME, and tdsl.torch.NAME for short.

In: a pack (at import the bundled one; `register` takes others).  Out: for each kernel an operator with a schema from the pack, a
fake function, so that torch.compile and torch.export trace it without a graph break and with symbolic sizes, and a backward
where the pack has one.  Outputs are allocated by torch and returned.

torch.ops.tdsl.K takes the inputs and scalars; an optional output is a flag of its name, and comes back empty where that is not
set.  tdsl.torch.K is a function on top: it returns the outputs that were asked for alone, and sets the flags that a backward
needs.  Optional tensors that a kernel updates make a second overload, torch.ops.tdsl.K.inout, which torch does not differentiate.

Backward, by names: K_bwd serves K, K_act and K_rows if each of its required inputs is an input, a scalar or an output of K, or
"d" and the name of one of K's outputs, and its outputs are "d" and names of K's inputs.  Where K has res and res_out (its row is
x + res), K_bwd gets res_out for x and the gradient of res_out for dres, and its dx is the gradient of both.  What has no
backward is refused in backward(), by name; so is a gradient of an input for which K_bwd has no output.
"""
import ast
import ctypes
import functools
import math
import operator

import torch

from . import bundled
from ._abi import Arg, DLDataType, DLTensor, PackInfo, lib
from ._device import check, device_at
from ._kernel import Pack, shown
from ._tensor import E2M1, torch_code, torch_dtype

OPERATIONS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.floordiv, ast.FloorDiv: operator.floordiv,
              ast.Mod: operator.mod}
FUNCTIONS = {"cdiv": lambda a, b: (a + b - 1) // b, "min": min, "max": max}
WIDE = ("f32", "f16", "bf16", "f64")
# An optional input that K_bwd neither takes nor has a gradient of must be absent: it would change the others'.  A mask acts through the output.
HARMLESS = ("mask",)
PLANS = 4096                                                 # kept of an operator
_default = ctypes.c_void_p()                                 # the default device when last asked
_kernels = {}                                                # operators registered, by name
_functions = {}                                              # tdsl.torch.NAME


def _evaluate(node, symbols):
    """The value of an extent's text, also over symbolic sizes."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return symbols[node.id]
    if isinstance(node, ast.BinOp):
        return OPERATIONS[type(node.op)](_evaluate(node.left, symbols), _evaluate(node.right, symbols))
    if isinstance(node, ast.Call):
        return FUNCTIONS[node.func.id](*(_evaluate(a, symbols) for a in node.args))
    raise NotImplementedError(f"extent {ast.unparse(node)}")


@functools.cache
def _parsed(text):
    return ast.parse(f"({text},)", mode="eval").body.elts if text else []


def _extents(param):
    return _parsed(param.extents.strip())


def _folded(value, rank):
    """A tensor whose leading dimensions have one stride where a kernel's formal has `rank` dimensions: the same, or a copy."""
    sizes, strides = value.shape, value.stride()
    rows = [i for i in range(value.dim() - rank + 1) if sizes[i] != 1]
    return value if all(strides[a] == strides[b] * sizes[b] for a, b in zip(rows, rows[1:])) else value.contiguous()


def _place(values):
    """Where the first tensor among these lies."""
    return next((v.device for v in values if isinstance(v, torch.Tensor)), None)


class _Ones(dict):
    """Every size is 1."""

    def __missing__(self, name):
        return 1


class _Operator:
    """One overload of a kernel's operator with what torch needs to know of it.  inout: with the optional tensors that it updates."""

    def __init__(self, kernel, backward, inout):
        self.kernel, self.backward, self.name = kernel, backward, kernel.__name__ + (".inout" if inout else "")
        takes = [kernel.params[i] for i in kernel.takes]
        also = [p for p in takes if p.is_tensor and p.is_output and p.is_optional]
        self.takes = [p for p in takes if p not in also]     # by position
        self.also = also if inout else []                    # by name
        pure = [i for i in kernel.outputs if not kernel.params[i].is_input]
        self.outputs = sorted(pure, key=lambda i: kernel.params[i].is_optional)      # required ones first
        self.flags = [kernel.params[i].name for i in self.outputs if kernel.params[i].is_optional]
        self.updates = any(p.is_tensor and p.is_output for p in self.takes + self.also)
        inputs = [p for p in self.takes if p.is_tensor]
        of_inputs = [tuple(p.by_instance[i] for p in inputs) for i in range(len(kernel.instances))]
        # where equal inputs allow several types of an output, the caller may name one; optional ones follow those that are always there
        always = [i for i in pure if not kernel.params[i].is_optional]
        self.chosen = [i for i in always or pure if any(
            of_inputs[a] == of_inputs[b] and kernel.params[i].by_instance[a] != kernel.params[i].by_instance[b]
            for a in range(len(of_inputs)) for b in range(a))]
        self.names = [p.name for p in self.takes]
        self.known = {}                                      # element types of the outputs by those of the inputs
        self.plans = {}                                      # outputs by the types and shapes of the inputs

    def schema(self):
        parts, default = [], True                            # nothing without a default follows one that has it
        for i, p in reversed(list(enumerate(self.takes))):
            default = default and (p.is_optional if p.is_tensor else p.default is not None)
            if p.is_tensor:
                mark = f"({chr(97 + i)}!)" if p.is_output else "?" if p.is_optional else ""
                parts.insert(0, f"Tensor{mark} {shown(p.name)}" + ("=None" if default else ""))
            else:
                parts.insert(0, f"{'int' if p.letter in 'il' else 'float'} {shown(p.name)}" + (f"={p.default!r}" if default else ""))
        named = [f"Tensor({chr(97 + len(self.takes) + i)}!) {p.name}" for i, p in enumerate(self.also)]
        named += [f"ScalarType? {self.kernel.params[i].name}_dtype=None" for i in self.chosen] + [f"bool {name}=False" for name in self.flags]
        n = len(self.outputs)
        return f"({', '.join(parts + ['*'] * bool(named) + named)}) -> {'Tensor' if n == 1 else '(' + ', '.join(['Tensor'] * n) + ')'}"

    def values(self, args, named):
        """Arguments by the kernel's names, the types asked for, and the outputs to make."""
        values = dict(zip((p.name for p in self.takes), args))
        values.update((k, v) for k, v in named.items() if not k.endswith("_dtype") and k not in self.flags)
        types = {k[:-6]: v for k, v in named.items() if k.endswith("_dtype") and v is not None}
        for name, dtype in types.items():
            torch_code(dtype, f"{self.kernel.__name__}: {name}")
        return {k: v for k, v in values.items() if v is not None}, types, {n for n in self.flags if named.get(n)}

    def run(self, *args, **named):
        place = args[0].get_device() if args and isinstance(args[0], torch.Tensor) else _place((*args, *named.values()))
        key = (lib.tdsl_default(_default), _default.value, place, *[(v.shape, v.dtype) if isinstance(v, torch.Tensor) else None for v in args],
               *[(n, v.shape, v.dtype) if isinstance(v, torch.Tensor) else (n, v) for n, v in named.items()])
        plan = self.plans.get(key)
        if plan is None:
            if len(self.plans) >= PLANS:
                self.plans.clear()
            plan = self.plans[key] = self.plan(*self.values(args, named))
        outputs, given, new, direct = plan
        values = dict(zip(self.names, args))
        values.update((n, v) for n, v in named.items() if isinstance(v, torch.Tensor))
        if direct:                                           # the warm path of a call makes the same outputs, sooner
            return self.kernel(**values)
        like = next(v for v in values.values() if isinstance(v, torch.Tensor))
        made = [getattr(like, new)(shape, dtype=dtype) for _, shape, dtype in outputs]
        self.kernel(**values, **{outputs[i][0]: made[i] for i in given})
        return tuple(made) if len(made) > 1 else made[0] if made else None

    def fake(self, *args, **named):
        values, types, wanted = self.values(args, named)
        outputs, _, new, _ = self.plan(values, types, wanted)
        like = next(v for v in values.values() if isinstance(v, torch.Tensor))
        made = tuple(getattr(like, new)(shape, dtype=dtype) for _, shape, dtype in outputs)
        return made if len(made) > 1 else made[0] if made else None

    def plan(self, values, types, wanted):
        """The outputs to make as (name, shape, type), those of them to hand to the kernel, and by what: leading dimensions of the inputs
        are kept, an optional one that is not wanted has no elements; where `tokens` says how many rows are there, the others are zero.
        Last, whether a call of the kernel makes just these by itself."""
        symbols, leading, given, like, device = {}, {}, {}, None, device_at(_place(values.values()))
        for p in self.takes + self.also:
            value = values.get(p.name)
            if not p.is_tensor or value is None:
                continue
            like = value if like is None else like
            given[p.name] = torch_code(value.dtype, f"{self.kernel.__name__}: {p.name}")
            extents, shape = _extents(p), list(value.shape)
            if given[p.name] == E2M1:
                shape[-1] = shape[-1] * 2
            folded = len(shape) - len(extents)
            if folded < 0:
                raise RuntimeError(f"tdsl::{self.name}: {p.name} has {len(shape)} dimensions; {p.extents} are expected")
            if not extents:
                continue
            if folded and isinstance(extents[0], ast.Name):
                leading.setdefault(extents[0].id, shape[:folded + 1])
            for node, size in zip(extents, [math.prod(shape[:folded + 1]), *shape[folded + 1:]]):
                self.solve(node, size, symbols)
        if self.backward:                                    # which takes the gradient in the type of the input
            types = {**{self.kernel.params[i].name: like.dtype for i in self.chosen}, **types}
        codes, outputs, handed = self.element_types(given, types, device), [], []
        for i in self.outputs:
            p, dtype = self.kernel.params[i], torch_dtype(codes[i])
            extents, there = _extents(p), p.name in wanted or p.name not in self.flags
            shape = [_evaluate(e, symbols) for e in extents] if there else [0]
            if there and extents and isinstance(extents[0], ast.Name) and extents[0].id in leading:
                shape[:1] = leading[extents[0].id]
            if codes[i] == E2M1:
                shape[-1] = shape[-1] // 2
            if there:
                handed.append(len(outputs))
            outputs.append((p.name, shape, dtype))
        direct = not self.flags and not self.updates and "tokens" not in given and self.is_own(values, given, codes, outputs, device)
        return outputs, handed, "new_zeros" if "tokens" in given else "new_empty", direct

    def is_own(self, values, given, codes, outputs, device):
        """Whether the runtime, asked for no type, gives its outputs these types and shapes."""
        if E2M1 in (*given.values(), *codes.values()) or any(isinstance(n, torch.SymInt) for _, shape, _ in outputs for n in shape):
            return False
        found = self.of_runtime(given, {}, device, {n: v.shape for n, v in values.items() if n in given})
        return all(found[i] == (codes[i], shape) for i, (_, shape, _) in zip(self.outputs, outputs))

    @staticmethod
    def solve(node, size, symbols):
        """Binds the symbol of an input's extent: N, 2*N, N*2, N + 1."""
        if isinstance(node, ast.Name):
            symbols.setdefault(node.id, size)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Add)):
            left, right = (node.left, node.right) if isinstance(node.right, ast.Constant) else (node.right, node.left)
            if isinstance(right, ast.Constant):
                _Operator.solve(left, size // right.value if isinstance(node.op, ast.Mult) else size - right.value, symbols)

    def element_types(self, given, types, device):
        """DLPack's codes of the outputs: of the first instance that takes these inputs and gives these types; else, where a compiler
        is at hand, of the one that it makes."""
        key = (device.target, *given.items(), *types.items())
        if key not in self.known:
            ones = {p.name: [_evaluate(e, _Ones()) for e in _extents(p)] for p in self.kernel.params}
            self.known[key] = self.of_pack(given, types, device.target) or {
                i: code for i, (code, _) in self.of_runtime(given, types, device, ones).items()}
        return self.known[key]

    def of_pack(self, given, types, target):
        at = {p.name: i for i, p in enumerate(self.kernel.params)}
        for instance in range(len(self.kernel.instances)):
            found = {i: self.kernel.element(instance, i, target) for i in [*self.outputs, *(at[n] for n in given)]}
            if all(found[at[n]] == code for n, code in given.items()) and all(torch_dtype(found[at[n]]) == kind for n, kind in types.items()):
                return {i: found[i] for i in self.outputs}
        return None

    def of_runtime(self, given, types, device, shapes):
        """Asks with tensors of these shapes: types and shapes of the outputs."""
        kernel, hold, found = self.kernel, [], {}
        args, shape = (Arg * len(kernel.params))(), (ctypes.c_int64 * 8)()
        for i, p in enumerate(kernel.params):
            code = torch_code(types[p.name], p.name) if p.name in types else given.get(p.name)
            if code is not None:
                sizes = (ctypes.c_int64 * 8)(*shapes[p.name])
                hold.append(DLTensor(ndim=len(shapes[p.name]), dtype=DLDataType(*code, 1), shape=sizes))
                hold[-1].device = device.dl
                args[i].t = ctypes.pointer(hold[-1])
        for i in self.outputs:
            dtype = DLDataType()
            rank = check(lib.tdsl_output(ctypes.byref(dtype), shape, kernel.handle, device.stream, args, len(kernel.params), i))
            found[i] = (dtype.code, dtype.bits), shape[:rank]
        return found

    # ---- gradients

    def setup_context(self, ctx, inputs, output, keyword_only_inputs=None):
        names = [self.kernel.params[i].name for i in self.outputs]
        outputs = dict(zip(names, output if isinstance(output, tuple) else (output,)))
        tensors = {p.name: v for p, v in zip(self.takes, inputs) if p.is_tensor and v is not None}
        ctx.types = {n: v.dtype for n, v in tensors.items()}
        ctx.likes = {n: (o.shape, o.dtype, o.device) for n, o in outputs.items()}
        ctx.scalars = {p.name: v for p, v in zip(self.takes, inputs) if not p.is_tensor}
        wanted = {p.name for p in _kernels[self.backward].takes} if self.backward else set()
        through = {n for n in names if "d" + n in wanted} | ({"res_out"} if "res" in tensors and "dres" in wanted else set())
        ctx.mark_non_differentiable(*(o for n, o in outputs.items() if self.backward and n not in through or o.dtype.itemsize < 2
                                      or not o.dtype.is_floating_point))
        tensors.update((n, o) for n, o in outputs.items() if n not in self.flags or keyword_only_inputs[n])
        if "res" in tensors and "dres" in wanted:            # the row is x + res
            tensors["x"] = tensors.get("res_out")
        ctx.names = [n for n in wanted if tensors.get(n) is not None]
        ctx.save_for_backward(*(tensors[n] for n in ctx.names))

    def differentiate(self, ctx, *grads):
        if not self.backward:
            raise NotImplementedError(f"tdsl::{self.name} has no backward: the pack holds no kernel {self.name}_bwd")
        back = _kernels[self.backward]
        takes, gives = {p.name: p for p in back.takes}, {back.kernel.params[i].name for i in back.outputs}
        needs = [p.name for p, need in zip(self.takes, ctx.needs_input_grad) if need]
        both = "res" in ctx.types and "dres" in takes
        for name in needs:
            if "d" + name not in gives and not (both and name == "res"):
                raise NotImplementedError(f"tdsl::{self.name} has no gradient of {name}: {self.backward} gives {', '.join(sorted(gives))}")
        for name in ctx.types:
            if name not in takes and "d" + name not in gives and name not in HARMLESS and not (both and name == "res") and next(p for p in self.takes if p.name == name).is_optional:
                raise NotImplementedError(f"tdsl::{self.name} has no backward with {name}: {self.backward} does not take it")
        values = {n: v for n, v in ctx.scalars.items() if n in takes}
        values.update((n, _folded(v, len(_extents(takes[n])))) for n, v in zip(ctx.names, ctx.saved_tensors))
        for i, grad in zip(self.outputs, grads):
            name = self.kernel.params[i].name
            if "d" + name in takes:
                shape, dtype, device = ctx.likes[name]
                values["d" + name] = torch.zeros(shape, dtype=dtype, device=device) if grad is None else grad.contiguous()
            elif name == "res_out" and both and grad is not None:
                values["dres"] = grad.contiguous()
        missing = [n for n, p in takes.items() if p.is_tensor and not p.is_optional and n not in values]
        if missing:
            missing = ["res_out" if both and n == "x" else n for n in missing]
            raise NotImplementedError(f"tdsl::{self.name}: its backward needs {', '.join(missing)}: call it with {missing[0]}=True, or as tdsl.torch.{self.name}")
        values.update((p.name, None) for p in back.takes if p.is_tensor and p.name not in values)
        result = getattr(torch.ops.tdsl, self.backward)(**{shown(n): v for n, v in values.items()}, **{n: n[1:] in needs for n in back.flags})
        found = dict(zip((back.kernel.params[i].name for i in back.outputs), result if isinstance(result, (tuple, list)) else (result,)))
        source = {p.name: "dx" if both and p.name == "res" else "d" + p.name for p in self.takes}
        return tuple(found[source[p.name]].to(ctx.types[p.name]) if p.name in needs else None for p in self.takes)


def _backward_of(kernel, pack):
    """The name of the kernel that gives its gradients, or None."""
    name = kernel.__name__
    inputs = {kernel.params[i].name for i in kernel.takes}
    outputs = {kernel.params[i].name for i in kernel.outputs}
    # only numbers have gradients, codes do not
    wide = {p.name for p in (kernel.params[i] for i in kernel.outputs) if set(p.types) & set(WIDE)}
    for stem in [name] + [name[:-len(end)] for end in ("_act", "_rows") if name.endswith(end)]:
        if stem + "_bwd" not in pack.kernels:
            continue
        back = pack[stem + "_bwd"]
        takes = [back.params[i] for i in back.takes]
        if (all(p.name in inputs | outputs | {"d" + o for o in wide} for p in takes if p.is_tensor and not p.is_optional)
                and all(back.params[i].name in {"d" + i for i in inputs} for i in back.outputs)):
            return back.__name__
    return None


def _function(op):
    """tdsl.torch.K: the outputs asked for, and for a backward what it needs."""
    name, flags = op.kernel.__name__, op.flags
    packet = getattr(torch.ops.tdsl, name)
    taken = {p.name for p in _kernels[op.backward].takes} if op.backward else set()
    saved = [n for n in flags if n in taken or (n == "res_out" and "dres" in taken)]
    place = next((i for i, p in enumerate(op.takes) if p.name == "res"), len(op.takes))
    outputs = [op.kernel.params[i].name for i in op.outputs]

    def function(*args, **named):
        wanted = [n for n in outputs if n not in flags or named.get(n)]
        if saved and torch.is_grad_enabled() and any(isinstance(a, torch.Tensor) and a.requires_grad for a in (*args, *named.values())):
            has_res = named.get("res") is not None or len(args) > place and args[place] is not None
            named.update((n, True) for n in saved if n != "res_out" or has_res)
        result = packet(*args, **named)
        result = [r for n, r in zip(outputs, result if isinstance(result, (tuple, list)) else (result,)) if n in wanted]
        return result[0] if len(result) == 1 else tuple(result)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = op.kernel.__doc__
    return function


def _is_one(a, b):
    """Whether two kernels of one name are one: of the same pack, or of packs of one text with code for the same targets and types."""
    def known(kernel):
        info = PackInfo()
        check(lib.tdsl_pack_query(ctypes.byref(info), kernel.pack.handle))
        return lib.tdsl_pack_source(kernel.pack.handle), [info.targets[i] for i in range(info.ntargets)], kernel.instances
    return a is b or (known(a) == known(b) and known(a)[0] != b"")


def register(pack: Pack):
    """Registers the kernels of a pack as operators.  Returns the new names: those that are there already stay.

    An operator's name is one for the process: where another pack's kernel has it, ValueError says so and nothing is registered.
    """
    if not isinstance(pack, Pack):
        raise TypeError(f"tdsl.torch.register: a Pack is expected, not {type(pack).__name__}")
    for name in pack.kernels:
        there = _kernels[name].kernel if name in _kernels else _functions.get(name)
        if there is not None and not _is_one(there, pack[name]):
            raise ValueError(f"tdsl.torch.register: tdsl.torch.{name} is a kernel of another pack; nothing was registered.  "
                             "Give the kernel another name, or call it as the pack's own")
    new = [name for name in pack.kernels if name not in _functions]
    lists = {name: pack[name] for name in new if any(p.is_list for p in pack[name].params)}
    new = [name for name in new if name not in lists]
    _functions.update(lists)
    for name in new:
        kernel = pack[name]
        backward = _backward_of(kernel, pack)
        _kernels[name] = _Operator(kernel, backward, False)
        overloads = [_kernels[name]] + ([_Operator(kernel, None, True)] if any(
            p.is_tensor and p.is_input and p.is_output and p.is_optional for p in kernel.params) else [])
        for op in overloads:
            torch.library.define(f"tdsl::{op.name}", op.schema())
            torch.library.impl(f"tdsl::{op.name}", "CompositeExplicitAutograd")(op.run)
            torch.library.register_fake(f"tdsl::{op.name}")(op.fake)
            if not op.updates:                               # torch differentiates only operators that change nothing
                torch.library.register_autograd(f"tdsl::{op.name}", op.differentiate, setup_context=op.setup_context)
    for name in new:
        _functions[name] = _function(_kernels[name])
    return [*new, *lists]


def __getattr__(name):
    if name in _functions:
        return _functions[name]
    raise AttributeError(f"tdsl.torch has no {name!r}; registered are {', '.join(_kernels)}")


def __dir__():
    return sorted({*globals(), *_kernels})


register(bundled())
