"""tour.py B -- writes the dumps in docs/tour.md anew from what `tdslc dump` prints.

In: docs/tour.md, where a line "<!-- dump STAGE [from /REGEX/] [lines N] ARGUMENTS -->" stands before a fenced block.  Out: the same
file with each block replaced: the output of `B/tdslc dump kernels.tdsl --stage STAGE ARGUMENTS` from the first line that matches
the expression on, at most N lines, cut ones shown as "...".  `make bless` runs it; `git diff` reviews it.
"""
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "tour.md"
MARK = re.compile(r"(<!-- dump (\S+)(?: from /(.*?)/)?(?: lines (\d+))?((?: [^\n]*?)?) -->\n```[a-z]*\n)(.*?)(```\n)", re.S)


def dump(match):
    head, stage, start, most, arguments, _, end = match.groups()
    command = [sys.argv[1] + "/tdslc", "dump", "kernels.tdsl", "--stage", stage, *shlex.split(arguments)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{' '.join(command)}:\n{result.stderr}")
    lines = result.stdout.splitlines()
    first = next((i for i, line in enumerate(lines) if re.search(start, line)), 0) if start else 0
    last = len(lines) if most is None else min(len(lines), first + int(most))
    shown = ["..."] * (first > 0) + lines[first:last] + ["..."] * (last < len(lines))
    return head + "\n".join(line.rstrip() for line in shown) + "\n" + end


PAGE.write_text(MARK.sub(dump, PAGE.read_text()))
