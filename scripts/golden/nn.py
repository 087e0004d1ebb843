"""Writes tests/golden/nn: what PyTorch computes for the functions of `nn`.

    .venv/bin/pip install numpy torch
    .venv/bin/python scripts/golden/nn.py [group ...]

Needs PyTorch. Inputs are multiples of 1/16 with at most 8 significant bits, so that every float
dtype holds them exactly and one result, computed in float64, is that of all dtypes. One file for
each group: a case has the name of the function, its arguments, in which `{"$": k}` is input k, and
the results. Elements are base64: int8 (sixteenths), int32 (integers) or float64, little-endian. The
same version of PyTorch gives the same files.
"""

import base64
import json
import sys
import warnings
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

warnings.filterwarnings("ignore", "reduction: 'mean' divides")
OUT = Path(__file__).parents[2] / "tests" / "golden" / "nn"
rng = np.random.default_rng(0)


def floats(*shape, least=-127, most=127):
    return torch.from_numpy(rng.integers(least, most + 1, shape) / 16.0)


def integers(low, high, *shape):
    return torch.from_numpy(rng.integers(low, high, shape))


def encode(array, dtype):
    return base64.b64encode(np.ascontiguousarray(array, dtype).tobytes()).decode()


def packed(tensor):
    """A tensor as JSON: its shape, and its elements in base64 in the shortest form."""
    array = tensor.numpy()
    shape = list(array.shape)
    if array.dtype.kind == "b":
        return {"shape": shape, "bool": encode(array, "u1")}
    if array.dtype.kind == "i":
        return {"shape": shape, "integers": encode(array, "<i4")}
    short = np.nan_to_num(array * 16).clip(-127, 127)
    if np.array_equal(np.rint(short), array * 16):
        return {"shape": shape, "sixteenths": encode(short, "i1")}
    return {"shape": shape, "floats": encode(array, "<f8")}


class Group:
    """The cases of one file."""

    def __init__(self):
        self.cases = []
        self.inputs = []

    def case(self, call, results, *args, **extra):
        """A call of `call` with `args`; `extra` are members of the case, such as a tolerance."""

        def plain(value):
            if isinstance(value, torch.Tensor):
                assert value.dtype in [torch.float64, torch.int64, torch.bool], call
                for dtype in [torch.float16, torch.bfloat16]:
                    held = value.to(dtype).to(value.dtype)
                    assert torch.equal(held.nan_to_num(1.5), value.nan_to_num(1.5)), call
                one = packed(value)
                if one not in self.inputs:
                    self.inputs.append(one)
                return {"$": self.inputs.index(one)}
            if isinstance(value, dict):
                return {key: plain(one) for key, one in value.items()}
            if isinstance(value, (list, tuple)):
                return [plain(one) for one in value]
            return value

        own = [plain(one) for one in args]
        made = list(results) if isinstance(results, (list, tuple)) else [results]
        case = {"call": call, "args": own, "outputs": [packed(one) for one in made], **extra}
        self.cases.append(case)

    def write(self, name):
        OUT.mkdir(exist_ok=True)
        inputs, cases = (
            ",\n".join(json.dumps(one) for one in some) for some in [self.inputs, self.cases]
        )
        text = f'{{"inputs": [\n{inputs}\n], "cases": [\n{cases}\n]}}\n'
        (OUT / f"{name}.json").write_text(text)
        print(f"{name}: {len(self.cases)} cases, {len(text)} bytes")


def padded(x, pads, value):
    """Padding that differs at the two ends of axes, the first axis first."""
    flat = [n for pair in reversed(pads) for n in pair]
    return F.pad(x, flat, value=value)


def pool(group):
    x1, x2, x3 = floats(2, 3, 13), floats(1, 2, 9, 11), floats(1, 2, 6, 5, 7)
    maxes = [F.max_pool1d, F.max_pool2d, F.max_pool3d]
    means = [F.avg_pool1d, F.avg_pool2d, F.avg_pool3d]
    for rank, (x, of_max, of_mean) in enumerate(zip([x1, x2, x3], maxes, means), 1):
        for size, stride, padding, ceil in [
            (2, None, 0, False),
            (3, 2, 1, False),
            (3, 2, 1, True),
            (3, 1, 1, False),
            (2, 3, 1, True),
            (4, 3, 2, True),
        ]:
            options = {"padding": padding, "ceilMode": ceil}
            if stride is not None:
                options["stride"] = stride
            made = of_max(x, size, stride, padding, ceil_mode=ceil)
            group.case(f"maxPool{rank}d", made, x, size, options)
            for include in [True, False]:
                own = {**options, "countIncludePad": include}
                made = of_mean(x, size, stride, padding, ceil_mode=ceil, count_include_pad=include)
                group.case(f"avgPool{rank}d", made, x, size, own)
        dilated = {"dilation": 2, "stride": 1, "padding": 1}
        group.case(f"maxPool{rank}d", of_max(x, 2, 1, 1, dilation=2), x, 2, dilated)
        group.case(f"avgPool{rank}d", of_mean(x[0], 2), x[0], 2)
    large = floats(2, 3, 40)
    group.case("maxPool1d", F.max_pool1d(large, 37, 2, 18), large, 37, {"stride": 2, "padding": 18})
    group.case("avgPool1d", F.avg_pool1d(large, 37, 2, 18), large, 37, {"stride": 2, "padding": 18})
    group.case("avgPool1d", F.avg_pool1d(large, 40), large, 40)
    group.case(
        "avgPool2d",
        F.avg_pool2d(x2, (3, 2), (1, 2), (1, 0), divisor_override=5),
        x2,
        [3, 2],
        {"stride": [1, 2], "padding": [1, 0], "divisorOverride": 5},
    )
    group.case(
        "maxPool2d",
        F.max_pool2d(x2, (3, 2), (2, 1), (1, 0), dilation=(1, 3)),
        x2,
        [3, 2],
        {"stride": [2, 1], "padding": [1, 0], "dilation": [1, 3]},
    )
    pads = [(0, 1), (2, 1)]
    options = {"stride": 2, "padding": [list(pair) for pair in pads]}
    made = F.max_pool2d(padded(x2, pads, -torch.inf), 3, 2)
    group.case("maxPool2d", made, x2, 3, options)
    group.case("avgPool2d", F.avg_pool2d(padded(x2, pads, 0), 3, 2), x2, 3, options)
    inside = F.avg_pool2d(padded(torch.ones_like(x2), pads, 0), 3, 2)
    made = F.avg_pool2d(padded(x2, pads, 0), 3, 2) / inside
    group.case("avgPool2d", made, x2, 3, {**options, "countIncludePad": False})
    for size in [1, 3, 5, 13, 20]:
        group.case("adaptiveAvgPool1d", F.adaptive_avg_pool1d(x1, size), x1, size)
        group.case("adaptiveMaxPool1d", F.adaptive_max_pool1d(x1, size), x1, size)
    for size in [1, (3, 4), (9, 2), (None, 5)]:
        own = list(size) if isinstance(size, tuple) else size
        group.case("adaptiveAvgPool2d", F.adaptive_avg_pool2d(x2, size), x2, own)
        group.case("adaptiveMaxPool2d", F.adaptive_max_pool2d(x2, size), x2, own)
    for size in [1, (3, 4, 2), 2]:
        own = list(size) if isinstance(size, tuple) else size
        group.case("adaptiveAvgPool3d", F.adaptive_avg_pool3d(x3, size), x3, own)
        group.case("adaptiveMaxPool3d", F.adaptive_max_pool3d(x3, size), x3, own)
    group.case("unfold", x1.unfold(2, 3, 2), x1, 2, 3, 2)
    group.case("unfold", x2.unfold(-2, 4, 1), x2, -2, 4, 1)
    group.case("unfold", x1.unfold(0, 2, 5), x1, 0, 2, 5)


def activation(group):
    grid = torch.arange(-127, 128).double() / 16
    far = [-torch.inf, -1024, -96, -32, -8, 0, 8, 16, 32, 96, 1024, torch.inf, torch.nan]
    far = torch.tensor(far, dtype=torch.float64)
    for x in [grid, far]:
        # The largest of the far values is no scale for the others.
        relative = {"floor": 2**-10 if x is grid else 2**-20}
        for call, of, options in [
            ("elu", F.elu, {}),
            ("elu", lambda x: F.elu(x, 2.5), {"alpha": 2.5}),
            ("selu", F.selu, {}),
            ("celu", F.celu, {}),
            ("celu", lambda x: F.celu(x, 2.5), {"alpha": 2.5}),
            ("leakyRelu", F.leaky_relu, {}),
            ("leakyRelu", lambda x: F.leaky_relu(x, 0.25), {"negativeSlope": 0.25}),
            ("relu6", F.relu6, {}),
            ("softplus", F.softplus, {}),
            ("softplus", lambda x: F.softplus(x, 0.5, 3), {"beta": 0.5, "threshold": 3}),
            ("softplus", lambda x: F.softplus(x, 4, 100), {"beta": 4, "threshold": 100}),
            ("mish", F.mish, {}),
            ("hardSigmoid", F.hardsigmoid, {}),
            ("hardSwish", F.hardswish, {}),
            ("hardTanh", F.hardtanh, {}),
            ("hardTanh", lambda x: F.hardtanh(x, -2, 0.5), {"min": -2, "max": 0.5}),
            ("logSigmoid", F.logsigmoid, {}),
            ("softsign", F.softsign, {}),
        ]:
            group.case(call, of(x), x, options, **relative)
        # PyTorch's own formulas cancel.
        group.case("tanhshrink", F.tanhshrink(x), x)
        group.case("gelu", F.gelu(x), x)
        group.case("gelu", F.gelu(x, approximate="tanh"), x, {"approximate": "tanh"})
    x = floats(2, 3, 5)
    one, each = torch.tensor([0.25]).double(), floats(3)
    group.case("prelu", F.prelu(x, one), x, one)
    group.case("prelu", F.prelu(x, each), x, each)
    group.case("prelu", F.prelu(x[:, :, 0], each), x[:, :, 0], each)
    x = floats(4, 6)
    group.case("glu", F.glu(x), x)
    group.case("glu", F.glu(x, 0), x, 0)
    y = floats(4, 6)
    group.case("swiglu", F.silu(x) * y, x, y)


def norm(group):
    for shape in [(2, 4), (2, 4, 5), (1, 4, 3, 2), (2, 4, 1, 3, 2)]:
        x = floats(*shape)
        mean, weight, bias = floats(4), floats(4), floats(4)
        variance = floats(4, least=1)
        made = F.batch_norm(x, mean, variance)
        group.case("batchNorm", made, x, mean, variance)
        for own, epsilon in [({"weight": weight, "bias": bias}, 0.5), ({"bias": bias}, 0)]:
            made = F.batch_norm(x, mean, variance, **own, eps=epsilon)
            group.case("batchNorm", made, x, mean, variance, {**own, "epsilon": epsilon})
        made = F.group_norm(x, 2, weight, bias, 1e-3)
        options = {"weight": weight, "bias": bias, "epsilon": 1e-3}
        group.case("groupNorm", made, x, 2, options, ulps=8)
        group.case("groupNorm", F.group_norm(x, 1), x, 1, ulps=8)
        group.case("groupNorm", F.group_norm(x, 2, bias=bias), x, 2, {"bias": bias}, ulps=8)
        if len(shape) > 2:
            group.case("instanceNorm", F.instance_norm(x), x, ulps=8)
            made = F.instance_norm(x, weight=weight, bias=bias, eps=1e-3)
            group.case("instanceNorm", made, x, options, ulps=8)
            for size in [1, 2, 5]:
                made = F.local_response_norm(x, size)
                group.case("localResponseNorm", made, x, size)
                made = F.local_response_norm(x, size, 0.5, 0.25, 2)
                group.case("localResponseNorm", made, x, size, {"alpha": 0.5, "beta": 0.25, "k": 2})


def embedding(group):
    weight = floats(7, 3)
    for shape in [(), (4,), (2, 3)]:
        indices = integers(0, 7, *shape)
        group.case("embedding", F.embedding(indices, weight), indices, weight)


def recurrent(group):
    steps, batch, columns, size = 5, 2, 3, 4
    x = floats(steps, batch, columns, least=-32, most=32)
    kinds = [("lstm", torch.nn.LSTM, {}), ("gru", torch.nn.GRU, {})]
    kinds += [("rnn", torch.nn.RNN, {"nonlinearity": one}) for one in ["tanh", "relu"]]
    for call, module, own in kinds:
        for layers, both, bias, first, state in [
            (1, False, True, False, False),
            (1, False, False, True, True),
            (2, True, True, False, True),
            (3, False, True, True, False),
        ]:
            net = module(
                columns,
                size,
                layers,
                bias=bias,
                batch_first=first,
                bidirectional=both,
                dtype=torch.float64,
                **own,
            )
            names = ["weight_ih", "weight_hh"] + (["bias_ih", "bias_hh"] if bias else [])
            keys = {"weight_ih": "weightIh", "weight_hh": "weightHh"}
            keys |= {"bias_ih": "biasIh", "bias_hh": "biasHh"}
            weights = []
            for layer in range(layers):
                for suffix in ["", "_reverse"] if both else [""]:
                    given = {}
                    for name in names:
                        parameter = getattr(net, f"{name}_l{layer}{suffix}")
                        value = floats(*parameter.shape, least=-16, most=16)
                        parameter.data = value
                        given[keys[name]] = value
                    weights.append(given)
            options = dict(own)
            if both:
                options["bidirectional"] = True
            if first:
                options["batchFirst"] = True
            states = []
            if state:
                count = len(weights)
                names = ["hidden", "cell"] if call == "lstm" else ["hidden"]
                states = [floats(count, batch, size, least=-16, most=16) for _ in names]
                options |= dict(zip(names, states))
            given = x.transpose(0, 1).contiguous() if first else x
            with torch.no_grad():
                if not states:
                    output, last = net(given)
                else:
                    output, last = net(given, tuple(states) if call == "lstm" else states[0])
            made = [output, *(last if call == "lstm" else [last])]
            group.case(call, made, given, weights if len(weights) > 1 else weights[0], options, ulps=8, floor=1)


def interpolate(group):
    x1, x2, x3 = floats(2, 2, 7), floats(1, 2, 5, 6), floats(1, 2, 3, 4, 2)

    def both(x, mode, align=None, antialias=False, **how):
        options = {"mode": mode}
        if align is not None:
            options["alignCorners"] = align
        if antialias:
            options["antialias"] = True
        size, factor = how.get("size"), how.get("factor")
        own = {"size": size} if size is not None else {"scaleFactor": factor}
        made = F.interpolate(
            x, size, factor, mode=mode, align_corners=align, antialias=antialias
        )
        group.case("interpolate", made, x, {**own, **options}, ulps=8, floor=1)

    for mode in ["nearest", "nearest-exact", "area"]:
        for size in [1, 4, 7, 11, 14, 21]:
            both(x1, mode, size=size)
        both(x2, mode, size=[3, 9])
        both(x2, mode, size=[10, 12])
        both(x3, mode, size=[2, 4, 5])
        both(x3, mode, factor=2)
    for mode in ["nearest", "nearest-exact"]:
        both(x1, mode, factor=1.5)
        both(x1, mode, factor=0.75)
        both(x2, mode, factor=[2.25, 0.5])
    for align in [False, True]:
        for size in [1, 4, 7, 13, 14]:
            both(x1, "linear", align, size=size)
        both(x1, "linear", align, factor=1.75)
        both(x3, "trilinear", align, size=[2, 7, 3])
        both(x3, "trilinear", align, factor=2)
        for mode in ["bilinear", "bicubic"]:
            both(x2, mode, align, size=[3, 11])
            both(x2, mode, align, size=[10, 6])
            both(x2, mode, align, factor=[2.5, 0.6])
            both(x2, mode, align, True, size=[2, 3])
            # PyTorch 2.15 is wrong for a width of 1.
            both(x2, mode, align, True, size=[8, 2])
            both(x2, mode, align, True, size=[3, 13])
            both(x2, mode, align, True, factor=[0.45, 1.75])
    long = floats(1, 1, 3, 40)
    both(long, "bilinear", False, True, size=[3, 3])
    both(long, "bicubic", False, True, size=[1, 4])


def loss(group):
    x, y = floats(3, 4), floats(3, 4)
    reductions = ["mean", "sum", "none"]
    for how in reductions:
        own = {"reduction": how}
        group.case("mseLoss", F.mse_loss(x, y, reduction=how), x, y, own)
        group.case("l1Loss", F.l1_loss(x, y, reduction=how), x, y, own)
        group.case("smoothL1Loss", F.smooth_l1_loss(x, y, reduction=how), x, y, own)
        made = F.smooth_l1_loss(x, y, reduction=how, beta=2.5)
        group.case("smoothL1Loss", made, x, y, {**own, "beta": 2.5})
        made = F.smooth_l1_loss(x, y, reduction=how, beta=0)
        group.case("smoothL1Loss", made, x, y, {**own, "beta": 0})
        group.case("huberLoss", F.huber_loss(x, y, reduction=how), x, y, own)
        made = F.huber_loss(x, y, reduction=how, delta=2.5)
        group.case("huberLoss", made, x, y, {**own, "delta": 2.5})
        p, q = (floats(3, 4, least=0, most=16) for _ in range(2))
        weight = floats(4, least=0)
        for extra in [{}, {"weight": weight}]:
            made = F.binary_cross_entropy(p, q, reduction=how, **extra)
            group.case("binaryCrossEntropy", made, p, q, {**own, **extra})
        for extra in [{}, {"pos_weight": weight}, {"weight": p, "pos_weight": weight}]:
            made = F.binary_cross_entropy_with_logits(x, q, reduction=how, **extra)
            given = {"posWeight" if key == "pos_weight" else key: extra[key] for key in extra}
            group.case("bceWithLogits", made, x, q, {**own, **given})
        group.case("klDiv", F.kl_div(x, q, reduction=how), x, q, own)
        target = torch.round(y / 4 * 16) / 16
        made = F.kl_div(x, target, reduction=how, log_target=True)
        group.case("klDiv", made, x, target, {**own, "logTarget": True})
        alike = torch.tensor([1.0, -1, -1]).double()
        made = F.cosine_embedding_loss(x, y, alike, reduction=how)
        group.case("cosineEmbeddingLoss", made, x, y, alike, own)
        made = F.cosine_embedding_loss(x, y, alike, 0.125, reduction=how)
        group.case("cosineEmbeddingLoss", made, x, y, alike, {**own, "margin": 0.125})
        for shape in [(5, 6), (2, 6, 3), (6,)]:
            logits = floats(*shape)
            classes = integers(0, 6, *shape[:1] + shape[2:] if len(shape) > 1 else ())
            weight = floats(6, least=1)
            first = int(classes.flatten()[0])
            for extra in [{}, {"weight": weight}, {"weight": weight, "ignore_index": first}]:
                if extra.get("ignore_index") is not None and len(shape) == 1:
                    continue
                given = {"ignoreIndex" if key == "ignore_index" else key: extra[key] for key in extra}
                logs = floats(*shape)
                made = F.nll_loss(logs, classes, reduction=how, **extra)
                group.case("nllLoss", made, logs, classes, {**own, **given})
                made = F.cross_entropy(logits, classes, reduction=how, **extra)
                group.case("crossEntropy", made, logits, classes, {**own, **given})
                made = F.cross_entropy(
                    logits, classes, reduction=how, label_smoothing=0.25, **extra
                )
                given = {**own, **given, "labelSmoothing": 0.25}
                group.case("crossEntropy", made, logits, classes, given)
            shares = floats(*shape, least=0, most=16)
            made = F.cross_entropy(logits, shares, weight, reduction=how, label_smoothing=0.5)
            given = {**own, "weight": weight, "labelSmoothing": 0.5}
            group.case("crossEntropy", made, logits, shares, given)
            group.case("crossEntropy", F.cross_entropy(logits, shares, reduction=how), logits, shares, own)
    made = F.kl_div(x, q, reduction="batchmean")
    group.case("klDiv", made, x, q, {"reduction": "batchMean"})
    group.case("cosineSimilarity", F.cosine_similarity(x, y), x, y)
    group.case("cosineSimilarity", F.cosine_similarity(x, y, 0), x, y, {"axis": 0})
    zero = x * torch.tensor([[1.0], [0], [1]])
    group.case("cosineSimilarity", F.cosine_similarity(zero, y, 1, 0.5), zero, y, {"epsilon": 0.5})


def grid_sample(group):
    pictures, volumes = floats(2, 3, 5, 4), floats(1, 2, 3, 4, 5)
    places, deep = floats(2, 3, 7, 2, least=-24, most=24), floats(1, 2, 3, 4, 3, least=-24, most=24)
    for padding in ["zeros", "border", "reflection"]:
        for align in [False, True]:
            for mode in ["bilinear", "nearest", "bicubic"]:
                options = {"mode": mode, "paddingMode": padding, "alignCorners": align}
                cases = [(pictures, places)] if mode == "bicubic" else [(pictures, places), (volumes, deep)]
                for x, grid in cases:
                    made = F.grid_sample(x, grid, mode, padding, align)
                    group.case("gridSample", made, x, grid, options, ulps=16, floor=1)
    made = F.grid_sample(pictures, places, align_corners=False)
    group.case("gridSample", made, pictures, places, ulps=16, floor=1)


GROUPS = {
    "interpolate": interpolate,
    "gridSample": grid_sample,
    "loss": loss,
    "pool": pool,
    "activation": activation,
    "norm": norm,
    "embedding": embedding,
    "recurrent": recurrent,
}

for name in sys.argv[1:] or GROUPS:
    rng = np.random.default_rng(list(name.encode()))
    group = Group()
    GROUPS[name](group)
    group.write(name)
