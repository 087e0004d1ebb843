"""Write tests/golden/indexing.json: random mixes of basic and advanced indexes, and what NumPy does.

A case has the shape of the source (which holds 0, 1, 2, …), how its axes are permuted and flipped to
make a view, the index as JSON, and the shape and elements that reading gives, or the elements of the
whole view after 1000, 1001, … (or one number) have been written to it, and after they have been added;
an index that NumPy refuses has "error". Needs: pip install numpy. Run from the repository root.
"""

import json
import os
import random

import numpy as np

random.seed(20240612)


def basic(n):
    """A number, a slice or a range string, now and then beyond the end."""
    kind = random.random()
    if kind < 0.3 and n > 0:
        return ["int", random.randint(-n, n - 1)]
    bound = lambda: None if random.random() < 0.4 else random.randint(-n - 2, n + 2)
    step = random.choice([None, None, 1, 2, 3, -1, -2])
    return ["slice", bound(), bound(), step]


def integers(n, shape):
    return ["ints", list(shape), [random.randint(-n, n - 1) for _ in range(int(np.prod(shape)))]]


def mask(shape):
    share = random.choice([0.0, 0.3, 0.5, 0.5, 0.9])
    return ["mask", list(shape), [random.random() < share for _ in range(int(np.prod(shape)))]]


def make_index(shape):
    """Parts of an index for `shape`, from the left, with or without an ellipsis."""
    parts = []
    axis = 0
    advanced = random.random() < 0.8
    # All index tensors of a case broadcast together.
    common = random.choice([[], [1], [2], [3], [2, 2], [3, 1], [1, 2]])
    while axis < len(shape) and random.random() < 0.85:
        n = shape[axis]
        kind = random.random()
        if advanced and kind < 0.4 and n > 0:
            own = common[random.randint(0, len(common)):]
            own = [1 if random.random() < 0.2 else m for m in own]
            parts.append(integers(n, own))
            axis += 1
        elif advanced and kind < 0.5:
            rank = 1 if axis + 1 == len(shape) or random.random() < 0.7 else 2
            parts.append(mask(shape[axis:axis + rank]))
            axis += rank
        else:
            parts.append(basic(n))
            axis += 1
        if random.random() < 0.15:
            parts.append(["newaxis"])
    if random.random() < 0.35:
        # What stands right of the dots is for the last axes: the same sizes, so that it fits.
        at = random.randint(0, len(parts))
        used = sum(len(p[1]) if p[0] == "mask" else 0 if p[0] == "newaxis" else 1 for p in parts)
        if at == len(parts) or used == len(shape):
            parts.insert(at, ["dots"])
    if random.random() < 0.05:
        parts.append(["int", 0])
    return parts


def to_numpy(part):
    kind = part[0]
    if kind == "int":
        return part[1]
    if kind == "slice":
        return slice(part[1], part[2], part[3])
    if kind == "newaxis":
        return None
    if kind == "dots":
        return Ellipsis
    return np.array(part[2], dtype=bool if kind == "mask" else np.int64).reshape(part[1])


def source(shape, order, flips):
    """A view of 0, 1, 2, … whose shape is `shape` permuted by `order`."""
    x = np.arange(int(np.prod(shape))).reshape(shape)
    x = x.transpose(order)
    return np.flip(x, flips)


def make_case():
    rank = random.choice([1, 2, 2, 3, 3, 3, 4])
    sizes = [0, 1, 2, 2, 3, 3, 4, 5] if random.random() < 0.15 else [1, 2, 2, 3, 3, 4, 5]
    shape = [random.choice(sizes) for _ in range(rank)]
    order = list(range(rank))
    if random.random() < 0.5:
        random.shuffle(order)
    flips = [axis for axis in range(rank) if random.random() < 0.25]
    x = source(shape, order, flips)
    parts = make_index(list(x.shape))
    case = {"shape": shape, "order": order, "flips": flips, "index": parts}
    index = tuple(to_numpy(part) for part in parts)
    try:
        got = x[index]
    except IndexError:
        return {**case, "error": True}
    if random.random() < 0.5:
        return {**case, "result": list(got.shape), "data": np.asarray(got).ravel().tolist()}
    target = source(shape, order, flips).copy()
    value = random.choice(["one", "full", "row"])
    if value == "one" or got.size == 0:
        written = 1000
        case["value"] = None
    else:
        fits = list(got.shape) if value == "full" else list(got.shape[-1:])
        written = 1000 + np.arange(int(np.prod(fits))).reshape(fits)
        case["value"] = fits
    added = target.copy()
    target[index] = written
    np.add.at(added, index, written)
    return {**case, "after": target.ravel().tolist(), "added": added.ravel().tolist()}


cases = []
while len(cases) < 400:
    case = make_case()
    if "error" in case and sum("error" in c for c in cases) >= 25:
        continue
    if len(case.get("data", case.get("after", []))) > 200:
        continue
    cases.append(case)

path = os.path.join("tests", "golden", "indexing.json")
with open(path, "w", encoding="utf-8", newline="\n") as file:
    file.write("[\n" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases) + "\n]\n")
kinds = {key: sum(key in case for case in cases) for key in ("data", "after", "error")}
print(f"{path}: {len(cases)} cases, {kinds}")
