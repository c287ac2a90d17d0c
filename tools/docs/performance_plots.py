#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the plots of docs/performance.md: tools/docs/performance_plots.py FOLDER. A CPU's from docs/benchmarks (tools/docs/record_benchmarks.py writes it), the GPU's
from the tables of docs/design/cuda.md. Each for the light and the dark theme; hatches, markers and numbers say what colours say."""
import re
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import bench_table  # noqa: E402
import performance  # noqa: E402
from figures_style import save  # noqa: E402

BENCHMARKS = performance.ROOT / "docs" / "benchmarks"
# Ink of each theme, and three fills from strong to faint that differ in brightness, too.
THEMES = {"light": ("#14181e", ["#1f5f99", "#7fb0d8", "#dbe8f3"]), "dark": ("#e6e8ea", ["#9ecbf2", "#4f87b8", "#24405a"])}
HATCHES = ["", "///", "..."]
MARKERS = ["o", "s", "^", "D"]
LINES = ["-", "--", ":", "-."]
ROTATIONS = {
    "f32 half, in place": "f32_half_in_place",
    "f32 half, out of place": "f32_half_out",
    "f32 interleaved": "f32_interleaved_in_place",
    "bf16 half": "bf16_half_in_place",
    "f16 half": "f16_half_in_place",
    "float32 angles by libm": "libm_f32_half",
}
SCHEMES = {"ALiBi": "alibi", "T5": "t5", "Shaw": "shaw_kv_64", "Transformer-XL": "transformer_xl", "DeBERTa": "deberta_256"}


# ---- Numbers ----


def machines():
    """Folders of docs/benchmarks."""
    return sorted(path for path in BENCHMARKS.iterdir() if path.is_dir())


def rotation_shares(folder):
    """{place: [share of memcpy by kernel]}"""
    runs = bench_table.medians(folder / "bench_rotary_bench.json")[1]
    return {place: [runs[f"{kernel}/{place}"]["rate"] / runs[f"memcpy/{place}"]["rate"] for kernel in ROTATIONS.values()] for place in ("L2", "L3", "DRAM")}


def scheme_times(folder):
    """{direction: [time over plain by scheme]}"""
    runs = bench_table.medians(folder / "bench_attention_bench.json")[1]

    def speed(scheme, direction):
        return runs[f"attention/{direction}/{scheme}/f32/full/D64/n1024"]["items"]

    return {direction: [speed("plain", direction) / speed(scheme, direction) for scheme in SCHEMES.values()] for direction in ("forward", "backward")}


def first_number(cell):
    found = re.match(r"\d+(?:\.\d+)?", cell)
    return float(found[0]) if found else None


def gpu_rotation():
    """Tokens, and {what: microseconds}."""
    head, *rows = performance.table_after("cuda.md", "## Measured", ["", "1 token"])
    chosen = {"copy of bf16": "copy", "bf16 half in place": "bf16", "f32 half": "f32", "f64 half": "f64"}
    times = {chosen[row[0]]: [first_number(cell) for cell in row[1:]] for row in rows if row[0] in chosen}
    assert len(times) == len(chosen), f"docs/design/cuda.md no longer has the rows {list(chosen)}"
    return [int(first_number(cell)) for cell in head[1:]], times


def gpu_attention():
    """Shapes, and {what: TFLOP/s}."""
    head, cudnn, *rows = performance.table_after("cuda.md", "## Hopper", ["", "D128 full"])
    assert cudnn[0].startswith("cuDNN"), "docs/design/cuda.md no longer begins its table with cuDNN"
    speeds = {"cuDNN, plain": [first_number(cell) for cell in cudnn[1:]]}
    for row in rows:
        if row[0] in ("plain", "a bias on every tile"):
            speeds["Phasor, " + row[0]] = [first_number(cell) for cell in row[1:]]
    return head[1:], speeds


# ---- Pictures ----


def bars(ax, labels, groups, fills, number="{:.2f}"):
    """Horizontal bars, a group of them for each label, each with its number."""
    height = 0.8 / len(groups)
    for i, (name, values) in enumerate(groups.items()):
        places = [row + (i - (len(groups) - 1) / 2) * height for row in range(len(labels))]
        drawn = ax.barh(places, values, height * 0.92, label=name, color=fills[i], hatch=HATCHES[i], edgecolor=ax.spines["left"].get_edgecolor(), linewidth=0.6)
        ax.bar_label(drawn, [number.format(value) for value in values], padding=3, fontsize=8)
    ax.set_yticks(range(len(labels)), labels)
    ax.invert_yaxis()
    ax.set_xlim(0, 1.12 * max(value for values in groups.values() for value in values))
    ax.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=len(groups))


def rotation(ax, ink, fills, folder):
    bars(ax, list(ROTATIONS), rotation_shares(folder), fills)
    ax.axvline(1, color=ink, linewidth=0.8, linestyle=":", zorder=0)
    ax.set_xlabel("speed over memcpy's of the same bytes, by where the tensor lies")


def schemes(ax, ink, fills, folder):
    bars(ax, list(SCHEMES), scheme_times(folder), fills)
    ax.axvline(1, color=ink, linewidth=0.8, linestyle=":", zorder=0)
    ax.set_xlabel("time over plain attention's; f32, 64 channels, 1024 tokens")


def rotation_on_gpu(ax, ink, fills):
    tokens, times = gpu_rotation()
    for i, (name, values) in enumerate(times.items()):
        ax.plot(tokens, values, color=ink, marker=MARKERS[i], linestyle=LINES[i], linewidth=1.2, markersize=5, markerfacecolor=fills[i % len(fills)], label=name)
    ax.set(xscale="log", yscale="log", xlabel="tokens", ylabel="microseconds")
    ax.set_xticks(tokens, [f"{count:,}" for count in tokens])
    ax.set_yticks([1, 10, 100, 1000], ["1", "10", "100", "1,000"])
    ax.minorticks_off()
    ax.legend(frameon=False)


def attention_on_gpu(ax, ink, fills):
    shapes, speeds = gpu_attention()
    bars(ax, shapes, speeds, fills, "{:.0f}")
    ax.set_xlabel("TFLOP/s forward, B 4, H 32, n 4096, bf16; D: channels of a head")


def plots():
    """{name: function of axes, ink and fills}"""
    made = {"gpu-rotation": rotation_on_gpu, "gpu-attention": attention_on_gpu}
    for folder in machines():
        made[f"{folder.name}-rotation"] = lambda ax, ink, fills, folder=folder: rotation(ax, ink, fills, folder)
        made[f"{folder.name}-attention"] = lambda ax, ink, fills, folder=folder: schemes(ax, ink, fills, folder)
    return made


def colours_of(ink):
    return {"text.color": ink, "axes.edgecolor": ink, "axes.labelcolor": ink, "axes.facecolor": "none", "xtick.color": ink, "ytick.color": ink, "hatch.color": ink, "hatch.linewidth": 0.6}


def draw(function, theme, path):
    ink, fills = THEMES[theme]
    with matplotlib.rc_context(colours_of(ink)):
        figure, ax = plt.subplots(figsize=(7.0, 3.8), layout="constrained")
        function(ax, ink, fills)
        save(figure, path, facecolor="none")


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    drawn = plots()
    for name, function in drawn.items():
        for theme in THEMES:
            draw(function, theme, folder / f"{name}-{theme}.svg")
    print(f"docs: {len(drawn)} plots of performance in {folder}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
