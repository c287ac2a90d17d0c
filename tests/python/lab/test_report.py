# SPDX-License-Identifier: Apache-2.0
"""The report: its numbers are those of the result files, what is not there is said, and making it again changes nothing."""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
sys.path.insert(0, str(Path(__file__).resolve().parent))
import made_up  # noqa: E402

from lab.report import build, choose, page, papers, prices, sections, state, summary  # noqa: E402
from lab.report.labels import RUNS  # noqa: E402
from lab.report.results import Results, read_all  # noqa: E402
from lab.report.statistics import T95, Value, value_of  # noqa: E402

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = made_up.write(tmp_path_factory.mktemp("results"))
    made_up.prices(made)
    made_up.prefill(made, "CPU")
    for preset in ("medium", "small1024"):  # whose sections the page has, too
        made_up.write(made, (0,), ("rotary", "kerple"), preset)
    return made_up.write(made, preset="second")


@pytest.fixture(scope="module")
def results(folder: Path) -> Results:
    return read_all(folder)["small"]


def cells(lines: list[str], label: str) -> list[str]:
    """Of the row of a label in the first table that has it."""
    return next([cell.strip() for cell in line.split("|")[2:-1]] for line in lines if line.startswith(f"| {label} "))


def test_the_page_in_the_repository_is_what_its_results_give(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "lab.md").read_text(encoding="utf-8")
    (tmp_path / "lab.md").write_text(text, encoding="utf-8")
    build.make(ROOT / "lab" / "results", tmp_path, draw=False)
    assert (tmp_path / "lab.md").read_text(encoding="utf-8") == text
    assert (tmp_path / "lab" / "summary.json").read_text() == (ROOT / "docs" / "lab" / "summary.json").read_text()
    drawn = re.findall(r"\((lab/[a-z/]+-(?:light|dark)\.svg)\)", text)
    assert drawn and all((ROOT / "docs" / one).is_file() for one in drawn)


def test_all_of_it_from_made_up_results_and_again(folder: Path, tmp_path: Path) -> None:
    build.main(["--results", str(folder), "--out", str(tmp_path), "--no-plots"])
    first = (tmp_path / "lab.md").read_text(encoding="utf-8")
    assert "Nothing measured yet" not in first and "2.510" in first
    build.main(["--results", str(folder), "--out", str(tmp_path), "--no-plots"])
    assert (tmp_path / "lab.md").read_text(encoding="utf-8") == first


def test_no_results_are_no_numbers(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    build.main(["--results", str(tmp_path / "none"), "--out", str(tmp_path)])
    text = (tmp_path / "lab.md").read_text(encoding="utf-8")
    assert text.count("Nothing measured yet.") >= 10 and "0 runs are done" in text and papers.MISSING in text and papers.HOLDS + " |" not in text


def test_means_and_intervals_by_hand(results: Results) -> None:
    losses = [made_up.loss("alibi", 8, seed) for seed in (0, 1, 2)]
    mean = sum(losses) / 3
    half = 4.303 * math.sqrt(sum((one - mean) ** 2 for one in losses) / 2) / math.sqrt(3)
    assert cells(sections.last(results), "alibi")[5] == f"{mean:.3f} ± {half:.3f}"
    assert cells(sections.whole(results), "alibi")[5] == f"{mean + 0.1:.3f} ± {half:.3f}"


def test_student_s_t_is_that_of_its_distribution() -> None:
    """Half of the last digit less and the middle holds less than 95 %, half of it more and it holds more: by adding the density up."""

    def middle(freedom: int, limit: float, steps: int = 5000) -> float:
        scale = math.gamma((freedom + 1) / 2) / (math.sqrt(freedom * math.pi) * math.gamma(freedom / 2))
        return 2 * scale * sum((1 + (limit * (i + 0.5) / steps) ** 2 / freedom) ** (-(freedom + 1) / 2) for i in range(steps)) * limit / steps

    for freedom, limit in enumerate(T95, start=1):
        assert middle(freedom, limit - 0.00051) < 0.95 < middle(freedom, limit + 0.00051)


def test_one_seed_has_no_interval_and_says_so(tmp_path: Path) -> None:
    one = read_all(made_up.write(tmp_path, seeds=(1,)))["small"]
    lines = sections.last(one)
    assert "one seed, so no interval is known" in lines[0]
    assert cells(lines, "alibi")[5] == f"{made_up.loss('alibi', 8, 1):.3f}" and "±" not in "".join(lines)
    assert value_of([2.0]) == Value(2.0, None, 1)
    assert [Value(one, None, 1).written(3, True) for one in (0.1, -0.1, -0.0001)] == ["+0.100", "-0.100", "0.000"]


def test_a_part_of_the_runs_is_a_part_of_the_tables(tmp_path: Path) -> None:
    made_up.write(tmp_path, (0, 1), ("rotary",))
    every = read_all(made_up.write(tmp_path, (0,), ("alibi",)))
    lines = sections.last(every["small"])
    assert "means of 1 to 2 seeds, too few for an interval" in lines[0] and "±" not in lines[0]
    assert not any(line.startswith("| t5 ") for line in lines)
    for make in build.made_sections(every, "small").values():
        make()
    queue = state.queue(every, {"small": (0, 1, 2)})
    assert "3 runs are done, 57 are left." in queue and cells(queue, "rotary") == ["0 done, 1 done, 2 left"]


def test_what_is_refused_is_said_in_the_library_s_words(results: Results) -> None:
    lines = sections.last(results)
    assert cells(lines, "learned")[1:4] == [f"{3.01:.3f} ± 0.025", "refused", "refused"]
    assert "- learned at 1.5x, 2x, 4x, 8x, 16x, 32x, 64x: lookup_add: the table has 512 rows" in lines
    answered = cells(sections.answers(results), "learned")
    assert answered[1:] == ["refused", "refused"] and answered[0].isdigit()


def test_a_number_of_fewer_seeds_is_marked_and_says_why(tmp_path: Path) -> None:
    made_up.write(tmp_path, (0, 1, 2), ("rotary", "alibi", "cope"))
    for seed in (1, 2):
        path = tmp_path / "small" / f"cope-{seed}.json"
        run = json.loads(path.read_text())
        run["measured"] = [row for row in run["measured"] if row["multiple"] < 64]
        run["language"] = [row for row in run["language"] if seed == 1 or row["multiple"] < 64]
        run["retrieval"] = [row for row in run["retrieval"] if row["task"] != "copying" or row["length"] < 8192]
        run["refused"] = [{"label": "cope", "length": 32768, "message": f"time: {seed} s"}, {"label": "cope", "length": 8192, "message": "time: retrieval"}]
        path.write_text(json.dumps(run))
    results = read_all(tmp_path)["small"]
    lines = sections.last(results)
    assert "; [1]: of so many seeds alone." in lines[0] and cells(lines, "cope")[-1] == f"{made_up.loss('cope', 64, 0):.3f} [1]"
    assert "- cope at 64x (seeds 1 and 2): time: 1 s" in lines and not any("retrieval" in line for line in lines)
    assert cells(sections.positions(results), "cope")[0].endswith(" [1]") and "[" not in cells(sections.positions(results), "alibi")[0]
    assert "; [2]: of so many seeds alone." in sections.language(results)[0]
    asked = sections.retrieval(results)
    copying = asked[asked.index("**copying**, % of answers that are right in all tokens, by length: distance.") :]
    assert cells(copying, "cope")[-1] == "0 [1]" and f"- cope at 16x: 819, 7373: seed 0 ({100 * (1 - made_up.SLOPE['cope']):.0f} % right at 1x)" in copying
    assert cells(sections.answers(results), "cope")[-1] == "0 [1]"


def test_slow_and_infinite_ones_are_told_apart(tmp_path: Path) -> None:
    run = made_up.result("cope", 0)
    for row in run["measured"]:
        row["last"] = None if row["multiple"] == 8 else row["last"]
        row["documents"] = 2 if row["multiple"] == 4 else 8
    run["measured"] = [row for row in run["measured"] if row["multiple"] < 16]
    run["refused"] = [{"label": "cope", "length": 8192, "message": "time: a document of 8192 tokens would take about 9 s"}]
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "cope-0.json").write_text(json.dumps(run))
    made_up.write(tmp_path, (0,), ("rotary",))
    found = cells(sections.last(read_all(tmp_path)["small"]), "cope")
    assert found[4].endswith("†") and found[5:] == ["not finite", "too slow", "–", "–"]


def test_a_run_that_was_too_slow_to_train_is_in_the_queue(tmp_path: Path) -> None:
    run = made_up.result("cope", 0) | {"trained": None, "measured": [], "language": [], "retrieval": [], "cost": {}}
    run["refused"] = [{"label": "cope", "length": 512, "message": "training would take 300 s"}]
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "cope-0.json").write_text(json.dumps(run))
    every = read_all(made_up.write(tmp_path, (0,), ("rotary",)))
    assert cells(state.queue(every, {"small": (0,)}), "cope") == ["0 too slow"]
    for make in build.made_sections(every, "small").values():
        make()


def test_other_data_are_not_averaged(tmp_path: Path) -> None:
    made_up.write(tmp_path, (0, 1), ("rotary",))
    (tmp_path / "small" / "rotary-2.json").write_text(json.dumps(made_up.result("rotary", 2, data="e" * 64)))
    found = read_all(tmp_path)["small"]
    assert len(found.runs) == 2 and found.others == 1
    assert cells(state.setup(found), "not shown") == ["1 runs with other settings or other data"]


def test_presets_stand_side_by_side_in_the_setup(tmp_path: Path) -> None:
    every = read_all(made_up.write(tmp_path, (0,), ("rotary",)))
    found = every["small"]
    assert cells(state.setup(found, found), "seeds") == ["0", "0"]
    assert cells(state.setup(found), "rate")[0].startswith("0.001, up over 150 steps, then along a cosine to 0.1 of it; 10 times that")
    assert build.made_sections(every, "small")["setup"]() == state.setup(found)  # nothing of the others is there


def test_answers_are_means_over_tasks(tmp_path: Path) -> None:
    found = read_all(made_up.write(tmp_path, (0,), ("rotary",)))["small"]
    lengths = found.seen("retrieval", "length")
    wanted = [f"{100 * sections.found_answers(found, 'rotary', length)[0]:.0f}" for length in lengths]
    assert cells(sections.answers(found), "rotary") == wanted


def test_files_that_are_no_results_are_errors(tmp_path: Path) -> None:
    (tmp_path / "small").mkdir()
    bad = tmp_path / "small" / "x.json"
    for text, message in (("{", "is no JSON"), ('{"schema": 2}', "schema 2, wanted 1"), ('{"schema": 1, "preset": "small"}', "has no encoding, seed")):
        bad.write_text(text)
        with pytest.raises(ValueError, match=message):
            read_all(tmp_path)


def test_numerics_are_differences_seed_by_seed(results: Results) -> None:
    lines = sections.numerics(results)
    assert cells(lines, "rotary, hf bf16 tables") == ["0", "+0.0020 ± 0.0000; 50 %", "+0.0020 ± 0.0000; 50 %"]
    trained = cells(sections.trained_numerics(results), "rotary adjacent less rotary")
    wanted = made_up.loss("rotary adjacent", 64, 0) - made_up.loss("rotary", 64, 0)
    assert trained[-1] == f"{wanted:+.3f} ± 0.000" and trained[0] == "0.000 ± 0.000"  # in training all of these are alike
    both = [100 * max(0.0, 1 - 4 * made_up.SLOPE[label]) for label in ("rotary bf16 tables", "rotary")]
    lines = sections.trained_numerics(results)
    answers = cells(lines[lines.index("Right answers over all tasks, in percent:") :], "rotary bf16 tables less rotary")
    assert answers[1] == f"{both[0] - both[1]:+.0f} ± 0" and len(answers) == 3


def test_prices_are_beside_rotary_of_the_same_round(folder: Path, tmp_path: Path) -> None:
    lines = prices.lines(prices.read(folder, "CPU"))
    share = 1 / (1 + made_up.SLOPE["alibi"])
    assert cells(lines, "alibi")[:2] == [f"{90 * share:.1f} ({share:.2f}; {share:.2f} to {share:.2f})", f"{50 * share:.1f} ({share:.2f}; {share:.2f} to {share:.2f})"]
    assert cells(lines, "rotary")[0] == "90.0 (1.00; 1.00 to 1.00)" and cells(lines, "rotary again")[0] == "88.2 (0.98; 0.98 to 0.98)"
    assert cells(lines, "learned")[2] == "–" and "- learned, 8192 keys: too far" in lines and "2 threads on 2 cores that are made up" in lines[0]
    assert prices.lines(prices.read(tmp_path, "CPU")) == ["Nothing measured yet."]
    (tmp_path / "cpu.json").write_text('{"schema": 2}')
    with pytest.raises(ValueError, match="schema 2 of kind None, wanted 1"):
        prices.read(tmp_path, "CPU")


def test_launched_steps_are_not_compared_with_replayed_ones(folder: Path) -> None:
    lines = prices.lines(prices.read(folder, "GPU"))
    assert "on a GPU that is made up" in lines[0] and "training, 16 x" in lines[3] and "decoding, 8 x 512 keys" in lines[3]
    assert cells(lines, "rotary")[:4] == ["90.0 (1.00; 1.00 to 1.00)", "3.00", "50.0 (1.00; 1.00 to 1.00)", "0.50"]
    assert "training, GiB" in lines[3] and "512 keys, GiB" in lines[3] and "8192 keys, GiB" not in lines[3]
    assert "GiB: what was taken" in lines[0] and "not measured" not in lines[0] and "Memory was not measured." in prices.lines(prices.read(folder, "CPU"))[0]
    share = 1 / (1 + made_up.SLOPE["cope"])
    assert cells(lines, "cope")[0] == f"{90 * share:.1f} ‡" and cells(lines, "cope")[2].endswith(")")  # its decoding is replayed
    assert "- cope, training: RuntimeError: it waits" in lines


def test_retrieval_has_a_table_a_task(results: Results) -> None:
    lines = sections.retrieval(results)
    assert sum(line.startswith("**") for line in lines) == 5
    assert cells(lines, "none") == ["98", "98", "92", "92", "68", "68"]
    assert "means of 3 seeds, in brackets the least and the most of a seed" in lines[0]
    assert [value_of(some).percent() for some in ([1.0, 0.0, 0.95], [0.5], [0.501, 0.502])] == ["65 (0–100)", "50", "50"]


def test_verdicts_are_computed(results: Results) -> None:
    assert papers.verdict(Value(0.2, None, 1)) == papers.verdict(Value(0.2, 0.1, 3)) == papers.HOLDS
    assert papers.verdict(Value(0.2, 0.3, 3)) == papers.verdict(Value(0.005, None, 1)) == papers.SAME
    assert papers.verdict(Value(-0.2, 0.1, 3)) == papers.FAILS
    value = papers.above("alibi", "rotary", 8).difference(results)
    assert value is not None and value.mean == pytest.approx(made_up.loss("alibi", 8, 0) - made_up.loss("rotary", 8, 0))
    assert papers.together([papers.HOLDS, papers.FAILS]) == "holds in part" and papers.together([papers.MISSING] * 2) == papers.MISSING
    assert papers.together([papers.HOLDS, papers.MISSING]) == "holds (in part not measured yet)"
    assert papers.judged(papers.stays("alibi", 8), Value(0.0, None, 1)) == papers.HOLDS
    assert papers.judged(papers.above("alibi", "rotary", 8), Value(0.0, None, 1)) == papers.SAME


def test_the_best_of_each_need_is_found(results: Results) -> None:
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in choose.lines(results) if line.startswith("| ")]
    by_need = {row[0]: row[1:] for row in rows}
    assert by_need["to train, and to read at 4x as it is"] == [f"`none` ({made_up.loss('none', 4, 1):.3f} ± 0.025)", "nobody"]
    best, near = by_need["to train, and to read at the same length"]
    assert best.startswith("`none` (3.010") and near.endswith("and 12 more")  # 21 labels but two controls; all are alike there
    assert by_need["a rotary model that is there, read at 16x"][0].startswith("`rotary` (")
    assert by_need["to train, and to find what was said far back, at 4x"][0] == "`none` (92 % of the answers)"
    assert choose.row(results, "", ["none"], choose.LOSS, lambda _: {0: 1.0})[1] == "`none` (1.000, one seed)"


def test_who_fails_with_a_seed_is_not_near(results: Results) -> None:
    def row(kind: choose.Kind, **numbers: dict[int, float]) -> list[str]:
        return choose.row(results, "need", list(numbers), kind, numbers.__getitem__)[1:]

    lucky = {"t5": {0: 0.77, 1: 0.76, 2: 0.73}, "kerple": {0: 0.7, 1: 0.62, 2: 0.8}, "deberta": {0: 0.03, 1: 0.03, 2: 0.95}, "fire": {0: 0.76, 1: 0.75}}
    assert row(choose.ANSWERS, **lucky) == ["`fire` (76 % of the answers, 75 to 76 [2])", "`t5`, `kerple`"]
    del lucky["fire"]
    assert row(choose.ANSWERS, **lucky) == ["`t5` (75 % of the answers, 73 to 77)", "`kerple`"]
    scattered = {"t5": {0: 3.0, 1: 3.0, 2: 3.0}, "cope": {0: 3.02, 1: 3.03, 2: 3.4}, "fire": {0: 3.2, 1: 3.2, 2: 3.2}, "shaw": {0: 2.9, 1: 3.2, 2: 3.0}}
    assert row(choose.LOSS, **scattered) == ["`t5` (3.000 ± 0.000)", "`shaw`, `cope` (behind with every seed)"]


def test_the_summary_has_what_the_tables_have(results: Results) -> None:
    found = summary.summary(results)
    at = found["text"]["multiples"].index(8)
    assert found["text"]["labels"]["alibi"]["loss"][at] == round(made_up.loss("alibi", 8, 1), 4)
    assert found["text"]["labels"]["rotary, yarn"]["loss"][1] == found["text"]["labels"]["rotary"]["loss"][1]
    assert found["text"]["labels"]["learned"]["loss"][at] is None
    assert set(found["floor"]) == {1.7} and found["over"]["labels"]["none"]["all"] == 0.16


def test_markers_that_do_not_fit_are_errors() -> None:
    made = {"one": lambda: ["1"], "two": lambda: ["2"]}
    begin = "<!-- made by python -m lab report: {} -->"
    whole = f"a\n{begin.format('one')}\nold\n<!-- end -->\nb\n{begin.format('two')}\n<!-- end -->\n"
    assert page.filled(whole, made) == f"a\n{begin.format('one')}\n\n1\n\n<!-- end -->\nb\n{begin.format('two')}\n\n2\n\n<!-- end -->\n"
    assert page.filled(page.filled(whole, made), made) == page.filled(whole, made)
    with pytest.raises(ValueError, match="no marker '<!-- made by python -m lab report: three -->'"):
        page.filled(whole, made | {"three": lambda: []})
    with pytest.raises(ValueError, match="the section 'two' stands there 1 times, wanted once each of one"):
        page.filled(whole, {"one": made["one"]})
    with pytest.raises(ValueError, match="the section 'one' has no <!-- end --> of its own"):
        page.filled(whole.replace("old\n<!-- end -->\n", ""), made)


def test_labels_are_those_of_the_queue() -> None:
    from lab.encodings import TRAINED
    from lab.encodings.changed import LONGROPE, MAPS, SCALINGS
    from lab.presets import PRESETS
    from lab.data.tasks import CHANCE
    from lab.report import labels

    assert set(RUNS) == set(TRAINED) == set(state.set_to(made_up.result("none", 0)["settings"]["shape"]))
    assert set(labels.SCALINGS) == {*SCALINGS, LONGROPE} and set(labels.MAPS) == set(MAPS)
    assert labels.GUESSED == pytest.approx(sum(CHANCE.values()) / len(CHANCE), abs=0.005)
    for name, seeds in build.SEEDS.items():
        assert PRESETS[name].seeds == seeds


def test_shares_of_answers_are_compared_where_somebody_answers(tmp_path: Path) -> None:
    folder = made_up.write(tmp_path, (0,), ("none", "alibi"))
    results = read_all(folder)["small"]
    assert papers.found_answers(results, "alibi", results.length)
    for run in results.runs:
        for row in run["retrieval"]:
            row["accuracy"] = 0.02
    assert papers.found_answers(results, "alibi", results.length) == {}
    assert not any("to find what was said" in line for line in choose.lines(results))


def test_caps_do_not_part_runs_and_folders_do(tmp_path: Path) -> None:
    made_up.write(tmp_path, (0,), ("none", "alibi"))
    path = tmp_path / "small" / "alibi-0.json"
    run = json.loads(path.read_text())
    run["settings"]["caps"] = {"training": 1.0}
    path.write_text(json.dumps(run))
    (tmp_path / "first").mkdir()
    run["settings"]["steps"] = 7
    (tmp_path / "first" / "alibi-0.json").write_text(json.dumps(run))
    every = read_all(tmp_path)
    assert {name: (len(one.runs), one.others) for name, one in every.items()} == {"small": (2, 0), "first": (1, 0)}


def test_what_encodings_are_set_to_is_what_they_are_made_with() -> None:
    from lab.encodings import TRAINED
    from lab.encodings.changed import MAPS
    from lab.presets import SMALL

    run = made_up.result("none", 0)
    words = state.set_to(run["settings"]["shape"])
    made = {label: TRAINED[label](SMALL.shape) for label in TRAINED}
    assert f"{made['t5'].table.shape[1]} buckets that end at distance {made['t5'].max_distance}" in words["t5"]
    deberta = made["deberta"].layers[0]
    assert f"{deberta.buckets} buckets a side that end at distance {deberta.max_distance}" in words["deberta"]
    assert f"distances up to {made['shaw'].clip}," in words["shaw"] and f"at most {made['cope'].table.shape[1]} positions" in words["cope"]
    fire = made["fire"].layers[0]
    assert f"{fire.hidden.out_features} hidden units" in words["fire"] and f"stays at {fire.length}" in words["fire"] and f"c from {fire.c.item():.1f} on" in words["fire"]
    assert f"{made['learned'].module.weight.shape[0]} rows" in words["learned"] and f"distance / {made['xpos'].base:g}" in words["xpos"]
    assert f"{made['sandwich'].spec.width // 2} pairs" in words["sandwich"] and f"of {made['rotary 3 of 4'].one_in} layers" in words["rotary 3 of 4"]
    said = state.encodings(Results("small", [run]))[-1]
    chunks = MAPS["dual chunk"](4, SMALL.shape)
    assert f"window of {MAPS['rerope'](4, SMALL.shape).window}, half" in said
    assert f"chunks of {chunks.chunk - chunks.local} tokens and {chunks.local} local ones" in said
