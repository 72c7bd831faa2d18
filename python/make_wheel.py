"""make_wheel.py BUILD OUT PACK LABEL AUDITWHEEL -- writes the two wheels.

In: BUILD, a folder with libtdsl_rt.so, libtdsl_sim.so, libtdslc.so and python/_core.abi3.so; PACK, the kernels; LABEL, "" or what
tells this pack from the default one (it becomes the version's local part); AUDITWHEEL, the command.
Out: OUT/tdsl-*.whl     the package, the runtime, the simulated device, the pack, stubs; no LLVM.  Tagged for the oldest
                        glibc that its libraries can do with, as auditwheel finds it.
     OUT/tdsl_compiler-*.whl  libtdslc.so, which goes beside the runtime and has LLVM inside; tagged likewise.
Each brings the licences of what is linked into it.
A wheel is a zip file with three text files in it; writing it here needs no build tool, and the same inputs give the same bytes.
"""
import base64
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 10 << 20                                             # bytes of the wheel without compiler
LINKED = {"tdsl": ("libzstd-dev", "libxxhash-dev"), "tdsl_compiler": ("llvm-22-dev", "liblld-22-dev", "libzstd-dev", "libxxhash-dev")}
METADATA = {
    "tdsl": """Metadata-Version: 2.1
Name: tdsl
Version: {version}
Summary: Fused kernels for AMD gfx942 and gfx950 from packs, with a simulated device; no torch, no ROCm to build
License: {licence}
Requires-Python: >=3.9
Requires-Dist: numpy
Requires-Dist: ml_dtypes>=0.5
Provides-Extra: compiler
Requires-Dist: tdsl-compiler=={public}; extra == "compiler"
Provides-Extra: torch
Requires-Dist: torch>=2.4; extra == "torch"
""",
    "tdsl_compiler": """Metadata-Version: 2.1
Name: tdsl-compiler
Version: {public}
Summary: The compiler of tdsl, for tdsl.compile and for kernels that no pack holds; LLVM is inside
License: {licence}
Requires-Python: >=3.9
Requires-Dist: tdsl=={public}
""",
}


def write(out, name, version, tag, files, licence):
    """Writes one wheel of `files` (name in the wheel -> bytes); returns its path."""
    info, public = f"{name}-{version}.dist-info", version.partition("+")[0]
    files = dict(files)
    files[f"{info}/METADATA"] = METADATA[name].format(version=version, public=public, licence=licence).encode()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: tdsl\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    files[f"{info}/licenses/LICENSE"] = (ROOT / "LICENSE").read_bytes()
    for package in LINKED[name]:                             # Debian's record of each: its licence and who holds it
        files[f"{info}/licenses/{package}"] = Path(f"/usr/share/doc/{package}/copyright").read_bytes()
    record = []
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record.append(f"{path},sha256={digest},{len(data)}\n")
    files[f"{info}/RECORD"] = "".join([*record, f"{info}/RECORD,,\n"]).encode()
    path = out / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for file, data in files.items():
            entry = zipfile.ZipInfo(file, (1980, 1, 1, 0, 0, 0))
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            wheel.writestr(entry, data)
    return path


def stripped(source, target):
    subprocess.run(["strip", "--strip-unneeded", "-o", target, source], check=True)


def tagged(auditwheel, out, name, version, python, files, licence):
    """The wheel, tagged as auditwheel finds it: manylinux_2_34_x86_64."""
    first, path = write(out, name, version, f"{python}-linux_{platform.machine()}", files, licence), Path(auditwheel).parent
    found = subprocess.run([auditwheel, "show", first], capture_output=True, text=True, env={**os.environ, "PATH": f"{path}:{os.environ['PATH']}"})
    tag = re.search(r'platform\s+tag:\s+"(manylinux_\d+_\d+_\w+)"', found.stdout)
    if not tag:
        sys.exit(f"auditwheel finds no manylinux tag for {first}:\n{found.stdout}{found.stderr}")
    first.unlink()
    return write(out, name, version, f"{python}-{tag[1]}", files, licence)


def main(build, out, pack, label, auditwheel):
    version = (ROOT / "VERSION").read_text().strip() + (f"+{label}" if label else "")
    licence = (ROOT / "LICENSE").read_text().split()[0]
    tree = out / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    (tree / "tdsl").mkdir(parents=True)
    for source in sorted((ROOT / "python/tdsl").glob("*.py")):
        shutil.copy(source, tree / "tdsl")
    for library in ("libtdsl_rt.so", "libtdsl_sim.so", "python/_core.abi3.so"):
        stripped(build / library, tree / "tdsl" / Path(library).name)
    shutil.copy(pack, tree / "tdsl/kernels.tpack")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TDSL_")}
    subprocess.run([sys.executable, ROOT / "python/make_stubs.py", tree / "tdsl"], check=True,
                   env={**environment, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"})
    (tree / "tdsl/py.typed").touch()
    files = {f"tdsl/{p.name}": p.read_bytes() for p in sorted((tree / "tdsl").iterdir())}
    wheel = tagged(auditwheel, out, "tdsl", version, "cp39-abi3", files, licence)
    compiler = tagged(auditwheel, out, "tdsl_compiler", version.partition("+")[0], "py3-none",
                      {"tdsl/libtdslc.so": (build / "libtdslc.so").read_bytes()}, licence)
    shutil.rmtree(tree)
    for path in (wheel, compiler):
        print(f"{path}  {path.stat().st_size / 1e6:.2f} MB")
    if wheel.stat().st_size > LIMIT:
        sys.exit(f"{wheel} is over {LIMIT} bytes")


main(*(Path(a) for a in sys.argv[1:4]), *sys.argv[4:])
