"""wheel_test.py -- the wheels as a user has them: installed into an empty environment, everything called from there.

In: $B/wheel/*.whl, which `make wheel` builds.  numpy and ml_dtypes are lent by the environment that runs this file, torch by the
folder in WHEEL_TEST_SITE where that is set.  Out: totals in Check's form of tests/py_*.py, whose functions run in one process.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

B = Path(os.environ.get("B", "build")).resolve()
HERE = Path(__file__).resolve().parent
PLACE = B / "wheel" / "venv"


def wheel(name):
    found = glob.glob(str(B / "wheel" / f"{name}-*.whl"))
    assert len(found) == 1, f"one wheel {name} in {B / 'wheel'} expected, found {found}"
    return found[0]


def ship():
    """Does what docs/shipping.md says; returns the wheel that comes of it."""
    place, page = B / "wheel" / "ship", (HERE.parent / "docs/shipping.md").read_text()
    shutil.rmtree(place, ignore_errors=True)
    for name, text in re.findall(r"^`([\w./]+)`, .*:\n\n((?:    .*\n|\n(?=    ))+)", page, re.M):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(re.sub(r"^    ", "", text, flags=re.M))
    commands = "".join(re.findall(r"^```sh\n(.*?)^```", page, re.M | re.S))
    # nothing is fetched: the tools that pip would put into an environment of its own are there
    environment = {**os.environ, "PATH": f"{B}:{Path(sys.executable).parent}:{os.environ['PATH']}", "PIP_NO_BUILD_ISOLATION": "0"}
    subprocess.run(["sh", "-ec", commands], check=True, cwd=place, env=environment, stdout=subprocess.DEVNULL)
    return glob.glob(str(place / "mykernels-1.0-py3-none-any.whl"))[0]


def install(*more):
    """An empty environment with the wheels; returns its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", str(PLACE)], check=True)
    python = PLACE / "bin" / "python"
    subprocess.run([sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index", wheel("tdsl"), wheel("tdsl_compiler"), *more], check=True)
    site = subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"], check=True,
                          capture_output=True, text=True).stdout.strip()
    lent = [sysconfig.get_paths()["purelib"], os.environ.get("WHEEL_TEST_SITE")]
    (Path(site) / "lent.pth").write_text("".join(f"{p}\n" for p in lent if p))
    return python


def package(t):
    import tdsl
    place = Path(tdsl.__file__).resolve()
    t.check(PLACE in place.parents, f"the package tested is not the installed one: {place}")
    file, size = Path(wheel("tdsl")).name, Path(wheel("tdsl")).stat().st_size
    t.check("-cp39-abi3-manylinux_2_" in file, f"the wheel's tag: {file}")
    t.check(size <= 10 << 20, f"the wheel has {size} bytes; 10 MB are the limit")
    t.check("-py3-none-manylinux_2_" in Path(wheel("tdsl_compiler")).name, f"the compiler's tag: {wheel('tdsl_compiler')}")
    needed = subprocess.run(["readelf", "-d", place.parent / "libtdslc.so"], capture_output=True, text=True).stdout
    t.check("libc.so.6" in needed and "LLVM" not in needed, f"the compiler needs: {needed}")
    for name in ("tdsl", "tdsl_compiler"):
        with zipfile.ZipFile(wheel(name)) as z:
            licences = [n for n in z.namelist() if "/licenses/" in n]
            t.check(len(licences) == (3 if name == "tdsl" else 5) and all(len(z.read(n)) > 500 for n in licences), f"{name}: licences {licences}")
    with zipfile.ZipFile(wheel("tdsl")) as z:
        t.check(not [n for n in z.namelist() if "LLVM" in n or "tdslc" in n], f"the wheel holds {z.namelist()}")


def packs(t):
    """PACK= of `make wheel`: which kernels of kernels.tdsl are where, and a name that python/packs.txt lacks."""
    import tdsl
    from tdsl import aiter

    def chosen(text, name):
        r = subprocess.run([sys.executable, HERE.parent / "python/pack_kernels.py", text, name], capture_output=True, text=True)
        return r.stdout.split()[1::2] if r.returncode == 0 else r.stderr
    text = HERE.parent / "kernels.tdsl"
    every, inference, training = (chosen(text, name) for name in ("all", "inference", "training"))
    t.check(every == tdsl.bundled().kernels, f"all, and not in the pack or the other way round: {set(every) ^ set(tdsl.bundled().kernels)}")
    t.check(set(every) == set(inference) | set(training), f"in neither: {set(every) - set(inference) - set(training)}")
    t.check(inference == [k for k in every if k in inference] and training == [k for k in every if k in training], "another order than the text's")
    gradients = {k for k in every if k.endswith("_bwd") or "_bwd_" in k}
    t.check(not gradients & set(inference) and gradients <= set(training), "gradients are training's")
    calls = {row.kernel for row in aiter.ROWS}
    t.check(calls <= set(inference), f"AITER's calls need {calls - set(inference)}")
    only_inference, only_training = set(inference) - set(training), set(training) - set(inference) - gradients
    t.check(only_inference == {"attention"}, f"inference alone: {only_inference}")
    both = {k for k in every if any(p.name == "scale_t" for p in getattr(tdsl, k).params)} - gradients
    t.check(len(both) > 3 and only_training == both | {"delayed_scaling", "multi_tensor_amax", "multi_tensor_l2norm", "multi_tensor_scale", "multi_tensor_adam"},
            f"training alone: {only_training}")
    t.check("expected one of" in chosen(text, "other"), chosen(text, "other"))


def gpu(t):
    """py_gpu.py and py_cuda.py, each in a process where another library stands for the driver."""
    import tdsl
    library = str(Path(tdsl.__file__).parent / "libtdsl_sim.so")
    for file, more in (("py_gpu.py", {"TDSL_HIP_LIBRARY": library, "TDSL_SIM_CHIPS": "gfx942,gfx950"}),
                       ("py_cuda.py", {"TDSL_CUDA_LIBRARY": str(B / "tests/libcuda_fake.so"), "TDSL_HIP_LIBRARY": "/nowhere", "TDSL_JIT": "0"})):
        r = subprocess.run([sys.executable, HERE / file], env={**os.environ, **more}, capture_output=True, text=True)
        found = re.search(r"Checks: (\d+), Failures: 0, Errors: 0", r.stdout)
        t.check(r.returncode == 0 and found and int(found[1]) > 10, f"{file}: exit {r.returncode}\n{r.stdout}{r.stderr}")


def no_llvm(t):
    maps = Path("/proc/self/maps").read_text()
    t.check("libtdsl_rt" in maps and "LLVM" not in maps and "libtdslc" not in maps, "running packs loaded the compiler")


def inside():
    import tdsl
    import py_aiter
    import py_calls
    import py_docs
    import py_kernels
    import py_torch
    from totals import Totals

    totals = Totals()
    tdsl.open("sim:gfx942")
    totals.run(package)
    totals.run(packs)
    py_kernels.checks(totals)
    py_calls.checks(totals)
    py_aiter.checks(totals)
    totals.run(no_llvm)
    totals.run(gpu)
    py_docs.checks(totals)
    py_torch.checks(totals)
    totals.finish()


if sys.argv[1:] == ["inside"]:
    inside()
else:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("TDSL_", "PYTHONPATH"))}
    environment.update(PYTHONPATH=str(HERE), B=str(B), TDSL_CACHE_DIR="")
    sys.exit(subprocess.run([install(ship()), str(Path(__file__).resolve()), "inside"], env=environment, cwd=B).returncode)
