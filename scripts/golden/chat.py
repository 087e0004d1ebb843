"""Writes tests/golden/models/tokenizers.json: small vocabularies, and the ids of texts; and
chat_templates.json: templates of chats, and what Jinja makes of them.

    .venv/bin/pip install tokenizers sentencepiece gguf jinja2
    .venv/bin/python scripts/golden/chat.py [--smollm2 FILE.gguf]

"bytes" is a vocabulary of byte pairs, trained here, with the ids by `tokenizers` for each way to cut
words: with the pre-tokenizers of the models' own tokenizer.json, where a model is named. "pieces" is
one of SentencePiece, with its own ids; "unigrams" is another, and "words" one of BERT's pieces of words,
with pairs that are cut to a length. With a GGUF file of SmolLM2, "smollm2" has the ids of its
vocabulary; without, what is there stays.
"""

import argparse
import io
import json
import shutil
import tempfile
from pathlib import Path

import jinja2
import sentencepiece as spm
from gguf import GGUFReader
from jinja2.sandbox import ImmutableSandboxedEnvironment
from sentencepiece import sentencepiece_model_pb2 as model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers import processors, trainers

FOLDER = Path(__file__).parents[2] / "tests/golden/models"
PATH = FOLDER / "tokenizers.json"

CORPUS = """
The quick brown fox jumps over the lazy dog. The dog does not mind, and the fox is quicker than that.
I don't think it's what they're after; we'll see, they've said, and I'd say I'm sure. It isn't.
A tensor is an array of numbers with a shape, a dtype and strides. The strides say where they are.
for (let i = 0; i < count; i++) { total += values[i] * weights[i]; } return total / count;
def mean(values):\n    total = 0\n    for value in values:\n        total += value\n    return total
In 1969, 1984, 2001 and 2024 there were 365, 366, 365 and 366 days: 1000, 10000, 100000, 123456789.
HTTPServer, XMLReader, parseJSON and toString are names. HELLO WORLD. Hello World. hello world.
Grüße aus Wien: größer, schöner, süßer. Où est le café? Déjà vu. El niño mañana. Привет, мир. Ещё раз.
東京は日本の首都です。日本語の文章です。北京是中国的首都。中文的文本。한국어 문장입니다.
Emoji: 🙂 🚀 🎉 🙂🙂 👩‍👩‍👧. Arrows → ← and quotes “like” ‘these’ – or — those…
""" * 4

TEXTS = [
    "",
    " ",
    "a",
    "Hello World, hello world!",
    "  two spaces, three   inside, and trailing  ",
    "the quick\n\nbrown\r\nfox\n \n\tjumps\t\tover \n",
    "don't DON'T it's IT'S we'll they've I'd I'm ’s 's",
    "for (let i = 0; i < count; i++) {\n    total += values[i];\n}\n",
    "1 12 123 1234 12345 123456 1234567 3.14159 1,000 -2e10 ½ ² ٣٤",
    "HTTPServer XMLReader parseJSON iPhone McDonald ÉCOLE École",
    "Grüße, größer! Où est le café déjà? Привет, мир. Ещё раз",
    "東京は日本の首都です。北京是中国的首都。한국어 문장입니다. ｆｕｌｌ　ｗｉｄｔｈ！",
    "🙂🚀🎉 👩‍👩‍👧 and 🇩🇪 → “quotes” – — …",
    "e\u0301 n\u0303 combining \u0928\u092e\u0938\u094d\u0924\u0947",
    "no\u00a0break\u3000ideographic\u2003em \u0085next\ufeffmark",
    "a_b-c/d\\e|f~g`h^i$j+k=l<m>n@o#p%q&r*s(t)u[v]w{x}y?z",
    "...!!!???;;; --- === ### // /* */ <tag attr=\"1\">&amp;</tag>",
    "\x00\x01\x7f",
    "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
    "<tool>x</tool> <tool> y<|im_end|><|im_end|>",
    "<|im_start|",
    "▁a▁b <0x41> <unk>",
    "zebra\nzebra",
    "a</s>b</s> c",
]

SHORT = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
GPT4 = SHORT + r"|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
GPT4O = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+%(short)s|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*%(short)s"
    r"|%(digits)s| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
DEEPSEEK3 = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    r"""| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
)

# The patterns, and whether a word that is a token is kept whole.
CUTS = {
    "gpt-2": ([GPT2], False),
    "smollm": ([r"\p{N}", GPT2], False),
    "default": ([r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"], False),
    "falcon": ([r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"], False),
    "llama-bpe": ([GPT4 % r"\p{N}{1,3}"], True),
    "dbrx": ([GPT4 % r"\p{N}{1,3}"], False),
    "qwen2": ([GPT4 % r"\p{N}"], False),
    "qwen35": (
        [
            SHORT
            + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
            + r"|\s*[\r\n]+|\s+(?!\S)|\s+"
        ],
        False,
    ),
    "gpt-4o": ([GPT4O % {"short": SHORT + "?", "digits": r"\p{N}{1,3}"}], False),
    "tekken": ([GPT4O % {"short": "", "digits": r"\p{N}"}], True),
    "deepseek-llm": (
        [
            r"[\r\n]",
            r"\s?[\p{Lu}\p{Ll}\p{Lt}]+",
            "\\s?[!-/:-~！-／：-～‘-‟\u3000-。]+",
            r"\s+$",
            "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+",
            r"\p{N}+",
        ],
        False,
    ),
    "deepseek-coder": (
        [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+", r"\p{N}"],
        False,
    ),
    "deepseek-v3": ([r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", DEEPSEEK3], False),
}

CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
USER_DEFINED = ["<tool>", "</tool>"]


def cutter(patterns):
    splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([*splits, level])


def encoded(tokenizer, special):
    """The ids of all texts; without `special`, tokens such as <|im_end|> are texts as any other."""
    tokenizer.encode_special_tokens = not special
    return [tokenizer.encode(text, add_special_tokens=False).ids for text in TEXTS]


def with_tokens(vocabulary, merges, whole, patterns, control, user_defined):
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=whole))
    tokenizer.pre_tokenizer = cutter(patterns)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in control])
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in user_defined])
    return tokenizer


def byte_pairs():
    trained = Tokenizer(models.BPE())
    # Words of several numbers and marks, so that how they are cut makes a difference.
    trained.pre_tokenizer = cutter([r"\s*[^\s]+|\s+"])
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=1200, special_tokens=CONTROL, initial_alphabet=alphabet, show_progress=False
    )
    trained.train_from_iterator(CORPUS.splitlines(keepends=True), trainer)
    model = json.loads(trained.to_str())["model"]
    vocabulary, merges = model["vocab"], [tuple(pair) for pair in model["merges"]]
    # A token that no pairs make: only what keeps words whole has it.
    vocabulary["zebra"] = len(vocabulary)
    for token in USER_DEFINED:
        vocabulary[token] = len(vocabulary)
    tokens = sorted(vocabulary, key=vocabulary.get)
    types = [3 if t in CONTROL else 4 if t in USER_DEFINED else 1 for t in tokens]
    ids = {}
    for name, (patterns, whole) in CUTS.items():
        tokenizer = with_tokens(vocabulary, merges, whole, patterns, CONTROL, USER_DEFINED)
        ids[name] = {"special": encoded(tokenizer, True), "plain": encoded(tokenizer, False)}
    return {
        "tokens": tokens,
        "types": types,
        "merges": [" ".join(pair) for pair in merges],
        "bos": 1,
        "eos": 2,
        "ids": ids,
    }


def pieces():
    out = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(line for line in CORPUS.splitlines() if line),
        model_writer=out,
        model_type="bpe",
        vocab_size=700,
        byte_fallback=True,
        character_coverage=0.98,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        split_digits=True,
        minloglevel=2,
    )
    model = model_pb2.ModelProto.FromString(out.getvalue())
    ids = {}
    for name, prefix in [("prefix", True), ("no prefix", False)]:
        model.normalizer_spec.add_dummy_prefix = prefix
        processor = spm.SentencePieceProcessor(model_proto=model.SerializeToString())
        ids[name] = [processor.encode(text) for text in TEXTS]
    return {
        "tokens": [piece.piece for piece in model.pieces],
        "scores": [piece.score for piece in model.pieces],
        "types": [piece.type for piece in model.pieces],
        "bos": 1,
        "eos": 2,
        "ids": ids,
    }


def unigrams():
    """A vocabulary of unigrams, with a small map of characters."""
    folder = Path(tempfile.mkdtemp())
    rules = [("\u00c5", "A"), ("\ufb01", "fi"), ("\u2460", "1"), ("\u3000", " "), ("e\u0301", "\u00e9"), ("\u00a0", " ")]
    rows = ["\t".join(" ".join(f"{ord(c):X}" for c in one) for one in rule) for rule in rules]
    (folder / "rules.tsv").write_text("\n".join(rows) + "\n")
    out = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(line for line in CORPUS.splitlines() if line),
        model_writer=out,
        model_type="unigram",
        vocab_size=190,
        character_coverage=0.98,
        normalization_rule_tsv=str(folder / "rules.tsv"),
        minloglevel=2,
    )
    shutil.rmtree(folder)
    model = model_pb2.ModelProto.FromString(out.getvalue())
    processor = spm.SentencePieceProcessor(model_proto=model.SerializeToString())
    return {
        "tokens": [piece.piece for piece in model.pieces],
        "scores": [piece.score for piece in model.pieces],
        "types": [piece.type for piece in model.pieces],
        "charsmap": list(model.normalizer_spec.precompiled_charsmap),
        "ids": [processor.encode(text) for text in TEXTS],
    }


def word_pieces():
    """A vocabulary of pieces of words, as GGUF files have it: `\u2581word`, and `piece` for `##piece`."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=700, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(CORPUS.splitlines(keepends=True), trainer)
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    vocabulary = tokenizer.get_vocab()
    tokens = sorted(vocabulary, key=vocabulary.get)
    tokenizer.encode_special_tokens = True
    pairs = list(zip(TEXTS, TEXTS[1:] + TEXTS[:1]))
    encodings = []
    for longest in [6, 16]:
        tokenizer.enable_truncation(longest)
        encodings.append([longest, [[e.ids, e.type_ids] for e in tokenizer.encode_batch(pairs)]])
    tokenizer.no_truncation()
    return {
        "tokens": [t if t in special else t[2:] if t.startswith("##") else "\u2581" + t for t in tokens],
        "types": [3 if t in special else 1 for t in tokens],
        "ids": [tokenizer.encode(text, add_special_tokens=False).ids for text in TEXTS],
        "pairs": encodings,
    }


def smollm2(path):
    fields = GGUFReader(path).fields
    tokens, types, merges = (
        fields[f"tokenizer.ggml.{name}"].contents() for name in ["tokens", "token_type", "merges"]
    )
    vocabulary = {token: id for id, token in enumerate(tokens)}
    control = [token for token, type in zip(tokens, types) if type == 3]
    pairs = [tuple(pair.split(" ")) for pair in merges]
    tokenizer = with_tokens(vocabulary, pairs, False, CUTS["smollm"][0], control, [])
    return {"special": encoded(tokenizer, True), "plain": encoded(tokenizer, False)}


CHATML = """{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}
"""

# In the manner of models' templates: what they use of Jinja is in them.
TEMPLATES = {
    "chatml": CHATML,
    "default system": """{% for message in messages %}
{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system
You are helpful.<|im_end|>
' }}{% endif %}{{ '<|im_start|>' + message['role'] + '
' + message['content'] + '<|im_end|>' + '
' }}{% endfor %}
{% if add_generation_prompt %}{{ '<|im_start|>assistant
' }}{% endif %}""",
    "inst": """{{ bos_token }}{% if messages[0]['role'] == 'system' %}
{% set loop_messages = messages[1:] %}{% set system = '<<SYS>>\\n' ~ messages[0]['content'] ~ '\\n<</SYS>>\\n\\n' %}
{% else %}{% set loop_messages = messages %}{% set system = '' %}{% endif %}
{% for message in loop_messages %}
    {% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{ raise_exception('Roles must alternate: user, assistant, user, assistant') }}
    {% endif %}
    {% if message['role'] == 'user' %}
        {{- '[INST] ' + (system if loop.index0 == 0 else '') + message['content'].strip() + ' [/INST]' }}
    {%- elif message['role'] == 'assistant' %}
        {{- ' ' + message['content'] | trim + eos_token }}
    {%- endif %}
{%- endfor %}""",
    "headers": """{{- bos_token }}
{%- if not date_string is defined %}{%- set date_string = "26 Jul 2024" %}{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\nToday Date: " + date_string + "\\n\\n" + system_message + "<|eot_id|>" }}
{%- for message in messages %}
    {%- if message.role == 'tool' or message.role == 'ipython' %}{%- continue %}{%- endif %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
""",
    "turns": """{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\\n'}}{% endif %}""",
    "tools": """{%- set ns = namespace(last=-1, found=false) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if not ns.found and message.role == "user" %}{%- set ns.found = true %}{%- set ns.last = index %}{%- endif %}
{%- endfor %}
{%- if tools %}
    {{- '<|im_start|>system\\n# Tools\\n<tools>' }}
    {%- for tool in tools %}{{- '\\n' }}{{- tool | tojson }}{%- endfor %}
    {{- '\\n</tools><|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if '</think>' in content and loop.index0 < ns.last %}
        {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
    {%- endif %}
    {{- '<|im_start|>' ~ message.role ~ ('!' if loop.index0 == ns.last else '') ~ '\\n' ~ content ~ '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}
{%- endif %}""",
}

CHATS = [
    [("user", "Hello, who are you?")],
    [("system", "  You are terse.\n"), ("user", "Hi"), ("assistant", "Hello!"), ("user", " And \"you\"? ")],
    [("user", "Grüße 🙂 <b>&amp;</b>"), ("assistant", "<think>\nhm\n</think>\n\nJa: {{ x }}"), ("user", "東京\n\n")],
    [("user", "one"), ("user", "two")],
    [("system", ""), ("user", ""), ("assistant", "a\tb"), ("tool", "42"), ("user", "c")],
]

VARIABLES = [
    {"add_generation_prompt": True},
    {"add_generation_prompt": False},
    {
        "add_generation_prompt": True,
        "date_string": "01 Jan 2025",
        "enable_thinking": False,
        "tools": [
            {
                "type": "function",
                "function": {"name": "größe", "parameters": {"a": [1, 2.5, None, True], "b": {}}},
            }
        ],
    },
]


def chat_templates():
    """As the package transformers renders them."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)

    def fail(message):
        raise jinja2.exceptions.TemplateError(message)

    environment.globals["raise_exception"] = fail
    cases = []
    for name, template in TEMPLATES.items():
        for chat in CHATS:
            messages = [{"role": role, "content": content} for role, content in chat]
            for variables in VARIABLES:
                case = {"template": name, "messages": messages, "variables": variables}
                try:
                    case["text"] = environment.from_string(template).render(
                        messages=messages, bos_token="<s>", eos_token="</s>", **variables
                    )
                except jinja2.exceptions.TemplateError as error:
                    case["error"] = str(error)
                cases.append(case)
    return {"templates": TEMPLATES, "cases": cases}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--smollm2")
    options = parser.parse_args()
    if options.smollm2:
        real = smollm2(options.smollm2)
    else:
        real = json.loads(PATH.read_text())["smollm2"]
    golden = {
        "texts": TEXTS,
        "bytes": byte_pairs(),
        "pieces": pieces(),
        "unigrams": unigrams(),
        "words": word_pieces(),
        "smollm2": real,
    }
    parts = [f'"{key}": {json.dumps(part, ensure_ascii=False)}' for key, part in golden.items()]
    PATH.write_text("{\n" + ",\n".join(parts) + "\n}\n")
    rendered = chat_templates()
    cases = ",\n".join(json.dumps(case, ensure_ascii=False) for case in rendered["cases"])
    templates = json.dumps(rendered["templates"], ensure_ascii=False)
    text = f'{{\n"templates": {templates},\n"cases": [\n{cases}\n]\n}}\n'
    (FOLDER / "chat_templates.json").write_text(text)


main()
