"""The models that statements of the suites call, in NumPy, PyTorch and as ONNX graphs.

A module that a peer does not need is not imported.
"""

import functools
import json
import sys
from pathlib import Path

import numpy as np

PEER = sys.argv[1]
THREADS = int(sys.argv[2].split("=")[1])
if PEER in ("PyTorch", "torch.compile"):
    import torch
    import torch.nn.functional as F
if PEER == "ONNX Runtime":
    import onnx
    import onnxruntime
    from onnx import helper, numpy_helper


# ---- NumPy and PyTorch ---------------------------------------------------------------------------


def softmax(a):
    """Along the last axis, shifted by the maximum, as every implementation does."""
    e = np.exp(a - a.max(-1, keepdims=True))
    e /= e.sum(-1, keepdims=True)
    return e


def log_softmax(a):
    c = a - a.max(-1, keepdims=True)
    c -= np.log(np.exp(c).sum(-1, keepdims=True))
    return c


def layer_norm(a, gain, bias):
    c = a - a.mean(-1, keepdims=True)
    c /= np.sqrt(np.square(c).mean(-1, keepdims=True) + 1e-5)
    return c * gain + bias


def rms_norm(a, gain):
    return a / np.sqrt(np.square(a).mean(-1, keepdims=True) + np.finfo(a.dtype).eps) * gain


def small(a, w, r, steps):
    for _ in range(steps):
        r = ((a + r) @ w).mean(1, keepdims=True)
    return a + r


def encoder(w, layers, heads, x=None, mask=None):
    x = w["x"] if x is None else x
    b, t, d = x.shape
    for i in range(layers):

        def linear(y, name):
            return F.linear(y, w[f"w{name}{i}"], w[f"b{name}{i}"])

        def split(y):
            return y.view(b, t, heads, d // heads).transpose(1, 2)

        def norm(y, n):
            return F.layer_norm(y, (d,), w[f"g{n}{i}"], w[f"s{n}{i}"], 1e-12)

        q, k, v = [split(linear(x, name)) for name in "qkv"]
        y = F.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).reshape(b, t, d)
        x = norm(x + linear(y, "o"), 1)
        x = norm(x + linear(F.gelu(linear(x, "u")), "d"), 2)
    return x


def mixed(w, layers, heads, lengths, step):
    """Means of the tokens of texts, in one batch, or in one for each length, rounded up."""
    batches = {}
    for i, n in enumerate(lengths):
        batches.setdefault(-(-n // step) * step if step else max(lengths), []).append(i)
    results = []
    for size, texts in batches.items():
        own = torch.tensor([lengths[i] for i in texts])[:, None]
        seen = torch.arange(size) < own
        x = w["x"][texts[0] : texts[-1] + 1, :size]
        y = encoder(w, layers, heads, x, seen[:, None, None])
        results.append((y * seen[..., None]).sum(1) / own)
    return torch.cat(results)


def resnet(w):
    numbers = iter(range(100))

    def conv(x, stride, padding):
        i = next(numbers)
        return F.conv2d(x, w[f"w{i}"], w[f"b{i}"], stride, padding)

    x = F.max_pool2d(conv(w["x"], 2, 3).relu_(), 3, 2, 1)
    for stage in range(4):
        for block in range(2):
            shrinks = stage > 0 and block == 0
            y = conv(conv(x, 2 if shrinks else 1, 1).relu_(), 1, 1)
            x = y.add_(conv(x, 2, 0) if shrinks else x).relu_()
    return F.linear(x.mean((2, 3)), w["w"], w["b"])


# ---- ONNX Runtime --------------------------------------------------------------------------------


class Graph:
    """The nodes and initializers of a graph in the making."""

    def __init__(self):
        self.nodes, self.initializers = [], []

    def hold(self, array):
        name = f"w{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def add(self, op, *inputs, **attributes):
        name = f"y{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def linear(self, x, w, b):
        """As PyTorch's exporter writes it for inputs of rank 3."""
        return self.add("Add", self.add("MatMul", x, self.hold(w.T)), self.hold(b))

    def model(self, x, y):
        kind = onnx.TensorProto.FLOAT
        graph = helper.make_graph(
            self.nodes,
            "row",
            [helper.make_tensor_value_info("x", kind, x.shape)],
            [helper.make_tensor_value_info(y, kind, None)],
            self.initializers,
        )
        opsets = [helper.make_opsetid("", 17)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def onnx_linear(w):
    g = Graph()
    return g.model(w["x"], g.add("MatMul", "x", g.hold(w["w"].T)))


def onnx_perceptron(w):
    g, x = Graph(), "x"
    for i in (1, 2, 3):
        x = g.add("Gemm", x, g.hold(w[f"w{i}"]), g.hold(w[f"b{i}"]), transB=1)
        x = g.add("Relu", x) if i < 3 else g.add("Softmax", x, axis=1)
    return g.model(w["x"], x)


def onnx_encoder(w, layers, heads):
    g, x = Graph(), "x"
    b, t, d = w["x"].shape
    size = d // heads
    number = lambda value: g.hold(np.array(value, np.float32))
    split, join = g.hold(np.array([b, t, heads, size])), g.hold(np.array([b, t, d]))
    scale, root, half, one = number(size**0.5), number(2**0.5), number(0.5), number(1)
    for i in range(layers):
        linear = lambda y, name: g.linear(y, w[f"w{name}{i}"], w[f"b{name}{i}"])
        norm = lambda y, n: g.add(
            "LayerNormalization", y, g.hold(w[f"g{n}{i}"]), g.hold(w[f"s{n}{i}"]), epsilon=1e-12
        )
        q, k, v = [
            g.add("Transpose", g.add("Reshape", linear(x, name), split), perm=perm)
            for name, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3]))
        ]
        a = g.add("Softmax", g.add("Div", g.add("MatMul", q, k), scale), axis=-1)
        y = g.add("Transpose", g.add("MatMul", a, v), perm=[0, 2, 1, 3])
        x = norm(g.add("Add", x, linear(g.add("Reshape", y, join), "o")), 1)
        u = linear(x, "u")
        # gelu, in the form that the runtime's optimizer replaces by one op.
        e = g.add("Add", g.add("Erf", g.add("Div", u, root)), one)
        x = norm(g.add("Add", x, linear(g.add("Mul", g.add("Mul", u, e), half), "d")), 2)
    return g.model(w["x"], x)


def onnx_conv(w, stride, padding, groups):
    g = Graph()
    y = g.add(
        "Conv",
        "x",
        g.hold(w["w"]),
        g.hold(w["b"]),
        strides=[stride] * 2,
        pads=[padding] * 4,
        group=groups,
    )
    return g.model(w["x"], y)


def onnx_resnet(w):
    g, numbers = Graph(), iter(range(100))

    def conv(x, stride, padding):
        i = next(numbers)
        sizes = {"strides": [stride] * 2, "pads": [padding] * 4}
        return g.add("Conv", x, g.hold(w[f"w{i}"]), g.hold(w[f"b{i}"]), **sizes)

    x = g.add("Relu", conv("x", 2, 3))
    x = g.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for stage in range(4):
        for block in range(2):
            shrinks = stage > 0 and block == 0
            y = conv(g.add("Relu", conv(x, 2 if shrinks else 1, 1)), 1, 1)
            x = g.add("Relu", g.add("Add", y, conv(x, 2, 0) if shrinks else x))
    x = g.add("Flatten", g.add("GlobalAveragePool", x))
    return g.model(w["x"], g.add("Gemm", x, g.hold(w["w"]), g.hold(w["b"]), transB=1))


def onnx_file(name):
    """A model, and the inputs that scripts/golden/onnx_models.py or onnx_layouts.py wrote for it."""
    models = Path(__file__).parents[2] / "models"
    for folder in (models / "onnx", models / "layouts"):
        index = folder / "index.json"
        one = json.loads(index.read_text())["models"].get(name) if index.exists() else None
        if one is not None:
            files = one["cases"][0]["inputs"]
            return models / one["file"], {key: np.load(folder / file) for key, file in files.items()}
    raise KeyError(name)


def session_of(model, feeds):
    """A session, and the faster way to run it, if there is one: inputs and outputs bound beforehand."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, value in feeds.items():
        binding.bind_cpu_input(name, value)
    outputs = session.get_outputs()
    for one in outputs:
        binding.bind_output(one.name)
    session.run_with_iobinding(binding)
    for one, value in zip(outputs, binding.get_outputs()):
        # Some files declare another rank than the result has, which cannot be bound.
        if len(one.shape) != len(value.shape()):
            return session, None
        binding.bind_ortvalue_output(one.name, value)
    return session, binding


# ---- the names of statements -----------------------------------------------------------------


@functools.cache
def cookbook(name):
    """A program of the cookbook on its large input."""

    sys.path.append(str(Path(__file__).parent.parent / "suites"))
    from cookbook_peer import PROGRAMS

    return PROGRAMS[name](True)


SLICES = {"step2": slice(2, 40, 2), "back": slice(None, None, -1)}


def names():
    if PEER == "NumPy":
        own = (softmax, log_softmax, layer_norm, rms_norm, small, cookbook)
        return {"np": np, **SLICES, **{one.__name__: one for one in own}}
    if PEER == "ONNX Runtime":
        return {
            "linear": onnx_linear,
            "perceptron": onnx_perceptron,
            "encoder": onnx_encoder,
            "conv": onnx_conv,
            "resnet": onnx_resnet,
            "file": onnx_file,
        }
    own = (small, encoder, mixed, resnet)
    return {"torch": torch, "F": F, **SLICES, **{one.__name__: one for one in own}}
