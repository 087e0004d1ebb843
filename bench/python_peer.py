"""The NumPy and PyTorch peers: time statements as told on stdin, in the protocol of worker.ts.

The first argument is `numpy` or `torch`. A request carries the row's inputs and its statement;
timeit compiles the statement into the loop, so that no call of a Python function is added to it.
Knows nothing of the work list.
"""

import json
import sys
import timeit

import numpy as np

TORCH = sys.argv[1] == "torch"
THREADS = int(sys.argv[2].split("=")[1])
if TORCH:
    import torch

ARRAYS = {}
TIMERS = {}
GROUP = [""]


def softmax(a):
    """Along the last axis, shifted by the maximum, as every implementation does."""
    e = np.exp(a - a.max(-1, keepdims=True))
    e /= e.sum(-1, keepdims=True)
    return e


def log_softmax(a):
    c = a - a.max(-1, keepdims=True)
    c -= np.log(np.exp(c).sum(-1, keepdims=True))
    return c


def layer_norm(a, gain, bias):
    c = a - a.mean(-1, keepdims=True)
    c /= np.sqrt(np.square(c).mean(-1, keepdims=True) + 1e-5)
    return c * gain + bias


def rms_norm(a, gain):
    return a / np.sqrt(np.square(a).mean(-1, keepdims=True) + np.finfo(a.dtype).eps) * gain


NAMES = {"step2": slice(2, 40, 2), "back": slice(None, None, -1), "np": np}
if TORCH:
    NAMES.update(torch=torch, F=torch.nn.functional)
else:
    NAMES.update(softmax=softmax, log_softmax=log_softmax, layer_norm=layer_norm, rms_norm=rms_norm)


def fresh(spec):
    rng = np.random.default_rng(len(ARRAYS))
    shape, dtype = spec["shape"], spec["dtype"]
    if "below" in spec:
        x = rng.integers(0, spec["below"], shape)
    elif dtype == "bool":
        x = rng.integers(0, 2, shape)
    elif "float" in dtype:
        x = rng.standard_normal(shape, np.float32)
        if spec.get("positive"):
            np.abs(x, out=x)
    else:
        x = rng.integers(1, 101, shape)
    if TORCH:
        # Through torch, as NumPy has no bfloat16.
        return torch.from_numpy(x).to(getattr(torch, dtype)).clone()
    return x.astype(dtype)


def make(name, spec):
    key = name + json.dumps(spec)
    if key not in ARRAYS:
        ARRAYS[key] = fresh(spec)
    return ARRAYS[key]


def timer_for(request):
    names = {name: make(name, spec) for name, spec in request["inputs"].items()}
    return timeit.Timer(request["statement"], globals={**NAMES, **names})


def prepare(request):
    group = request["row"].split("/")[0]
    if group != GROUP[0]:
        ARRAYS.clear()
        TIMERS.clear()
        GROUP[0] = group
    timer = timer_for(request)
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


def peak_bytes():
    """The largest resident set that this process has had."""
    try:
        with open("/proc/self/status") as file:
            for line in file:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    import resource  # not on Windows

    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size if sys.platform == "darwin" else size * 1024


def answer(request):
    if request["do"] == "prepare":
        return prepare(request)
    if request["do"] == "memory":
        before = peak_bytes()
        timer_for(request).timeit(request["calls"])
        return {"before": before, "peak": peak_bytes()}
    timer, calls = TIMERS[request["row"]]
    # The same lead-in as the other peers have, and the same correction of the calls.
    while timer.timeit((calls + 1) // 2) < request["ms"] / 4e3:
        calls *= 2
        TIMERS[request["row"]] = (timer, calls)
    return {"ns": timer.timeit(calls) * 1e9 / calls}


def reply(message):
    print(json.dumps(message), flush=True)


def serve():
    for line in sys.stdin:
        try:
            reply(answer(json.loads(line)))
        except Exception as error:  # sent to the caller
            reply({"error": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    np.seterr(all="ignore")
    if TORCH:
        torch.set_num_threads(THREADS)
        reply({"version": f"PyTorch {torch.__version__}"})
        # Nothing is recorded for gradients: the fastest that PyTorch has.
        with torch.inference_mode():
            serve()
    else:
        reply({"version": f"NumPy {np.__version__}"})
        serve()
