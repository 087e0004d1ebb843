"""Writes tests/golden/encoders.json: what transformers computes for small encoders.

    .venv/bin/pip install transformers torch numpy
    .venv/bin/python scripts/golden/encoders.py

The weights are the formula of llm_weights.py. Each model has its config.json, the shapes of its
tensors, and for texts of several lengths in one batch the states after the last layer, in base64 of
float32: of all tokens, one text after the other. Models with a head have the logits of each text.
"""

import json
from pathlib import Path

import torch
import transformers

from llm_weights import text, weight

PATH = Path(__file__).parents[2] / "tests/golden/encoders.json"
LENGTHS = [23, 9, 1]
SIZES = {
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
}
LABELS = {"num_labels": 3}
#: The defaults of ModernBERT are those of its own vocabulary.
IDS_OF_MODERN = {
    f"{name}_token_id": id for id, name in enumerate(["pad", "bos", "eos", "cls", "sep"])
}
MODELS = {
    "bert": ("Bert", "Model", {**SIZES, "hidden_act": "gelu_new"}),
    "bert with a head": ("Bert", "ForSequenceClassification", {**SIZES, **LABELS}),
    "roberta": ("Roberta", "Model", {**SIZES, "type_vocab_size": 1, "layer_norm_eps": 1e-5}),
    "roberta with a head": (
        "Roberta",
        "ForSequenceClassification",
        {**SIZES, **LABELS, "type_vocab_size": 1},
    ),
    "xlm-roberta": ("XLMRoberta", "Model", {**SIZES, "type_vocab_size": 1, "pad_token_id": 3}),
    "distilbert": (
        "DistilBert",
        "Model",
        {
            "vocab_size": 96,
            "dim": 32,
            "hidden_dim": 48,
            "n_layers": 2,
            "n_heads": 2,
            "max_position_embeddings": 64,
            "activation": "relu",
        },
    ),
    "distilbert with a head": (
        "DistilBert",
        "ForSequenceClassification",
        {"vocab_size": 96, "dim": 32, "hidden_dim": 48, "n_layers": 2, "n_heads": 2, **LABELS},
    ),
    "mpnet": (
        "MPNet",
        "Model",
        {**SIZES, "max_position_embeddings": 600, "relative_attention_num_buckets": 32},
    ),
    "mpnet with a head": ("MPNet", "ForSequenceClassification", {**SIZES, **LABELS}),
    "nomic": ("NomicBert", "Model", {**SIZES, "num_hidden_layers": 2}),
    "modernbert": (
        "ModernBert",
        "Model",
        {**SIZES, **IDS_OF_MODERN, "num_hidden_layers": 4, "local_attention": 8},
    ),
    "modernbert with biases": (
        "ModernBert",
        "Model",
        {
            **SIZES,
            **IDS_OF_MODERN,
            "local_attention": 6,
            "attention_bias": True,
            "mlp_bias": True,
            "norm_bias": True,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        },
    ),
    "modernbert with a head": (
        "ModernBert",
        "ForSequenceClassification",
        {
            **SIZES,
            **IDS_OF_MODERN,
            **LABELS,
            "local_attention": 8,
            "classifier_pooling": "mean",
        },
    ),
    "gemma": (
        "Gemma3Text",
        "Model",
        {
            **SIZES,
            "num_key_value_heads": 2,
            "head_dim": 16,
            "query_pre_attn_scalar": 24,
            "sliding_window": 8,
            "sliding_window_pattern": 2,
            "use_bidirectional_attention": True,
        },
    ),
}
#: Distances beyond those with a bucket of their own need a longer text.
LONG = {"mpnet": [180, 9]}
#: No special tokens: some models compute other things at padding.
IDS = [4 + 7 * i % 89 for i in range(512)]


def model(name, kind, head, given):
    config = getattr(transformers, f"{kind}Config")(**given)
    config._attn_implementation = "eager"
    own = getattr(transformers, f"{kind}{head}")(config).eval()
    state = {
        key: weight(key, tuple(x.shape))
        for key, x in own.state_dict().items()
        if not key.endswith("position_ids")
    }
    missing, unexpected = own.load_state_dict(state, strict=False)
    assert not unexpected and not missing, (missing, unexpected)
    lengths = LONG.get(name, LENGTHS)
    width = max(lengths)
    ids = torch.tensor([[IDS[(i * 31 + j) % 512] for j in range(width)] for i in range(len(lengths))])
    mask = torch.tensor([[int(j < n) for j in range(width)] for n in lengths])
    types = torch.tensor([[int(n // 2 <= j < n) for j in range(width)] for n in lengths])
    has_types = kind == "Bert" or kind == "NomicBert"
    more = {"token_type_ids": types} if has_types else {}
    with torch.no_grad():
        made = own(input_ids=ids, attention_mask=mask, output_hidden_states=True, **more)
    saved = json.loads(config.to_json_string())
    saved.pop("transformers_version", None)
    states = made.last_hidden_state if head == "Model" else None
    return {
        "config": saved,
        "tensors": {key: list(x.shape) for key, x in state.items()},
        "ids": [row[:n].tolist() for row, n in zip(ids, lengths)],
        "types": [row[:n].tolist() for row, n in zip(types, lengths)] if has_types else None,
        "states": None if states is None else text(torch.cat([x[:n] for x, n in zip(states, lengths)])),
        "logits": None if head == "Model" else text(made.logits),
    }


golden = {
    "versions": {"transformers": transformers.__version__, "torch": torch.__version__},
    "models": {name: model(name, *given) for name, given in MODELS.items()},
}
lines = [
    f'"versions": {json.dumps(golden["versions"])}',
    '"models": {\n'
    + ",\n".join(f"{json.dumps(name)}: {json.dumps(one)}" for name, one in golden["models"].items())
    + "\n}",
]
PATH.write_text("{" + ",\n".join(lines) + "}\n")
print(f"{PATH.stat().st_size} bytes")
