"""Writes tests/golden/products/products.json: what NumPy answers on products over axes.

The elements are small integers, so that results are exact in every dtype but for wrapped integers. Needs: pip install numpy.
"""

import json
import os

import numpy as np

EINSUM = [
    ("ij,jk->ik", (2, 3), (3, 4)), ("ij,jk", (2, 3), (3, 4)), ("ij,kj->ki", (2, 3), (4, 3)),
    ("bij,bjk->bik", (2, 3, 2), (2, 2, 4)), ("bij,bjk->ikb", (2, 3, 2), (2, 2, 4)),
    ("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 2, 4)), ("bqhd,bkhd->bhqk", (2, 3, 2, 4), (2, 2, 2, 4)),
    ("bhqk,bkhd->bqhd", (2, 2, 3, 4), (2, 4, 2, 2)), ("ij,j->i", (3, 4), (4,)), ("i,i->", (4,), (4,)),
    ("i,j->ij", (2,), (3,)), ("i,j->ji", (2,), (3,)), ("ij,ij->ij", (2, 3), (2, 3)),
    ("ij,ij->i", (2, 3), (2, 3)), ("ij,ij->", (2, 3), (2, 3)), ("ijk,jk->i", (2, 3, 2), (3, 2)),
    ("ijk,kj->i", (2, 3, 2), (2, 3)), ("ii->", (3, 3)), ("ii->i", (3, 3)), ("ii", (3, 3)),
    ("iij->j", (2, 2, 3)), ("iji->ij", (2, 3, 2)), ("iii->i", (3, 3, 3)), ("iijj->", (2, 2, 3, 3)),
    ("ij->ji", (2, 3)), ("ba", (2, 3)), ("ij->", (2, 3)), ("ij->j", (2, 3)), ("ijk->ki", (2, 3, 4)),
    ("->", ()), (",->", (), ()), ("i,->i", (3,), ()), ("ij,jk,kl->il", (2, 3), (3, 2), (2, 4)),
    ("ij,jk,kl,lm->mi", (2, 3), (3, 2), (2, 2), (2, 3)), ("i,i,i->i", (3,), (3,), (3,)),
    ("ij,j,k->ik", (2, 3), (3,), (2,)), ("ij,ik,jk->", (2, 3), (2, 2), (3, 2)),
    ("a,b,c,d,e->ace", (2,), (2,), (2,), (2,), (2,)), ("ab,bc,cd,de,ef->af", (2, 2), (2, 2), (2, 2), (2, 2), (2, 2)),
    ("...ij,...jk->...ik", (2, 2, 3), (2, 3, 2)), ("...ij,jk->...ik", (2, 2, 3), (3, 2)),
    ("...i->...", (2, 3)), ("i...->...i", (2, 3, 2)), ("...,...", (2, 1), (3,)), ("i...,i...->...", (2, 3), (2, 3)),
    ("ij...,jk...->ik...", (2, 3, 2), (3, 2, 2)), ("...ii->...i", (2, 3, 3)), ("ij,jk->ik", (2, 0), (0, 3)),
    ("ij->i", (2, 0)), ("i,j->ij", (0,), (2,)), ("ij,ij->ij", (2, 1), (2, 3)), ("ij,jk->ik", (2, 1), (3, 2)),
    ("bi,bi->b", (3, 70), (3, 70)), ("bi,bi->b", (5, 2), (5, 2)), ("ik,kj,k->ij", (2, 3), (3, 2), (3,)),
]


def main():
    rng = np.random.default_rng(5)
    cases = []

    def add(name, args, inputs, call):
        out = call(*inputs)
        assert np.abs(out).max(initial=0) <= 256, (name, args)
        cases.append([name, args, [[list(x.shape), np.ravel(x).tolist()] for x in inputs],
                      [list(np.shape(out)), np.ravel(out).tolist()]])

    def data(*shape):
        return rng.integers(0, 2 + (np.prod(shape) < 10), shape)

    for equation, *shapes in EINSUM:
        add("einsum", [equation], [data(*s) for s in shapes], lambda *xs: np.einsum(equation, *xs))
    for axes, a, b in [(2, (2, 3, 2), (3, 2, 2)), (1, (2, 3), (3, 2)), (0, (2,), (3,)), ([1, 1], (2, 3), (4, 3)),
                       ([[0, 2], [1, 0]], (2, 3, 2), (2, 2, 3)), ([[-1], [0]], (2, 3), (3, 2)), (1, (3,), (3,))]:
        add("tensordot", [axes], [data(*a), data(*b)],
            lambda x, y: np.tensordot(x, y, axes if isinstance(axes, int) else tuple(axes)))
    for axis, a, b in [(-1, (2, 3), (2, 3)), (-1, (2, 3), (3,)), (-1, (4,), (2, 4)), (-2, (2, 3, 1), (3, 2)),
                       (0, (3, 2), (3, 2)), (-1, (3,), (3,))]:
        add("vecdot", [axis], [data(*a), data(*b)], lambda x, y: np.vecdot(x, y, axis=axis))
    for a, b in [((3,), (3,)), ((2, 3), (4, 3)), ((2, 3), ()), ((2, 2, 3), (3,)), ((), ())]:
        add("inner", [], [data(*a), data(*b)], np.inner)
    for a, b in [((2,), (3,)), ((2, 2), (1, 3)), ((2, 2), (3,)), ((2,), (2, 2, 2)), ((), (2,)), ((0,), (2,))]:
        add("kron", [], [data(*a), data(*b)], np.kron)
    for options, a in [({}, (3, 3)), ({"offset": 1}, (2, 4)), ({"offset": -1}, (3, 3)), ({}, (2, 3, 2)),
                       ({"axis1": 1, "axis2": 2}, (2, 3, 3)), ({"offset": 5}, (2, 2)), ({"axis1": -1, "axis2": 0}, (2, 3, 2))]:
        add("trace", [options], [data(*a)], lambda x: np.trace(x, **options))
    for axis, a, b in [(-1, (3,), (3,)), (-1, (2, 3), (2, 3)), (0, (3, 2), (3, 2)), (-1, (2, 3), (3,))]:
        add("cross", [axis], [data(*a) + 1, data(*b)], lambda x, y: np.cross(x, y, axis=axis))
    folder = os.path.join(os.path.dirname(__file__), "../../../tests/golden/products")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "products.json"), "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases) + "\n]\n")


main()
