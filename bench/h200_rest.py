"""h200_rest.py LIST.json KERNELS.tdsl -- the text of kernels.tdsl with a pack block of the kernels that its own block leaves out.

In: `tdslc list --json` of a pack of that text.  Out, on standard output: the text, to be compiled for `h200.py --rest --pack`.  Of each
kernel bf16 alone, stored as bf16 and as fp8 where it has the choice: enough for the checks, and small enough to be carried to a GPU.
"""
import json
import re
import sys

STORED = ("bf16", "fp8")


def lines(kernel):
    choices = [dict(c.split("=") for c in i["name"].split(",")) for i in kernel["instances"]]
    stored = [q for q in STORED if any(c.get("Q") == q for c in choices)] if len({c.get("Q") for c in choices}) > 1 else []
    return [f"    {kernel['kernel']}: T bf16{q}" for q in [f", Q {q}" for q in stored] or [""]]


def main():
    listed, text = json.load(open(sys.argv[1])), open(sys.argv[2]).read()
    rest = [line for k in listed["kernels"] for line in (lines(k) if not k["variants"] else [f"    {k['kernel']}: none"])]
    if all(k["variants"] for k in listed["kernels"]):
        sys.exit(f"h200_rest.py: {sys.argv[1]}: every kernel has variants; expected some that the pack block leaves out")
    print(re.sub(r"^pack \{.*?^\}", lambda _: "pack {\n" + "\n".join(rest) + "\n}", text, count=1, flags=re.M | re.S), end="")


if __name__ == "__main__":
    main()
