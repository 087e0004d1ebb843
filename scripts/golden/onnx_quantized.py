"""Writes tests/golden/onnx/quantized.json: small quantized ONNX models, and the results of ONNX Runtime.

    .venv/bin/pip install numpy onnx==1.23.2 onnxruntime==1.32.0
    .venv/bin/python scripts/golden/onnx_quantized.py

Models are as exporters write them: as onnxruntime.quantization does with QDQ nodes and with ops of bytes, and as
PyTorch does, with floats as bias, activations before QuantizeLinear, and weights that are transposed. Run it on
a processor with VNNI: ONNX Runtime's sums of u8 · s8 saturate on others. Results may differ by one step of the
output.
"""

import base64
import json
import tempfile
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

warnings.filterwarnings("ignore")
PATH = Path(__file__).parents[2] / "tests/golden/onnx/quantized.json"
MICROSOFT = "com.microsoft"
F32, U8, I8 = TensorProto.FLOAT, TensorProto.UINT8, TensorProto.INT8
CASES = []
rng = np.random.default_rng(11)


def normal(*shape):
    return rng.standard_normal(shape, np.float32)


def text(data):
    return base64.b64encode(data).decode()


def entry(name, value):
    return {"name": name, "kind": "tensor", "data": text(numpy_helper.from_array(value, name).SerializeToString())}


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, ["" if x == "_" else x for x in inputs.split()], outputs.split(), **attributes)


def make(name, nodes, inputs, outputs, weights, opset=17):
    """`inputs` are arrays, `outputs` have types and shapes."""
    infos = [helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for k, v in inputs.items()]
    made = [helper.make_tensor_value_info(k, *v) for k, v in outputs.items()]
    initializers = [numpy_helper.from_array(v, k) for k, v in weights.items()]
    graph = helper.make_graph(nodes, name, infos, made, initializers)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)]
    model = helper.make_model(graph, opset_imports=opsets, producer_name="rowmajor", ir_version=8)
    return model


def case(name, model, inputs, atol):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    data = model.SerializeToString()
    session = onnxruntime.InferenceSession(data, options, ["CPUExecutionProvider"])
    found = session.run(None, inputs)
    names = [one.name for one in model.graph.output]
    CASES.append(
        {
            "name": name,
            "rtol": 0,
            "atol": float(atol),
            "ops": sorted({one.op_type for one in model.graph.node}),
            "model": text(data),
            "inputs": [entry(key, value) for key, value in inputs.items()],
            "outputs": [entry(key, value) for key, value in zip(names, found)],
        }
    )


class Reader(CalibrationDataReader):
    def __init__(self, feeds):
        self.feeds = iter(feeds)

    def get_next(self):
        return next(self.feeds, None)


def quantized(model, x, **options):
    """The model as onnxruntime.quantization makes it."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.onnx"
        onnx.save(model, path)
        feeds = [{"x": x}] + [{"x": normal(*x.shape)} for _ in range(4)]
        quantize_static(path, f"{folder}/quantized.onnx", Reader(feeds), **options)
        return onnx.load(f"{folder}/quantized.onnx")


def step_of(model):
    """The scale of the output, which a QuantizeLinear, a DequantizeLinear or an op of bytes has."""
    constants = {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}
    maker = next(one for one in model.graph.node if model.graph.output[0].name in one.output)
    return 1.01 * float(constants[maker.input[1]])


def network():
    """Convolutions as those of ResNet and MobileNet, pools, and a classifier."""
    weights = {
        "w1": normal(12, 3, 3, 3) * 0.3,
        "b1": normal(12) * 0.1,
        "w2": normal(12, 1, 3, 3) * 0.4,
        "b2": normal(12) * 0.1,
        "w3": normal(12, 12, 1, 1) * 0.4,
        "w4": normal(20, 12, 3, 3) * 0.2,
        "b4": normal(20) * 0.1,
        "low": np.float32(0),
        "high": np.float32(6),
        "w5": normal(7, 20) * 0.3,
        "b5": normal(7) * 0.1,
    }
    nodes = [
        node("Conv", "x w1 b1", "c1", pads=[1] * 4),
        node("Relu", "c1", "r1"),
        node("MaxPool", "r1", "p1", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4),
        node("Conv", "p1 w2 b2", "c2", pads=[1] * 4, group=12),
        node("Clip", "c2 low high", "r2"),
        node("Conv", "r2 w3", "c3"),
        node("Add", "c3 p1", "a3"),
        node("Conv", "a3 w4 b4", "c4", pads=[1] * 4, strides=[2, 2]),
        node("Relu", "c4", "r4"),
        node("GlobalAveragePool", "r4", "g"),
        node("Flatten", "g", "f"),
        node("Gemm", "f w5 b5", "y", transB=1),
    ]
    x = normal(2, 3, 13, 15)
    return make("network", nodes, {"x": x}, {"y": (F32, [2, 7])}, weights), x


def mixer():
    """Products with and without bias, and ops that move elements."""
    weights = {
        "w1": normal(16, 24) * 0.3,
        "b1": normal(24) * 0.1,
        "w2": normal(24, 16) * 0.2,
        "shape": np.array([2, 5, 4, 4], np.int64),
        "back": np.array([2, 5, 16], np.int64),
        "halves": np.array([8, 8], np.int64),
    }
    nodes = [
        node("MatMul", "x w1", "m1"),
        node("Add", "m1 b1", "a1"),
        node("Relu", "a1", "r1"),
        node("MatMul", "r1 w2", "m2"),
        node("Reshape", "m2 shape", "s"),
        node("Transpose", "s", "t", perm=[0, 1, 3, 2]),
        node("Reshape", "t back", "u"),
        node("Split", "u halves", "h1 h2", axis=-1),
        node("Concat", "h2 h1", "j", axis=-1),
        node("Mul", "j x", "k"),
        node("Sigmoid", "k", "y"),
    ]
    x = normal(2, 5, 16)
    return make("mixer", nodes, {"x": x}, {"y": (F32, [2, 5, 16])}, weights), x


def exporters():
    for build in (network, mixer):
        model, x = build()
        kinds = {
            "qdq": {"quant_format": QuantFormat.QDQ, "per_channel": True, "activation_type": QuantType.QUInt8},
            "qdq_signed": {"quant_format": QuantFormat.QDQ, "activation_type": QuantType.QInt8, "extra_options": {"ActivationSymmetric": True}},
            "qdq_unsigned": {"quant_format": QuantFormat.QDQ, "activation_type": QuantType.QUInt8, "weight_type": QuantType.QUInt8},
            "ops": {"quant_format": QuantFormat.QOperator, "activation_type": QuantType.QUInt8},
        }
        for kind, options in kinds.items():
            made = quantized(model, x, **{"weight_type": QuantType.QInt8, **options})
            case(f"{model.graph.name}_{kind}", made, {"x": x}, step_of(made))


def scales(**values):
    """Scales and zero points by name: (scale, zero point)."""
    all = {}
    for name, (scale, zero) in values.items():
        all[f"{name}_s"] = np.array(scale, np.float32)
        all[f"{name}_z"] = np.array(zero)
    return all


def torch_like():
    """Floats as bias, activations before QuantizeLinear, limits inside the range, and weights with an axis."""
    weights = {
        **scales(x=(0.03, np.uint8(120)), y=(0.05, np.int8(-20)), o=(0.04, np.uint8(99))),
        "w1": rng.integers(-127, 128, (10, 4, 3, 3), np.int8),
        "w1_s": (0.002 + rng.random(10) * 0.003).astype(np.float32),
        "w1_z": np.zeros(10, np.int8),
        "b1": normal(10) * 0.2,
        "low": np.float32(-0.4),
        "high": np.float32(1.3),
        "w2": rng.integers(-127, 128, (6, 10), np.int8),
        "w2_s": (0.002 + rng.random(6) * 0.003).astype(np.float32),
        "w2_z": np.zeros(6, np.int8),
        "b2": normal(6) * 0.2,
    }
    nodes = [
        node("QuantizeLinear", "x x_s x_z", "xq"),
        node("DequantizeLinear", "xq x_s x_z", "xf"),
        node("DequantizeLinear", "w1 w1_s w1_z", "w1f", axis=0),
        node("Conv", "xf w1f b1", "c", pads=[1] * 4),
        node("Clip", "c low high", "l"),
        node("QuantizeLinear", "l y_s y_z", "lq"),
        node("DequantizeLinear", "lq y_s y_z", "lf"),
        node("Transpose", "lf", "t", perm=[0, 2, 3, 1]),
        node("QuantizeLinear", "t y_s y_z", "tq"),
        node("DequantizeLinear", "tq y_s y_z", "tf"),
        node("DequantizeLinear", "w2 w2_s w2_z", "w2f", axis=0),
        node("Transpose", "w2f", "w2t", perm=[1, 0]),
        node("MatMul", "tf w2t", "m"),
        node("Add", "b2 m", "a"),
        node("Relu", "a", "r"),
        node("QuantizeLinear", "r o_s o_z", "q"),
    ]
    x = normal(2, 4, 7, 5)
    case("torch", make("torch", nodes, {"x": x}, {"q": (U8, [2, 7, 5, 6])}, weights), {"x": x}, 1)
    # Without QuantizeLinear after it, the sums become floats.
    floats = [*nodes[:-2], node("Identity", "a", "y")]
    case("torch_floats", make("torch", floats, {"x": x}, {"y": (F32, [2, 7, 5, 6])}, weights), {"x": x}, 0.01)


def shapes():
    """Scales that differ around ops that move bytes, a value that several nodes read, and resized pictures."""
    weights = {
        **scales(x=(0.03, np.uint8(120)), a=(0.02, np.uint8(130)), b=(0.05, np.uint8(100)), y=(0.04, np.uint8(128))),
        "sizes": np.array([1, 1, 2, 2], np.float32),
        "starts": np.array([1], np.int64),
        "ends": np.array([5], np.int64),
        "axes": np.array([2], np.int64),
    }
    nodes = [
        node("QuantizeLinear", "x x_s x_z", "xq"),
        node("DequantizeLinear", "xq x_s x_z", "xf"),
        node("Resize", "xf _ sizes", "big", mode="nearest"),
        node("QuantizeLinear", "big x_s x_z", "bq"),
        node("DequantizeLinear", "bq x_s x_z", "bf"),
        node("Slice", "bf starts ends axes", "cut"),
        node("QuantizeLinear", "cut a_s a_z", "aq"),
        node("DequantizeLinear", "aq a_s a_z", "af"),
        node("MaxPool", "cut", "pool", kernel_shape=[1, 1]),
        node("QuantizeLinear", "pool b_s b_z", "pq"),
        node("DequantizeLinear", "pq b_s b_z", "pf"),
        node("Concat", "af pf", "j", axis=1),
        node("QuantizeLinear", "j y_s y_z", "q"),
        node("DequantizeLinear", "q y_s y_z", "y"),
        node("QuantizeLinear", "y y_s y_z", "again"),
    ]
    x = normal(1, 3, 4, 5)
    model = make("shapes", nodes, {"x": x}, {"y": (F32, None), "q": (U8, None), "again": (U8, None)}, weights)
    case("moved_bytes", model, {"x": x}, 1)


def operators():
    """Ops of bytes of com.microsoft that the network and the mixer lack."""
    weights = {**scales(x=(0.03, np.uint8(120)), y=(0.02, np.uint8(110)), s=(1 / 256, np.uint8(0)))}
    bytes_ = rng.integers(0, 256, (2, 6, 5, 5), np.uint8)
    parts = {
        "QLinearLeakyRelu": {"alpha": 0.2},
        "QLinearSigmoid": {},
        "QLinearSoftmax": {"axis": 1, "opset": 13},
        "QLinearAveragePool": {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
        "QLinearGlobalAveragePool": {},
    }
    for op, attributes in parts.items():
        to = "s" if op in ("QLinearSigmoid", "QLinearSoftmax") else "y"
        nodes = [node(op, f"x x_s x_z {to}_s {to}_z", "y", domain=MICROSOFT, **attributes)]
        case(op, make(op, nodes, {"x": bytes_}, {"y": (U8, None)}, weights), {"x": bytes_}, 1)
    w = {**weights, "w": rng.integers(-128, 128, (6, 5), np.int8), **scales(w=(0.01, np.int8(3)))}
    w["c"] = rng.integers(-3000, 3000, 6, np.int32)
    rows = bytes_.reshape(-1, 5)[:9]
    for kind, ends in {"bytes": " y_s y_z", "floats": ""}.items():
        nodes = [node("QGemm", f"x x_s x_z w w_s w_z c{ends}", "y", domain=MICROSOFT, transB=1, alpha=0.5)]
        made = make("gemm", nodes, {"x": rows}, {"y": (F32 if ends == "" else U8, [9, 6])}, w)
        case(f"QGemm_{kind}", made, {"x": rows}, 1 if ends != "" else 1e-4)


def main():
    for group in (exporters, torch_like, shapes, operators):
        group()
    lines = ",\n".join(json.dumps(one) for one in CASES)
    PATH.write_text(f"[\n{lines}\n]\n")
    print(f"{len(CASES)} cases, {PATH.stat().st_size / 1000:.0f} kB")


main()
