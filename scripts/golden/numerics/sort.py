"""Write tests/golden/sort/*.json: partitions, medians, quantiles and modes, as NumPy and SciPy give them.

Elements are numbers of their dtype; NaN is null. Quantiles are computed in float64 and rounded once.
A layout is made of a dense array in NumPy as the test makes it of a tensor. Needs: pip install numpy
ml_dtypes scipy. Run from the repository root.
"""

import json
import os
import warnings

import ml_dtypes
import numpy as np
import scipy.stats

warnings.simplefilter("ignore")
rng = np.random.default_rng(20261126)

DTYPES = {
    name: ml_dtypes.bfloat16 if name == "bfloat16" else np.dtype(name).type
    for name in [
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float16", "bfloat16", "float32", "float64",
    ]
}
FLOATS = ["float16", "bfloat16", "float32", "float64"]
METHODS = {
    "linear": "linear", "lower": "lower", "higher": "higher", "midpoint": "midpoint",
    "nearest": "nearest", "invertedCdf": "inverted_cdf",
    "averagedInvertedCdf": "averaged_inverted_cdf", "closestObservation": "closest_observation",
    "interpolatedInvertedCdf": "interpolated_inverted_cdf", "hazen": "hazen",
    "weibull": "weibull", "medianUnbiased": "median_unbiased",
    "normalUnbiased": "normal_unbiased",
}
LAYOUTS = {
    "dense": lambda x: x,
    "transposed": lambda x: x.transpose(2, 0, 1),
    "sliced": lambda x: x[:, ::2, 1:],
    "reversed": lambda x: x[::-1, :, ::-1],
    "broadcast": lambda x: np.broadcast_to(x[:, :1, :], x.shape),
}
Q = [0, 0.1, 0.25, 0.5, 0.775, 1]


def values(dtype, shape):
    """Numbers of which some are equal, within the range of the dtype, exact in it."""
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    low = 0 if dtype.startswith("u") else -50
    x = rng.integers(low, 60, shape)
    if dtype in FLOATS:
        return (x / 4).astype(DTYPES[dtype])
    return x.astype(DTYPES[dtype])


def plain(x):
    """Numbers as JSON has them; NaN is null."""
    x = np.asarray(x)
    if x.dtype.kind in "bui":
        return [int(v) for v in x.ravel()]
    out = []
    for v in x.astype(np.float64).ravel():
        out.append(None if np.isnan(v) else int(v) if v == int(v) else float(v))
    return out


def rounded(x, dtype):
    """Once, to the dtype of the result."""
    return np.asarray(x).astype(DTYPES[dtype if dtype in FLOATS else "float32"])


def wide(x):
    return x.astype(np.float64)


def stable_partition(x, kth):
    """Along the last axis: less, equal, greater, each in its order. NaN is the largest number."""
    flat = x.reshape(-1, x.shape[-1])
    out, order = [], []
    for row in flat:
        key = np.where(np.isnan(wide(row)), np.inf, wide(row)) if row.dtype.kind not in "bui" else row
        limits = np.sort(key)[kth]
        # Strictly between two limits, elements are a class of their own.
        which = sum((key >= v).astype(int) + (key > v) for v in np.unique(limits))
        at = np.argsort(which, kind="stable")
        out.append(row[at])
        order.append(at)
        parted = np.partition(key, kth)
        assert (parted[kth] == key[at][kth]).all()
    return np.array(out).reshape(x.shape), np.array(order).reshape(x.shape)


quantiles, layouts, partitions, modes = [], [], [], []
for dtype in DTYPES:
    # ---- every method, with and without NaN --------------------------------------------------------
    x = values(dtype, (2, 9))
    if dtype in FLOATS:
        x[1, 4] = np.nan
    case = {"dtype": dtype, "shape": [2, 9], "x": plain(x), "q": Q, "methods": {}}
    for name, numpy_name in METHODS.items():
        case["methods"][name] = plain(rounded(np.quantile(wide(x), Q, axis=1, method=numpy_name), dtype))
    if dtype in FLOATS:
        case["nan"] = {}
        for name, numpy_name in METHODS.items():
            ignoring = np.nanquantile(wide(x), Q, axis=1, method=numpy_name)
            case["nan"][name] = plain(rounded(ignoring, dtype))
        case["nanmedian"] = plain(rounded(np.nanmedian(wide(x), axis=1), dtype))
    case["median"] = plain(rounded(np.median(wide(x), axis=1), dtype))
    percent = [12.5, 50, 99]
    case["percentile"] = plain(rounded(np.percentile(wide(x), percent, axis=1), dtype))
    quantiles.append(case)

    # ---- every layout and axis ---------------------------------------------------------------------
    base = values(dtype, (2, 3, 4))
    for name, view in LAYOUTS.items():
        y = view(base)
        results = []
        for axis in [None, 0, 1, -1, (0, 2)]:
            q = np.quantile(wide(y), 0.3, axis=axis)
            m = np.median(wide(y), axis=axis)
            results.append([plain(rounded(q, dtype)), plain(rounded(m, dtype))])
        by_axis = []
        for axis in [0, 1, 2]:
            z = np.moveaxis(y, axis, -1)
            parted, order = stable_partition(z, [1] if z.shape[-1] > 1 else [0])
            by_axis.append([
                plain(np.moveaxis(parted, -1, axis)), plain(np.moveaxis(order, -1, axis)),
            ])
        count = []
        for axis in [None, 0, 1, 2]:
            found = scipy.stats.mode(wide(y), axis=axis)
            count.append([plain(found.mode.astype(DTYPES[dtype])), plain(found.count)])
        layouts.append({
            "dtype": dtype, "layout": name, "base": plain(base),
            "quantiles": results, "partitions": by_axis, "modes": count,
        })

    # ---- longer runs, several ranks ----------------------------------------------------------------
    x = values(dtype, (40,))
    if dtype in FLOATS:
        x[7] = np.nan
    for kth in [[0], [20], [39], [3, 20, 21]]:
        parted, order = stable_partition(x, kth)
        partitions.append({
            "dtype": dtype, "x": plain(x), "kth": kth, "order": plain(order),
        })

os.makedirs("tests/golden/sort", exist_ok=True)
for name, cases in [("quantiles", quantiles), ("layouts", layouts), ("partitions", partitions)]:
    with open(f"tests/golden/sort/{name}.json", "w") as file:
        lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
        file.write(f"[\n{lines}\n]\n")
