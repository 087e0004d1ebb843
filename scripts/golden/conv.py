"""Writes tests/golden/nn/conv.json: PyTorch's convolutions in double precision, of random sizes.

    .venv/bin/pip install numpy torch
    .venv/bin/python scripts/golden/conv.py

Elements are small integers divided by 8, so that they are exact in every dtype; a case has them as
text, one character each.
"""

import json
import random
from pathlib import Path

import torch
import torch.nn.functional as F

PATH = Path(__file__).parents[2] / "tests/golden/nn/conv.json"
PLAIN = [F.conv1d, F.conv2d, F.conv3d]
TRANSPOSED = [F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d]
LETTERS = "abcdefghijklmnopq"


def made(shape):
    """Values from -1 to 1, as a tensor and as text."""
    values = [random.randrange(17) for _ in range(torch.Size(shape).numel())]
    text = "".join(LETTERS[v] for v in values)
    return (torch.tensor(values, dtype=torch.float64) - 8).reshape(shape) / 8, text


def case(size, kernel, images, groups, channels, rows, bias, transposed, **options):
    rank = len(size)
    x, x_text = made([images, groups * channels, *size])
    shape = [groups * channels, rows] if transposed else [groups * rows, channels]
    weight, weight_text = made([*shape, *kernel])
    b, b_text = made([groups * rows]) if bias else (None, "")
    run = (TRANSPOSED if transposed else PLAIN)[rank - 1]
    torch_options = {
        "output_padding" if key == "outputPadding" else key: value for key, value in options.items()
    }
    y = run(x, weight, b, groups=groups, **torch_options)
    # Sums of products of eighths.
    result = [round(v * 64) for v in y.flatten().tolist()]
    assert all(v / 64 == w for v, w in zip(result, y.flatten().tolist()))
    return {
        "x": [list(x.shape), x_text],
        "weight": [list(weight.shape), weight_text],
        "bias": b_text,
        "transposed": transposed,
        "options": {"groups": groups, **options},
        "y": [list(y.shape), result],
    }


def random_case(rank, transposed):
    while True:
        sizes = [1, 2, 3, 5, 7, 8, 9, 13, 17] if rank < 3 else [1, 2, 3, 5, 6]
        size = [random.choice(sizes) for _ in range(rank)]
        kernel = [random.choice([1, 1, 2, 3, 3, 5]) for _ in range(rank)]
        stride = [random.choice([1, 1, 2, 3]) for _ in range(rank)]
        padding = [random.choice([0, 1, 2]) for _ in range(rank)]
        dilation = [random.choice([1, 1, 2]) for _ in range(rank)]
        window = [d * (k - 1) + 1 for d, k in zip(dilation, kernel)]
        options = {"stride": stride, "padding": padding, "dilation": dilation}
        if transposed:
            extra = [random.randrange(max(s, d)) for s, d in zip(stride, dilation)]
            options["outputPadding"] = extra
            out = [
                (n - 1) * s - 2 * p + w + e
                for n, s, p, w, e in zip(size, stride, padding, window, extra)
            ]
            if min(out) < 1:
                continue
        elif any(n + 2 * p < w for n, p, w in zip(size, padding, window)):
            continue
        groups = random.choice([1, 1, 2, 3])
        channels, rows = random.choice([1, 1, 2, 5]), random.choice([1, 2, 3, 7])
        images, bias = random.choice([1, 2]), random.random() < 0.5
        made = case(size, kernel, images, groups, channels, rows, bias, transposed, **options)
        if len(made["x"][1]) <= 1000 and len(made["y"][1]) <= 600:
            return made


def main():
    random.seed(30)
    cases = [random_case(rank, False) for rank in (1, 2, 3) for _ in range(24)]
    cases += [random_case(rank, True) for rank in (1, 2, 3) for _ in range(12)]
    # Several passes and blocks, rows that are shorter and longer than vectors, and depthwise ones.
    one = {"stride": 1, "padding": 1, "dilation": 1}
    cases += [
        case([18, 19], [3, 3], 1, 1, 40, 14, True, False, **one),
        case([7, 7], [3, 3], 1, 1, 40, 9, False, False, **one),
        case([1, 70], [1, 1], 1, 1, 330, 5, True, False, **{**one, "padding": 0}),
        case([20, 37], [3, 3], 1, 3, 1, 1, True, False, **one),
        case([20, 37], [3, 3], 1, 3, 1, 2, True, False, **{**one, "stride": 2}),
    ]
    PATH.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(one, separators=(",", ":")) for one in cases)
    PATH.write_text(f"[\n{lines}\n]\n")


main()
