"""Writes tests/golden/quantized.json: blocks of quantized weights by the Python package of ggml.

    .venv/bin/pip install gguf numpy
    .venv/bin/python scripts/golden/quantized.py

For each format, random blocks and the float32 they stand for; for formats that are made, also
float32 and their blocks; and a small GGUF file with metadata of every type and a tensor of each
format. All as base64.
"""

import base64
import json
import tempfile
from pathlib import Path

import gguf
import numpy as np
from gguf.quants import dequantize, quantize

PATH = Path(__file__).parents[2] / "tests/golden/quantized.json"
Type = gguf.GGMLQuantizationType
FORMATS = "Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q4_K Q5_K Q6_K IQ4_NL".split()
MADE = ["Q4_0", "Q8_0"]
#: Where blocks have float16.
HALVES = {"Q4_1": [0, 2], "Q5_1": [0, 2], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}
random = np.random.default_rng(1)


def text(array):
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


def blocks(name, count):
    """Random blocks, whose scales are finite."""
    size = gguf.GGML_QUANT_SIZES[Type[name]][1]
    made = random.integers(0, 256, (count, size), dtype=np.uint8)
    for at in HALVES.get(name, [0]):
        scales = random.standard_normal(count).astype(np.float16)
        made[:, at : at + 2] = scales.view(np.uint8).reshape(count, 2)
    return made


def numbers():
    """Rows of normal numbers, of zeros, of equal numbers, of ties, and of very different sizes."""
    normal = np.random.default_rng(2)
    rows = normal.standard_normal((8, 64)).astype(np.float32)
    rows[1] = 0
    rows[2] = 0.5
    rows[3] = np.arange(64) - 31.5
    rows[4, 7] = 1000
    rows[5] *= 1e-6
    rows[6] *= 1e-20
    rows[7] *= 1e5
    return rows


def file_with(tensors):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.gguf"
        writer = gguf.GGUFWriter(path, "test")
        writer.add_uint8("a.uint8", 255)
        writer.add_int8("a.int8", -128)
        writer.add_uint16("a.uint16", 65535)
        writer.add_int16("a.int16", -32768)
        writer.add_uint32("a.uint32", 2**32 - 1)
        writer.add_int32("a.int32", -(2**31))
        writer.add_uint64("a.uint64", 2**64 - 1)
        writer.add_int64("a.int64", -5)
        writer.add_float32("a.float32", 0.5)
        writer.add_float64("a.float64", 0.1)
        writer.add_bool("a.bool", True)
        writer.add_string("a.string", "grün 🐈")
        writer.add_array("a.strings", ["", "a", "βγ"])
        writer.add_array("a.numbers", [1, -2, 3])
        writer.add_array("a.floats", [0.5, 1.5])
        for name, (array, kind) in tensors.items():
            writer.add_tensor(name, array, raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path.read_bytes()


result = {"formats": {}}
tensors = {
    "plain": (np.arange(6, dtype=np.float32).reshape(2, 3), None),
    "half": (np.arange(4, dtype=np.float16), None),
    "whole": (np.arange(3, dtype=np.int32), None),
}
for name in FORMATS:
    kind = Type[name]
    some = blocks(name, 4)
    result["formats"][name.lower()] = entry = {
        "blocks": text(some),
        "numbers": text(dequantize(some, kind).astype(np.float32)),
    }
    if name in MADE:
        given = numbers()
        entry["given"] = text(given)
        entry["made"] = text(quantize(given, kind))
    tensors[name.lower()] = (some.reshape(2, -1), kind)
result["file"] = base64.b64encode(file_with(tensors)).decode()
PATH.write_text(json.dumps(result, indent=1) + "\n")
