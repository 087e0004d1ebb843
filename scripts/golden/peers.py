"""Computes the left sides of the tables in docs/from-numpy.md and docs/from-pytorch.md.

Writes tests/golden/peers/{numpy,pytorch}.json: what each expression gives, by its text, on the
operands of tests/golden/peers/operands.json. Run it after a table changed, with the Python of a
virtual environment that has numpy, torch and safetensors; `numpy` or `pytorch` as an argument
computes that page only.

Needs: pip install numpy torch safetensors.
"""

import json
import os
import pathlib
import re
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "peers"
OPERANDS = json.loads((GOLDEN / "operands.json").read_text())


def expressions(page):
    """The code in the first column of every table of a page."""
    for line in (ROOT / "docs" / f"from-{page}.md").read_text().splitlines():
        if line.startswith("|"):
            cell = re.split(r"(?<!\\)\|", line)[1]
            for code in re.findall(r"`([^`]+)`", cell):
                yield code.replace("\\|", "|")


def plain(value):
    """A result as JSON; None for what is no numbers."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, (tuple, list)):
        items = [plain(item) for item in value]
        return None if any(item is None for item in items) and items else items
    return value if isinstance(value, (bool, int, float, str)) else None


def evaluate(code, scope):
    """What an expression gives, and x after a statement; None for what depends on the machine."""
    # Some builds for CPUs crash in them.
    if "cuda" in code and not scope["torch"].cuda.is_available():
        return None
    try:
        try:
            value = eval(compile(code, code, "eval"), scope)
        except SyntaxError:
            exec(compile(code, code, "exec"), scope)
            value = scope["x"]
    except (AssertionError, RuntimeError) as error:
        if "cuda" in code and re.search("CUDA|NVIDIA", str(error)):
            return None
        raise
    return None if "cuda" in code else plain(value)


def numpy_scope(folder):
    scope = {name: np.array(data, np.dtype(dtype)) for name, (dtype, data) in OPERANDS.items()}
    file = os.path.join(folder, "x.npy")
    np.save(file, scope["x"])
    return {**scope, "np": np, "file": file}


def torch_scope(folder):
    import safetensors.torch
    import torch

    torch.manual_seed(0)
    wide = {"int32": "int64"}
    scope = {
        name: torch.tensor(data, dtype=getattr(torch, wide.get(dtype, dtype)))
        for name, (dtype, data) in OPERANDS.items()
    }
    weights = os.path.join(folder, "w.safetensors")
    safetensors.torch.save_file({"x": scope["x"]}, weights)
    file = os.path.join(folder, "x.safetensors")
    modules = {"torch": torch, "F": torch.nn.functional, "safetensors": safetensors}
    return {**scope, **modules, "file": file, "weights": weights}


SCOPES = {"numpy": numpy_scope, "pytorch": torch_scope}

for page in sys.argv[1:] or SCOPES:
    results = {}
    for code in expressions(page):
        with tempfile.TemporaryDirectory() as folder:
            try:
                results[code] = evaluate(code, SCOPES[page](folder))
            except Exception as error:
                sys.exit(f"docs/from-{page}.md: {code}: {error!r}")
    lines = [f"{json.dumps(code)}: {json.dumps(value)}" for code, value in results.items()]
    (GOLDEN / f"{page}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{page}: {len(results)} expressions")
