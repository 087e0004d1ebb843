"""Writes tests/golden/ops: what every row of the op table gives for every dtype, by NumPy.

    python3 -m venv .venv && .venv/bin/pip install numpy ml_dtypes mpmath scipy
    node_modules/.bin/deno run scripts/golden/table_json.ts | .venv/bin/python scripts/golden/ops.py

Needs NumPy 2. The `numpy` expression of a row is evaluated on special values and on random ones
from the row's domain: float16, bfloat16 and float32 in float64, float64 in long double where the
row has a tolerance, integers in their own dtype; the result is then rounded to the row's result
dtype. Where rowmajor means something else than NumPy, DIFFERENCES says so and why; that list is
written to differences.json too. The same table gives the same files.

One file for each dtype. Arrays are little-endian bytes in base64, row-major.
"""

import base64
import hashlib
import itertools
import json
import random
import sys
import warnings
from pathlib import Path

import ml_dtypes
import numpy as np
import scipy.special
from mpmath import mp, mpf

OUT = Path(__file__).parents[2] / "tests" / "golden" / "ops"
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
# What the attributes of rows are; `count` is the number of elements that are reduced.
ATTRIBUTES = {"ord": 3, "rtol": 1e-5, "atol": 1e-8, "equalNan": 0}

DIFFERENCES = [
    {
        "op": "div, mean and float functions of integers",
        "numpy": "computed in float64 (float16 for the 8-bit integers)",
        "rowmajor": "cast to float32 first; mean and the norms are computed in float64 and give float32",
        "why": "float32 is the default float dtype",
    },
    {
        "op": "sum, cumulativeSum of uint8, uint16, uint32",
        "numpy": "uint64",
        "rowmajor": "int64",
        "why": "sums of several dtypes can be added to each other; int64 holds them",
    },
    {
        "op": "reductions of floats",
        "numpy": "accumulate in the dtype (float16: in float32), pairwise",
        "rowmajor": "accumulate in float64 (compensated for float64; long float32 sums first add groups of four in float32)",
        "why": "more accurate, at the same speed",
    },
    {
        "op": "argmax, argmin, countNonzero",
        "numpy": "int64",
        "rowmajor": "int32",
        "why": "JavaScript numbers hold it, and indexing accepts it",
    },
    {
        "op": "bitwiseLeftShift, bitwiseRightShift",
        "numpy": "a negative value shifted right by the width or more gives -1",
        "rowmajor": "a shift by the width or more, or by a negative count, gives 0",
        "why": "one rule for both directions and all dtypes",
    },
    {
        "op": "pow of integers with a negative exponent",
        "numpy": "ValueError",
        "rowmajor": "the exact value, truncated: 1 and -1 give 1 or -1, others 0; 0 ** -1 is 0",
        "why": "an error would depend on the data; integer division by zero gives 0 too",
    },
    {
        "op": "minimum, maximum, clip, relu of +0 and -0",
        "numpy": "either zero, depending on the processor",
        "rowmajor": "either zero, depending on the backend",
        "why": "the two are equal, and ordering them costs another comparison",
    },
    {
        "op": "norm with ord Infinity of an empty tensor",
        "numpy": "ValueError",
        "rowmajor": "0",
        "why": "absolute values are never below 0",
    },
    {
        "op": "astype from floats to integers",
        "numpy": "undefined out of range and for NaN",
        "rowmajor": "saturates; NaN gives 0",
        "why": "same result on every processor",
    },
]
# Rows whose zeros may have either sign, see DIFFERENCES.
EITHER_ZERO = {"minimum", "maximum", "clip", "relu", "fmax", "fmin", "sinc", "entr", "xlogy", "xlog1py", "i1", "i1e", "zeta"}
# Rows whose error is in units of the larger operand, where that is larger: their results cancel.
CANCELS = {"logaddexp", "lgamma", "digamma"}
# Rows that have to be computed in the dtype itself.
NATIVE = {"nextafter"}

mp.prec = 200
np.seterr(all="ignore")
warnings.simplefilter("ignore", RuntimeWarning)


# ---- values ------------------------------------------------------------------------------------


class DType:
    def __init__(self, name, kind, **_):
        self.name, self.kind = name, kind
        self.np = BFLOAT16 if name == "bfloat16" else np.dtype(name)
        self.wide_float = np.dtype("longdouble" if name == "float64" else "float64")

    def limits(self):
        info = ml_dtypes.iinfo(self.np) if self.kind in "iu" else ml_dtypes.finfo(self.np)
        return info

    def specials(self):
        if self.kind == "b":
            return [False, True]
        if self.kind == "f":
            info = self.limits()
            tiny, low = float(info.smallest_normal), float(info.smallest_subnormal)
            top, eps = float(info.max), float(info.eps)
            one_sided = [0.0, low, tiny, 0.5, 1.0, 1 + eps, 2.5, top, float("inf")]
            return one_sided + [-v for v in one_sided] + [float("nan")]
        low, top, bits = int(self.limits().min), int(self.limits().max), 8 * self.np.itemsize
        values = {low, low + 1, -1, 0, 1, 2, 3, 7, 10, bits - 1, bits, bits + 1, 100, top - 1, top}
        if bits == 64:
            values |= {2**53 + 1, -(2**53) - 1, 2**32, 2**31}
        return sorted(v for v in values if low <= v <= top)

    def draw(self, rng, domain):
        low, high = domain
        if self.kind == "b":
            return rng.random() < 0.5
        if self.kind == "f":
            pick = rng.random()
            if pick < 0.15 and low < 0:
                return float(rng.randint(int(low), int(high)))
            if pick < 0.3:
                return rng.choice([1, -1] if low < 0 else [1]) * high * 2 ** -rng.uniform(0, 12)
            return rng.uniform(low, high)
        if rng.random() < 0.5:
            return rng.randint(int(self.limits().min), int(self.limits().max))
        return rng.randint(max(int(low), int(self.limits().min)), int(high))

    def array(self, values):
        if self.name == "bfloat16":
            return np.array(values, np.float32).astype(BFLOAT16)
        return np.array(values, self.np)


def to_odd(array):
    """float32 with the last bit set where something was cut off, so that it can be rounded again."""
    exact = array.astype(np.longdouble)
    with np.errstate(over="ignore"):
        rounded = exact.astype(np.float32)
    inexact = np.isfinite(rounded) & (rounded.astype(np.longdouble) != exact)
    above = inexact & (np.abs(rounded.astype(np.longdouble)) > np.abs(exact))
    bits = np.atleast_1d(np.where(above, np.nextafter(rounded, np.float32(0)), rounded)).view(np.uint32)
    bits = bits | np.atleast_1d(inexact).astype(np.uint32)
    return bits.view(np.float32).reshape(array.shape)


def to_dtype(array, dtype):
    """Rounds or casts as rowmajor does."""
    array = np.asarray(array)
    if dtype.kind == "f":
        if dtype.np.itemsize == 2 and array.dtype != dtype.np:
            array = to_odd(array)
        return array.astype(dtype.np)
    if dtype.kind in "iu" and array.dtype.kind not in "biu":
        low, high = int(dtype.limits().min), int(dtype.limits().max)

        def saturate(v):
            v = np.longdouble(v)
            return 0 if np.isnan(v) else low if v <= low else high if v >= high else int(v)

        return np.array([saturate(v) for v in array.ravel()], dtype.np).reshape(array.shape)
    if dtype.kind == "b":
        return array != 0
    return array.astype(dtype.np)


def encode(array):
    array = np.ascontiguousarray(array)
    if array.dtype == BFLOAT16:
        array = array.view(np.uint16)
    return base64.b64encode(array.astype(array.dtype.newbyteorder("<")).tobytes()).decode()


# ---- the numpy expressions ---------------------------------------------------------------------


def by_mpmath(f):
    """f on finite values with 60 digits, rounded to the dtype of x; NaN is left to the caller."""

    def one(v):
        # long double keeps 64 bits: two doubles hold it.
        high = float(v)
        low = float(v - type(v)(high))
        r = f(mpf(high) + mpf(low))
        head = float(r)
        return type(v)(head) + type(v)(float(r - mpf(head)))

    return lambda x: np.array([one(v) if np.isfinite(v) else v for v in x.ravel()], x.dtype).reshape(x.shape)


def erf(x):
    return np.where(np.isinf(x), np.sign(x), np.where(x == 0, x, by_mpmath(mp.erf)(x)))


def gelu(x):
    # 1 + erf(x / sqrt(2)) cancels in the negative tail.
    exact = by_mpmath(lambda v: v * mp.erfc(-v / mp.sqrt(2)) / 2 if v > -100 else mpf(0))(x)
    return np.where(np.isneginf(x), np.nan, np.where(x == 0, x, np.where(x <= -100, -0.0, exact)))


def inverse_erfc(q):
    p = q if q < 1 else 2 - q
    if p <= 0:
        raise ValueError(q)
    w = -mp.log(p * (2 - p))
    x = mp.sqrt(w) if w > 1 else mpf("0.8") * mp.sqrt(w)
    for _ in range(100):
        c = mp.erfc(x)
        step = (mp.log(p) - mp.log(c)) * c * mp.sqrt(mp.pi) * mp.exp(x * x) / 2
        x -= step
        if abs(step) < mpf(2) ** -120 * abs(x):
            break
    return x if q <= 1 else -x


def sinc(v):
    # Exactly 0 for integers.
    return mpf(0) if v == mp.floor(v) else mp.sin(mp.pi * (v - 2 * mp.floor(v / 2))) / (mp.pi * v)


class Special:
    """SciPy's special functions with 60 digits; zeros, poles and infinities are SciPy's."""

    # Beyond, and next to 0, mpmath takes long.
    most = {"zeta": 100, "gamma": 180, "sinc": np.inf}
    exact = {
        "gammaln": lambda x: mp.loggamma(x).real,
        "gamma": mp.gamma,
        "digamma": mp.digamma,
        "erfc": mp.erfc,
        "erfinv": lambda y: -inverse_erfc(1 + y) if abs(y) > 1e-10 else y * mp.sqrt(mp.pi) / 2,
        "erfcinv": inverse_erfc,
        "ndtr": mp.ncdf,
        "ndtri": lambda p: -mp.sqrt(2) * inverse_erfc(2 * p),
        "i0": lambda x: mp.besseli(0, x),
        "i0e": lambda x: mp.besseli(0, x) * mp.exp(-abs(x)),
        "i1": lambda x: mp.besseli(1, x),
        "i1e": lambda x: mp.besseli(1, x) * mp.exp(-abs(x)),
        "logit": lambda p: mp.log(p / (1 - p)),
        "entr": lambda x: -x * mp.log(x),
        "sinc": sinc,
        "xlogy": lambda x, y: x * mp.log(y),
        "xlog1py": lambda x, y: x * mp.log1p(y),
        "zeta": mp.zeta,
    }

    def __getattr__(self, name):
        limit = np.sinc if name == "sinc" else getattr(scipy.special, name)
        exact = self.exact[name]

        tiny = 0 if name in ("erfcinv", "ndtri", "gammaln") else 1e-30

        def one(*v):
            # SciPy gives -inf, 0 and NaN.
            if np.isinf(v[0]) and name in ("gammaln", "i0", "i1"):
                return v[0] if name == "i1" else abs(v[0])
            if v[0] == 0 and name == "erfinv":
                return v[0]
            if name == "zeta" and v[0] > 1e6 and v[1] > 0:
                return type(v[0])(np.power(np.float64(v[1]), -np.float64(v[0])))
            # NaN where rowmajor has no values.
            if name == "zeta" and (np.isnan(v[1]) or not v[0] >= 1 or (v[0] != 1 and v[1] < 0 and v[1] != np.floor(v[1]))):
                return type(v[0])(np.nan)
            if all(np.isfinite(a) and a != 0 and tiny < abs(a) < self.most.get(name, 1e4) for a in v):
                try:
                    with mp.workprec(120):
                        r = exact(*(mpf(float(a)) + mpf(float(a - type(a)(float(a)))) for a in v))
                    if not isinstance(r, mp.mpc) and mp.isfinite(r) and abs(r) < 1e300:
                        head = float(r)
                        return type(v[0])(head) + type(v[0])(float(r - mpf(head)))
                except (ValueError, TypeError, ZeroDivisionError, mp.NoConvergence):
                    pass
            return type(v[0])(limit(*(float(a) for a in v)))

        def all_of(*xs):
            values = [one(*v) for v in zip(*(x.ravel() for x in xs))]
            return np.array(values, xs[0].dtype).reshape(xs[0].shape)

        return all_of


def nextafter(x, y):
    # As in C, equal operands give the second; NumPy gives the first for float16.
    return np.where(x == y, y, np.nextafter(x, y)).astype(x.dtype)


def ldexp(x, y):
    whole = np.clip(np.nan_to_num(np.trunc(y.astype(np.float64))), -4000, 4000).astype(np.int32)
    return np.where(np.isnan(y), y, np.ldexp(x, whole))


def shift(x, y, f):
    bits = 8 * x.dtype.itemsize
    valid = (y >= 0) & (y < bits)
    return np.where(valid, f(x, np.where(valid, y, 0).astype(y.dtype)), 0).astype(x.dtype)


def int_power(x, y):
    if x.dtype.kind == "u":
        return np.power(x, y)
    inverse = np.where(x == 1, 1, np.where(x == -1, np.where(y % 2 == 0, 1, -1), 0))
    return np.where(y < 0, inverse, np.power(x, np.maximum(y, 0))).astype(x.dtype)


# Instead of the row's own expression, for the reasons given in DIFFERENCES or beside the function.
INSTEAD = {
    "gelu": gelu,
    "nextafter": nextafter,
    "bitwiseLeftShift": lambda x, y: shift(x, y, np.left_shift),
    "bitwiseRightShift": lambda x, y: shift(x, y, np.right_shift),
}


def evaluate(row, operands, axis=None):
    name = row["name"]
    if name in INSTEAD:
        return INSTEAD[name](*operands)
    if name == "pow" and operands[0].dtype.kind in "iu":
        return int_power(*operands)
    scope = {"np": np, "special": Special(), "erf": erf, "ldexp": ldexp, "axis": axis, **ATTRIBUTES, **dict(zip("xyz", operands))}
    return eval(row["numpy"], scope)


def result_dtype(row, dtype):
    rule = row["result"]
    if rule == "float":
        return dtype if dtype.kind == "f" else DTYPE["float32"]
    if rule in ("sum", "prod") and dtype.kind == "f":
        return dtype
    if rule == "sum":
        return DTYPE["uint64" if dtype.name == "uint64" else "int64"]
    if rule == "prod":
        return DTYPE["uint64" if dtype.kind == "u" else "int64"]
    return dtype if rule == "same" else DTYPE[rule]


def compute_map(row, dtype, operands):
    result = result_dtype(row, dtype)
    condition = [operands.pop(0)] if row.get("condition") else []
    if row["result"] == "float":
        operands = [to_dtype(x, result) for x in operands]
    if operands[0].dtype.kind not in "biu" and row["name"] not in NATIVE:
        wide = dtype.wide_float if row["ulp"] > 0 and dtype.kind == "f" else np.float64
        operands = [x.astype(wide) for x in operands]
    made = evaluate(row, condition + operands)
    if dtype.kind != "f" and row["result"] == "same" and made.dtype != dtype.np:
        sys.exit(f"{row['name']}: {row['numpy']} makes {made.dtype} of {dtype.name}")
    return to_dtype(made, result)


def compute_fold(row, dtype, operands, axis):
    result = result_dtype(row, dtype)
    accumulates = row["result"] in ("sum", "prod")
    if accumulates and dtype.kind != "f":
        operands = [to_dtype(x, result) for x in operands]
    elif row["result"] == "float" or accumulates:
        operands = [x.astype(dtype.wide_float) for x in operands]
    elif dtype.name == "bfloat16":
        operands = [x.astype(np.float32) for x in operands]
    return to_dtype(evaluate(row, operands, axis), result)


# ---- the files ---------------------------------------------------------------------------------


def map_inputs(dtype, arity, domain, condition):
    rng = random.Random(f"{dtype.name} {arity} {domain}")
    specials = dtype.specials()
    if arity == 1:
        rows = [(v,) for v in specials]
        count = 64
    elif arity == 2:
        rows = list(itertools.product(specials, repeat=2))
        count = 64
    else:
        rows = [tuple(rng.choice(specials) for _ in range(arity)) for _ in range(96)]
        count = 48
    rows += [tuple(dtype.draw(rng, domain) for _ in range(arity)) for _ in range(count)]
    columns = [dtype.array(column) for column in zip(*rows)]
    if condition:
        columns[0] = np.array([rng.random() < 0.5 for _ in rows])
    return columns


def fold_inputs(dtype):
    """An array of plain values, an empty one, and one whose rows mix special values."""
    rng = random.Random(f"{dtype.name} folds")
    plain = [dtype.draw(rng, (-2, 2)) for _ in range(4 * 5 * 7)]
    arrays = {"fold": dtype.array(plain).reshape(4, 5, 7), "empty": np.zeros((0, 3), dtype.np)}
    if dtype.kind == "f":
        finite = [0.0, -0.0, 0.5, 1.0, 2.5, -1.0, -2.5]
        inf, nan = float("inf"), float("nan")
        mixes = [[nan], [inf], [-inf], [inf, -inf], [nan, inf], [0.0], [-0.0], [], [-inf, nan], [2.5]]
        rows = []
        for mix in mixes:
            row = (mix if mix in ([0.0], [-0.0]) else finite) * 6
            row = [rng.choice(row) for _ in range(6)]
            for v in mix:
                row[rng.randrange(6)] = v
            rows.append(row)
        arrays["specials"] = dtype.array(rows)
    return arrays


def second_dtype(dtype):
    """The dtype of what a reduction of two operands subtracts: wider, as composites give it."""
    if dtype.kind != "f":
        return DTYPE["float64"]
    return DTYPE["float32"] if dtype.np.itemsize == 2 else dtype


def fold_cases(row, dtype, arrays):
    """The axes to fold, over the arrays of `fold_inputs`."""
    cases = []
    plain, empty, *specials = arrays
    many = row["kind"] == "reduce"
    axes = {"reduce": [None, (1,), (0, 2)], "argReduce": [None, 1], "scan": [0, 2]}[row["kind"]]
    pairs = [(plain, axis) for axis in axes] + [(empty, (0,) if many else 0)]
    pairs += [(name, (1,) if many else 1) for name in specials]
    for name, axis in pairs:
        x = arrays[name]
        case = {"x": name, "shape": list(x.shape), "axis": list(axis) if isinstance(axis, tuple) else axis}
        operands = [x]
        if row["arity"] == 2:
            kept = np.sum(np.zeros(x.shape), axis=axis, keepdims=True).shape
            rng = random.Random(f"{dtype.name} {kept}")
            second = second_dtype(dtype)
            y = second.array([rng.uniform(-2, 2) for _ in range(int(np.prod(kept)))]).reshape(kept)
            case["y"] = {"dtype": second.name, "shape": list(kept), "data": encode(y)}
            operands.append(y)
        if x.size == 0 and row.get("nonEmpty", row["kind"] == "argReduce"):
            case["refused"] = True
        elif x.size == 0 and row["name"] == "normMax":
            case["expected"] = encode(np.zeros(3, result_dtype(row, dtype).np))
        else:
            case["expected"] = encode(compute_fold(row, dtype, operands, axis))
        cases.append(case)
    return cases


def cast_values(dtype):
    rng = random.Random(f"{dtype.name} casts")
    if dtype.kind != "f":
        values = dtype.specials() + [dtype.draw(rng, (-8, 8)) for _ in range(40)]
        if dtype.np.itemsize >= 4:
            # Halfway between neighbours of the float dtypes, and one to either side.
            for bits in (8, 11, 24, 53)[: 3 if dtype.np.itemsize == 4 else 4]:
                for up in (1, 5, 8 * dtype.np.itemsize - bits - 3):
                    values += [(2**bits + odd << up) + one for odd in (1, 3) for one in (-1, 0, 1)]
        return dtype.array(values)
    values = list(dtype.array(dtype.specials()))
    wide = dtype.wide_float if dtype.name == "float64" else np.float64
    for bits in (7, 8, 15, 16, 31, 32, 53, 63, 64):
        for sign in (1, -1):
            at = np.array([sign * 2.0**bits], wide).astype(dtype.np)
            values += [at[0], np.nextafter(at, at * 2)[0], np.nextafter(at, at * 0)[0], at[0] * dtype.np.type(1.5)]
    values += list(dtype.array([rng.uniform(-300, 300) for _ in range(40)]))
    values += list(dtype.array([k + f for k in (-2, -1, 0, 1, 2) for f in (-0.5, 0.25, 0.75)]))
    if dtype.np.itemsize > 2:
        # Halfway between neighbours of the 16-bit floats, and one step to either side.
        for half, top in ((np.dtype(np.float16), 0x7BFF), (BFLOAT16, 0x7F7F)):
            for bits in [rng.randrange(top) for _ in range(60)] + [0, 1, 2, 0x3FF, 0x400, top]:
                low, high = half_value(half, bits), half_value(half, bits + 1)
                if bits == top:
                    # Where rounding turns to infinity.
                    high = 2 * low - half_value(half, top - 1)
                middle = np.array([(low + high) / 2 * rng.choice([1, -1])]).astype(dtype.np)
                values += [middle[0], np.nextafter(middle, middle * 2)[0], np.nextafter(middle, middle * 0)[0]]
    if dtype.name == "float64":
        for _ in range(40):
            middle = np.float64(rng.uniform(-4, 4)).astype(np.float32).astype(np.float64) + 2.0**-24
            values += [middle, np.nextafter(middle, 9), np.nextafter(middle, -9)]
    return np.array(values, dtype.np)


def half_value(dtype, bits):
    return float(np.array([bits], np.uint16).view(dtype)[0])


def all_patterns(dtype):
    """The float32 values of all 65536 patterns of a 16-bit dtype, as a checksum."""
    values = np.arange(65536, dtype=np.uint16).view(dtype.np).astype(np.float32)
    bits = np.where(np.isnan(values), np.uint32(0x7FC00000), values.view(np.uint32))
    return hashlib.sha256(bits.astype("<u4").tobytes()).hexdigest()


def golden(table, dtype):
    folds = fold_inputs(dtype)
    inputs, rows = {name: [encode(x)] for name, x in folds.items()}, {}
    for row in table["rows"]:
        if dtype.kind not in row["dtypes"]:
            continue
        entry = {"numpy": row["numpy"], "result": result_dtype(row, dtype).name}
        if row["name"] in EITHER_ZERO:
            entry["eitherZero"] = True
        if row["name"] in CANCELS:
            entry["cancels"] = True
        if row.get("parameters"):
            entry["attributes"] = {k: ATTRIBUTES[k] for k in row["parameters"] if k != "count"}
        if row["kind"] == "map":
            condition = row.get("condition", False)
            key = f"{row['arity']}{' if' if condition else ''} {row['domain'][0]} {row['domain'][1]}"
            columns = map_inputs(dtype, row["arity"], row["domain"], condition)
            inputs[key] = [encode(column) for column in columns]
            entry["inputs"] = key
            entry["expected"] = encode(compute_map(row, dtype, columns))
        else:
            entry["cases"] = fold_cases(row, dtype, folds)
        rows[row["name"]] = entry
    values = cast_values(dtype)
    casts = {"x": encode(values), "to": {d.name: encode(to_dtype(values, d)) for d in DTYPE.values()}}
    out = {"inputs": inputs, "rows": rows, "casts": casts}
    if dtype.kind == "f" and dtype.np.itemsize == 2:
        out["patterns"] = all_patterns(dtype)
    return out


TABLE = json.load(sys.stdin)
DTYPE = {d["name"]: DType(**d) for d in TABLE["dtypes"]}
OUT.mkdir(parents=True, exist_ok=True)
for dtype in DTYPE.values():
    text = json.dumps(golden(TABLE, dtype), indent=0)
    (OUT / f"{dtype.name}.json").write_text(text + "\n")
(OUT / "differences.json").write_text(json.dumps(DIFFERENCES, indent=2) + "\n")
