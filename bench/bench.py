"""bench.py B [--save] -- the benchmark tables, then every target figure with met / not met, also as B/bench.json.

In: B, a build folder with the pack, the wheels, tdslc, host_cost, pack_cost, sim_speed and the seconds that `make run` and `make test` noted.
Out: tables on stdout.  --save appends the figures to bench/history.jsonl and prints what changed since the last entry there.
Figures of the simulated device are exact counts and repeat to the last digit.  A time is the least of its repeats, and its median
stands beside it: processors that share a core with a neighbour run at one speed or at a little over half of it, and change within a
second; what disturbs only adds.
Only the standard library is used.
"""
import json
import os
import platform
import re
import resource
import shutil
import statistics
import struct
import subprocess
import sys
import time
import zipfile
from pathlib import Path

B = Path(sys.argv[1])
ROOT = Path(__file__).resolve().parent.parent
PACK = B / "kernels.tpack"
CHIPS = ("gfx942", "gfx950")
ROWS, N = 64, 4096
REPEATS = 9
PACK_REPEATS = 5
AITER_MB = 118
figures = []


def figure(name, value, unit, most, detail=""):
    """One line of the closing table: met where the value is known and at most `most`."""
    figures.append({"name": name, "value": value, "unit": unit, "most": most, "met": value is not None and value <= most, "detail": detail})


def timed(name, values, unit, most, detail=""):
    figure(name, min(values), unit, most, "; ".join(filter(None, (f"least of {len(values)}, median {statistics.median(values):.2f}", detail))))


def output(*command, **more):
    result = subprocess.run([str(c) for c in command], capture_output=True, text=True, **more)
    if result.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}: exit {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


def spread(values):
    return f"{min(values):.1f} to {max(values):.1f} of {len(values)}"


def json_in(text):
    """The JSON object or list that a command printed among other lines."""
    for line in text.splitlines():
        if line.lstrip()[:1] in "{[" and line.strip():
            return json.loads(text[text.index(line):])
    raise RuntimeError(f"no JSON in: {text[:200]}")


def write_rows(path, matrices, vectors):
    """matrices[ROWS, N] and vectors[N] of small bf16 numbers as a safetensors file."""
    def values(n):
        return b"".join(struct.pack("<H", 0x3f80 | (i * 37 & 0x7f) | (i % 3 == 0) << 15) for i in range(n))
    data = {name: ([ROWS, N], values(ROWS * N)) for name in matrices} | {name: ([N], values(N)) for name in vectors}
    header, body = {}, b""
    for name, (shape, raw) in data.items():
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [len(body), len(body) + len(raw)]}
        body += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def instance_of(rows, kernel):
    """The instance bf16 -> fp8 of a kernel, by its name."""
    names = sorted({r["instance"] for r in rows if r["kernel"] == kernel})
    return next((n for n in names if "bf16" in n and "fp8" in n), next((n for n in names if "bf16" in n), names[0]))


def table_report(rows):
    print("What the pack holds: the object of each variant, read back from its bytes")
    print(f"{'kernel':<14} {'instance':<18} {'chip':<7} {'variant':<22} {'vgpr':>5} {'agpr':>5} {'sgpr':>5} {'lds':>7} {'inst':>6} {'barriers':>8} {'bytes':>7}")
    for r in rows:
        print(f"{r['kernel']:<14} {r['instance']:<18} {r['target']:<7} {r['variant']:<22} {r['vgpr']:>5} {r['agpr']:>5} {r['sgpr']:>5} {r['lds']:>7} "
              f"{r['instructions']:>6} {r['barriers']:>8} {r['object_bytes']:>7}")


def narrow_loads(kernel, chip, instance, variant):
    """Vector loads from global memory in the variant's code, and those of them that move less than 16 bytes a lane."""
    path = B / f"bench_{chip}.hsaco"
    output(B / "tdslc", "extract", PACK, "--kernel", kernel, "--instance", instance, "--target", chip, "--variant", variant, "-o", path)
    loads = re.findall(r"\b((?:global|buffer|flat)_load_\w+)", output("llvm-objdump-22", "-d", f"--mcpu={chip}", path))
    return len(loads), [x for x in loads if not x.endswith("dwordx4")]


def row_kernels(rows):
    """The norms with a quantised output, each in the variant for N: kernel, tensors of rows, tensors of N, other outputs that are wanted, the most
    wave-instructions a row."""
    cases = (("rmsnorm_quant", ("x",), ("w",), (), 800), ("layernorm_quant", ("x",), ("w", "b"), (), 1000),
             ("add_rmsnorm_quant", ("x", "res"), ("w",), ("res_out",), 1100), ("rmsnorm_128", ("x",), ("w",), (), 800))
    listing = {k["kernel"]: k for k in json.loads(output(B / "tdslc", "list", "--json", PACK))["kernels"]}
    print(f"\nNorms with a quantised output, {ROWS} rows of {N}, executed on the simulated device")
    print(f"{'kernel':<18} {'chip':<7} {'variant':<32} {'inst/row':>9} {'waves/row':>9} {'barriers':>8} {'read':>10} {'written':>10} {'read/least':>10} "
          f"{'loads':>6} {'narrow':>6}")
    for kernel, matrices, vectors, wanted, most in cases:
        instance = instance_of(rows, kernel)
        write_rows(B / "bench.safetensors", matrices, vectors)
        without = [p["name"] for p in listing[kernel]["params"] if p.get("optional") and p["role"] == "out" and p["name"] not in wanted]
        for chip in CHIPS:
            stats = json_in(output(B / "tdslc", "run", PACK, kernel, "--device", f"sim:{chip}", "--instance", instance, "--in", B / "bench.safetensors",
                                   "--out", B / "bench_out.safetensors", "--stats", *(x for name in without for x in ("--without", name))))
            least = (ROWS * len(matrices) + stats["workgroups"] * len(vectors)) * N * 2   # rows once, and w once a workgroup
            executed = sum(stats[k] for k in ("valu", "salu", "mfma", "lds", "vmem", "smem", "wait", "barrier", "branch", "other"))
            barriers = stats["barrier"] / stats["waves"]
            variant = next(r["variant"] for r in rows if (r["kernel"], r["instance"], r["target"]) == (kernel, instance, chip)
                           and r["variant"].startswith(f"N={N} "))
            loads, narrow = narrow_loads(kernel, chip, instance, variant)
            print(f"{kernel:<18} {chip:<7} {variant:<32} {executed / ROWS:>9.1f} {stats['waves'] / ROWS:>9.1f} {barriers:>8.1f} {stats['global_read']:>10} "
                  f"{stats['global_written']:>10} {stats['global_read'] / least:>10.3f} {loads:>6} {len(narrow):>6}")
            figure(f"{kernel} {chip} wave-instructions a row", executed / ROWS, "", most)
            figure(f"{kernel} {chip} bytes read / (rows + w a workgroup)", stats["global_read"] / least, "", 1.0)
            if kernel == "rmsnorm_quant":
                figure(f"{kernel} {chip} barriers a wave", barriers, "", 1)
                figure(f"{kernel} {chip} loads narrower than 16 bytes", len(narrow), "", 0, " ".join(sorted(set(narrow))))


def row_pack(rows):
    """The pack of the kernels without matrix products, built PACK_REPEATS times by two threads."""
    matrix = {r["kernel"] for r in rows if r["mfma"]}
    kernels = [k["kernel"] for k in json.loads(output(B / "tdslc", "list", "--json", PACK))["kernels"] if k["kernel"] not in matrix]
    variants = sum(r["kernel"] not in matrix for r in rows)
    pack, walls, shares, times = B / "rows.tpack", [], [], {}
    for _ in range(PACK_REPEATS):
        start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        output(B / "tdslc", "build", ROOT / "kernels.tdsl", "-j", 2, "-o", pack, *(x for k in kernels for x in ("--kernel", k)))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        walls.append(time.perf_counter() - start)
        shares.append((after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3 / variants)
        for r in json.loads(output(B / "tdslc", "report", "--json", pack)):
            times.setdefault((r["kernel"], r["instance"], r["target"], r["variant"]), []).append(r["compile_ms"])
    mb, whole = pack.stat().st_size / 1e6, PACK.stat().st_size / 1e6
    print(f"\nThe row kernels' pack for {' and '.join(CHIPS)}: {variants} variants of {len(kernels)} kernels, {mb:.2f} MB; all kernels: {len(rows)} variants, "
          f"{whole:.2f} MB\nbuilt by two threads in {min(walls):.1f} s ({spread(walls)}); processor time {min(shares):.1f} ms ({spread(shares)}) a variant with "
          f"everything,\nfrom its passes to its object {statistics.mean(map(min, times.values())):.1f} ms, each variant's least; by medians "
          f"{statistics.mean(map(statistics.median, times.values())):.1f} ms")
    figure("row pack: variants", variants, "", 1200, f"{len(rows)} in the pack of all kernels")
    figure("row pack: a variant on average", statistics.mean(map(min, times.values())), "ms", 12,
           f"processor time, each variant's least of {PACK_REPEATS}; by medians {statistics.mean(map(statistics.median, times.values())):.1f}; "
           f"of whole builds {spread(shares)}")
    timed("row pack: built on two cores", walls, "s", 10, f"wall clock, {spread(walls)}")
    figure("row pack: size", mb, "MB", 4, f"{whole:.2f} MB with all kernels")


def compile_times(_):
    """Each variant of each shipped instance of the model kernels, built REPEATS times by one thread: the least of a variant's
    processor times, and of those the worst.  The first variant that a process builds for a chip pays for LLVM's start there and is left out."""
    kernels = {"rmsnorm_quant": 15, "swiglu_quant": 15, "grouped_gemm": 200, "attention": 200}
    pack, times = B / "compile.tpack", {}
    for _ in range(REPEATS):
        output(B / "tdslc", "build", ROOT / "kernels.tdsl", "-j", 1, "-o", pack, *(x for k in kernels for x in ("--kernel", k)))
        started = set()
        for r in json.loads(output(B / "tdslc", "report", "--json", pack)):
            if r["target"] not in started:
                started.add(r["target"])
                continue
            times.setdefault((r["kernel"], r["instance"], r["target"], r["variant"]), []).append(r["compile_ms"])
    print(f"\nCompiling, one thread, warm: ms of processor time a variant, the least of {REPEATS} builds")
    print(f"{'kernel':<14} {'instance':<18} {'chip':<7} {'variants':>8} {'median':>7} {'worst':>7}  of variant")
    worst = {}
    for kernel, instance, chip in sorted({key[:3] for key in times}):
        least = {key[3]: min(t) for key, t in times.items() if key[:3] == (kernel, instance, chip)}
        name = max(least, key=least.get)
        print(f"{kernel:<14} {instance:<18} {chip:<7} {len(least):>8} {statistics.median(least.values()):>7.1f} {least[name]:>7.1f}  {name}")
        if least[name] > min(worst.get(kernel, ((0,), ""))[0]):
            worst[kernel] = (times[kernel, instance, chip, name], f"{instance} {chip} {name}")
    for kernel, most in kernels.items():
        timed(f"compile {kernel}, its worst variant", worst[kernel][0], "ms", most, worst[kernel][1])


def host_cost(_):
    """The runtime's own program, on the device that does nothing: from the C function to the driver's launch."""
    runs = [output(B / "host_cost", PACK) for _ in range(REPEATS)]
    print("\nHost cost of a call\n" + runs[0].rstrip())
    values = [float(re.search(r"warm: ([\d.]+) ns", run)[1]) for run in runs]
    timed("host cost a call", values, "ns", 200)


def pack_cost(_):
    """Opening packs, first calls and compiling in process, each time in a new process; processor time, as for the compile times."""
    most = {"open a pack of 1000 variants": 1, "first call from a warm pack, without the driver": 1, "call that compiles a row kernel, cold": 40,
            "call that compiles a row kernel, LLVM loaded": 15, "the same call in a later process": 1, "compile: cache hit": 1}
    print("\nPacks and compiling in process, ms: processor time, wall clock")
    for line in output(B / "pack_cost", ROOT / "kernels.tdsl", PACK, 9).splitlines():
        r = json.loads(line)
        print(f"{r['name']:<54} {min(r['processor']):>8.3f} {min(r['ms']):>8.3f}  medians {statistics.median(r['processor']):.3f} "
              f"{statistics.median(r['ms']):.3f} of {len(r['ms'])}")
        if r["name"] in most:
            timed(r["name"], r["processor"], "ms", most[r["name"]], f"wall clock {min(r['ms']):.2f}, median {statistics.median(r['ms']):.2f}")


def python_cost(_):
    """The same through the package of the built wheel; with torch where WHEEL_TEST_SITE names a folder that has it."""
    site = B / "wheel.site"
    shutil.rmtree(site, ignore_errors=True)
    with zipfile.ZipFile(next((B / "wheel").glob("tdsl-*.whl"))) as wheel:
        wheel.extractall(site)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TDSL_")}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(site), os.environ.get("WHEEL_TEST_SITE"))))
    runs = [output(B / "venv/bin/python", ROOT / "bench/python_cost.py", env=environment) for _ in range(REPEATS)]
    print("\nHost cost of a call from Python\n" + "\n".join(runs[0].splitlines()[:-1]))
    for name in json.loads(runs[0].splitlines()[-1]):
        values = [json.loads(run.splitlines()[-1])[name] for run in runs]
        timed(f"Python call, {name}", values, "ns", 2000)


def sim_speed(_):
    """The simulated devices themselves.  Wall clock is what a user waits and counts what else the machine does; processor time shared
    by the cores is what it would be on an idle machine."""
    print("\nThe simulated devices, million wave-instructions a second")
    print(f"{'case':<28} {'chip':<7} {'checks':<6} {'instructions':>12} {'wall clock':>10} {'processor':>10} {'seconds':>8}  threads, load")
    for line in output(B / "sim_speed", PACK).splitlines():
        r = json.loads(line)
        state, n, cores = ("on" if r["checks"] else "off"), r["instructions"], r["threads"]
        wall, cpu = min(r["seconds"]), min(r["processor"])
        most = 200 if r["checks"] else 50
        detail = f"a wave-instruction; {1000 // most} million a second are {most} ns; load {r['load']}"
        print(f"{r['name']:<28} {r['target']:<7} {state:<6} {n:>12} {n / wall / 1e6:>10.1f} {n / cpu * cores / 1e6:>10.1f} {wall:>8.3f}  {cores}, {r['load']}")
        name = f"sim {r['name']} {r['target']} {state}"
        if r["name"].endswith("^3"):
            timed(name, r["seconds"], "s", {"512^3": 1.5, "2048^3": 10}[r["name"].split()[1]], f"wall clock; load {r['load']}")
        timed(f"{name}, wall clock", [t / n * 1e9 for t in r["seconds"]], "ns", most, detail)
        timed(f"{name}, processor", [t / n / cores * 1e9 for t in r["processor"]], "ns", most, detail)


def sizes(_):
    """What a user downloads, beside the code objects of AITER (2026-08), which come without its Python and C++."""
    print(f"\nSizes, MB (AITER's code objects: {AITER_MB})")
    parts = {"pack": (PACK, 4), "wheel": (next((B / "wheel").glob("tdsl-*.whl")), 10), "compiler's wheel, LLVM inside": (next((B / "wheel").glob("tdsl_compiler-*.whl")), 100)}
    for name, (path, most) in parts.items():
        mb = path.stat().st_size / 1e6
        print(f"{name:<30} {mb:>8.2f}  1 / {AITER_MB / mb:.0f} of AITER's  {path.name}")
        figure(f"size of the {name}", mb, "MB", most, f"AITER's code objects: {AITER_MB} MB")


def seconds(name, most):
    path = B / f"{name}.seconds"
    figure(f"make {name}", float(path.read_text()) if path.exists() else None, "s", most, "the last run" if path.exists() else "not run yet")


def save():
    path = ROOT / "bench" / "history.jsonl"
    old = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    entry = {"date": time.strftime("%Y-%m-%d"), "version": (ROOT / "VERSION").read_text().strip(), "cpus": os.cpu_count(), "machine": platform.machine(),
             "figures": {f["name"]: f["value"] for f in figures}}
    if old:
        print(f"\nChange since {old[-1]['date']}")
        for name, value in entry["figures"].items():
            before = old[-1]["figures"].get(name)
            if value is not None and before:
                print(f"{name:<58} {before:>10.2f} -> {value:>10.2f}  {100 * (value / before - 1):+.1f} %")
    with path.open("a") as f:
        f.write(json.dumps(entry) + "\n")


def main():
    rows = json.loads(output(B / "tdslc", "report", PACK, "--json"))
    table_report(rows)
    for part, name in ((row_kernels, "row kernels"), (row_pack, "row pack"), (compile_times, "compile times"), (host_cost, "host cost a call"),
                       (pack_cost, "packs and compiling"), (sim_speed, "simulated devices"), (python_cost, "Python call"), (sizes, "sizes")):
        try:
            part(rows)
        except (RuntimeError, KeyError, ValueError, TypeError, OSError) as e:
            figure(name, None, "", 0, str(e).splitlines()[0])
            print(f"\n{name}: {e}")
    seconds("run", 240)
    seconds("test", 480)
    print(f"\n{'figure':<58} {'found':>10} {'at most':>8}")
    for f in figures:
        value = "none" if f["value"] is None else f"{f['value']:.2f}"
        print(f"{f['name']:<58} {value:>10} {f['most']:>8} {f['unit']:<3} {'met' if f['met'] else 'NOT MET':<8} {f['detail']}".rstrip())
    (B / "bench.json").write_text(json.dumps({"figures": figures}, indent=1) + "\n")
    if "--save" in sys.argv:
        save()


main()
