"""h200_two.py -- calls on two GPUs of one host: the same results on both, whichever is current, and clear errors for tensors and streams of the other.

In: a machine with two GPUs of sm_90a and torch; build/ with h200.tpack, libtdsl_rt.so and python/.  Out: totals in Check's form.  What one GPU computes
is checked against f64 by h200.py; here one is compared with the other, by bytes: kernels of one launch, of several with a workspace between, and of clusters; plain calls, on streams, in graphs, from threads of both at once.
"""
import sys
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests")]
import torch                                                 # noqa: E402
import tdsl                                                  # noqa: E402
from py_calls import raises                                  # noqa: E402
from totals import Totals                                    # noqa: E402

M, N, THREADS, TURNS = 512, 4096, 4, 20
FP8, E8 = torch.float8_e4m3fn, torch.float8_e8m0fnu


def tensors(device):
    """The same numbers on every device."""
    g = torch.Generator().manual_seed(3)
    x, dy, w = torch.randn(M, N, generator=g), torch.randn(M, N, generator=g), torch.randn(N, generator=g)
    rstd = torch.rsqrt(x.double().pow(2).mean(1) + 1e-6).float()
    return dict(x=x.bfloat16().to(device), dy=dy.bfloat16().to(device), w=w.bfloat16().to(device), rstd=rstd.to(device))


def calls(pack, given):
    """One launch; a workspace between two; a cluster's workgroups."""
    def out(*shape, dtype=FP8):
        return torch.empty(*shape, device=given["x"].device, dtype=dtype)
    rows, back = (out(M, N), out(M, dtype=torch.float32)), (out(M, N, dtype=torch.bfloat16), out(N, dtype=torch.float32))
    both = out(M, N), out(N // 32, M, dtype=E8), out(N, M), out(M // 32, N, dtype=E8)
    pack.rmsnorm_quant(given["x"], w=given["w"], y=rows[0], scale=rows[1])
    pack.rmsnorm_bwd(given["dy"], x=given["x"], w=given["w"], rstd=given["rstd"], dx=back[0], dw=back[1])
    pack.rmsnorm_both_mxfp8(given["x"], w=given["w"], y=both[0], scale=both[1], yt=both[2], scale_t=both[3])
    return [*rows, *back, *both]


def codes(results):
    return [r.cpu().view(torch.uint8) for r in results]


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def computes(t, pack, devices):
    wanted = None
    for current in devices:
        with torch.cuda.device(current):
            for device in devices:
                got = codes(calls(pack, tensors(device)))
                wanted = wanted or got
                t.check(same(got, wanted), f"tensors on {device}, {current} is current")
    for device in devices:
        stream = torch.cuda.Stream(device)
        with torch.cuda.stream(stream):
            got = calls(pack, tensors(device))
            stream.synchronize()
        t.check(same(codes(got), wanted), f"a stream of {device}")
        with torch.cuda.device(device):
            given, graph = tensors(device), torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=torch.cuda.Stream(device)):
                got = calls(pack, given)
            for r in got:
                r.view(torch.uint8).zero_()
            graph.replay()
            torch.cuda.synchronize(device)
        t.check(same(codes(got), wanted), f"a graph of {device}")
    return wanted


def from_threads(t, pack, devices, wanted):
    wrong = []

    def work(device):
        torch.cuda.set_device(device)
        given = tensors(device)
        for _ in range(TURNS):
            wrong.extend([device] * (not same(codes(calls(pack, given)), wanted)))
    threads = [threading.Thread(target=work, args=(devices[i % 2],)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    t.check(not wrong, f"{THREADS} threads, {TURNS} turns each, on both at once")


def everything(t, pack, devices):
    from_threads(t, pack, devices, computes(t, pack, devices))
    a, b = (tensors(d) for d in devices)
    stream = torch.cuda.Stream(devices[0])
    raises(t, tdsl.Error, "argument 'w' is on DLPack device (2, 1); cuda:0 takes (2, 0)", lambda: pack.rmsnorm_quant(a["x"], w=b["w"]))
    raises(t, tdsl.Error, "argument 'x' is on DLPack device (2, 1); cuda:0 takes (2, 0)", lambda: pack.rmsnorm_quant(b["x"], w=b["w"], device="cuda:0"))
    raises(t, tdsl.Error, "cuda:1: rmsnorm_quant: the stream is another device's", lambda: pack.rmsnorm_quant(b["x"], w=b["w"], stream=stream))
    t.check(same(codes(calls(pack, b)), codes(calls(pack, a))), "calls behind those that were refused")


def main():
    if torch.cuda.device_count() < 2:
        sys.exit(f"h200_two: {torch.cuda.device_count()} GPUs; expected two")
    totals = Totals()
    totals.run(everything, tdsl.open_pack(str(ROOT / "build/h200.tpack")), [torch.device("cuda", i) for i in range(2)])
    totals.finish()


if __name__ == "__main__":
    main()
