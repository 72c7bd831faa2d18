#!/usr/bin/env python3
"""llvm_profile.py -- keeps how often LLVM's branches were taken while kernels were compiled, for llvm-bolt to lay its code out by.

    llvm_profile.py pack COUNTED.fdata OUT.fdata.xz     from what an instrumented tdslc wrote (`make profile`)
    llvm_profile.py unpack IN.fdata.xz OUT.fdata        for the build

In, out: llvm-bolt's text of branches, a line each: kind and name and offset of where from, the same of where to, mispredictions, count.
What is kept: functions of LLVM and lld that ran LEAST times at least; ours change with every commit and would not match.  Counts are
rounded to powers of two: the layout does not depend on more, and the file halves.
"""
import lzma
import math
import sys

# About one for each variant compiled while counting: what ran less often is done once a process.
LEAST = 250


def branches(text):
    for line in text.splitlines():
        fields = line.split(" ")
        if len(fields) == 8:
            yield fields


def pack(text):
    most = {}
    for fields in branches(text):
        most[fields[1]] = max(most.get(fields[1], 0), int(fields[7]))
    kept = {name for name, count in most.items() if count >= LEAST and name.startswith("_Z") and "shim" not in name}
    lines = []
    for fields in branches(text):
        if fields[1] in kept:
            count = max(int(fields[7]), 1)
            lines.append(" ".join(fields[:6] + ["0", str(1 << round(math.log2(count)))]) + "\n")
    if not lines:
        sys.exit("llvm_profile.py: no branch of LLVM was counted")
    print(f"{len(lines)} branches of {len(kept)} functions, of {len(most)} that ran")
    return "".join(lines)


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in ("pack", "unpack"):
        sys.exit(__doc__)
    if sys.argv[1] == "pack":
        with open(sys.argv[2], encoding="utf-8") as counted:
            text = pack(counted.read())
        with lzma.open(sys.argv[3], "wt", encoding="utf-8", preset=9 | lzma.PRESET_EXTREME) as out:
            out.write(text)
    else:
        with lzma.open(sys.argv[2], "rt", encoding="utf-8") as packed, open(sys.argv[3], "w", encoding="utf-8") as out:
            out.write(packed.read())


if __name__ == "__main__":
    main()
