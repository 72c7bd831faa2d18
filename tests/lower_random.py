#!/usr/bin/env python3
"""lower_random.py B [FIRST LAST [sums|attention|scans|products]] -- kernels drawn at random, lowered for every chip and compared with the evaluator by lower_test; and
built to a pack, unless it is a GPU that runs them (TEST_GPU).

In: the build folder, which kernels (numbers that seed them; by default six that the tests run, three with sums of columns beside what is made of
rows, of which code for many rows computes few as well, an attention and a product), and of which of these kinds.  Out: Check's line of totals; for each
kernel that fails what lower_test says, and its text in B/random.  `make random FROM=1000 TO=2000 JOBS=2` is for whoever has changed a pass, with OF=sums pass_carry.c."""
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed

from drawn_kernel import Kernel, MOST_PARAMETERS
from drawn_kinds import Attention, Gradient, Product, Scan


def text_of(seed, kind=Kernel):
    for again in range(100):
        kernel = kind(f"r{seed}" + "_" * again)
        text = kernel.text()
        tensors = " ".join(kernel.inputs + kernel.results)
        known = all(re.search(rf"[\[ *]{s}[,\]]", tensors) for s in re.findall(r"\bin ([A-Z])\b", text))
        if known and len(kernel.inputs) + len(kernel.results) <= MOST_PARAMETERS:
            return text
    raise AssertionError(f"kernel {seed} has too many parameters, or no tensor for an extent, whatever is drawn")


def run(build, chips, seed, kind):
    """What is wrong with kernel `seed`, or None; chips: of which a pack is built.  A row that is held and longer than any variant holds is no failure."""
    path = f"{build}/random/{kind.__name__[0].lower()}{seed}.tdsl"
    with open(path, "w", encoding="utf-8") as f:
        f.write(text_of(seed, kind))
    many = {"LOWER_MANY": "1"} if kind is Gradient else {}
    try:
        done = subprocess.run([f"{build}/tests/lower_test"], env=dict(os.environ, LOWER_FILE=path, **many), capture_output=True, text=True, timeout=500)
    except subprocess.TimeoutExpired:
        return [f"{path} takes more than 500 s"]
    failed = [x for x in (done.stdout + done.stderr).split("\n") if (":F:" in x or ":E:" in x) and "no variant applies" not in x]
    if done.returncode and not failed and "no variant applies" not in done.stdout + done.stderr:
        failed = [done.stdout + done.stderr]
    if "TEST_GPU" not in os.environ:                                 # a machine with a GPU has the tests and no compiler
        pack = [f"{build}/tdslc", "build", path, "-o", path + ".tpack", "--target", chips, "-j", "1"]
        done = subprocess.run(pack, env=dict(os.environ, TDSL_PTXAS=""), capture_output=True, text=True, timeout=500)
        failed += [done.stdout + done.stderr] if done.returncode else []
        for made in (path + ".tpack", path + ".tpack.times"):
            if os.path.exists(made):
                os.remove(made)
    if not failed:
        os.remove(path)
    return failed or None


def main():
    build = sys.argv[1]
    drawn = [(seed, Kernel) for seed in range(1, 7)] + [(seed, Gradient) for seed in (5, 8, 118)] + [(1, Attention), (1, Product)]   # 118 asked early for rows of what is absent
    chips = "sm_90a"                                                 # which has most variants that none of the sizes takes
    if len(sys.argv) > 3:
        chips = "gfx942,gfx950,sm_90a"
        drawn = [(seed, {"sums": Gradient, "attention": Attention, "scans": Scan, "products": Product}.get("".join(sys.argv[4:]), Kernel)) for seed in range(int(sys.argv[2]), int(sys.argv[3]))]
    os.makedirs(f"{build}/random", exist_ok=True)
    failures = 0
    with ThreadPoolExecutor(int(os.environ.get("JOBS", "1"))) as pool:
        runs = {pool.submit(run, build, chips, *of): of[0] for of in drawn}
        for done in as_completed(runs):
            failed = done.result()
            failures += failed is not None
            for line in failed or []:
                print(f"kernel {runs[done]}: {line}", flush=True)
    count = len(drawn)
    print(f"{100 * (count - failures) // max(count, 1)}%: Checks: {count}, Failures: {failures}, Errors: 0")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
