"""The peers in Python: time statements as told on stdin, in the protocol of worker.ts.

The first argument is the peer: `NumPy`, `PyTorch`, `torch.compile` or `ONNX Runtime`. A request
carries the row's inputs and its statement. For `torch.compile` the statement becomes the body of a
compiled function; for ONNX Runtime it makes a graph whose only input is `x`, with weights as
initializers. Knows nothing of the list of rows.
"""

import json
import statistics
import sys
import timeit

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

# As in worker.ts: the seconds of a batch, and the least number of batches of a timing.
BATCH = 1e-3
LEAST_BATCHES = 3
ROWS = {}
GROUP = [""]


def uniform(shape, stream, low, high):
    """The numbers of `uniform` in rows.ts: hashes of the indexes."""
    start = np.uint32((stream + 1) * 0x9E3779B9 & 0xFFFFFFFF)
    x = np.arange(np.prod(shape, dtype=int), dtype=np.uint32) + start
    x = (x ^ x >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    x = (x ^ x >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    x ^= x >> np.uint32(16)
    return (low + x / 2**32 * (high - low)).astype(np.float32).reshape(shape)


# ---- NumPy and PyTorch ---------------------------------------------------------------------------


def softmax(a):
    """Along the last axis, shifted by the maximum, as every implementation does."""
    e = np.exp(a - a.max(-1, keepdims=True))
    e /= e.sum(-1, keepdims=True)
    return e


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


def session_of(model, x):
    """The faster way to run a session: its input and its output are bound beforehand."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output(session.get_outputs()[0].name)
    session.run_with_iobinding(binding)
    binding.bind_ortvalue_output(session.get_outputs()[0].name, binding.get_outputs()[0])
    return session, binding


# ---- the protocol --------------------------------------------------------------------------------


class Row:
    """The names of a statement, the statement to time, and the way to get its result."""

    def __init__(self, request):
        arrays = {
            name: uniform(x["shape"], i, x["low"], x["high"])
            for i, (name, x) in enumerate(request["inputs"].items())
        }
        out, statement = request.get("out"), request["statement"]
        if out is not None:
            arrays["o"] = np.zeros(out["shape"], out["dtype"])
        if PEER == "ONNX Runtime":
            names = {
                "linear": onnx_linear,
                "perceptron": onnx_perceptron,
                "encoder": onnx_encoder,
                "conv": onnx_conv,
                "resnet": onnx_resnet,
            }
            model = eval(statement, {**names, "inputs": arrays})
            session, binding = session_of(model, arrays["x"])
            self.names = {"run": session.run_with_iobinding, "binding": binding}
            self.statement = "run(binding)"
            self.result = lambda: binding.copy_outputs_to_cpu()[0]
            return
        if PEER == "NumPy":
            self.names = {"np": np, "softmax": softmax, "small": small}
        else:
            arrays = {name: torch.from_numpy(x).clone() for name, x in arrays.items()}
            models = {"encoder": encoder, "mixed": mixed, "resnet": resnet}
            self.names = {"torch": torch, "F": F, "small": small, **models}
        self.names.update(arrays, inputs=arrays)
        self.statement = statement
        if PEER == "torch.compile":
            parameters = ", ".join(arrays)
            exec(f"def compiled({parameters}): return {statement}", self.names)
            self.names["compiled"] = torch.compile(self.names["compiled"], dynamic=False)
            self.statement = f"compiled({parameters})"
        if out is None:
            self.result = lambda: np.asarray(eval(self.statement, self.names))
        else:
            self.result = lambda: (exec(self.statement, self.names), np.asarray(arrays["o"]))[1]

    def write_result(self, path):
        self.result().astype(np.float32).tofile(path)

    def calibrate(self, seconds):
        """Warms up, and chooses the numbers of calls and batches as worker.ts does."""
        self.timer = timeit.Timer(self.statement, globals=self.names)
        calls = 1
        while (took := self.timer.timeit(calls)) < seconds / 4:
            calls *= 2
        one = took / calls
        self.calls = max(1, round(BATCH / one))
        self.batches = max(LEAST_BATCHES, round(seconds / max(BATCH, one)))

    def time(self):
        self.timer.repeat((self.batches + 3) // 4, self.calls)
        times = [x * 1e9 / self.calls for x in self.timer.repeat(self.batches, self.calls)]
        return {"ns": statistics.median(times), "least": min(times)}


def answer(request):
    key = request["row"]
    if request["do"] == "time":
        return ROWS[key].time()
    group = key.split("/")[0]
    if group != GROUP[0]:
        ROWS.clear()
        GROUP[0] = group
    ROWS[key] = Row(request)
    ROWS[key].write_result(request["file"])
    ROWS[key].calibrate(request["ms"] / 1e3)
    return {}


def reply(message):
    print(json.dumps(message), flush=True)


def serve():
    for line in sys.stdin:
        try:
            reply(answer(json.loads(line)))
        except Exception as error:  # sent to the caller
            reply({"error": f"{type(error).__name__}: {error}"})


def start():
    if PEER == "NumPy":
        return {"version": f"NumPy {np.__version__}"}
    if PEER == "ONNX Runtime":
        return {"version": f"ONNX Runtime {onnxruntime.__version__}"}
    torch.set_num_threads(THREADS)
    if PEER == "torch.compile":
        try:
            torch.compile(lambda x: x + 1)(torch.zeros(3))
        except Exception as error:  # without a C++ compiler, for instance
            return {"error": f"{type(error).__name__}: {str(error).splitlines()[0]}"}
    return {"version": f"PyTorch {torch.__version__}"}


if __name__ == "__main__":
    np.seterr(all="ignore")
    reply(start())
    if PEER in ("PyTorch", "torch.compile"):
        # Nothing is recorded for gradients: the fastest that PyTorch has.
        with torch.inference_mode():
            serve()
    else:
        serve()
