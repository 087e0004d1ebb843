"""Writes folders of small random models, as transformers.js reads them: OUT [FAMILY...].

    python3.11 -m venv .venv
    .venv/bin/pip install torch onnx==1.23.2 onnxruntime==1.32.0 onnx-ir==1.1.0 regex requests safetensors
    .venv/bin/pip install --no-deps optimum==2.1.0 optimum-onnx==0.1.0 transformers==4.57.6 \
        huggingface_hub==0.36.2 tokenizers==0.22.2 onnxruntime-genai==0.11.4
    .venv/bin/python scripts/golden/onnx_transformers.py OUT

It fetches nothing. Each folder has the files of a model in float32, and copies of some: in float16, in
int8 (weights of uint8: ONNX Runtime saturates products of uint8 and int8 on CPUs with AVX2 alone), and
in 4 bits (MatMulNBits). OUT/families.json lists the folders with their task and the dtypes of
transformers.js that they have. A family that fails is printed, and left out of the list.
"""

import json
import os
import shutil
import sys
import warnings
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
warnings.filterwarnings("ignore")

import onnx
import torch
import transformers as hf
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from onnxruntime.transformers import optimizer
from onnxruntime.transformers.float16 import convert_float_to_float16
from optimum.exporters.onnx import onnx_export_from_model
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

WORDS = """the a cat dog house sat on mat in is was good bad very film movie and of to it great awful i
love hate this that where who""".split()


# ---- tokenizers ---------------------------------------------------------------------------------


def pieces(folder):
    """A tokenizer of BERT; returns the size of its vocabulary."""
    letters = [chr(c) for c in range(97, 123)]
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    tokens += [c for c in letters if c not in WORDS] + ["##" + c for c in letters] + list(".,!?")
    t = Tokenizer(models.WordPiece({x: i for i, x in enumerate(tokens)}, unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=True)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    t.decoder = decoders.WordPiece()
    names = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    special = {f"{k}_token": v for k, v in names.items()}
    hf.PreTrainedTokenizerFast(tokenizer_object=t, model_max_length=64, **special).save_pretrained(
        folder
    )
    return len(tokens)


def characters(folder):
    """A tokenizer of bytes; returns the size of its vocabulary."""
    tokens = ["<|end|>", *sorted(pre_tokenizers.ByteLevel.alphabet()), "<mask>"]
    t = Tokenizer(models.BPE({x: i for i, x in enumerate(tokens)}, []))
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    special = {f"{k}_token": "<|end|>" for k in ["bos", "eos", "unk", "pad"]}
    hf.PreTrainedTokenizerFast(
        tokenizer_object=t, mask_token="<mask>", model_max_length=200, **special
    ).save_pretrained(folder)
    return len(tokens)


PIECES, CHARACTERS = 4 + 1 + 28 + 26 + 26 + 4, 258


def letters(folder):
    """A tokenizer of Wav2Vec2."""
    tokens = ["<pad>", "<s>", "</s>", "<unk>", "|"] + [chr(c) for c in range(65, 91)] + ["'"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps({x: i for i, x in enumerate(tokens)}))
    hf.Wav2Vec2CTCTokenizer(str(folder / "vocab.json")).save_pretrained(folder)
    config = {
        "version": "1.0",
        "added_tokens": [
            {
                "id": i,
                "content": x,
                "single_word": False,
                "lstrip": True,
                "rstrip": True,
                "normalized": False,
                "special": True,
            }
            for i, x in enumerate(tokens[:4])
        ],
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "|"},
        "pre_tokenizer": {
            "type": "Split",
            "pattern": {"Regex": ""},
            "behavior": "Isolated",
            "invert": False,
        },
        "post_processor": None,
        "decoder": {
            "type": "CTC",
            "pad_token": "<pad>",
            "word_delimiter_token": "|",
            "cleanup": True,
        },
        "model": {
            "type": "WordLevel",
            "vocab": {x: i for i, x in enumerate(tokens)},
            "unk_token": "<unk>",
        },
    }
    (folder / "tokenizer.json").write_text(json.dumps(config))


# ---- processors ---------------------------------------------------------------------------------


def pictures(type="ViTImageProcessor", **more):
    def put(folder):
        folder.mkdir(parents=True, exist_ok=True)
        size = {"height": 32, "width": 32}
        config = {
            "image_processor_type": type,
            "do_resize": True,
            "size": size,
            "resample": 2,
            "do_rescale": True,
            "rescale_factor": 1 / 255,
            "do_normalize": True,
            "image_mean": [0.5, 0.5, 0.5],
            "image_std": [0.5, 0.5, 0.5],
            **more,
        }
        (folder / "preprocessor_config.json").write_text(json.dumps(config))

    return put


def sounds(type, **more):
    def put(folder):
        folder.mkdir(parents=True, exist_ok=True)
        config = {
            "feature_extractor_type": type,
            "feature_size": 1,
            "sampling_rate": 16000,
            "padding_value": 0.0,
            "do_normalize": True,
            "return_attention_mask": False,
            **more,
        }
        (folder / "preprocessor_config.json").write_text(json.dumps(config))

    return put


def both(*parts):
    def put(folder):
        for part in parts:
            part(folder)

    return put


# ---- copies of a file in other dtypes -----------------------------------------------------------


def to_int8(path, into):
    quantize_dynamic(
        path, into, weight_type=QuantType.QUInt8, extra_options={"EnableSubgraph": True}
    )


def to_float16(path, into):
    """Caches of decoders are in float16 too; pipelines of other models take results of float32."""
    model = onnx.load(path)
    has_cache = any(one.name.startswith("past_key_values") for one in model.graph.input)
    onnx.save(convert_float_to_float16(model, keep_io_types=not has_cache), into)


def to_4_bits(path, into):
    made = MatMulNBitsQuantizer(onnx.load(path), block_size=32, is_symmetric=True)
    made.process()
    onnx.save(made.model.model, into)


def to_4_bits_and_float16(path, into):
    to_4_bits(path, into)
    to_float16(into, into)


#: The dtypes of transformers.js, with the ends of the names of their files.
COPIES = {
    "q8": ("_quantized", to_int8),
    "fp16": ("_fp16", to_float16),
    "q4": ("_q4", to_4_bits),
    "q4f16": ("_q4f16", to_4_bits_and_float16),
}
TEXT = ["fp32", "q8", "fp16", "q4"]
DECODER = [*TEXT, "q4f16"]

OUT = Path(sys.argv[1])
FOUND = {}


def put(name, model, export, files, pipeline, dtypes=("fp32",), **more):
    """Exports a model for a task of optimum, with files of a tokenizer or processor."""
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    files(folder)
    model = model.eval()
    onnx_export_from_model(
        model, folder / "onnx", task=export, do_validation=False, device="cpu"
    )
    for path in (folder / "onnx").glob("*.json"):
        if not (folder / path.name).exists():
            path.rename(folder / path.name)
        else:
            path.unlink()
    copy(name, dtypes)
    FOUND[name] = {"task": pipeline, "dtypes": list(dtypes), **more}


def copy(name, dtypes):
    for path in sorted((OUT / name / "onnx").glob("*.onnx")):
        for dtype in dtypes:
            if dtype != "fp32":
                end, make = COPIES[dtype]
                make(path, path.with_name(path.stem + end + ".onnx"))


# ---- families -----------------------------------------------------------------------------------

S = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "initializer_range": 0.3,
}
#: Encoders of texts.
E = {**S, "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128}
P = {**E, "vocab_size": PIECES, "max_position_embeddings": 80, "pad_token_id": 0}
#: Decoders of texts.
ENDS = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
D = {**E, "vocab_size": CHARACTERS, "max_position_embeddings": 256, **ENDS}
G = {**D, "num_key_value_heads": 2}
IDS = {"id2label": {0: "one", 1: "two", 2: "three"}, "label2id": {"one": 0, "two": 1, "three": 2}}
NLI = {
    "id2label": {0: "contradiction", 1: "neutral", 2: "entailment"},
    "label2id": {"contradiction": 0, "neutral": 1, "entailment": 2},
}
I = {**S, "image_size": 32, "patch_size": 8}
TEXT2 = {
    "vocab_size": CHARACTERS,
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
    "max_position_embeddings": 256,
    "decoder_start_token_id": 0,
    "forced_eos_token_id": None,
    "init_std": 0.3,
    **ENDS,
}
WAVE = {
    **S,
    "conv_dim": (32, 32),
    "conv_stride": (5, 2),
    "conv_kernel": (10, 3),
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 2,
}
VIT = pictures()
PAST = "text-generation-with-past"
TO_TEXT = "text2text-generation-with-past"


def encoder(name, kind, config, **more):
    return lambda: put(
        name,
        getattr(hf, kind + "Model")(getattr(hf, kind + "Config")(**config)),
        "feature-extraction",
        pieces,
        "feature-extraction",
        **more,
    )


def decoder(name, kind, config, files=characters, head="ForCausalLM", **more):
    return lambda: put(
        name,
        getattr(hf, kind + head)(getattr(hf, kind + "Config")(**config)),
        PAST,
        files,
        "text-generation",
        **more,
    )


def picture(name, kind, config, files=VIT, **more):
    return lambda: put(
        name,
        getattr(hf, kind + "ForImageClassification")(
            getattr(hf, kind + "Config")(**config, **IDS)
        ),
        "image-classification",
        files,
        "image-classification",
        **more,
    )


def seq2seq(name, kind, config, **more):
    return lambda: put(
        name,
        getattr(hf, kind)(config),
        TO_TEXT,
        characters,
        "text2text-generation",
        **more,
    )


def fused(folder, source, heads, width):
    """A copy of a BERT whose nodes ONNX Runtime's optimizer has fused."""
    made = optimizer.optimize_model(
        str(OUT / source / "onnx/model.onnx"), model_type="bert", num_heads=heads, hidden_size=width
    )
    into = OUT / folder / "onnx"
    shutil.rmtree(OUT / folder, ignore_errors=True)
    into.mkdir(parents=True)
    for path in (OUT / source).glob("*.json"):
        shutil.copy(path, into.parent)
    made.save_model_to_file(str(into / "model.onnx"))
    FOUND[folder] = {"task": "feature-extraction", "dtypes": ["fp32"]}


def external(folder, source):
    """A copy of a model with its weights in a file of their own."""
    into = OUT / folder / "onnx"
    shutil.rmtree(OUT / folder, ignore_errors=True)
    into.mkdir(parents=True)
    for path in (OUT / source).glob("*.json"):
        shutil.copy(path, into.parent)
    onnx.save_model(
        onnx.load(OUT / source / "onnx/model.onnx"),
        into / "model.onnx",
        save_as_external_data=True,
        all_tensors_to_one_file=True,
        location="model.onnx_data",
        size_threshold=1024,
    )
    FOUND[folder] = {
        "task": FOUND.get(source, {"task": "feature-extraction"})["task"],
        "dtypes": ["fp32"],
        "external": True,
    }


def genai(folder):
    """A decoder as the builder of onnxruntime-genai makes it: GroupQueryAttention, in 32 and 4 bits."""
    from onnxruntime_genai.models.builder import create_model

    source = OUT / (folder + ".source")
    characters(source)
    config = hf.LlamaConfig(
        **{**G, "hidden_size": 256, "intermediate_size": 512}, architectures=["LlamaForCausalLM"]
    )
    hf.LlamaForCausalLM(config).save_pretrained(source)
    into = OUT / folder / "onnx"
    shutil.rmtree(OUT / folder, ignore_errors=True)
    into.mkdir(parents=True)
    for precision, file in [("fp32", "model.onnx"), ("int4", "model_q4.onnx")]:
        made = OUT / f"{folder}.{precision}"
        # By default ONNX Runtime rounds what it multiplies with 4 bits to 8 bits.
        level = {"int4_accuracy_level": 1}
        create_model("", str(source), str(made), precision, "cpu", str(OUT / "cache"), **level)
        onnx.save(onnx.load(made / "model.onnx"), into / file)
        shutil.rmtree(made)
    for path in source.glob("*.json"):
        shutil.copy(path, into.parent)
    shutil.rmtree(source)
    FOUND[folder] = {"task": "text-generation", "dtypes": ["fp32", "q4"]}


def whisper(name, config, **more):
    mel = sounds(
        "WhisperFeatureExtractor",
        feature_size=80,
        chunk_length=30,
        hop_length=160,
        n_fft=400,
        n_samples=480000,
        nb_max_frames=3000,
    )
    return lambda: put(
        name,
        hf.WhisperForConditionalGeneration(hf.WhisperConfig(**config)),
        "automatic-speech-recognition-with-past",
        both(characters, mel),
        "whisper",
        **more,
    )


WHISPER = {
    **{k: v for k, v in TEXT2.items() if k != "max_position_embeddings"},
    "decoder_start_token_id": 1,
    "max_source_positions": 1500,
    "max_target_positions": 128,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
}

FAMILIES = {
    "bert": encoder("bert", "Bert", P, dtypes=TEXT),
    "bert-classes": lambda: put(
        "bert-classes",
        hf.BertForSequenceClassification(hf.BertConfig(**P, **IDS)),
        "text-classification",
        pieces,
        "text-classification",
        dtypes=TEXT,
    ),
    "bert-nli": lambda: put(
        "bert-nli",
        hf.BertForSequenceClassification(hf.BertConfig(**P, **NLI)),
        "text-classification",
        pieces,
        "zero-shot-classification",
    ),
    "minilm": encoder(
        "minilm",
        "Bert",
        {
            **P,
            "hidden_size": 384,
            "num_hidden_layers": 6,
            "num_attention_heads": 12,
            "intermediate_size": 1536,
            "initializer_range": 0.05,
        },
        dtypes=TEXT,
    ),
    "minilm-fused": lambda: fused("minilm-fused", "minilm", 12, 384),
    "minilm-external": lambda: external("minilm-external", "minilm"),
    "roberta": lambda: put(
        "roberta",
        hf.RobertaForMaskedLM(hf.RobertaConfig(**P, type_vocab_size=1)),
        "fill-mask",
        pieces,
        "fill-mask",
        dtypes=TEXT,
    ),
    "distilbert": lambda: put(
        "distilbert",
        hf.DistilBertForQuestionAnswering(
            hf.DistilBertConfig(
                vocab_size=PIECES,
                dim=64,
                hidden_dim=128,
                n_layers=2,
                n_heads=4,
                max_position_embeddings=80,
                initializer_range=0.3,
            )
        ),
        "question-answering",
        pieces,
        "question-answering",
        dtypes=TEXT,
    ),
    "electra": lambda: put(
        "electra",
        hf.ElectraForTokenClassification(hf.ElectraConfig(**P, embedding_size=32, **IDS)),
        "token-classification",
        pieces,
        "token-classification",
    ),
    "albert": encoder("albert", "Albert", {**P, "embedding_size": 32}),
    "mpnet": encoder("mpnet", "MPNet", P, dtypes=TEXT),
    "xlm-roberta": encoder("xlm-roberta", "XLMRoberta", {**P, "type_vocab_size": 1}),
    "deberta": encoder(
        "deberta",
        "Deberta",
        {**P, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
    ),
    "deberta-v2": encoder(
        "deberta-v2",
        "DebertaV2",
        {**P, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
        dtypes=["fp32", "q8", "q4"],
    ),
    "modernbert": encoder(
        "modernbert",
        "ModernBert",
        {
            **{k: v for k, v in P.items() if k != "initializer_range"},
            "cls_token_id": 2,
            "sep_token_id": 3,
            "bos_token_id": 2,
            "eos_token_id": 3,
            "attn_implementation": "eager",
        },
    ),
    "gpt2": decoder(
        "gpt2",
        "GPT2",
        {
            "vocab_size": CHARACTERS,
            "n_positions": 256,
            "n_embd": 64,
            "n_layer": 2,
            "n_head": 4,
            "initializer_range": 0.3,
            **ENDS,
        },
        head="LMHeadModel",
        dtypes=TEXT,
    ),
    "gpt-neo": decoder(
        "gpt-neo",
        "GPTNeo",
        {
            "vocab_size": CHARACTERS,
            "max_position_embeddings": 256,
            "hidden_size": 64,
            "num_layers": 2,
            "attention_types": [[["global", "local"], 1]],
            "num_heads": 4,
            "window_size": 16,
            "initializer_range": 0.3,
            **ENDS,
        },
    ),
    "gpt-neox": decoder("gpt-neox", "GPTNeoX", D),
    "bloom": decoder(
        "bloom",
        "Bloom",
        {
            "vocab_size": CHARACTERS,
            "hidden_size": 64,
            "n_layer": 2,
            "n_head": 4,
            "initializer_range": 0.3,
            **ENDS,
        },
    ),
    "opt": decoder(
        "opt",
        "OPT",
        {
            "vocab_size": CHARACTERS,
            "hidden_size": 64,
            "num_hidden_layers": 2,
            "ffn_dim": 128,
            "max_position_embeddings": 256,
            "num_attention_heads": 4,
            "word_embed_proj_dim": 64,
            "init_std": 0.3,
            **ENDS,
        },
    ),
    "llama": decoder("llama", "Llama", G, dtypes=DECODER),
    "mistral": decoder("mistral", "Mistral", {**G, "sliding_window": None}),
    "qwen2": decoder("qwen2", "Qwen2", G, dtypes=TEXT),
    "qwen3": decoder("qwen3", "Qwen3", {**G, "head_dim": 16}, dtypes=TEXT),
    "gemma": decoder("gemma", "Gemma", {**G, "head_dim": 16}),
    "gemma2": decoder(
        "gemma2",
        "Gemma2",
        {**G, "head_dim": 16, "sliding_window": 64, "query_pre_attn_scalar": 16},
    ),
    "gemma3": lambda: put(
        "gemma3",
        hf.Gemma3ForCausalLM(
            hf.Gemma3TextConfig(
                **G,
                head_dim=16,
                sliding_window=64,
                query_pre_attn_scalar=16,
                layer_types=["sliding_attention", "full_attention"],
            )
        ),
        PAST,
        characters,
        "text-generation",
    ),
    "phi": decoder("phi", "Phi", {**D, "partial_rotary_factor": 0.5}),
    "phi3": decoder("phi3", "Phi3", G, dtypes=TEXT),
    "olmo": decoder("olmo", "Olmo", G),
    "granite": decoder("granite", "Granite", G),
    "smollm3": decoder("smollm3", "SmolLM3", G),
    "cohere": decoder("cohere", "Cohere", G),
    "llama-gqa": lambda: genai("llama-gqa"),
    "t5": seq2seq(
        "t5",
        "T5ForConditionalGeneration",
        hf.T5Config(
            vocab_size=CHARACTERS,
            d_model=64,
            d_kv=16,
            d_ff=128,
            num_layers=2,
            num_heads=4,
            decoder_start_token_id=0,
            eos_token_id=0,
            pad_token_id=0,
            initializer_factor=2.0,
        ),
        dtypes=["fp32", "q8", "q4"],
    ),
    "bart": seq2seq(
        "bart", "BartForConditionalGeneration", hf.BartConfig(**TEXT2), dtypes=["fp32", "q8", "q4"]
    ),
    "marian": seq2seq("marian", "MarianMTModel", hf.MarianConfig(**TEXT2)),
    "m2m100": seq2seq("m2m100", "M2M100ForConditionalGeneration", hf.M2M100Config(**TEXT2)),
    "whisper": whisper("whisper", WHISPER, dtypes=["fp32", "q8", "q4"]),
    "wav2vec2": lambda: put(
        "wav2vec2",
        hf.Wav2Vec2ForCTC(hf.Wav2Vec2Config(vocab_size=32, **WAVE)),
        "automatic-speech-recognition",
        both(letters, sounds("Wav2Vec2FeatureExtractor")),
        "automatic-speech-recognition",
    ),
    "hubert": lambda: put(
        "hubert",
        hf.HubertForSequenceClassification(
            hf.HubertConfig(vocab_size=32, classifier_proj_size=16, **WAVE, **IDS)
        ),
        "audio-classification",
        sounds("Wav2Vec2FeatureExtractor"),
        "audio-classification",
    ),
    "wavlm": lambda: put(
        "wavlm",
        hf.WavLMForSequenceClassification(
            hf.WavLMConfig(vocab_size=32, classifier_proj_size=16, **WAVE, **IDS)
        ),
        "audio-classification",
        sounds("Wav2Vec2FeatureExtractor"),
        "audio-classification",
    ),
    "vit": picture("vit", "ViT", I, dtypes=TEXT),
    "deit": picture("deit", "DeiT", I, dtypes=["fp32", "fp16"]),
    "beit": picture("beit", "Beit", {**I, "use_relative_position_bias": True}),
    "vit-features": lambda: put(
        "vit-features",
        hf.ViTModel(hf.ViTConfig(**I)),
        "feature-extraction",
        VIT,
        "image-feature-extraction",
    ),
    "swin": picture(
        "swin",
        "Swin",
        {
            "image_size": 32,
            "patch_size": 2,
            "embed_dim": 16,
            "depths": [2, 2],
            "num_heads": [2, 4],
            "window_size": 4,
            "initializer_range": 0.3,
        },
        dtypes=["fp32", "q8"],
    ),
    "convnext": picture(
        "convnext",
        "ConvNext",
        {"hidden_sizes": [16, 32], "depths": [1, 1], "num_stages": 2, "initializer_range": 0.3},
        files=pictures("ConvNextFeatureExtractor", size={"shortest_edge": 32}, crop_pct=0.875),
        dtypes=["fp32", "fp16"],
    ),
    "convnextv2": picture(
        "convnextv2",
        "ConvNextV2",
        {"hidden_sizes": [16, 32], "depths": [1, 1], "num_stages": 2, "initializer_range": 0.3},
    ),
    "mobilenet-v1": picture(
        "mobilenet-v1", "MobileNetV1", {"image_size": 32, "depth_multiplier": 0.25}
    ),
    "mobilenet-v2": picture(
        "mobilenet-v2",
        "MobileNetV2",
        {"image_size": 32, "depth_multiplier": 0.25},
        dtypes=["fp32", "fp16"],
    ),
    "mobilevit": picture(
        "mobilevit",
        "MobileViT",
        {
            "image_size": 64,
            "hidden_sizes": [16, 24, 32],
            "neck_hidden_sizes": [8, 8, 16, 16, 24, 32, 32],
            "num_attention_heads": 2,
            "initializer_range": 0.3,
        },
        files=pictures(
            "MobileViTFeatureExtractor",
            size={"shortest_edge": 64},
            do_center_crop=True,
            crop_size={"height": 64, "width": 64},
        ),
    ),
    "resnet": picture(
        "resnet",
        "ResNet",
        {"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1], "layer_type": "basic"},
        dtypes=["fp32", "fp16"],
    ),
    "efficientnet": picture(
        "efficientnet",
        "EfficientNet",
        {
            "image_size": 32,
            "width_coefficient": 0.25,
            "depth_coefficient": 0.25,
            "hidden_dim": 320,
        },
    ),
    "clip": lambda: put(
        "clip",
        hf.CLIPModel(
            hf.CLIPConfig(
                text_config=dict(
                    S,
                    vocab_size=CHARACTERS,
                    max_position_embeddings=200,
                    bos_token_id=0,
                    eos_token_id=0,
                ),
                vision_config=dict(I),
            )
        ),
        "zero-shot-image-classification",
        both(characters, pictures("CLIPFeatureExtractor")),
        "zero-shot-image-classification",
    ),
    "siglip": lambda: put(
        "siglip",
        hf.SiglipModel(
            hf.SiglipConfig(
                text_config=dict(S, vocab_size=CHARACTERS, max_position_embeddings=200),
                vision_config=dict(I),
            )
        ),
        "zero-shot-image-classification",
        both(characters, pictures("SiglipImageProcessor")),
        "zero-shot-image-classification",
    ),
    "yolos": lambda: put(
        "yolos",
        hf.YolosForObjectDetection(
            hf.YolosConfig(**{**I, "image_size": [32, 32]}, num_detection_tokens=5, **IDS)
        ),
        "object-detection",
        pictures("YolosFeatureExtractor"),
        "object-detection",
    ),
    "detr": lambda: put(
        "detr",
        hf.DetrForObjectDetection(
            hf.DetrConfig(
                use_timm_backbone=False,
                use_pretrained_backbone=False,
                backbone=None,
                backbone_config=hf.ResNetConfig(
                    embedding_size=8,
                    hidden_sizes=[8, 16],
                    depths=[1, 1],
                    layer_type="basic",
                    out_features=["stage2"],
                ),
                num_queries=6,
                d_model=32,
                encoder_layers=1,
                decoder_layers=1,
                encoder_ffn_dim=64,
                decoder_ffn_dim=64,
                encoder_attention_heads=2,
                decoder_attention_heads=2,
                **IDS,
            )
        ),
        "object-detection",
        pictures("DetrFeatureExtractor"),
        "object-detection",
    ),
    "segformer": lambda: put(
        "segformer",
        hf.SegformerForSemanticSegmentation(
            hf.SegformerConfig(
                num_encoder_blocks=2,
                depths=[1, 1],
                sr_ratios=[2, 1],
                hidden_sizes=[16, 32],
                patch_sizes=[7, 3],
                strides=[4, 2],
                num_attention_heads=[1, 2],
                mlp_ratios=[2, 2],
                decoder_hidden_size=32,
                **IDS,
            )
        ),
        "semantic-segmentation",
        pictures("SegformerFeatureExtractor"),
        "image-segmentation",
    ),
    "glpn": lambda: put(
        "glpn",
        hf.GLPNForDepthEstimation(
            hf.GLPNConfig(
                num_encoder_blocks=4,
                depths=[1, 1, 1, 1],
                sr_ratios=[2, 2, 1, 1],
                hidden_sizes=[8, 16, 16, 32],
                num_attention_heads=[1, 2, 2, 2],
                mlp_ratios=[2, 2, 2, 2],
                decoder_hidden_size=16,
            )
        ),
        "depth-estimation",
        pictures("GLPNFeatureExtractor", size={"height": 64, "width": 64}, size_divisor=32),
        "depth-estimation",
    ),
    "dpt": lambda: put(
        "dpt",
        hf.DPTForDepthEstimation(
            hf.DPTConfig(
                **{**I, "num_hidden_layers": 4},
                backbone_out_indices=[0, 1, 2, 3],
                neck_hidden_sizes=[8, 8, 16, 16],
                fusion_hidden_size=16,
            )
        ),
        "depth-estimation",
        pictures("DPTFeatureExtractor"),
        "depth-estimation",
    ),
    "owlvit": lambda: put(
        "owlvit",
        hf.OwlViTForObjectDetection(
            hf.OwlViTConfig(
                text_config=dict(
                    S, vocab_size=CHARACTERS, max_position_embeddings=16, bos_token_id=0, eos_token_id=0
                ),
                vision_config=dict(I),
                projection_dim=32,
            )
        ),
        "zero-shot-object-detection",
        both(characters, pictures("OwlViTFeatureExtractor")),
        "zero-shot-object-detection",
    ),
    "trocr": lambda: put(
        "trocr",
        hf.VisionEncoderDecoderModel(
            encoder=hf.ViTModel(hf.ViTConfig(**I), add_pooling_layer=False),
            decoder=hf.TrOCRForCausalLM(
                hf.TrOCRConfig(
                    vocab_size=CHARACTERS,
                    d_model=32,
                    decoder_layers=2,
                    decoder_attention_heads=2,
                    decoder_ffn_dim=64,
                    max_position_embeddings=128,
                    cross_attention_hidden_size=32,
                    is_decoder=True,
                    add_cross_attention=True,
                    init_std=0.3,
                    decoder_start_token_id=1,
                    **ENDS,
                )
            ),
        ),
        "image-to-text-with-past",
        both(characters, VIT),
        "image-to-text",
    ),
    "sam": lambda: put(
        "sam",
        hf.SamModel(
            hf.SamConfig(
                vision_config=dict(
                    hidden_size=32,
                    output_channels=16,
                    num_pos_feats=8,
                    num_hidden_layers=2,
                    num_attention_heads=2,
                    image_size=64,
                    patch_size=16,
                    window_size=2,
                    global_attn_indexes=[1],
                    mlp_dim=64,
                ),
                prompt_encoder_config=dict(
                    hidden_size=16, image_size=64, patch_size=16, mask_input_channels=4
                ),
                mask_decoder_config=dict(
                    hidden_size=16,
                    mlp_dim=32,
                    num_hidden_layers=1,
                    num_attention_heads=2,
                    iou_head_hidden_dim=16,
                ),
            )
        ),
        "feature-extraction",
        VIT,
        "sam",
    ),
    # 143 MB in float32: for times.
    "llama-large": decoder(
        "llama-large",
        "Llama",
        {
            **G,
            "hidden_size": 512,
            "intermediate_size": 1408,
            "num_hidden_layers": 12,
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "max_position_embeddings": 512,
            "initializer_range": 0.05,
        },
        dtypes=["fp32", "q8"],
    ),
}


def main():
    """Makes the families, and the list of those that it could make."""
    OUT.mkdir(parents=True, exist_ok=True)
    chosen = sys.argv[2:] or list(FAMILIES)
    list_path = OUT / "families.json"
    if sys.argv[2:] and list_path.exists():
        FOUND.update(json.loads(list_path.read_text()))
    for name in chosen:
        torch.manual_seed(0)
        try:
            FAMILIES[name]()
            print(name, "ok", flush=True)
        except Exception as error:
            if os.environ.get("DEBUG"):
                raise
            FOUND.pop(name, None)
            text = " ".join(str(error).split())[:200]
            print(name, "failed:", type(error).__name__, text, flush=True)
        list_path.write_text(json.dumps(FOUND, indent=1) + "\n")


main()
