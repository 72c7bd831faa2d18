"""pack_kernels.py KERNELS.tdsl PACK -- prints `--kernel NAME` for each kernel of the text that the pack PACK of packs.txt holds."""
import re
import sys
from fnmatch import fnmatchcase
from pathlib import Path

lines = [line.split() for line in (Path(__file__).parent / "packs.txt").read_text().splitlines() if line[:1] not in ("#", "")]
packs = {name: patterns for name, *patterns in lines}
if sys.argv[2] not in packs:
    sys.exit(f"PACK={sys.argv[2]}: expected one of {', '.join(packs)}")
# Templates, which take functions or integers, are no kernels by themselves.
for kernel in re.findall(r"^kernel (\w+)(?!.*: (?:fn|int)\b)", Path(sys.argv[1]).read_text(), re.M):
    fits = [p for p in packs[sys.argv[2]] if fnmatchcase(kernel, p.lstrip("!"))]
    if fits and not fits[-1].startswith("!"):
        print("--kernel", kernel, end=" ")
