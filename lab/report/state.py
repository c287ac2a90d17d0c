# SPDX-License-Identifier: Apache-2.0
"""What was done with what: the set-up, the encodings, the kernels, what is done and what is left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lab import presets
from lab.report.labels import RUNS, in_order
from lab.report.results import Results, Row
from lab.report.tables import ABSENT, table

NOTHING = ["Nothing measured yet."]
STORES = Path(__file__).resolve().parents[1] / "data" / "stores"


def setup(results: Results, *others: Results) -> list[str]:
    """Model, training, machine, data: a column for each preset. The store is that of the first one."""
    columns = [_facts(one) for one in (results, *others)]
    names = list(dict.fromkeys(name for column in columns for name in column))
    rows = [[name, *(column.get(name, "") for column in columns)] for name in names]
    return [*table(["", *(one.preset for one in (results, *others))], rows), *_store(results.runs[0]["data"])]


def _facts(results: Results) -> dict[str, str]:
    run = results.runs[0]
    settings, shape = run["settings"], run["settings"]["shape"]
    trained = [one["trained"] for one in results.runs if one["trained"]]
    versions = sorted({", ".join(f"{name} {version}" for name, version in sorted(one.get("versions", {}).items())) for one in results.runs})
    parameters = sorted({one["parameters"] for one in results.runs if one.get("parameters")})
    facts = {
        "model": f"{shape['layers']} layers of width {shape['width']}, {shape['heads']} heads, {_span(parameters)} parameters",
        "training": f"{settings['steps']} steps of {settings['rows']} windows of {shape['length']} tokens ({_millions(trained)} tokens), {settings['dtype']}",
        "optimiser": f"AdamW, betas {presets.BETAS[0]:g} and {presets.BETAS[1]:g}, decay {settings['decay']:g} of the model's matrices alone; gradients clipped at norm {presets.MOST_NORM:g}",
        "rate": f"{settings['rate']:g}, up over {settings['warmup']} steps, then along a cosine to {presets.LEAST_RATE:g} of it; {presets.BIAS_RATE:g} times that for biases that learn (T5, KERPLE, FIRE)",
        "seeds": ", ".join(str(seed) for seed in sorted({one["seed"] for one in results.runs})),
        "device": ", ".join(sorted({one["device"] for one in results.runs})),
        "versions": "; ".join(versions),
        "commits": ", ".join(sorted({f"`{one['commit'][:12]}`" for one in results.runs})),
        "data": ", ".join(f"`{one[:12]}`" for one in sorted({one["data"] for one in results.runs})),
    }
    if results.others:
        facts["not shown"] = f"{results.others} runs with other settings or other data"
    return facts


def _span(parameters: list[int]) -> str:
    if not parameters:
        return "unknown"
    low, high = (f"{number / 1e6:.1f}M" for number in (parameters[0], parameters[-1]))
    return low if low == high else f"{low} to {high}"


def _millions(trained: list[Row]) -> str:
    return f"{trained[0]['tokens'] / 1e6:.1f}M" if trained else "no"


def _store(data: str) -> list[str]:
    """What the data are of, from the manifest that the build recorded."""
    path = STORES / f"{data[:12]}.json"
    if not path.is_file():
        return ["", f"No manifest of the data `{data[:12]}` is recorded (`python -m lab data --record` does)."]
    manifest: dict[str, Any] = json.loads(path.read_text())
    packages = ", ".join(f"{name} {version}" for name, version in sorted(manifest["packages"].items()))
    trained = ", ".join(f"{tokens / 1e6:.1f}M {kind}" for kind, tokens in manifest["trained"].items())
    shares = [one["in_training"] for one in manifest["held"]]
    kinds = [one["kind"] for one in manifest["held"]]
    held = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
    names = ", ".join(one["name"].split(": ")[1] for one in manifest["held"])
    return [
        "",
        f"Packages: {packages}.",
        "",
        f"Tokens of text to train on: {manifest['shapes']['train'][0] / 1e6:.1f}M ({trained}). Held-out documents: {len(kinds)} ({held}) of "
        f"{manifest['shapes']['held'][1]} tokens: {names}. Of their runs of 50 tokens {100 * max(shares):.2f} % at most, {100 * sum(shares) / len(shares):.3f} % "
        f"on average, are in the training text; {manifest['dropped']['files']} of {manifest['dropped']['of']} training files shared too much and were left out.",
    ]


def encodings(results: Results) -> list[str]:
    """What each encoding is set to, from the numbers that the code uses and the settings of the runs; and how much it learns, from the result files."""
    shape, plain = results.runs[0]["settings"]["shape"], _parameters_of(results, "none")
    words = set_to(shape)
    rows = []
    for label in in_order({run["encoding"] for run in results.runs}, RUNS):
        count = _parameters_of(results, label)
        whole = ABSENT if count is None else f"{count / 1e6:.2f}M"
        own = ABSENT if count is None or plain is None else f"{count - plain:,}"
        rows.append([label, whole, own, words[label]])
    head = ["", "parameters", "of them its own", "set to"]
    return [*table(head, rows)[1:], "", *_changed(results.runs[0]["settings"])]


def _parameters_of(results: Results, label: str) -> int | None:
    return next((int(run["parameters"]) for run in results.of(label) if run.get("parameters")), None)


def set_to(shape: dict[str, Any]) -> dict[str, str]:
    """In words, by label, for a model of some shape."""
    length, heads, head_dim = shape["length"], shape["heads"], shape["width"] // shape["heads"]
    angles = f"base 10000, all {head_dim} channels of a head, halves"
    most = min(presets.DEBERTA_BUCKETS, length // 2)
    clip = f"vectors of distances up to {presets.SHAW_CLIP}, the same beyond, for every layer"
    return {
        "none": "nothing",
        "sinusoidal": "base 10000, added to the tokens' rows",
        "learned": f"{length} rows, which begin as large as the tokens'",
        "rotary": angles,
        "rotary 500000": "base 500000, else as `rotary`",
        "rotary quarter": f"the first {head_dim // 4} channels of a head, else as `rotary`",
        "rotary 3 of 4": f"of {presets.LLAMA4_LAYERS} layers the last does not rotate, else as `rotary`",
        "rotary adjacent": "neighbouring channels instead of halves, weights in that order, too: a control",
        "rotary bf16 tables": "cosines, sines and products in bfloat16, else as `rotary`",
        "xpos": f"gamma {presets.XPOS_GAMMA}, a decay by zeta^(distance / {length}), else as `rotary`",
        "alibi": f"slopes 2^(-8/{heads}), 2^(-16/{heads}), ...",
        "t5": f"{min(presets.T5_BUCKETS, length)} buckets that end at distance {length}, a table for all layers",
        "kerple": "the logarithmic kernel, two numbers a head and layer, learned",
        "sandwich": "sinusoids of 64 pairs, the same in all layers",
        "fire": f"{presets.FIRE_HIDDEN} hidden units a layer, c from {presets.FIRE_C:g} on; the threshold stays at {length}, which the paper lets it learn",
        "shaw": clip + ", for keys",
        "shaw values": clip + ", for keys and for values",
        "transformer-xl": "sinusoids of distances, projected; u, v and the projection for every layer",
        "deberta": f"c2p and p2c, {most} buckets a side that end at distance {length}; rows and both projections for every layer",
        "cope": f"at most {presets.COPE_POSITIONS} positions, a table a layer",
    }


def _changed(given: dict[str, Any]) -> list[str]:
    """What is set of a changed model, in a few sentences."""
    length, changes = given["shape"]["length"], given["changes"]
    maps = f"Maps have a window of {length // 2}, half the trained length; dual chunk has chunks of {length - length // 4} tokens and {length // 4 - 1} local ones."
    scalings = (
        "Scalings are set for the length that is read: for m times that of training where it is m times as long. Dynamic NTK is the exception: by its own rule, whose factor is 2 here, it is set for 2m - 1 times "
        "(3 at 2x, 7 at 4x), so beside the other NTK kinds it is set for more. Leaky ReRoPE and Self-Extend squeeze far distances by 2m - 1, too; because that is a whole number at each of these lengths, both are nearly the same map."
    )
    searched = f" LongRoPE's factors are searched with {changes['evaluations']} evaluations a length, on {presets.SEARCHED_DOCUMENTS} documents at most that no test has." if "evaluations" in changes else ""
    tuned = f" A fine-tune is {changes['tune_steps']} steps at {changes['tune_factor']} times the length, as many tokens a step, at 1/{presets.TUNE_SLOWER} of the rate."
    return [f"{maps} {scalings}{searched}{tuned}"]


def paths(results: Results) -> list[str]:
    """Which kernels attention took in these trainings, in the library's words; of the last seed, whose commit is the latest."""
    found: dict[tuple[str, str], list[str]] = {}
    for encoding in in_order({run["encoding"] for run in results.runs}, RUNS):
        run = next((run for run in reversed(results.of(encoding)) if run["cost"].get("attention_path")), None)
        if run is not None:
            found.setdefault((" ".join(run["cost"]["attention_path"].split()), run["commit"][:12]), []).append(encoding)
    lines = [f"- {', '.join(names)} (commit `{commit}`): {words}" for (words, commit), names in found.items()]
    return ["What attention ran on in these trainings, as `phasor.explain_attention` says, of the last seed of each:", "", *lines] if lines else []


def commits(results: Results) -> list[str]:
    """Which runs are of which commit, and how many shared the GPU: what is too slow for a run alone need not be for one of several, whose caps are longer."""
    found: dict[tuple[str, int, float], list[Row]] = {}
    for run in results.runs:
        cap = run["settings"].get("caps", {}).get("measuring", 0.0)
        found.setdefault((run["commit"][:12], run.get("lanes", 1), cap), []).append(run)
    most = max(found.values(), key=len, default=[])
    rows = []
    for (commit, lanes, cap), runs in sorted(found.items(), key=lambda one: -len(one[1])):
        names = "all others" if runs is most and len(found) > 1 else "all" if runs is most else _with_seeds(runs)
        rows.append([f"`{commit}`", str(lanes), f"{cap:g} s", str(len(runs)), names])
    return table(["commit", "runs at once", "cap of a label at a length", "runs", "which (seeds)"], rows)[1:] if rows else NOTHING


def _with_seeds(runs: list[Row]) -> str:
    seeds = {name: sorted(run["seed"] for run in runs if run["encoding"] == name) for name in in_order({run["encoding"] for run in runs}, RUNS)}
    return ", ".join(f"{name} ({', '.join(map(str, own))})" for name, own in seeds.items())


def queue(every: dict[str, Results], seeds: dict[str, tuple[int, ...]]) -> list[str]:
    """Runs that are done and that are left, by preset."""
    rows, done, left = [], 0, 0
    for encoding in RUNS:
        cells = []
        for preset, wanted in seeds.items():
            runs = {run["seed"]: run for run in every[preset].of(encoding)} if preset in every else {}
            states = ["too slow" if seed in runs and runs[seed]["trained"] is None else "done" if seed in runs else "left" for seed in wanted]
            done, left = done + len(states) - states.count("left"), left + states.count("left")
            cells.append(", ".join(f"{seed} {state}" for seed, state in zip(wanted, states)))
        rows.append([encoding, *cells])
    slow = [f"- {run['encoding']}, seed {run['seed']}: {run['refused'][0]['message']}" for one in every.values() for run in one.runs if run["trained"] is None]
    return [f"{done} runs are done, {left} are left.", "", *table(["", *(f"{preset}, seeds" for preset in seeds)], rows), *([""] if slow else []), *slow]
