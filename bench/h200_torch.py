"""h200_torch.py -- torch's operators of the kernels (tdsl.torch) on a GPU: eager, differentiated, compiled, captured, exported; and AITER's calls (tdsl.aiter).

In: a machine with a GPU of sm_90a (or AMD's, with ROCm's torch) and torch; build/ with h200.tpack, libtdsl_rt.so and python/.  Out: totals in Check's form.
References are torch's operations in f64, or, where a module holds matrix products besides, the same module without what is tried; AITER's calls are
those of tests/py_aiter.py.
"""
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests")]
import torch                                                 # noqa: E402
import torch.nn.functional as F                              # noqa: E402
from torch.utils.checkpoint import checkpoint                # noqa: E402
import tdsl                                                  # noqa: E402

pack = tdsl.open_pack(str(ROOT / "build/h200.tpack"))
tdsl.bundled = lambda: pack                                  # whose kernels torch gets
import tdsl.torch                                            # noqa: E402
import ml_dtypes                                             # noqa: E402
import py_aiter                                              # noqa: E402
from py_calls import raises                                  # noqa: E402
from totals import Totals                                    # noqa: E402

M, N = 512, 4096


def random(*shape, seed=1):
    g = torch.Generator("cuda").manual_seed(seed)
    return torch.randn(*shape, device="cuda", generator=g).bfloat16()


def norm(x, w):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w


def glu(h):
    gate, up = h.chunk(2, -1)
    return F.silu(gate) * up


def off(found, wanted):
    return ((found.double() - wanted.double()).norm() / wanted.double().norm()).item()


def differentiated(t, what, ours, reference, tensors):
    """A function and its gradients beside the reference's, in f64."""
    mine, exact = [x.clone().requires_grad_() for x in tensors], [x.double().requires_grad_() for x in tensors]
    y, wanted = ours(*mine), reference(*exact)
    dy = random(*y.shape, seed=7)
    y.backward(dy)
    wanted.backward(dy.double())
    offs = [off(y, wanted)] + [off(m.grad, e.grad) for m, e in zip(mine, exact)]
    t.check(max(offs) < 4e-3, f"{what} and its gradients, off by {' '.join(f'{o:.1e}' for o in offs)}")
    t.check(all(m.grad.dtype == x.dtype for m, x in zip(mine, tensors)), f"{what}: the types of its gradients")


class Block(torch.nn.Module):
    """A norm, two products, a gate between them."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(N, device="cuda", dtype=torch.bfloat16))
        self.up = torch.nn.Linear(N, 2 * N, bias=False, device="cuda", dtype=torch.bfloat16)
        self.down = torch.nn.Linear(N, N, bias=False, device="cuda", dtype=torch.bfloat16)

    def forward(self, x):
        return x + self.down(tdsl.torch.swiglu(self.up(tdsl.torch.rmsnorm(x, w=self.weight))))

    def gradients(self, function, x):
        x = x.clone().requires_grad_()
        self.zero_grad()
        y = function(x)
        y.float().square().mean().backward()
        return [y.detach().clone(), x.grad.clone(), *(p.grad.clone() for p in self.parameters())]


def compiled(t, block, x):
    wanted = block.gradients(block, x)
    for mode in ("default", "reduce-overhead"):
        torch._dynamo.reset()
        function = torch.compile(block, fullgraph=True, mode=mode)
        for _ in range(3):                                   # the second call records graphs, the third replays them
            found = block.gradients(function, x)
        offs = [off(f, w) for f, w in zip(found, wanted)]
        t.check(max(offs) < 1e-2, f"compiled, {mode}: off the eager one by {' '.join(f'{o:.1e}' for o in offs)}")
    torch._dynamo.reset()
    function = torch.compile(block, fullgraph=True, dynamic=True)
    for rows in (1, 7, 128, 300):
        t.check(off(function(x[:rows]), block(x[:rows])) < 1e-2, f"compiled for any number of rows, {rows}")

    def quantised(x, w):
        y, scale = tdsl.torch.rmsnorm_quant(x * 1, w)
        return y.float() * scale[:, None]
    torch._dynamo.reset()
    w = block.weight.detach()                                # else compiling asks for a gradient, which codes do not have
    t.check(torch.equal(torch.compile(quantised, fullgraph=True)(x, w), quantised(x, w)), "compiled, codes and scales")
    t.check(off(quantised(x, w), norm(x.double(), w.double())) < 4e-2, "codes and scales")


def captured(t, block, x):
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream), torch.no_grad():
        block(x)
    torch.cuda.current_stream().wait_stream(stream)
    with torch.cuda.graph(graph), torch.no_grad():
        y = block(x)
    wanted = block(x)
    y.zero_()
    graph.replay()
    torch.cuda.synchronize()
    t.check(torch.equal(y, wanted), "captured into a graph")


def others(t, block, x):
    found, wanted = block.gradients(lambda x: checkpoint(block, x, use_reentrant=False), x), block.gradients(block, x)
    t.check(all(torch.equal(f, w) for f, w in zip(found, wanted)), "checkpointed")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        t.check(torch.equal(block(x), wanted[0]), "under autocast")
    t.check(torch.equal(torch.export.export(block, (x,)).module()(x), wanted[0]), "exported")
    for op, args in ((torch.ops.tdsl.rmsnorm_quant.default, (x[:8], block.weight.detach())), (torch.ops.tdsl.swiglu.default, (random(8, 2 * N),))):
        found = torch.library.opcheck(op, args)
        t.check(set(found.values()) == {"SUCCESS"}, f"{op}: {found}")
    codes, _ = torch.ops.tdsl.rmsnorm_quant(x.clone().requires_grad_(), block.weight)
    raises(t, RuntimeError, "does not require grad", lambda: codes.float().sum().backward())
    for i in range(1, torch.cuda.device_count()):
        y, scale = tdsl.torch.rmsnorm_quant(x.to(f"cuda:{i}"), block.weight.detach().to(f"cuda:{i}"))
        here = tdsl.torch.rmsnorm_quant(x, block.weight.detach())
        t.check(torch.equal(y.cpu().view(torch.uint8), here[0].cpu().view(torch.uint8)) and str(y.device) == f"cuda:{i}", f"on cuda:{i} while cuda:0 is current")


class OnGpu(py_aiter.Torch):
    name = "torch on a GPU"
    put = staticmethod(lambda array: py_aiter.Torch.put(array).cuda())
    get = staticmethod(lambda tensor: py_aiter.Torch.get(tensor.cpu()))
    new = staticmethod(lambda shape, dtype: OnGpu.put(py_aiter.np.zeros(shape, dtype)))


def main():
    x, w, h = random(M, N), random(N, seed=2), random(M, 2 * N, seed=3)
    block, totals = Block(), Totals()
    totals.run(differentiated, "rmsnorm", lambda x, w: tdsl.torch.rmsnorm(x, w=w), norm, (x, w))
    totals.run(differentiated, "swiglu", tdsl.torch.swiglu, glu, (h,))
    for part in (compiled, captured, others):
        totals.run(part, block, x)
    chip = tdsl.open("hip:0" if torch.version.hip else "cuda:0").target
    py_aiter.FP8.setdefault(chip, (ml_dtypes.float8_e4m3fn, 448.0))
    for calls in (py_aiter.norms, py_aiter.fused_norms, py_aiter.gates, py_aiter.clamped, py_aiter.quantised, py_aiter.products, py_aiter.attention):
        totals.run(calls, chip, OnGpu)
    totals.finish()


if __name__ == "__main__":
    main()
