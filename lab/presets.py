# SPDX-License-Identifier: Apache-2.0
"""Sizes of models and runs: `small`, `small1024` and `medium` for a GPU, `quick` for a CPU in a minute. A result is stored with all of these numbers;
where one of them changes, results of before move to a folder of their own (lab/results/README.md). And numbers that are choices of ours and the same in
every run: for what computes with them, and for the page, which shows them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

# Training (lab.training.step).
BETAS = (0.9, 0.95)  # of AdamW
LEAST_RATE = 0.1  # of the highest, at the end
MOST_NORM = 1.0  # of all gradients together
# Biases are added to scores, which go from -10 to 10; Adam moves a number by no more than its rate at a step, and some thousand steps of a
# model's own rate would leave them near zero.
BIAS_RATE = 10.0  # times the model's
TUNE_SLOWER = 5  # the rate of a fine-tune is that of training over this

# Encodings (lab.encodings).
T5_BUCKETS = 32  # at most, and no more than the trained length
FIRE_HIDDEN, FIRE_C, FIRE_EPSILON = 32, 0.1, 1e-6  # c learns from there on
SHAW_CLIP = 16
COPE_POSITIONS = 64  # at most, and no more than the trained length
DEBERTA_BUCKETS = 256  # at most, and no more than half the trained length
XPOS_GAMMA = 0.4
LLAMA4_LAYERS = 4  # of so many layers the last does not rotate

# What is measured (lab.evaluation, lab.numerics).
LAST = 512  # tokens at the end of every document, which are the same at every length
NUMERICS_DOCUMENTS, NUMERICS_EXAMPLES = 8, 8
SEARCHED_DOCUMENTS = 4  # the last documents of a store are for searches of factors alone


@dataclass(frozen=True)
class Shape:
    """Of the model: what encodings need to know. `length` is that of training."""

    width: int
    heads: int
    layers: int
    length: int

    @property
    def head_dim(self) -> int:
        return self.width // self.heads


@dataclass(frozen=True)
class Retrieval:
    """Tasks are measured at these multiples of the trained length, the answer's distance being these shares of what fits."""

    multiples: tuple[float, ...] = (1, 2, 4, 16, 64)
    shares: tuple[float, ...] = (0.1, 0.5, 0.9)
    tokens: int = 131072  # about so many for each task, length and distance
    most: int = 64  # examples


@dataclass(frozen=True)
class Changes:
    """What is made of a trained rotary model: the search of LongRoPE's factors, and a short fine-tune at some times the length."""

    multiples: tuple[float, ...] = (2, 4, 8, 16, 32, 64)
    evaluations: int = 40  # of a search, at each length
    search_tokens: int = 32768  # of documents apart from the test's, in each evaluation
    tune_steps: int = 40
    tune_factor: int = 4
    tune_multiples: tuple[float, ...] = (1, 2, 4, 8)


@dataclass(frozen=True)
class Caps:
    """Seconds after which something is left out, and said so in the result: slow kernels must not eat the time of all others."""

    training: float = 200.0  # of a whole training, as its first steps foretell
    measuring: float = 4.0  # of one label at one length
    section: float = 12.0  # of one label in one section of the result


@dataclass(frozen=True)
class Preset:
    """What all runs of a name share."""

    name: str
    shape: Shape
    steps: int
    rows: int  # windows of `length` tokens in a batch
    rate: float
    warmup: int
    dtype: str = "bfloat16"  # of arithmetic, by autocast; parameters are float32
    decay: float = 0.1
    multiples: tuple[float, ...] = (0.5, 1, 1.5, 2, 4, 8, 16, 32, 64)
    test_tokens: int = 786432  # about so many at each length
    documents: int = 128  # at most, at each length
    language_tokens: int = 131072  # the same of the generated language
    seeds: tuple[int, ...] = (0, 1, 2)
    retrieval: Retrieval = field(default_factory=Retrieval)
    changes: Changes = field(default_factory=Changes)
    caps: Caps = field(default_factory=Caps)

    def length(self, multiple: float) -> int:
        return round(self.shape.length * multiple)

    @property
    def tokens_a_step(self) -> int:
        return self.rows * self.shape.length


SMALL = Preset("small", Shape(width=512, heads=8, layers=8, length=512), steps=4800, rows=16, rate=1e-3, warmup=150)
SMALL1024 = replace(  # the same model and as many tokens a step, in windows twice as long, up to the same 32768 tokens
    SMALL,
    name="small1024",
    shape=replace(SMALL.shape, length=1024),
    rows=8,
    multiples=(0.5, 1, 1.5, 2, 4, 8, 16, 32),
    seeds=(0,),
    retrieval=Retrieval(multiples=(1, 2, 4, 16, 32)),
    changes=Changes(multiples=(2, 4, 8, 16, 32)),
)
MEDIUM = replace(  # a greater model that sees the same batches; of what is made of rotary, less
    SMALL,
    name="medium",
    shape=replace(SMALL.shape, width=768, heads=12, layers=16),
    rate=6e-4,
    seeds=(0,),
    changes=Changes(multiples=(4, 16, 64), evaluations=20),
    caps=Caps(300.0, 10.0, 30.0),
)
QUICK = Preset(
    "quick",
    Shape(width=32, heads=2, layers=4, length=32),
    steps=30,
    rows=8,
    rate=5e-3,
    warmup=3,
    dtype="float32",
    multiples=(0.5, 1, 2, 4),
    test_tokens=256,
    documents=4,
    language_tokens=256,
    seeds=(0,),
    retrieval=Retrieval(multiples=(1, 2), shares=(0.5,), tokens=128, most=2),
    changes=Changes((2, 4), evaluations=4, search_tokens=128, tune_steps=2, tune_factor=2, tune_multiples=(2,)),
    caps=Caps(1000.0, 1000.0, 1000.0),
)
PRESETS = {preset.name: preset for preset in (QUICK, SMALL, SMALL1024, MEDIUM)}
