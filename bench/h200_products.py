"""h200_products.py OUT [--pack P] -- matrix products and attention on an NVIDIA GPU, beside torch.

In: a build folder with libtdsl_rt.so and python/_core.abi3.so, a pack that holds sm_90a; torch.  Out: OUT/products.json and a table: microseconds a call,
10^12 operations a second and, where torch has the same (matmul in bf16, scaled_dot_product_attention), the ratio to it.  Contestants run in turns in one
process on the same tensors; a figure is the median of runs of several calls between two events.  Results are compared with f64, or f32 where that would
take too long, before anything is timed: exit 1 where one is wrong.  A GPU slows its clock as it warms up: figures of one run are to be compared, not of two.
"""
import argparse
import json
import statistics
import sys
from datetime import datetime, timezone
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE), str(HERE.parent / "python")]
try:
    import torch
    import tdsl
except ImportError as absent:
    sys.exit(f"h200_products.py: {absent}")

BF16, U8 = torch.bfloat16, torch.uint8
# experts, rows of all, columns, what is contracted
PRODUCTS = [(1, 16, 8192, 8192), (1, 128, 4096, 4096), (1, 256, 8192, 8192), (1, 512, 4096, 4096), (1, 1024, 4096, 4096), (1, 2048, 2048, 2048),
            (1, 4096, 4096, 4096), (1, 8192, 8192, 8192), (8, 16384, 14336, 4096), (64, 16384, 2048, 4096), (32, 512, 5760, 2880), (32, 4096, 5760, 2880)]
# batch, heads, heads of keys, positions, keys, elements of a head; all causal, the last positions
ATTENTION = [(4, 32, 32, 4096, 4096, 64), (4, 32, 8, 1024, 1024, 128), (4, 32, 32, 4096, 4096, 128), (2, 32, 8, 8192, 8192, 128), (2, 16, 16, 4096, 4096, 256),
             (32, 32, 8, 1, 8192, 128), (64, 64, 8, 1, 2048, 128), (32, 32, 8, 1, 8192, 64), (32, 32, 32, 1, 2048, 128), (16, 32, 4, 2, 4096, 128), (8, 32, 8, 1, 8192, 128)]
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
CHECKED = 192                                                # rows of a result that are compared


def codes(*shape, fp4):
    """Codes without NaN, and scales from 1/8 to 8, each as it is given and what both mean, in bf16, which holds it."""
    n = shape[-1] // 2 if fp4 else shape[-1]
    u = torch.randint(0, 256, shape[:-1] + (n,), device="cuda", dtype=U8)
    u = u if fp4 else torch.where(u % 128 >= 120, u - 64, u)
    s = torch.randint(124, 131, shape[:-1] + (shape[-1] // 32,), device="cuda", dtype=U8)
    if fp4:
        each = torch.stack([u & 15, u >> 4], -1).flatten(-2)
        value = torch.tensor(E2M1, device="cuda")[(each & 7).long()] * (1 - 2 * (each >> 3).float())
    else:
        value = u.view(torch.float8_e4m3fn).float()
    value = (value * torch.exp2(s.float() - 127).repeat_interleave(32, -1)).to(BF16)
    return u.view(torch.float4_e2m1fn_x2 if fp4 else torch.float8_e4m3fn), s.view(torch.float8_e8m0fnu), value


def time_of(call, n):
    call()
    torch.cuda.synchronize()
    took = []
    for _ in range(5):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        for _ in range(n):
            call()
        b.record()
        b.synchronize()
        took.append(a.elapsed_time(b) * 1e3 / n)
    return statistics.median(took)


class Wrong(Exception):
    pass


def compare(what, got, expected, bound):
    error = float(((got.double() - expected.double()).abs() / (expected.double().abs() + expected.double().std())).max())
    if not error <= bound:
        raise Wrong(f"{what}: off by {error:.3g} of what is expected, {bound:.3g} are allowed")
    return error


def product_calls(pack, e, m, n, k):
    """By name: a call, its result, the operands that it stands for."""
    a, b = torch.randn(m, k, device="cuda", dtype=BF16), torch.randn(e, n, k, device="cuda", dtype=BF16)
    first = (torch.arange(e + 1, device="cuda") * (m // e)).to(torch.int32)
    calls = {"grouped_gemm bf16": (lambda c: pack.grouped_gemm(a, b, first, c=c), a, b)}
    for fp4, name in ((False, "fp8"), (True, "e2m1")):
        x, sx, vx = codes(m, k, fp4=fp4)
        w, sw, vw = codes(e, n, k, fp4=fp4)
        calls[f"grouped_gemm_mx {name}"] = (lambda c, x=x, sx=sx, w=w, sw=sw: pack.grouped_gemm_mx(x, sx, w, sw, first, c=c), vx, vw)
        calls[f"grouped_gemm_mx_weights {name}"] = (lambda c, w=w, sw=sw: pack.grouped_gemm_mx_weights(a, w, sw, first, c=c), a, vw)
    return calls


def products(pack, e, m, n, k):
    out = []
    for name, (call, a, b) in product_calls(pack, e, m, n, k).items():
        c = torch.full((m, n), float("nan"), device="cuda", dtype=BF16)
        call(c)
        rows = min(m // e, CHECKED // e + 1)
        error = max(compare(f"{name} {e, m, n, k}", c[g * (m // e):][:rows], a[g * (m // e):][:rows].double() @ b[g].double().T, 2.0 ** -7) for g in range(e))
        contestants = {"tdsl": lambda: call(c)}
        if e == 1 and name.endswith("bf16"):
            contestants["torch"] = lambda: torch.matmul(a, b[0].T, out=c)
        out.append(row_of(name, (e, m, n, k), 2 * m * n * k, contestants, error))
    return out


def attention(pack, batch, heads, groups, positions, length, d):
    q = torch.randn(batch, heads, positions, d, device="cuda", dtype=BF16)
    k, v = (torch.randn(batch, groups, length, d, device="cuda", dtype=BF16) for _ in range(2))
    o = torch.full_like(q, float("nan"))
    pack.attention(q, k, v, scale=d ** -0.5, o=o)
    head, group = heads - 1, groups - 1
    seen = torch.ones(positions, length, device="cuda", dtype=torch.bool).tril(length - positions)
    scores = (q[0, head].double() @ k[0, group].double().T * d ** -0.5).masked_fill(~seen, -float("inf"))
    shape = (batch, heads, groups, positions, length, d)
    error = compare(f"attention {shape}", o[0, head], torch.softmax(scores, -1) @ v[0, group].double(), 2.0 ** -5)
    contestants = {"tdsl": lambda: pack.attention(q, k, v, scale=d ** -0.5, o=o)}
    if positions in (1, length):
        contestants["torch"] = lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=positions > 1, enable_gqa=heads != groups)
    return [row_of("attention bf16", shape, 4 * batch * heads * d * int(seen.sum()), contestants, error)]


def row_of(name, shape, operations, contestants, error):
    n, took = 20 if operations < 1 << 34 else 5, {}
    for order in (list(contestants), list(contestants)[::-1]):
        for who in order:
            took.setdefault(who, []).append(time_of(contestants[who], n))
    us = {who: round(statistics.mean(t), 2) for who, t in took.items()}
    row = {"kernel": name, "shape": shape, "us": us, "tera": {who: round(operations / t / 1e6, 1) for who, t in us.items()}, "error": error}
    if "torch" in us:
        row["to_torch"] = round(us["torch"] / us["tdsl"], 3)
    sizes = " x ".join(map(str, shape))
    print(f"| {name} | {sizes} | {us['tdsl']:.1f} | {row['tera']['tdsl']:.0f} | {us.get('torch', '-')} | {row.get('to_torch', '-')} |", flush=True)
    return row


def main():
    p = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    p.add_argument("out", type=Path)
    p.add_argument("--build", type=Path, default=HERE.parent / "build")
    p.add_argument("--pack", type=Path, help="default: BUILD/h200.tpack")
    o = p.parse_args()
    if not torch.cuda.is_available():
        sys.exit("h200_products.py: no GPU that torch can use")
    pack = tdsl.open_pack(str(o.pack or o.build / "h200.tpack"))
    print("| kernel | shape | us | 10^12/s | torch us | of torch's rate |\n|---|---|---|---|---|---|")
    rows, wrong = [], []
    for of, shapes in ((products, PRODUCTS), (attention, ATTENTION)):
        for shape in shapes:
            try:
                rows += of(pack, *shape)
            except Wrong as what:
                wrong.append(str(what))
            torch.cuda.empty_cache()
    o.out.mkdir(parents=True, exist_ok=True)
    about = {"when": datetime.now(timezone.utc).isoformat(timespec="seconds"), "gpu": torch.cuda.get_device_name(), "torch": torch.__version__}
    (o.out / "products.json").write_text(json.dumps({**about, "rows": rows, "wrong": wrong}, indent=1))
    sys.exit("\n".join(wrong) if wrong else 0)


if __name__ == "__main__":
    main()
