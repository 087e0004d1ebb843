"""NumPy or PyTorch for bench/numerics.ts: a request per line, the fastest time in microseconds."""

import json
import sys
import time
import warnings

import numpy as np

warnings.simplefilter("ignore")  # Determinants overflow.
library, threads = sys.argv[1], int(sys.argv[2])
t = None
if library == "torch":
    import torch as t

    t.set_num_threads(threads)
rng = np.random.default_rng(1)


def make(kind, shape, dtype, high=0):
    if kind == "integers":
        return rng.integers(0, high, shape).astype(dtype)
    if kind == "scaled":
        return (rng.standard_normal(shape) * 10000).clip(-32768, 32767).astype(dtype)
    x = rng.standard_normal(shape)
    if dtype.startswith("complex"):
        x = x + 1j * rng.standard_normal(shape)
    if kind == "sorted":
        x = np.sort(x)
    if kind == "definite":
        x = x @ np.swapaxes(x, -1, -2).conj() + shape[-1] * np.eye(shape[-1])
    return x.astype(dtype)


def fastest(call, milliseconds):
    best = float("inf")
    for _ in range(4):
        begin = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - begin)
    calls = max(1, int(2e-4 / (best + 1e-9)))
    end = time.perf_counter() + milliseconds / 1e3
    while begin < end:
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        best = min(best, (time.perf_counter() - begin) / calls)
    return best * 1e6


print(json.dumps((t or np).__version__), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    data = {name: make(**one) for name, one in request["data"].items()}
    if t:
        data = {name: t.from_numpy(np.ascontiguousarray(x)) for name, x in data.items()}
    call = eval(f"lambda: {request['code']}", {"np": np, "t": t, **data})
    print(json.dumps(fastest(call, request["ms"])), flush=True)
