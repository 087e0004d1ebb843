"""Writes tests/golden/linalg/cases.json: NumPy's results of linear algebra, and exponentials by mpmath.

Needs: pip install numpy mpmath.
"""

import json
import pathlib

import mpmath
import numpy as np

rng = np.random.default_rng(32)
L = np.linalg


mpmath.mp.dps = 40


def expm(a):
    if a.ndim > 2:
        return np.stack([expm(one) for one in a])
    made = mpmath.expm(mpmath.matrix(a.tolist())).tolist()
    number = complex if a.dtype.kind == "c" else float
    return np.array([[number(x) for x in row] for row in made])


def plain(x):
    x = np.asarray(x)
    if x.dtype.kind == "c":
        return {"shape": x.shape, "re": plain(x.real)["data"], "im": plain(x.imag)["data"]}
    return {"shape": x.shape, "data": [float(f"{v:.17g}") if np.isfinite(v) else str(v) for v in x.ravel().astype(float)]}


def matrices():
    for shape in [(1, 1), (2, 2), (3, 3), (5, 5), (9, 9), (2, 4, 4)]:
        for is_complex in (False, True):
            a = np.round(rng.standard_normal(shape), 3)
            yield a + 1j * np.round(rng.standard_normal(shape), 3) if is_complex else a
    yield np.array([[1.0, 2.0], [2.0, 4.0]])
    yield np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 10.0]])
    yield np.zeros((3, 3))


cases = []
for a in matrices():
    case = {"a": plain(a), "det": plain(L.det(a))}
    sign, log = L.slogdet(a)
    case["sign"], case["logabsdet"] = plain(sign), plain(log)
    for ord in ["fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf]:
        case[f"norm {ord}"] = plain(L.matrix_norm(a, ord=ord))
        if L.matrix_rank(a).min() == a.shape[-1]:
            case[f"cond {ord}"] = plain(L.cond(a, ord))
    case["rank"] = plain(L.matrix_rank(a))
    case["expm"] = plain(expm(a))
    cases.append(case)

systems = []
for shape in [(3, 3), (6, 3), (3, 6), (8, 5)]:
    for rank in (min(shape), 2):
        for is_complex in (False, True):
            def values(*size):
                x = rng.standard_normal(size)
                return x + 1j * rng.standard_normal(size) if is_complex else x
            a = np.round(values(shape[0], rank) @ values(rank, shape[1]), 6)
            b = np.round(values(shape[0], 2), 6)
            # The rounding is noise beside which only the given rank counts.
            x, _, found, s = L.lstsq(a, b, rcond=1e-4)
            systems.append({
                "a": plain(a), "b": plain(b), "x": plain(x), "rank": int(found), "s": plain(s),
                "residuals": plain(np.sum(np.abs(b - a @ x) ** 2, axis=0)),
                "pinv": plain(L.pinv(a, rcond=1e-4)),
            })

path = pathlib.Path(__file__).parents[3] / "tests" / "golden" / "linalg" / "cases.json"
path.write_text(json.dumps({"cases": cases, "systems": systems}, separators=(",", ":")) + "\n")
