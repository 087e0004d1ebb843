"""Writes tests/golden/fft/transforms.json: Fourier transforms by NumPy, in double precision.

Element i of an input is ((7919 i + 11) mod 129 - 64) / 64, its imaginary part the same of
((6007 i + 29) mod 129 - 64) / 64: every float dtype has these numbers. Each case is [name, kind of
input, shape of input, options, shape of result, numbers of result]. Complex results have two numbers
for each element. Of long results, only every `step` numbers are kept, from the first on: then the
case ends with the step and the largest absolute value. Needs: pip install numpy.
"""

import json
import sys

import numpy as np


def real(shape):
    i = np.arange(int(np.prod(shape)), dtype=np.int64)
    return (((7919 * i + 11) % 129 - 64) / 64).reshape(shape)


def complex_(shape):
    i = np.arange(int(np.prod(shape)), dtype=np.int64)
    return real(shape) + 1j * (((6007 * i + 29) % 129 - 64) / 64).reshape(shape)


cases = []


def add(name, kind, shape, step=1, **options):
    x = real(shape) if kind == "real" else complex_(shape)
    y = getattr(np.fft, name)(x, **options)
    flat = np.ascontiguousarray(y).reshape(-1)
    numbers = flat.view(np.float64) if np.iscomplexobj(flat) else flat
    kept = [float(f"{v:.16g}") + 0.0 for v in numbers[::step]]
    case = [name, kind, list(shape), options, list(y.shape), kept]
    if step > 1:
        case += [step, float(np.abs(numbers).max())]
    cases.append(case)


ONE = ["fft", "ifft", "rfft", "ihfft", "irfft", "hfft"]
KIND = {"rfft": "real", "ihfft": "real", "rfftn": "real", "rfft2": "real"}
kind_of = lambda name: KIND.get(name, "complex")

for n in (1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 16, 17, 31, 37, 60, 64):
    for name in ONE:
        if name in ("irfft", "hfft"):
            add(name, "complex", (n // 2 + 1,), n=n)
        else:
            add(name, kind_of(name), (n,))
for n in (100, 127, 243, 512, 1000, 1009, 1024, 2018, 4096, 6561, 10007, 16384, 65536, 65537, 100000):
    for name in ("fft", "ifft", "rfft", "irfft"):
        if name == "irfft":
            add(name, "complex", (n // 2 + 1,), step=max(1, n // 16) | 1, n=n)
        else:
            add(name, kind_of(name), (n,), step=max(1, n // 8) | 1)
for norm in ("backward", "ortho", "forward"):
    for name in ONE:
        add(name, kind_of(name), (6,), norm=norm)
for n in (1, 2, 5, 9):
    for name in ONE:
        add(name, kind_of(name), (6,), n=n)
        add(name, kind_of(name), (4, 3), n=n, axis=0)
for axis in (0, 1, 2, -1, -2):
    for name in ONE:
        add(name, kind_of(name), (3, 2, 4), axis=axis)
# Many transforms of a length, along the last axis and across others, of which not all fill a vector.
for shape, axis in (((20, 5), 1), ((9, 16), 1), ((35, 12), 1), ((40, 7), 1), ((5, 20), 0), ((16, 9), 0),
                    ((12, 35), 0), ((2, 9, 11), 1), ((2, 37, 5), 1)):
    for name in ("fft", "rfft", "irfft"):
        add(name, kind_of(name), shape, step=7, axis=axis)
for name in ("fftn", "ifftn", "rfftn", "irfftn"):
    add(name, kind_of(name), (4, 5))
    add(name, kind_of(name), (2, 3, 4))
    add(name, kind_of(name), (2, 3, 4), axes=[0, 2])
    add(name, kind_of(name), (2, 3, 4), axes=[2, 0])
    add(name, kind_of(name), (2, 3, 4), axes=[1])
    add(name, kind_of(name), (2, 3, 4), s=[3, 2, 5], axes=[0, 1, 2])
    add(name, kind_of(name), (2, 3, 4), s=[2, 6], axes=[-1, 0])
    add(name, kind_of(name), (2, 3, 4), s=[-1, 3], axes=[1, 2])
    for norm in ("ortho", "forward"):
        add(name, kind_of(name), (3, 4), norm=norm)
for name in ("fft2", "ifft2", "rfft2", "irfft2"):
    add(name, kind_of(name), (2, 3, 4))
    add(name, kind_of(name), (3, 4), s=[4, 3])
    add(name, kind_of(name), (3, 4, 2), axes=[0, 1])
    add(name, kind_of(name), (4, 6), norm="ortho")
    add(name, kind_of(name), (24, 20), step=11)

frequencies = [
    [name, n, d, getattr(np.fft, name)(n, d).tolist()]
    for name in ("fftfreq", "rfftfreq")
    for n in (1, 2, 5, 8)
    for d in (1, 0.1)
]
shifts = [
    [name, list(shape), axes, getattr(np.fft, name)(np.arange(np.prod(shape)).reshape(shape), axes).tolist()]
    for name in ("fftshift", "ifftshift")
    for shape, axes in (((5,), None), ((4,), None), ((2, 3), None), ((3, 4), 1), ((3, 4), [0]), ((3, 5), [0, 1]))
]
json.dump({"cases": cases, "frequencies": frequencies, "shifts": shifts}, sys.stdout, separators=(",", ":"))
print()
