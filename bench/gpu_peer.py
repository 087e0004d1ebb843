"""PyTorch's side of bench/gpu.ts: JSON lines in, JSON lines out.

`{"do": "prepare", "inputs": {...}, "sets": n}` makes inputs; `{"do": "time", "statement": s,
"calls": k, "host": bool}` gives the milliseconds of k calls, by events of the device or by the
clock of the host.
"""

import json
import sys
import time

import torch
import torch.nn.functional as F  # noqa: F401, statements use it

DTYPES = {
    "bool": torch.bool, "int8": torch.int8, "uint8": torch.uint8,
    "int32": torch.int32, "int64": torch.int64,
    "float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32,
    "float64": torch.float64,
}


def make(given):
    dtype, shape = DTYPES[given["dtype"]], given["shape"]
    if given.get("below") is not None:
        return torch.randint(0, given["below"], shape, device="cuda").to(dtype)
    if dtype.is_floating_point:
        x = torch.randn(shape, device="cuda", dtype=torch.float32)
        return (x.abs() if given.get("positive") else x).to(dtype)
    return torch.randint(1, 101, shape, device="cuda").to(dtype)


def main():
    torch.set_grad_enabled(False)
    # As products of float32 by default: no TF32.
    torch.backends.cudnn.allow_tf32 = False
    device = torch.cuda.get_device_name(0)
    print(json.dumps({"version": f"PyTorch {torch.__version__}", "device": device}), flush=True)
    sets, program = [], None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["do"] == "prepare":
                sets = [
                    {name: make(given) for name, given in request["inputs"].items()}
                    for _ in range(request["sets"])
                ]
                program = compile(request["statement"], "row", "eval")
                for scope in sets:
                    eval(program, globals(), scope)
                torch.cuda.synchronize()
                print(json.dumps({}), flush=True)
                continue
            calls, scopes = request["calls"], len(sets)
            torch.cuda.synchronize()
            if request["host"]:
                begin = time.perf_counter()
                for i in range(calls):
                    eval(program, globals(), sets[i % scopes])
                ms = (time.perf_counter() - begin) * 1e3
                torch.cuda.synchronize()
            else:
                first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                first.record()
                for i in range(calls):
                    eval(program, globals(), sets[i % scopes])
                last.record()
                last.synchronize()
                ms = first.elapsed_time(last)
            print(json.dumps({"ms": ms}), flush=True)
        except Exception as error:  # noqa: BLE001, sent to the caller
            print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)


main()
