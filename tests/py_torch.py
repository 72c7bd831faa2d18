"""py_torch.py -- tensors and operators of torch: both ways of a call, torch.compile without a graph break, gradients; run by
wheel_test.py, and left out with a line where torch is not installed."""
import importlib.util
import inspect
import os
import threading
from pathlib import Path
from unittest.mock import patch

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
    # a choice of types that no pack holds: compiled for the call, its outputs allocated
    h = np.linspace(-3, 3, 6 * 256, dtype=np.float32).reshape(2, 3, 256)
    g, up = h[..., :128].astype(np.float64), h[..., 128:].astype(np.float64)
    y = tdsl.swiglu(h, y=np.float32)
    t.check(y.dtype == np.float32 and np.allclose(y.reshape(2, 3, 128), g / (1 + np.exp(-g)) * up, rtol=1e-5, atol=1e-6), "an instance of no pack")
    # a kernel of no instance in the pack, whose phases keep numbers in a workspace
    z, p = np.float32(np.random.default_rng(5).standard_normal((2, 64, 256))).astype(ml_dtypes.bfloat16)
    dx, s = np.zeros((64, 256), ml_dtypes.float8_e4m3fnuz), np.zeros((2, 64), np.float32)
    tdsl.softmax_bwd_both_128(z, p, dx=dx, scale=s)
    dy, prob = z.astype(np.float64), p.astype(np.float64)
    v = prob * (dy - (dy * prob).sum(-1, keepdims=True))
    t.check(np.allclose(s.T, np.abs(v).reshape(64, 2, 128).max(-1) / 240, rtol=1e-4), "a kernel of no instance: other scales")
    t.check((np.abs(dx.astype(np.float64) * np.repeat(s.T, 128, 1) - v) <= np.abs(v) / 15 + np.repeat(s.T, 128, 1) / 64).all(), "a kernel of no instance: another result")
    raises(t, tdsl.Error, "text.tdsl:", lambda: tdsl.compile("kernel broken("))
    raises(t, tdsl.Error, "/k\ufffd.tdsl:1:", lambda: tdsl.compile("kernel broken(", file=Path(os.fsdecode(b"/k\xff.tdsl"))))
    os.environ["TDSL_JIT"] = "0"                             # another error than the text's: the messages before are not its
    raises(t, tdsl.Error, "TDSL_JIT=0", lambda: tdsl.compile(TEXT))
    del os.environ["TDSL_JIT"]


def warmed(t):
    """Ahead of calls: code for exactly what they bring, which those that the pack serves take as well, and which may need a workspace of its own."""
    x = np.random.default_rng(3).standard_normal((128, 256)).astype(ml_dtypes.bfloat16)
    rstd, kernel = np.ones(128, np.float32), tdsl.rmsnorm_bwd
    def call(rows):
        return kernel(x[:rows], x[:rows], rstd=rstd[:rows], dw=np.empty(256, np.float32))
    served = call(128)
    t.check(" with " not in tdsl.last_call()["predicate"], f"{tdsl.last_call()}: a variant for dw alone is in the pack")
    for entry, kind, text in (((kernel, "T=bf16", ["dx"]), tdsl.Error, "found 'dx' among the tensors that calls will bring; expected some of w, dres, dw"),
                              ((kernel, "T=bf17"), tdsl.Error, 'no instance "T=bf17"'), (tdsl.rmsnorm_t5_quant, tdsl.Error, "expected one, such as T=bf16,Q=fp8"),
                              ((kernel, None, "dw"), TypeError, "given is a list of names"), ("rmsnorm_bwd", TypeError, "expected a kernel"),
                              ((kernel, None, None, 1), TypeError, "expected a kernel")):
        raises(t, kind, text, lambda: tdsl.warm_up([entry]))
    t.check(tdsl.warm_up([(kernel, "T=bf16", ["dw"]), tdsl.rmsnorm_mxfp4], jobs=2) == 2 and tdsl.warm_up([]) == 0, "how many are ready")
    again = call(128)
    t.check(" with " not in tdsl.last_call()["predicate"] and (again[1] == served[1]).all(), "what a shape's first call chose stays")
    dx, dw = call(64)
    t.check(tdsl.last_call()["predicate"].endswith(" with dw"), f"{tdsl.last_call()}: expected the variant for dw alone")
    wanted = (x[:64].astype(np.float64) ** 2).sum(0)
    t.check((dx.view(np.uint16) == served[0][:64].view(np.uint16)).all() and np.allclose(dw, wanted, rtol=1e-5, atol=1e-4), "another result")


def names(t):
    """Parameters and kernels whose names mean something to Python or to the package."""
    x, w = np.ones((3, 40), np.float32), np.arange(40, dtype=np.float32)
    for name in ("self", "args", "named", "out", "device", "stream", "stage", "lambda"):
        kernel = tdsl.compile(TEXT.replace("x:", f"{name}:").replace("x[", f"{name}["), kernels=["scaled"])["scaled"]
        for call in (kernel, kernel._slow):
            t.check((call(x, w) == w).all() and (call(w=w, **{name: x}) == w).all(), f"a parameter named {name}")
        t.check(list(inspect.signature(kernel).parameters)[0] == ("lambda_" if name == "lambda" else name), f"the signature with {name}")
    t.check((kernel(lambda_=x, w=w) == w).all(), "lambda_ for lambda")
    raises(t, TypeError, "given twice", lambda: kernel(w=w, lambda_=x, **{"lambda": x}))
    for name in ("kernels", "targets", "self", "lambda", "open"):
        pack = tdsl.compile(TEXT.replace("scaled", name), kernels=[name])
        t.check((pack[name](x, w) == w).all() and pack.kernels == [name] and "gfx942" in pack.targets, f"a kernel named {name}")


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
    for dtype in (np.int8, "int8"):
        raises(t, TypeError, f"rmsnorm_quant: y is {dtype!r}; a type of torch is expected", lambda: tdsl.rmsnorm_quant(x, w, y=dtype))
    raises(t, TypeError, "rmsnorm_quant: y is torch.int8; a type of numpy is expected", lambda: tdsl.rmsnorm_quant(nx, nw, y=torch.int8))
    back = tdsl.rmsnorm_quant(x, w, out=(y, scale))
    t.check(back[0] is y and back[1] is scale, "out= of torch")
    x.requires_grad_()
    t.check((tdsl.rmsnorm_quant(x, w)[1] == scale).all(), "a tensor that requires gradients")
    # outputs that share an allocation live and die by themselves, on any thread; large ones do not share
    x = x.detach()
    bits, kept = y.view(torch.uint8).clone(), []
    for i in range(200):
        a, b = tdsl.rmsnorm_quant(x, w)
        kept.append(a if i % 2 else b)
    del a, b
    t.check(all(torch.equal(k.view(torch.uint8), bits) if i % 2 else torch.equal(k, scale) for i, k in enumerate(kept)), "an output after the other is gone")
    t.check(kept[0].is_contiguous() and kept[0].data_ptr() % 64 == 0 and kept[1].untyped_storage().nbytes() == bits.numel(), "each is a tensor of its own")
    thread = threading.Thread(target=kept.clear)
    thread.start()
    thread.join()
    large = torch.randn(300, 1024, dtype=torch.bfloat16)
    a, b = tdsl.rmsnorm_quant(large, torch.ones(1024, dtype=torch.bfloat16))
    again = tdsl.rmsnorm_quant._slow(large, torch.ones(1024, dtype=torch.bfloat16))
    t.check(torch.equal(a.view(torch.uint8), again[0].view(torch.uint8)) and torch.equal(b, again[1]), "large outputs")
    t.check(not a.data_ptr() <= b.data_ptr() < a.data_ptr() + a.numel(), "large outputs lie apart")


def negated(t):
    """Memory that holds the negated numbers is never taken as it is: operators make it plain, calls ask for that."""
    import torch
    import tdsl.torch
    z = torch.randn(6, 256, dtype=torch.complex64).conj()
    pack = tdsl.compile(TEXT, kernels=["scaled"])
    x, w = z.imag, torch.ones(256)
    t.check(x.is_neg(), "what is tested has the bit")
    for call in (pack.scaled, pack.scaled._slow):
        for view in (x, x[2], x[:, ::3].T[:256:256]):
            n = torch.ones(view.shape[-1])
            raises(t, TypeError, "scaled: x: the tensor's negative bit is set, as that of the imaginary part of a conjugate; resolve_neg() gives",
                   lambda: call(view.reshape(-1, view.shape[-1]) if view.ndim < 2 else view, n))
        raises(t, TypeError, "scaled: w: the tensor's negative bit is set", lambda: call(torch.ones(3, 6), x[:, 0]))
        raises(t, TypeError, "scaled: y: the tensor's negative bit is set", lambda: call(x.resolve_neg(), w, y=x))
        t.check(torch.equal(call(x.resolve_neg(), w), -z.conj().imag) and torch.equal(call(z.real, w), z.conj().real), "the parts of complex numbers")
    y, s = torch.ops.tdsl.rmsnorm_quant(x, w)
    wanted = tdsl.rmsnorm_quant(x.resolve_neg(), w)
    t.check(torch.equal(y.view(torch.uint8), wanted[0].view(torch.uint8)) and torch.equal(s, wanted[1]), "an operator: another result")


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
    for dtype in (torch.int16, torch.uint16, torch.uint32, torch.uint64, torch.complex64, torch.qint8):
        words = f"rmsnorm_quant: y: no kernel takes elements of type {dtype}"
        raises(t, TypeError, words, lambda: tdsl.torch.rmsnorm_quant(x, w, y_dtype=dtype))
        raises(t, TypeError, words, lambda: tdsl.torch._kernels["rmsnorm_quant"].fake(x, w, y_dtype=dtype))
        if dtype != torch.qint8:                             # which is made by quantising alone
            raises(t, TypeError, f"rmsnorm_quant: x: no kernel takes elements of type {dtype}", lambda: tdsl.torch.rmsnorm_quant(torch.empty(6, 256, dtype=dtype), w))
    with patch("logging.Logger.error"):                      # torch logs what a fake function raises
        raises(t, Exception, "rmsnorm_quant: y: no kernel takes elements of type torch.int16", lambda: torch.compile(
            lambda x, w: tdsl.torch.rmsnorm_quant(x, w, y_dtype=torch.int16)[1], fullgraph=True, backend="eager")(x, w))
    # what an operator remembers of a call: other shapes, other types, another device
    wanted, raw = tdsl.rmsnorm_quant(x, w), torch.ops.tdsl.rmsnorm_quant
    for shape in ((6, 256), (2, 3, 256), (6, 256), (1, 6, 1, 256)):
        y, s = raw(x.reshape(shape), w)
        t.check(y.shape == shape and s.shape == shape[:-1], f"{shape}: {y.shape} {s.shape}")
        t.check(torch.equal(y.view(torch.uint8).reshape(6, 256), wanted[0].view(torch.uint8)) and torch.equal(s.reshape(6), wanted[1]), f"{shape}: another result")
    t.check(raw(x.half(), w.half())[0].shape == (6, 256) and raw(x, w, 1e-2)[1].tolist() != wanted[1].tolist(), "another type, another eps")
    before = tdsl.set_default(None)
    tdsl.set_default("sim:gfx950")
    other = raw(x, w)
    tdsl.set_default(before)
    t.check(other[0].dtype == torch.float8_e4m3fn and raw(x, w)[0].dtype == torch.float8_e4m3fnuz, f"{other[0].dtype} on another device")
    z = torch.ops.tdsl.swiglu(h)[0]                          # the second is its transposed copy, not asked for
    t.check(z.shape == (5, 256) and torch.equal(z, torch.ops.tdsl.swiglu(h.reshape(5, 1, 512))[0].reshape(5, 256)), "swiglu with a dimension more")


def outputs(t):
    """Optional outputs, types, tensors that a kernel updates, leading dimensions."""
    import torch
    import tdsl.torch
    x, res, w = (torch.randn(*s, dtype=torch.bfloat16) for s in ((2, 3, 256), (2, 3, 256), (256,)))
    y, s, r = tdsl.torch.add_rmsnorm_quant(x, res, w, res_out=True)
    t.check(y.shape == x.shape and s.shape == (2, 3) and torch.equal(r, (x.float() + res.float()).bfloat16()), f"{y.shape} {s.shape} {r.shape}")
    t.check(len(tdsl.torch.add_rmsnorm_quant(x, res, w)) == 2, "what was not asked for is left out")
    raw = torch.ops.tdsl.add_rmsnorm_quant(x, res, w)
    t.check(len(raw) == 4 and raw[2].numel() == raw[3].numel() == 0, "the operator: what was not asked for is empty")
    t.check(torch.allclose(raw[1], s, rtol=2**-21, atol=0), "the operator: other scales")      # of another variant, in another order of sums
    amax = torch.zeros(1)
    y, = [tdsl.torch.rmsnorm(x, w=w, amax=amax)]
    t.check(abs(amax.item() / y.float().abs().max().item() - 1) < 2**-8, f"amax {amax}")
    turned = tdsl.torch.cast_transpose(x.reshape(6, 256), y_dtype=torch.bfloat16, yt=True)
    t.check(torch.equal(turned, x.reshape(6, 256).T), "cast_transpose")
    squares = torch.zeros(2)
    tdsl.torch.multi_tensor_l2norm([torch.ones(4, dtype=torch.bfloat16), torch.ones(2, 3, dtype=torch.bfloat16)], squares)
    t.check(squares.tolist() == [4, 6], f"multi_tensor_l2norm: {squares}")
    grads, factor = [torch.randn(3, 5), torch.randn(7)], torch.tensor([2.0, -1.0])
    scaled = tdsl.torch.multi_tensor_scale(grads, factor, y=torch.float32)
    t.check(all(torch.equal(s, g * f) and s.shape == g.shape for s, g, f in zip(scaled, grads, factor)), f"multi_tensor_scale: {scaled}")

    def step(x, w, amax):
        return tdsl.torch.rmsnorm(x, w=w, amax=amax) * 2
    other = torch.zeros(1)
    found = torch.compile(step, fullgraph=True, backend="aot_eager")(x, w, other)
    t.check(torch.equal(found, y * 2) and torch.equal(other, amax), "an updated tensor under torch.compile")


def references():
    """By the operator's name: its arguments and the same in torch, which differentiates it."""
    import torch
    f = torch.nn.functional
    acts = {"silu": f.silu, "gelu": f.gelu, "gelu_tanh": lambda x: f.gelu(x, approximate="tanh"), "relu": f.relu, "srelu": lambda x: f.relu(x)**2,
            "qgelu": lambda x: x * torch.sigmoid(1.702 * x)}
    gates = {"swiglu": "silu", "geglu": "gelu", "geglu_tanh": "gelu_tanh", "reglu": "relu", "sreglu": "srelu", "qgeglu": "qgelu"}

    def gated(act):
        def forward(h, b):
            g, up = (h + b).chunk(2, -1)
            return acts[act](g) * up
        return forward

    def rms(x, res, w):
        u = x + res
        return u * torch.rsqrt((u * u).mean(-1, keepdim=True) + 1e-6) * w, u

    def layer(x, res, w, b):
        return f.layer_norm(x + res, (x.shape[-1],), w, b, 1e-5), x + res
    for name, act in gates.items():
        yield name, {"h": (2, 35, 96), "b": (96,)}, {}, gated(act)
    for act in acts:
        yield f"{act}_act", {"x": (70, 40), "b": (40,)}, {}, lambda x, b, act=act: acts[act](x + b)
    yield "rmsnorm", {"x": (70, 136), "w": (136,)}, {}, lambda x, w: rms(x, 0, w)[0]
    yield "rmsnorm", {"x": (2, 35, 136), "res": (2, 35, 136), "w": (136,)}, {"res_out": True}, rms
    yield "layernorm", {"x": (2, 35, 136), "w": (136,), "b": (136,)}, {}, lambda x, w, b: layer(x, 0, w, b)[0]
    yield "layernorm", {"x": (70, 136), "res": (70, 136), "w": (136,), "b": (136,)}, {"res_out": True}, layer
    def clamped(h, b):
        g, up = (h + b).chunk(2, -1)
        g = g.clamp(max=1.37)
        return g * torch.sigmoid(1.702 * g) * (up.clamp(-1.37, 1.37) + 1)
    yield "swiglu_clamped", {"h": (2, 35, 96), "b": (96,)}, {"limit": 1.37}, clamped      # no sum of inputs lies on it
    tokens = torch.tensor([3, 0, 7], dtype=torch.int32)
    there = (torch.arange(7) < tokens[:, None])[..., None]
    for name, act in gates.items():
        yield f"{name}_masked", {"h": (3, 7, 96)}, {"tokens": tokens}, lambda h, act=act: gated(act)(h, 0) * there
    yield "softmax_rows", {"x": (2, 5, 136)}, {"scale": 0.3}, lambda x: torch.softmax(0.3 * x, -1)
    seen = torch.ones(5, 136).tril(131) > 0
    yield "softmax_rows", {"x": (2, 5, 136)}, {"causal": 1}, lambda x: torch.softmax(torch.where(seen, x, -torch.inf), -1)


def gradients(t):
    """Against torch's own of the same formula in f64: f32 to its rounding, bf16 to its own; eager and compiled."""
    import torch
    import tdsl.torch
    torch.manual_seed(5)
    ran = set()
    for name, shapes, named, reference in references():
        ran.add(name)
        inputs = {n: torch.randn(*s, dtype=torch.bfloat16) for n, s in shapes.items()}
        exact = {n: v.double().requires_grad_() for n, v in inputs.items()}
        wanted = reference(**exact)
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        factors = [torch.randn(w.shape, dtype=torch.bfloat16) for w in wanted]
        sum((w * g).sum() for w, g in zip(wanted, factors)).backward()

        def loss(f, values):
            found = f(**values, **named)
            found = found if isinstance(found, tuple) else (found,)
            return sum((y.double() * g).sum() for y, g in zip(found, factors)), found
        for dtype, compiled, most in ((torch.float32, False, 2e-6), (torch.bfloat16, False, 8e-3), (torch.bfloat16, True, 8e-3), (torch.float32, True, 2e-6)):
            values = {n: v.detach().to(dtype).requires_grad_() for n, v in inputs.items()}
            f = getattr(tdsl.torch, name)
            if compiled:
                torch._dynamo.reset()
                f = torch.compile(lambda f=f, **v: f(**v), fullgraph=True, backend="aot_eager")
            value, found = loss(f, values)
            value.backward()
            for y, w in zip(found, wanted):
                error = (y.double() - w).norm() / w.norm()
                t.check(y.shape == w.shape and error < most, f"{name} {dtype}: forward differs by {error}")
            for n in values:
                error = (values[n].grad.double() - exact[n].grad).norm() / exact[n].grad.norm()
                t.check(values[n].grad.dtype == dtype and error < most, f"{name} {dtype}, compiled {compiled}: the gradient of {n} differs by {error}")
    have = {n for n, op in tdsl.torch._kernels.items() if op.backward and n in tdsl.bundled().kernels}
    t.check(ran == have, f"differentiable, tested or not: {have ^ ran}")
    backward = {n for n in tdsl.bundled().kernels if n.endswith("_bwd")}
    served = {op.backward for op in tdsl.torch._kernels.values()}
    t.check(backward <= served, f"kernels of backward that serve nothing: {backward - served}")


def views(t):
    """Gradients where an input is a view that does not fold to rows: of the view, and those of its copy."""
    import torch
    import tdsl.torch
    w, base = torch.randn(128), torch.randn(4, 6, 128, requires_grad=True)
    for label, view, weight in (("transposed", lambda v: v.transpose(0, 1), w), ("expanded", lambda v: v[:1].expand(4, -1, -1), w), ("one row", lambda v: v[1:2, ::2], w),
                                ("columns", lambda v: v[..., 32:96], w[:64]), ("turned", lambda v: v.transpose(1, 2), w[:6])):
        found = []
        for copied in (False, True):
            base.grad = None
            x = view(base)
            x = x.contiguous() if copied else x
            (tdsl.torch.rmsnorm(x, w=weight) * torch.arange(x.numel()).reshape(x.shape)).sum().backward()
            found.append(base.grad)
        t.check(torch.allclose(*found, rtol=1e-5, atol=1e-3), f"{label}: another gradient")


def partly(t):
    """Gradients of some inputs alone; what has none is refused by name."""
    import torch
    import tdsl.torch
    bf16 = torch.bfloat16
    x, res, w, scale = torch.randn(6, 64, dtype=bf16), torch.randn(6, 64, dtype=bf16), torch.randn(64, dtype=bf16), torch.ones(1)
    a = x.clone().requires_grad_()
    y, total = tdsl.torch.rmsnorm(a, res, w, res_out=True)
    total.sum().backward()                                   # through the sum alone
    t.check(torch.equal(a.grad, torch.ones_like(x)), "the gradient of the sum alone")
    v = w.clone().requires_grad_()
    tdsl.torch.rmsnorm(x, w=v).sum().backward()
    t.check(v.grad is not None and v.grad.shape == w.shape, "the weights' gradient alone")
    with torch.no_grad():
        t.check(isinstance(tdsl.torch.rmsnorm(a, w=w), torch.Tensor), "without gradients nothing is saved")
    raises(t, NotImplementedError, "rstd=True", lambda: torch.ops.tdsl.rmsnorm(a, w=w)[0].sum().backward())
    raises(t, NotImplementedError, "no backward with scale", lambda: tdsl.torch.rmsnorm(a, w=w, scale=scale).sum().backward())
    mask = torch.zeros(6, 64, dtype=bf16, requires_grad=True)
    raises(t, NotImplementedError, "no gradient of mask", lambda: tdsl.torch.softmax_rows(x[None], mask).sum().backward())
    codes, s = tdsl.torch.rmsnorm_quant(a, w)
    t.check(not codes.requires_grad, "codes have no gradient")
    raises(t, NotImplementedError, "rmsnorm_quant_bwd", lambda: s.sum().backward())
    q = torch.randn(1, 2, 8, 64, dtype=bf16)
    raises(t, NotImplementedError, "attention_bwd", lambda: tdsl.torch.attention(q.clone().requires_grad_(), q, q, .1).sum().backward())
    for name, args in (("swiglu", (torch.randn(5, 64, dtype=bf16, requires_grad=True),)), ("softmax_rows", (torch.randn(1, 5, 64, dtype=bf16, requires_grad=True),))):
        found = torch.library.opcheck(getattr(torch.ops.tdsl, name).default, args)
        t.check(set(found.values()) == {"SUCCESS"}, f"{name}: {found}")
    # another pack's, by its names alone
    t.check(tdsl.torch.register(tdsl.compile(TEXT)) == ["scaled", "scaled_bwd"], "register")
    t.check(tdsl.torch.register(tdsl.compile(TEXT)) == [] and tdsl.torch.register(tdsl.bundled()) == [], "the same kernels again")
    other = tdsl.compile(TEXT.replace("* w[n]", "+ w[n]") + "kernel more[T: f32](x: T[M, N]) -> y: T[M, N] { each m in M { n = 0..N\n y[m, n] = x[m, n] } }")
    raises(t, ValueError, "tdsl.torch.scaled is a kernel of another pack; nothing was registered", lambda: tdsl.torch.register(other))
    t.check(not hasattr(tdsl.torch, "more"), "a part of a refused pack is registered")
    raises(t, TypeError, "tdsl.torch.register: a Pack is expected, not int", lambda: tdsl.torch.register(3))
    a, b = torch.randn(3, 40, requires_grad=True), torch.randn(40)
    tdsl.torch.scaled(a, b).sum().backward()
    t.check((a.grad == b).all(), "the gradient by a backward kernel")
    for name, given in (("self", "self"), ("lambda", "lambda_")):          # names that Python has for itself
        text = TEXT.replace("dx", f"d{name}").replace(" x[", f" {name}[").replace("x:", f"{name}:").replace("scaled", f"of_{name}")
        tdsl.torch.register(tdsl.compile(text))
        f = getattr(tdsl.torch, f"of_{name}")
        for call in (f, torch.compile(lambda f=f, **v: f(**v), fullgraph=True, backend="aot_eager")):
            a.grad = None
            call(**{given: a}, w=b).sum().backward()
            t.check((a.grad == b).all(), f"an operator with a parameter named {name}")
    raises(t, NotImplementedError, "scaled has no gradient of w", lambda: tdsl.torch.scaled(a, b.clone().requires_grad_()).sum().backward())


def checks(totals):
    totals.run(compiled)
    totals.run(warmed)
    totals.run(names)
    if importlib.util.find_spec("torch") is None:
        print("py_torch: torch's tensors, operators and gradients are not tested: torch is not installed")
        return
    for function in (tensors, negated, operators, outputs, gradients, views, partly):
        totals.run(function)
