"""Writes tests/golden/statistics/functions.json: what NumPy and SciPy give for statistics and functions.

    .venv/bin/pip install numpy scipy
    .venv/bin/python scripts/golden/numerics/statistics.py

A case is a call of rowmajor and one of NumPy on the same values, which every dtype represents exactly.
Results are float64, or the integers of int64.
"""

import json
from pathlib import Path

import numpy as np
import scipy.special as sc

OUT = Path(__file__).parents[3] / "tests" / "golden" / "statistics"
nan, inf = np.nan, np.inf
np.seterr(all="ignore")

A = np.array([[1.5, -2, 3, 0.25, 8], [4, 5.5, -6, 7, 0.5], [2, 2.25, -1, 3.5, 6], [0.75, 9, 1, -4, 2.5]])
N = A.copy()
N[0, 1] = N[2, 3] = N[2, 0] = nan
ALL = np.array([[nan, nan, nan], [1.5, nan, 2], [inf, 1, nan], [-inf, nan, nan]])
B = np.array([[2, 1, 0.5, 4, 1], [3, 0.25, 2, 1, 6], [1, 1, 5, 0.75, 2], [8, 2, 1, 3, 0.5]])
V = np.array([1, 2.5, 4, 4.5, 7])
W = np.array([2, 1, 0.5, 4, 3])
I = np.array([[12, -18, 7, 0, 5], [30, 24, -9, 14, 3]])
J = np.array([[8, 12, -3, 6, 0], [-45, 16, 6, 21, 9]])
M = B > 1.5
F = np.array([2, 1, 3, 1, 2])
INPUTS = {"a": A, "n": N, "e": ALL, "b": B, "v": V, "w": W, "i": I, "j": J, "m": M, "f": F}

FLOATS = [
    ("n.nansum()", "np.nansum(n)"),
    ("n.nansum(0)", "np.nansum(n, axis=0)"),
    ("n.nansum(1, { keepDims: true })", "np.nansum(n, axis=1, keepdims=True)"),
    ("n.nanprod(1)", "np.nanprod(n, axis=1)"),
    ("n.nanmean()", "np.nanmean(n)"),
    ("n.nanmean(0)", "np.nanmean(n, axis=0)"),
    ("e.nanmean(1)", "np.nanmean(e, axis=1)"),
    ("n.nanvar(0)", "np.nanvar(n, axis=0)"),
    ("n.nanvar(1, { correction: 1 })", "np.nanvar(n, axis=1, ddof=1)"),
    ("n.nanstd()", "np.nanstd(n)"),
    ("e.nanvar(1, { correction: 1 })", "np.nanvar(e, axis=1, ddof=1)"),
    ("e.nanmax(1)", "np.nanmax(e, axis=1)"),
    ("e.nanmin(1)", "np.nanmin(e, axis=1)"),
    ("n.nanmax(0)", "np.nanmax(n, axis=0)"),
    ("n.nanmin()", "np.nanmin(n)"),
    ("n.nanargmax(1)", "np.nanargmax(n, axis=1)"),
    ("n.nanargmin(0)", "np.nanargmin(n, axis=0)"),
    ("n.nancumsum(1)", "np.nancumsum(n, axis=1)"),
    ("n.nancumprod(0)", "np.nancumprod(n, axis=0)"),
    ("a.cumulativeMax(1)", "np.maximum.accumulate(a, axis=1)"),
    ("n.cumulativeMin(0)", "np.minimum.accumulate(n, axis=0)"),
    ("a.sum(0, { where: m })", "np.sum(a, axis=0, where=m)"),
    ("a.sum(1, { where: m, initial: 2 })", "np.sum(a, axis=1, where=m, initial=2)"),
    ("a.sum(1, { initial: 2, keepDims: true })", "np.sum(a, axis=1, initial=2, keepdims=True)"),
    ("a.prod(0, { where: m, initial: 2 })", "np.prod(a, axis=0, where=m, initial=2)"),
    ("a.mean(0, { where: m })", "np.mean(a, axis=0, where=m)"),
    ("a.mean(null, { where: m })", "np.mean(a, where=m)"),
    ("a.max(0, { where: m, initial: -9 })", "np.max(a, axis=0, where=m, initial=-9)"),
    ("a.min(1, { where: m, initial: 1 })", "np.min(a, axis=1, where=m, initial=1)"),
    ("a.max(0, { initial: 5 })", "np.max(a, axis=0, initial=5)"),
    ("a.var(1, { where: m })", "np.var(a, axis=1, where=m)"),
    ("a.std(0, { where: m, correction: 1 })", "np.std(a, axis=0, where=m, ddof=1)"),
    ("m.any(0, { where: a.greater(2) })", "np.any(m, axis=0, where=a > 2)"),
    ("m.all(1, { where: a.greater(2) })", "np.all(m, axis=1, where=a > 2)"),
    ("rm.ptp(a, 1)", "np.ptp(a, axis=1)"),
    ("rm.ptp(a)", "np.ptp(a)"),
    ("rm.average(a, 0)", "np.average(a, axis=0)"),
    ("rm.average(a, 1, { weights: w })", "np.average(a, axis=1, weights=w)"),
    ("rm.average(a, null, { weights: b })", "np.average(a, weights=b)"),
    ("rm.cov(a)", "np.cov(a)"),
    ("rm.cov(v)", "np.cov(v)"),
    ("rm.cov(a, { rowVariables: false, correction: 0 })", "np.cov(a, rowvar=False, ddof=0)"),
    ("rm.cov(v, { y: w })", "np.cov(v, w)"),
    ("rm.cov(a, { frequencies: f })", "np.cov(a, fweights=f)"),
    ("rm.cov(a, { weights: w })", "np.cov(a, aweights=w)"),
    ("rm.cov(a, { frequencies: f, weights: w })", "np.cov(a, fweights=f, aweights=w)"),
    ("rm.corrcoef(a)", "np.corrcoef(a)"),
    ("rm.corrcoef(v, { y: w })", "np.corrcoef(v, w)"),
    ("a.diff()", "np.diff(a)"),
    ("a.diff(2, 0)", "np.diff(a, 2, axis=0)"),
    ("a.diff(1, 1, { prepend: 0, append: 2 })", "np.diff(a, axis=1, prepend=0, append=2)"),
    ("a.diff(1, 0, { prepend: b })", "np.diff(a, axis=0, prepend=b)"),
    ("rm.gradient(a, { axis: 1 })", "np.gradient(a, axis=1)"),
    ("rm.gradient(a)[0]", "np.gradient(a)[0]"),
    ("rm.gradient(a, { axis: 0, spacing: 0.5, edgeOrder: 2 })", "np.gradient(a, 0.5, axis=0, edge_order=2)"),
    ("rm.gradient(a, { axis: 1, spacing: v })", "np.gradient(a, v, axis=1)"),
    ("rm.gradient(a, { axis: 1, spacing: v, edgeOrder: 2 })", "np.gradient(a, v, axis=1, edge_order=2)"),
    ("rm.trapezoid(a)", "np.trapezoid(a)"),
    ("rm.trapezoid(a, { dx: 0.5, axis: 0 })", "np.trapezoid(a, dx=0.5, axis=0)"),
    ("rm.trapezoid(a, { x: v })", "np.trapezoid(a, v)"),
    ("rm.interp(a, v, w)", "np.interp(a, v, w)"),
    ("rm.interp(n, v, w, { left: -1, right: 9 })", "np.interp(n, v, w, left=-1, right=9)"),
    ("a.fmax(n)", "np.fmax(a, n)"),
    ("n.fmin(b)", "np.fmin(n, b)"),
    ("a.fmod(b)", "np.fmod(a, b)"),
    ("a.lerp(b, 0.25)", "a + 0.25 * (b - a)"),
    ("a.addcmul(b, w)", "a + b * w"),
    ("a.addcdiv(b, v)", "a + b / v"),
    ("a.ldexp(f)", "np.ldexp(a, f)"),
    ("rm.frexp(a).mantissa", "np.frexp(a)[0]"),
    ("rm.frexp(a).exponent", "np.frexp(a)[1]"),
    ("rm.nanToNum(n, { nan: 3 })", "np.nan_to_num(n, nan=3)"),
    ("rm.nanToNum(e, { posinf: 2, neginf: -2 })", "np.nan_to_num(e, posinf=2, neginf=-2)"),
    ("a.round(1)", "np.round(a, 1)"),
    ("rm.rot90(a)", "np.rot90(a)"),
    ("rm.rot90(a, 2)", "np.rot90(a, 2)"),
    ("rm.rot90(a, -1)", "np.rot90(a, -1)"),
    ("a.pad(2, { mode: 'symmetric' })", "np.pad(a, 2, mode='symmetric')"),
    ("v.pad([7, 12], { mode: 'symmetric' })", "np.pad(v, (7, 12), mode='symmetric')"),
    ("a.pad(3, { mode: 'reflect' })", "np.pad(a, 3, mode='reflect')"),
    ("a.expandDims([0, 2])", "np.expand_dims(a, (0, 2))"),
    ("a.reshape([2, 2, 5]).moveAxis([0, 1], [2, 0])", "np.moveaxis(a.reshape(2, 2, 5), [0, 1], [2, 0])"),
    ("a.clip(b, w)", "np.clip(a, b, w)"),
    ("a.isclose(b, { atol: 3 })", "np.isclose(a, b, atol=3)"),
    ("rm.special.beta(b, b.add(1))", "sc.beta(b, b + 1)"),
    ("rm.special.betaln(b, w)", "sc.betaln(b, w)"),
    ("rm.special.polygamma(2, b)", "sc.polygamma(2, b)"),
    ("rm.special.expit(a)", "sc.expit(a)"),
    ("a.slice('0:0').nansum(0)", "np.nansum(a[0:0], axis=0)"),
    ("a.slice('0:0').max(0, { initial: 2 })", "np.max(a[0:0], axis=0, initial=2)"),
    ("rm.average(a.slice(0, 0), null, { weights: b.slice(0, 0) })", "np.average(a[0, 0], weights=b[0, 0])"),
]
INTEGERS = [
    ("i.gcd(j)", "np.gcd(i, j)"),
    ("i.lcm(j)", "np.lcm(i, j)"),
    ("i.fmod(j)", "np.fmod(i, j)"),
    ("i.fmax(j)", "np.fmax(i, j)"),
    ("i.nansum(1)", "np.nansum(i, axis=1)"),
    ("i.nanmax()", "np.nanmax(i)"),
    ("i.nanargmin(1)", "np.nanargmin(i, axis=1)"),
    ("i.cumulativeMax(1)", "np.maximum.accumulate(i, axis=1)"),
    ("i.sum(0, { where: i.greater(j), initial: 3 })", "np.sum(i, axis=0, where=i > j, initial=3)"),
    ("i.max(1, { where: i.less(9), initial: -100 })", "np.max(i, axis=1, where=i < 9, initial=-100)"),
    ("rm.ptp(i, 0)", "np.ptp(i, axis=0)"),
    ("i.diff(1, 1, { append: 4 })", "np.diff(i, axis=1, append=4)"),
    ("i.round(-1)", "np.round(i, -1)"),
    ("rm.rot90(i, 3)", "np.rot90(i, 3)"),
    ("i.addcmul(j, 2)", "i + j * 2"),
]
PLAIN = [
    ("rm.triIndices(4)[0]", "np.tril_indices(4)[0]"),
    ("rm.trilIndices(4, { k: -1 })[1]", "np.tril_indices(4, -1)[1]"),
    ("rm.triuIndices(3, { k: 1, columns: 5 })[0]", "np.triu_indices(3, 1, 5)[0]"),
    ("rm.triuIndices(3, { k: -1, columns: 5 })[1]", "np.triu_indices(3, -1, 5)[1]"),
    ("rm.logspace(0, 2, 5, { dtype: 'float64' })", "np.logspace(0, 2, 5)"),
    ("rm.logspace(0, 3, 4, { base: 2, endpoint: false, dtype: 'float64' })", "np.logspace(0, 3, 4, base=2, endpoint=False)"),
    ("rm.geomspace(1, 1000, 7, { dtype: 'float64' })", "np.geomspace(1, 1000, 7)"),
    ("rm.geomspace(-2, -32, 5, { dtype: 'float64' })", "np.geomspace(-2, -32, 5)"),
    ("rm.ravelMultiIndex([rm.tensor([[3, 6, 6], [4, 5, 1]], { dtype: 'int32' }).slice(0), rm.tensor([4, 5, 1], { dtype: 'int32' })], [7, 6])",
     "np.ravel_multi_index(np.array([[3, 6, 6], [4, 5, 1]]), (7, 6))"),
    ("rm.ravelMultiIndex([rm.tensor([3, 9, -1], { dtype: 'int64' }), rm.tensor([4, 5, 7], { dtype: 'int64' })], [7, 6], { mode: 'wrap' })",
     "np.ravel_multi_index(np.array([[3, 9, -1], [4, 5, 7]]), (7, 6), mode='wrap')"),
    ("rm.ravelMultiIndex([rm.tensor([3, 9, -1], { dtype: 'int64' }), rm.tensor([4, 5, 7], { dtype: 'int64' })], [7, 6], { mode: 'clip' })",
     "np.ravel_multi_index(np.array([[3, 9, -1], [4, 5, 7]]), (7, 6), mode='clip')"),
    ("rm.unravelIndex(rm.tensor([22, 41, 37], { dtype: 'int32' }), [7, 6])[0]", "np.unravel_index([22, 41, 37], (7, 6))[0]"),
    ("rm.unravelIndex(rm.tensor([22, 41, 37], { dtype: 'int32' }), [7, 6])[1]", "np.unravel_index([22, 41, 37], (7, 6))[1]"),
    ("rm.asStrided(rm.arange(6, { dtype: 'int32' }), [4, 3], [1, 1])",
     "np.lib.stride_tricks.sliding_window_view(np.arange(6), 3)"),
]


def values(x):
    x = np.asarray(x)
    flat = x.astype(np.float64).ravel().tolist()
    return {"shape": list(x.shape), "values": [repr(v) if not np.isfinite(v) else v for v in flat]}


def run(text):
    return values(eval(text, {"np": np, "sc": sc, **INPUTS}))


def can_cast():
    names = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split()
    return {a: [b for b in names if np.can_cast(a, b)] for a in names}


def same_kind():
    names = "int8 int32 uint8 uint32 float16 float64".split()
    return {a: [b for b in names if np.can_cast(a, b, "same_kind")] for a in names}


OUT.mkdir(parents=True, exist_ok=True)
out = {
    "inputs": {k: values(v) for k, v in INPUTS.items()},
    **{name: [[call, numpy, run(numpy)] for call, numpy in cases]
       for name, cases in (("floats", FLOATS), ("integers", INTEGERS), ("plain", PLAIN))},
    "canCast": {"safe": can_cast(), "sameKind": same_kind()},
}
text = json.dumps(out, separators=(",", ":")).replace('],["', '],\n["')
(OUT / "functions.json").write_text(text + "\n")
print(len(text))
