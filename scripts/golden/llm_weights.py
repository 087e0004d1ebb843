"""The weights of golden models: a formula of a tensor's name and an element's index.

    .venv/bin/pip install torch numpy

tests/llm/models.ts has the same formula, so that no file of weights is needed.
"""

import base64

import numpy as np
import torch


def text(array):
    """Base64 of float32."""
    return base64.b64encode(np.ascontiguousarray(array, "<f4").tobytes()).decode()


def hashes(name, count):
    """32 bits for each of `count` elements of a tensor."""
    seed = 0x811C9DC5
    for letter in name.encode():
        seed = (seed ^ letter) * 0x01000193 % 2**32
    x = np.arange(count, dtype=np.uint32) * np.uint32(0x9E3779B9) + np.uint32(seed)
    x = (x ^ x >> 16) * np.uint32(0x85EBCA6B)
    x = (x ^ x >> 13) * np.uint32(0xC2B2AE35)
    return x ^ x >> 16


def weight(name, shape):
    """Multiples of 2^-17."""
    unit = (hashes(name, np.prod(shape)) >> 16).astype(np.float64) / 32768 - 1
    made = 1 + unit / 4 if "norm" in name else unit / (1 if "embed" in name else 4)
    return torch.from_numpy(made.astype(np.float32).reshape(shape))


def mxfp4(name, shape):
    """Bytes of two numbers of 4 bits, and exponents that give numbers of up to 0.75."""
    x = hashes(name, np.prod(shape)) >> 24
    made = 121 + x % 4 if name.endswith("_scales") else x
    return torch.from_numpy(made.astype(np.uint8).reshape(shape))
