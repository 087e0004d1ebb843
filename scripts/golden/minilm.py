"""Writes tests/golden/models/minilm.json: the sentence vectors of all-MiniLM-L6-v2 by PyTorch.

    .venv/bin/pip install torch safetensors tokenizers
    .venv/bin/python scripts/golden/minilm.py models/minilm

The model is in the folder that `deno task models` makes. With `--onnx FILE` it exports the encoder
instead, with the names that transformers.js gives inputs and outputs, for the bench, which reads
models/minilm/onnx/model.onnx. Vectors are little-endian float32 in base64.
"""

import argparse
import base64
import json
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from tokenizers import Tokenizer

PATH = Path(__file__).parents[2] / "tests/golden/models/minilm.json"

TEXTS = [
    "hello world",
    "",
    "a",
    "The quick brown fox jumps over the lazy dog.",
    "How do I reset my password?",
    "I cannot log in to my account any more.",
    "Grüße aus Wien",
    "東京は日本の首都です。",
    "naïve café – “quotes”, and an em dash — too",
    "1234567890 3.14159 -2e10",
    "const x = (a, b) => a + b; // code",
    "ALL CAPS SHOUTING!!!",
    "emoji 🙂🚀 and symbols ©®™",
    "Das Wetter ist heute schön, und morgen soll es regnen.",
    "tabs\tand\nlines",
    "antidisestablishmentarianism pneumonoultramicroscopicsilicovolcanoconiosis",
    "A man is eating food. " * 3,
    "Tensors are arrays of numbers with a shape, a dtype and strides. " * 6,
    "the " * 200,
    "one two three four five six seven eight nine ten " * 80,
]


class Encoder(torch.nn.Module):
    """BERT without dropout and pooler."""

    def __init__(self, weights, config):
        super().__init__()
        self.heads = config["num_attention_heads"]
        self.layers = config["num_hidden_layers"]
        self.epsilon = config["layer_norm_eps"]
        self.names = {name: f"w{i}" for i, name in enumerate(weights)}
        for name, key in self.names.items():
            self.register_buffer(key, weights[name])

    def weight(self, name):
        return getattr(self, self.names[name])

    def linear(self, x, name):
        return F.linear(x, self.weight(f"{name}.weight"), self.weight(f"{name}.bias"))

    def norm(self, x, name):
        weight, bias = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        return F.layer_norm(x, (len(weight),), weight, bias, self.epsilon)

    def forward(self, ids, mask):
        b, t = ids.shape
        x = self.weight("embeddings.word_embeddings.weight")[ids]
        x = x + self.weight("embeddings.position_embeddings.weight")[:t]
        x = x + self.weight("embeddings.token_type_embeddings.weight")[0]
        x = self.norm(x, "embeddings.LayerNorm")
        d = x.shape[-1] // self.heads
        hidden = (mask - 1)[:, None, None, :] * 1e9
        for i in range(self.layers):
            at = f"encoder.layer.{i}"
            q, k, v = (
                self.linear(x, f"{at}.attention.self.{part}").view(b, t, self.heads, d).transpose(1, 2)
                for part in ("query", "key", "value")
            )
            seen = torch.softmax(q @ k.transpose(-1, -2) / d**0.5 + hidden, -1) @ v
            seen = seen.transpose(1, 2).reshape(b, t, -1)
            x = self.norm(x + self.linear(seen, f"{at}.attention.output.dense"), f"{at}.attention.output.LayerNorm")
            y = self.linear(F.gelu(self.linear(x, f"{at}.intermediate.dense")), f"{at}.output.dense")
            x = self.norm(x + y, f"{at}.output.LayerNorm")
        return x


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--onnx", type=Path)
    options = parser.parse_args()
    config = json.loads((options.folder / "config.json").read_text())
    model = Encoder(load_file(options.folder / "model.safetensors"), config).eval()
    if options.onnx:
        inputs, outputs = ["input_ids", "attention_mask"], ["last_hidden_state"]
        names = {"input_names": inputs, "output_names": outputs}
        sizes = {name: {0: "B", 1: "T"} for name in inputs + outputs}
        example = tuple(torch.ones(2, 16, dtype=torch.long) for _ in inputs)
        torch.onnx.export(
            model, example, options.onnx, dynamo=False, dynamic_axes=sizes, opset_version=17, **names
        )
        return
    tokenizer = Tokenizer.from_file(str(options.folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(config["max_position_embeddings"])
    cases = []
    for text in TEXTS:
        ids = tokenizer.encode(text).ids
        with torch.no_grad():
            x = model.double()(torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.float64))
        vector = F.normalize(x.mean(1), dim=-1)[0].float()
        data = base64.b64encode(vector.numpy().astype("<f4").tobytes()).decode()
        cases.append({"text": text, "ids": ids, "vector": data})
    PATH.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    PATH.write_text(f"[\n{lines}\n]\n")


main()
