"""support_test.py -- docs/support.md says what the shipped pack holds; with BLESS set it is written.

In: `tdslc list --json` of the pack and the end-to-end tests' texts.  Out: a row a kernel and choice of types: its results, the variants on each
target ("at first call" where the pack holds the kernel's signature only), and whether an end-to-end test calls it on the simulated devices.  A shipped kernel that no such test names fails, and so do two variants
of a choice that have one text: a variant is asked for by its text.
"""
import json
import os
import re
import subprocess
from pathlib import Path

from totals import Totals

B = Path(os.environ.get("B", "build"))
ROOT = Path(__file__).resolve().parent.parent
HEAD = """# What is shipped

Written from the pack by tests/support_test.py (`make bless`). A kernel runs for any extents of its tensors and any strides within 32-bit offsets inside a tile; a choice of types
that is not listed, or a kernel `at first call`, is compiled when it is first called, where a compiler is installed. `simulated`: an end-to-end test compares it with f64
on the simulated device. `measured`: it was timed on the chip itself.

`two strides`: `x[M, N]` also takes `[B, S, N]`, and more dimensions, where the leading ones fold into one stride; the tensors named here
take them too where they fold into two, as those of a slice `x[:, :5]` do, all with the same `[B, S]`, in a call without the
transposed output where that is optional. That is so where rows are done one at a time (`each m in M`). Others refuse it (`TDSL_ESTRIDE`): rows that are taken by tiles, as element by element, for transposed outputs
and for products, have one stride; tensors of rank 3 and 4 and lists do too. What is compiled at first call follows the same rule.

| kernel | inputs | types | outputs | two strides | gfx942 | gfx950 | simulated | measured |
|---|---|---|---|---|---|---|---|---|
"""


def parameter(p, types):
    return p["name"] + ("?" if p["optional"] else "") + " " + types[p["name"]]


def table(pack, tests):
    rows = []
    for k in pack["kernels"]:
        tensors = [p for p in k["params"] if p["kind"] == "tensor"]
        simulated = "yes" if called(k["kernel"], tests) else "no"
        for i in k["instances"] if k["variants"] else [any_types(k)]:
            inputs = ", ".join(parameter(p, i["types"]) for p in tensors if p["role"] == "in")
            outputs = ", ".join(parameter(p, i["types"]) for p in tensors if p["role"] != "in")
            counts = [variants(k, i, target) for target in ("gfx942", "gfx950")]
            rows.append(f"| {k['kernel']} | {inputs} | {i['name'].replace(',', ' ') or '-'} | {outputs} | {two_strides(k, i)} | {counts[0]} | {counts[1]} | {simulated} | no |\n")
    return rows


def two_strides(kernel, instance):
    """Names of the tensors that on every target some variant follows along two leading strides."""
    targets = {}
    for v in kernel["variants"]:
        if v["instance"] == instance["name"]:
            targets.setdefault(v["target"], set()).update(v["two_strides"])
    both = set.intersection(*targets.values()) if targets else set()
    return ", ".join(p["name"] for p in kernel["params"] if p["name"] in both) or ("no" if targets else "")


def any_types(kernel):
    """One row for a kernel that is compiled when it is called, whatever its types."""
    seen = {p["name"]: list(dict.fromkeys(i["types"][p["name"]] for i in kernel["instances"])) for p in kernel["params"] if p["kind"] == "tensor"}
    return {"name": "any", "types": {name: " ".join(types) for name, types in seen.items()}}


def called(kernel, tests):
    """By its name, or by a name and a suffix of tables that the test puts together: `"swiglu"` and `"_mxfp8"`."""
    if f'"{kernel}"' in tests:
        return True
    return any(f'"{kernel[:at]}"' in tests and f'"{kernel[at:]}"' in tests for at in range(1, len(kernel)) if kernel[at] == "_")


def variants(kernel, instance, target):
    found = [v for v in kernel["variants"] if v["target"] == target and v["instance"] == instance["name"]]
    return f"{len(found)} variant" + ("s" if len(found) != 1 else "") if found else "no" if kernel["variants"] else "at first call"


def main():
    t = Totals()
    pack = json.loads(subprocess.run([B / "tdslc", "list", B / "kernels.tpack", "--json"], capture_output=True, text=True, check=True).stdout)
    tests = "".join(p.read_text() for p in sorted((ROOT / "tests").glob("e2e_*_test.c")))
    rows = table(pack, tests)
    path = ROOT / "docs" / "support.md"
    text = HEAD + "".join(rows)
    if os.environ.get("BLESS"):
        path.write_text(text)
    t.check(path.exists() and path.read_text() == text, "docs/support.md is not what the pack holds; make bless")
    for k in pack["kernels"]:
        names = [(v["instance"], v["target"], v["variant"]) for v in k["variants"]]
        t.check(len(set(names)) == len(names), f"{k['kernel']}: two variants of one text among {names}")
    for row in rows:
        t.check("| yes | no |" in row, f"no end-to-end test calls it: {row.strip()}")
    t.finish()


if __name__ == "__main__":
    main()
