"""safetensors.py -- reads and writes safetensors files as numpy arrays; written from the format's description, for tests."""
import json
import struct

import ml_dtypes
import numpy as np

TYPES = {"BF16": ml_dtypes.bfloat16, "F16": np.float16, "F32": np.float32, "I8": np.int8, "I32": np.int32, "I64": np.int64,
         "F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E4M3FNUZ": ml_dtypes.float8_e4m3fnuz, "F8_E5M2": ml_dtypes.float8_e5m2,
         "F8_E5M2FNUZ": ml_dtypes.float8_e5m2fnuz, "F8_E8M0": ml_dtypes.float8_e8m0fnu}
NAMES = {np.dtype(t): n for n, t in TYPES.items()}


def write(path, tensors):
    header, data = {}, b""
    for name, array in tensors.items():
        raw = np.ascontiguousarray(array).tobytes()
        header[name] = {"dtype": NAMES[array.dtype], "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read(path):
    raw = path.read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    header, data = json.loads(raw[8:8 + size]), raw[8 + size:]
    header.pop("__metadata__", None)
    return {name: np.frombuffer(data[t["data_offsets"][0]:t["data_offsets"][1]], TYPES[t["dtype"]]).reshape(t["shape"])
            for name, t in header.items()}
