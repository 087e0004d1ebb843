"""Write tests/golden/primitives.json: float primitives on random and special doubles.

Finite results are correctly rounded from mpmath; non-finite arguments, zeros and the ops that are
exact in floating point follow NumPy. Each primitive has random numbers of its own, so that a new one
adds lines and changes no other. Needs: pip install numpy mpmath. Run from the repository root.
"""

import json
import math
import os
import random
from fractions import Fraction

import numpy as np
from mpmath import mp, mpf

mp.prec = 256
np.seterr(all="ignore")

SPECIAL = [0.0, 5e-324, 2.2250738585072014e-308, 1e-300, 1e-20, 1e-8, 1e-3, 0.25, 0.5, 1.0, 1.5, 2.0,
           2.5, 3.5, 709.5, 1e10, 4503599627370497.5, 1e22, 1.7976931348623157e308, math.inf]
SPECIAL = SPECIAL + [-v for v in SPECIAL] + [math.nan]


def to_double(v):
    """Round an mpf to the nearest double, denormals included."""
    if v == 0:
        return 0.0
    if not mp.isfinite(v):
        return float(v)
    if mp.fabs(v) < mpf(2) ** -1100:
        return math.copysign(0.0, v)
    if mp.fabs(v) > mpf(2) ** 1025:
        return math.copysign(math.inf, v)
    sign, man, exp, _ = v._mpf_
    man = int(man)
    try:
        d = float(Fraction(man) * Fraction(2) ** exp)
    except OverflowError:
        d = math.inf
    return -d if sign else d


def uniform(lo, hi):
    return lambda: random.uniform(lo, hi)


def log_uniform(lo, hi, signed=True):
    return lambda: (random.choice([-1, 1]) if signed else 1) * 2 ** random.uniform(lo, hi)


WIDE = [uniform(-8, 8), log_uniform(-60, 10)]
ANY = [uniform(-8, 8), log_uniform(-1074, 1023)]
POSITIVE = [uniform(0, 4), log_uniform(-1074, 1023, False)]
UNIT = [uniform(-1, 1), log_uniform(-60, -1)]


def sigmoid(x):
    return 1 / (1 + mp.exp(-x))


def erfc64(x):
    return mpf(0) if x > 40 else mpf(2) if x < -40 else mp.erfc(x)


def gelu(x):
    return x * erfc64(-x / mp.sqrt(2)) / 2


def np_power(x, y):
    # Two exponents keep NumPy off its short cut by sqrt, which gets -0.0 and -inf wrong.
    return np.power([x, x], [y, 3.0])[0]


def np_sigmoid(x):
    return 1 / (1 + np.exp(-x))


UNARY = {
    "exp": (mp.exp, np.exp, [uniform(-745, 710), *WIDE]),
    "expm1": (mp.expm1, np.expm1, [uniform(-40, 710), *WIDE]),
    "exp2": (lambda x: mpf(2) ** x, np.exp2, [uniform(-1075, 1024), *WIDE]),
    "log": (mp.log, np.log, [uniform(0.5, 2), *POSITIVE]),
    "log1p": (mp.log1p, np.log1p, [uniform(-1, 1), log_uniform(-60, 1023, False)]),
    "log2": (lambda x: mp.log(x) / mp.log(2), np.log2, [uniform(0.5, 2), *POSITIVE]),
    "log10": (mp.log10, np.log10, [uniform(0.5, 2), *POSITIVE]),
    "sqrt": (mp.sqrt, np.sqrt, POSITIVE),
    "sin": (mp.sin, np.sin, [uniform(-100, 100), *ANY]),
    "cos": (mp.cos, np.cos, [uniform(-100, 100), *ANY]),
    "tan": (mp.tan, np.tan, [uniform(-100, 100), *ANY]),
    "asin": (mp.asin, np.arcsin, UNIT),
    "acos": (mp.acos, np.arccos, UNIT),
    "atan": (mp.atan, np.arctan, ANY),
    "sinh": (mp.sinh, np.sinh, [uniform(-710, 710), *WIDE]),
    "cosh": (mp.cosh, np.cosh, [uniform(-710, 710), *WIDE]),
    "tanh": (mp.tanh, np.tanh, WIDE),
    "asinh": (mp.asinh, np.arcsinh, ANY),
    "acosh": (mp.acosh, np.arccosh, [uniform(1, 3), log_uniform(0, 1023, False)]),
    "atanh": (mp.atanh, np.arctanh, UNIT),
    "erf": (mp.erf, None, [uniform(-2, 2), uniform(-6, 6), log_uniform(-1000, 3)]),
    "sigmoid": (sigmoid, np_sigmoid, [uniform(-745, 40), *WIDE]),
    "silu": (lambda x: x * sigmoid(x), lambda x: x * np_sigmoid(x), [uniform(-700, 40), *WIDE]),
    "gelu": (gelu, None, [uniform(-37, 9), *WIDE]),
}
# Non-finite arguments of the functions that NumPy lacks; gelu(-inf) is -inf * 0.
LIMITS = {
    "erf": {math.inf: 1.0, -math.inf: -1.0, 0.0: 0.0},
    "gelu": {math.inf: math.inf, -math.inf: math.nan, 0.0: 0.0},
}
EXACT_UNARY = {
    "fabs": np.abs, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint,
    "sign": np.sign, "signbit": np.signbit, "isnan": np.isnan, "isinf": np.isinf,
    "isfinite": np.isfinite,
}


def logaddexp(x, y):
    return mp.log(mp.exp(x) + mp.exp(y))


BINARY = {
    "pow": (mp.power, np_power, [uniform(0, 40), uniform(-8, 8)], [uniform(-150, 150), uniform(-2, 2)]),
    "atan2": (mp.atan2, np.arctan2, ANY, ANY),
    "hypot": (mp.hypot, np.hypot, ANY, ANY),
    "logaddexp": (logaddexp, np.logaddexp, [uniform(-40, 40)], [uniform(-40, 40)]),
}
def ldexp(x, y):
    return y if np.isnan(y) else np.ldexp(x, int(np.clip(np.trunc(y), -4000, 4000)))


EXACT_BINARY = {
    "copysign": np.copysign, "maximum": np.maximum, "minimum": np.minimum,
    "ffloordiv": np.floor_divide, "fmod": np.remainder, "frem": np.fmod, "ldexp": ldexp,
    "nextafter64": np.nextafter,
}
HALVES = {"nextafter32": np.float32, "nextafter16": np.float16}


def draw(generators, n):
    return [g() for g in generators for _ in range(-(-n // len(generators)))]


def unary(name, exact, limit, x):
    if exact is not None and math.isfinite(x) and x != 0:
        try:
            y = exact(mpf(x))
            return math.nan if isinstance(y, mp.mpc) else to_double(y)
        except (ValueError, ZeroDivisionError):
            pass
    if limit is not None:
        return float(limit(np.float64(x)))
    table = LIMITS[name]
    return math.nan if math.isnan(x) else math.copysign(table[x], x) if table[x] == 0 else table[x]


def binary(exact, limit, x, y):
    if exact is not None and all(math.isfinite(v) and v != 0 for v in (x, y)):
        extreme = exact is logaddexp and max(abs(x), abs(y)) > 800
        if exact is mp.power and abs(x) != 1:
            extreme = abs(float(y) * math.log2(abs(x))) > 1100
        if not extreme:
            r = exact(mpf(x), mpf(y))
            return math.nan if isinstance(r, mp.mpc) and r.imag != 0 else to_double(mpf(r.real))
    return float(limit(np.float64(x), np.float64(y)))


def number(v):
    v = float(v)
    if math.isnan(v):
        return "nan"
    if math.isinf(v):
        return "inf" if v > 0 else "-inf"
    return v


def column(vs):
    return [number(v) for v in vs]


out = {"unary": {}, "binary": {}, "special": {}}
for name, (exact, limit, generators) in UNARY.items():
    random.seed(name)
    xs = SPECIAL + draw(generators, 60)
    out["unary"][name] = [column(xs), column(unary(name, exact, limit, x) for x in xs)]
for name, f in EXACT_UNARY.items():
    random.seed(name)
    xs = SPECIAL + draw([uniform(-8, 8), lambda: random.randrange(-16, 16) / 2], 20)
    out["unary"][name] = [column(xs), column(f(np.float64(x)) for x in xs)]

GRID = [(x, y) for x in SPECIAL for y in SPECIAL if {abs(x), abs(y)} <= {
    0.0, 5e-324, 0.5, 1.0, 2.5, 3.5, 1e22, 1.7976931348623157e308, math.inf}
    or x != x or y != y]
GRID = [p for p in GRID if not any(abs(v) in (1e-300, 1e-20, 1e-8, 1e-3, 0.25, 1.5, 2.0, 709.5, 1e10,
                                              4503599627370497.5, 2.2250738585072014e-308) for v in p)]
for name, (exact, limit, gx, gy) in BINARY.items():
    random.seed(name)
    pairs = list(zip(draw(gx, 80), draw(gy, 80)))
    xs, ys = zip(*pairs)
    out["binary"][name] = [column(xs), column(ys), column(binary(exact, limit, *p) for p in pairs)]
    out["special"][name] = column(binary(exact, limit, *p) for p in GRID)
for name, f in EXACT_BINARY.items():
    random.seed(name)
    pairs = list(zip(draw([uniform(-8, 8), lambda: random.randrange(-64, 64) / 4], 60),
                     draw([uniform(-2, 2), lambda: random.randrange(-8, 8) / 4], 60)))
    xs, ys = zip(*pairs)
    out["binary"][name] = [column(xs), column(ys), column(f(np.float64(x), np.float64(y)) for x, y in pairs)]
    out["special"][name] = column(f(np.float64(x), np.float64(y)) for x, y in GRID)
out["grid"] = [column(x for x, _ in GRID), column(y for _, y in GRID)]
for name, t in HALVES.items():
    random.seed(name)
    tops = [t(v) for v in (0, 1, -1, 2, 0.5, np.inf, -np.inf, np.nan)]
    tops += [np.finfo(t).max, np.finfo(t).tiny, np.finfo(t).smallest_subnormal, -np.finfo(t).max]
    tops += [t(random.uniform(-100, 100)) for _ in range(6)]
    pairs = [(x, y) for x in tops for y in tops]
    out["binary"][name] = [column(x for x, _ in pairs), column(y for _, y in pairs),
                           column(np.nextafter(x, y) for x, y in pairs)]

path = os.path.join("tests", "golden", "primitives.json")
with open(path, "w") as f:
    lines = [json.dumps(k) + ":{\n" + ",\n".join(
        f"{json.dumps(n)}:{json.dumps(v, separators=(',', ':'))}" for n, v in part.items()) + "\n}"
        for k, part in out.items() if k != "grid"]
    f.write("{\n" + ",\n".join(lines) + ',\n"grid":' + json.dumps(out["grid"]) + "\n}\n")
print(path, os.path.getsize(path), "bytes")
