"""h200_times.py -- the timed part of bench/h200.py: how the works of h200_works.py are timed, and how it is told.

In: the options and the report of h200.py, a GPU.  Out: the report's rows, hosts, profile and verdicts, and their tables.
Triton is tuned over its whole space by short measurements; the two best are measured as long as everybody else.
"""
import concurrent.futures
import ctypes
import itertools
import json
import math
import multiprocessing
import os
import statistics
import subprocess
import time
from pathlib import Path

import torch

import tdsl
import triton_h200 as tk
from h200_works import BEFORE, BETWEEN_SHAPES, BF16, E8, F32, FP8, LONG_NAMES, LONG_SHAPES, ODD_SHAPES, QUICK, SHORT_SHAPES, SQUARE_SHAPES, TOP, U8, bf, works

DEVICE, DRY = "cuda", False                                  # dry: few elements on the host, to exercise this file without a GPU
LARGE = 1e8                                                  # bytes of a tensor, or moved, from which the bandwidth counts
BATCHES = 61                                                 # of calls, of which the median is taken
HELD_CYCLES = 16_000_000                                     # 8 ms, more than a batch of calls takes
# Bytes that the calls' tensors take turns over: of 300 MB a cache of 50 still has parts when their turn comes again, and all is 3 % faster.
# No more sets than MOST_SETS; of fewer rows than SMALL, which no number of sets makes more than the cache holds, 8; and one for each place in a
# round, for lines that a kernel asks the L2 to keep (evict_last) outlive any number of bytes written: who comes next on the same tensors finds them.
ROTATED, SMALL, MOST_SETS, PLACES = 1.2e9, 128, 96, 4


def sets_of(work, m, n):
    most = MOST_SETS if m >= SMALL else 8
    return [work.make(m, n, DEVICE) for _ in range(1 if DRY else max(PLACES, min(most, int(ROTATED // work.nbytes(m, n)) + 1)))]


# ---- measuring

def sync():
    if not DRY:
        torch.cuda.synchronize()


def nothing_kept():
    """No line is in the L2 because a kernel asked for it to be kept."""
    sync()
    if ctypes.CDLL("libcuda.so.1").cuCtxResetPersistingL2Cache():
        raise RuntimeError("cuCtxResetPersistingL2Cache failed")


def times(calls, **limits):
    """[median, 10th, 90th percentile] in us of one call; `calls` take turns, the L2 is overwritten before each."""
    return times_in_turn([calls], **limits)[0]


def times_in_turn(contestants, most=0.025, least=9):
    """The same of each contestant's calls, each contestant once in a round, on tensors of its own, and every second round the other way round;
    of two rounds the mean.  Two contestants always in the same order differ by 0.3 us even if they are one: every second pair of events is
    that much apart."""
    if DRY:
        return [dry_time(calls[0]) for calls in contestants]
    for calls in contestants:
        for c in calls:
            c()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for i in range(3):
        for calls in contestants:
            FLUSH.zero_()
            calls[i % len(calls)]()
    end.record()
    nothing_kept()
    n = max(least, min(120, int(most * 1e3 / max(start.elapsed_time(end) / 3 / len(contestants), 1e-3)))) // 2 * 2 + 2
    events = [[(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in contestants] for _ in range(n)]
    for i, pairs in enumerate(events):
        for k, ((a, b), calls) in list(enumerate(zip(pairs, contestants)))[::-1 if i % 2 else 1]:
            FLUSH.zero_()
            a.record()
            calls[(i + k * len(calls) // len(contestants)) % len(calls)]()
            b.record()
    torch.cuda.synchronize()
    us = [[pairs[k][0].elapsed_time(pairs[k][1]) * 1e3 for pairs in events] for k in range(len(contestants))]
    return [spread([(one + other) / 2 for one, other in zip(u[::2], u[1::2])]) for u in us]


def times_twice(ours, theirs):
    """The same of both, each with two places in a round: the mean of its two, and how far apart they are, as a share: what of a difference
    means nothing, for one kernel is as far from itself."""
    a, b, again, other = times_in_turn([ours, theirs, ours, theirs])
    return [[round((x + y) / 2, 2) for x, y in zip(*two)] for two in ((a, again), (b, other))], [round(again[0] / a[0] - 1, 4), round(other[0] / b[0] - 1, 4)]


def dry_time(call):
    begin = time.perf_counter()
    call()
    return [round((time.perf_counter() - begin) * 1e6, 2)] * 3


def spread(us):
    us = sorted(us)
    return [round(us[min(len(us) - 1, int(len(us) * q))], 2) for q in (0.5, 0.1, 0.9)]


def graph_times(calls, us):
    """The same of one call of about `us` in a graph of several, by its replays: launches are hidden, and the calls' tensors take turns."""
    inside, replays = (max(32, len(calls)), 31) if us < 15 else (max(8, len(calls)), 11)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(inside):
            calls[i % len(calls)]()
    nothing_kept()
    for _ in range(3):
        graph.replay()
    us = []
    for _ in range(replays):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        graph.replay()
        b.record()
        b.synchronize()
        us.append(a.elapsed_time(b) * 1e3 / inside)
    return spread(us)


def candidate(c, t):
    label, kernel, args, meta, warps, grid = c
    values, launch = args(t), kernel[grid]
    return lambda: launch(*values, **meta, num_warps=warps)


def precompile(names, shapes):
    """In a process of its own: Triton's candidates into its cache on disk."""
    done = wrong = 0
    for work in works():
        for m, n in shapes.get(work.name, ()) if work.name in names else ():
            t = work.make(m, n, device="meta")
            for _, kernel, args, meta, warps, _ in work.triton(m, n):
                try:
                    kernel.warmup(*[a.dtype if isinstance(a, torch.Tensor) else a for a in args(t)], grid=(1,), **meta, num_warps=warps)
                    done += 1
                except Exception as e:
                    wrong += 1
                    text = f"{work.name} {meta}: {type(e).__name__}: {str(e)[:200]}"
    return done, wrong, text if wrong else ""


def triton_compile(o, report, shapes):
    begin = time.monotonic()
    # the first work of a kind compiles what others of the same kernel and extents use again
    names = [w for w in shapes]
    parts = [names[i::o.jobs] for i in range(o.jobs) if names[i::o.jobs]]
    with concurrent.futures.ProcessPoolExecutor(len(parts), mp_context=multiprocessing.get_context("spawn")) as pool:
        jobs = [pool.submit(precompile, part, shapes) for part in parts]
        got = [j.result(timeout=max(10.0, o.budget - (time.monotonic() - o.started))) for j in jobs]
    report["triton_candidates"] = sum(g[0] for g in got)
    print(f"Triton: {sum(g[0] for g in got)} candidates compiled in {time.monotonic() - begin:.0f} s by {len(parts)} processes; "
          f"{sum(g[1] for g in got)} refused{': ' + next(g[2] for g in got if g[2]) if any(g[1] for g in got) else ''}", flush=True)


def as_first(found, m, nbytes):
    """us of Triton's best as BEFORE was measured: each candidate by itself, by Triton's own do_bench, and the least of their medians; of more rows than
    SMALL, whose candidates differ by more than a measurement from itself, of the two best alone."""
    import triton.testing
    least = math.inf
    for _, _, calls in found if m <= SMALL else found[:2]:
        turns = itertools.cycle(calls[:max(1, min(8, int(300e6 // nbytes) + 1))])
        least = min(least, triton.testing.do_bench(lambda: next(turns)(), warmup=25, rep=100, return_mode="median") * 1e3)
    return round(least, 2)


def triton_best(work, m, n, sets, row):
    found, refused = [], ""
    for c in work.triton(m, n):
        if DRY and found:
            break
        try:
            calls = [candidate(c, t) for t in sets]
            found.append((times(calls, most=0.004, least=5)[0], c[0], calls))
        except Exception as e:
            refused = f"{type(e).__name__}: {str(e)[:120]}"
    if not found:
        row["triton"] = {"error": refused or "no candidate"}
        return None
    found.sort(key=lambda f: f[0])
    us, config, calls = min(((times(calls), label, calls) for _, label, calls in found[:2]), key=lambda b: b[0][0])
    row["triton"] = {"us": us, "config": config, "candidates": len(found)}
    if (m, n) in BEFORE.get(work.name, {}) and not DRY:
        row["triton"]["first"] = as_first(found, m, work.nbytes(m, n))
    return calls


def graphs_in_turn(contestants, us):
    """Of each that has calls the lesser median of two rounds; of five where they are so near that rounds differ by as much."""
    least = {}
    for turn in range(5):
        if turn > 1 and not (len(least) > 1 and abs(least["triton"][0] / least["ours"][0] - 1) < 0.02):
            break
        for who, calls in contestants.items():
            if calls:
                found = graph_times(calls, us)
                least[who] = min(least.get(who, found), found)
    return least


def agreement(work, t, ours, theirs):
    """Share of the outputs' elements that are within a step of each other (f32: one part in 10^5)."""
    ours()
    kept = {o: t[o].clone() for o in work.out}
    for o in work.out:
        t[o].view(U8).zero_()
    theirs()
    sync()
    good = 0
    for o in work.out:
        a, b = (x.view(U8).float() if x.dtype == E8 else x.float() for x in (kept[o], t[o]))
        near = {FP8: 0.126, BF16: 0.008, F32: 1e-5}.get(t[o].dtype, 0.0) * a.abs() + {FP8: 0.002, F32: 1e-6 * float(a.abs().max())}.get(t[o].dtype, 0)
        good += int((((a - b).abs() <= near) | (a.isnan() & b.isnan())).sum())
    return round(good / sum(k.numel() for k in kept.values()), 5)


def time_one(o, report, pack, work, m, n):
    nbytes = work.nbytes(m, n)
    sets = sets_of(work, m, n)
    row = {"kernel": work.name, "shape": [m, n], "bytes": nbytes, "largest": max(t.nbytes for t in sets[0].values())}
    report["rows"].append(row)
    ours, theirs = [work.ours(pack, t) for t in sets], None
    row["ours"] = {"us": times(ours), "variant": tdsl.last_call()["predicate"]}
    if not o.no_triton:
        theirs = triton_best(work, m, n, sets, row)
    if theirs:
        (row["ours"]["turn"], row["triton"]["turn"]), row["apart"] = times_twice(ours, theirs)
        row["agree"] = agreement(work, sets[0], ours[0], theirs[0])
    if work.eager and not o.no_eager:
        row["eager"] = {"us": times([lambda t=t: work.eager(t) for t in sets], most=0.01, least=5)}
    us = best(row, "ours")
    if not o.no_graph and not DRY:
        row["graph"] = graphs_in_turn({"ours": ours, "triton": theirs}, us)
    row["GBs"] = round(nbytes / us / 1e3, 1)
    row["of_copy"] = round(row["GBs"] / report["copy_GBs"], 4)
    if "graph" in row:
        row["graph"]["of_copy"] = round(nbytes / row["graph"]["ours"][0] / 1e3 / report["copy_GBs"], 4)
    if nbytes > LARGE and not DRY:
        row["of_same_copy"] = round(same_copy(report, nbytes) / us, 4)
    return row


def best(row, who):
    """The median, us: in turn with the other where there is one."""
    return row[who].get("turn", row[who]["us"])[0]


def ratio(row, by="graph"):
    """Triton's time over ours, by the graph where there is one, or by calls between two events; None without both."""
    g = row.get("graph", {})
    if by == "graph" and "triton" in g:
        return g["triton"][0] / g["ours"][0]
    if "us" in row.get("triton", {}):
        return best(row, "triton") / best(row, "ours")
    return None


def asked_works(o, report, wanted):
    """The works of --kernels without those that lost the device when they were checked; and the kernels that are wrong."""
    every, lost = list(works()), report.get("fatal", [])
    names = wanted(o, [w.name for w in every])
    return [w for w in every if w.name in names and w.kernel not in lost], set(report.get("wrong", []))


def shapes_of(o, work):
    if DRY:
        return [(128, 512)] if work.shapes in (SQUARE_SHAPES, SQUARE_SHAPES[:2]) or "masked" in work.name else [(3, 512)]
    if o.rows == "odd":                                      # Triton's kernels of groups want whole ones
        t = work.make(*ODD_SHAPES[0], device="meta")
        return [] if any(x.ndim > 1 if name.startswith("scale") else x.ndim == 3 and len(x) > 1 for name, x in t.items()) else ODD_SHAPES
    if o.rows in ("long", "short"):
        return (LONG_SHAPES if o.rows == "long" else SHORT_SHAPES) if any(part in work.name for part in LONG_NAMES) and "yt" not in work.out and "masked" not in work.name else []
    if o.rows == "between":                                  # rows, of whole groups
        t = work.make(*BETWEEN_SHAPES[0], device="meta")
        return [] if "yt" in t or any(x.ndim == 3 and len(x) > 1 for x in t.values()) else BETWEEN_SHAPES
    return [s for s in work.shapes if o.rows == "all" or s in QUICK] or work.shapes[-1:]


def time_all(o, report, wanted):
    pack = tdsl.open_pack(o.pack)
    chosen, bad = asked_works(o, report, wanted)
    if not o.no_triton and not DRY:
        try:
            triton_compile(o, report, {w.name: shapes_of(o, w) for w in chosen})
        except Exception as e:
            report["failed"].append(f"Triton's compilation ahead: {type(e).__name__}: {e}")
            print(f"-- Triton's compilation ahead failed ({type(e).__name__}: {str(e)[:200]}); compiled as they come", flush=True)
    table = (Path(o.out) / "table.txt").open("w")
    for work in chosen:
        line = []
        for m, n in shapes_of(o, work):
            if time.monotonic() - o.started > o.budget:
                report["left_out"].append(f"{work.name} {(m, n)}")
                continue
            try:
                row = time_one(o, report, pack, work, m, n)
                sync()
            except Exception as e:
                text = f"{work.name} {(m, n)}: {type(e).__name__}: {str(e)[:200]}"
                report["failed"].append(text)
                print("--", text, flush=True)
                if "CUDA error" in str(e) or "CUDA_ERROR" in str(e):
                    raise
                continue
            x = ratio(row)
            wrong = " WRONG" if work.kernel in bad else ""
            g = row.get("graph", {})
            line.append(f"{m}x{n} {g['ours'][0] if g else best(row, 'ours'):g}" + (f"/{x:.2f}" if x else "") + (f" {100 * g.get('of_copy', row['of_copy']):.0f}%" if row["bytes"] > LARGE else ""))
            print(f"{work.name:20} {m:6}x{n:<6} ours {row['ours']['us']} {row['GBs']:7.1f} GB/s {100 * row['of_copy']:5.1f}% | triton {row.get('triton')} | "
                  f"eager {row.get('eager', {}).get('us')} | graph {g} | x{x or 0:.3f} agree {row.get('agree')}{wrong} [{row['ours']['variant']}]", file=table, flush=True)
        print(f"{work.name:18} {'  '.join(line)}", flush=True)


def copy(o, report):
    """The bandwidth of a copy of 2 GB, read and written bytes counted."""
    global FLUSH
    FLUSH = torch.empty(64 << 20, dtype=torch.int32, device="cuda")
    a = torch.randn(1 << 30, device="cuda", dtype=BF16)
    b = torch.empty_like(a)
    us = times([lambda: b.copy_(a)], most=0.05)
    report["copy_us"], report["copy_GBs"], report["rows"] = us, round(4 * a.numel() / us[0] / 1e3, 1), []
    report["nothing_us"] = times([lambda: tk.nothing[(1,)](a)])
    print(f"copy of {a.numel() * 2 / 1e9:.2f} GB: {us[0]} us, {report['copy_GBs']} GB/s; an empty kernel between two events {report['nothing_us']} us\n"
          "kernel; for each MxN: our us / Triton's time over ours, and of the copy's bandwidth above 100 MB", flush=True)


def same_copy(report, nbytes):
    """us of a copy that moves as many bytes, measured as a call of a kernel is."""
    copies = report.setdefault("copies_us", {})
    if nbytes not in copies:
        sets = [(torch.randn(nbytes // 4, device="cuda", dtype=BF16), torch.empty(nbytes // 4, device="cuda", dtype=BF16)) for _ in range(3)]
        copies[nbytes] = times([lambda a=a, b=b: b.copy_(a) for a, b in sets])
    return copies[nbytes][0]


def launch_alone(o, call):
    """A batch of cuLaunchKernel in C, n -> ns of each, of what the call launches, on the current stream."""
    lib, graph = ctypes.CDLL(str(Path(o.build) / "libh200_launch.so")), torch.cuda.CUDAGraph(keep_graph=True)
    lib.h200_launch_time.restype = ctypes.c_double
    with torch.cuda.graph(graph):
        call()
    if lib.h200_launch_take(ctypes.c_void_p(graph.raw_cuda_graph())):
        raise RuntimeError("the captured graph is not one kernel")
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)

    def batch(n, keep=graph):
        ns = lib.h200_launch_time(stream, n)
        if ns < 0:
            raise RuntimeError("the driver refused a launch")
        return ns
    return batch


def batch_of(call):
    def batch(n):
        start = time.perf_counter_ns()
        for _ in range(n):
            call()
        return (time.perf_counter_ns() - start) / n
    return batch


def host(o, report):
    """Host time of a call: C, Python, Triton, torch; calls in batches that the driver's queue holds, in Python's process in turn.  The stream is
    held back while a batch is timed: nothing runs, so that no launch waits for, or overlaps, another."""
    found = report["host_ns"] = {}
    binary = Path(o.build) / "h200_host"
    if binary.exists():
        run = subprocess.run([str(binary), o.pack, o.device], capture_output=True, text=True, timeout=60)
        try:
            found.update({f"C: {k}": v for k, v in json.loads(run.stdout).items()})
        except ValueError:
            print(f"-- h200_host: status {run.returncode}: {run.stderr.strip()[:300]}", flush=True)
    pack, kernel = tdsl.open_pack(o.pack), None
    f = pack.rmsnorm_quant
    x, w = bf(16, 4096, device=DEVICE), bf(4096, device=DEVICE)
    y, s = f(x, w)
    z = torch.ones(16, device="cuda")
    p, (r, warps) = 4096, (1, 4)
    kernel = tk.rms_row_quant[(16,)]
    contestants = {
        "Python: tdsl, outputs given": lambda: f(x, w, y=y, scale=s), "Python: tdsl, outputs allocated": lambda: f(x, w),
        "Python: Triton, outputs given": lambda: kernel(x, w, x, x, y, s, 16, 4096, 1e-6, FMAX=TOP, R=r, BLOCK=p, ADD=False, LAYER=False, num_warps=warps),
        "Python: torch, z.add_(1)": lambda: z.add_(1), "Python: an empty function": lambda: None}
    batches = {name: batch_of(call) for name, call in contestants.items()}
    try:
        batches = {"Python's process: cuLaunchKernel": launch_alone(o, contestants["Python: tdsl, outputs given"]), **batches}
    except (OSError, RuntimeError) as e:
        report["failed"].append(f"host: cuLaunchKernel in Python's process: {e}")
    ns, held = {name: [] for name in batches}, dict.fromkeys(batches, 0)
    for name, batch in batches.items():
        batch(50)
    torch.cuda.synchronize()
    for _ in range(BATCHES):
        for name, batch in batches.items():
            torch.cuda._sleep(HELD_CYCLES)
            ns[name].append(batch(128))
            held[name] += not torch.cuda.current_stream().query()
            torch.cuda.synchronize()
    for name in batches:
        found[name] = round(statistics.median(ns[name]), 1)
        if held[name] < BATCHES:
            report["failed"].append(f"host: {name}: the stream was held back in {held[name]} of {BATCHES} batches only")
    for name, value in found.items():
        print(f"  host {name}: {value:g} ns")


def profile(o, report, wanted):
    """Device kernels a call, by torch's profiler."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as recording
    pack, counts = tdsl.open_pack(o.pack), {}
    chosen, _ = asked_works(o, report, wanted)
    for work in chosen:
        try:
            t = work.make(*[s for s in work.shapes if s[0] <= 4096][-1], DEVICE)
            call = work.ours(pack, t)
            call()
            torch.cuda.synchronize()
            with recording(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as p:
                for _ in range(3):
                    call()
                torch.cuda.synchronize()
            events = [e.name for e in p.events() if str(e.device_type).endswith("CUDA")]
            counts[work.name] = [len(events) / 3, sorted(set(events))]
        except Exception as e:
            report["failed"].append(f"profile of {work.name}: {type(e).__name__}: {str(e)[:120]}")
    report["profile"] = counts
    several = {k: v[0] for k, v in counts.items() if v[0] != 1}
    print(f"profile: {len(counts) - len(several)} of {len(counts)} works are one kernel a call" + (f"; others: {several}" if several else ""), flush=True)


def compiled(o, report, wanted):
    """torch.compile of torch's expressions, one shape after the other while time is left; the first works first."""
    chosen, _ = asked_works(o, report, wanted)
    done = 0
    for work in sorted((w for w in chosen if w.eager), key=lambda w: not w.first):
        for m, n in shapes_of(o, work):
            row = next((r for r in report["rows"] if r["kernel"] == work.name and r["shape"] == [m, n]), None)
            if row is None or time.monotonic() - o.started > o.budget:
                continue
            try:
                torch._dynamo.reset()
                sets = sets_of(work, m, n)
                function = torch.compile(work.eager, dynamic=False)
                row["compile"] = {"us": times([lambda t=t: function(t) for t in sets], most=0.01, least=5)}
                done += 1
            except Exception as e:
                row["compile"] = {"error": f"{type(e).__name__}: {str(e)[:120]}"}
    got = [r["compile"]["us"][0] / best(r, "ours") for r in report["rows"] if "us" in r.get("compile", {})]
    print(f"torch.compile: {done} rows" + (f"; its time over ours {min(got):.2f} to {max(got):.2f}" if got else ""), flush=True)


def verdicts(o, report):
    """Each figure that the kernels should reach: met or not, and where not.  Beside them, of one kernel in two places of a round, how far apart
    it is from itself: of half the rows, nine of ten, all."""
    rows = [r for r in report["rows"] if ratio(r)]
    lines, report["apart"] = [], {}
    report["verdicts"] = lines

    def say(text, met, where=()):
        lines.append({"figure": text, "met": met, "where": list(where)})
        print(f"{'met    ' if met else 'NOT MET'} {text}" + (f": {', '.join(list(where)[:12])}{' and more' if len(list(where)) > 12 else ''}" if not met else ""))

    def at(r, by="graph"):
        return f"{r['kernel']} {r['shape'][0]}x{r['shape'][1]} {ratio(r, by):.2f}"
    few = [r for r in rows if r["shape"][0] in (1, SMALL)]
    for title, some in () if DRY else (("peers' shapes", [r for r in rows if r["kernel"] in BEFORE]), ("all rows", rows), ("M = 1 and 128", few)):
        for by, how in (("graph", "by graph replays"), ("events", "one call between two events")) if some else ():
            mean = math.exp(sum(math.log(ratio(r, by)) for r in some) / len(some))
            slower = sorted((r for r in some if ratio(r, by) < 1), key=lambda r: ratio(r, by))
            near = sum(ratio(r, by) >= 0.97 for r in slower)
            say(f"{title}, {how}: never slower than Triton ({len(some) - len(slower)} of {len(some)}, {near} more within 3 %)", not slower,
                [at(r, by) for r in slower])
            say(f"{title}, {how}: Triton's time over ours, geometric mean {mean:.3f}, >= 1.05", mean >= 1.05)
        apart = sorted(abs(x) for r in some for x in r.get("apart", []))
        if apart:
            report["apart"][title] = [apart[len(apart) // 2], apart[len(apart) * 9 // 10], apart[-1]]
            print("        {}, one call between two events: a kernel in two places of a round, half of them within {:.1%}, nine of ten within {:.1%}, "
                  "all within {:.1%}".format(title, *report["apart"][title]))
    moved = [r for r in report["rows"] if r["bytes"] > LARGE and "GBs" in r and not DRY]
    large = [r for r in moved if r["largest"] > LARGE]
    for title, some in (("tensors above 100 MB", large), ("above 100 MB moved", moved)):
        for how, share in (("by graph replays, of the copy of 2 GB", lambda r: r.get("graph", {}).get("of_copy")),
                           ("one call between two events, of a copy of as many bytes", lambda r: r.get("of_same_copy")),
                           ("one call between two events, of the copy of 2 GB", lambda r: r["of_copy"])):
            told = [r for r in some if share(r)]
            under = sorted((r for r in told if share(r) < 0.93), key=share)
            if told:
                say(f"{title}, {how}: >= 93 % ({len(told) - len(under)} of {len(told)})", not under,
                    [f"{r['kernel']} {r['shape'][0]}x{r['shape'][1]} {100 * share(r):.2f}%" for r in under])
    again = [(r["kernel"], r["shape"], r["triton"]["first"] / BEFORE[r["kernel"]][tuple(r["shape"])]) for r in rows if "first" in r["triton"]]
    off = [f"{k} {s[0]}x{s[1]} {x:.2f}" for k, s, x in again if abs(x - 1) > 0.05]
    if again:
        say(f"Triton's repeated rows within 5 % of the first measurement, measured as then ({len(again) - len(off)} of {len(again)})", not off, off)
    least = 0.95 if DRY else 0.999                           # Triton's interpreter loses the carry when it rounds to fp8
    differ = [f"{r['kernel']} {r['shape'][0]}x{r['shape'][1]} {r['agree']}" for r in rows if r.get("agree", 1) < least]
    if rows:
        say(f"the contestants' results agree (a step, {100 * least:g} %)", not differ, differ)
    hosts = report.get("host_ns", {})
    if "C: above" in hosts:
        say(f"C call above cuLaunchKernel: {hosts['C: above']:g} ns, <= 200", hosts["C: above"] <= 200)
    if launch := hosts.get("Python's process: cuLaunchKernel"):
        above = hosts["Python: tdsl, outputs given"] - launch
        say(f"Python call above cuLaunchKernel: {above:.0f} ns given, {hosts['Python: tdsl, outputs allocated'] - launch:.0f} allocated, <= 2000", above <= 2000)
    if report.get("profile"):
        several = [k for k, v in report["profile"].items() if v[0] != 1]
        say("one kernel a call", not several, several)


def dry(o, report, part, wanted):
    """Each work once, a small shape on the simulated device, Triton's first candidate by its interpreter; times mean nothing.  What is
    seen: every call is accepted, and its results and Triton's agree."""
    global DEVICE, DRY
    DEVICE, DRY = "cpu", True
    os.makedirs(o.out, exist_ok=True)
    report.update(copy_GBs=1.0, rows=[])
    part(o, report, "times", lambda o, r: time_all(o, r, wanted))
    part(o, report, "verdicts", verdicts)


def measure(o, report, part, wanted):
    os.makedirs(o.out, exist_ok=True)
    part(o, report, "copy", copy)
    if "copy_GBs" not in report:
        return
    part(o, report, "times", lambda o, r: time_all(o, r, wanted))
    if not o.no_host:
        part(o, report, "host", host)
    if not o.no_profile:
        part(o, report, "profile", lambda o, r: profile(o, r, wanted))
    if not o.no_compile:
        part(o, report, "compile", lambda o, r: compiled(o, r, wanted))
    o.budget = math.inf                                      # what was found is told
    part(o, report, "verdicts", verdicts)
    print("seconds:", report["seconds"], "failed:", report["failed"][:8], "left out:", len(report["left_out"]))
