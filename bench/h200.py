"""h200.py OUT [options] -- the row kernels on an NVIDIA GPU: right against f64, then timed beside Triton, torch.compile and torch eager.

In: a build folder with libtdsl_rt.so, python/_core.abi3.so and a pack that holds sm_90a; torch and Triton.  No LLVM, no network.
Out: OUT/h200.json with every figure, and the same as tables on standard output, the verdicts last.  Exit 1 where a kernel is wrong.

Every contestant runs in the same process on the same tensors, rotated through more than the L2 holds, which is also overwritten before
each call; a time is the median of calls between two events, with the 10th and 90th percentile.  For few rows, calls are also captured
into a graph whose replays are timed, for all contestants alike.  GB/s counts the bytes that must move (weights left out), beside the
bandwidth of a copy in the same run.  Checks run in processes of their own: a fault or a hang on the device ends one kernel's, not the run.
Parts that fail are told and left out; `--budget` bounds the whole.  With --device sim:gfx950 the checks run on the simulated device, and
each timed row once with few elements, Triton's kernels by its interpreter: to exercise these files without a GPU.
"""
import argparse
import json
import os
import queue
import subprocess
import sys
import threading
import time
import traceback
from datetime import datetime, timezone
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE), str(HERE.parent / "python")]
CHECK_SHAPES = {"gpu": [(1, 4096), (7, 769), (130, 4096), (3, 16384), (65, 1000), (2, 20000), (5, 2880), (3, 5376), (2, 10240), (2, 49152),
                        (600, 4608), (515, 10240), (513, 14848), (3, 18432), (2, 152064), (4200, 128), (33, 64), (4128, 512),
                        (3080, 896), (2052, 1536), (700, 3584), (64, 7168), (96, 8192), (37, 60), (4099, 99), (4101, 250), (2049, 2051)], "sim": [(2, 256), (3, 77), (33, 384)]}
NOT_HELD = "it was not compiled"                             # no code for the call, and nothing to compile it
KERNEL_SECONDS = 90                                          # for the checks of one kernel

try:
    import torch
    import tdsl
    import h200_rows as rows
    import h200_rules as rules
except ImportError as absent:
    sys.exit(f"h200.py: {absent}")


def options():
    p = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    p.add_argument("out", help="folder for h200.json")
    p.add_argument("--build", default=str(HERE.parent / "build"))
    p.add_argument("--pack",
                   help="the pack (default: BUILD/h200.tpack, else BUILD/kernels.tpack); for checks some, separated by commas: the first with code for a call serves it")
    p.add_argument("--device", default="cuda:0")
    p.add_argument("--rows", choices=("quick", "all", "odd", "between", "long", "short"), default="all",
                   help="quick: three shapes a kernel; odd: sizes that are multiples of nothing; between: that no variant is pinned to; long: rows longer than a workgroup holds; short: of up to 512 columns")
    p.add_argument("--kernels", default="", help="these alone, separated by commas")
    p.add_argument("--check-only", action="store_true")
    p.add_argument("--rest", action="store_true",
                   help="checks the kernels that nothing is timed of: compiled at their first call, or in --pack BUILD/h200.tpack,BUILD/h200_rest.tpack (make h200-rest)")
    p.add_argument("--large", action="store_true", help="the sizes of a GPU's checks on a simulated device as well")
    for part in ("check", "triton", "compile", "eager", "host", "profile", "graph"):
        p.add_argument(f"--no-{part}", action="store_true")
    p.add_argument("--budget", type=float, default=330, help="seconds after which no further part is begun")
    p.add_argument("--jobs", type=int, default=min(14, os.cpu_count() or 1), help="processes that compile Triton's kernels ahead")
    p.add_argument("--worker", help=argparse.SUPPRESS)
    o = p.parse_args()
    o.started = time.monotonic()
    o.gpu = o.device.startswith(("cuda:", "hip:"))
    if not o.pack:                                           # the first holds all three targets
        packs = [Path(o.build) / "h200.tpack", Path(o.build) / "kernels.tpack"]
        o.pack = str(next((p for p in packs if p.exists()), packs[0]))
    return o


def wanted(o, names):
    asked = [k for k in o.kernels.split(",") if k]
    return [n for n in names if not asked or n in asked]


# ---- checks

def device_lost():
    try:
        torch.cuda.synchronize()
        return False
    except Exception:
        return True


def call(o, packs, name, case):
    """By the first pack that has code for it, or a compiler at hand; False = none has, where some may not: with --rest."""
    for pack in packs:
        try:
            getattr(pack, name)(**case.given, **case.out)
            return True
        except tdsl.Error as e:
            if NOT_HELD not in str(e) or not o.rest:
                raise
    return False


def worker(o):
    """Checks the kernels of --worker; a line of JSON as each case begins and ends."""
    def say(**what):
        print(json.dumps(what), flush=True)
    device = tdsl.open(o.device)
    packs = [tdsl.open_pack(p) for p in o.pack.split(",")]
    fp8 = torch.float8_e4m3fnuz if device.target == "gfx942" else torch.float8_e4m3fn
    place = rules.Place("cuda" if o.gpu else "cpu", fp8)
    for name in o.worker.split(","):
        say(kernel=name)
        for case in rows.cases(name, place, CHECK_SHAPES["gpu" if o.gpu or o.large else "sim"]):
            say(begin=case.label)
            try:
                if not call(o, packs, name, case):
                    say(end=case.label, wrong=[], missing=True)
                    continue
                variant = tdsl.last_call()["predicate"]
                if o.gpu:
                    torch.cuda.synchronize()
                say(end=case.label, wrong=case.check(), variant=variant)
            except Exception as e:
                fatal = o.gpu and device_lost()
                say(end=case.label, wrong=[f"{type(e).__name__}: {str(e)[:300]}"], fatal=fatal)
                if fatal:                                    # the next process has a context of its own
                    os._exit(3)
        beside = rules.Beside.take()
        if beside:
            say(begin=f"{name}, all calls")
            say(end=f"{name}, all calls", wrong=[beside])
    say(done=True)


def worker_run(o, names, results, until):
    """One process over `names`; returns those that it did not come to."""
    base = [sys.executable, __file__, o.out, "--build", o.build, "--pack", o.pack, "--device", o.device, "--worker", ",".join(names)] + ["--large"] * o.large + ["--rest"] * o.rest
    process = subprocess.Popen(base, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = queue.Queue()

    def read():
        for line in process.stdout:
            lines.put(line)
        lines.put(None)
    threading.Thread(target=read, daemon=True).start()
    left, current, begun, noise, finished = list(names), None, None, [], False
    while True:
        try:
            line = lines.get(timeout=KERNEL_SECONDS)
            if time.monotonic() - o.started > until:
                process.kill()
                break
        except queue.Empty:
            results.setdefault(current or names[0], []).append(dict(label=begun, wrong=[f"no answer in {KERNEL_SECONDS} s"], fatal=True, missing=False))
            process.kill()
            break
        if line is None:
            break
        try:
            said = json.loads(line)
        except ValueError:
            noise.append(line.rstrip())
            continue
        if "kernel" in said:
            current, begun = said["kernel"], None
            left.remove(current)
            results.setdefault(current, [])
        elif "begin" in said:
            begun = said["begin"]
        elif "end" in said:
            results[current].append(dict(label=said["end"], wrong=said["wrong"], variant=said.get("variant"), fatal=said.get("fatal", False),
                                         missing=said.get("missing", False)))
            begun = None
        finished = finished or "done" in said
    process.wait()
    if time.monotonic() - o.started > until and not finished and current:
        return [current] + left                              # its cases are not all there
    if not finished and begun:
        results[current].append(dict(label=begun, wrong=[f"the process ended with status {process.returncode}"] + noise[-3:], fatal=True, missing=False))
    elif not finished and current is None:
        print("\n".join(noise[-15:]), flush=True)
        raise RuntimeError(f"the checking process ended with status {process.returncode} before the first kernel")
    return left


def check_all(o, report):
    asked = rows.REST if o.rest else rows.KERNELS
    names, results = wanted(o, sorted(asked, key=lambda k: (k in rows.MATRIX, k))), {}
    left, until = names, o.budget * (1 if o.check_only else 0.5)
    while left and time.monotonic() - o.started < until:
        left = worker_run(o, left, results, until)
    for name in left:
        results.pop(name, None)
    report["checks"] = results
    missing = sum(c["missing"] for r in results.values() for c in r)
    cases = sum(len(r) for r in results.values()) - missing
    absent = sum(all(c["missing"] for c in r) for r in results.values())
    wrong = {k: [c for c in r if c["wrong"]] for k, r in results.items()}
    bad = {k: w for k, w in wrong.items() if w}
    for k, w in bad.items():
        print(f"  WRONG {k}: {len(w)} of {len(results[k])} cases; {w[0]['label']}: {'; '.join(w[0]['wrong'])[:220]}")
        others = {text[:60] for c in w[1:] for text in c["wrong"]} - {text[:60] for text in w[0]["wrong"]}
        for text in sorted(others)[:3]:
            print(f"        also: {text}")
    report["wrong"] = sorted(bad)
    report["unchecked"] = left
    report["fatal"] = sorted(k for k, r in results.items() if any(c.get("fatal") for c in r))
    print(f"checks on {o.device}: {len(results) - absent - len(bad)} of {len(names) - absent} kernels right, {cases} calls"
          + (f"; {missing} calls more, of {absent} kernels all, that no pack here has code for" if missing else "") + (f"; not reached: {', '.join(left)}" if left else ""), flush=True)


def save(o, report):
    Path(o.out).mkdir(parents=True, exist_ok=True)
    (Path(o.out) / "h200.json").write_text(json.dumps(report, indent=1, default=str) + "\n")


def part(o, report, name, function):
    """Runs one part of the measurement; a failure is told and does not stop the others."""
    spent = time.monotonic() - o.started
    if spent > o.budget:
        report["left_out"].append(name)
        print(f"-- {name}: left out, {spent:.0f} s of {o.budget:.0f} are spent", flush=True)
        return
    try:
        function(o, report)
    except Exception as e:
        report["failed"].append(f"{name}: {type(e).__name__}: {str(e)[:300]}")
        print(f"-- {name} failed: {type(e).__name__}: {str(e)[:300]}\n{traceback.format_exc(limit=-4)}", flush=True)
    report["seconds"][name] = round(time.monotonic() - o.started - spent, 1)
    save(o, report)


def environment(o, report):
    report["date"] = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    report["versions"] = {"python": sys.version.split()[0], "torch": torch.__version__, "device": o.device, "pack": Path(o.pack).name}
    device = tdsl.open(o.device)
    report["versions"]["target"] = device.target
    if o.gpu:
        import triton
        report["versions"].update(triton=triton.__version__, gpu=torch.cuda.get_device_name(), cuda=torch.version.cuda)
        try:
            report["versions"]["driver"] = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
                                                          capture_output=True, text=True, timeout=20).stdout.split("\n")[0]
        except Exception:
            pass
    print("  ".join(f"{k} {v}" for k, v in report["versions"].items()), flush=True)


def main():
    o = options()
    if o.worker:
        worker(o)
        return 0
    report = {"failed": [], "left_out": [], "seconds": {}, "wrong": []}
    part(o, report, "environment", environment)
    if not o.no_check:
        part(o, report, "checks", check_all)
    if not o.check_only:
        if not o.gpu:
            os.environ["TRITON_INTERPRET"] = "1"
        import h200_times
        (h200_times.measure if o.gpu else h200_times.dry)(o, report, part, wanted)
    save(o, report)
    return 1 if report["wrong"] or report["failed"] or report.get("unchecked") else 0


if __name__ == "__main__":
    sys.exit(main())
