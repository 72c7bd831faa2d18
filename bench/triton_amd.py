"""triton_amd.py B PEERS -- Triton's kernels for both chips on the simulated device: right against numpy, counted beside ours.

In: B, a build folder with tdsl-sim, tdslc and kernels.tpack; PEERS, a folder with triton_peers.py (plain Triton kernels: row and
block norms with fp8 results, gated units, matrix products, attention).  They are compiled here for gfx942 and gfx950, run by
tdsl-sim, and compared with numpy.  Out: one line a kernel and chip with the wave-instructions executed by row of the result;
ours, where the pack holds the same kernel, and its part of Triton's in the last columns; exit 1 where a result is wrong.  Skips where Triton, numpy or
ml_dtypes is absent.
"""
import json
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import ml_dtypes
    import numpy as np
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
except ImportError as absent:
    print(f"skipped: {absent}")
    sys.exit(0)
B, PEERS = Path(sys.argv[1]), Path(sys.argv[2])
sys.path.insert(0, str(PEERS))
sys.dont_write_bytecode = True
import triton_peers as peers

WORK = Path(tempfile.mkdtemp())
CLASSES = ("valu", "salu", "mfma", "lds", "vmem", "smem", "wait", "barrier", "branch", "other")
CHIPS = {"gfx942": ("fp8e4b8", ml_dtypes.float8_e4m3fnuz, 240.0), "gfx950": ("fp8e4nv", ml_dtypes.float8_e4m3fn, 448.0)}
NAMES = {"float32": "F32", "bfloat16": "BF16", "int32": "I32", "float8_e4m3fn": "U8", "float8_e4m3fnuz": "U8", "uint8": "U8"}
bf16 = ml_dtypes.bfloat16
random = np.random.default_rng(1)
wrong = 0


def write_tensors(path, tensors):
    header, body = {}, b""
    for name, a in tensors.items():
        raw = a.tobytes()
        header[name] = {"dtype": NAMES[a.dtype.name], "shape": list(a.shape), "data_offsets": [len(body), len(body) + len(raw)]}
        body += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def read_tensors(path, like):
    raw = path.read_bytes()
    n = struct.unpack("<Q", raw[:8])[0]
    header, body = json.loads(raw[8:8 + n]), raw[8 + n:]
    return {k: np.frombuffer(body[v["data_offsets"][0]:v["data_offsets"][1]], like[k].dtype).reshape(like[k].shape)
            for k, v in header.items() if k in like}


def stats_of(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr or done.stdout)
    return next(json.loads(done.stdout[done.stdout.index(line):]) for line in done.stdout.splitlines() if line.startswith("{"))


def executed(stats):
    return sum(stats[k] for k in CLASSES)


def compiled(fn, signature, constants, chip, warps, stages):
    signature = {k: {**signature, **{c: "constexpr" for c in constants}}[k] for k in fn.arg_names}
    attributes = {(i,): [["tt.divisibility", 16]] for i, v in enumerate(signature.values()) if v.startswith("*") or v == "i32"}
    c = triton.compile(ASTSource(fn, signature=signature, constexprs=constants, attrs=attributes), target=GPUTarget("hip", chip, 64),
                       options={"num_warps": warps, "num_stages": stages})
    path = WORK / "kernel.hsaco"
    path.write_bytes(c.asm["hsaco"])
    return path, c.metadata.name, c.metadata.shared


def run(chip, fn, args, constants, grid, warps, stages=2):
    """args: name -> (Triton type, array or number or None).  Returns the arrays after the run, and the counts."""
    path, name, lds = compiled(fn, {k: t for k, (t, _) in args.items()}, constants, chip, warps, stages)
    arrays = {k: v for k, (_, v) in args.items() if isinstance(v, np.ndarray)}
    write_tensors(WORK / "in.safetensors", arrays)
    specs = []
    for k in fn.arg_names:
        if k in args:
            t, v = args[k]
            specs.append(f"buf:{k}" if k in arrays else "ptr:0" if v is None else f"{'f32' if t == 'fp32' else 'i32'}:{v}")
    stats = stats_of(B / "tdsl-sim", path, name, "--grid", ",".join(map(str, grid)), "--block", 64 * warps, "--lds", lds, "--in",
                     WORK / "in.safetensors", "--out", WORK / "out.safetensors", "--stats", "--arg", *specs, "ptr:0", "ptr:0")
    return read_tensors(WORK / "out.safetensors", arrays), stats


def ours(chip, kernel, tensors, rows, *more):
    try:
        write_tensors(WORK / "ours.safetensors", tensors)
        stats = stats_of(B / "tdslc", "run", B / "kernels.tpack", kernel, "--device", f"sim:{chip}", "--in", WORK / "ours.safetensors",
                         "--out", WORK / "ours_out.safetensors", "--stats", *more)
        return executed(stats) / rows
    except (RuntimeError, StopIteration) as problem:
        print(problem, file=sys.stderr)
        return None


def report(chip, what, stats, rows, checks, beside=None):
    global wrong
    good = all(checks)
    wrong += not good
    theirs = executed(stats) / rows
    both = f"{beside:>10.1f} {beside / theirs:>6.2f}" if beside else ""
    print(f"{chip:<7} {what:<26} {'right' if good else 'WRONG':<6} {theirs:>10.1f} {stats['waves'] / rows:>8.2f} {both}", flush=True)


def close(a, b, relative, floor=1e-3):
    """Each within `relative` of itself, small ones within as much of `floor` times the largest."""
    a, b = a.astype(np.float32), b.astype(np.float32)
    return bool(np.all(np.abs(a - b) <= relative * np.maximum(np.abs(b), np.abs(b).max() * floor)))


def codes_close(got, want):
    """At most one step of fp8 away, and nearly always the same."""
    a, b = got.astype(np.float32), want.astype(np.float32)
    return close(a, b, 0.126) and np.mean(a == b) > 0.99


def small(*shape):
    return (random.standard_normal(shape)).astype(bf16)


def rows_kernel(chip, n, warps, add, layer):
    t, f8, top = CHIPS[chip]
    m, eps = 16, 1e-6
    x, w, res = small(m, n), small(n), small(m, n)
    args = dict(X=("*bf16", x), W=("*bf16", w), RES=("*bf16", res if add else None), RES_OUT=("*bf16", np.zeros_like(x) if add else None),
                Y=("*" + t, np.zeros((m, n), f8)), S=("*fp32", np.zeros(m, np.float32)), M=("i32", m), N=("i32", n), eps=("fp32", eps))
    got, stats = run(chip, peers.rms_row_quant, args, dict(FMAX=top, R=1, BLOCK=n, ADD=add, LAYER=layer), (m, 1, 1), warps)
    v = x.astype(np.float32) + (res.astype(np.float32) if add else 0)
    checks = [close(got["RES_OUT"], v.astype(bf16), 0.01)] if add else []
    v = v - v.mean(1, keepdims=True) if layer else v
    v = v / np.sqrt((v * v).mean(1, keepdims=True) + eps) * w.astype(np.float32)
    s = np.abs(v).max(1) / top
    checks += [close(got["S"], s, 1e-4), codes_close(got["Y"], (v / s[:, None]).astype(f8))]
    if add:
        beside = ours(chip, "add_rmsnorm_quant", {"x": x, "res": res, "w": w}, m, *without("rstd"))
    elif layer:
        beside = ours(chip, "layernorm_quant", {"x": x, "w": w, "b": np.zeros_like(w)}, m, *without("res_out", "rstd", "mu"))
    else:
        beside = ours(chip, "rmsnorm_quant", {"x": x, "w": w}, m)
    report(chip, f"{'add_' if add else ''}{'layer' if layer else 'rms'}norm_quant {n}", stats, m, checks, beside)


def without(*names):
    return [word for name in names for word in ("--without", name)]


def norm_groups(chip, group, n=4096):
    """One scale for `group` columns: f32 for 128, e8m0 for 32."""
    t, f8, top = CHIPS[chip]
    m, eps, mx = 16, 1e-6, group == 32
    x, w = small(m, n), small(n)
    args = dict(X=("*bf16", x), W=("*bf16", w), Y=("*" + t, np.zeros((m, n), f8)), M=("i32", m), N=("i32", n), eps=("fp32", eps),
                S=("*u8" if mx else "*fp32", np.zeros((m, n // group), np.uint8 if mx else np.float32)))
    got, stats = run(chip, peers.rms_block_quant, args, dict(FMAX=top, R=1, BLOCK=n, G=group, MX=mx), (m, 1, 1), 4)
    v = x.astype(np.float32)
    v = (v / np.sqrt((v * v).mean(1, keepdims=True) + eps) * w.astype(np.float32)).reshape(m, n // group, group)
    s = np.abs(v).max(2) / top
    power = np.exp2(np.ceil(np.log2(s)))
    scale = power if mx else s
    checks = [np.mean(got["S"] == np.log2(power).astype(int) + 127) > 0.999 if mx else close(got["S"], s, 1e-4),
              codes_close(got["Y"], (v / scale[:, :, None]).reshape(m, n).astype(f8))]
    report(chip, f"rmsnorm {'mxfp8' if mx else '1x128'} {n}", stats, m, checks,
           ours(chip, "rmsnorm_mxfp8" if mx else "rmsnorm_128", {"x": x, "w": w}, m, *without("res_out", "rstd")))


def row_quant(chip):
    t, f8, top = CHIPS[chip]
    m, n = 16, 4096
    x = small(m, n)
    args = dict(X=("*bf16", x), Y=("*" + t, np.zeros((m, n), f8)), S=("*fp32", np.zeros(m, np.float32)), M=("i32", m), N=("i32", n))
    got, stats = run(chip, peers.row_quant, args, dict(FMAX=top, R=1, BLOCK=n), (m, 1, 1), 4)
    v = x.astype(np.float32)
    s = np.abs(v).max(1) / top
    report(chip, f"quantize_rows {n}", stats, m, [close(got["S"], s, 1e-4), codes_close(got["Y"], (v / s[:, None]).astype(f8))],
           ours(chip, "quantize_rows", {"x": x}, m, "--instance", "T=bf16,Q=fp8"))


def cast_transpose(chip):
    t, f8, _ = CHIPS[chip]
    m, n = 256, 256
    x, scale = small(m, n), np.array([0.25], np.float32)
    args = dict(X=("*bf16", x), Y=("*" + t, np.zeros((m, n), f8)), YT=("*" + t, np.zeros((n, m), f8)), SCALE=("*fp32", 1 / scale), M=("i32", m), N=("i32", n))
    got, stats = run(chip, peers.cast_transpose, args, dict(BM=64, BN=64), (m // 64, n // 64, 1), 4)
    want = (x.astype(np.float32) / scale).astype(f8)
    report(chip, f"cast_transpose {m}x{n}", stats, m, [codes_close(got["Y"], want), codes_close(got["YT"], want.T)],
           ours(chip, "cast_transpose", {"x": x, "scale": scale}, m, "--instance", "T=bf16,Q=fp8"))


def gated(chip, gelu):
    t, f8, top = CHIPS[chip]
    m, n = 16, 2048
    x = small(m, 2 * n)
    args = dict(X=("*bf16", x), Y=("*" + t, np.zeros((m, n), f8)), S=("*fp32", np.zeros((m, n // 128), np.float32)), M=("i32", m), N=("i32", n))
    got, stats = run(chip, peers.glu_block_quant, args, dict(FMAX=top, R=1, BLOCK=2048, G=128, GELU=gelu), (m, 1, 1), 4)
    g, u = x[:, :n].astype(np.float32), x[:, n:].astype(np.float32)
    z = 1.5957691216057308 * (g + 0.044715 * g * g * g) if gelu else g
    v = (g / (1 + np.exp(-z)) * u).reshape(m, n // 128, 128)
    s = np.abs(v).max(2) / top
    report(chip, f"{'geglu_tanh' if gelu else 'swiglu'} 1x128 {n}", stats, m, [close(got["S"], s, 1e-4), codes_close(got["Y"], (v / s[:, :, None]).reshape(m, n).astype(f8))],
           ours(chip, "geglu_tanh_128" if gelu else "swiglu_quant", {"h": x}, m))


def matrix(chip, narrow):
    t, f8, _ = CHIPS[chip]
    kind, name, step = (f8, t, 128) if narrow else (bf16, "bf16", 64)
    m, n, k = 256, 256, 512
    a, b = (random.standard_normal((m, k)) / 4).astype(kind), (random.standard_normal((n, k)) / 4).astype(kind)
    args = dict(A=("*" + name, a), B=("*" + name, b), C=("*bf16", np.zeros((m, n), bf16)), M=("i32", m), N=("i32", n), K=("i32", k))
    got, stats = run(chip, peers.gemm_nt, args, dict(BM=256, BN=256, BK=step, GROUP=8), (1, 1, 1), 8)
    want = a.astype(np.float32) @ b.astype(np.float32).T
    beside = None if narrow else ours(chip, "grouped_gemm", {"a": a, "b": b[None], "first": np.array([0, m], np.int32)}, m)
    report(chip, f"gemm {'fp8' if narrow else 'bf16'} {m}x{n}x{k}", stats, m, [close(got["C"], want.astype(bf16), 0.02)], beside)


def attention(chip, d, causal):
    h, hk, s = 2, 1, 256
    q, k, v = small(1, h, s, d), small(1, hk, s, d), small(1, hk, s, d)
    scale = d ** -0.5
    args = dict(Q=("*bf16", q), K=("*bf16", k), V=("*bf16", v), O=("*bf16", np.zeros_like(q)), scale=("fp32", scale * 1.4426950408889634),
                S=("i32", s), H=("i32", h), HK=("i32", hk))
    got, stats = run(chip, peers.attn_fwd, args, dict(D=d, BM=128, BN=64, CAUSAL=causal), (s // 128, h, 1), 4)
    p = np.einsum("bhid,bgjd->bhij", q.astype(np.float32), k.astype(np.float32)) * scale
    if causal:
        p = np.where(np.tril(np.ones((s, s), bool)), p, -np.inf)
    p = np.exp(p - p.max(-1, keepdims=True))
    want = np.einsum("bhij,bgjd->bhid", p / p.sum(-1, keepdims=True), v.astype(np.float32))
    beside = None if not causal else ours(chip, "attention", {"q": q, "k": k, "v": v}, h * s, "--arg", f"scale={scale}")
    report(chip, f"attention {d}{' causal' if causal else ''}", stats, h * s, [close(got["O"], want, 0.05, 0.1)], beside)


os.environ.setdefault("TRITON_CACHE_DIR", str(WORK / "cache"))
print(f"Triton {triton.__version__}: wave-instructions executed a row, on the simulated device")
print(f"{'chip':<7} {'kernel':<26} {'':<6} {'inst/row':>10} {'waves':>8} {'ours':>10} {'part':>6}")
for chip in CHIPS:
    for n, warps in ((4096, 4), (8192, 8)):
        rows_kernel(chip, n, warps, False, False)
        rows_kernel(chip, n, warps, True, False)
        rows_kernel(chip, n, warps, False, True)
    for group in (128, 32):
        norm_groups(chip, group)
    for gelu in (False, True):
        gated(chip, gelu)
    row_quant(chip)
    cast_transpose(chip)
    matrix(chip, False)
    matrix(chip, True)
    for d in (64, 128):
        attention(chip, d, False)
        attention(chip, d, True)
sys.exit(wrong != 0)
