"""Writes tests/golden/models/vocabularies.json: texts, and hashes of the ids that llama.cpp gives them
with each vocabulary of models/vocabularies; for BERT those of `tokenizers`, since llama.cpp drops
vowels of Korean and of Indic scripts.

    deno task models vocabularies
    .venv/bin/pip install gguf tokenizers
    .venv/bin/python scripts/golden/vocabularies.py --llama-ids PATH

`--llama-ids` is the program of scripts/golden/llama_ids.cpp. The texts are drawn with a fixed seed:
words of many scripts, spaces, numbers, marks, emoji, controls, and names of special tokens.
"""

import argparse
import json
import random
import subprocess
from pathlib import Path

from gguf import GGUFReader
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors

ROOT = Path(__file__).parents[2]
PATH = ROOT / "tests/golden/models/vocabularies.json"
FOLDER = ROOT / "models/vocabularies"
COUNT = 500

WORDS = """the of and quick Brown FOX jumps overLazy dog's don't I'LL we've HTTPServer camelCase snake_case
Größe Straße été naïve São ÇA señor Ünïcödé Привет МИР ёлка Ελληνικά ΑΒΓ שלום مرحبا עברית हिन्दी
नमस्ते বাংলা தமிழ் ไทย ภาษา 東京 日本語 ひらがな カタカナ 中文 汉字 漢字 한국어 안녕 Việt Tiếng İstanbul ǅ ﬁ Ⅷ ½ ² ①
for(let i=0;i<n;i++){} def f(x): return x**2 #include <stdio.h> SELECT * FROM t; https://a.b/c?d=e&f#g
foo@bar.com C++ 3.14 1e-9 0x1F 1,000,000 12345678901234567890 ٣٤٥ १२३ x² e\u0301 n\u0303 a\u0308o""".split()
SPACES = [" ", " ", " ", " ", " ", "  ", "   ", "\n", "\n\n", "\t", "\r\n", " \n ", "\u00a0", "\u3000", "\u2003", "\u200b", ""]
MARKS = list(".,;:!?-_+*/\\|()[]{}<>=@#$%^&~`'\"") + ["...", "—", "–", "“", "”", "’", "«", "»", "、", "。", "！", "→", "€", "¿"]
EMOJI = ["🙂", "🚀", "👩‍👩‍👧", "🇩🇪", "👍🏽", "❤️", "☃", "𝔘", "𐍈", "🦊"]
CONTROLS = ["\x00", "\x01", "\x07", "\x1b", "\x7f", "\u0085", "\u00ad", "\ufeff", "\ufffd", "\u202e", "\u2028"]
SPECIAL = ["<|im_start|>", "<|im_end|>", "<s>", "</s>", "<unk>", "<|endoftext|>", "[CLS]", "[SEP]", "[MASK]", "<0x41>", "▁", "<bos>", "<|eot_id|>", "<mask>", "<pad>"]


def drawn():
    """Texts of all kinds, the same in each run."""
    random_ = random.Random(51)
    texts = []
    for i in range(COUNT):
        parts = []
        for _ in range(random_.randint(1, 12)):
            kind = random_.random()
            if kind < 0.6:
                parts.append(random_.choice(WORDS))
            elif kind < 0.72:
                parts.append(random_.choice(MARKS) * random_.choice([1, 1, 1, 2, 5]))
            elif kind < 0.82:
                parts.append(str(random_.randrange(10 ** random_.randint(1, 12))))
            elif kind < 0.9:
                parts.append(random_.choice(EMOJI))
            elif kind < 0.95:
                parts.append(random_.choice(SPECIAL))
            else:
                parts.append(random_.choice(CONTROLS))
            parts.append(random_.choice(SPACES) * random_.choice([1, 1, 1, 1, 3]))
        text = "".join(parts)
        if i % 25 == 0:
            text = random_.choice(["a", "=", " ", "\n", "한", "🙂", "x "]) * random_.randint(1, 90)
        texts.append(text)
    return texts


def hashed(ids):
    """FNV-1a of the ids with spaces between them, in hexadecimal."""
    value = 0x811C9DC5
    for byte in ids.strip().encode():
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return f"{value:08x}"


def bert_ids(path, texts):
    """The ids of `tokenizers`, of the texts without special tokens and with them."""
    tokens = GGUFReader(path).fields["tokenizer.ggml.tokens"].contents()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    is_text = [token not in special and not token.startswith("[unused") for token in tokens]
    names = [
        token if not text else token[1:] if token[0] == "\u2581" else "##" + token
        for token, text in zip(tokens, is_text)
    ]
    vocabulary = {name: id for id, name in enumerate(names)}
    made = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    around = [(name, vocabulary[name]) for name in ["[SEP]", "[CLS]"]]
    made.post_processor = processors.BertProcessing(*around)
    made.add_special_tokens([AddedToken(name, normalized=False) for name in special])
    ids = {}
    for kind, is_special in [("plain", False), ("special", True)]:
        made.encode_special_tokens = not is_special
        encodings = [made.encode(text, add_special_tokens=is_special) for text in texts]
        ids[kind] = [" ".join(map(str, encoding.ids)) for encoding in encodings]
    return ids


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--llama-ids", required=True)
    parser.add_argument("--ids", help="a file for the ids themselves, to compare them")
    options = parser.parse_args()
    texts = drawn()
    lines = "".join(text.encode().hex() + "\n" for text in texts)
    all_ids = {}
    for path in sorted(FOLDER.glob("ggml-vocab-*.gguf")):
        name = path.stem.removeprefix("ggml-vocab-")
        if name.startswith("bert"):
            all_ids[name] = bert_ids(path, texts)
            continue
        for kind, arguments in [("plain", ["0", "0"]), ("special", ["1", "1"])]:
            command = [options.llama_ids, str(path), *arguments]
            done = subprocess.run(command, input=lines.encode(), capture_output=True, check=True)
            all_ids.setdefault(name, {})[kind] = done.stdout.decode().split("\n")[: len(texts)]
    hashes = {
        name: {kind: [hashed(ids) for ids in of] for kind, of in kinds.items()}
        for name, kinds in all_ids.items()
    }
    if options.ids:
        Path(options.ids).write_text(json.dumps({"texts": texts, "ids": all_ids}))
    parts = [json.dumps(text, ensure_ascii=True) for text in texts]
    rows = [f"{json.dumps(name)}: {json.dumps(kinds)}" for name, kinds in hashes.items()]
    PATH.write_text(
        '{\n"texts": [\n' + ",\n".join(parts) + '\n],\n"ids": {\n' + ",\n".join(rows) + "\n}\n}\n"
    )


main()
