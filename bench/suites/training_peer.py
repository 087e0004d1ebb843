"""Steps of training in PyTorch, with the numbers of training.ts.

    training_peer.py NAME --threads=N --level= MODEL

NAME is `PyTorch` or `torch.compile`: the loss and its derivatives as compiled code, and Adam as one kernel.
MODEL is JSON: the group, and the shapes and ranges of parameters, inputs and classes. Prints the figures as
JSON. `uniform` and `start` are those of peer.py.
"""

import json
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "harness"))
import torch
import torch.nn.functional as F
from peer import PEER, peak_bytes, start, uniform

WARM, BATCHES = 5, 9
MODEL = json.loads(sys.argv[4])


def tensor(numbers, stream):
    shape, low, high = numbers
    return torch.from_numpy(uniform(shape, stream, low, high))


def linear(x, p, name):
    return F.linear(x, p[f"{name}.w"], p[f"{name}.b"])


def perceptron(p, x):
    last = len(p) // 2 - 1
    for i in range(last + 1):
        x = linear(x, p, i)
        if i < last:
            x = F.relu(x)
    return x


def convolutions(p, x):
    x = F.relu(F.conv2d(x, p["c1.w"], p["c1.b"], padding=1))
    x = F.relu(F.conv2d(x, p["c2.w"], p["c2.b"], padding=1))
    return linear(F.relu(linear(F.max_pool2d(x, 2).flatten(1), p, "f1")), p, "f2")


def transformer(p, ids):
    x = F.embedding(ids, p["characters"]) + p["places"]
    b, t, d = x.shape

    def norm(x, name):
        return F.layer_norm(x, (d,), p[f"{name}.w"], p[f"{name}.b"])

    for i in range(2):
        y = linear(norm(x, f"{i}.n1"), p, f"{i}.qkv")
        q, k, v = y.view(b, t, 3, 4, d // 4).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d)
        x = x + linear(y, p, f"{i}.join")
        x = x + linear(F.gelu(linear(norm(x, f"{i}.n2"), p, f"{i}.up")), p, f"{i}.down")
    return linear(norm(x, "n"), p, "head").flatten(0, 1)


def main():
    about = start()
    if "error" in about:
        sys.exit(about["error"])
    group, params = MODEL["group"], {}
    for i, (name, numbers) in enumerate(MODEL["params"].items()):
        params[name] = tensor(numbers, i).requires_grad_()
    x, classes = tensor(MODEL["inputs"], len(params)), tensor(MODEL["classes"], len(params) + 1).long()
    x = x.long() if group == "transformer" else x
    scores = {"M": perceptron, "C": convolutions, "t": transformer}[group[0]]

    def loss(p, x, classes):
        return F.cross_entropy(scores(p, x), classes)

    compiled = PEER == "torch.compile"
    if compiled:
        loss = torch.compile(loss, dynamic=False)
    adam = torch.optim.Adam(list(params.values()), lr=1e-3, fused=compiled)

    def step():
        adam.zero_grad()
        value = loss(params, x, classes)
        value.backward()
        adam.step()
        return value.item()

    def timed(calls):
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(calls):
            step()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        return {"wall": wall * 1e9 / calls, "cpu": cpu * 1e9 / calls}

    first = timed(1)
    losses = [step() for _ in range(WARM)]
    one = timed(1)["wall"]
    calls = max(1, round(2e7 / one))
    each = sorted((timed(calls) for _ in range(BATCHES)), key=lambda figure: figure["wall"])
    figures = {"first step": first, "step": each[BATCHES // 2]}
    if not compiled:
        figures["step of single ops"] = figures["step"]
    figures["largest resident memory"] = {"wall": peak_bytes()}
    print(json.dumps({"figures": figures, "result": losses, **about}))


main()
