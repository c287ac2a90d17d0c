# SPDX-License-Identifier: Apache-2.0
"""What the pictures of the site share: axes, colours, and SVG that has the same bytes each time."""
import matplotlib
import matplotlib.pyplot as plt

matplotlib.rcParams.update({"svg.hashsalt": "phasor", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 9, "axes.spines.top": False,
                            "axes.spines.right": False})


def curves(ax, x_label, y_label):
    ax.set(xlabel=x_label, ylabel=y_label)
    ax.margins(x=0.01)
    if ax.get_legend_handles_labels()[1]:
        ax.legend(frameon=False)


def image(ax, values, x_label, y_label, bar=True):
    drawn = ax.imshow(values, aspect="auto" if values.shape[0] != values.shape[1] else "equal", cmap="viridis", interpolation="nearest")
    ax.set(xlabel=x_label, ylabel=y_label)
    if bar:
        ax.figure.colorbar(drawn, ax=ax)


def save(figure, path, facecolor="white"):
    figure.savefig(path, metadata={"Date": None, "Creator": None}, facecolor=facecolor)
    plt.close(figure)
