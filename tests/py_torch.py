"""py_torch.py -- tensors and operators of torch: both ways of a call, torch.compile without a graph break, gradients; run by
wheel_test.py, and left out with a line where torch is not installed."""
import importlib.util

import ml_dtypes
import numpy as np
import tdsl
from py_calls import raises

TEXT = """
kernel scaled[T: f32](x: T[M, N], w: T[N]) -> y: T[M, N]
{
    each m in M { n = 0..N
        y[m, n] = x[m, n] * w[n] }
}
kernel scaled_bwd[T: f32](dy: T[M, N], x: T[M, N], w: T[N]) -> dx: T[M, N]
{
    each m in M { n = 0..N
        dx[m, n] = dy[m, n] * w[n] }
}
pack {
    scaled: T f32
    scaled_bwd: T f32
}
"""


def compiled(t):
    """Text to functions, by the compiler's wheel."""
    pack = tdsl.compile(TEXT, kernels=["scaled"])
    x, w = np.ones((3, 40), np.float32), np.arange(40, dtype=np.float32)
    t.check((pack.scaled(x, w) == w).all(), "a compiled kernel: another result")
    raises(t, tdsl.Error, "text.tdsl:", lambda: tdsl.compile("kernel broken("))


def tensors(t):
    import torch
    x, w = torch.randn(5, 256, dtype=torch.bfloat16), torch.randn(256, dtype=torch.bfloat16)
    y, scale = tdsl.rmsnorm_quant(x, w)
    t.check(isinstance(y, torch.Tensor) and y.dtype == torch.float8_e4m3fnuz and scale.shape == (5,), f"{type(y)} {y.dtype}")
    nx, nw = (a.view(torch.int16).numpy().view(ml_dtypes.bfloat16) for a in (x, w))
    wanted = tdsl.rmsnorm_quant(nx, nw)
    slow = tdsl.rmsnorm_quant._slow(x, w)
    for found in ((y, scale), slow):
        t.check((found[0].view(torch.uint8).numpy() == wanted[0].view(np.uint8)).all() and (found[1].numpy() == wanted[1]).all(), "torch and numpy differ")
    t.check(tdsl.rmsnorm_quant(x, w, y=torch.int8)[0].dtype == torch.int8, "y=torch.int8")
    back = tdsl.rmsnorm_quant(x, w, out=(y, scale))
    t.check(back[0] is y and back[1] is scale, "out= of torch")
    x.requires_grad_()
    t.check((tdsl.rmsnorm_quant(x, w)[1] == scale).all(), "a tensor that requires gradients")


def operators(t):
    import torch
    import tdsl.torch
    x, w, h = (torch.randn(*s, dtype=torch.bfloat16) for s in ((6, 256), (256,), (5, 512)))

    def both(x, w, h):
        y, s = tdsl.torch.rmsnorm_quant(x * 2, w)
        z, r = torch.ops.tdsl.swiglu_quant(h)
        return y.float() * s[:, None], z.float().sum() + r.sum()
    wanted = both(x, w, h)
    for dynamic in (False, True):
        found = torch.compile(both, fullgraph=True, backend="aot_eager", dynamic=dynamic)(x, w, h)
        t.check(all((a == b).all() for a, b in zip(wanted, found)), f"torch.compile, dynamic {dynamic}: another result")
    for op, args in ((torch.ops.tdsl.rmsnorm_quant.default, (x, w)), (torch.ops.tdsl.swiglu_quant.default, (h,))):
        found = torch.library.opcheck(op, args)
        t.check(set(found.values()) == {"SUCCESS"}, f"{op}: {found}")
    t.check(torch.ops.tdsl.rmsnorm_quant(x, w, y_dtype=torch.int8)[0].dtype == torch.int8, "y_dtype")


def gradients(t):
    import torch
    import tdsl.torch
    t.check(tdsl.torch.register(tdsl.compile(TEXT)) == ["scaled", "scaled_bwd"], "register")
    a, b = torch.randn(3, 40, requires_grad=True), torch.randn(40)
    tdsl.torch.scaled(a, b).sum().backward()
    t.check((a.grad == b).all(), "the gradient by a backward kernel")
    a.grad = None
    torch.compile(lambda a, b: tdsl.torch.scaled(a, b).square().sum(), fullgraph=True, backend="aot_eager")(a, b).backward()
    t.check(torch.allclose(a.grad, 2 * a.detach() * b * b), "the gradient under torch.compile")
    q = torch.randn(1, 2, 8, 64, dtype=torch.bfloat16)
    raises(t, NotImplementedError, "attention_bwd", lambda: tdsl.torch.attention(q.clone().requires_grad_(), q, q, .1).sum().backward())


def checks(totals):
    totals.run(compiled)
    if importlib.util.find_spec("torch") is None:
        print("py_torch: torch's tensors, operators and gradients are not tested: torch is not installed")
        return
    for function in (tensors, operators, gradients):
        totals.run(function)
