"""Writes tests/golden/onnx: what ONNX's operators give for many attributes, by ONNX Runtime and ONNX.

    python3 -m venv .venv && .venv/bin/pip install numpy onnx==1.23.2 onnxruntime==1.32.0
    .venv/bin/python scripts/golden/onnx_ops.py

ONNX's reference evaluates Resize, NumPy the products of few bits, and ONNX Runtime all others: the reference
knows neither clips nor all activations of recurrent layers. A file for each operator has a list of cases: attributes, inputs and
outputs. Arrays are little-endian bytes in base64.
"""

import base64
import json
from pathlib import Path

import numpy as np
import onnxruntime
from onnx import helper
from onnx.reference import ReferenceEvaluator

OUT = Path(__file__).parents[2] / "tests" / "golden" / "onnx"
RNG = np.random.default_rng(7)
# ONNX Runtime has no later version of these.
OPSETS = {"RoiAlign": 16}


def packed(x):
    x = np.asarray(x)
    data = base64.b64encode(np.ascontiguousarray(x).tobytes()).decode()
    return {"shape": list(x.shape), "dtype": str(x.dtype), "data": data}


def model(op, inputs, outputs, attributes, domain=""):
    names = [f"i{k}" if x is not None else "" for k, x in enumerate(inputs)]
    made = [f"o{k}" for k in range(outputs)]
    node = helper.make_node(op, names, made, domain=domain, **attributes)
    given = {n: x for n, x in zip(names, inputs) if n}
    values = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for n, x in given.items()
    ]
    results = [helper.make_empty_tensor_value_info(n) for n in made]
    graph = helper.make_graph([node], "g", values, results)
    opsets = [helper.make_opsetid("", OPSETS.get(op, 22)), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), given


def by_reference(op, inputs, outputs, attributes):
    made, given = model(op, inputs, outputs, attributes)
    return ReferenceEvaluator(made).run(None, given)


def by_runtime(op, inputs, outputs, attributes, domain=""):
    made, given = model(op, inputs, outputs, attributes, domain)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(made.SerializeToString(), options)
    return session.run(None, given)


def write(name, cases):
    OUT.mkdir(exist_ok=True)
    lines = ",\n".join(json.dumps(case) for case in cases)
    (OUT / f"{name}.json").write_text(f"[\n{lines}\n]\n")


def case(op, inputs, outputs, attributes, run=by_runtime, domain=""):
    made = run(op, inputs, outputs, attributes, *([domain] if domain else []))
    return {
        "op": op,
        "attributes": attributes,
        "inputs": [None if x is None else packed(x) for x in inputs],
        "outputs": [packed(x) for x in made],
    }


def normal(*shape, scale=1.0):
    return (RNG.standard_normal(shape) * scale).astype(np.float32)


# ---- recurrent layers ----------------------------------------------------------------------------


def recurrent(op, attributes, steps=5, batch=3, columns=4, size=5, options=()):
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    x = normal(steps, batch, columns)
    inputs = [x, normal(directions, gates * size, columns), normal(directions, gates * size, size)]
    bias = normal(directions, 2 * gates * size) if "bias" in options else None
    lengths = None
    if "lengths" in options:
        lengths = np.array([steps, 1, 3, 2, 4][:batch], np.int32)
    hidden = normal(directions, batch, size) if "states" in options else None
    inputs += [bias, lengths, hidden]
    if op == "LSTM":
        inputs += [normal(directions, batch, size) if "states" in options else None]
        inputs += [normal(directions, 3 * size) if "peepholes" in options else None]
    return case(op, inputs, 3 if op == "LSTM" else 2, {"hidden_size": size, **attributes})


def recurrent_cases():
    everything = ("bias", "lengths", "states", "peepholes")
    for op in ["LSTM", "GRU", "RNN"]:
        more = {"linear_before_reset": 1} if op == "GRU" else {}
        for direction in ["forward", "reverse", "bidirectional"]:
            yield recurrent(op, {"direction": direction})
            yield recurrent(op, {"direction": direction, **more}, options=everything)
            yield recurrent(op, {"direction": direction, "clip": 0.4, **more}, options=everything)
        yield recurrent(op, more, batch=1, size=19, options=("bias", "states"))
        yield recurrent(op, {**more, "direction": "bidirectional"}, batch=14, size=17, options=("bias",))
        yield recurrent(op, {}, batch=5, size=33, steps=2, options=("bias", "peepholes"))
    yield recurrent("LSTM", {"input_forget": 1}, options=everything)
    yield recurrent(
        "LSTM",
        {
            "direction": "bidirectional",
            "activations": ["HardSigmoid", "Affine", "Softsign", "Sigmoid", "ScaledTanh", "LeakyRelu"],
            "activation_alpha": [0.3, 0.7, 1.3, 0.2],
            "activation_beta": [0.4, 0.1, 0.6],
        },
        options=everything,
    )
    yield recurrent("GRU", {"activations": ["HardSigmoid", "Softplus"]}, options=everything)
    yield recurrent(
        "GRU",
        {"activations": ["Relu", "Tanh"], "linear_before_reset": 1, "clip": 3.0},
        options=everything,
    )
    for name in ["Relu", "Elu", "ThresholdedRelu", "LeakyRelu"]:
        yield recurrent("RNN", {"activations": [name], "activation_alpha": [0.6]}, options=everything)


# ---- Resize --------------------------------------------------------------------------------------


def resize(shape, attributes, scales=None, sizes=None, roi=None):
    x = normal(*shape)
    inputs = [
        x,
        None if roi is None else np.array(roi, np.float32),
        None if scales is None else np.array(scales, np.float32),
    ]
    if sizes is not None:
        inputs.append(np.array(sizes, np.int64))
    return case("Resize", inputs, 1, attributes, by_reference)


def resize_cases():
    modes = ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"]
    for mode in ["linear", "cubic"]:
        for coordinates in modes:
            own = {"mode": mode, "coordinate_transformation_mode": coordinates}
            yield resize((1, 2, 5, 4), own, sizes=(1, 2, 8, 3))
            yield resize((1, 1, 4, 6), own, scales=(1, 1, 0.8, 1.7))
            yield resize((1, 1, 4, 6), own, scales=(1, 1, 2, 2))
    for coordinates in ["half_pixel", "asymmetric"]:
        for nearest in ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]:
            own = {"coordinate_transformation_mode": coordinates, "nearest_mode": nearest}
            yield resize((1, 2, 5, 4), own, sizes=(1, 2, 8, 3))
            yield resize((1, 1, 4, 6), own, scales=(1, 1, 2, 2))
    for mode in ["nearest", "linear", "cubic"]:
        own = {
            "mode": mode,
            "coordinate_transformation_mode": "tf_crop_and_resize",
            "extrapolation_value": 10.0,
        }
        yield resize((1, 1, 5, 4), own, sizes=(1, 1, 3, 6), roi=(0, 0, 0.2, 0.3, 1, 1, 0.7, 1.4))
        yield resize((1, 1, 5, 4), own, sizes=(1, 1, 1, 1), roi=(0, 0, 0.2, 0.3, 1, 1, 0.7, 0.8))
    for mode in ["linear", "cubic"]:
        for sizes in [(1, 1, 3, 4), (1, 1, 5, 13)]:
            own = {"mode": mode, "antialias": 1}
            yield resize((1, 1, 7, 10), own, sizes=sizes)
            yield resize((1, 1, 7, 10), {**own, "exclude_outside": 1}, sizes=sizes)
    yield resize((1, 1, 4, 4), {"mode": "cubic", "exclude_outside": 1}, sizes=(1, 1, 7, 9))
    yield resize((1, 1, 4, 4), {"mode": "cubic", "cubic_coeff_a": -0.5}, sizes=(1, 1, 7, 3))
    yield resize((2, 3, 4), {"mode": "linear", "axes": [2, 0]}, sizes=(6, 3))


# ---- samples and windows -------------------------------------------------------------------------


def grid_cases():
    for mode in ["nearest", "linear", "cubic"]:
        for padding in ["zeros", "border", "reflection"]:
            for align in [0, 1]:
                own = {"mode": mode, "padding_mode": padding, "align_corners": align}
                x, grid = normal(2, 3, 5, 4), normal(2, 6, 7, 2, scale=0.9)
                yield case("GridSample", [x, grid], 1, own)
                if mode == "cubic":
                    continue
                x, grid = normal(1, 2, 3, 4, 5), normal(1, 2, 3, 4, 3, scale=0.9)
                yield case("GridSample", [x, grid], 1, own)


def pool_cases():
    windows = [
        ((2, 3, 9), {"kernel_shape": [3]}),
        ((2, 3, 9), {"kernel_shape": [3], "strides": [2], "pads": [1, 1], "ceil_mode": 1}),
        ((1, 2, 7, 8), {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 1]}),
        ((1, 2, 7, 8), {"kernel_shape": [2, 3], "dilations": [3, 2], "strides": [1, 2], "ceil_mode": 1}),
        ((1, 2, 4, 5, 6), {"kernel_shape": [2, 3, 2], "strides": [1, 2, 2], "pads": [1, 1, 0, 0, 1, 1]}),
    ]
    for shape, own in windows:
        for order in [0, 1]:
            yield case("MaxPool", [normal(*shape)], 2, {**own, "storage_order": order})


# ---- regions and boxes ---------------------------------------------------------------------------


def corners(*shape, most):
    """Boxes of two corners, the first one less than the second."""
    first = RNG.uniform(-1, most, (*shape, 2))
    return np.concatenate([first, first + RNG.uniform(0.2, most, (*shape, 2))], -1).astype(np.float32)


def region_cases():
    for mode in ["avg", "max"]:
        for half in ["half_pixel", "output_half_pixel"]:
            for ratio in [0, 2, 3]:
                own = {
                    "mode": mode,
                    "coordinate_transformation_mode": half,
                    "sampling_ratio": ratio,
                    "output_height": 3,
                    "output_width": 2,
                    "spatial_scale": 0.7,
                }
                x, boxes = normal(2, 3, 6, 7), corners(5, most=9)
                yield case("RoiAlign", [x, boxes, np.array([0, 1, 1, 0, 1])], 1, own)


def box_cases():
    for centers in [0, 1]:
        for most, overlap, least in [(3, 0.5, 0.1), (40, 0.3, -9.0), (40, 0.0, 0.0), (0, 0.5, 0.0)]:
            boxes, scores = corners(2, 30, most=4), normal(2, 3, 30)
            scores[..., 7] = scores[..., 3]
            inputs = [boxes, scores, np.array([most]), np.array([overlap], np.float32)]
            inputs.append(np.array([least], np.float32))
            yield case("NonMaxSuppression", inputs, 1, {"center_point_box": centers})


# ---- products of few bits ------------------------------------------------------------------------


def integers(dtype, *shape):
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max + 1, shape).astype(dtype)


def exact(op, inputs, outputs, attributes):
    """ONNX Runtime's sums of 16 bits overflow on processors without VNNI."""
    a, b, p, q = [None if x is None else x.astype(np.int64) for x in inputs]
    p = 0 if p is None else p.reshape(-1, 1) if p.ndim == 1 and p.size > 1 else p
    return [((a - p) @ (b - (0 if q is None else q))).astype(np.int32)]


def integer_cases():
    for left, right in [("uint8", "int8"), ("uint8", "uint8"), ("int8", "int8"), ("int8", "uint8")]:
        for m, k, n in [(1, 1, 1), (3, 5, 17), (9, 70, 33), (66, 130, 16)]:
            a, b = integers(left, m, k), integers(right, k, n)
            yield case("MatMulInteger", [a, b, None, None], 1, {}, exact)
            zeros = [integers(left, m), integers(right, n)]
            yield case("MatMulInteger", [a, b, *zeros], 1, {}, exact)
        a, b = integers(left, 2, 3, 8), integers(right, 8, 5)
        zeros = [integers(left, 1).reshape(()), integers(right, 1).reshape(())]
        yield case("MatMulInteger", [a, b, *zeros], 1, {}, exact)
        yield case("MatMulInteger", [a, integers(right, 2, 8, 5), *zeros], 1, {}, exact)


def few_bits(op, inputs, outputs, attributes, domain):
    x, b, scales, zeros = inputs[:4]
    n, k, size = (attributes[name] for name in ["N", "K", "block_size"])
    blocks = -(-k // size)
    q = np.stack([b & 15, b >> 4], -1).reshape(n, blocks, size).astype(np.float64)
    if zeros is None:
        zeros = np.full((n, blocks), 8)
    elif zeros.dtype == np.uint8:
        halves = zeros.reshape(n, -(-blocks // 2))
        zeros = np.stack([halves & 15, halves >> 4], -1).reshape(n, -1)[:, :blocks]
    weight = (q - zeros.reshape(n, blocks, 1)) * scales.reshape(n, blocks, 1)
    y = x.astype(np.float64) @ weight.reshape(n, -1)[:, :k].T
    return [(y if len(inputs) < 6 else y + inputs[5]).astype(np.float32)]


def nibble_cases():
    for m, k, n, size in [(1, 32, 1, 16), (2, 64, 19, 32), (3, 100, 16, 64), (13, 300, 35, 128), (70, 256, 20, 256)]:
        blocks = -(-k // size)
        b = integers("uint8", n, blocks, size // 2)
        scales = RNG.uniform(0.01, 0.1, (n, blocks)).astype(np.float32)
        own = {"N": n, "K": k, "block_size": size, "bits": 4}
        x, bias = normal(m, k), normal(n)
        packed_zeros = integers("uint8", n * -(-blocks // 2))
        floats = RNG.uniform(0, 15, (n, blocks)).astype(np.float32)
        domain = "com.microsoft"
        yield case("MatMulNBits", [x, b, scales, None], 1, own, few_bits, domain)
        yield case("MatMulNBits", [x, b, scales.ravel(), packed_zeros], 1, own, few_bits, domain)
        yield case("MatMulNBits", [x, b, scales, floats, None, bias], 1, own, few_bits, domain)


if __name__ == "__main__":
    write("recurrent", recurrent_cases())
    write("resize", resize_cases())
    write("grid_sample", grid_cases())
    write("max_pool", pool_cases())
    write("roi_align", region_cases())
    write("boxes", box_cases())
    write("matmul_integer", integer_cases())
    write("matmul_nbits", nibble_cases())
