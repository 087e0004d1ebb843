"""Writes tests/golden/sets/sets.json: what NumPy answers on sets, searching and histograms.

Needs: pip install numpy.
"""

import json
import os

import numpy as np

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
          "float16", "float32", "float64"]


def listed(x):
    """Numbers of an array, NaN and infinities as text."""
    flat = [v if isinstance(v, (bool, int)) or np.isfinite(v) else str(v) for v in np.ravel(x).tolist()]
    return flat


def elements(rng, dtype, n, spread=9):
    kind = np.dtype(dtype).kind
    if kind == "b":
        return rng.integers(0, 2, n).astype(bool)
    if kind == "u":
        return rng.integers(0, spread, n).astype(dtype)
    x = rng.integers(-spread, spread, n).astype(dtype)
    if kind == "f":
        x = (x / np.dtype(dtype).type(2)).astype(dtype)
        if n > 6:
            x[[1, 4]] = np.nan
            x[2] = -0.0
            x[5] = np.inf
    return x


def main():
    rng = np.random.default_rng(32)
    cases = []

    def add(name, dtype, inputs, outputs, **options):
        cases.append([name, dtype, [listed(x) for x in inputs], [listed(x) for x in outputs], options])

    for dtype in DTYPES:
        for n in (0, 1, 24):
            x = elements(rng, dtype, n)
            values, first, inverse, counts = np.unique(x, True, True, True)
            add("unique", dtype, [x], [values, first, inverse, counts])
            y = elements(rng, dtype, max(n // 2, 1))
            add("isin", dtype, [x, y], [np.isin(x, y)])
            add("union", dtype, [x, y], [np.union1d(x, y)])
            for name in ("intersect", "setdiff", "setxor"):
                add(name, dtype, [x, y], [getattr(np, name + "1d")(x, y)])
            for side in ("left", "right"):
                add("searchsorted", dtype, [np.sort(x), y], [np.searchsorted(np.sort(x), y, side)], side=side)
            add("searchsorted", dtype, [x, y], [np.searchsorted(x, y, sorter=np.argsort(x, kind="stable"))],
                side="left", sorted=False)
        if dtype == "bool":
            continue
        edges = np.array([0, 1, 2, 4], dtype)
        for right in (False, True):
            z = y[np.isfinite(y.astype("float64"))]
            add("digitize", dtype, [z, edges], [np.digitize(z, edges, right)], right=right)
            add("digitize", dtype, [z, edges[::-1]], [np.digitize(z, edges[::-1], right)], right=right)
        if np.dtype(dtype).kind in "iu" and dtype != "uint64":
            x = np.abs(elements(rng, dtype, 24))
            w = rng.integers(0, 9, 24) / 4
            for least in (0, 15):
                add("bincount", dtype, [x, w], [np.bincount(x, minlength=least), np.bincount(x, w, least)],
                    minLength=least)
        x = elements(rng, dtype, 24)
        x = x[np.isfinite(x.astype("float64"))]
        w = rng.integers(0, 9, x.size) / 4
        for bins, span in ((1, None), (7, None), (10, (-2, 3)), ([-3, -1, 0, 2.5, 4], None)):
            own = x if np.dtype(dtype).kind == "f" else x.astype("float64")
            counts, made = np.histogram(own, bins, range=span)
            weighted, _ = np.histogram(own, bins, range=span, weights=w)
            density, _ = np.histogram(own, bins, range=span, density=True)
            add("histogram", dtype, [x, w], [counts, made, weighted, density], bins=bins, range=span)
        y = x[::-1].copy()
        counts, ex, ey = np.histogram2d(x.astype("float64"), y.astype("float64"), [3, 4])
        add("histogram2d", dtype, [x, y, w], [
            counts, ex, ey, np.histogram2d(x.astype("float64"), y.astype("float64"), [3, 4], weights=w)[0],
            np.histogram2d(x.astype("float64"), y.astype("float64"), [3, 4], density=True)[0]])
    # Many elements: several tables and tasks.
    folder = os.path.join(os.path.dirname(__file__), "../../../tests/golden/sets")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "sets.json"), "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases) + "\n]\n")


main()
