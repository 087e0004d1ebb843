"""Writes tests/golden/onnx: small ONNX models of our own, and the results of ONNX Runtime.

    .venv/bin/pip install numpy onnx==1.23.2 onnxruntime==1.32.0
    .venv/bin/python scripts/golden/onnx_cases.py

Models and values are protobuf messages in base64. Ops of ai.onnx are also compared with onnx's own
reference, where that has them. detector.json has a model of the form of YOLOv8, for the example
`detect`: the score of a box is how red, or how blue, the picture is there. Weights of 8 bits are unsigned: ONNX Runtime's sums of u8 · s8 saturate
on processors with AVX2 and without VNNI.
"""

import base64
import json
import math
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

warnings.filterwarnings("ignore")
PATH = Path(__file__).parents[2] / "tests/golden/onnx/cases.json"
RTOL, ATOL = 1e-4, 1e-5

CASES = []
MICROSOFT = "com.microsoft"
rng = np.random.default_rng(7)


def normal(*shape):
    return rng.standard_normal(shape, np.float32)


def array(values, dtype):
    return np.array(values, dtype)


def info(name, dtype, shape=None):
    if isinstance(dtype, onnx.TypeProto):
        return helper.make_value_info(name, dtype)
    return helper.make_tensor_value_info(name, dtype, shape)


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def optional_node(op, inputs, outputs, **attributes):
    """A node whose inputs and outputs may be absent: `_` stands for one that is."""
    names = ([("" if x == "_" else x) for x in side.split()] for side in (inputs, outputs))
    return helper.make_node(op, *names, **attributes)


F32, F16, F64 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE
I32, I64, U8, I8, BOOL, TEXT = (
    TensorProto.INT32,
    TensorProto.INT64,
    TensorProto.UINT8,
    TensorProto.INT8,
    TensorProto.BOOL,
    TensorProto.STRING,
)
SEQUENCE = helper.make_sequence_type_proto(helper.make_tensor_type_proto(F32, None))


def case(name, nodes, inputs, outputs, weights=None, opset=21, functions=(), shapes=None, ops=None, **tolerance):
    """
    A model of nodes. `inputs` are arrays or lists of them by name, `outputs` types by name, `weights`
    initializers. `shapes` has the symbolic shapes of inputs whose sizes vary.
    """
    shapes = shapes or {}
    infos = []
    for key, value in inputs.items():
        if isinstance(value, list):
            infos.append(info(key, SEQUENCE))
        else:
            dtype = helper.np_dtype_to_tensor_dtype(value.dtype)
            infos.append(info(key, dtype, shapes.get(key, value.shape)))
    initializers = [
        value if isinstance(value, TensorProto) else numpy_helper.from_array(value, key)
        for key, value in (weights or {}).items()
    ]
    graph = helper.make_graph(nodes, name, infos, [info(k, t) for k, t in outputs.items()], initializers)
    domains = {n.domain for n in nodes} | {n.domain for f in functions for n in f.node}
    opsets = [helper.make_opsetid("", opset)]
    opsets += [helper.make_opsetid(domain, 1) for domain in sorted(domains - {""})]
    model = helper.make_model(graph, opset_imports=opsets, functions=functions, producer_name="rowmajor", ir_version=10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    data = model.SerializeToString()
    session = onnxruntime.InferenceSession(data, options, ["CPUExecutionProvider"])
    found = session.run(None, inputs)
    allowed = {"rtol": RTOL, "atol": ATOL, **tolerance}
    if MICROSOFT not in domains:
        compare(name, model, inputs, found, allowed)
    CASES.append(
        {
            "name": name,
            **allowed,
            "ops": ops or sorted({n.op_type for n in nodes}),
            "model": text(data),
            "inputs": [entry(key, value) for key, value in inputs.items()],
            "outputs": [entry(key, value) for key, value in zip(outputs, found)],
        }
    )


def compare(name, model, inputs, found, allowed):
    """Prints how onnx's reference differs from ONNX Runtime."""
    try:
        wanted = ReferenceEvaluator(model).run(None, inputs)
    except Exception as error:  # noqa: BLE001: the reference lacks some ops
        print(f"{name}: the reference fails: {' '.join(str(error).split())[:100]}")
        return
    for x, y in zip(found, wanted):
        pairs = zip(x, y) if isinstance(x, list) else [(x, y)]
        for a, b in pairs:
            if np.asarray(a).dtype.kind in "OUST":
                same = np.array_equal(a, b)
            else:
                same = np.allclose(a, b, allowed["rtol"], allowed["atol"], equal_nan=True)
            if not same or np.shape(a) != np.shape(b):
                print(f"{name}: the reference has other results")


def text(data):
    return base64.b64encode(data).decode()


def entry(name, value):
    if isinstance(value, list):
        message = onnx.SequenceProto(name=name, elem_type=onnx.SequenceProto.TENSOR)
        message.tensor_values.extend(numpy_helper.from_array(np.asarray(x)) for x in value)
        return {"name": name, "kind": "sequence", "data": text(message.SerializeToString())}
    message = numpy_helper.from_array(np.asarray(value), name)
    return {"name": name, "kind": "tensor", "data": text(message.SerializeToString())}


def graphs():
    """Graphs of several nodes, functions, and graphs inside nodes."""
    x = normal(2, 3)
    case("shared_weight", [node("MatMul", "x w", "a"), node("MatMul", "a w", "b"), node("Add", "b x", "y")], {"x": x}, {"y": F32}, {"w": normal(3, 3)})
    lists = {
        "f": helper.make_tensor("f", F32, [3], [1.5, -2.25, 3e-8]),
        "h": helper.make_tensor("h", F16, [3], np.array([0.5, -1, 65504], np.float16).view(np.uint16).tolist()),
        "d": helper.make_tensor("d", F64, [3], [0.1, 1e300, -0.0]),
        "l": helper.make_tensor("l", I64, [3], [-(2**63), 2**63 - 1, 2**53 + 1]),
        "b": helper.make_tensor("b", BOOL, [3], [1, 0, 1]),
        "q": helper.make_tensor("q", I8, [3], [-128, 127, -1]),
        "u": helper.make_tensor("u", TensorProto.UINT64, [3], [2**64 - 1, 0, 7]),
    }
    nodes = [node("Identity", key, f"y{key}") for key in lists] + [node("Identity", "x", "y")]
    types = {f"y{key}": value.data_type for key, value in lists.items()}
    case("listed_weights", nodes, {"x": x}, {**types, "y": F32}, lists)

    scaled = helper.make_function(
        "local",
        "Scaled",
        ["a", "b"],
        ["c"],
        [
            helper.make_node("Constant", [], ["k"]),
            node("Mul", "a k", "t"),
            node("Add", "t b", "c"),
        ],
        [helper.make_opsetid("", 21)],
        ["k"],
    )
    scaled.node[0].attribute.append(onnx.AttributeProto(name="value_float", ref_attr_name="k", type=onnx.AttributeProto.FLOAT))
    twice = helper.make_function(
        "local",
        "Twice",
        ["t"],
        ["c"],
        [node("Scaled", "t t", "u", domain="local", k=2.0), node("Scaled", "u t", "c", domain="local", k=-0.5)],
        [helper.make_opsetid("", 21), helper.make_opsetid("local", 1)],
    )
    case("function_with_attribute", [node("Scaled", "x x", "t", domain="local", k=3.0), node("Scaled", "t x", "y", domain="local", k=0.25)], {"x": x}, {"y": F32}, functions=[scaled])
    case("function_in_function", [node("Twice", "x", "t", domain="local"), node("Twice", "t", "y", domain="local")], {"x": x}, {"y": F32}, functions=[scaled, twice])

    def branch(name, op):
        return helper.make_graph([node(op, "x", f"{name}_y")], name, [], [info(f"{name}_y", F32)])

    case("if_of_weight", [node("If", "c", "y", then_branch=branch("then", "Exp"), else_branch=branch("else", "Neg"))], {"x": x}, {"y": F32}, {"c": array(False, bool)})
    for flag in (1.0, -1.0):
        nodes = [
            node("ReduceSum", "x", "s", keepdims=0),
            node("Mul", "s k", "p"),
            node("Greater", "p z", "c"),
            node("If", "c", "y", then_branch=branch("then", "Exp"), else_branch=branch("else", "Neg")),
        ]
        case(f"if_of_sum_{'then' if flag > 0 else 'else'}", nodes, {"x": np.abs(x)}, {"y": F32}, {"k": array(flag, np.float32), "z": array(0, np.float32)})

    body = helper.make_graph(
        [node("Add", "a x", "a2"), node("Cast", "i", "f", to=F32), node("Mul", "a2 f", "o"), node("Identity", "c", "c2")],
        "body",
        [info("i", I64, []), info("c", BOOL, []), info("a", F32, [2, 3])],
        [info("c2", BOOL, []), info("a2", F32, [2, 3]), info("o", F32, [2, 3])],
    )
    case("loop_with_count", [optional_node("Loop", "n _ x", "y all", body=body)], {"x": x}, {"y": F32, "all": F32}, {"n": array(4, np.int64)})
    body = helper.make_graph(
        [node("Mul", "a two", "a2"), node("ReduceMax", "a2", "m", keepdims=0), node("Less", "m limit", "c2")],
        "body",
        [info("i", I64, []), info("c", BOOL, []), info("a", F32, [2, 3])],
        [info("c2", BOOL, []), info("a2", F32, [2, 3])],
    )
    constants = {"two": array(2, np.float32), "limit": array(100, np.float32), "n": array(50, np.int64), "t": array(True, bool)}
    case("loop_with_condition", [node("Loop", "n t x", "y", body=body)], {"x": np.abs(x) + 1}, {"y": F32}, constants)
    inner = helper.make_graph([node("Add", "a x", "then_y")], "then", [], [info("then_y", F32)])
    other = helper.make_graph([node("Sub", "a w", "else_y")], "else", [], [info("else_y", F32)])
    body = helper.make_graph(
        [
            node("Mod", "i two", "r"),
            node("Equal", "r zero", "even"),
            node("If", "even", "a2", then_branch=inner, else_branch=other),
            node("Identity", "c", "c2"),
        ],
        "body",
        [info("i", I64, []), info("c", BOOL, []), info("a", F32, [2, 3])],
        [info("c2", BOOL, []), info("a2", F32, [2, 3])],
    )
    constants = {"two": array(2, np.int64), "zero": array(0, np.int64), "w": normal(2, 3), "n": array(5, np.int64)}
    case("if_in_loop", [optional_node("Loop", "n _ x", "y", body=body)], {"x": x}, {"y": F32}, constants)
    body = helper.make_graph(
        [node("Add", "s e", "s2"), node("Mul", "s2 e", "o")],
        "body",
        [info("s", F32, [3]), info("e", F32, [3])],
        [info("s2", F32, [3]), info("o", F32, [3])],
    )
    case("scan_reverse", [node("Scan", "s x", "y all", body=body, num_scan_inputs=1, scan_input_directions=[1], scan_output_directions=[1])], {"s": normal(3), "x": normal(5, 3)}, {"y": F32, "all": F32})


def lists():
    """Sequences, absent values and texts."""
    x, y = normal(2, 3), normal(1, 3)
    one, last = array(1, np.int64), array(-1, np.int64)
    nodes = [
        node("SequenceConstruct", "x y", "s"),
        node("SequenceInsert", "s z one", "t"),
        node("SequenceAt", "t last", "a"),
        node("SequenceLength", "t", "n"),
        node("ConcatFromSequence", "t", "c", axis=0),
    ]
    case("sequence_of_inputs", nodes, {"x": x, "y": y, "z": normal(4, 3)}, {"a": F32, "n": I64, "c": F32, "t": SEQUENCE}, {"one": one, "last": last})
    case("sequence_input", [node("SequenceErase", "s one", "t"), node("SequenceAt", "s one", "y")], {"s": [x, y, normal(2, 2)]}, {"t": SEQUENCE, "y": F32}, {"one": one})
    case("split_to_sequence", [node("SplitToSequence", "x parts", "s", axis=1)], {"x": normal(2, 7)}, {"s": SEQUENCE}, {"parts": array([3, 1, 3], np.int64)})
    texts = array([["bread", ""], ["Ä", "日本"]], object)
    nodes = [node("StringConcat", "x w", "y"), node("Gather", "y i", "z", axis=1), node("Equal", "x w", "e")]
    case("texts", nodes, {"x": texts}, {"y": TEXT, "z": TEXT, "e": BOOL}, {"w": array(["", "日本"], object), "i": array([1], np.int64)}, opset=20)
    case("texts_split", [node("StringSplit", "x", "y n", delimiter=" ", maxsplit=1)], {"x": array(["a b c", "d"], object)}, {"y": TEXT, "n": I64}, opset=20)


def opsets():
    """Old versions of ops."""
    x = normal(2, 3, 4, 4)
    case("upsample_7", [node("Upsample", "x", "y", mode="nearest", scales=[1.0, 1.0, 2.0, 3.0])], {"x": x}, {"y": F32}, opset=7)
    case("slice_9", [node("Slice", "x", "y", axes=[1, 3], starts=[-2, 1], ends=[2**31, -1])], {"x": x}, {"y": F32}, opset=9)
    case("clip_10", [node("Clip", "x", "t", min=-0.5, max=0.25), node("ReduceSum", "t", "y", axes=[1, -1], keepdims=0)], {"x": x}, {"y": F32}, opset=10)
    case("softmax_12", [node("Softmax", "x", "y", axis=2), node("LogSoftmax", "x", "z", axis=1), node("Hardmax", "x", "h", axis=1)], {"x": x}, {"y": F32, "z": F32, "h": F32}, opset=12)
    case("unsqueeze_11", [node("Unsqueeze", "x", "t", axes=[0, -1]), node("Squeeze", "t", "y", axes=[0])], {"x": x}, {"y": F32}, opset=11)
    norm = {"s": np.abs(normal(3)) + 0.5, "b": normal(3), "m": normal(3), "v": np.abs(normal(3)) + 0.5}
    case("batch_norm_7", [node("BatchNormalization", "x s b m v", "t", epsilon=1e-3), node("Dropout", "t", "y", ratio=0.3)], {"x": x}, {"y": F32}, norm, opset=7)
    case("pad_2", [node("Pad", "x", "y", mode="reflect", pads=[0, 0, 1, 2, 0, 0, 2, 1])], {"x": x}, {"y": F32}, opset=7)
    case("gemm_7", [node("Gemm", "a b c", "y", alpha=0.5, beta=2.0, transA=1, transB=1)], {"a": normal(4, 3)}, {"y": F32}, {"b": normal(5, 4), "c": normal(5)}, opset=7)


def shapes():
    """Sizes that vary, and results whose shapes depend on elements."""
    x = normal(2, 6)
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s zero", "n"),
        node("Concat", "n tail", "to", axis=0),
        node("Reshape", "x to", "t"),
        node("Shape", "t", "y_shape", start=1),
        node("ReduceProd", "y_shape", "count", keepdims=0),
        node("Cast", "count", "f", to=F32),
        node("Div", "t f", "y"),
    ]
    case("reshape_by_shape", nodes, {"x": x}, {"y": F32, "count": I64}, {"zero": array([0], np.int64), "tail": array([-1, 3], np.int64)}, shapes={"x": ["batch", "length"]})
    nodes = [
        node("Shape", "x", "s"),
        node("ConstantOfShape", "s", "o", value=numpy_helper.from_array(array([1], np.int64))),
        node("CumSum", "o one", "c", exclusive=1),
        node("Unsqueeze", "length zero", "l"),
        node("Range", "first length step", "r"),
        node("Cast", "c", "f", to=F32),
        node("Add", "f x", "y"),
    ]
    constants = {"one": array(1, np.int64), "zero": array([0], np.int64), "first": array(0, np.int64), "step": array(2, np.int64)}
    case("range_by_input", nodes, {"x": x, "length": array(7, np.int64)}, {"y": F32, "r": I64, "l": I64}, constants, shapes={"x": ["batch", "length"]})
    nodes = [node("Relu", "x", "t"), node("NonZero", "t", "i"), node("Transpose", "i", "j"), node("GatherND", "x j", "y")]
    case("non_zero", nodes, {"x": x}, {"j": I64, "y": F32})
    case("integer_division", [node("Div", "a b", "d"), node("Mod", "a b", "m"), node("Mod", "a b", "f", fmod=1)], {"a": array([7, -7, 7, -7], np.int32), "b": array([2, 2, -2, -2], np.int32)}, {"d": I32, "m": I32, "f": I32})


def ops():
    """Ops of ai.onnx with options that are rare in onnx's own tests."""
    case("conv_same_groups", [node("Conv", "x w b", "y", auto_pad="SAME_LOWER", group=2, strides=[2, 1])], {"x": normal(1, 4, 7, 6)}, {"y": F32}, {"w": normal(6, 2, 3, 2), "b": normal(6)})
    case("conv_transpose", [node("ConvTranspose", "x w", "y", strides=[2, 3], pads=[1, 0, 0, 1], output_padding=[1, 1])], {"x": normal(1, 3, 3, 4)}, {"y": F32}, {"w": normal(3, 2, 3, 3)})
    case("max_pool_indices", [node("MaxPool", "x", "y i", kernel_shape=[3, 2], strides=[2, 2], ceil_mode=1, pads=[1, 0, 1, 0])], {"x": normal(1, 2, 6, 7)}, {"y": F32, "i": I64})
    size, length = 3, 4
    cells = {"w": normal(2, 4 * size, 2), "r": normal(2, 4 * size, size), "b": normal(2, 8 * size), "h": normal(2, 2, size), "c": normal(2, 2, size), "p": normal(2, 3 * size)}
    case("lstm", [node("LSTM", "x w r b n h c p", "y yh yc", hidden_size=size, direction="bidirectional", clip=1.5)], {"x": normal(length, 2, 2), "n": array([4, 2], np.int32)}, {"y": F32, "yh": F32, "yc": F32}, cells)
    cells = {"w": normal(1, 3 * size, 2), "r": normal(1, 3 * size, size), "b": normal(1, 6 * size)}
    for before in (0, 1):
        case(f"gru_{before}", [node("GRU", "x w r b", "y yh", hidden_size=size, linear_before_reset=before, direction="reverse")], {"x": normal(length, 2, 2)}, {"y": F32, "yh": F32}, cells)
    sizes = {"n": array([1, 2, 7, 3], np.int64)}
    for mode in ("linear", "cubic"):
        case(f"resize_{mode}", [optional_node("Resize", "x _ _ n", "y", mode=mode, coordinate_transformation_mode="half_pixel", antialias=int(mode == "linear"))], {"x": normal(1, 2, 4, 5)}, {"y": F32}, sizes)
    case("grid_sample", [node("GridSample", "x g", "y", mode="cubic", padding_mode="reflection", align_corners=0)], {"x": normal(1, 2, 4, 5), "g": np.tanh(normal(1, 3, 2, 2)) * 1.4}, {"y": F32})
    u8 = lambda *shape: rng.integers(0, 256, shape, np.uint8)
    scale, zero = array(0.02, np.float32), array(120, np.uint8)
    nodes = [node("QuantizeLinear", "x s z", "q"), node("QLinearConv", "q s z w ws wz os z b", "c"), node("DequantizeLinear", "c os z", "y")]
    constants = {"s": scale, "z": zero, "w": u8(3, 2, 3, 3), "ws": array([0.01, 0.02, 0.03], np.float32), "wz": array([128, 128, 128], np.uint8), "os": array(0.1, np.float32), "b": array([100, -200, 0], np.int32)}
    case("qlinear_conv", nodes, {"x": normal(1, 2, 5, 5)}, {"c": U8, "y": F32}, {**constants, "wz": array(128, np.uint8), "ws": array(0.02, np.float32)}, atol=0.11)
    nodes = [
        node("DynamicQuantizeLinear", "x", "q s z"),
        node("MatMulInteger", "q w z wz", "i"),
        node("Cast", "i", "f", to=F32),
        node("Mul", "s ws", "k"),
        node("Mul", "f k", "y"),
    ]
    case("dynamic_quantized", nodes, {"x": normal(3, 8)}, {"q": U8, "i": I32, "y": F32}, {"w": u8(8, 5), "wz": array(128, np.uint8), "ws": array(0.01, np.float32)})
    case("einsum", [node("Einsum", "a b", "y", equation="bij,bkj->bik")], {"a": normal(2, 3, 4), "b": normal(2, 5, 4)}, {"y": F32})
    case("scatter_nd_add", [node("ScatterND", "x i u", "y", reduction="add")], {"x": normal(4, 3), "u": normal(3, 3)}, {"y": F32}, {"i": array([[1], [3], [1]], np.int64)})
    boxes = np.sort(rng.random((1, 12, 2, 2), np.float32), 2).reshape(1, 12, 4)
    case("non_max_suppression", [node("NonMaxSuppression", "boxes scores most overlap least", "y")], {"boxes": boxes, "scores": rng.random((1, 2, 12), np.float32)}, {"y": I64}, {"most": array([4], np.int64), "overlap": array([0.3], np.float32), "least": array([0.2], np.float32)})
    case("attention_23", [node("Attention", "q k v m", "y", is_causal=1, softcap=2.0)], {"q": normal(1, 4, 3, 8), "k": normal(1, 2, 5, 8), "v": normal(1, 2, 5, 6), "m": normal(3, 5)}, {"y": F32}, opset=23)
    case("layer_norm", [node("LayerNormalization", "x s b", "y", axis=-2, epsilon=1e-3), node("RMSNormalization", "y r", "z")], {"x": normal(2, 3, 4)}, {"y": F32, "z": F32}, {"s": normal(3, 4), "b": normal(3, 4), "r": normal(4)}, opset=23)


def packed4(weight, block, zeros):
    """Weights [N, K] of 4 bits for MatMulNBits, their scales and zero points."""
    n, k = weight.shape
    parts = weight.reshape(n, k // block, block)
    low, high = np.minimum(parts.min(2), 0), np.maximum(parts.max(2), 0)
    if zeros:
        scales = (high - low) / 15
        points = np.round(-low / scales).clip(0, 15).astype(np.uint8)
    else:
        scales = np.abs(parts).max(2) / 7
        points = np.full(scales.shape, 8, np.uint8)
    q = (np.round(parts / scales[..., None]) + points[..., None]).clip(0, 15).astype(np.uint8)
    data = q[..., ::2] | q[..., 1::2] << 4
    if points.shape[1] % 2:
        points = np.concatenate([points, np.zeros((n, 1), np.uint8)], 1)
    return data, scales.astype(np.float32), points[:, ::2] | points[:, 1::2] << 4


def microsoft():
    """Ops of com.microsoft that exporters write."""

    def made(name, op, inputs, outputs, weights, optional=None, **attributes):
        tolerance = {key: attributes.pop(key) for key in ("rtol", "atol") if key in attributes}
        names = optional or " ".join([*inputs, *weights])
        nodes = [optional_node(op, names, " ".join(outputs), domain=MICROSOFT, **attributes)]
        case(name, nodes, inputs, {key: F32 for key in outputs if key != "_"}, weights, **tolerance)

    x = normal(2, 3, 8)
    made("fused_matmul", "FusedMatMul", {"a": normal(2, 4, 3), "b": normal(2, 5, 4)}, ["y"], {}, transA=1, transB=1, alpha=0.5)
    made("bias_gelu", "BiasGelu", {"x": x}, ["y"], {"b": normal(8)})
    made("fast_gelu", "FastGelu", {"x": x}, ["y"], {"b": normal(8)})
    made("quick_gelu", "QuickGelu", {"x": x}, ["y"], {}, alpha=1.7)
    made("skip_layer_norm", "SkipLayerNormalization", {"x": x, "skip": normal(2, 3, 8)}, ["y", "_", "_", "sum"], {"g": normal(8), "b": normal(8), "bias": normal(8)}, epsilon=1e-5)
    made("skip_simplified_layer_norm", "SkipSimplifiedLayerNormalization", {"x": x, "skip": normal(2, 3, 8)}, ["y", "_", "_", "sum"], {"g": normal(8)}, epsilon=1e-5)
    made("multi_head_attention", "MultiHeadAttention", {"q": x, "k": normal(2, 5, 8), "v": normal(2, 5, 8)}, ["y"], {"bias": normal(24)}, num_heads=2)
    mask = array([[1, 1, 1], [1, 1, 0]], np.int32)
    made("attention_microsoft", "Attention", {"x": x, "mask": mask}, ["y"], {"w": normal(8, 24), "b": normal(24)}, optional="x w b mask", num_heads=2)
    cache = lambda *shape: {"cos": np.cos(normal(*shape)), "sin": np.sin(normal(*shape))}
    made("rotary_embedding", "RotaryEmbedding", {"x": x, "p": array([[0, 1, 2], [3, 4, 5]], np.int64)}, ["y"], cache(8, 2), num_heads=2)
    rotary = {"cos": np.cos(normal(8, 8)), "sin": np.sin(normal(8, 8))}
    for past, length in ((0, 3), (4, 1)):
        inputs = {
            "q": normal(1, length, 64),
            "k": normal(1, length, 32),
            "v": normal(1, length, 32),
            "pk": normal(1, 2, past, 16),
            "pv": normal(1, 2, past, 16),
            "last": array([past + length - 1], np.int32),
            "total": array(past + length, np.int32),
        }
        made(f"group_query_attention_{past}", "GroupQueryAttention", inputs, ["y", "present_k", "present_v"], rotary, num_heads=4, kv_num_heads=2, do_rotary=1)
    weight = normal(6, 32)
    for zeros in (False, True):
        data, scales, points = packed4(weight, 16, zeros)
        weights = {"w": data, "s": scales.ravel(), **({"z": points.ravel()} if zeros else {})}
        made(f"matmul_nbits{'_zero_points' if zeros else ''}", "MatMulNBits", {"x": normal(3, 32)}, ["y"], weights, K=32, N=6, bits=4, block_size=16)
    w8 = rng.integers(0, 256, (8, 5), np.uint8)
    made("dynamic_quantize_matmul", "DynamicQuantizeMatMul", {"x": normal(3, 8)}, ["y"], {"w": w8, "s": array(0.01, np.float32), "z": array(128, np.uint8), "b": normal(5)})
    embeddings = {"word": normal(9, 8), "place": normal(6, 8), "kind": normal(2, 8), "g": normal(8), "b": normal(8)}
    ids = {"ids": array([[1, 5, 8], [0, 2, 3]], np.int32), "kinds": array([[0, 1, 1], [0, 0, 1]], np.int32)}
    nodes = [node("EmbedLayerNormalization", "ids kinds word place kind g b", "y m", domain=MICROSOFT, epsilon=1e-5)]
    case("embed_layer_norm", nodes, ids, {"y": F32, "m": I32}, embeddings)
    q8 = rng.integers(0, 256, (8, 24), np.uint8)
    nodes = [
        node("DynamicQuantizeLinear", "x", "q s z"),
        optional_node("QAttention", "q w b s ws _ z wz", "y", domain=MICROSOFT, num_heads=2),
    ]
    case("quantized_attention", nodes, {"x": x}, {"y": F32}, {"w": q8, "b": normal(24), "ws": array(0.01, np.float32), "wz": array(128, np.uint8)}, ops=["QAttention"])
    size = 4
    cells = {"w": rng.integers(0, 256, (1, 3, 4 * size), np.uint8), "r": rng.integers(0, 256, (1, size, 4 * size), np.uint8), "b": normal(1, 8 * size), "ws": array([0.01], np.float32), "wz": array([128], np.uint8), "rs": array([0.01], np.float32), "rz": array([128], np.uint8)}
    nodes = [optional_node("DynamicQuantizeLSTM", "x w r b _ _ _ _ ws wz rs rz", "y yh yc", domain=MICROSOFT, hidden_size=size)]
    # ONNX Runtime rounds the inputs and states of each step to 8 bits.
    case("dynamic_quantize_lstm", nodes, {"x": normal(4, 2, 3)}, {"y": F32, "yh": F32, "yc": F32}, cells, atol=2e-2)
    data, scales, points = packed4(normal(6, 32), 16, True)
    nodes = [node("GatherBlockQuantized", "w i s z", "y", domain=MICROSOFT, gather_axis=0, quantize_axis=1, block_size=16, bits=4)]
    case("gather_block_quantized", nodes, {"i": array([[4, 0], [5, 5]], np.int64)}, {"y": F32}, {"w": data.reshape(6, 16), "s": scales, "z": points})
    # Sequences of 5 and 2 keys, and one token more of each.
    inputs = {
        "q": normal(2, 1, 64),
        "k": normal(2, 1, 32),
        "v": normal(2, 1, 32),
        "pk": normal(2, 2, 5, 16),
        "pv": normal(2, 2, 5, 16),
        "last": array([5, 2], np.int32),
        "total": array(6, np.int32),
    }
    made("group_query_attention_batch", "GroupQueryAttention", inputs, ["y", "present_k", "present_v"], rotary, num_heads=4, kv_num_heads=2, do_rotary=1)
    for kind, name in enumerate(("fp4", "nf4")):
        # Numbers of a table in 4 bits, and a scale for each 16 of them.
        weights = {"w": rng.integers(0, 256, 6 * 32 // 2, np.uint8), "s": np.abs(normal(12)) + array(0.1, np.float32)}
        made(f"matmul_bnb4_{name}", "MatMulBnb4", {"x": normal(3, 32)}, ["y"], weights, K=32, N=6, block_size=16, quant_type=kind)


def integers(dtype, *shape):
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max + 1, shape, dtype)


def fused():
    """Ops of com.microsoft that ONNX Runtime makes of several, with the attributes that it gives them."""
    u8, i8 = np.uint8, np.int8
    scale = lambda *shape: rng.uniform(0.002, 0.05, shape).astype(np.float32)

    def made(name, op, names, inputs, weights, outputs, **attributes):
        tolerance = {key: attributes.pop(key) for key in ("rtol", "atol") if key in attributes}
        nodes = [optional_node(op, names, " ".join(outputs), domain=MICROSOFT, **attributes)]
        case(name, nodes, inputs, outputs, weights, **tolerance)

    image, kernel = normal(2, 4, 5, 5), {"w": normal(6, 2, 3, 3), "b": normal(6)}
    params = {"Relu": [], "LeakyRelu": [0.2], "Clip": [-0.3, 0.6], "HardSigmoid": [0.25, 0.4]}
    for activation, numbers in params.items():
        more = {"activation_params": numbers} if numbers else {}
        residual = {"z": normal(2, 6, 5, 5)} if activation == "Relu" else {}
        made(f"fused_conv_{activation.lower()}", "FusedConv", "x w b z" if residual else "x w b", {"x": image, **residual}, kernel, {"y": F32}, activation=activation, group=2, kernel_shape=[3, 3], pads=[1, 1, 1, 1], **more)
    made("fused_gemm", "FusedGemm", "a w c", {"a": normal(5, 3)}, {"w": normal(4, 5), "c": normal(4)}, {"y": F32}, activation="LeakyRelu", activation_alpha=0.3, transA=1, transB=1, alpha=0.5, beta=2.0)
    weights = {"xs": scale(), "xz": integers(i8), "ys": scale(), "yz": integers(i8), "zs": scale(), "zz": integers(i8)}
    inputs = {"c": array([[True], [False]], bool), "x": integers(i8, 2, 5), "y": integers(i8, 5)}
    made("qlinear_where", "QLinearWhere", "c x xs xz y ys yz zs zz", inputs, weights, {"z": I8})
    weights = {"xs": scale(), "xz": integers(u8), "w": integers(i8, 6, 2, 3, 3), "ws": scale(6), "wz": np.zeros(6, i8), "ys": array(1, np.float32), "yz": integers(u8), "b": rng.integers(-3000, 3000, 6).astype(np.int32)}
    made("qlinear_conv_channels_last", "QLinearConv", "x xs xz w ws wz ys yz b", {"x": integers(u8, 2, 5, 6, 4)}, weights, {"y": U8}, channels_last=1, group=2, strides=[1, 2], pads=[1, 0, 1, 0])
    made("nhwc_max_pool", "NhwcMaxPool", "x", {"x": integers(u8, 2, 5, 6, 3)}, {}, {"y": U8}, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 0, 1])
    scales = {"xs": scale(), "xz": integers(u8), "ys": scale(), "yz": integers(u8)}
    for last in (0, 1):
        # Windows reach beyond the padding, and count whole.
        made(f"qlinear_average_pool_beyond_{last}", "QLinearAveragePool", "x xs xz ys yz", {"x": integers(u8, 1, 4, 5, 4)}, scales, {"y": U8}, channels_last=last, kernel_shape=[2, 3], strides=[2, 2], pads=[1, 0, 0, 1], ceil_mode=1, count_include_pad=1)
    # A bias for each row, of as many elements as there are columns.
    weights = {"as": scale(), "az": integers(i8), "b": integers(i8, 4, 3), "bs": scale(4), "bz": integers(i8, 4), "c": rng.integers(-3000, 3000, (4, 1)).astype(np.int32), "ys": array(1, np.float32), "yz": integers(i8)}
    made("qgemm_rows_bias", "QGemm", "a as az b bs bz c ys yz", {"a": integers(i8, 4, 3)}, weights, {"y": I8}, transB=1)
    # Each matrix of a stack has scales and zero points of its own.
    stack = {"b": integers(u8, 2, 5, 3), "bs": scale(2, 1, 3), "bz": integers(u8, 2, 1, 3), "bias": normal(3)}
    made("dynamic_quantize_matmul_stack", "DynamicQuantizeMatMul", "a b bs bz bias", {"a": normal(2, 4, 5)}, stack, {"y": F32})
    made("matmul_integer_to_float_stack", "MatMulIntegerToFloat", "a b as bs az bz bias", {"a": integers(u8, 2, 4, 5)}, {**stack, "as": scale(), "az": integers(u8)}, {"y": F32})
    order = np.array([1, 0, 1, 1] * 8, np.int32)
    weights = {"w": integers(u8, 1, 2, 8), "s": scale(2), "g": order}
    made("matmul_nbits_one_column", "MatMulNBits", "x w s _ g", {"x": normal(3, 32)}, weights, {"y": F32}, K=32, N=1, bits=4, block_size=16)
    for bits in (2, 4, 8):
        count, blocks = 40 * bits // 8, (3 * bits + 7) // 8
        weights = {"w": integers(u8, 5, count), "s": scale(5, 3), "z": integers(u8, 5, blocks)}
        made(f"gather_block_quantized_part_{bits}", "GatherBlockQuantized", "w i s z", {"i": array([[4, 0], [1, 1]], np.int64)}, weights, {"y": F32}, gather_axis=0, quantize_axis=1, block_size=16, bits=bits)
    for dtype in ("INT4", "UINT4"):
        for along, axis in ((0, 0), (0, 1), (1, 0), (1, 1)):
            sizes, blocks = ((24, 3), (2, 3)) if along == 0 else ((3, 24), (3, 2))
            table = lambda name, shape: helper.make_tensor(name, getattr(TensorProto, dtype), shape, integers(u8, (math.prod(shape) + 1) // 2).tobytes(), raw=True)
            weights = {"w": table("w", sizes), "s": scale(*blocks), **({"z": table("z", blocks)} if axis == 0 else {})}
            made(f"gather_block_quantized_{dtype.lower()}_{along}_{axis}", "GatherBlockQuantized", "w i s z" if axis == 0 else "w i s", {"i": array([2, -1, 0], np.int32)}, weights, {"y": F32}, gather_axis=axis, quantize_axis=along, block_size=16)
    tables = {"word": integers(u8, 9, 8), "place": integers(u8, 6, 8), "kind": integers(u8, 2, 8), "g": integers(u8, 8), "b": integers(u8, 8)}
    more = {f"{key}_{part}": make() for part, make in (("s", scale), ("z", lambda: integers(u8))) for key in tables}
    ids = {"ids": array([[1, 5, 8], [0, 2, 3]], np.int32), "kinds": array([[0, 1, 1], [0, 0, 1]], np.int32), "mask": array([[1, 1, 0], [1, 1, 1]], np.int32)}
    names = " ".join(["ids kinds", *tables, "mask", *more])
    made("quantized_embed_layer_norm", "QEmbedLayerNormalization", names, ids, {**tables, **more}, {"y": F32, "m": I32}, epsilon=1e-3)
    # The second sequence has no key that counts. A key that does not count has a weight if the number is small.
    for number in (-1e4, -1.0):
        inputs = {"x": normal(2, 3, 8), "mask": array([[1, 1, 0], [0, 0, 0]], np.int32)}
        made(f"attention_masked_{-number:.0f}", "Attention", "x w b mask", inputs, {"w": normal(8, 24), "b": normal(24)}, {"y": F32}, num_heads=2, mask_filter_value=number, atol=5e-3)
        inputs = {"q": normal(2, 3, 8), "k": normal(2, 4, 8), "v": normal(2, 4, 8), "mask": array([3, 0], np.int32)}
        made(f"multi_head_attention_masked_{-number:.0f}", "MultiHeadAttention", "q k v _ mask", inputs, {}, {"y": F32}, num_heads=2, mask_filter_value=number, atol=5e-3)
        weights = {"w": integers(u8, 8, 24), "b": normal(24), "xs": scale(), "ws": scale(24), "xz": integers(u8), "wz": integers(u8, 24)}
        inputs = {"x": integers(u8, 2, 3, 8), "mask": array([2, 0], np.int32)}
        made(f"quantized_attention_masked_{-number:.0f}", "QAttention", "x w b xs ws mask xz wz", inputs, weights, {"y": F32}, num_heads=2, unidirectional=1, mask_filter_value=number, atol=5e-2)


# Boxes in a square of 32: their centers and sizes. The first two are of one thing.
BOXES = [(8, 16, 16, 16), (9, 16, 16, 16), (24, 16, 16, 16), (16, 4, 32, 8)]


def detector():
    """A model with the input and output of YOLOv8: images [1, 3, 32, 32] to [1, 4 + 2, boxes]."""
    masks = np.zeros((32, 32, len(BOXES)), np.uint8)
    for k, (x, y, w, h) in enumerate(BOXES):
        masks[y - h // 2 : y + h // 2, max(x - w // 2, 0) : x + w // 2, k] = 1
    weights = {
        "rows": array([3, 1024], np.int64),
        "masks": masks.reshape(1024, -1),
        "areas": masks.sum((0, 1)).astype(np.float32),
        "colors": array([0, 2], np.int64),
        "boxes": np.array(BOXES, np.float32).T,
        "first": array([0], np.int64),
    }
    nodes = [
        node("Reshape", "images rows", "x"),
        node("Cast", "masks", "m", to=F32),
        node("MatMul", "x m", "sums"),
        node("Div", "sums areas", "means"),
        node("Gather", "means colors", "scores"),
        node("Concat", "boxes scores", "all", axis=0),
        node("Unsqueeze", "all first", "output0"),
    ]
    initializers = [numpy_helper.from_array(value, key) for key, value in weights.items()]
    graph = helper.make_graph(nodes, "detector", [info("images", F32, [1, 3, 32, 32])], [info("output0", F32)], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="rowmajor", ir_version=8)
    helper.set_model_props(model, {"names": "{0: 'red', 1: \"blue\"}", "imgsz": "[32, 32]"})
    return model.SerializeToString()


def main():
    for group in (graphs, lists, opsets, shapes, ops, microsoft, fused):
        group()
    PATH.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(one) for one in CASES)
    PATH.write_text(f"[\n{lines}\n]\n")
    (PATH.parent / "detector.json").write_text(json.dumps(text(detector())) + "\n")
    print(f"{len(CASES)} cases, {PATH.stat().st_size / 1000:.0f} kB")


main()
