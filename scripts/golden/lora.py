"""Writes tests/golden/lora.json: what PEFT computes with adapters of the model "llama" of llm.json.

    .venv/bin/pip install peft transformers torch numpy safetensors
    .venv/bin/python scripts/golden/lora.py

The weights of the model and of the adapters are those of llm_weights.py, by the names in their files.
Each adapter has its adapter_config.json, the shapes of its tensors, and the logits of the model's
prompt.
"""

import json
import tempfile
from pathlib import Path

import peft
import torch
import transformers
from llm_weights import text, weight
from safetensors import safe_open
from safetensors.torch import save_file

TESTS = Path(__file__).parents[2] / "tests/golden"
LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
ADAPTERS = {
    "some products": {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj", "down_proj"]},
    "ranks of modules": {
        **{"r": 8, "lora_alpha": 4, "target_modules": LINEAR, "use_rslora": True},
        "rank_pattern": {"down_proj": 2, "layers.1.self_attn.q_proj": 3},
        "alpha_pattern": {"k_proj": 3, "layers.0.mlp.up_proj": 7},
    },
    "embeddings": {"r": 4, "lora_alpha": 2, "target_modules": ["embed_tokens", "lm_head", "o_proj"]},
}


def base(golden):
    config = transformers.LlamaConfig(**golden["config"])
    model = transformers.LlamaForCausalLM(config).eval()
    model.load_state_dict({name: weight(name, shape) for name, shape in golden["tensors"].items()})
    return model


def adapter(golden, fields, folder):
    made = peft.LoraConfig(task_type="CAUSAL_LM", **fields)
    peft.get_peft_model(base(golden), made).save_pretrained(folder)
    file = folder / "adapter_model.safetensors"
    with safe_open(file, "pt") as opened:
        shapes = {name: list(opened.get_slice(name).get_shape()) for name in opened.keys()}
    save_file({name: weight(name, shape) for name, shape in shapes.items()}, file)
    model = peft.PeftModel.from_pretrained(base(golden), folder).eval()
    with torch.no_grad():
        logits = model(torch.tensor([golden["prompt"]])).logits[0]
    config = json.loads((folder / "adapter_config.json").read_text())
    return {"config": config, "tensors": shapes, "logits": text(logits.numpy())}


golden = json.loads((TESTS / "llm.json").read_text())["models"]["llama"]
adapters = {}
for name, fields in ADAPTERS.items():
    with tempfile.TemporaryDirectory() as folder:
        adapters[name] = adapter(golden, fields, Path(folder))
lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(one)}" for name, one in adapters.items())
versions = json.dumps({"peft": peft.__version__, "transformers": transformers.__version__})
path = TESTS / "lora.json"
path.write_text(f'{{"versions": {versions},\n"adapters": {{\n{lines}\n}}}}\n')
print(f"{path.stat().st_size} bytes")
