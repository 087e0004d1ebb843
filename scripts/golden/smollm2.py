"""Writes tests/golden/models/smollm2.json: tokens of SmolLM2 by PyTorch in float32.

    .venv/bin/pip install gguf numpy tokenizers torch
    deno task models smollm2
    .venv/bin/python scripts/golden/smollm2.py

The weights are those of the file, dequantized; and those in Q8_0 and Q4_0, made of them. For each, 32
greedy tokens after ten prompts, with the margin between the two best logits of each step; and the mean
negative log-likelihood of 1,000 tokens of smollm2.txt.
"""

import json
import re
from pathlib import Path

import gguf
import numpy as np
import torch
import torch.nn.functional as F
from gguf.quants import dequantize, quantize
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
TEXT = Path(__file__).with_suffix(".txt")
PATH = ROOT / "tests/golden/models/smollm2.json"
Type = gguf.GGMLQuantizationType
KINDS = {"q4_1": Type.Q4_1, "q8_0": Type.Q8_0, "q4_0": Type.Q4_0}
STEPS = 32
SCORED = 1000
CONTROL = 3


def chat(text, system=None):
    first = "" if system is None else f"<|im_start|>system\n{system}<|im_end|>\n"
    return f"{first}<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"


SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
#: Most have many steps before the first one whose best tokens are near each other.
PROMPTS = [
    chat("Hello, who are you?", SYSTEM),
    chat("Who wrote Romeo and Juliet?", SYSTEM),
    chat("Explain in one sentence why the sky is blue.", SYSTEM),
    chat("What is the capital of France?"),
    "1, 2, 3, 4, 5, 6, 7,",
    "We hold these truths to be self-evident, that",
    "The planets of the solar system, in order of their distance from the sun, are Mercury, Venus,",
    "Once upon a time, in a village by the sea, there lived a fisherman who",
    "Water boils at 100 degrees Celsius, and it freezes at",
    "The United States Declaration of Independence was signed in",
]


def tokenizer(fields):
    """The byte-pair encoding of the file; numbers are split into digits."""
    tokens = fields["tokenizer.ggml.tokens"].contents()
    kinds = fields["tokenizer.ggml.token_type"].contents()
    merges = [tuple(pair.split(" ")) for pair in fields["tokenizer.ggml.merges"].contents()]
    made = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    made.decoder = decoders.ByteLevel()
    special = [token for token, kind in zip(tokens, kinds) if kind == CONTROL]
    made.add_special_tokens([AddedToken(token, normalized=False) for token in special])
    return made


class Llama:
    def __init__(self, reader, kind):
        number = lambda key: reader.fields[f"llama.{key}"].contents()
        self.layers = number("block_count")
        self.size = number("rope.dimension_count")
        self.base = number("rope.freq_base")
        self.epsilon = number("attention.layer_norm_rms_epsilon")
        self.weights = {t.name: self.read(t, kind) for t in reader.tensors}
        self.reset()

    @staticmethod
    def read(tensor, kind):
        plain = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        if tensor.tensor_type == Type.Q4_1 != kind:
            plain = dequantize(quantize(plain, kind), kind)
        return torch.from_numpy(plain.reshape([int(n) for n in reversed(tensor.shape)]))

    def reset(self):
        self.cache = [None] * self.layers
        self.length = 0

    def norm(self, x, name):
        return F.rms_norm(x, x.shape[-1:], self.weights[name], self.epsilon)

    def rotate(self, x, positions):
        """Files of this architecture have pairs of neighbours."""
        rates = self.base ** (-torch.arange(0, self.size, 2, dtype=torch.float64) / self.size)
        angles = positions.double()[:, None] * rates
        c, s = angles.cos().float(), angles.sin().float()
        u, v = x[..., 0::2], x[..., 1::2]
        return torch.stack([u * c - v * s, u * s + v * c], -1).flatten(-2)

    def forward(self, ids):
        """The logits after each of the tokens, which follow those of earlier calls."""
        w = self.weights
        count = len(ids)
        positions = torch.arange(self.length, self.length + count)
        self.length += count
        x = w["token_embd.weight"][torch.tensor(ids)]
        for i in range(self.layers):
            at = f"blk.{i}."
            h = self.norm(x, at + "attn_norm.weight")
            q, k, v = (
                F.linear(h, w[at + f"attn_{n}.weight"]).view(count, -1, self.size).transpose(0, 1)
                for n in "qkv"
            )
            q, k = self.rotate(q, positions), self.rotate(k, positions)
            if self.cache[i] is not None:
                k = torch.cat([self.cache[i][0], k], 1)
                v = torch.cat([self.cache[i][1], v], 1)
            self.cache[i] = (k, v)
            # One token sees all; several come first, and see those before them.
            y = F.scaled_dot_product_attention(
                q[None], k[None], v[None], is_causal=count > 1, enable_gqa=True
            )[0]
            x = x + F.linear(y.transpose(0, 1).flatten(1), w[at + "attn_output.weight"])
            h = self.norm(x, at + "ffn_norm.weight")
            gate = F.silu(F.linear(h, w[at + "ffn_gate.weight"]))
            up = F.linear(h, w[at + "ffn_up.weight"])
            x = x + F.linear(gate * up, w[at + "ffn_down.weight"])
        return F.linear(self.norm(x, "output_norm.weight"), w["token_embd.weight"])


def greedy(model, ids):
    """The best token of each step, and how far its logit is above the second."""
    model.reset()
    tokens, margins = [], []
    given = ids
    for _ in range(STEPS):
        values, places = model.forward(given)[-1].topk(2)
        given = [int(places[0])]
        tokens += given
        margins.append(round(float(values[0] - values[1]), 4))
    return {"tokens": tokens, "margins": margins}


def likelihood(model, ids):
    """The mean negative log-likelihood of all tokens but the first."""
    model.reset()
    logits = model.forward(ids[:-1])
    return F.cross_entropy(logits.double(), torch.tensor(ids[1:])).item()


reader = gguf.GGUFReader(MODEL)
encode = tokenizer(reader.fields)
prompts = [{"text": text, "ids": encode.encode(text).ids} for text in PROMPTS]
scored = encode.encode(TEXT.read_text()).ids[: SCORED + 1]
assert len(scored) == SCORED + 1
result = {"prompts": prompts, "scored": scored, "weights": {}}
with torch.no_grad():
    for name, kind in KINDS.items():
        model = Llama(reader, kind)
        steps = [greedy(model, prompt["ids"]) for prompt in prompts]
        result["weights"][name] = {"greedy": steps, "likelihood": likelihood(model, scored)}
        for prompt, step in zip(prompts, steps):
            print(name, repr(prompt["text"] + encode.decode(step["tokens"])))
            print("   ", next((i for i, m in enumerate(step["margins"]) if m < 0.3), STEPS))
        print(name, result["weights"][name]["likelihood"], flush=True)
# Lists of numbers are on one line each.
whole = json.dumps(result, indent=1, ensure_ascii=False)
PATH.write_text(re.sub(r"(?<=[\[,])\n\s*(?=[\d-])|(?<=\d)\n\s*(?=\])", "", whole) + "\n")
