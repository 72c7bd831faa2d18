"""tdsl.torch -- the kernels as torch operators: torch.ops.tdsl.NAME, and tdsl.torch.NAME for short.

In: a pack (at import the bundled one; `register` takes others).  Out: for each kernel an operator with a schema from the pack, a
fake function, so that torch.compile and torch.export trace it without a graph break and with symbolic sizes, and a backward
where the pack has one.  Outputs are allocated by torch and returned; parameters that a kernel updates are marked in the schema.

Backward, by names: the kernel K_bwd serves K if each of its inputs is an input, scalar or output of K or "d" and the name of
one of K's outputs, and its outputs are "d" and names of K's inputs.  A kernel without one refuses in backward(), by name.
"""
import ast
import math
import operator

import torch

from . import bundled
from ._device import device_of
from ._kernel import Pack
from ._tensor import E2M1, TORCH, torch_dtype

CODES = {name: code for code, name in TORCH.items()}
OPERATIONS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.floordiv, ast.FloorDiv: operator.floordiv,
              ast.Mod: operator.mod}
FUNCTIONS = {"cdiv": lambda a, b: (a + b - 1) // b, "min": min, "max": max}
_kernels = {}                                                # operators registered, by name


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


def _extents(param):
    text = param.extents.strip()
    return list(ast.parse(f"({text},)", mode="eval").body.elts) if text else []


class _Operator:
    """One kernel with what torch needs to know of it."""

    def __init__(self, kernel, backward):
        self.kernel, self.backward, self.name = kernel, backward, kernel.__name__
        self.takes = [kernel.params[i] for i in kernel.takes]
        self.outputs = [i for i in kernel.outputs if not kernel.params[i].is_input and not kernel.params[i].is_optional]
        self.updated = [p.name for p in self.takes if p.is_tensor and p.is_output]
        inputs = [p for p in self.takes if p.is_tensor]
        of_inputs = [tuple(p.by_instance[i] for p in inputs) for i in range(len(kernel.instances))]
        # where equal inputs allow several types of an output, the caller may name one
        self.chosen = [i for i in self.outputs if any(of_inputs[a] == of_inputs[b] and kernel.params[i].by_instance[a] != kernel.params[i].by_instance[b]
                                                      for a in range(len(of_inputs)) for b in range(a))]

    def schema(self):
        parts, starred = [], False
        for i, p in enumerate(self.takes):
            if p.is_tensor:
                mark = f"({chr(97 + i)}!)" if p.is_output else ""
                parts.append(f"Tensor{mark}{'?' if p.is_optional else ''} {p.name}" + ("=None" if p.is_optional else ""))
            else:
                parts.append(f"{'int' if p.letter in 'il' else 'float'} {p.name}" + ("" if p.default is None else f"={p.default!r}"))
        for i in self.chosen:
            parts += ["*"] * (not starred) + [f"ScalarType? {self.kernel.params[i].name}_dtype=None"]
            starred = True
        n = len(self.outputs)
        return f"({', '.join(parts)}) -> {'Tensor' if n == 1 else '(' + ', '.join(['Tensor'] * n) + ')'}"

    def values(self, args, named):
        """Arguments by the kernel's names, and the types asked for."""
        values = dict(zip((p.name for p in self.takes), args))
        values.update((k, v) for k, v in named.items() if not k.endswith("_dtype"))
        types = {k[:-6]: v for k, v in named.items() if k.endswith("_dtype") and v is not None}
        return values, types

    def run(self, *args, **named):
        values, types = self.values(args, named)
        result = self.kernel(**values, **types)
        result = result if isinstance(result, tuple) else (result,)
        mine = [r for i, r in zip([i for i in self.kernel.outputs if not self.kernel.params[i].is_optional], result) if i in self.outputs]
        return mine[0] if len(mine) == 1 else tuple(mine)

    def fake(self, *args, **named):
        values, types = self.values(args, named)
        symbols, like, given = {}, None, {}
        for index, p in zip(self.kernel.takes, self.takes):
            value = values.get(p.name)
            if not p.is_tensor or value is None:
                continue
            like = value if like is None else like
            given[index] = CODES.get(str(value.dtype).partition(".")[2])
            extents, shape = _extents(p), list(value.shape)
            if not extents:
                continue
            if given[index] == E2M1:
                shape[-1] = shape[-1] * 2
            folded = len(shape) - len(extents)
            if folded < 0:
                raise RuntimeError(f"tdsl::{self.name}: {p.name} has {len(shape)} dimensions; {p.extents} are expected")
            shape = [math.prod(shape[:folded + 1]), *shape[folded + 1:]]
            for node, size in zip(extents, shape):
                self.solve(node, size, symbols)
        instance, target = self.instance(given, types)
        made = []
        for i in self.outputs:
            code = self.kernel.element(instance, i, target)
            shape = [_evaluate(e, symbols) for e in _extents(self.kernel.params[i])]
            if code == E2M1:
                shape[-1] = shape[-1] // 2
            made.append(like.new_empty(shape, dtype=torch_dtype(code)))
        return made[0] if len(made) == 1 else tuple(made)

    @staticmethod
    def solve(node, size, symbols):
        """Binds the symbol of an input's extent: N, 2*N, N*2, N + 1."""
        if isinstance(node, ast.Name):
            symbols.setdefault(node.id, size)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Add)):
            left, right = (node.left, node.right) if isinstance(node.right, ast.Constant) else (node.right, node.left)
            if isinstance(right, ast.Constant):
                _Operator.solve(left, size // right.value if isinstance(node.op, ast.Mult) else size - right.value, symbols)

    def instance(self, given, types):
        target = device_of(None).target
        for i in range(len(self.kernel.instances)):
            def code(index):
                return self.kernel.element(i, index, target)
            if all(code(index) == c for index, c in given.items()) and all(
                    torch_dtype(code(o)) == types.get(self.kernel.params[o].name, torch_dtype(code(o))) for o in self.outputs):
                return i, target
        raise RuntimeError(f"tdsl::{self.name}: no instance takes these element types; it has {'; '.join(self.kernel.instances)}")

    def setup_context(self, ctx, inputs, output, keyword_only_inputs=None):
        outputs = output if isinstance(output, tuple) else (output,)
        ctx.outputs = [(o.shape, o.dtype, o.device) for o in outputs]
        ctx.scalars = {p.name: v for p, v in zip(self.takes, inputs) if not p.is_tensor}
        tensors = {p.name: v for p, v in zip(self.takes, inputs) if p.is_tensor}
        tensors.update((self.kernel.params[i].name, o) for i, o in zip(self.outputs, outputs))
        ctx.mark_non_differentiable(*(o for o in outputs if o.dtype.itemsize < 2 or not o.dtype.is_floating_point))
        wanted = [p.name for p in _kernels[self.backward].takes] if self.backward else []
        ctx.names = [n for n in wanted if n in tensors]
        ctx.save_for_backward(*(tensors[n] for n in ctx.names))

    def differentiate(self, ctx, *grads):
        if not self.backward:
            raise NotImplementedError(f"tdsl::{self.name} has no backward: the pack holds no kernel {self.name}_bwd")
        back = _kernels[self.backward]
        values = {**ctx.scalars, **dict(zip(ctx.names, ctx.saved_tensors))}
        for i, grad, (shape, dtype, device) in zip(self.outputs, grads, ctx.outputs):
            values["d" + self.kernel.params[i].name] = torch.zeros(shape, dtype=dtype, device=device) if grad is None else grad
        result = getattr(torch.ops.tdsl, self.backward)(*(values[p.name] for p in back.takes if p.name in values))
        result = result if isinstance(result, (tuple, list)) else (result,)
        found = {back.kernel.params[i].name: r for i, r in zip(back.outputs, result)}
        return tuple(found.get("d" + p.name) for p in self.takes)


def _backward_of(kernel, pack):
    """The name of the kernel that gives its gradients, or None."""
    name = kernel.__name__ + "_bwd"
    if name not in pack.kernels:
        return None
    back = getattr(pack, name)
    inputs = {kernel.params[i].name for i in kernel.takes}
    outputs = {kernel.params[i].name for i in kernel.outputs}
    fits = all(back.params[i].name in inputs | outputs | {"d" + o for o in outputs} for i in back.takes)
    return name if fits and all(back.params[i].name in {"d" + i for i in inputs} for i in back.outputs) else None


def register(pack: Pack):
    """Registers the kernels of a pack as operators; names registered before stay as they are.  Returns the new names."""
    new = []
    for name in pack.kernels:
        if name in _kernels:
            continue
        kernel = getattr(pack, name)
        op = _kernels[name] = _Operator(kernel, _backward_of(kernel, pack))
        torch.library.define(f"tdsl::{name}", op.schema())
        torch.library.impl(f"tdsl::{name}", "CompositeExplicitAutograd")(op.run)
        torch.library.register_fake(f"tdsl::{name}")(op.fake)
        if not op.updated:                                   # torch differentiates only operators that change nothing
            torch.library.register_autograd(f"tdsl::{name}", op.differentiate, setup_context=op.setup_context)
        new.append(name)
    return new


def __getattr__(name):
    if name in _kernels:
        return getattr(torch.ops.tdsl, name)
    raise AttributeError(f"tdsl.torch has no {name!r}; registered are {', '.join(_kernels)}")


def __dir__():
    return sorted({*globals(), *_kernels})


register(bundled())
