# SPDX-License-Identifier: Apache-2.0
"""Pictures: the data on the axes is what the library computes, and every picture renders."""

import io
import subprocess
import sys

import matplotlib

matplotlib.use("Agg")

import numpy as np
import phasor
import pytest
from matplotlib import pyplot
from phasor import analysis, plot

ROPE = phasor.Rotary(head_dim=16, base=500.0)


@pytest.fixture(autouse=True)
def closed():
    yield
    pyplot.close("all")


def rendered(axes):
    """The picture is drawn without complaint, and is not blank."""
    figure = np.atleast_1d(axes)[0].figure
    buffer = io.BytesIO()
    figure.savefig(buffer, format="raw", dpi=50)
    return len(set(buffer.getvalue())) > 20


def test_decay_shows_s_of_each_encoding():
    other = phasor.Rotary(head_dim=16, base=500.0, scaling=phasor.LinearScaling(factor=4.0))
    ax = plot.decay([ROPE, other.spec], range(0, 60, 3))
    assert [line.get_label() for line in ax.lines] == ["base 500, unscaled", "base 500, linear, factor 4"]
    for line, rotary in zip(ax.lines, (ROPE, other)):
        assert line.get_xdata().tolist() == list(range(0, 60, 3)) and (line.get_ydata() == analysis.decay(rotary, range(0, 60, 3))).all()
    assert "distance" in ax.get_xlabel() and rendered(ax)


def test_curves_may_be_named_and_share_axes():
    figure, ax = pyplot.subplots()
    assert plot.decay({"mine": ROPE}, [1, 10, 100], log=True, ax=ax) is ax
    assert ax.lines[0].get_label() == "mine" and ax.get_xscale() == "log" and len(figure.axes) == 1
    labels = [line.get_label() for line in plot.decay([ROPE, ROPE], [1, 2]).lines]
    assert len(set(labels)) == 2


def test_similarity_shows_every_position_with_every_other():
    at = [0, 5, 6, 40]
    ax = plot.similarity(ROPE, at)
    assert (ax.images[0].get_array() == analysis.similarity(ROPE, positions=at)).all()
    assert [label.get_text() for label in ax.get_xticklabels()] == ["0", "5", "6", "40"] and rendered(ax)


def test_sinusoid_shows_the_values_of_either_kind():
    encoding = phasor.Sinusoidal(10)
    ax = plot.sinusoid(encoding, range(30))
    assert (ax.images[0].get_array() == encoding(np.arange(30), np.float64)).all() and rendered(ax)
    cos, sin = ROPE.cos_sin(np.arange(7), np.float64)
    values = plot.sinusoid(ROPE, range(7)).images[0].get_array()
    assert (values[:, ::2] == sin).all() and (values[:, 1::2] == cos).all()


def test_clocks_have_a_hand_for_each_position():
    panels = plot.clocks(ROPE, [0, 3, 50], pairs=[1, 7])
    cos, sin = ROPE.cos_sin([0, 3, 50], np.float64)
    for ax, pair in zip(panels, (1, 7)):
        hands = ax.collections[0]
        assert (hands.U == cos[:, pair]).all() and (hands.V == sin[:, pair]).all() and ax.get_title().startswith(f"pair {pair}: a turn in ")
    assert [text.get_text() for text in panels[0].figure.legends[0].get_texts()] == ["position 0", "position 3", "position 50"]
    assert rendered(panels) and len(plot.clocks(phasor.Rotary(head_dim=128))) == 6


def test_scaling_shows_the_ratio_of_each_pair():
    ax = plot.scaling(ROPE, 256, 1024)
    plans = [plan for plan in analysis.plan_scalings(ROPE, 256, 1024) if not plan.error]
    assert len(ax.lines) == len(plans) > 3
    for line, plan in zip(ax.lines, plans):
        assert list(line.get_ydata()) == [pair.ratio for pair in plan.pairs] and line.get_label().startswith(plan.name)
    assert ax.get_title() == "Scalings from 256 to 1024 positions" and rendered(ax)
    assert len(plot.scaling(ROPE, scalings=[phasor.LinearScaling(factor=8.0)]).lines) == 2


def test_error_shows_each_profile_on_log_axes():
    at = [1, 100, 10**6]
    ax = plot.error(ROPE, at)
    for line, field in zip(ax.lines, ("exact", "hf", "vllm", "ggml"), strict=True):
        assert list(line.get_xdata()) == at and list(line.get_ydata()) == [getattr(one, field) for one in analysis.profile_errors(ROPE, at)]
    assert ax.get_xscale() == ax.get_yscale() == "log" and rendered(ax)
    mixed = phasor.RotarySpec(head_dim=8, scaling=phasor.NtkMixedScaling(factor=2.0))
    assert np.isnan(plot.error(mixed, [10]).lines[1].get_ydata()).all()


def test_bias_shows_each_head_in_one_scale():
    panels = plot.bias(phasor.Alibi(heads=4), 9, heads=[0, 3])
    values = phasor.Bias(phasor.Alibi(heads=4))(np.arange(9), np.arange(9), np.float64)
    for ax, head in zip(panels, (0, 3)):
        assert (ax.images[0].get_array() == values[head]).all() and ax.images[0].get_clim() == (values.min(), values.max())
    assert rendered(panels) and len(plot.bias()) == 6 and len(plot.bias(phasor.Sandwich(heads=2))) == 2


def test_an_empty_table_shows_its_rows():
    (ax,) = plot.bias(phasor.T5Buckets(heads=2), 40, heads=[1])
    distances = np.subtract.outer(np.arange(40), np.arange(40))
    assert (ax.images[0].get_array() == phasor.t5_buckets(distances)).all() and "Table rows" in ax.figure.get_suptitle()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: plot.clocks(ROPE, range(8)), ValueError, "wanted 1 to 7"),
        (lambda: plot.clocks(ROPE, [1], pairs=[8]), ValueError, "from 0 to 7"),
        (lambda: plot.bias(phasor.Alibi(heads=2), heads=[2]), ValueError, "from 0 to 1"),
        (lambda: plot.decay(ROPE, [0.5]), TypeError, "integers"),
        (lambda: plot.scaling(ROPE, 0), ValueError, "trained_length"),
        (lambda: plot.similarity("nowhere"), FileNotFoundError, "nowhere"),
    ],
)
def test_what_does_not_fit_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_without_matplotlib_only_drawing_fails():
    program = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import phasor\n"
        "try: phasor.plot.decay(phasor.Rotary(head_dim=4))\n"
        "except ImportError as error: print(error)\n"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "phasor.plot: needs matplotlib, wanted: pip install matplotlib"
