# SPDX-License-Identifier: Apache-2.0
"""Run by generate_by_vllm.py in a process of its own, whose environment says which plugins vLLM loads:
python generate.py FOLDER OUT eager|compiled PROFILE,... NAME...

Writes a JSON of, for each model and profile ("native": vLLM's own layers, by its forward_native): tokens, log-probabilities of prompt and continuation, calls of phasor by layer, operators seen by a profiler."""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import sys
from pathlib import Path

import models
import torch

if set(sys.argv) & set(models.IMAGES):  # before transformers is imported, which looks for torchvision once
    sys.path[:0] = [str(Path(__file__).parents[1])]
    import torchvision_operators  # noqa: F401

    sys.path.append(str(Path(sys.prefix) / "vision"))  # where engines_test.sh puts torchvision: in its usual place it would end every other run

from vllm import LLM, ModelRegistry, SamplingParams
from vllm.model_executor.layers.rotary_embedding import _ROPE_DICT
from vllm.model_executor.model_loader import dummy_loader
from vllm.model_executor.models.interfaces import SupportsMRoPE
from vllm.model_executor.models.llama import LlamaForCausalLM

# vLLM's dummy weights are of 1e-3: scores are then nearly equal, and no error of a rotation would reach a log-probability.
dummy_loader.initialize_single_dummy_weight = functools.partial(dummy_loader.initialize_single_dummy_weight, low=-0.5, high=0.5)

# vLLM's switch from a layer's kernel to its forward_native.
OWN = {"custom_ops": ["-rotary_embedding", "-apply_rotary_emb"]}
PROMPTS = [[3, 14, 15, 92, 65, 35, 89, 79], [27, 18, 28], list(range(5, 105))]


class LlamaOfThreeAxes(LlamaForCausalLM, SupportsMRoPE):
    """Llama with positions of three axes, as a prompt with an image has: each axis grows at its own pace."""

    def get_mrope_input_positions(self, input_tokens, mm_features):
        place = torch.arange(len(input_tokens))
        positions = torch.stack((place, place // 2, place // 3))
        return positions, int(positions.max()) + 1 - len(input_tokens)


ModelRegistry.register_model("LlamaOfThreeAxes", LlamaOfThreeAxes)


def logprobs(entries):
    return [None if e is None else sorted((int(t), float(v.logprob).hex()) for t, v in e.items()) for e in entries or []]


def run(folder: Path, name: str, how: str, profile: str) -> dict:
    """`compiled`: vLLM's graphs by Inductor, its default."""
    eager = how == "eager"
    prompts, more = [{"prompt_token_ids": p} for p in PROMPTS], {"skip_tokenizer_init": True}
    if name in models.IMAGES:
        import images

        prompts, more = images.PROMPTS, images.prepared(models.write(folder, name))
    _ROPE_DICT.clear()  # layers of another profile
    llm = LLM(
        models.write(folder, name), load_format="dummy", dtype="float32", enforce_eager=eager, max_model_len=256, **more, max_num_seqs=4,
        max_num_batched_tokens=256, seed=0, enable_prefix_caching=False, disable_log_stats=True,
        compilation_config=OWN if profile == "native" else {},
        additional_config={} if profile == "native" else {"phasor_profile": profile},
    )  # fmt: skip
    before = calls()
    params = SamplingParams(temperature=0, max_tokens=4, logprobs=4, prompt_logprobs=4, ignore_eos=True, detokenize=False)
    # A profiler sees what a compiled graph calls; it costs, so not where Python counts.
    watch = contextlib.nullcontext() if eager else torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    with watch as seen:
        outs = llm.generate(prompts, params, use_tqdm=False)
    after = calls()
    found = {
        "tokens": [list(o.outputs[0].token_ids) for o in outs],
        "logprobs": [[logprobs(o.prompt_logprobs), logprobs(o.outputs[0].logprobs)] for o in outs],
        "calls": {n: c - before.get(n, 0) for n, c in after.items() if c > before.get(n, 0)},
        "operators": {} if seen is None else {e.key: e.count for e in seen.key_averages() if e.key.startswith("phasor::")},
    }
    del llm
    gc.collect()
    return found


def calls() -> dict:
    loaded = sys.modules.get("phasor_vllm")
    return dict(loaded.calls) if loaded else {}


def main() -> None:
    folder, out, how, profiles, *names = sys.argv[1:]
    found = {}
    for name, profile in ((n, p) for n in names for p in profiles.split(",")):
        try:
            found[f"{name} {profile}"] = run(Path(folder), name, how, profile)
        except Exception as error:  # noqa: BLE001  told to the test, which fails by it
            import traceback

            traceback.print_exc()
            found[f"{name} {profile}"] = {"error": f"{type(error).__name__}: {error}"}
        Path(out).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
