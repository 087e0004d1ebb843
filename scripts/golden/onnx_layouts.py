"""Writes models/layouts: vision models with random weights, and float16 copies of real models.

    .venv/bin/pip install numpy onnx==1.23.2 onnxruntime==1.32.0
    .venv/bin/python scripts/golden/onnx_layouts.py

Models are as exporters write them: norms are part of the convolutions, activations are several ops where
they have none. models/layouts/index.json is as that of scripts/golden/onnx_models.py, whose inputs the
copies have; results are those of ONNX Runtime, and of copies those of the float32 files.
tests/onnx/models_test.ts compares with it, and `deno task bench onnx` times it.
"""

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.transformers.float16 import convert_float_to_float16

MODELS = Path(__file__).parents[2] / "models"
OUT = MODELS / "layouts"
F32 = np.float32


class Layout:
    """A model that is built of convolutions; sizes of channels are known, others are the runtime's."""

    def __init__(self, shape, seed=7):
        self.nodes, self.weights, self.rng, self.shape = [], [], np.random.default_rng(seed), shape
        self.channels = {"x": shape[1]}

    def hold(self, array):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def add(self, op, *inputs, channels=None, **attributes):
        name = f"y{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        self.channels[name] = channels or self.channels[inputs[0]]
        return name

    def number(self, value):
        return self.hold(np.array(value, F32))

    def conv(self, x, out, size=1, stride=1, groups=1, gain=1.4):
        """A convolution whose results are about as large as its inputs."""
        inputs = self.channels[x] // groups
        weight = self.rng.standard_normal((out, inputs, size, size)) * gain / (inputs * size * size) ** 0.5
        bias = self.hold((self.rng.standard_normal(out) * 0.1).astype(F32))
        moves = {"kernel_shape": [size] * 2, "strides": [stride] * 2, "pads": [(size - 1) // 2] * 4}
        return self.add("Conv", x, self.hold(weight.astype(F32)), bias, channels=out, group=groups, **moves)

    def silu(self, x):
        return self.add("Mul", x, self.add("Sigmoid", x))

    def relu6(self, x):
        return self.add("Clip", x, self.number(0), self.number(6))

    def classes(self, x, count=1000):
        x = self.add("Flatten", self.add("GlobalAveragePool", x))
        weight = self.rng.standard_normal((count, self.channels[x])) * self.channels[x] ** -0.5
        return self.add("Gemm", x, self.hold(weight.astype(F32)), self.hold(np.zeros(count, F32)), transB=1)

    def model(self, *outputs):
        info = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        graph = helper.make_graph(
            self.nodes, "layout", [info("x", self.shape)], [info(y, None) for y in outputs], self.weights
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8)


def stem(g):
    x = g.add("Relu", g.conv("x", 64, 7, 2))
    return g.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)


def resnet18():
    g = Layout([1, 3, 224, 224])
    x = stem(g)
    for stage, width in enumerate((64, 128, 256, 512)):
        for block in range(2):
            stride = 2 if stage > 0 and block == 0 else 1
            y = g.conv(g.add("Relu", g.conv(x, width, 3, stride)), width, 3, gain=0.5)
            x = g.add("Relu", g.add("Add", y, g.conv(x, width, 1, 2) if stride == 2 else x))
    return g.model(g.classes(x))


def resnet50():
    g = Layout([1, 3, 224, 224])
    x = stem(g)
    for stage, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            y = g.add("Relu", g.conv(x, width))
            y = g.add("Relu", g.conv(y, width, 3, stride))
            y = g.conv(y, 4 * width, gain=0.5)
            x = g.add("Relu", g.add("Add", y, g.conv(x, 4 * width, 1, stride) if block == 0 else x))
    return g.model(g.classes(x))


def yolov5(size=320):
    """YOLOv5s: SiLU as two ops, concatenations of channels, a pyramid up and down."""
    g = Layout([1, 3, size, size])
    block = lambda x, out, size=1, stride=1: g.silu(g.conv(x, out, size, stride))
    join = lambda *parts: g.add("Concat", *parts, axis=1, channels=sum(g.channels[p] for p in parts))

    def csp(x, out, count, adds=True):
        a, b = block(x, out // 2), block(x, out // 2)
        for _ in range(count):
            y = block(block(a, out // 2), out // 2, 3)
            a = g.add("Add", a, y) if adds else y
        return block(join(a, b), out)

    def upper(x):
        scales = g.hold(np.array([1, 1, 2, 2], F32))
        moves = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        return g.add("Resize", x, "", scales, **moves)

    x = block(block("x", 32, 6, 2), 64, 3, 2)
    c3 = csp(block(csp(x, 64, 1), 128, 3, 2), 128, 2)
    c4 = csp(block(c3, 256, 3, 2), 256, 3)
    x = block(csp(block(c4, 512, 3, 2), 512, 1), 256)
    pools = [x]
    for _ in range(3):
        pools.append(g.add("MaxPool", pools[-1], kernel_shape=[5, 5], strides=[1, 1], pads=[2] * 4))
    p5 = block(block(join(*pools), 512), 256)
    p4 = block(csp(join(upper(p5), c4), 256, 1, False), 128)
    out3 = csp(join(upper(p4), c3), 128, 1, False)
    out4 = csp(join(block(out3, 128, 3, 2), p4), 256, 1, False)
    out5 = csp(join(block(out4, 256, 3, 2), p5), 512, 1, False)
    shape = g.hold(np.array([1, 255, -1], np.int64))
    rows = [g.add("Reshape", g.conv(y, 255), shape) for y in (out3, out4, out5)]
    return g.model(g.add("Sigmoid", g.add("Concat", *rows, axis=2)))


def mobilenet2():
    g = Layout([1, 3, 224, 224])
    x = g.relu6(g.conv("x", 32, 3, 2))
    stages = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    for factor, out, count, first in stages:
        for i in range(count):
            wide, stride = g.channels[x] * factor, first if i == 0 else 1
            y = x if factor == 1 else g.relu6(g.conv(x, wide))
            y = g.conv(g.relu6(g.conv(y, wide, 3, stride, groups=wide)), out, gain=1)
            x = g.add("Add", x, y) if stride == 1 and g.channels[x] == out else y
    return g.model(g.classes(g.relu6(g.conv(x, 1280))))


def mobilenet3():
    """MobileNetV3 large: hard swish, and factors of channels by a hard sigmoid."""
    g = Layout([1, 3, 224, 224])
    hard = lambda x: g.add("HardSwish", x)
    relu = lambda x: g.add("Relu", x)
    x = hard(g.conv("x", 16, 3, 2))
    rows = [
        *[(3, 16, 16, 0, relu, 1), (3, 64, 24, 0, relu, 2), (3, 72, 24, 0, relu, 1)],
        *[(5, 72, 40, 1, relu, 2), (5, 120, 40, 1, relu, 1), (5, 120, 40, 1, relu, 1)],
        *[(3, 240, 80, 0, hard, 2), (3, 200, 80, 0, hard, 1), (3, 184, 80, 0, hard, 1), (3, 184, 80, 0, hard, 1)],
        *[(3, 480, 112, 1, hard, 1), (3, 672, 112, 1, hard, 1)],
        *[(5, 672, 160, 1, hard, 2), (5, 960, 160, 1, hard, 1), (5, 960, 160, 1, hard, 1)],
    ]
    for size, wide, out, squeezes, act, stride in rows:
        y = act(g.conv(x, wide)) if wide != g.channels[x] else x
        y = act(g.conv(y, wide, size, stride, groups=wide))
        if squeezes:
            s = relu(g.conv(g.add("GlobalAveragePool", y), wide // 4))
            y = g.add("Mul", y, g.add("HardSigmoid", g.conv(s, wide), alpha=1 / 6, beta=0.5))
        y = g.conv(y, out, gain=1)
        x = g.add("Add", x, y) if stride == 1 and g.channels[x] == out else y
    return g.model(g.classes(hard(g.conv(x, 960))))


# The name of a row of the benchmark, and the function that builds the model.
LAYOUTS = {
    "ResNet-18": resnet18,
    "ResNet-50": resnet50,
    "YOLOv5s 320": yolov5,
    "MobileNetV2": mobilenet2,
    "MobileNetV3": mobilenet3,
}


def half(model):
    """A copy whose weights and values are float16; inputs and outputs stay float32."""
    return convert_float_to_float16(model, keep_io_types=True)


# The models that have a float16 copy, by their names in models/onnx/index.json.
HALVES = {"nudenet 320 (YOLOv8n)": "nudenet half", "PP-OCRv4 rec": "PP-OCRv4 rec half"}


def results(path, feeds):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
    return dict(zip([one.name for one in session.get_outputs()], session.run(None, feeds)))


def encoder(layers=6, width=384, heads=12, length=128):
    """An encoder of the sizes of MiniLM, with norms and gelu as PyTorch wrote them before opset 17."""
    g = Layout([1, length, width])
    rng, size = g.rng, width // heads
    weight = lambda a, b: g.hold((rng.standard_normal((a, b)) * a**-0.5).astype(F32))
    linear = lambda x, a, b: g.add("Add", g.add("MatMul", x, weight(a, b)), g.hold((rng.standard_normal(b) * 0.1).astype(F32)))
    split, join = g.hold(np.array([1, length, heads, size])), g.hold(np.array([1, length, width]))
    two, near, root, half, one, scale = [g.number(n) for n in (2, 1e-5, 2**0.5, 0.5, 1, size**0.5)]

    def norm(x):
        centered = g.add("Sub", x, g.add("ReduceMean", x, axes=[-1]))
        variance = g.add("ReduceMean", g.add("Pow", centered, two), axes=[-1])
        y = g.add("Div", centered, g.add("Sqrt", g.add("Add", variance, near)))
        return g.add("Add", g.add("Mul", y, g.hold(np.ones(width, F32))), g.hold(np.zeros(width, F32)))

    x = "x"
    for _ in range(layers):
        q, k, v = [
            g.add("Transpose", g.add("Reshape", linear(x, width, width), split), perm=perm)
            for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
        ]
        a = g.add("Softmax", g.add("Div", g.add("MatMul", q, k), scale), axis=-1)
        y = g.add("Reshape", g.add("Transpose", g.add("MatMul", a, v), perm=[0, 2, 1, 3]), join)
        x = norm(g.add("Add", x, linear(y, width, width)))
        u = linear(x, width, 4 * width)
        e = g.add("Add", g.add("Erf", g.add("Div", u, root)), one)
        u = g.add("Mul", g.add("Mul", u, e), half)
        x = norm(g.add("Add", x, linear(u, 4 * width, width)))
    return g.model(x)


LAYOUTS["encoder"] = encoder


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    real = json.loads((MODELS / "onnx/index.json").read_text())["models"]
    index = {}

    def write(name, model, feeds, wanted=None):
        file = name.replace(" ", "_")
        onnx.save(model, OUT / f"{file}.onnx")
        found = results(OUT / f"{file}.onnx", feeds)
        entry = {"inputs": {}, "outputs": {}}
        for side, values in (("inputs", feeds), ("outputs", wanted or found)):
            for i, (key, value) in enumerate(values.items()):
                entry[side][key] = f"{file}_{side}_{i}.npy"
                np.save(OUT / entry[side][key], np.asarray(value, order="C"))
        index[name] = {"file": f"layouts/{file}.onnx", "cases": [entry]}
        errors = [np.abs(found[k] - v).max() / np.abs(v).max() for k, v in (wanted or {}).items()]
        print(name, [f"{k} {v.shape} {np.abs(v).max():.3g}" for k, v in found.items()], "errors", errors)

    rng = np.random.default_rng(3)
    for name, make in LAYOUTS.items():
        model = make()
        shape = [one.dim_value for one in model.graph.input[0].type.tensor_type.shape.dim]
        feeds = {"x": rng.random(shape, dtype=F32)}
        write(name, model, feeds)
    encoded = results(OUT / "encoder.onnx", feeds)
    write("encoder half", half(encoder()), feeds, encoded)
    for name, copy in HALVES.items():
        files = real[name]["cases"][0]["inputs"]
        feeds = {key: np.load(MODELS / "onnx" / file) for key, file in files.items()}
        path = MODELS / real[name]["file"]
        write(copy, half(onnx.load(path)), feeds, results(path, feeds))
    (OUT / "index.json").write_text(json.dumps({"onnxruntime": onnxruntime.__version__, "models": index}, indent=1))


main()
