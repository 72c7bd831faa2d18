"""make_wheel.py BUILD OUT -- writes the wheel: the package, the runtime, the simulated device and the pack.

In: BUILD, a folder with libtdsl_rt.so, libtdsl_sim.so and kernels.tpack.  Out: OUT/tdsl-VERSION-py3-none-linux_x86_64.whl.
A wheel is a zip file with three text files in it; writing it here needs no build tool, and the same inputs give the same bytes.
"""
import base64
import hashlib
import platform
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
METADATA = """Metadata-Version: 2.1
Name: tdsl
Version: {version}
Summary: Fused kernels for AMD gfx942 and gfx950 from packs, with a simulated device; no torch, no ROCm to build
License: {licence}
Requires-Python: >=3.9
Requires-Dist: numpy
Requires-Dist: ml_dtypes>=0.5
"""
WHEEL = """Wheel-Version: 1.0
Generator: tdsl
Root-Is-Purelib: false
Tag: {tag}
"""


def main(build, out):
    version = (ROOT / "VERSION").read_text().strip()
    licence = (ROOT / "LICENSE").read_text().split()[0]
    tag = f"py3-none-linux_{platform.machine()}"
    info = f"tdsl-{version}.dist-info"
    files = {f"tdsl/{p.name}": p.read_bytes() for p in sorted((ROOT / "python/tdsl").glob("*.py"))}
    for name in ("libtdsl_rt.so", "libtdsl_sim.so", "kernels.tpack"):
        files[f"tdsl/{name}"] = (build / name).read_bytes()
    files[f"{info}/METADATA"] = METADATA.format(version=version, licence=licence).encode()
    files[f"{info}/WHEEL"] = WHEEL.format(tag=tag).encode()
    files[f"{info}/LICENSE"] = (ROOT / "LICENSE").read_bytes()
    record = []
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record.append(f"{name},sha256={digest},{len(data)}\n")
    record.append(f"{info}/RECORD,,\n")
    files[f"{info}/RECORD"] = "".join(record).encode()
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"tdsl-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            wheel.writestr(entry, data)
    print(path)


main(Path(sys.argv[1]), Path(sys.argv[2]))
