"""Writes tests/golden/llm.json: what transformers computes for small models, and rotary frequencies.

    .venv/bin/pip install transformers torch numpy
    .venv/bin/python scripts/golden/llm.py

The weights of a model are a formula of a tensor's name and an element's index (llm_weights.py). Each model has its config.json, a prompt,
the logits after each token of it in base64 of float32, and the tokens that follow it. Frequencies
are those of ROPE_INIT_FUNCTIONS, which computes them in float32.
"""

import json
from pathlib import Path

import torch
import transformers
from llm_weights import text, weight
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

PATH = Path(__file__).parents[2] / "tests/golden/llm.json"
PROMPT = [1, 5, 17, 94, 33, 2, 71, 71, 40, 8, 63, 29]
MADE = 16
SIZES = {
    "vocab_size": 96,
    "intermediate_size": 80,
    "num_hidden_layers": 2,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "bos_token_id": None,
    "eos_token_id": None,
}


def sizes(hidden, heads, kv_heads, theta=10000.0, **others):
    rope = {"rope_type": "default", "rope_theta": theta, **others.pop("rope", {})}
    return {
        **SIZES,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "rope_parameters": rope,
        **others,
    }


LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
#: Of sequences of more than 8 tokens, all positions have the long factors.
LONGROPE = {
    "rope_type": "longrope",
    "original_max_position_embeddings": 8,
    "short_factor": [1.0] * 8,
    "long_factor": [1 + i / 2 for i in range(8)],
}
MODELS = {
    "llama": ("Llama", sizes(64, 2, 1)),
    "llama3": (
        "Llama",
        sizes(48, 6, 3, 500.0, rope=LLAMA3, tie_word_embeddings=True, num_hidden_layers=3),
    ),
    "llama with biases": ("Llama", sizes(32, 4, 4, attention_bias=True, mlp_bias=True)),
    "yarn": ("Llama", sizes(32, 2, 2, rope=YARN)),
    "longrope": ("Llama", sizes(32, 2, 2, rope=LONGROPE)),
    "mistral": ("Mistral", sizes(48, 4, 2, 1e6, head_dim=16, sliding_window=None)),
    "qwen2": ("Qwen2", sizes(64, 4, 2, 1e6, tie_word_embeddings=True)),
    "qwen3": ("Qwen3", sizes(48, 4, 2, 1e6, head_dim=32)),
}


def model(kind, given):
    config = getattr(transformers, f"{kind}Config")(**given)
    config._attn_implementation = "eager"
    own = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
    state = {name: weight(name, tuple(x.shape)) for name, x in own.state_dict().items()}
    if config.tie_word_embeddings:
        del state["lm_head.weight"]
    missing, unexpected = own.load_state_dict(state, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    own.tie_weights()
    ids, made = list(PROMPT), []
    with torch.no_grad():
        logits = own(torch.tensor([ids])).logits[0]
        for _ in range(MADE):
            last = own(torch.tensor([ids])).logits[0, -1]
            first, second = last.topk(2).values.tolist()
            assert first - second > 1e-3, (kind, len(ids), first, second)
            made.append(int(last.argmax()))
            ids.append(made[-1])
    saved = json.loads(config.to_json_string())
    saved.pop("transformers_version", None)
    tensors = {name: list(x.shape) for name, x in state.items()}
    return {
        "config": saved,
        "tensors": tensors,
        "prompt": PROMPT,
        "logits": text(logits.numpy()),
        "tokens": made,
    }


def rope(name, dimensions, theta, parameters, length=None, context=256):
    """The frequencies of a sequence, and the length of turned vectors."""
    config = transformers.LlamaConfig(
        hidden_size=4 * dimensions,
        num_attention_heads=4,
        max_position_embeddings=context,
        rope_parameters={"rope_theta": theta, **parameters},
    )
    if parameters["rope_type"] == "default":
        embedding = transformers.models.llama.modeling_llama.LlamaRotaryEmbedding(config)
        each, factor = embedding.inv_freq, embedding.attention_scaling
    else:
        each, factor = ROPE_INIT_FUNCTIONS[parameters["rope_type"]](config, None, length)
    return {
        "name": name,
        "dimensions": dimensions,
        "base": theta,
        "parameters": parameters,
        "context": context,
        "length": length,
        "frequencies": text(each.numpy()),
        "factor": float(factor),
    }


def ropes():
    dynamic = {"rope_type": "dynamic", "factor": 2.0}
    yarn = {"rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 2048}
    longrope = {
        "rope_type": "longrope",
        "original_max_position_embeddings": 64,
        "short_factor": [1 + i / 16 for i in range(16)],
        "long_factor": [2 + i for i in range(16)],
    }
    llama3 = {**LLAMA3, "original_max_position_embeddings": 8192}
    return [
        rope("default", 64, 10000.0, {"rope_type": "default"}),
        rope("another base", 8, 1e6, {"rope_type": "default"}),
        rope("linear", 32, 10000.0, {"rope_type": "linear", "factor": 2.5}),
        rope("dynamic up to the context", 32, 10000.0, dynamic, 256),
        rope("dynamic beyond the context", 32, 10000.0, dynamic, 1000),
        rope("llama3", 128, 500000.0, llama3),
        rope("llama3 of another length", 64, 10000.0, LLAMA3),
        rope("yarn", 128, 10000.0, yarn),
        rope("yarn with limits", 64, 1e6, {**yarn, "beta_fast": 16.0, "beta_slow": 2.0}),
        rope("yarn with a length", 64, 1e6, {**yarn, "factor": 2.0, "attention_factor": 0.75}),
        rope("yarn of few dimensions", 4, 10000.0, YARN),
        rope("longrope, short", 32, 10000.0, longrope, 64),
        rope("longrope, long", 32, 10000.0, longrope, 65),
        rope("longrope with a factor", 32, 10000.0, {**longrope, "factor": 8.0}, 65),
        rope("longrope with a length", 32, 10000.0, {**longrope, "attention_factor": 1.5}, 3),
    ]


golden = {
    "versions": {"transformers": transformers.__version__, "torch": torch.__version__},
    "ropes": ropes(),
    "models": {name: model(*given) for name, given in MODELS.items()},
}
lines = []
for key, value in golden.items():
    if key == "versions":
        lines.append(f'"{key}": {json.dumps(value)}')
    elif isinstance(value, list):
        inner = ",\n".join(json.dumps(one) for one in value)
        lines.append(f'"{key}": [\n{inner}\n]')
    else:
        inner = ",\n".join(f"{json.dumps(name)}: {json.dumps(one)}" for name, one in value.items())
        lines.append(f'"{key}": {{\n{inner}\n}}')
PATH.write_text("{" + ",\n".join(lines) + "}\n")
print(f"{PATH.stat().st_size} bytes")
