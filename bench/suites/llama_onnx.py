"""Times a token of a Llama of a GGUF file in float32 by ONNX Runtime, after cached ones.

    python bench/suites/llama_onnx.py MODEL.gguf FOLDER [--threads=1] [--cached=64]

Needs gguf, numpy, onnx, onnxruntime and torch. Writes the model as FOLDER/step.onnx, if it is not
there. Prints the figure of a token of median time as JSON.
"""

import argparse
import json
import time
from pathlib import Path

import gguf
import numpy as np
import onnxruntime
import torch
import torch.nn.functional as F


def read(path):
    """The sizes and the tensors of a file, in float32."""
    reader = gguf.GGUFReader(path)
    value = lambda key: reader.fields[f"llama.{key}"].parts[-1][0].item()
    tensors = {
        tensor.name: torch.from_numpy(
            gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        )
        for tensor in reader.tensors
    }
    return value, tensors


class Step(torch.nn.Module):
    """One token: its keys and values come after those of `cache`."""

    def __init__(self, path):
        super().__init__()
        value, self.tensors = read(path)
        self.layers = value("block_count")
        self.heads = value("attention.head_count")
        self.groups = value("attention.head_count_kv")
        self.epsilon = value("attention.layer_norm_rms_epsilon")
        self.base = value("rope.freq_base")
        self.columns = value("embedding_length") // self.heads
        for name, tensor in self.tensors.items():
            self.register_buffer(name.replace(".", "_"), tensor)

    def weight(self, name):
        return getattr(self, name.replace(".", "_"))

    def norm(self, x, name):
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon)
        return x * scale * self.weight(name)

    def turn(self, x, position):
        half = torch.arange(0, self.columns, 2, dtype=torch.float32)
        angle = position * self.base ** (-half / self.columns)
        a, b = x[..., 0::2], x[..., 1::2]
        cos, sin = angle.cos(), angle.sin()
        return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)

    def forward(self, ids, position, *cache):
        x = self.weight("token_embd.weight")[ids]
        made = []
        for i in range(self.layers):
            own = f"blk.{i}."
            linear = lambda x, name: F.linear(x, self.weight(f"{own}{name}.weight"))
            h = self.norm(x, f"{own}attn_norm.weight")
            q, k, v = (
                linear(h, f"attn_{name}").view(1, -1, self.columns).transpose(0, 1) for name in "qkv"
            )
            k = torch.cat([cache[2 * i], self.turn(k, position)], 1)
            v = torch.cat([cache[2 * i + 1], v], 1)
            made += [k, v]
            q = self.turn(q, position).reshape(self.groups, -1, self.columns)
            weights = torch.softmax(q @ k.transpose(1, 2) / self.columns**0.5, -1)
            x = x + linear((weights @ v).reshape(1, -1), "attn_output")
            h = self.norm(x, f"{own}ffn_norm.weight")
            x = x + linear(F.silu(linear(h, "ffn_gate")) * linear(h, "ffn_up"), "ffn_down")
        head = "output.weight" if "output.weight" in self.tensors else "token_embd.weight"
        return (F.linear(self.norm(x, "output_norm.weight"), self.weight(head)), *made)


def export(path, to):
    step = Step(path).eval()
    cache = [torch.zeros(step.groups, 4, step.columns) for _ in range(2 * step.layers)]
    names = [f"cache{i}" for i in range(len(cache))]
    torch.onnx.export(
        step,
        (torch.tensor([1]), torch.tensor(4.0), *cache),
        to,
        dynamo=False,
        input_names=["ids", "position", *names],
        output_names=["logits", *(f"new{name}" for name in names)],
        dynamic_axes={name: {1: "P"} for name in names},
        opset_version=17,
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cached", type=int, default=64)
    given = parser.parse_args()
    file = given.folder / "step.onnx"
    if not file.exists():
        given.folder.mkdir(parents=True, exist_ok=True)
        with torch.no_grad():
            export(given.model, file)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = given.threads
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    inputs = {"ids": np.array([504]), "position": np.array(given.cached, np.float32)}
    for one in session.get_inputs()[2:]:
        inputs[one.name] = np.zeros([one.shape[0], given.cached, one.shape[2]], np.float32)
    times = []
    for _ in range(40):
        begin, before = time.perf_counter(), time.process_time()
        session.run(["logits"], inputs)
        wall, cpu = time.perf_counter() - begin, time.process_time() - before
        times.append({"wall": wall * 1e9, "cpu": cpu * 1e9})
    times.sort(key=lambda one: one["wall"])
    figures = {f"token after {given.cached}": times[len(times) // 2]}
    print(json.dumps({"version": f"ONNX Runtime {onnxruntime.__version__}", "figures": figures}))


if __name__ == "__main__":
    main()
