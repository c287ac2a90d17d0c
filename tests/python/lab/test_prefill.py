# SPDX-License-Identifier: Apache-2.0
"""The price of what is changed at evaluation: each way of reading is what its label says, and is measured beside rotary."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import phasor

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from lab import prefill, prices  # noqa: E402
from lab.__main__ import main  # noqa: E402
from lab.encodings.changed import MAPS  # noqa: E402
from lab.presets import QUICK, SMALL  # noqa: E402
from lab.report import labels  # noqa: E402
from lab.report import prices as shown  # noqa: E402

CPU = torch.device("cpu")


def test_reading_is_measured_beside_rotary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    threads = torch.get_num_threads()
    try:
        assert main(["cost", "--changes", "--preset", "quick", "--rounds", "2", "--machine", "a machine", "--out", str(tmp_path / "cpu_prefill.json")]) == 0
    finally:
        torch.set_num_threads(threads)
        phasor.set_num_threads(0)
    found = json.loads((tmp_path / "cpu_prefill.json").read_text())
    assert set(found["rounds"]) == set(prefill.LABELS) and all(len(one) == 2 and min(one) > 0 for one in found["rounds"].values())
    told = capsys.readouterr()
    assert "8 ways of reading" in told.out and "100%" in told.err
    lines = shown.changes(tmp_path)
    assert any("CPU, 64 tokens" in line for line in lines) and any(line.startswith("| rotary, dual chunk ") and "; " in line for line in lines)


@pytest.mark.parametrize("label", prefill.LABELS)
def test_a_way_of_reading_attends_as_often_as_its_passes(label: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    real = phasor.attention
    monkeypatch.setattr(phasor, "attention", lambda *given, **named: calls.append(named) or real(*given, **named))
    rate = prefill.tokens_per_second(label, QUICK, prefill.Settings(1, 4, 1), CPU)
    passes = 2 if label in ("rotary, rerope", "rotary, leaky rerope", "rotary, self-extend") else 1
    reads = (prefill.BEFORE + 1) * QUICK.shape.layers
    assert rate > 0 and (len(calls) > 3 * reads if label == "rotary, dual chunk" else len(calls) == passes * reads)


def test_each_way_of_reading_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """But rotary once more, and a map whose squeeze is a whole number, which is the same by two names."""
    tokens = torch.randint(prices.VOCABULARY, (1, QUICK.length(4)), generator=torch.Generator().manual_seed(0))
    hidden = {}
    for label in prefill.LABELS:
        model, encoding = prefill.made(label, QUICK, 4)
        with torch.no_grad():
            hidden[label] = model(tokens, encoding)[:, -1]
    assert torch.equal(hidden["rotary"], hidden[prices.AGAIN])
    others = [label for label in prefill.LABELS if label not in (prices.AGAIN, "rotary, self-extend")]
    assert all(not torch.allclose(hidden[one], hidden[other], atol=1e-5) for i, one in enumerate(others) for other in others[:i])


def test_labels_are_those_of_the_report_and_some_can_be_chosen() -> None:
    assert set(prefill.LABELS) - {prices.AGAIN} <= {*labels.TRAINED, *labels.CHANGED} and all(f"rotary, {how}" in prefill.LABELS for how in MAPS)
    assert prefill.named(["dual-chunk"]) == ["rotary", "rotary, dual chunk", prices.AGAIN]
    with pytest.raises(ValueError, match="'ntk' is no way of reading, wanted some of: rotary, yarn, rerope,"):
        prefill.named(["ntk"])
    assert prefill.settings_for(SMALL, CPU).multiple == 8 and prefill.settings_for(SMALL, torch.device("cuda"), 1) == prefill.Settings(1, 64, 4)
