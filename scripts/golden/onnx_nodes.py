"""Writes the node tests of the installed onnx into a folder, for tests/onnx/nodes_test.ts.

    .venv/bin/pip install numpy onnx==1.23.2 onnxruntime==1.32.0
    .venv/bin/python scripts/golden/onnx_nodes.py OUT
    .venv/bin/python scripts/golden/onnx_nodes.py OUT --runtime

The first command writes OUT/NAME/model.onnx, input_0.pb, …, output_0.pb, … and OUT/cases.json:
names, tolerances, ops, and what each file has (tensor, sequence, optional). cases.json is written
last, so that a folder that has it is whole.

The second command runs ONNX Runtime on that folder, with the same tolerances, and writes
OUT/onnxruntime.json: "" for each case that it passes, and the reason for each other one. NumPy has
no bfloat16, float8 and 4-bit elements. Those go to ONNX Runtime as OrtValues, and its results are
read from memory.
"""

import ctypes
import json
import os
import sys
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
from onnx import OptionalProto, SequenceProto, TensorProto, numpy_helper

warnings.filterwarnings("ignore")

# The comparison of onnx.backend.test.runner: two steps of bfloat16.
BFLOAT16_RTOL = 2.0**-6


def encode(value, info):
    """The kind and the message of an input or output."""
    kind = info.type.WhichOneof("value")
    if kind == "optional_type":
        inner = info.type.optional_type.elem_type.WhichOneof("value")
        message = OptionalProto(name=info.name)
        if value is not None and inner == "sequence_type":
            message.elem_type = OptionalProto.SEQUENCE
            message.sequence_value.CopyFrom(encode_sequence(value, ""))
        elif value is not None:
            message.elem_type = OptionalProto.TENSOR
            message.tensor_value.CopyFrom(encode_tensor(value, ""))
        return "optional", message
    if kind == "sequence_type":
        return "sequence", encode_sequence(value, info.name)
    return "tensor", encode_tensor(value, info.name)


def encode_tensor(value, name):
    if isinstance(value, TensorProto):
        return value
    # Some cases have NumPy's scalars and lists of text.
    return numpy_helper.from_array(np.asarray(value), name)


def encode_sequence(value, name):
    message = SequenceProto(name=name, elem_type=SequenceProto.TENSOR)
    message.tensor_values.extend(encode_tensor(one, "") for one in value)
    return message


def names_of_ops(graph):
    """The ops of a graph and of the graphs in its nodes, with domains other than ai.onnx."""
    for node in graph.node:
        yield (node.domain + "." if node.domain else "") + node.op_type
        for attribute in node.attribute:
            for inner in [attribute.g, *attribute.graphs]:
                yield from names_of_ops(inner)


def write_cases(out):
    from onnx.backend.test.case.node import collect_testcases

    cases = []
    for case in collect_testcases(None):
        folder = out / case.name
        folder.mkdir(parents=True, exist_ok=True)
        graph = case.model.graph
        (folder / "model.onnx").write_bytes(case.model.SerializeToString())
        if len(case.data_sets) != 1:
            raise ValueError(f"{case.name} has {len(case.data_sets)} sets of data")
        entry = {
            "name": case.name,
            "rtol": case.rtol,
            "atol": case.atol,
            "ops": sorted(set(names_of_ops(graph))),
        }
        sides = zip(("input", "output"), case.data_sets[0], (graph.input, graph.output))
        for side, values, infos in sides:
            entry[side + "s"] = []
            for i, (value, info) in enumerate(zip(values, infos, strict=True)):
                kind, message = encode(value, info)
                (folder / f"{side}_{i}.pb").write_bytes(message.SerializeToString())
                entry[side + "s"].append({"name": info.name, "kind": kind})
        cases.append(entry)
    cases.sort(key=lambda entry: entry["name"])
    text = json.dumps({"onnx": onnx.__version__, "cases": cases})
    whole = out / "cases.json.part"
    whole.write_text(text)
    whole.replace(out / "cases.json")
    print(f"{len(cases)} cases of {len({op for c in cases for op in c['ops']})} ops in {out}")


def decode(kind, data):
    if kind == "tensor":
        return numpy_helper.to_array(TensorProto.FromString(data))
    if kind == "sequence":
        return numpy_helper.to_list(SequenceProto.FromString(data))
    message = OptionalProto.FromString(data)
    if message.elem_type == OptionalProto.UNDEFINED:
        return None
    return numpy_helper.to_optional(message)


def different(found, wanted, rtol, atol):
    """How a result differs from the wanted one; None if it does not."""
    if wanted is None or found is None:
        return None if found is wanted else "one of the two is absent"
    if isinstance(wanted, list):
        if not isinstance(found, list) or len(found) != len(wanted):
            return "another length of a sequence"
        differences = (different(x, y, rtol, atol) for x, y in zip(found, wanted))
        return next((each for each in differences if each), None)
    found, wanted = np.asarray(found), np.asarray(wanted)
    if found.shape != wanted.shape:
        return f"shape {found.shape}, not {wanted.shape}"
    if wanted.dtype.kind in "OUST":
        texts = [[x.decode() if isinstance(x, bytes) else str(x) for x in y.ravel()] for y in (found, wanted)]
        return None if texts[0] == texts[1] else "another text"
    if found.dtype != wanted.dtype:
        return f"dtype {found.dtype}, not {wanted.dtype}"
    if wanted.dtype.name == "bfloat16":
        rtol = max(rtol, BFLOAT16_RTOL)
    if not is_plain(wanted):
        found, wanted = found.astype(np.float32), wanted.astype(np.float32)
    try:
        np.testing.assert_allclose(found, wanted, rtol=rtol, atol=atol)
    except AssertionError as error:
        return " ".join(str(error).split())[:200]
    return None


def is_plain(value):
    """Whether NumPy itself has the elements."""
    return value.dtype.isbuiltin == 1 or value.dtype.kind in "OUST"


def run_case(runtime, options, folder, case):
    """Why ONNX Runtime fails a case; "" if it passes."""
    path = folder / case["name"]

    def read(side):
        files = (path / f"{side}_{i}.pb" for i in range(len(case[side + "s"])))
        return [decode(each["kind"], file.read_bytes()) for each, file in zip(case[side + "s"], files)]

    wanted, values = read("output"), read("input")
    try:
        session = runtime.InferenceSession(path / "model.onnx", options, ["CPUExecutionProvider"])
        every = values + wanted
        if all(not isinstance(x, np.ndarray) or is_plain(x) for x in every):
            feeds = {each["name"]: value for each, value in zip(case["inputs"], values)}
            found = session.run(None, feeds)
        else:
            found = run_values(runtime, session, path, case, values)
    except Exception as error:  # noqa: BLE001: the reason is what is wanted
        return "error: " + " ".join(str(error).split())[:300]
    for each, x, y in zip(case["outputs"], found, wanted, strict=True):
        why = different(x, y, case["rtol"], case["atol"])
        if why:
            return f"{each['name']}: {why}"
    return ""


def bits_of(dtype):
    """The bits of an element in memory: NumPy spends a byte on elements of 2 and 4 bits."""
    name = dtype.name
    if "int" in name and name[-1] in "24":
        return int(name[-1])
    return 4 if name.startswith("float4") else 8 * dtype.itemsize


def pack(value):
    """An array of the same shape, whose memory begins with the elements as ONNX Runtime has them."""
    bits = bits_of(value.dtype)
    if bits >= 8:
        return np.array(value, order="C").view(np.uint8 if bits == 8 else np.uint16)
    flat = value.astype(value.dtype, copy=True).view(np.uint8).ravel() & (2**bits - 1)
    per = 8 // bits
    flat = np.concatenate([flat, np.zeros(-flat.size % per, np.uint8)]).reshape(-1, per)
    bytes_ = (flat << (bits * np.arange(per, dtype=np.uint8))).sum(1, dtype=np.uint8)
    made = np.zeros(value.size, np.uint8)
    made[: bytes_.size] = bytes_
    return made.reshape(value.shape)


def unpack(data, dtype, shape):
    """The elements of ONNX Runtime's memory."""
    bits, count = bits_of(dtype), int(np.prod(shape))
    if bits >= 8:
        return np.frombuffer(data, dtype).reshape(shape)
    per = 8 // bits
    flat = np.frombuffer(data, np.uint8)[:, None] >> (bits * np.arange(per, dtype=np.uint8))
    flat = (flat & (2**bits - 1)).astype(np.uint8).ravel()[:count]
    if dtype.name.startswith("int"):
        flat = ((flat.astype(np.int8) ^ 2 ** (bits - 1)) - 2 ** (bits - 1)).astype(np.int8)
        return flat.astype(dtype).reshape(shape)
    return (flat.view(dtype) if dtype.name.startswith("float") else flat.astype(dtype)).reshape(shape)


def run_values(runtime, session, path, case, values):
    """Runs on OrtValues, for elements that NumPy lacks."""
    feeds = {}
    for i, (each, value) in enumerate(zip(case["inputs"], values)):
        if each["kind"] != "tensor":
            raise ValueError(f"{each['name']} of elements that NumPy lacks is no tensor")
        dtype = TensorProto.FromString((path / f"input_{i}.pb").read_bytes()).data_type
        if is_plain(value):
            feeds[each["name"]] = runtime.OrtValue.ortvalue_from_numpy(value)
        else:
            make = runtime.OrtValue.ortvalue_from_numpy_with_onnx_type
            feeds[each["name"]] = make(pack(value), dtype)
    found = []
    for i, each in enumerate(session.run_with_ort_values(None, feeds)):
        proto = TensorProto.FromString((path / f"output_{i}.pb").read_bytes())
        dtype = onnx.helper.tensor_dtype_to_np_dtype(proto.data_type)
        if each.element_type() != proto.data_type:
            raise ValueError(f"element type {each.element_type()}, not {proto.data_type}")
        shape = tuple(each.shape())
        count = -(-int(np.prod(shape)) * bits_of(dtype) // 8)
        found.append(unpack(ctypes.string_at(each.data_ptr(), count), dtype, shape))
    return found


def run_runtime(folder):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    cases = json.loads((folder / "cases.json").read_text())["cases"]
    results = {case["name"]: run_case(onnxruntime, options, folder, case) for case in cases}
    report = {"onnxruntime": onnxruntime.__version__, "results": results}
    (folder / "onnxruntime.json").write_text(json.dumps(report, indent=1))
    reasons = Counter(why.split(":")[0] if why.startswith("error") else why and "differs" for why in results.values())
    print(f"{reasons.pop('', 0)} of {len(cases)} pass", dict(reasons))


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--runtime"]):
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    os.makedirs(folder, exist_ok=True)
    if sys.argv[2:]:
        run_runtime(folder)
    else:
        write_cases(folder)
