"""Writes tests/golden/grad.json: derivatives of calls, as PyTorch computes them.

    .venv/bin/pip install torch
    .venv/bin/python scripts/golden/grad.py

A case is a call of PyTorch, the same call of rowmajor, and its inputs: "3,4" is float64 of shape
[3, 4] with numbers between -1 and 1, "3:1,2" of numbers between 1 and 2, "3c" of complex numbers. The
derivatives are those of a sum of all elements of all float results with weights; tests/grad/golden_test.ts
computes the same inputs and weights. Derivatives by complex numbers are dL/dRe + i dL/dIm.
"""

import json
import math
from pathlib import Path

import torch
import torch.nn.functional as F

PATH = Path(__file__).parents[2] / "tests/golden/grad.json"

torch.set_default_dtype(torch.float64)
CASES = []


def case(kind, expected, own, x="3,4", **more):
    CASES.append((kind, expected, own, {"x": x, **more}))


# Functions of one number.
for name, spread in [
    *[(n, "-1,1") for n in ["exp", "sin", "cos", "tan", "atan", "sinh", "cosh", "tanh", "asinh"]],
    *[(n, "-0.9,0.9") for n in ["asin", "acos", "atanh"]],
    *[(n, "0.2,3") for n in ["log", "sqrt", "rsqrt", "log2", "log10", "log1p", "reciprocal"]],
    *[(n, "-2,2") for n in ["abs", "neg", "square", "sigmoid", "erf", "exp2", "expm1", "sign"]],
    ("acosh", "1.2,3"), ("floor", "-2,2"), ("relu", "-2,2"),
]:
    case("map", f"x.{name}()", f"x.{name}()", f"3,4:{spread}")
for expected, own, spread in [
    ("F.gelu(x)", "x.gelu()", "-2,2"),
    ("F.gelu(x, approximate='tanh')", "nn.gelu(x, { approximate: 'tanh' })", "-2,2"),
    ("F.silu(x)", "x.silu()", "-2,2"),
    ("F.elu(x, 0.7)", "nn.elu(x, { alpha: 0.7 })", "-2,2"),
    ("F.selu(x)", "nn.selu(x)", "-2,2"),
    ("F.celu(x, 0.5)", "nn.celu(x, { alpha: 0.5 })", "-2,2"),
    ("F.leaky_relu(x)", "nn.leakyRelu(x)", "-2,2"),
    ("F.relu6(x)", "nn.relu6(x)", "-2,8"),
    ("F.softplus(x)", "nn.softplus(x)", "-2,2"),
    ("F.mish(x)", "nn.mish(x)", "-2,2"),
    ("F.hardsigmoid(x)", "nn.hardSigmoid(x)", "-4,4"),
    ("F.hardswish(x)", "nn.hardSwish(x)", "-4,4"),
    ("F.hardtanh(x)", "nn.hardTanh(x)", "-2,2"),
    ("F.logsigmoid(x)", "nn.logSigmoid(x)", "-2,2"),
    ("F.softsign(x)", "nn.softsign(x)", "-2,2"),
    ("F.tanhshrink(x)", "nn.tanhshrink(x)", "-2,2"),
    ("F.glu(x, -1)", "nn.glu(x)", "-2,2"),
    ("F.glu(x, 1)", "nn.glu(x, 1)", "-2,2"),
    ("F.silu(x[:, :2]) * x[:, 2:]", "nn.swiglu(x.slice(':, :2'), x.slice(':, 2:'))", "-2,2"),
    ("x.clamp(-0.5, 0.7)", "x.clip(-0.5, 0.7)", "-1,1"),
    ("x.clamp(min=0.1)", "x.clip(0.1, null)", "-1,1"),
    ("x.pow(3)", "x.pow(3)", "-1,1"),
    ("x.pow(0.5)", "x.pow(0.5)", "0.5,2"),
    ("x.pow(-2)", "x.pow(-2)", "0.5,2"),
    ("2 ** x", "rm.full([3, 4], 2, { dtype: 'float64' }).pow(x)", "-1,1"),
    ("1 / (x + 2)", "x.add(2).reciprocal()", "-1,1"),
    ("torch.lgamma(x)", "rm.special.lgamma(x)", "0.5,3"),
    ("torch.digamma(x)", "rm.special.digamma(x)", "0.5,3"),
    ("torch.erfc(x)", "rm.special.erfc(x)", "-2,2"),
    ("torch.erfinv(x)", "rm.special.erfinv(x)", "-0.8,0.8"),
    ("torch.special.i0(x)", "rm.special.i0(x)", "0.2,3"),
    ("torch.special.i0e(x)", "rm.special.i0e(x)", "0.2,3"),
    ("torch.special.i1(x)", "rm.special.i1(x)", "0.2,3"),
    ("torch.special.ndtr(x)", "rm.special.ndtr(x)", "-2,2"),
    ("torch.special.entr(x)", "rm.special.entr(x)", "0.2,2"),
    ("torch.sinc(x)", "rm.special.sinc(x)", "0.2,1"),
    ("torch.logit(x)", "rm.special.logit(x)", "0.2,0.8"),
    ("F.prelu(x, y)", "nn.prelu(x, y)", "-1,1"),
]:
    more = {"y": "4:0.1,0.4"} if "prelu" in own else {}
    case("map", expected, own, f"3,4:{spread}", **more)

# Functions of two and three numbers, with broadcasting.
for y in ["3,4:0.5,2", "4:0.5,2", "3,1:0.5,2", ":0.5,2"]:
    for expected, own in [
        ("x + y", "x.add(y)"), ("x - y", "x.sub(y)"), ("x * y", "x.mul(y)"), ("x / y", "x.div(y)"),
        ("x ** y", "x.pow(y)"), ("torch.atan2(x, y)", "x.atan2(y)"),
        ("torch.hypot(x, y)", "x.hypot(y)"), ("torch.maximum(x, y)", "x.maximum(y)"),
        ("torch.minimum(x, y)", "x.minimum(y)"),
    ]:
        case("map", expected, own, "3,4:0.4,2", y=y)
for expected, own in [
    ("torch.where(x > 0, x, y)", "rm.where(x.greater(0), x, y)"),
    ("torch.where(x > 0, 0.0, y * x)", "rm.where(x.greater(0), 0, y.mul(x))"),
    ("torch.remainder(x, y + 3)", "x.remainder(y.add(3))"),
    ("torch.logaddexp(x, y)", "x.logaddexp(y)"),
    ("torch.lerp(x, y, z)", "x.add(y.sub(x).mul(z))"),
    ("torch.addcmul(x, y, z)", "x.add(y.mul(z))"),
    ("torch.copysign(x, y)", "x.copysign(y)"),
    ("torch.xlogy(x, y + 2)", "rm.special.xlogy(x, y.add(2))"),
]:
    names = [n for n in ["y", "z"] if n in own.replace("xlogy", "")]
    case("map", expected, own, "3,4", **{n: "3,4" for n in names})

# Reductions and scans.
for axis in [None, 0, -1, (0, 2)]:
    here = "null" if axis is None else str(list(axis) if isinstance(axis, tuple) else axis)
    there = "" if axis is None else f"{axis}"
    for expected, own in [
        (f"x.sum({there})", f"x.sum({here})"),
        (f"x.mean({there})", f"x.mean({here})"),
        (f"x.amax({there})", f"x.max({here})"),
        (f"x.amin({there})", f"x.min({here})"),
        (f"x.var({there or None}, correction=1)", f"x.var({here}, {{ correction: 1 }})"),
        (f"x.std({there or None}, correction=0)", f"x.std({here})"),
        (f"torch.linalg.vector_norm(x, dim={axis})", f"x.norm({here})"),
        (f"torch.logsumexp(x, {axis if axis is not None else (0, 1, 2)})", f"x.logsumexp({here})"),
    ]:
        case("reduce", expected, own, "2,3,4")
for axis in [0, 1, -1]:
    for there, here in [
        ("prod", "prod"), ("cumsum", "cumulativeSum"), ("cumprod", "cumulativeProd"),
        ("softmax", "softmax"), ("log_softmax", "logSoftmax"),
    ]:
        case("reduce", f"x.{there}({axis})", f"x.{here}({axis})", "2,3,4")
    case("reduce", f"x.cummax({axis})[0]", f"x.cumulativeMax({axis})", "2,3,4")
    case("reduce", f"x.median({axis})[0]", f"x.median({axis})", "3,3,5")
case("reduce", "x.prod()", "x.prod()", "2,3")
case("reduce", "x.quantile(0.3, 0)", "x.quantile(0.3, 0)", "5,3")
case("reduce", "x.mean(1, keepdim=True) * x", "x.mean(1, { keepDims: true }).mul(x)")
case("reduce", "torch.linalg.vector_norm(x, 1, 0)", "L.vectorNorm(x, { ord: 1, axis: 0 })")
case("reduce", "torch.linalg.vector_norm(x, 3.0)", "L.vectorNorm(x, { ord: 3 })", "3,4:0.1,1")

# Products.
for x, y in [
    ("3,4", "4,2"), ("2,3,4", "4,5"), ("2,3,4", "2,4,5"), ("3,4", "2,4,5"), ("2,1,3,4", "5,4,2"),
    ("4", "4"), ("4", "4,3"), ("3,4", "4"), ("2,3,4", "4"), ("4", "2,4,3"),
]:
    case("product", "x @ y", "x.matmul(y)", x, y=y)
for equation, x, y in [
    ("ij,jk->ki", "3,4", "4,2"), ("bij,bjk->bik", "2,3,4", "2,4,2"), ("ij,ij->", "3,4", "3,4"),
    ("i,j->ij", "3", "2"), ("bhqd,bhkd->bhqk", "2,2,3,4", "2,2,5,4"), ("ij,kj->ik", "3,4", "2,4"),
]:
    case("product", f"torch.einsum('{equation}', x, y)", f"rm.einsum('{equation}', x, y)", x, y=y)
case("product", "torch.einsum('ii->i', x)", "rm.einsum('ii->i', x)", "3,3")
case("product", "torch.einsum('ij,jk,kl->il', x, y, z)", "rm.einsum('ij,jk,kl->il', x, y, z)", "2,3",
     y="3,4", z="4,2")
case("product", "F.linear(x, y, z)", "x.linear(y, z)", "2,3", y="4,3", z="4")
case("product", "F.relu(F.linear(x, y, z))", "x.linear(y, z, { activation: 'relu' })", "2,3", y="4,3", z="4")
case("product", "F.gelu(F.linear(x, y, z))", "x.linear(y, z, { activation: 'gelu' })", "2,5,3", y="4,3", z="4")
case("product", "torch.outer(x, y)", "x.outer(y)", "3", y="4")
case("product", "torch.kron(x, y)", "rm.kron(x, y)", "2,2", y="2,3")
case("product", "torch.linalg.cross(x, y)", "rm.cross(x, y)", "2,3", y="2,3")
case("product", "torch.tensordot(x, y, ([1], [0]))", "rm.tensordot(x, y, [[1], [0]])", "2,3", y="3,4")
case("product", "torch.trace(x @ x)", "rm.trace(x.matmul(x))", "3,3")

# Convolutions and pooling.
for there, here, x, y, z in [
    ("", "{}", "2,3,9", "4,3,3", "4"), ("stride=2", "{ stride: 2 }", "2,3,9", "4,3,3", "4"),
    ("padding=2, dilation=2", "{ padding: 2, dilation: 2 }", "1,2,7", "3,2,3", "3"),
    ("groups=2", "{ groups: 2 }", "2,4,6", "4,2,3", "4"),
]:
    case("conv", f"F.conv1d(x, y, z, {there})", f"nn.conv1d(x, y, z, {here})", x, y=y, z=z)
for there, here, x, y, z in [
    ("", "{}", "2,3,5,6", "4,3,3,2", "4"), ("padding=1", "{ padding: 1 }", "1,2,5,5", "3,2,3,3", "3"),
    ("stride=2, padding=1", "{ stride: 2, padding: 1 }", "2,2,6,5", "3,2,3,3", "3"),
    ("stride=(2, 1)", "{ stride: [2, 1] }", "1,2,6,5", "3,2,3,3", "3"),
    ("dilation=2", "{ dilation: 2 }", "1,2,7,7", "2,2,3,3", "2"),
    ("groups=4, padding=1", "{ groups: 4, padding: 1 }", "1,4,4,4", "4,1,3,3", "4"),
    ("groups=2", "{ groups: 2 }", "1,4,4,4", "6,2,2,2", "6"),
    ("", "{}", "2,3,4,4", "5,3,1,1", "5"),
]:
    case("conv", f"F.conv2d(x, y, z, {there})", f"nn.conv2d(x, y, z, {here})", x, y=y, z=z)
case("conv", "F.conv3d(x, y, z, padding=1)", "nn.conv3d(x, y, z, { padding: 1 })", "1,2,3,4,3", y="3,2,3,3,3", z="3")
for there, here, x, y, z in [
    ("", "{}", "2,3,4", "3,2,3", "2"),
    ("stride=2, padding=1", "{ stride: 2, padding: 1 }", "1,3,4", "3,2,3", "2"),
]:
    case("conv", f"F.conv_transpose1d(x, y, z, {there})", f"nn.convTranspose1d(x, y, z, {here})", x, y=y, z=z)
for there, here, x, y, z in [
    ("", "{}", "1,3,3,4", "3,2,2,3", "2"), ("stride=2", "{ stride: 2 }", "1,2,3,3", "2,2,3,3", "2"),
    ("stride=2, output_padding=1, padding=1", "{ stride: 2, outputPadding: 1, padding: 1 }", "1,2,3,3", "2,3,3,3", "3"),
    ("groups=2", "{ groups: 2 }", "1,4,3,3", "4,1,2,2", "2"),
]:
    case("conv", f"F.conv_transpose2d(x, y, z, {there})", f"nn.convTranspose2d(x, y, z, {here})", x, y=y, z=z)
for there, here, x in [
    ("F.max_pool1d(x, 2)", "nn.maxPool1d(x, 2)", "2,3,8"),
    ("F.max_pool2d(x, 2)", "nn.maxPool2d(x, 2)", "2,3,6,4"),
    ("F.max_pool2d(x, 3, 1, 1)", "nn.maxPool2d(x, 3, { stride: 1, padding: 1 })", "1,2,5,5"),
    ("F.max_pool2d(x, 2, ceil_mode=True)", "nn.maxPool2d(x, 2, { ceilMode: true })", "1,2,5,5"),
    ("F.max_pool3d(x, 2)", "nn.maxPool3d(x, 2)", "1,2,4,4,4"),
    ("F.avg_pool1d(x, 3, 2)", "nn.avgPool1d(x, 3, { stride: 2 })", "2,3,8"),
    ("F.avg_pool2d(x, 2)", "nn.avgPool2d(x, 2)", "2,3,6,4"),
    ("F.avg_pool2d(x, 3, 2, 1)", "nn.avgPool2d(x, 3, { stride: 2, padding: 1 })", "1,2,5,5"),
    ("F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)",
     "nn.avgPool2d(x, 3, { stride: 2, padding: 1, countIncludePad: false })", "1,2,5,5"),
    ("F.avg_pool3d(x, 2)", "nn.avgPool3d(x, 2)", "1,2,4,4,4"),
    ("F.adaptive_avg_pool2d(x, (2, 3))", "nn.adaptiveAvgPool2d(x, [2, 3])", "1,2,5,7"),
    ("F.adaptive_avg_pool1d(x, 3)", "nn.adaptiveAvgPool1d(x, 3)", "2,2,8"),
    ("F.adaptive_max_pool2d(x, 2)", "nn.adaptiveMaxPool2d(x, 2)", "1,2,5,5"),
    ("F.interpolate(x, (5, 7), mode='bilinear')", "nn.interpolate(x, { size: [5, 7], mode: 'bilinear' })", "1,2,3,4"),
    ("F.interpolate(x, scale_factor=2, mode='nearest')", "nn.interpolate(x, { scaleFactor: 2, mode: 'nearest' })", "1,2,3,4"),
    ("x.unfold(2, 2, 1)", "nn.unfold(x, 2, 2, 1)", "1,2,4,4"),
]:
    case("conv", there, here, x)

# Norms and other layers.
for there, here, x, more in [
    ("F.layer_norm(x, [4], y, z)", "x.layerNorm(-1, { weight: y, bias: z })", "2,3,4", {"y": "4", "z": "4"}),
    ("F.layer_norm(x, [3, 4], y, z)", "x.layerNorm([-2, -1], { weight: y, bias: z })", "2,3,4", {"y": "3,4", "z": "3,4"}),
    ("F.layer_norm(x, [4])", "x.layerNorm(-1)", "3,4", {}),
    ("F.rms_norm(x, [4], y, 1e-5)", "x.rmsNorm(-1, { weight: y, epsilon: 1e-5 })", "2,3,4", {"y": "4"}),
    ("F.group_norm(x, 2, y, z)", "nn.groupNorm(x, 2, { weight: y, bias: z })", "2,4,3", {"y": "4", "z": "4"}),
    ("F.instance_norm(x, weight=y, bias=z)", "nn.instanceNorm(x, { weight: y, bias: z })", "2,3,5", {"y": "3", "z": "3"}),
    ("F.batch_norm(x, y.detach(), y.detach() + 2, y, z)",
     "nn.batchNorm(x, stop(y), stop(y).add(2), { weight: y, bias: z })", "2,3,5", {"y": "3", "z": "3"}),
    ("F.batch_norm(x, None, None, y, z, training=True)",
     "nn.batchNorm(x, stop(y), stop(y), { weight: y, bias: z, training: true }).value", "4,3,5", {"y": "3", "z": "3"}),
    ("F.batch_norm(x, None, None, training=True)", "nn.batchNorm(x, rm.ones([3]), rm.ones([3]), { training: true }).value", "4,3", {}),
    ("F.local_response_norm(x, 3)", "nn.localResponseNorm(x, 3)", "2,4,3", {}),
    ("F.normalize(x, dim=1)", "x.div(x.norm(1, { keepDims: true }))", "3,4", {}),
    ("F.embedding(i([[1, 2], [2, 0]]), x)", "nn.embedding(i([[1, 2], [2, 0]]), x)", "3,4", {}),
    ("F.scaled_dot_product_attention(x, y, z)", "nn.attention(x, y, z)", "2,2,3,4", {"y": "2,2,5,4", "z": "2,2,5,4"}),
    ("F.scaled_dot_product_attention(x, y, z, is_causal=True)", "nn.attention(x, y, z, { causal: true })",
     "1,2,4,4", {"y": "1,2,4,4", "z": "1,2,4,4"}),
    ("F.scaled_dot_product_attention(x, y, z, attn_mask=x @ y.mT)", "nn.attention(x, y, z, { mask: x.matmul(y.mT) })",
     "1,2,3,4", {"y": "1,2,5,4", "z": "1,2,5,4"}),
    ("F.scaled_dot_product_attention(x, y, z, enable_gqa=True)", "nn.attention(x, y, z)",
     "1,4,3,4", {"y": "1,2,5,4", "z": "1,2,5,4"}),
]:
    case("layer", there, here, x, **more)

# Losses.
for how in ["mean", "sum", "none"]:
    for there, here in [
        ("F.mse_loss(x, y", "nn.mseLoss(x, y"), ("F.l1_loss(x, y", "nn.l1Loss(x, y"),
        ("F.smooth_l1_loss(x, y", "nn.smoothL1Loss(x, y"), ("F.huber_loss(x, y", "nn.huberLoss(x, y"),
        ("F.binary_cross_entropy_with_logits(x, y", "nn.bceWithLogits(x, y"),
        ("F.kl_div(x, y", "nn.klDiv(x, y"),
    ]:
        case("loss", f"{there}, reduction='{how}')", f"{here}, {{ reduction: '{how}' }})", "3,4", y="3,4:0.1,0.9")
    case("loss", f"F.binary_cross_entropy(x, y, reduction='{how}')",
         f"nn.binaryCrossEntropy(x, y, {{ reduction: '{how}' }})", "3,4:0.1,0.9", y="3,4:0.1,0.9")
    case("loss", f"F.cross_entropy(x, i([1, 0, 3]), reduction='{how}')",
         f"nn.crossEntropy(x, i([1, 0, 3]), {{ reduction: '{how}' }})", "3,4")
    case("loss", f"F.nll_loss(x, i([1, 0, 3]), reduction='{how}')",
         f"nn.nllLoss(x, i([1, 0, 3]), {{ reduction: '{how}' }})", "3,4")
case("loss", "F.cross_entropy(x, i([1, -100, 3]), label_smoothing=0.1)",
     "nn.crossEntropy(x, i([1, -100, 3]), { labelSmoothing: 0.1 })", "3,4")
case("loss", "F.cross_entropy(x, i([1, 0, 3]), y.detach())",
     "nn.crossEntropy(x, i([1, 0, 3]), { weight: stop(y) }).add(y.sum().mul(0))", "3,4", y="4:0.5,2")
case("loss", "F.cross_entropy(x, i([[1, 0], [3, 2]]))", "nn.crossEntropy(x, i([[1, 0], [3, 2]]))", "2,4,2")
case("loss", "F.cosine_similarity(x, y)", "nn.cosineSimilarity(x, y)", "3,4", y="3,4")
case("loss", "F.cosine_embedding_loss(x, y, i([1, -1, 1]))", "nn.cosineEmbeddingLoss(x, y, i([1, -1, 1]).astype('float64'))", "3,4", y="3,4")

# Indices, order, shapes.
for there, here, x, more in [
    ("x[1]", "x.slice(1)", "3,4", {}),
    ("x[:, 1:3]", "x.slice(':, 1:3')", "3,4", {}),
    ("x[::2, ::3]", "x.slice('::2, ::3')", "3,4", {}),
    ("x[i([2, 0, 2])]", "x.slice(i([2, 0, 2]))", "3,4", {}),
    ("x[i([0, 1]), i([3, 3])]", "x.slice(i([0, 1]), i([3, 3]))", "3,4", {}),
    ("x[:, i([1, 1])]", "x.slice(':', i([1, 1]))", "3,4", {}),
    ("x[x > 0]", "x.slice(stop(x).greater(0))", "3,4", {}),
    ("x.index_select(1, i([3, 0, 3]))", "x.take(i([3, 0, 3]), 1)", "3,4", {}),
    ("x.gather(1, i([[0, 0], [1, 2], [3, 3]]))", "x.takeAlongAxis(i([[0, 0], [1, 2], [3, 3]]), 1)", "3,4", {}),
    ("x.scatter(1, i([[0], [1], [3]]), y)", "put(x, (c) => c.putAlongAxis_(i([[0], [1], [3]]), y, 1))", "3,4", {"y": "3,1"}),
    ("x.scatter_add(0, i([[0, 0, 1, 2], [0, 1, 1, 0]]), y)",
     "put(x, (c) => c.putAlongAxis_(i([[0, 0, 1, 2], [0, 1, 1, 0]]), y, 0, { accumulate: true }))", "3,4", {"y": "2,4"}),
    ("x.index_add(0, i([0, 2, 0]), y)", "put(x, (c) => c.set([i([0, 2, 0])], y, { accumulate: true }))", "3,4", {"y": "3,4"}),
    ("x.index_put((i([0, 2]),), y)", "put(x, (c) => c.set([i([0, 2])], y))", "3,4", {"y": "2,4"}),
    ("x.masked_fill(x > 0.2, 3.0)", "rm.where(x.greater(0.2), 3, x)", "3,4", {}),
    ("x.sort(0)[0]", "x.sort(0)", "4,3", {}),
    ("x.sort(1, descending=True)[0]", "x.sort(1, { descending: true })", "4,3", {}),
    ("x.topk(2, 1)[0]", "x.topk(2, 1).values", "3,4", {}),
    ("x.reshape(2, 6).T", "x.reshape([2, 6]).T", "3,4", {}),
    ("x.permute(2, 0, 1)", "x.permute(2, 0, 1)", "2,3,4", {}),
    ("x.flip(1) * x", "x.flip(1).mul(x)", "3,4", {}),
    ("x.roll(1, 0)", "x.roll(1, 0)", "3,4", {}),
    ("x.expand(2, 3, 4)", "x.broadcastTo([2, 3, 4])", "3,4", {}),
    ("x.repeat(2, 1)", "x.tile([2, 1])", "3,4", {}),
    ("x.repeat_interleave(2, 1)", "x.repeat(2, 1)", "3,4", {}),
    ("torch.cat([x, y, x], 1)", "rm.concat([x, y, x], 1)", "3,4", {"y": "3,2"}),
    ("torch.stack([x, y], 1)", "rm.stack([x, y], 1)", "3,4", {"y": "3,4"}),
    ("x.unbind(1)", "x.unstack(1)", "3,4", {}),
    ("F.pad(x, (1, 2))", "x.pad([[0, 0], [1, 2]])", "3,4", {}),
    ("F.pad(x[None], (1, 2), mode='reflect')", "x.pad([[0, 0], [1, 2]], { mode: 'reflect' })", "3,4", {}),
    ("x.tril()", "x.tril()", "3,4", {}),
    ("x.triu(1)", "x.triu(1)", "3,4", {}),
    ("x.diagonal()", "x.diagonal()", "3,4", {}),
    ("torch.diff(x)", "x.slice(':, 1:').sub(x.slice(':, :-1'))", "3,4", {}),
    ("x.unfold(1, 2, 1)", "rm.stack([0, 1, 2].map((k) => x.slice(':', `${k}:${k + 2}`)), 1)", "3,4", {}),
]:
    case("index", there, here, x, **more)

# Linear algebra.
S, s = "(x @ x.mT + torch.eye(3))", "x.matmul(x.mT).add(rm.eye(3, { dtype: 'float64' }))"
for there, here, x, more in [
    ("torch.linalg.inv(x)", "L.inv(x)", "3,3", {}),
    ("torch.linalg.inv(x)", "L.inv(x)", "2,3,3", {}),
    ("torch.linalg.det(x)", "L.det(x)", "2,3,3", {}),
    ("torch.linalg.slogdet(x)", "L.slogdet(x)", "3,3", {}),
    ("torch.linalg.solve(x, y)", "L.solve(x, y)", "3,3", {"y": "3,2"}),
    ("torch.linalg.solve(x, y)", "L.solve(x, y)", "3,3", {"y": "3"}),
    ("torch.linalg.solve_triangular(x, y, upper=False)", "L.solveTriangular(x, y)", "3,3:0.5,1", {"y": "3,2"}),
    ("torch.linalg.solve_triangular(x, y, upper=True)", "L.solveTriangular(x, y, { upper: true })", "3,3:0.5,1", {"y": "3,2"}),
    (f"torch.linalg.cholesky{S}", f"L.cholesky({s})", "3,3", {}),
    (f"torch.linalg.cholesky{S}", f"L.cholesky({s})", "2,3,3", {}),
    (f"torch.linalg.eigvalsh{S}", f"L.eigvalsh({s})", "3,3", {}),
    (f"torch.linalg.eigh{S}[1].abs()", f"L.eigh({s}).eigenvectors.abs()", "3,3", {}),
    ("torch.linalg.svdvals(x)", "L.svdvals(x)", "3,4", {}),
    ("torch.linalg.svd(x, full_matrices=False)[0].abs()", "L.svd(x, { fullMatrices: false }).u.abs()", "4,3", {}),
    ("torch.linalg.svd(x, full_matrices=False)[2].abs()", "L.svd(x, { fullMatrices: false }).vh.abs()", "4,3", {}),
    ("[m.abs() for m in torch.linalg.qr(x)]", "Object.values(L.qr(x)).map((m) => m.abs())", "4,3", {}),
    ("torch.linalg.pinv(x)", "L.pinv(x)", "4,3", {}),
    ("torch.linalg.matrix_exp(x)", "L.expm(x)", "3,3", {}),
    ("torch.linalg.matrix_norm(x)", "L.matrixNorm(x)", "3,4", {}),
    ("torch.linalg.matrix_power(x, 3)", "L.matrixPower(x, 3)", "3,3", {}),
]:
    case("linalg", there, here, x, **more)

# Complex numbers.
for name in [
    *["exp", "log", "sqrt", "sin", "cos", "tan", "tanh", "sinh", "cosh", "asin", "atan", "abs", "angle"],
    *["square", "reciprocal", "conj", "rsqrt"],
]:
    case("complex", f"x.{name}()", f"x.{name}()", "4c")
for there, here, x, more in [
    ("x.real", "x.real()", "4c", {}),
    ("x.imag", "x.imag()", "4c", {}),
    ("torch.complex(x, y)", "rm.complex(x, y)", "4", {"y": "4"}),
    ("x * y", "x.mul(y)", "3,4c", {"y": "4c"}),
    ("x * y", "x.mul(y)", "3,4c", {"y": "4"}),
    ("x / y", "x.div(y)", "4c", {"y": "4c"}),
    ("x ** y", "x.pow(y)", "4c", {"y": "4c"}),
    ("x.abs().square().sum()", "x.abs().square().sum()", "4c", {}),
    ("x.sum(0)", "x.sum(0)", "3,4c", {}),
    ("x.prod(0)", "x.prod(0)", "3,4c", {}),
    ("x.cumprod(0)", "x.cumulativeProd(0)", "3,2c", {}),
    ("x @ y", "x.matmul(y)", "2,3c", {"y": "3,2c"}),
    ("x @ x.mH", "x.matmul(x.conj().mT)", "2,3c", {}),
    ("torch.linalg.inv(x)", "L.inv(x)", "3,3c", {}),
    ("torch.linalg.det(x)", "L.det(x)", "3,3c", {}),
    ("torch.linalg.solve(x, y)", "L.solve(x, y)", "3,3c", {"y": "3,2c"}),
    ("torch.linalg.svdvals(x)", "L.svdvals(x)", "3,2c", {}),
    ("torch.linalg.eigvalsh(x @ x.mH)", "L.eigvalsh(x.matmul(x.conj().mT))", "3,3c", {}),
    ("torch.fft.fft(x)", "rm.fft.fft(x)", "2,5c", {}),
    ("torch.fft.ifft(x)", "rm.fft.ifft(x)", "2,4c", {}),
    ("torch.fft.fft(x, n=6)", "rm.fft.fft(x, { n: 6 })", "2,4", {}),
    ("torch.fft.rfft(x)", "rm.fft.rfft(x)", "2,6", {}),
    ("torch.fft.rfft(x)", "rm.fft.rfft(x)", "2,5", {}),
    ("torch.fft.irfft(x)", "rm.fft.irfft(x)", "4c", {}),
    ("torch.fft.irfft(x, n=5)", "rm.fft.irfft(x, { n: 5 })", "3c", {}),
    ("torch.fft.fft2(x)", "rm.fft.fft2(x)", "3,4c", {}),
    ("torch.fft.fft(x, norm='ortho')", "rm.fft.fft(x, { norm: 'ortho' })", "4c", {}),
]:
    case("complex", there, here, x, **more)

# Samples at places, and values that are combined.
for mode in ["bilinear", "nearest", "bicubic"]:
    for padding in ["zeros", "border", "reflection"]:
        for corners in ["False", "True"]:
            case(
                "sample",
                f"F.grid_sample(x, y, mode='{mode}', padding_mode='{padding}', align_corners={corners})",
                f"nn.gridSample(x, y, {{ mode: '{mode}', paddingMode: '{padding}', alignCorners: {corners.lower()} }})",
                "2,2,3,4", y="2,2,3,2:-1.9,1.9",
            )
case("sample", "F.grid_sample(x, y, align_corners=False)", "nn.gridSample(x, y)", "1,2,2,3,4", y="1,2,1,2,3:-1.3,1.3")
for reduce, own in [("sum", "sum"), ("prod", "prod"), ("amax", "max"), ("amin", "min"), ("mean", "mean")]:
    for includes in ["True", "False"]:
        for equal in [False, True]:
            # Integers, of which some are equal, with the slope 1. PyTorch counts elements that do not count.
            if equal and includes == "False" and own in ["max", "min"]:
                continue
            theirs = [f"({n} - {n}.detach() + {n}.detach().round())" if equal else n for n in "xy"]
            ours = [f"{n}.sub(stop({n})).add(stop({n}).round())" if equal else n for n in "xy"]
            places = "i([[0, 0, 2, 2], [2, 2, 2, 0]])"
            case(
                "index",
                f"{theirs[0]}.scatter_reduce(1, {places}, {theirs[1]}, '{reduce}', include_self={includes})",
                f"rm.scatterReduce({ours[0]}, {places}, {ours[1]}, '{own}', {{ axis: 1, includeSelf: {includes.lower()} }})",
                "2,3:-2,2", y="2,4:-2,2",
            )
case("linalg", "torch.linalg.qr(x)", "Object.values(L.qr(x))", "2,4")
case("linalg", "torch.linalg.qr(x).R", "L.qr(x).r", "2,2,3")

# Lengths, norms and axes of Fourier transforms.
for norm in ["backward", "ortho", "forward"]:
    ours = f"norm: '{norm}'"
    for there, here, x in [
        (f"torch.fft.fft(x, norm='{norm}')", f"rm.fft.fft(x, {{ {ours} }})", "2,5c"),
        (f"torch.fft.fft(x, n=3, norm='{norm}')", f"rm.fft.fft(x, {{ n: 3, {ours} }})", "5"),
        (f"torch.fft.ifft(x, n=7, norm='{norm}')", f"rm.fft.ifft(x, {{ n: 7, {ours} }})", "5"),
        (f"torch.fft.rfft(x, n=7, norm='{norm}')", f"rm.fft.rfft(x, {{ n: 7, {ours} }})", "2,5"),
        (f"torch.fft.rfft(x, n=4, norm='{norm}')", f"rm.fft.rfft(x, {{ n: 4, {ours} }})", "2,5"),
        (f"torch.fft.irfft(x, n=7, norm='{norm}')", f"rm.fft.irfft(x, {{ n: 7, {ours} }})", "2,3c"),
        (f"torch.fft.irfft(x, n=4, norm='{norm}')", f"rm.fft.irfft(x, {{ n: 4, {ours} }})", "2,5c"),
        (f"torch.fft.hfft(x, n=5, norm='{norm}')", f"rm.fft.hfft(x, {{ n: 5, {ours} }})", "3c"),
        (f"torch.fft.ihfft(x, n=5, norm='{norm}')", f"rm.fft.ihfft(x, {{ n: 5, {ours} }})", "6"),
        (f"torch.fft.rfftn(x, dim=(0, 1), norm='{norm}')", f"rm.fft.rfftn(x, {{ axes: [0, 1], {ours} }})", "3,5"),
        (f"torch.fft.irfftn(x, s=(3, 5), norm='{norm}')", f"rm.fft.irfftn(x, {{ s: [3, 5], axes: [0, 1], {ours} }})", "3,3c"),
    ]:
        case("fft", there, here, x)
for there, here, x in [
    ("torch.fft.fft(x, dim=0)", "rm.fft.fft(x, { axis: 0 })", "3,2c"),
    ("torch.fft.fft(x.mT)", "rm.fft.fft(x.mT)", "3,2c"),
    ("torch.fft.fftn(x)", "rm.fft.fftn(x)", "3,2,5"),
    ("torch.fft.ifftn(x, dim=(0, 2))", "rm.fft.ifftn(x, { axes: [0, 2] })", "3,2,5c"),
    ("torch.fft.fftshift(x)", "rm.fft.fftshift(x)", "3,5c"),
    ("torch.fft.ifft(torch.fft.fft(x) * torch.fft.fft(x.flip(0))).real", "rm.fft.ifft(rm.fft.fft(x).mul(rm.fft.fft(x.flip(0)))).real()", "7"),
    ("torch.fft.fft(x).abs().square()", "rm.fft.fft(x).abs().square()", "9"),
    ("torch.fft.rfft(x, n=1)", "rm.fft.rfft(x, { n: 1 })", "4"),
    ("torch.fft.irfft(x, n=1)", "rm.fft.irfft(x, { n: 1 })", "3c"),
    ("torch.fft.irfft(x, n=2)", "rm.fft.irfft(x, { n: 2 })", "3c"),
    ("torch.fft.fft(x)", "rm.fft.fft(x)", "1c"),
]:
    case("fft", there, here, x)

# Chains of complex numbers.
for there, here, x, more in [
    ("(x * x.conj()).real.sqrt()", "x.mul(x.conj()).real().sqrt()", "4c", {}),
    ("torch.exp(1j * x)", "rm.complex(x.mul(0), x).exp()", "4", {}),
    ("torch.polar(x, y)", "rm.complex(x.mul(y.cos()), x.mul(y.sin()))", "4:0.5,1", {"y": "4"}),
    ("(x / x.abs()).angle()", "x.div(x.abs()).angle()", "4c", {}),
    ("x.sgn()", "x.sign()", "4c", {}),
    ("x.var(0)", "x.var(0, { correction: 1 })", "4,2c", {}),
    ("x.std(1)", "x.std(1, { correction: 1 })", "2,4c", {}),
    ("torch.linalg.vector_norm(x)", "x.norm()", "4c", {}),
    ("torch.linalg.vector_norm(x, 3.0)", "L.vectorNorm(x, { ord: 3 })", "4c", {}),
    ("torch.linalg.vector_norm(x, 1.0)", "L.vectorNorm(x, { ord: 1 })", "4c", {}),
    ("torch.linalg.vector_norm(x, float('inf'))", "L.vectorNorm(x, { ord: Infinity })", "4c", {}),
    ("x.pow(3)", "x.pow(3)", "4c", {}),
    ("x.pow(0.5)", "x.pow(0.5)", "4c", {}),
    ("2 ** x", "rm.tensor(2, { dtype: 'float64' }).pow(x)", "4c", {}),
    ("x.pow(y)", "x.pow(y)", "4:0.5,2", {"y": "4c"}),
    ("x.cumsum(0).abs()", "x.cumulativeSum(0).abs()", "4c", {}),
    ("torch.where(x.real > 0, x, y)", "rm.where(x.real().greater(0), x, y)", "4c", {"y": "4c"}),
    ("x.mean(0) * y", "x.mean(0).mul(y)", "4,2c", {"y": "2"}),
    ("torch.einsum('ij,kj->ik', x, y.to(x.dtype))", "rm.einsum('ij,kj->ik', x, y)", "2,3c", {"y": "4,3"}),
    ("torch.view_as_real(x)", "rm.stack([x.real(), x.imag()], -1)", "2,3c", {}),
    ("(x.to(y.dtype) @ y).abs()", "x.matmul(y).abs()", "2,3", {"y": "3,2c"}),
    ("x.sigmoid()", "x.neg().exp().add(1).reciprocal()", "4c", {}),
    ("x.acos()", "x.acos()", "4c", {}),
    ("x.acosh()", "x.acosh()", "4c", {}),
    ("x.asinh()", "x.asinh()", "4c", {}),
    ("x.atanh()", "x.atanh()", "4c", {}),
    ("x.cosh()", "x.cosh()", "4c", {}),
    ("x.log2()", "x.log2()", "4c", {}),
    ("x.log10()", "x.log10()", "4c", {}),
    ("x.log1p()", "x.log1p()", "4c", {}),
    ("x.expm1()", "x.expm1()", "4c", {}),
]:
    case("complex", there, here, x, **more)

# Matrices that are not square, batches that broadcast, and complex factors.
C, c = "(x @ x.mH + torch.eye(3))", "x.matmul(x.conj().mT).add(rm.eye(3, { dtype: 'float64' }))"
for there, here, x, more in [
    ("torch.linalg.solve(x, y)", "L.solve(x, y)", "2,3,3", {"y": "2,3,1"}),
    ("torch.linalg.solve(x, y)", "L.solve(x, y)", "2,3,3", {"y": "3,2"}),
    ("torch.linalg.solve(x, y)", "L.solve(x, y)", "3,3", {"y": "2,3,2"}),
    ("torch.linalg.solve_triangular(x, y, upper=True, unitriangular=True)", "L.solveTriangular(x, y, { upper: true, unitDiagonal: true })", "3,3", {"y": "3,2"}),
    ("torch.linalg.solve_triangular(x, y, upper=False)", "L.solveTriangular(x, y)", "3,3:0.5,1", {"y": "2,3,2"}),
    ("torch.linalg.slogdet(x)", "L.slogdet(x)", "2,3,3", {}),
    ("torch.linalg.slogdet(x)", "L.slogdet(x)", "3,3c", {}),
    (f"torch.linalg.cholesky{C}", f"L.cholesky({c})", "3,3c", {}),
    (f"torch.linalg.cholesky({S}, upper=True)", f"L.cholesky({s}, {{ upper: true }})", "3,3", {}),
    (f"torch.linalg.eigh{C}[1].abs()", f"L.eigh({c}).eigenvectors.abs()", "3,3c", {}),
    (f"torch.linalg.eigh({S}, UPLO='U')[0]", f"L.eigh({s}).eigenvalues", "2,3,3", {}),
    ("torch.linalg.svd(x, full_matrices=False)[0].abs()", "L.svd(x, { fullMatrices: false }).u.abs()", "4,3c", {}),
    ("torch.linalg.svd(x, full_matrices=False)[2].abs()", "L.svd(x, { fullMatrices: false }).vh.abs()", "3,4c", {}),
    ("torch.linalg.svd(x)[0].abs()", "L.svd(x).u.abs()", "3,3", {}),
    ("torch.linalg.svd(x, full_matrices=False)[1]", "L.svd(x, { fullMatrices: false }).s", "2,2,3", {}),
    ("torch.linalg.pinv(x)", "L.pinv(x)", "3,4", {}),
    ("torch.linalg.pinv(x)", "L.pinv(x)", "2,3,2", {}),
    ("torch.linalg.pinv(x)", "L.pinv(x)", "3,2c", {}),
    ("torch.linalg.matrix_exp(x)", "L.expm(x)", "2,2,2", {}),
    ("torch.linalg.matrix_exp(x)", "L.expm(x)", "2,2c", {}),
    ("torch.linalg.matrix_norm(x, 'nuc')", "L.matrixNorm(x, { ord: 'nuc' })", "3,4", {}),
    ("torch.linalg.matrix_norm(x, 2)", "L.matrixNorm(x, { ord: 2 })", "3,4", {}),
    ("torch.linalg.matrix_norm(x, -2)", "L.matrixNorm(x, { ord: -2 })", "3,4", {}),
    ("torch.linalg.matrix_norm(x, 1)", "L.matrixNorm(x, { ord: 1 })", "3,4", {}),
    ("torch.linalg.matrix_norm(x, float('inf'))", "L.matrixNorm(x, { ord: Infinity })", "2,3,4", {}),
    ("torch.linalg.matrix_power(x, -2)", "L.matrixPower(x, -2)", "3,3", {}),
    ("torch.linalg.matrix_power(x, 0) * x", "L.matrixPower(x, 0).mul(x)", "3,3", {}),
    ("torch.linalg.lstsq(x, y)[0]", "L.lstsq(x, y).x", "4,3", {"y": "4,2"}),
    ("torch.linalg.multi_dot([x, y, x])", "L.multiDot([x, y, x])", "2,3", {"y": "3,2"}),
    ("torch.trace(x)", "L.trace(x)", "3,4", {}),
    ("torch.linalg.cond(x)", "L.cond(x)", "3,3", {}),
    ("torch.kron(x, y)", "rm.kron(x, y)", "2,3", {"y": "2,2"}),
    ("torch.linalg.vecdot(x, y)", "L.vecdot(x, y)", "2,3c", {"y": "2,3c"}),
    ("torch.outer(x, y)", "L.outer(x, y)", "3c", {"y": "2"}),
    ("torch.cov(x)", "rm.cov(x)", "2,5", {}),
    ("torch.corrcoef(x)", "rm.corrcoef(x)", "2,5", {}),
    ("torch.linalg.inv(x)", "L.inv(x)", "1,1", {}),
    ("torch.linalg.eigvalsh(x)", "L.eigvalsh(x)", "1,1", {}),
]:
    case("linalg", there, here, x, **more)

# Matrices with equal singular values and of lower rank, with the slope 1.
for at, here, x in [
    ("torch.eye(3, 3)", "rm.eye(3, { dtype: 'float64' })", "3,3"),
    ("torch.eye(4, 2)", "rm.eye(4, 2, { dtype: 'float64' })", "4,2"),
    ("torch.eye(2, 4)", "rm.eye(2, 4, { dtype: 'float64' })", "2,4"),
    ("torch.ones(3, 2)", "rm.ones([3, 2], { dtype: 'float64' })", "3,2"),
    ("torch.zeros(2, 3)", "rm.zeros([2, 3], { dtype: 'float64' })", "2,3"),
    ("2j * torch.eye(3, 2)", "rm.complex(rm.zeros([3, 2], { dtype: 'float64' }), rm.eye(3, 2, { dtype: 'float64' }).mul(2))", "3,2c"),
]:
    there, own = f"(x - x.detach() + {at})", f"x.sub(stop(x)).add({here})"
    case("linalg", f"torch.linalg.pinv({there})", f"L.pinv({own})", x)
    if "zeros" not in at:
        rows = x.split(",")[0]
        case("linalg", f"torch.linalg.lstsq({there}, y, driver='gelsd')[0]", f"L.lstsq({own}, y).x", x, y=f"{rows},2{'c' * ('c' in x)}")
case("linalg", "(lambda r: (y - x @ r).abs().square().sum(0))(torch.linalg.lstsq(x, y)[0])", "L.lstsq(x, y).residuals", "4,2", y="4,3")
case("linalg", "torch.linalg.svdvals(x)", "L.lstsq(x, y).s.add(y.sum().mul(0))", "4,2", y="4,3")

# Convolutions of small groups.
for there, own, x, y in [
    ("groups=3", "groups: 3", "2,3,5,6", "3,1,3,2"),
    ("groups=3, padding=(1, 2)", "groups: 3, padding: [1, 2]", "1,3,5,6", "6,1,2,3"),
    ("groups=2, padding=1", "groups: 2, padding: 1", "2,6,5,4", "4,3,3,3"),
    ("groups=4, padding=1, dilation=(2, 1)", "groups: 4, padding: 1, dilation: [2, 1]", "1,8,7,4", "4,2,3,2"),
    ("groups=3, stride=2", "groups: 3, stride: 2", "1,3,6,7", "3,1,3,3"),
    ("groups=3, stride=(2, 3), padding=1", "groups: 3, stride: [2, 3], padding: 1", "2,3,8,8", "6,1,3,2"),
    ("groups=2, stride=2, padding=1, dilation=2", "groups: 2, stride: 2, padding: 1, dilation: 2", "1,2,9,7", "4,1,2,3"),
    ("groups=2, stride=3", "groups: 2, stride: 3", "1,2,8,7", "2,1,2,1"),
    ("groups=2, stride=2, padding=1", "groups: 2, stride: 2, padding: 1", "1,4,6,6", "2,2,3,3"),
    ("groups=2, padding=2", "groups: 2, padding: 2", "1,2,3,4", "2,1,1,2"),
]:
    case("conv", f"F.conv2d(x, y, {there})", f"nn.conv2d(x, y, undefined, {{ {own} }})", x, y=y)
case("conv", "F.conv1d(x, y, stride=2, groups=4)", "nn.conv1d(x, y, undefined, { stride: 2, groups: 4 })", "2,4,9", y="4,1,3")
case("conv", "F.conv3d(x, y, groups=2, stride=(1, 2, 1))", "nn.conv3d(x, y, undefined, { groups: 2, stride: [1, 2, 1] })", "1,2,3,5,4", y="2,1,2,3,2")


def numbers(seed):
    state = float(seed)
    while True:
        state = math.fmod(state * 1103515245.0 + 12345.0, 2147483648.0)
        yield state / 2147483648.0


def made(spec, random):
    sizes, _, spread = spec.partition(":")
    is_complex = sizes.endswith("c")
    shape = [int(one) for one in sizes.rstrip("c").split(",") if one]
    low, high = [float(one) for one in spread.split(",")] if spread else (-1.0, 1.0)
    count = math.prod(shape)

    def part():
        return torch.tensor([low + (high - low) * next(random) for _ in range(count)]).reshape(shape)

    x = torch.complex(part(), part()) if is_complex else part()
    return x.requires_grad_()


def floats_in(value):
    if isinstance(value, torch.Tensor):
        return [value] if value.is_floating_point() or value.is_complex() else []
    return [x for one in value for x in floats_in(one)]


def weighted(results):
    total = 0
    for count, result in enumerate(results, 1):
        real = torch.view_as_real(result.resolve_conj()) @ torch.tensor([0.7, 1.0]) if result.is_complex() else result
        weights = torch.tensor([math.sin(k * 1.7 + count) for k in range(real.numel())])
        total = total + (real.reshape(-1) * weights).sum()
    return total


def rounded(gradient, x):
    if gradient is None:
        gradient = torch.zeros_like(x)
    flat = (torch.view_as_real(gradient.resolve_conj()) if gradient.is_complex() else gradient).reshape(-1)
    return [float(f"{value:.7g}") for value in flat.tolist()]


def main():
    out = []
    for seed, (kind, expected, own, specs) in enumerate(CASES, 1):
        random = numbers(seed)
        inputs = {name: made(spec, random) for name, spec in specs.items()}
        scope = {"torch": torch, "F": F, "i": lambda data: torch.tensor(data), **inputs}
        loss = weighted(floats_in(eval(expected, scope)))
        if loss.requires_grad:
            loss.backward()
        gradients = [rounded(x.grad, x) for x in inputs.values()]
        out.append({"kind": kind, "torch": expected, "call": own, "inputs": specs, "seed": seed, "gradients": gradients})
    PATH.write_text("[\n" + ",\n".join(json.dumps(one, separators=(",", ":")) for one in out) + "\n]\n")
    print(len(out), "cases,", PATH.stat().st_size, "bytes")


main()
