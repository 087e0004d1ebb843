"""Layouts of vision models with random weights, as exporters write them: norms are in the convolutions.

scripts/golden/onnx_models.py writes them to models/layouts, with float16 copies of real models.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

F32, F16 = np.float32, np.float16


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
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


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
    model = onnx.shape_inference.infer_shapes(model)
    graph = model.graph
    for weight in graph.initializer:
        if weight.data_type == TensorProto.FLOAT:
            array = np.clip(numpy_helper.to_array(weight), -65504, 65504).astype(F16)
            weight.CopyFrom(numpy_helper.from_array(array, weight.name))
    held = {one.name for one in graph.initializer}
    new = {}
    for node in graph.node:
        for one in node.attribute:
            if one.name == "value" and one.t.data_type == TensorProto.FLOAT:
                one.t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(one.t).astype(F16)))
            if node.op_type == "Cast" and one.name == "to" and one.i == TensorProto.FLOAT:
                one.i = TensorProto.FLOAT16
        # Scales of Resize are float32 in all files.
        if node.op_type == "Resize":
            for i, name in enumerate(node.input[2:3], 2):
                if name in held:
                    node.input[i] = f"{name}/float32"
                    weight = next(one for one in graph.initializer if one.name == name)
                    wide = numpy_helper.to_array(weight).astype(F32)
                    new[node.input[i]] = numpy_helper.from_array(wide, node.input[i])
    graph.initializer.extend(new.values())
    casts = []
    for one in graph.input:
        if one.name in held or one.type.tensor_type.elem_type != TensorProto.FLOAT:
            continue
        for node in graph.node:
            node.input[:] = [f"{one.name}/half" if name == one.name else name for name in node.input]
        casts.append(helper.make_node("Cast", [one.name], [f"{one.name}/half"], to=TensorProto.FLOAT16))
    nodes = [*casts, *graph.node]
    for one in graph.output:
        if one.type.tensor_type.elem_type != TensorProto.FLOAT:
            continue
        for node in graph.node:
            for names in (node.input, node.output):
                names[:] = [f"{one.name}/half" if name == one.name else name for name in names]
        nodes.append(helper.make_node("Cast", [f"{one.name}/half"], [one.name], to=TensorProto.FLOAT))
    del graph.node[:], graph.value_info[:]
    graph.node.extend(nodes)
    return model
