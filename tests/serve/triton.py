"""Asks a service of the Open Inference Protocol by NVIDIA's client: triton.py PORT.

Its models are one for each datatype, which returns x as y, and "onnx", relu(x * 2 + 1) of rows of 2.
"""

import sys

import numpy as np
import tritonclient.http as triton

client = triton.InferenceServerClient(f"127.0.0.1:{sys.argv[1]}", concurrency=8)
assert client.is_server_live() and client.is_server_ready()
assert client.is_model_ready("onnx") and client.is_model_ready("onnx", "1")
assert client.get_server_metadata()["name"] == "rowmajor"
assert client.get_model_metadata("onnx")["inputs"][0]["shape"] == [-1, 2]
answers = 0


def ask(datatype, array, binary_in, binary_out):
    """What the model of a datatype returns."""
    global answers
    x = triton.InferInput("x", list(array.shape), datatype)
    x.set_data_from_numpy(array, binary_data=binary_in)
    outputs = [triton.InferRequestedOutput("y", binary_data=binary_out)]
    result = client.infer(datatype, [x], outputs=outputs, request_id="7")
    assert result.get_response()["id"] == "7"
    answers += 1
    return result.as_numpy("y")


DATATYPES = {
    "BOOL": "?", "UINT8": "u1", "UINT16": "u2", "UINT32": "u4", "UINT64": "u8", "INT8": "i1",
    "INT16": "i2", "INT32": "i4", "INT64": "i8", "FP16": "f2", "FP32": "f4", "FP64": "f8",
}  # fmt: skip
draw = np.random.default_rng(1)
for datatype, dtype in DATATYPES.items():
    if datatype == "BOOL":
        array = draw.integers(0, 2, (3, 4)).astype(bool)
    elif datatype.startswith("FP"):
        array = draw.standard_normal((3, 4)).astype(dtype)
        array[0] = [np.nan, np.inf, -np.inf, 0.5]
    else:
        limits = np.iinfo(dtype)
        array = draw.integers(limits.min, limits.max, (3, 4), dtype=dtype, endpoint=True)
    for binary_in in (True, False):
        # The client has no JSON of 16-bit floats, and writes words for NaN that JSON lacks.
        if datatype.startswith("FP") and not binary_in:
            continue
        for binary_out in (True, False):
            y = ask(datatype, array, binary_in, binary_out)
            same = np.array_equal(y, array, equal_nan=datatype.startswith("FP"))
            assert y.dtype == array.dtype and same, (datatype, binary_in, binary_out, y)

texts = np.array(["a", "é", ""], dtype=object)
for binary_in in (True, False):
    for binary_out in (True, False):
        y = ask("BYTES", texts, binary_in, binary_out)
        assert [t.decode() if isinstance(t, bytes) else t for t in y] == list(texts), y


def later(i):
    """The inputs of a request, and the request, whose answer comes later."""
    array = np.full((1 + i % 3, 2), i - 30, "f4")
    x = triton.InferInput("x", list(array.shape), "FP32")
    x.set_data_from_numpy(array)
    return array, client.async_infer("onnx", [x])


for array, request in [later(i) for i in range(64)]:
    assert np.array_equal(request.get_result().as_numpy("y"), np.maximum(array * 2 + 1, 0))
    answers += 1

x = triton.InferInput("x", [1], "FP32")
x.set_data_from_numpy(np.zeros(1, "f4"))
for call, status in [
    (lambda: client.infer("none", [x]), "404"),
    (lambda: client.get_model_metadata("none"), "404"),
    (lambda: client.infer("onnx", [x]), "400"),
]:
    try:
        call()
        raise AssertionError("there was no error")
    except triton.InferenceServerException as error:
        assert error.status() == status and error.message(), error
        answers += 1
print(answers)
