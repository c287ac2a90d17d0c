#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records positions from the installed transformers: tests/golden/mrope_ids.json (get_rope_index) and position_ids.json (everything else).

Usage: python tools/record/record_positions.py   (needs torch and transformers; the files say which versions made them)
"""
import json
import types
from pathlib import Path

import torch
import transformers
from transformers import vision_utils
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.dinov3_vit.modeling_dinov3_vit import get_patches_center_coordinates
from transformers.models.ernie4_5_vl_moe.modeling_ernie4_5_vl_moe import Ernie4_5_VLMoeModel
from transformers.models.glm4v.modeling_glm4v import Glm4vModel
from transformers.models.llama4.configuration_llama4 import Llama4TextConfig
from transformers.models.llama4.modeling_llama4 import Llama4TextAttention, Llama4VisionRotaryEmbedding
from transformers.models.ministral3.modeling_ministral3 import get_llama_4_attn_scale
from transformers.models.opt.modeling_opt import OPTLearnedPositionalEmbedding
from transformers.models.pixtral.modeling_pixtral import PixtralVisionConfig, PixtralVisionModel
from transformers.models.qwen2_5_omni.modeling_qwen2_5_omni import Qwen2_5OmniThinkerForConditionalGeneration
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLModel
from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VLModel
from transformers.models.qwen3_omni_moe.modeling_qwen3_omni_moe import Qwen3OmniMoeThinkerForConditionalGeneration
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLModel
from transformers.models.roberta.modeling_roberta import RobertaEmbeddings
from transformers.models.sam2_video.modeling_sam2_video import Sam2VideoMemoryAttention
from transformers.models.vjepa2.modeling_vjepa2 import VJEPA2RopeAttention

GOLDEN = Path(__file__).parents[2] / "tests" / "golden"
IDS = {"image": 901, "video": 902, "audio": 903, "vision_start": 904, "audio_start": 905, "video_start": 906, "video_end": 907}
VISION_END, AUDIO_END, PAD = 908, 909, 0
MADE_BY = f"tools/record/record_positions.py, transformers {transformers.__version__}, torch {torch.__version__}"


def bare(cls, **attributes):
    """An object of a model class without its weights: the methods that are recorded only read these attributes."""
    model = cls.__new__(cls)
    for name, value in attributes.items():
        object.__setattr__(model, name, value)
    return model


# ---- M-RoPE ----


def text(n, first=11):
    return [first + i % 7 for i in range(n)], [0] * n


def image(grid, merge, wrapped=True):
    n = grid[0] * (grid[1] // merge) * (grid[2] // merge)
    ids = [IDS["image"]] * n
    return ([IDS["vision_start"], *ids, VISION_END], [0, *[1] * n, 0]) if wrapped else (ids, [1] * n)


def video(grid, merge, temporal=1, token="video"):
    n = grid[0] // temporal * (grid[1] // merge) * (grid[2] // merge)
    return [IDS["vision_start"], *[IDS[token]] * n, VISION_END], [0, *[2] * n, 0]


def framed_video(grid, merge, glm):
    """Every frame between markers and time stamps of its own, as Qwen3-VL and GLM-4V have them."""
    ids, kinds = ([IDS["video_start"]], [0]) if glm else ([], [])
    for frame in range(grid[0]):
        n = (grid[1] // merge) * (grid[2] // merge)
        stamp = [21 + frame, 22]
        ids += [*stamp, IDS["vision_start"], *[IDS["image" if glm else "video"]] * n, VISION_END]
        kinds += [0, 0, 0, *[2] * n, 0]
    return (ids + [IDS["video_end"]], kinds + [0]) if glm else (ids, kinds)


def row(*segments):
    return [i for s in segments for i in s[0]], [k for s in segments for k in s[1]]


def padded(rows, side):
    """Rows of one length, and the mask; side is left, right or both (a hole in the middle too)."""
    length = max(len(ids) for ids, _ in rows) + (3 if side == "both" else 0)
    out = {"ids": [], "types": [], "mask": []}
    for ids, kinds in rows:
        gap = length - len(ids)
        left = {"left": gap, "right": 0, "both": gap // 2}[side]
        out["ids"].append([PAD] * left + ids + [PAD] * (gap - left))
        out["types"].append([0] * left + kinds + [0] * (gap - left))
        out["mask"].append([0] * left + [1] * len(ids) + [0] * (gap - left))
    return out


def recorded(name, inputs, settings, positions, deltas):
    flat = positions.double().flatten().tolist()
    flat = [int(v) if v == int(v) else v for v in flat]
    return {"model": name, **inputs, **settings, "positions": flat, "deltas": [float(d) for d in deltas.flatten().tolist()]}


VISION = {"qwen2_vl": Qwen2VLModel, "qwen2_5_vl": Qwen2_5_VLModel, "qwen3_vl": Qwen3VLModel, "glm4v": Glm4vModel, "ernie4_5_vl": Ernie4_5_VLMoeModel}


def vision_case(name, side, merge, tokens_per_second=2, seconds=None):
    images = [[1, 2 * merge, 3 * merge], [1, merge, merge], [1, 4 * merge, merge]]
    videos = [[4, 2 * merge, merge], [2, merge, 3 * merge]]
    make = {"qwen3_vl": lambda g: framed_video(g, merge, False), "glm4v": lambda g: framed_video(g, merge, True), "ernie4_5_vl": lambda g: video(g, merge, 2)}
    make_video = make.get(name, lambda g: video(g, merge))
    rows = [row(text(5), image(images[0], merge), text(3), make_video(videos[0]), text(2)), row(image(images[1], merge), text(7)),
            row(make_video(videos[1]), image(images[2], merge))]
    inputs = padded(rows, "right" if side == "none" else side)
    if side == "none":
        inputs = padded(rows[:1], "right")
        images, videos = images[:1], videos[:1]
    config = types.SimpleNamespace(vision_config=types.SimpleNamespace(spatial_merge_size=merge, temporal_merge_size=2, tokens_per_second=tokens_per_second))
    given = {"second_per_grid_ts": torch.tensor(seconds[: len(videos)])} if seconds else {}
    positions, deltas = bare(VISION[name], config=config).get_rope_index(
        torch.tensor(inputs["ids"]), torch.tensor(inputs["types"]), torch.tensor(images), torch.tensor(videos).clone(),
        attention_mask=None if side == "none" else torch.tensor(inputs["mask"]), **given)
    if side == "none":
        inputs["mask"] = []
    settings = {"images": images, "videos": videos, "seconds": (seconds or [])[: len(videos)], "audio": [], "in_video": False, "merge": merge, "tokens_per_second": tokens_per_second}
    return recorded(name, inputs, settings, positions, deltas)


def audio(n):
    return [IDS["audio_start"], *[IDS["audio"]] * n, AUDIO_END], [0] * (n + 2)


def mixed(grid, merge, sounds):
    """A video with its audio; only how many there are matters to get_rope_index, not their order."""
    n = grid[0] * (grid[1] // merge) * (grid[2] // merge)
    ids = [IDS["vision_start"], IDS["audio_start"], *[IDS["video"]] * n, *[IDS["audio"]] * sounds, AUDIO_END, VISION_END]
    return ids, [0] * len(ids)


def audio_tokens(name, length):
    if name == "qwen2_5_omni":
        return ((length - 1) // 2 + 1 - 2) // 2 + 1
    rest = (length % 100 - 1) // 2 + 1
    return ((rest - 1) // 2 + 1 - 1) // 2 + 1 + length // 100 * 13


OMNI = {"qwen2_5_omni": Qwen2_5OmniThinkerForConditionalGeneration, "qwen3_omni": Qwen3OmniMoeThinkerForConditionalGeneration}


def omni_case(name, side, in_video, seconds, rate):
    merge = 2
    images, videos = [[1, 4, 6]], [[5, 2, 4], [3, 4, 2]]
    lengths = [230, 37] if in_video else [37, 151]
    sounds = [audio_tokens(name, n) for n in lengths]
    if in_video:
        rows = [row(text(4), image(images[0], merge), text(2), mixed(videos[0], merge, sounds[0]), text(3)), row(mixed(videos[1], merge, sounds[1]), text(1))]
    else:
        rows = [row(text(4), audio(sounds[0]), image(images[0], merge), text(2), video(videos[0], merge), text(3)), row(video(videos[1], merge), audio(sounds[1]))]
    inputs = padded(rows, side)
    ids = {f"{k}_token_id": v for k, v in IDS.items()}
    config = types.SimpleNamespace(**ids, position_id_per_seconds=rate, seconds_per_chunk=2, audio_config=types.SimpleNamespace(n_window=50))
    positions, deltas = bare(OMNI[name], config=config, spatial_merge_size=merge).get_rope_index(
        torch.tensor(inputs["ids"]), torch.tensor(images), torch.tensor(videos), torch.tensor(inputs["mask"]), in_video, torch.tensor(lengths), torch.tensor(seconds))
    settings = {"images": images, "videos": videos, "seconds": seconds, "audio": lengths, "in_video": in_video, "merge": merge, "rate": rate}
    return recorded(name, inputs, settings, positions, deltas)


def omni_text_case(name):
    inputs = padded([row(text(6)), row(text(1)), row(text(4))], "left")
    positions, deltas = bare(OMNI[name], config=types.SimpleNamespace(**{f"{k}_token_id": v for k, v in IDS.items()}, position_id_per_seconds=25, seconds_per_chunk=2),
                             spatial_merge_size=2).get_rope_index(torch.tensor(inputs["ids"]), attention_mask=torch.tensor(inputs["mask"]))
    settings = {"images": [], "videos": [], "seconds": [], "audio": [], "in_video": False, "merge": 2, "rate": 25}
    return recorded(name, inputs, settings, positions, deltas)


def mrope_cases():
    for name in VISION:
        for side in ("left", "right", "both", "none"):
            yield vision_case(name, side, 2)
        yield vision_case(name, "left", 3)
    yield vision_case("qwen2_5_vl", "right", 2, 2, [0.5, 1.37])
    yield vision_case("qwen2_5_vl", "left", 2, 25, [0.08, 2.0])
    for name in OMNI:
        for in_video in (False, True):
            for side, seconds, rate in (("left", [1.0, 0.5], 25), ("right", [0.73, 3.0], 25), ("both", [0.1, 2.5], 13)):
                yield omni_case(name, side, in_video, seconds, rate)
        yield omni_text_case(name)


# ---- Everything else ----


def masks():
    mask = torch.tensor([[0, 0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0], [1, 1, 0, 1, 0, 1, 1], [0, 0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1]])
    table = OPTLearnedPositionalEmbedding(16, 1)
    table.weight.data = torch.arange(18.0).unsqueeze(1)
    ids = torch.where(mask == 1, torch.arange(7) + 10, torch.tensor(1))
    heads = 8  # the first slope is 1/2
    return {
        "mask": mask.flatten().tolist(),
        "bloom": (build_alibi_tensor(mask, heads, torch.float32).view(5, heads, 7)[:, 0] * 2).long().flatten().tolist(),
        "opt_rows": table(mask).long().flatten().tolist(),
        "opt_rows_after_3": table(mask, 3).long().flatten().tolist(),
        "roberta": RobertaEmbeddings.create_position_ids_from_input_ids(ids, 1).flatten().tolist(),
        "roberta_after_5": RobertaEmbeddings.create_position_ids_from_input_ids(ids, 1, 5).flatten().tolist(),
        "roberta_ids": ids.flatten().tolist(),
        "generate": generate_positions(mask),
    }


def generate_positions(mask):
    mixin = transformers.generation.GenerationMixin
    model = types.SimpleNamespace()
    inputs = torch.zeros_like(mask)
    return mixin._prepare_position_ids_for_generation(model, inputs, {"attention_mask": mask}).flatten().tolist()


def pixtral_positions(sizes, patch):
    config = PixtralVisionConfig(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=8 * patch, patch_size=patch)
    model = PixtralVisionModel(config).eval()
    seen = {}
    model.patch_positional_embedding.register_forward_pre_hook(lambda module, args: seen.update(ids=args[1]))
    with torch.no_grad():
        model(torch.zeros(len(sizes), 3, 8 * patch, 8 * patch), torch.tensor(sizes) * patch)
    return seen["ids"].T.flatten().tolist()


def llama4_vision_positions():
    config = types.SimpleNamespace(image_size=12, patch_size=4, hidden_size=16, num_attention_heads=2, rope_parameters={"rope_theta": 10000.0})
    angles = torch.angle(Llama4VisionRotaryEmbedding._compute_freqs_ci(config)).view(10, -1)  # (tokens, x pairs then y pairs); the first of each has frequency 1
    half = angles.shape[1] // 2
    return torch.stack([angles[:, 0], angles[:, half]]).round().long().flatten().tolist()


def vjepa2_positions(ids):
    attention = bare(VJEPA2RopeAttention, grid_size=3, num_attention_heads=2)
    frames, rows, columns = attention.get_position_ids(torch.zeros(2, 5, 1), torch.tensor(ids))
    return torch.stack([p[:, 0] for p in (frames, rows, columns)]).flatten().tolist()


def grids():
    thw = torch.tensor([[2, 4, 6], [1, 2, 2]])
    ids = [[0, 4, 9, 17, 26], [8, 10, 11, 12, 25]]
    return {
        "qwen_merge_2": vision_utils.get_vision_position_ids(thw, 2).T.flatten().tolist(),
        "qwen_merge_2_with_frames": vision_utils.get_vision_position_ids(thw, 2, include_temporal=True).T.flatten().tolist(),
        "qwen_merge_1": vision_utils.get_vision_position_ids(thw, 1).T.flatten().tolist(),
        "pixtral": pixtral_positions([[3, 5], [8, 2]], 4),
        "llama4": llama4_vision_positions(),
        "sam2_3_columns_4_rows": Sam2VideoMemoryAttention.precompute_positions(types.SimpleNamespace(memory_attention_rope_feat_sizes=[3, 4])).T.flatten().tolist(),
        "vjepa2_ids": [i for r in ids for i in r],
        "vjepa2": vjepa2_positions(ids),
        "dinov3_3_rows_7_columns": get_patches_center_coordinates(3, 7, torch.float64, torch.device("cpu")).T.flatten().tolist(),
    }


class SomeTokensSeen:
    """A cache that only knows how many tokens came before."""

    def __init__(self, seen):
        self.seen = seen

    def get_seq_length(self, layer):
        return self.seen

    def update(self, keys, values, layer):
        return keys, values


def llama4_temperatures(first, tokens):
    config = Llama4TextConfig(hidden_size=4, num_attention_heads=1, num_key_value_heads=1, head_dim=4, no_rope_layers=[0], num_hidden_layers=1, attn_temperature_tuning=True, floor_scale=8192, attn_scale=0.1)
    config._attn_implementation = "eager"
    attention = Llama4TextAttention(config, 0)
    attention.q_proj.weight.data = torch.eye(4)
    seen = {}
    from transformers.models.llama4 import modeling_llama4

    def spy(module, query, key, value, *args, **kwargs):
        seen["query"] = query
        return torch.zeros(1, tokens, 1, 4), None

    plain, modeling_llama4.eager_attention_forward = modeling_llama4.eager_attention_forward, spy
    with torch.no_grad():
        attention(torch.ones(1, tokens, 4), None, None, SomeTokensSeen(first))
    modeling_llama4.eager_attention_forward = plain
    return seen["query"][0, 0, :, 0].tolist()


def temperatures():
    starts = [0, 8189, 16381, 81917, 1048573, 16777200]
    positions = torch.tensor([p + i for p in starts for i in range(5)])
    return {
        "positions": positions.tolist(),
        "llama4": [v for p in starts for v in llama4_temperatures(p, 5)],
        "ministral3_length_16384": get_llama_4_attn_scale(positions[None], 0.1, 16384).flatten().tolist(),
    }


def lines_of(cases):
    return ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases)


def main():
    (GOLDEN / "mrope_ids.json").write_text(f'{{"made_by":"{MADE_BY}","tokens":{json.dumps(IDS)},"cases":[\n{lines_of(mrope_cases())}\n]}}\n')
    rest = {"made_by": MADE_BY, "masks": masks(), "grids": grids(), "temperatures": temperatures()}
    (GOLDEN / "position_ids.json").write_text(json.dumps(rest, separators=(",", ":")).replace(',"', ',\n"') + "\n")


if __name__ == "__main__":
    main()
