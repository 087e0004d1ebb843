"""Writes tests/golden/fft/signal.json: convolutions and polynomials by NumPy.

Vectors of a case are (k i + 3) mod m - m // 2 for small k and m, which every dtype has; complex ones
have the same in reverse as imaginary parts. Needs: pip install numpy.
"""

import json
import sys

import numpy as np


def vector(n, k, m, dtype):
    x = (k * np.arange(n) + 3) % m - m // 2
    if dtype == "bool":
        return x > 0
    if dtype.startswith("u"):
        x = np.abs(x)
    if dtype.startswith("complex"):
        return (x + 1j * x[::-1]).astype(dtype)
    return x.astype(dtype)


def numbers(y):
    y = np.ascontiguousarray(y)
    if np.iscomplexobj(y):
        y = y.view(y.real.dtype)
    return [int(v) if v == int(v) else float(v) for v in y.reshape(-1).tolist()]


convolutions = []
SIZES = [(1, 1), (2, 1), (1, 3), (5, 3), (3, 5), (6, 4), (4, 6), (40, 7), (17, 33)]
for name in ("convolve", "correlate"):
    for mode in ("full", "same", "valid"):
        for n, m in SIZES:
            for dtype in ("float64", "complex128"):
                a, v = vector(n, 5, 9, dtype), vector(m, 4, 7, dtype)
                convolutions.append([name, mode, n, m, dtype, numbers(getattr(np, name)(a, v, mode))])
        for dtype in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint32"):
            a, v = vector(12, 25, 127, dtype), vector(5, 29, 101, dtype)
            if dtype == "bool":
                a, v = vector(12, 5, 9, dtype), vector(5, 4, 7, dtype)
            convolutions.append([name, mode, 12, 5, dtype, numbers(getattr(np, name)(a, v, mode))])

values = []
for p in ([], [2], [1, -2], [3, 0, 1, -1]):
    x = np.arange(-3, 4)
    values.append([p, x.tolist(), np.polyval(p, x).tolist()])

fits = []
x = np.array([-2, -1.5, 0, 0.5, 1, 3, 4.5])
y = np.array([1, 0, -2, 3, 8, 1, 0.25])
w = np.array([1, 2, 0.5, 1, 1, 3, 0.25])
for degree in range(5):
    fits.append([degree, None, x.tolist(), y.tolist(), np.polyfit(x, y, degree).tolist()])
    fits.append([degree, w.tolist(), x.tolist(), y.tolist(), np.polyfit(x, y, degree, w=w).tolist()])
two = np.stack([y, y[::-1]], axis=1)
fits.append([2, None, x.tolist(), two.tolist(), np.polyfit(x, two, 2).tolist()])

json.dump({"convolutions": convolutions, "values": values, "fits": fits}, sys.stdout, separators=(",", ":"))
print()
