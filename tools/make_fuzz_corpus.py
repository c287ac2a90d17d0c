#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of the gguf, safetensors and spec_json harnesses into fuzz/corpus: small golden files, and files that lie, one for each way."""
import json
import shutil
import struct
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
CORPUS = ROOT / "fuzz" / "corpus"
U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)


def u32(value):
    return struct.pack("<I", value)


def u64(value):
    return struct.pack("<Q", value)


def text(value):
    return u64(len(value)) + value.encode()


def key(name, kind, value):
    return text(name) + u32(kind) + value


def info(name, shape, kind, offset):
    return text(name) + u32(len(shape)) + b"".join(u64(n) for n in shape) + u32(kind) + u64(offset)


LLAMA = [
    key("general.architecture", STRING, text("llama")),
    key("llama.block_count", U32, u32(2)),
    key("llama.context_length", U32, u32(4096)),
    key("llama.embedding_length", U32, u32(64)),
    key("llama.attention.head_count", U32, u32(4)),
]


def gguf(keys=(), infos=(), data=b"", version=3, counts=None):
    tensors, pairs = counts or (len(infos), len(LLAMA) + len(keys))
    head = b"GGUF" + u32(version) + u64(tensors) + u64(pairs) + b"".join(LLAMA) + b"".join(keys) + b"".join(infos)
    return head + b"\0" * (-len(head) % 32) + data


def bad_gguf():
    big = 1 << 63
    yield "plain", gguf()
    yield "every_type", gguf([key(f"k{kind}", kind, bytes(size)) for kind, size in
                              ((U8, 1), (I8, 1), (U16, 2), (I16, 2), (U32, 4), (I32, 4), (F32, 4), (BOOL, 1), (STRING, 8), (U64, 8), (I64, 8), (F64, 8))])
    yield "arrays", gguf([key(f"a{kind}", ARRAY, u32(kind) + u64(2) + bytes(2 * size)) for kind, size in ((U8, 1), (I32, 4), (F64, 8), (STRING, 8), (BOOL, 1))])
    yield "nested_array", gguf([key("k", ARRAY, u32(ARRAY) + u64(1) + u32(U32) + u64(1) + u32(1))])
    yield "array_2_to_61", gguf([key("k", ARRAY, u32(U64) + u64(1 << 61) + bytes(64))])
    yield "text_2_to_63", gguf([key("k", STRING, u64(big) + bytes(64))])
    yield "keys_2_to_63", gguf(counts=(0, big))
    yield "tensors_2_to_63", gguf(counts=(big, 5))
    yield "version_999", gguf(version=999)
    yield "type_13", gguf([key("k", 13, bytes(8))])
    yield "twice", gguf([key("llama.block_count", U32, u32(2))])
    for alignment in (0, 24, 1 << 31):
        yield f"alignment_{alignment}", gguf([key("general.alignment", U32, u32(alignment))], [info("w", [8], 0, 0)], bytes(32))
    yield "overlap", gguf(infos=[info("a", [16], 0, 0), info("b", [8], 0, 32)], data=bytes(64))
    yield "beyond", gguf(infos=[info("a", [1 << 20], 0, 0)], data=bytes(64))
    yield "product_wraps", gguf(infos=[info("a", [1 << 32, 1 << 32], 0, 0)], data=bytes(64))
    yield "five_axes", gguf(infos=[info("a", [1] * 5, 0, 0)], data=bytes(64))
    yield "factors", gguf(infos=[info("rope_freqs.weight", [8], 0, 0)], data=struct.pack("<8f", *([1.0] * 4 + [1e30] * 4)))
    yield "factors_nan", gguf(infos=[info("rope_freqs.weight", [8], 0, 0)], data=struct.pack("<8f", *([1.0] * 7 + [float("nan")])))
    yarn = [key("llama.rope.scaling.type", STRING, text("yarn")), key("llama.rope.scaling.factor", F32, struct.pack("<f", 4.0))]
    yield "yarn", gguf([*yarn, key("llama.rope.scaling.original_context_length", U32, u32(1024)),
                        key("llama.rope.scaling.yarn_attn_factor", F32, struct.pack("<f", 0.5))])


def safetensors(header, data=b""):
    raw = header.encode() if isinstance(header, str) else json.dumps(header).encode()
    return u64(len(raw)) + raw + data


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def bad_safetensors():
    yield "empty", safetensors({})
    yield "metadata", safetensors({"__metadata__": {"format": "pt"}})
    yield "header_too_long", u64(1 << 63) + b"{}"
    yield "overlap", safetensors({"a": tensor("U8", [4], 0, 4), "b": tensor("U8", [4], 2, 6)}, bytes(6))
    yield "hole", safetensors({"a": tensor("U8", [4], 0, 4), "b": tensor("U8", [4], 8, 12)}, bytes(12))
    yield "product_wraps", safetensors({"a": tensor("F32", [1 << 32, 1 << 32], 0, 8)}, bytes(8))
    yield "twice", safetensors('{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"x")
    yield "deep", safetensors('{"a":' + "[" * 300)
    yield "half_bytes", safetensors({"q_proj.weight": tensor("F4", [8, 3], 0, 12)}, bytes(range(12)))
    yield "latent", safetensors({"kv_a_proj_with_mqa.weight": tensor("U8", [7, 1], 0, 7), "q_b_proj.weight": tensor("U8", [30, 1], 7, 37)}, bytes(range(37)))
    yield "fused", safetensors({"qkv_proj.weight": tensor("U8", [64, 2], 0, 128)}, bytes(128))
    yield "refused", safetensors({"c_attn.weight": tensor("U8", [64], 0, 64)}, bytes(64))
    yield "scales", safetensors({"k_proj.weight": tensor("U8", [16], 0, 16), "k_proj.weight_scale_inv": tensor("F32", [2, 1], 16, 24)}, bytes(24))


def words(content, length=None, rest=b""):
    return u64(len(content) if length is None else length) + content + b"\0" * (-len(content) % 8) + rest


def spec_json():
    """The golden specs, a seed each; texts that are none; and words, of a text and of none."""
    lines = (ROOT / "tests" / "golden" / "specs_version_1.jsonl").read_text().splitlines()
    for number, line in enumerate(lines):
        yield f"{number:02}_{json.loads(line)['type']}.json", line.encode()
    plain = '{"phasor":1,"type":"RotarySpec","head_dim":8'
    for name, content in {
        "empty": "",
        "version_2": plain.replace("1", "2", 1) + "}",
        "no_version": '{"type":"RotarySpec","head_dim":8}',
        "no_type": '{"phasor":1,"head_dim":8}',
        "unknown_field": plain + ',"bsae":1}',
        "twice": plain + ',"head_dim":8}',
        "nan": plain + ',"base":NaN}',
        "infinity": plain + ',"base":{"__float__":"Infinity"}}',
        "beyond_64_bits": plain + ',"rotary_width":9223372036854775808}',
        "overflow": plain + ',"base":1e999}',
        "deep": plain + ',"axes":' + "[" * 100,
        "nulls": plain + ',"output_pairing":null,"axes":null}',
        "spaces": plain.replace(",", " ,\n ").replace(":", " : ") + ', "axes": { "sections": [ 4 ] } }',
        "factors_of_text": plain + ',"scaling":{"type":"GivenFactors","factors":["1"]}}',
        "axis_256": plain + ',"axes":{"axis_of_pair":[256]}}',
    }.items():
        yield f"{name}.json", content.encode()
    yield "words", words(plain.encode() + b"}")
    yield "words_length_negative", words(b"{}", (1 << 64) - 1)
    yield "words_too_few", words(b"{}", 9)
    yield "words_too_many", words(b"{}", rest=bytes(8))
    yield "words_behind_the_text", words(b"{}12", 2)


def main():
    for harness, golden, bad in (
        ("gguf", "gguf/*.gguf", bad_gguf()),
        ("safetensors", "weights/*-half.safetensors", bad_safetensors()),
        ("spec_json", "none", spec_json()),
    ):
        folder = CORPUS / harness
        folder.mkdir(parents=True, exist_ok=True)
        for file in (ROOT / "tests" / "golden").glob(golden):
            if file.stat().st_size < 5000:
                shutil.copyfile(file, folder / file.name)
        for name, content in bad:
            (folder / name).write_bytes(content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
