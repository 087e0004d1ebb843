"""Writes a GGUF file of a Llama with 2048 columns, 4 layers and random weights in q4_1.

The vocabulary is that of another file: wide_llama.py SOURCE TARGET. For `deno task bench engine`, whose
models are those of the folder that ROWMAJOR_BENCH_MODELS names.
"""

import sys

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter
from gguf.quants import quantize

LAYERS, COLUMNS, HEADS, KV_HEADS, INNER = 4, 2048, 32, 8, 5632
SIZES = {
    "llama.block_count": LAYERS,
    "llama.embedding_length": COLUMNS,
    "llama.feed_forward_length": INNER,
    "llama.attention.head_count": HEADS,
    "llama.attention.head_count_kv": KV_HEADS,
    "llama.rope.dimension_count": COLUMNS // HEADS,
}


def main(source: str, target: str) -> None:
    reader = GGUFReader(source)
    writer = GGUFWriter(target, "llama")
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture":
            continue
        sub = field.types[1] if field.types[0] == GGUFValueType.ARRAY else None
        value = SIZES.get(key, field.contents())
        writer.add_key_value(key, value, field.types[0], sub_type=sub)
    random = np.random.default_rng(1)
    kind = GGMLQuantizationType.Q4_1

    def matrix(name: str, rows: int, columns: int) -> None:
        # A part of the rows, again and again: random numbers take their time.
        part = random.standard_normal((min(rows, 64), columns), np.float32) / columns**0.5
        blocks = quantize(part, kind)
        whole = np.tile(blocks, (-(-rows // len(blocks)), 1))[:rows]
        writer.add_tensor(name, whole, raw_dtype=kind)

    def norm(name: str) -> None:
        writer.add_tensor(name, np.ones(COLUMNS, np.float32))

    vocabulary = len(reader.fields["tokenizer.ggml.tokens"].data)
    matrix("token_embd.weight", vocabulary, COLUMNS)
    norm("output_norm.weight")
    few = COLUMNS // HEADS * KV_HEADS
    for i in range(LAYERS):
        norm(f"blk.{i}.attn_norm.weight")
        norm(f"blk.{i}.ffn_norm.weight")
        matrix(f"blk.{i}.attn_q.weight", COLUMNS, COLUMNS)
        matrix(f"blk.{i}.attn_k.weight", few, COLUMNS)
        matrix(f"blk.{i}.attn_v.weight", few, COLUMNS)
        matrix(f"blk.{i}.attn_output.weight", COLUMNS, COLUMNS)
        matrix(f"blk.{i}.ffn_gate.weight", INNER, COLUMNS)
        matrix(f"blk.{i}.ffn_up.weight", INNER, COLUMNS)
        matrix(f"blk.{i}.ffn_down.weight", COLUMNS, INNER)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


main(*sys.argv[1:])
