#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what transformers and PyTorch make of biases into tests/golden/bias.json: numbers only. Needs torch and transformers."""
import json
import sys
from pathlib import Path

import torch
import transformers
from transformers.models.bloom.modeling_bloom import build_alibi_tensor as bloom_alibi
from transformers.models.deberta_v2.modeling_deberta_v2 import build_rpos, make_log_bucket_position
from transformers.models.falcon.modeling_falcon import build_alibi_tensor as falcon_alibi
from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor
from transformers.models.swinv2.modeling_swinv2 import Swinv2SelfAttention
from transformers.models.swin.modeling_swin import SwinRelativePositionBias
from transformers.models.swinv2.configuration_swinv2 import Swinv2Config
from transformers.models.t5.modeling_t5 import T5Attention

FARTHEST = 1_000_000


def steps(values, first):
    """[[where a value begins, the value], ...] of consecutive distances from `first` on."""
    change = torch.cat([torch.tensor([True]), values[1:] != values[:-1]]).nonzero().flatten()
    return [[int(i) + first, int(values[i])] for i in change]


def t5():
    cases = []
    for buckets in (4, 6, 10, 32, 34, 64, 320):
        for distance in (20, 128, 512, 800, 1000, 100_000):
            for both in (True, False):
                if distance <= buckets // (4 if both else 2):
                    continue
                behind = torch.arange(0, FARTHEST + 1)
                if both:
                    ahead = T5Attention._relative_position_bucket(behind[1:], True, buckets, distance)
                    exact = T5Attention._relative_position_bucket(-behind, True, buckets, distance)
                    if not torch.equal(ahead - buckets // 2, exact[1:]):
                        raise SystemExit(f"t5 {buckets} {distance}: keys ahead and behind differ")
                else:
                    exact = T5Attention._relative_position_bucket(-behind, False, buckets, distance)
                    ahead = T5Attention._relative_position_bucket(behind, False, buckets, distance)
                    if ahead.any():
                        raise SystemExit("t5: a key ahead has a bucket of its own")
                cases.append({"buckets": buckets, "max_distance": distance, "both": both, "steps": steps(exact, 0)})
    return cases


def deberta():
    """Slots of content-to-position (hf) and of position-to-content where queries and keys differ in number (hf_swapped)."""
    cases = []
    for buckets, distance in ((256, 512), (64, 512), (32, 128), (8, 20), (10, 64), (256, 1024), (128, 512)):
        r = torch.arange(-20_000, 20_001)
        hf = make_log_bucket_position(r, buckets, distance).to(torch.long)
        slot = torch.clamp(hf + buckets, 0, 2 * buckets - 1)
        n = 700  # through the function itself, which receives its arguments swapped
        q, k = torch.zeros(1, 1, 4), torch.zeros(1, n, 4)
        rpos = build_rpos(q, k, torch.zeros(1), distance, buckets)[0]
        swapped = torch.cat([rpos[0].flip(0), rpos[1:, 0]])
        swapped = torch.clamp(swapped + buckets, 0, 2 * buckets - 1)
        cases.append({"buckets": buckets, "max_distance": distance, "hf": steps(slot, -20_000), "hf_swapped": steps(swapped, 1 - n)})
    return cases


def alibi():
    cases = []
    for heads in [*range(1, 41), 48, 56, 71, 112]:
        mask = torch.ones(1, 3, dtype=torch.long)
        bloom = bloom_alibi(mask, heads, torch.float32)[:, 0, 1]
        mpt = -build_mpt_alibi_tensor(heads, 2).reshape(heads, 2)[:, 0]
        falcon = falcon_alibi(mask, heads, torch.float32)[:, 0, 1]
        cases.append({"heads": heads, "bloom": bloom.double().tolist(), "mpt": mpt.double().tolist(), "falcon": falcon.double().tolist()})
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 0, 1, 1]])
    masked = {"mask": mask.flatten().tolist(), "heads": 12, "bias": bloom_alibi(mask, 12, torch.float32).double().flatten().tolist()}
    return {"slopes": cases, "masked": masked, "mpt_16": build_mpt_alibi_tensor(6, 5, 16).double().flatten().tolist()}


def swin():
    layer = SwinRelativePositionBias(3, (3, 5))
    return {"index": layer.relative_position_index.flatten().tolist()}


def swinv2():
    torch.manual_seed(7)
    cases = []
    for window, trained in (((3, 5), (0, 0)), ((4, 2), (6, 3))):
        layer = Swinv2SelfAttention(Swinv2Config(), 12, 3, window, trained).double()
        first, last = layer.continuous_position_bias_mlp[0], layer.continuous_position_bias_mlp[2]
        hidden = 5  # of the 512: the others are switched off, so that the record stays small
        with torch.no_grad():
            last.weight[:, hidden:] = 0
            last.weight.mul_(20)
            coords = layer.create_coords_table_and_index()[0].double()
            table = layer.continuous_position_bias_mlp(coords).view(-1, 3)
            n = window[0] * window[1]
            bias = 16 * torch.sigmoid(table[layer.relative_position_index.view(-1)].view(n, n, -1).permute(2, 0, 1))
        cases.append({"window": window, "trained": trained, "w1": first.weight[:hidden].flatten().tolist(), "b1": first.bias[:hidden].tolist(),
                      "w2": last.weight[:, :hidden].flatten().tolist(), "bias": bias.flatten().tolist()})
    return cases


def main():
    target = Path(__file__).parents[2] / "tests" / "golden" / "bias.json"
    record = {"made_by": f"tools/record/record_bias.py, torch {torch.__version__}, transformers {transformers.__version__}", "t5": t5(),
              "deberta": deberta(), "alibi": alibi(), "swin": swin(), "swinv2": swinv2()}
    text = json.dumps(record, separators=(",", ":"))
    target.write_text(text.replace('},{', '},\n{').replace('],"', '],\n"') + "\n", encoding="utf-8")
    print(f"{target.name}: {len(text)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
