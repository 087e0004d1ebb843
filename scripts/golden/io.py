"""Writes tests/golden/io: files made by NumPy and safetensors, and what is in them.

    python3 -m venv .venv && .venv/bin/pip install numpy safetensors ml_dtypes
    .venv/bin/python scripts/golden/io.py

Needs NumPy 2, safetensors and ml_dtypes. index.json holds, for each file, either the arrays (dtype,
shape, little-endian row-major bytes in hex) or "refused", a part of the reason.
"""

import io
import json
import warnings
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
from numpy.lib import format as npy
from safetensors.numpy import save as save_safetensors

OUT = Path(__file__).parents[2] / "tests" / "golden" / "io"

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64"]


def sample(dtype):
    """Six values of a dtype, its extremes among them, as [2, 3]."""
    if dtype == "bool":
        values = [True, False, True, True, False, False]
    elif dtype in INTEGERS:
        info = np.iinfo(dtype)
        values = [info.min, info.max, 0, 1, 2, 77]
    else:
        values = [-1.5, 0.1, np.inf, np.nan, -0.0, 65504]
    return np.array(values, dtype=dtype).reshape(2, 3)


def described(array):
    little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"))
    # ascontiguousarray makes rank 0 into rank 1, so the shape is the original's.
    return {"dtype": array.dtype.name, "shape": list(array.shape), "hex": little.tobytes().hex()}


def npy_bytes(array, version=None):
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        npy.write_array(out, array, version=version)
    return out.getvalue()


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    for old in OUT.iterdir():
        old.unlink()
    index = {}

    def put(name, data, **entry):
        (OUT / name).write_bytes(data)
        index[name] = entry

    def put_npy(name, array, version=None, same=False):
        put(name, npy_bytes(array, version), same=same, arrays={"": described(array)})

    # "same": our writer has to make the same bytes.
    for dtype in ["bool", *INTEGERS, *FLOATS]:
        put_npy(f"{dtype}.npy", sample(dtype), same=True)
    put_npy("rank0.npy", np.array(-2.5, dtype="float32"), same=True)
    put_npy("rank1.npy", np.arange(5, dtype="int16"), same=True)
    put_npy("rank4.npy", np.arange(16, dtype="uint8").reshape(2, 1, 4, 2), same=True)
    put_npy("empty1.npy", np.zeros(0, dtype="float64"), same=True)
    put_npy("empty3.npy", np.zeros((2, 0, 3), dtype="int64"), same=True)
    # A header that fills its 64-byte blocks without padding: NumPy adds a whole block.
    put_npy("full_block.npy", np.zeros((1,) * 36, dtype="uint8"), same=True)
    put_npy("version2.npy", sample("int32"), version=(2, 0))
    put_npy("version3.npy", sample("float32"), version=(3, 0))
    put_npy("big_int16.npy", sample("int16").astype(">i2"))
    put_npy("big_uint64.npy", sample("uint64").astype(">u8"))
    put_npy("big_float16.npy", sample("float16").astype(">f2"))
    put_npy("big_float64.npy", sample("float64").astype(">f8"))
    put_npy("fortran_int32.npy", np.asfortranarray(sample("int32")))
    put_npy("fortran_bool.npy", np.asfortranarray(sample("bool")))
    cube = np.arange(24).reshape(2, 3, 4)
    put_npy("fortran_cube.npy", np.asfortranarray(cube.astype("uint16")))
    put_npy("fortran_big.npy", np.asfortranarray(cube.astype(">f8")))
    put_npy("fortran_empty.npy", np.zeros((0, 3), order="F"))

    bfloat16 = np.array([1, -2.5, 3e38], dtype=ml_dtypes.bfloat16)
    put("bfloat16.npy", npy_bytes(bfloat16), refused="'<V2'", arrays={"": described(bfloat16)})
    for name, array, reason in [
        ("object", np.array([1, "a"], dtype=object), "|O"),
        ("structured", np.zeros(2, dtype=[("x", "<f4"), ("y", "<i4")]), "('x', '<f4')"),
        ("unicode", np.array(["ab", "c"]), "<U2"),
        ("bytes", np.array([b"ab", b"c"]), "|S2"),
        ("longcomplex", np.zeros(1, dtype="complex256"), "<c32"),
        ("datetime", np.zeros(1, dtype="datetime64[s]"), "<M8[s]"),
        ("longdouble", np.zeros(1, dtype="float128"), "<f16"),
    ]:
        put(f"{name}.npy", npy_bytes(array), refused=reason)

    arrays = {"weight": sample("float32"), "b/10": sample("uint8"), "2": np.array(7, dtype="int64"),
              "né": np.zeros((0, 2), dtype="float64")}
    entry = {"arrays": {name: described(a) for name, a in arrays.items()}}
    stored, deflated, empty, plain = (io.BytesIO() for _ in range(4))
    np.savez(stored, **arrays)
    put("stored.npz", stored.getvalue(), same=True, **entry)
    np.savez_compressed(deflated, **arrays)
    put("deflated.npz", deflated.getvalue(), **entry)
    np.savez(empty)
    put("empty.npz", empty.getvalue(), same=True, arrays={})
    # What other zip tools write: no zip64 fields, a comment, members of both methods.
    with zipfile.ZipFile(plain, "w") as archive:
        for i, (name, a) in enumerate(arrays.items()):
            member = zipfile.ZipInfo(f"{name}.npy", (2020, 2, 2, 2, 2, 2))
            archive.writestr(member, npy_bytes(a), 8 if i % 2 else 0)
        archive.comment = b"a comment PK\x05\x06 with a false end record, and then 22 bytes more"
    put("plain.npz", plain.getvalue(), **entry)

    tensors = {dtype: sample(dtype) for dtype in ["bool", *INTEGERS, *FLOATS]}
    tensors["bfloat16"] = bfloat16
    # Names that sort differently as UTF-16, that JavaScript objects reorder, that JSON escapes.
    for i, name in enumerate(["\U0001f600", "\uff5e", "10", "9", "__proto__", 'a"\\\n\x01', ""]):
        tensors[name] = np.array([i], dtype="int16")
    tensors["rank0"] = np.array(0.5, dtype="float32")
    tensors["empty"] = np.zeros((0, 3), dtype="float32")
    metadata = {"format": "é"}
    entry = {"arrays": {name: described(a) for name, a in tensors.items()}}
    put("all.safetensors", save_safetensors(tensors, metadata), same=True, metadata=metadata, **entry)
    put("none.safetensors", save_safetensors({}), same=True, metadata={}, arrays={})
    float8 = np.array([1, 2], dtype=ml_dtypes.float8_e4m3fn)
    tensors = {"weight": sample("float32"), "scale": float8}
    put("float8.safetensors", save_safetensors(tensors), refused="F8_E4M3",
        arrays={"weight": described(tensors["weight"])}, metadata={})

    text = json.dumps(index, indent=1, ensure_ascii=True)
    (OUT / "index.json").write_text(text + "\n", encoding="ascii")
    print(f"{len(index)} files, {sum(f.stat().st_size for f in OUT.iterdir())} bytes in {OUT}")


if __name__ == "__main__":
    main()
