"""Writes tests/golden/optim.json: parameters after steps of PyTorch's optimizers.

    .venv/bin/pip install torch
    .venv/bin/python scripts/golden/optim.py

The derivatives of step t are sin(t · i + 1) for element i of all parameters.
"""

import json
import math
from pathlib import Path

import torch

PATH = Path(__file__).parents[2] / "tests/golden/optim.json"
SHAPES = [[2, 3], [4]]
STEPS = 7

CASES = [
    ("sgd", {"learningRate": 0.1}),
    ("sgd", {"learningRate": 0.1, "momentum": 0.9}),
    ("sgd", {"learningRate": 0.05, "momentum": 0.8, "nesterov": True, "weightDecay": 0.1}),
    ("adam", {"learningRate": 0.01}),
    ("adam", {"learningRate": 0.02, "betas": [0.8, 0.95], "epsilon": 1e-6, "weightDecay": 0.1}),
    ("adamw", {"learningRate": 0.01}),
    ("adamw", {"learningRate": 0.03, "weightDecay": 0.2, "betas": [0.7, 0.9]}),
]

NAMES = {
    "learningRate": "lr",
    "momentum": "momentum",
    "nesterov": "nesterov",
    "weightDecay": "weight_decay",
    "betas": "betas",
    "epsilon": "eps",
}
OPTIMIZERS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}


def run(name, options):
    """The parameters after all steps, flat."""
    params = []
    for shape in SHAPES:
        count = math.prod(shape)
        data = [math.cos(i) for i in range(count)]
        tensor = torch.tensor(data, dtype=torch.float64).reshape(shape)
        params.append(tensor.requires_grad_())
    optimizer = OPTIMIZERS[name](params, **{NAMES[key]: value for key, value in options.items()})
    for step in range(1, STEPS + 1):
        for param in params:
            data = [math.sin(step * i + 1) for i in range(param.numel())]
            param.grad = torch.tensor(data, dtype=torch.float64).reshape(param.shape)
        optimizer.step()
    return [param.detach().flatten().tolist() for param in params]


def main():
    cases = [
        {"name": name, "options": options, "params": run(name, options)} for name, options in CASES
    ]
    PATH.write_text(json.dumps({"shapes": SHAPES, "steps": STEPS, "cases": cases}) + "\n")


main()
