"""h200_two.py -- calls on two GPUs of one host: the same results on both, whichever is current, and clear errors for tensors and streams of the other.

In: a machine with two GPUs of sm_90a and torch; BUILD (first argument, else ../build) with h200.tpack, libtdsl_rt.so and python/.  Out: a line for each
check, the last with their number; exit 1 if one failed.  What one GPU computes is checked against f64 by h200.py; here one is compared with the other, by
bytes: kernels of one launch, of several with a workspace between, and of clusters; plain calls, on streams, in graphs, from threads of both at once.
"""
import os
import sys
import threading
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD = Path(sys.argv[1] if len(sys.argv) > 1 else HERE.parent / "build")
os.environ.setdefault("TDSL_LIBRARY", str(BUILD / "libtdsl_rt.so"))
sys.path[:0] = [str(HERE.parent / "python"), str(BUILD / "python")]
import torch                                                 # noqa: E402
import tdsl                                                  # noqa: E402

M, N, THREADS, TURNS = 512, 4096, 4, 20
FP8, E8 = torch.float8_e4m3fn, torch.float8_e8m0fnu
failed, checks = [], 0


def check(holds, what):
    global checks
    checks += 1
    if not holds:
        failed.append(what)
    print("ok    " if holds else "WRONG ", what, flush=True)


def tensors(device):
    """The same numbers on every device."""
    g = torch.Generator().manual_seed(3)
    x, dy, w = torch.randn(M, N, generator=g), torch.randn(M, N, generator=g), torch.randn(N, generator=g)
    rstd = torch.rsqrt(x.double().pow(2).mean(1) + 1e-6).float()
    return dict(x=x.bfloat16().to(device), dy=dy.bfloat16().to(device), w=w.bfloat16().to(device), rstd=rstd.to(device))


def calls(pack, t):
    """One launch; a workspace between two; a cluster's workgroups."""
    def out(*shape, dtype=FP8):
        return torch.empty(*shape, device=t["x"].device, dtype=dtype)
    rows, back = (out(M, N), out(M, dtype=torch.float32)), (out(M, N, dtype=torch.bfloat16), out(N, dtype=torch.float32))
    both = out(M, N), out(N // 32, M, dtype=E8), out(N, M), out(M // 32, N, dtype=E8)
    pack.rmsnorm_quant(t["x"], w=t["w"], y=rows[0], scale=rows[1])
    pack.rmsnorm_bwd(t["dy"], x=t["x"], w=t["w"], rstd=t["rstd"], dx=back[0], dw=back[1])
    pack.rmsnorm_both_mxfp8(t["x"], w=t["w"], y=both[0], scale=both[1], yt=both[2], scale_t=both[3])
    return [*rows, *back, *both]


def codes(results):
    return [r.cpu().view(torch.uint8) for r in results]


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def computes(pack, devices):
    wanted = None
    for current in devices:
        with torch.cuda.device(current):
            for device in devices:
                got = codes(calls(pack, tensors(device)))
                wanted = wanted or got
                check(same(got, wanted), f"tensors on {device}, {current} is current")
    for device in devices:
        stream = torch.cuda.Stream(device)
        with torch.cuda.stream(stream):
            got = calls(pack, tensors(device))
            stream.synchronize()
        check(same(codes(got), wanted), f"a stream of {device}")
        with torch.cuda.device(device):
            t, graph = tensors(device), torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=torch.cuda.Stream(device)):
                got = calls(pack, t)
            for r in got:
                r.view(torch.uint8).zero_()
            graph.replay()
            torch.cuda.synchronize(device)
        check(same(codes(got), wanted), f"a graph of {device}")
    return wanted


def from_threads(pack, devices, wanted):
    wrong = []

    def work(device):
        torch.cuda.set_device(device)
        t = tensors(device)
        for _ in range(TURNS):
            wrong.extend([device] * (not same(codes(calls(pack, t)), wanted)))
    threads = [threading.Thread(target=work, args=(devices[i % 2],)) for i in range(THREADS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    check(not wrong, f"{THREADS} threads, {TURNS} turns each, on both at once")


def refused(what, text, call):
    try:
        call()
        torch.cuda.synchronize()
        check(False, f"{what}: nothing is wrong with it")
    except tdsl.Error as e:
        check(text in str(e), f"{what}: {e}")


def main():
    if torch.cuda.device_count() < 2:
        sys.exit(f"h200_two: {torch.cuda.device_count()} GPUs; expected two")
    pack, devices = tdsl.open_pack(str(BUILD / "h200.tpack")), [torch.device("cuda", i) for i in range(2)]
    from_threads(pack, devices, computes(pack, devices))
    a, b = (tensors(d) for d in devices)
    refused("w on another GPU", "argument 'w' is on DLPack device (2, 1); cuda:0 takes (2, 0)", lambda: pack.rmsnorm_quant(a["x"], w=b["w"]))
    refused("another GPU named", "argument 'x' is on DLPack device (2, 1); cuda:0 takes (2, 0)", lambda: pack.rmsnorm_quant(b["x"], w=b["w"], device="cuda:0"))
    stream = torch.cuda.Stream(devices[0])
    refused("another GPU's stream", "cuda:1: rmsnorm_quant: the stream is another device's", lambda: pack.rmsnorm_quant(b["x"], w=b["w"], stream=stream))
    check(same(codes(calls(pack, b)), codes(calls(pack, a))), "and calls behind them")
    print(f"{checks} checks, {len(failed)} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
