"""Writes tests/golden/models/resnet.json: ResNets of random weights, and how pictures are prepared.

    .venv/bin/pip install numpy torch
    .venv/bin/python scripts/golden/resnet.py

Weights and pictures are made of integers by `hashed` here and in tests/classify_image/random_model.ts.
Results are PyTorch's in float64, as base64: logits, and every eleventh pixel of prepared pictures.
The modules are torchvision's ResNet with basic blocks, by its names.
"""

import base64
import json
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

PATH = Path(__file__).parents[2] / "tests/golden/models/resnet.json"
PICTURES = ((400, 300), (301, 455), (90, 60), (256, 256))  # width, height


def hashed(seed, count):
    """Numbers from 0 to 2^32, the same for each seed."""
    h = np.arange(count, dtype=np.uint32) * np.uint32(0x9E3779B1)
    h += np.uint32(seed * 0x85EBCA77 & 0xFFFFFFFF)
    h ^= h >> 15
    h *= np.uint32(0x2C1B3C6D)
    h ^= h >> 12
    h *= np.uint32(0x297A2D39)
    return h ^ (h >> 15)


def uniform(seed, shape, low, high):
    share = (hashed(seed, int(np.prod(shape))) >> 8) / 2.0**24
    return torch.from_numpy((low + share * (high - low)).astype(np.float32).reshape(shape))


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            conv = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.downsample = nn.Sequential(conv, nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
        return (y + (x if self.downsample is None else self.downsample(x))).relu()


class ResNet(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        for stage in range(4):
            outputs = width * 2**stage
            inputs, stride = (outputs // 2, 2) if stage > 0 else (outputs, 1)
            blocks = Block(inputs, outputs, stride), Block(outputs, outputs, 1)
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(8 * width, classes)

    def forward(self, x):
        x = F.max_pool2d(self.bn1(self.conv1(x)).relu(), 3, 2, 1)
        for stage in range(4):
            x = getattr(self, f"layer{stage + 1}")(x)
        return self.fc(x.mean((2, 3)))


def random_model(width, classes):
    model = ResNet(width, classes)
    state = {}
    names = sorted(name for name in model.state_dict() if "num_batches" not in name)
    for seed, name in enumerate(names):
        shape = tuple(model.state_dict()[name].shape)
        low, high = -0.1, 0.1
        if len(shape) > 1:
            high = float(np.sqrt((6 if len(shape) == 4 else 1) / np.prod(shape[1:])))
            low = -high
        elif name.endswith("bn2.weight"):
            # What blocks add is small, so that results are about 1.
            low, high = 0.1, 0.3
        elif name.endswith("var") or name.endswith("weight"):
            low, high = 0.5, 1.5
        state[name] = uniform(seed, shape, low, high)
    model.load_state_dict(state, strict=False)
    return model.double().eval()


def picture(seed, width, height):
    """Noise on a slope: all frequencies, and large parts that differ."""
    noise = (hashed(seed, width * height * 3) >> 26).reshape(height, width, 3).astype(np.int64)
    y, x, c = np.ogrid[:height, :width, :3]
    return torch.from_numpy((x * 150 // width + y * 40 // height + c * 2 + noise) % 256)


def prepare(x):
    """torchvision's Resize(256), CenterCrop(224) and Normalize, without rounding to bytes."""
    x = x.permute(2, 0, 1)[None].double() / 255
    shorter = min(x.shape[2:])
    size = [int(256 * n / shorter) for n in x.shape[2:]]
    x = F.interpolate(x, size, mode="bilinear", antialias=True, align_corners=False)
    top, left = (int(round((n - 224) / 2.0)) for n in size)
    x = x[:, :, top : top + 224, left : left + 224]
    mean, deviation = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    return (x - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(deviation).view(3, 1, 1)


def encode(x, dtype):
    return base64.b64encode(x.numpy().astype(dtype).tobytes()).decode()


def main():
    torch.set_default_dtype(torch.float64)
    prepared = [prepare(picture(i, *size)) for i, size in enumerate(PICTURES)]
    golden = {"prepared": [], "models": []}
    for (width, height), x in zip(PICTURES, prepared):
        part = encode(x[0, :, ::11, ::11], "<f4")
        golden["prepared"].append({"width": width, "height": height, "every11": part})
    torch.set_default_dtype(torch.float32)
    for width, classes in ((8, 12), (64, 1000)):
        model = random_model(width, classes)
        with torch.no_grad():
            logits = torch.cat([model(x) for x in prepared[:2]])
        golden["models"].append({"width": width, "classes": classes, "logits": encode(logits, "<f8")})
    PATH.write_text(json.dumps(golden, indent=1) + "\n")


main()
