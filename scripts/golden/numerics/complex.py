"""
Writes NumPy's results for complex numbers to tests/golden/complex/complex.json.

Operands are complex128 numbers that complex64 represents, so that both dtypes are compared with
them. Numbers are float64 in base64: real and imaginary parts in turn.

    .venv/bin/pip install numpy
    .venv/bin/python scripts/golden/numerics/complex.py
"""

import base64
import json
import pathlib

import numpy as np

UNARY = {
    "neg": np.negative,
    "conj": np.conj,
    "square": np.square,
    "reciprocal": np.reciprocal,
    "sign": np.sign,
    "sqrt": np.sqrt,
    "exp": np.exp,
    "expm1": np.expm1,
    "exp2": np.exp2,
    "log": np.log,
    "log1p": np.log1p,
    "log2": np.log2,
    "log10": np.log10,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "abs": np.abs,
    "angle": np.angle,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "logicalNot": np.logical_not,
}

BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "pow": np.power,
    "equal": np.equal,
    "notEqual": np.not_equal,
}


def packed(values):
    """The numbers in base64: pairs of complex numbers, and one number each of others."""
    values = np.ascontiguousarray(values)
    if values.dtype.kind != "c":
        values = values.astype(np.float64)
    return base64.b64encode(values.tobytes()).decode()


def main():
    rng = np.random.default_rng(7)
    size = 40
    angles = rng.uniform(-np.pi, np.pi, size)
    radii = np.exp(rng.uniform(-3, 2, size))
    common = radii * np.exp(1j * angles)
    # On the axes, near the unit circle, and on both sides of branch cuts.
    common[:8] = [1, -1, 1j, -1j, 2, -2, 0.5 + 0j, 3j]
    common[8:12] = [0.6 + 0.8j, -0.8 + 0.6j, 1 + 1e-4j, 0.99999 - 1e-3j]
    common = common.astype(np.complex64).astype(np.complex128)
    other = np.roll(common, 7) * (0.5 - 0.25j)
    other[12:16] = [2, 3, -1, 0.5]
    other = other.astype(np.complex64).astype(np.complex128)
    parts = np.array([-np.inf, -1, -0.0, 0.0, 1, np.inf, np.nan])
    special = np.empty(49, np.complex128)
    special.real, special.imag = np.repeat(parts, 7), np.tile(parts, 7)
    special = special.astype(np.complex128)
    with np.errstate(all="ignore"):
        data = {
            "x": packed(common),
            "y": packed(other),
            "special": packed(special),
            "unary": {name: packed(f(common)) for name, f in UNARY.items()},
            "specials": {name: packed(f(special)) for name, f in UNARY.items()},
            "binary": {name: packed(f(common, other)) for name, f in BINARY.items()},
            "reduced": {
                "sum": packed(common.reshape(5, 8).sum(0)),
                "prod": packed(common.reshape(5, 8).prod(0)),
                "mean": packed(common.reshape(5, 8).mean(0)),
                "var": packed(common.reshape(5, 8).var(0)),
                "std": packed(common.reshape(5, 8).std(0)),
                "norm": packed(np.linalg.norm(common.reshape(5, 8), axis=0)),
                "cumulativeSum": packed(common.reshape(5, 8).cumsum(0)),
                "cumulativeProd": packed(common.reshape(5, 8).cumprod(0)),
            },
            "matmul": packed(common.reshape(5, 8) @ other.reshape(8, 5)),
        }
    path = pathlib.Path(__file__).parents[3] / "tests/golden/complex/complex.json"
    path.write_text(json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    main()
