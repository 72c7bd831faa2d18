"""progress_test.py -- how far `tdslc build` is: on a terminal that waits longer than a second, and nowhere else.

In: B, the build folder (build where unset).  Out: totals in Check's form.  Standard error is a pseudo-terminal or a pipe; what arrives is
compared with what a terminal would show: the line rewritten in place, counting up to the pack's variants, and gone at the end.
"""
import json
import os
import pty
import re
import subprocess
import tempfile
import time
from pathlib import Path

TDSLC = str(Path(os.environ.get("B", "build")).resolve() / "tdslc")
ROOT = Path(__file__).resolve().parent.parent
SLOW = ["build", str(ROOT / "kernels.tdsl"), "-j", "1", "--kernel", "attention"]
QUICK_TEXT = "kernel twice(x: f32[N]) -> y: f32[N]\n{\n    each n in N tiled { y[n] = x[n] * 2 }\n}\n"
BROKEN_TEXT = "kernel broken(x: f32[N]) -> y: f32[N]\n{\n    each n in N { y[n] = z[n] }\n}\n"
checks = failures = 0


def check(ok, text):
    global checks, failures
    checks += 1
    if not ok:
        failures += 1
        print(text)


def on_terminal(*command):
    """What a terminal gets as standard error, when, and the exit status: [(seconds, bytes)], status, seconds."""
    ours, theirs = pty.openpty()
    start = time.monotonic()
    process = subprocess.Popen([TDSLC, *command], stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    got = []
    while True:
        try:
            data = os.read(ours, 65536)
        except OSError:                       # EIO: the other end is closed
            break
        if not data:
            break
        got.append((time.monotonic() - start, data))
    check(process.stdout.read() == b"", "something on standard output")
    status = process.wait()
    os.close(ours)
    return got, status, time.monotonic() - start


with tempfile.TemporaryDirectory() as folder:
    one, two, text = (os.path.join(folder, x) for x in ("one.tpack", "two.tpack", "k.tdsl"))

    piped = subprocess.run([TDSLC, *SLOW, "-o", one], capture_output=True)
    check((piped.returncode, piped.stdout, piped.stderr) == (0, b"", b""), f"into a pipe: {piped}")
    report = subprocess.run([TDSLC, "report", "--json", one], capture_output=True, check=True).stdout
    variants = len(json.loads(report))

    got, status, seconds = on_terminal(*SLOW, "-o", two)
    check(status == 0 and seconds > 1, f"exit {status} after {seconds:.2f} s: the build is meant to take longer than a second")
    check(Path(one).read_bytes() == Path(two).read_bytes(), "the terminal changed the pack")
    shown = b"".join(data for _, data in got).decode()
    check(got and got[0][0] >= 1, f"shown after {got[0][0] if got else 0:.2f} s")
    check("\n" not in shown and shown.startswith("\r"), f"not one line rewritten: {shown!r}")
    lines = shown.split("\r")[1:]
    check(all(len(line) == 78 for line in lines[:-1]) and lines[-2:] == [" " * 78, ""], f"not erased: {lines[-2:]}")
    steps = [re.fullmatch(r"tdslc: (\d+) of (\d+) variants, (\d+\.\d) s: attention *", line) for line in lines[:-2]]
    check(steps and all(steps), f"lines: {lines}")
    if all(steps):
        done, times = [int(s[1]) for s in steps], [float(s[3]) for s in steps]
        check(all(a < b for a, b in zip(done, done[1:])) and done[-1] <= variants, f"counted {done} of {variants}")
        check({int(s[2]) for s in steps} == {variants}, f"of {[s[2] for s in steps]}, the pack has {variants}")
        check(times == sorted(times) and times[0] >= 1 and times[-1] <= seconds + 0.05, f"seconds {times} of {seconds:.1f}")

    Path(text).write_text(QUICK_TEXT)
    got, status, seconds = on_terminal("build", text, "-o", one)
    check(status == 0 and (seconds >= 1 or not got), f"exit {status}, after {seconds:.2f} s: {got}")
    Path(text).write_text(BROKEN_TEXT)
    got, status, _ = on_terminal("build", text, "-o", one)
    said = b"".join(data for _, data in got)
    check(status == 1 and b"k.tdsl:3:" in said and b"variants" not in said, f"exit {status}: {said}")

print(f"{100 * (checks - failures) // checks}%: Checks: {checks}, Failures: {failures}, Errors: 0")
raise SystemExit(failures != 0)
