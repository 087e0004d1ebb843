"""The NumPy peer: times statements as it is told on stdin, in the protocol of worker.ts.

A request carries the row's inputs and its statement; timeit compiles the statement into the loop,
so that no call of a Python function is added to it. Knows nothing of the work list.
"""

import json
import sys
import timeit

import numpy as np

ARRAYS = {}
TIMERS = {}
GROUP = [""]
NUMPY_DTYPES = {"bool": "bool_"}


def softmax(a):
    """Along the last axis, shifted by the maximum, as every implementation does."""
    e = np.exp(a - a.max(-1, keepdims=True))
    e /= e.sum(-1, keepdims=True)
    return e


NAMES = {
    "np": np,
    "softmax": softmax,
    "broadcast_to": lambda x: np.broadcast_to(x, (8, *x.shape)),
    "step2": slice(2, 40, 2),
    "back": slice(None, None, -1),
}


def make(name, spec):
    key = name + json.dumps(spec)
    if key not in ARRAYS:
        rng = np.random.default_rng(len(ARRAYS))
        shape, dtype = spec["shape"], spec["dtype"]
        if "below" in spec:
            x = rng.integers(0, spec["below"], shape)
        elif dtype == "bool":
            x = rng.integers(0, 2, shape)
        elif "float" in dtype:
            x = rng.standard_normal(shape)
        else:
            x = rng.integers(1, 101, shape)
        ARRAYS[key] = x.astype(dtype)
    return ARRAYS[key]


def prepare(request):
    group = request["row"].split("/")[0]
    if group != GROUP[0]:
        ARRAYS.clear()
        TIMERS.clear()
        GROUP[0] = group
    names = {name: make(name, spec) for name, spec in request["inputs"].items()}
    timer = timeit.Timer(request["statement"], globals={**NAMES, **names})
    seconds = request["ms"] / 1e3
    calls = 1
    while True:
        took = timer.timeit(calls)
        if took >= seconds / 4:
            break
        calls *= 2
    calls = max(1, round(calls * seconds / took))
    TIMERS[request["row"]] = (timer, calls)
    return {}


def answer(request):
    if request["do"] == "prepare":
        return prepare(request)
    timer, calls = TIMERS[request["row"]]
    timer.timeit(max(1, calls // 2))  # the same lead-in as the other peers have
    return {"ns": timer.timeit(calls) * 1e9 / calls}


def reply(message):
    print(json.dumps(message), flush=True)


if __name__ == "__main__":
    np.seterr(all="ignore")
    reply({"version": f"NumPy {np.__version__}"})
    for line in sys.stdin:
        try:
            reply(answer(json.loads(line)))
        except Exception as error:  # told to whoever asked
            reply({"error": f"{type(error).__name__}: {error}"})
