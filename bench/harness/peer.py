"""The peers in Python: measure statements by requests on stdin, in the protocol of worker.ts.

    peer.py NAME --threads=N --level=v3

NAME is `NumPy`, `PyTorch`, `torch.compile` or `ONNX Runtime`. A request carries the row's inputs and
its statement. timeit compiles the statement into its loop, so that no call of a Python function is
added to it, and turns the garbage collector off. For `torch.compile` the statement becomes the body of
a compiled function; for ONNX Runtime it makes a graph whose only input is `x`, with weights as
initializers, or names a file with its inputs. Knows nothing of the list of rows.
"""

import json
import sys
import time
import timeit
import warnings

import numpy as np
from peer_models import PEER, THREADS, names, session_of

TORCH = PEER in ("PyTorch", "torch.compile")
LEVEL = sys.argv[3].split("=")[1]
if TORCH:
    import torch
if PEER == "ONNX Runtime":
    import onnxruntime

# As in worker.ts: the seconds of a batch, and the least number of batches of a timing.
BATCH = 1e-3
LEAST_BATCHES = 3
MEMORY_CALLS = 20
ARRAYS = {}
ROWS = {}
GROUP = [""]


# ---- inputs, as inputs.ts makes them ---------------------------------------------------------------


def uniform(shape, stream, low, high):
    """The numbers of `uniform` in suite.ts: hashes of the indexes."""
    start = np.uint32((stream + 1) * 0x9E3779B9 & 0xFFFFFFFF)
    x = np.arange(np.prod(shape, dtype=int), dtype=np.uint32) + start
    x = (x ^ x >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    x = (x ^ x >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    x ^= x >> np.uint32(16)
    return (low + x / 2**32 * (high - low)).astype(np.float32).reshape(shape)


def make(spec, stream):
    """The array of an input in the widest type that its dtype needs."""
    shape, dtype, kind = spec["shape"], spec["dtype"], spec.get("kind")
    rng = np.random.default_rng(stream)
    if kind == "uniform":
        return uniform(shape, stream, spec["low"], spec["high"])
    if kind == "ones":
        return np.ones(shape, dtype)
    counts = dtype == "bool" or dtype.startswith(("int", "uint"))
    if kind == "integers" or (kind is None and counts):
        low, high = (0, 2) if dtype == "bool" else (spec.get("low", 1), spec.get("high", 101))
        return rng.integers(low, high, shape)
    x = rng.standard_normal(shape)
    if dtype.startswith("complex"):
        x = x + 1j * rng.standard_normal(shape)
    if kind == "positive":
        x = np.abs(x)
    elif kind == "scaled":
        x = (x * 10000).clip(-32768, 32767)
    elif kind == "sorted":
        x = np.sort(x)
    elif kind == "definite":
        x = x @ np.swapaxes(x, -1, -2).conj() + shape[-1] * np.eye(shape[-1])
    return x


def array_of(name, stream, spec):
    """The array of an input. Rows of a group share those that are equal."""
    key = f"{name} {stream} {json.dumps(spec)}"
    if key not in ARRAYS:
        x = make(spec, stream)
        if TORCH:
            # Through torch, as NumPy has no bfloat16; a copy, as its memory is then torch's own.
            x = torch.from_numpy(np.ascontiguousarray(x)).to(getattr(torch, spec["dtype"])).clone()
        else:
            x = x.astype(spec["dtype"])
        ARRAYS[key] = x
    return ARRAYS[key]


# ---- rows ----------------------------------------------------------------------------------------


class Row:
    """The statement to time, and the way to get its result."""

    def __init__(self, request):
        arrays = {
            name: array_of(name, i, spec) for i, (name, spec) in enumerate(request["inputs"].items())
        }
        out, self.statement = request.get("out"), request["statement"]
        if PEER == "ONNX Runtime":
            model = eval(self.statement, {**names(), "inputs": arrays})
            model, feeds = model if isinstance(model, tuple) else (model, {"x": arrays["x"]})
            session, binding = session_of(model, feeds)
            if binding is None:
                self.names = {"run": session.run, "feeds": feeds}
                self.statement = "run(None, feeds)"
                self.result = lambda: session.run(None, feeds)[0]
            else:
                self.names = {"run": session.run_with_iobinding, "binding": binding}
                self.statement = "run(binding)"
                self.result = lambda: binding.copy_outputs_to_cpu()[0]
        else:
            if out is not None:
                o = np.zeros(out["shape"], out["dtype"])
                arrays["o"] = torch.from_numpy(o) if TORCH else o
            self.names = {**names(), **arrays, "inputs": arrays}
            if PEER == "torch.compile":
                parameters = ", ".join(arrays)
                exec(f"def compiled({parameters}): return {self.statement}", self.names)
                self.names["compiled"] = torch.compile(self.names["compiled"], dynamic=False)
                self.statement = f"compiled({parameters})"
            if out is None:
                self.result = lambda: np.asarray(eval(self.statement, self.names))
            else:
                run = lambda: exec(self.statement, self.names)
                self.result = lambda: (run(), np.asarray(arrays["o"]))[1]
        self.timer = timeit.Timer(self.statement, globals=self.names)

    def plan(self, one, seconds):
        """The numbers of calls and batches, as worker.ts chooses them."""
        self.calls = max(1, round(BATCH / one))
        self.batches = max(LEAST_BATCHES, round(seconds / max(BATCH, one)))

    def prepare(self, seconds):
        calls = 1
        while (took := self.timer.timeit(calls)) < seconds / 4:
            calls *= 2
        self.plan(took / calls, seconds)

    def time(self, seconds):
        # The same lead-in as worker.ts has, and the same correction of the calls.
        half = (self.batches + 1) // 2
        while True:
            lead = sum(self.timer.repeat(half, self.calls))
            if lead >= seconds / 4 or self.batches == LEAST_BATCHES:
                break
            self.plan(lead / (half * self.calls), seconds)
        before = time.process_time()
        times = self.timer.repeat(self.batches, self.calls)
        cpu, calls = time.process_time() - before, self.batches * self.calls
        return {
            "wall": sum(times) * 1e9 / calls,
            "cpu": cpu * 1e9 / calls,
            "least": min(times) * 1e9 / self.calls,
        }


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


# ---- the protocol --------------------------------------------------------------------------------


def answer(request):
    key, seconds = request["row"], request["ms"] / 1e3
    if request["do"] == "time":
        return {"figure": ROWS[key].time(seconds)}
    group = key.split("/")[0]
    if group != GROUP[0]:
        ROWS.clear()
        ARRAYS.clear()
        GROUP[0] = group
    ROWS[key] = row = Row(request)
    if request["do"] == "memory":
        row.timer.timeit(MEMORY_CALLS)
        return {"peak": peak_bytes()}
    if "file" in request:
        row.result().astype(np.float32).tofile(request["file"])
    row.prepare(seconds)
    return {}


def reply(message):
    print(json.dumps(message), flush=True)


def serve():
    for line in sys.stdin:
        try:
            reply(answer(json.loads(line)))
        except Exception as error:  # sent to the caller
            reply({"error": f"{type(error).__name__}: {error}"})


def start():
    if PEER == "NumPy":
        return {"version": f"NumPy {np.__version__}"}
    if PEER == "ONNX Runtime":
        return {"version": f"ONNX Runtime {onnxruntime.__version__}"}
    torch.set_num_threads(THREADS)
    if PEER == "torch.compile":
        import torch._inductor.config as inductor

        if LEVEL == "v3":
            inductor.cpp.simdlen = 256
        try:
            torch.compile(lambda x: x + 1)(torch.zeros(3))
        except Exception as error:  # without a C++ compiler, for instance
            return {"error": f"{type(error).__name__}: {str(error).splitlines()[0]}"}
    return {"version": f"PyTorch {torch.__version__}"}


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # Determinants overflow.
    np.seterr(all="ignore")
    reply(start())
    if TORCH:
        # Nothing is recorded for gradients: the fastest that PyTorch has.
        with torch.inference_mode():
            serve()
    else:
        serve()
