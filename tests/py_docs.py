"""py_docs.py -- runs the Python lines of README.md, docs/python.md and docs/shipping.md from the installed wheel, and compares the dumps in
docs/tour.md with what `tdslc dump` prints; run by wheel_test.py.

README's lines are the indented block that starts with "import"; in the others every ```python block runs, in order, in one
namespace; a block that mentions torch runs where torch is.  The blocks assert what they state.
"""
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def readme(t):
    blocks = [b for b in re.findall(r"(?:^    .*\n|^\n(?=    ))+", (ROOT / "README.md").read_text(), re.M) if b.lstrip().startswith("import")]
    t.check(len(blocks) == 1, f"README.md has {len(blocks)} Python blocks")
    for block in blocks:
        namespace = {}
        exec(compile(re.sub(r"^    ", "", block, flags=re.M), "README.md", "exec"), namespace)
        t.check(namespace["y"].shape == namespace["x"].shape, "README.md: y")


def page(t, name, least):
    namespace, torch = {}, importlib.util.find_spec("torch") is not None
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / name).read_text(), re.M | re.S)
    t.check(len(blocks) >= least, f"{name} has {len(blocks)} Python blocks")
    for i, block in enumerate(blocks):
        if "torch" in block and not torch:
            print(f"{name}: block {i + 1} is not run: no torch here")
            continue
        exec(compile(block, f"{name}, block {i + 1}", "exec"), namespace)
        t.check(True, "")


def tour(t):
    """tests/tour.py, which `make bless` runs on the page, would write nothing else into it."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("tests/tour.py", "docs/tour.md", "kernels.tdsl"):
            Path(folder, name).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, Path(folder, name))
        r = subprocess.run([sys.executable, Path(folder, "tests/tour.py"), os.environ["B"]], capture_output=True, text=True)
        t.check(r.returncode == 0, f"tests/tour.py: {r.stdout}{r.stderr}")
        t.check(Path(folder, "docs/tour.md").read_text() == (ROOT / "docs/tour.md").read_text(), "docs/tour.md is not what tdslc dump prints; make bless")


def checks(totals):
    totals.run(readme)
    totals.run(page, "docs/python.md", 5)
    totals.run(page, "docs/shipping.md", 1)
    totals.run(tour)
