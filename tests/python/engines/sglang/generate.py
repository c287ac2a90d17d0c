# SPDX-License-Identifier: Apache-2.0
"""Run by generate_by_sglang.py in a process of its own, whose environment says which plugins SGLang loads and PHASOR_SEEN, a file for what its
scheduler's process saw: python generate.py OUT FOLDER... (a folder holds the config of a model)

Writes a JSON of, for each folder: tokens, log-probabilities of prompt and continuation, steps of the model, calls of phasor by layer."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import absent  # noqa: F401  before SGLang
from sglang.srt.plugins.hook_registry import HookRegistry, HookType

PROMPTS = [[3, 14, 15, 92, 65, 35, 89, 79], [27, 18, 28], list(range(5, 105))]
_steps = 0


def watched(original, *args, **named):
    """A step of the model: what was called until now goes to the file, since the scheduler's process is killed at its end."""
    global _steps
    found = original(*args, **named)
    _steps += 1
    plugin = sys.modules.get("phasor_sglang")
    Path(os.environ["PHASOR_SEEN"]).write_text(json.dumps({"steps": _steps, "calls": dict(plugin.calls) if plugin else {}}))
    return found


def larger(model, *_, **__):
    """SGLang's dummy weights are of 1e-3: scores are then nearly equal, and no error of a rotation would reach a log-probability."""
    return (model, -0.5, 0.5), {}


# SGLang's processes are spawned: each imports this file, and its plugin loader then applies these beside the plugins' own.
HookRegistry.register("sglang.srt.model_executor.model_runner.ModelRunner.forward", watched, HookType.AROUND)
HookRegistry.register("sglang.srt.model_loader.weight_utils.initialize_dummy_weights", larger, HookType.BEFORE)


def run(folder: str) -> dict:
    import sglang

    seen = Path(os.environ["PHASOR_SEEN"])
    seen.unlink(missing_ok=True)
    engine = sglang.Engine(
        model_path=folder, load_format="dummy", dtype="float32", skip_tokenizer_init=True, device="cpu", attention_backend="torch_native",
        sampling_backend="pytorch", grammar_backend="none", disable_radix_cache=True, disable_cuda_graph=True, disable_overlap_schedule=True,
        max_total_tokens=1024, max_running_requests=4, mem_fraction_static=0.1, context_length=256, random_seed=0, log_level="warning",
    )  # fmt: skip
    try:
        params = {"temperature": 0, "max_new_tokens": 4, "ignore_eos": True}
        outs = engine.generate(input_ids=PROMPTS, sampling_params=params, return_logprob=True, logprob_start_len=0, top_logprobs_num=4)
    finally:
        engine.shutdown()
    facts = [o["meta_info"] for o in outs]
    return {
        "tokens": [o["output_ids"] for o in outs],
        "logprobs": [[[v[0] for v in f["input_token_logprobs"]], f["output_top_logprobs"]] for f in facts],
        **json.loads(seen.read_text()),
    }


def main() -> None:
    out, *folders = sys.argv[1:]
    Path(out).write_text(json.dumps({Path(folder).name: run(folder) for folder in folders}))


if __name__ == "__main__":
    main()
