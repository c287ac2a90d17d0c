# SPDX-License-Identifier: Apache-2.0
"""Issue 15's table: which jobs are timed together, and the targets of each row. Everything "over own plain" is in any order of sums, which the table binds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from schemes import contenders as by
from schemes.problem import Problem, Scheme, Size, drawn
from schemes.schemes import ALIBI, ALIBI_SKIP, DEBERTA, INKLING, INKLING_ALL, PLAIN, SHAW, SHAW_KV, T5, TRANSFORMER_XL, UNCLIPPED
from schemes.timed import Group, Line, Target

Jobs = dict[str, Callable[[], by.Job]]


@dataclass(frozen=True)
class Scale:
    """Of all groups: those of the issue, or tiny ones for a rehearsal."""

    device: str
    batch: int
    heads: int
    tokens: int
    long: int  # ALiBi's
    rounds: int
    widths: tuple[int, ...] = (128, 64)

    def size(self, width: int, causal: bool, tokens: int | None = None, batch: int | None = None) -> Size:
        return Size(batch or self.batch, self.heads, tokens or self.tokens, width, causal, self.device)


FULL = Scale("cuda", batch=4, heads=32, tokens=4096, long=16384, rounds=8)
TINY = Scale("cpu", batch=2, heads=2, tokens=40, long=96, rounds=1)


def shape(size: Size) -> str:
    return f"D{size.width} n{size.tokens} {'causal' if size.causal else 'full'}"


def least(words: str, job: str, over: str, limit: float) -> Target:
    return Target(words, job, over, limit, at_least=True)


def over_plain(name: str, limit: float | None) -> Target:
    return Target("over plain", name, "plain", limit)


PLAIN_PEERS = {"cuDNN": "cuDNN", "flash": "flash"}


def peers_of(scheme: Scheme, flex: bool = True, dense: bool = True) -> dict[str, str]:
    return PLAIN_PEERS | ({"FlexAttention": f"flex {scheme.name}"} if flex else {}) | ({"dense bias": f"dense {scheme.name}"} if dense else {})


def line(scheme: Scheme, *targets: Target) -> Line:
    return Line(scheme.name, scheme.name, targets, peers_of(scheme, dense=scheme is not PLAIN))


def beside_dense(scheme: Scheme, limit: float) -> Target:
    return least("of scores written out", f"dense {scheme.name}", scheme.name, limit)


# ---- Forward ----


def forward_jobs(problems: list[Problem]) -> Jobs:
    """Of the first, plain one also cuDNN and flash."""
    jobs: Jobs = {name: partial(by.plain_peer, name, problems[0]) for name in by.BACKENDS}
    for problem in problems:
        jobs[problem.name] = partial(by.ours, problem)
        jobs[f"flex {problem.name}"] = partial(by.flex, problem)
        if problem.scheme is not PLAIN:
            jobs[f"dense {problem.name}"] = partial(by.dense, problem)
    return jobs


def forward(scale: Scale, width: int, causal: bool) -> Group:
    size, narrow = scale.size(width, causal), width <= 64
    contents = drawn(size)
    schemes = (PLAIN, T5, UNCLIPPED, SHAW, SHAW_KV, TRANSFORMER_XL, DEBERTA)
    of_cudnn = {(False, False): 0.97, (False, True): 1.03, (True, False): 1.0, (True, True): 0.97}[narrow, causal]
    lines = [
        line(PLAIN, least("of cuDNN", "cuDNN", "plain", of_cudnn)),
        line(T5, over_plain("T5", 1.06 if causal else 1.04)),
        line(UNCLIPPED, over_plain("unclipped bias", 1.14 if narrow else 1.10)),
        line(SHAW, over_plain("Shaw K", 1.08)),
        line(SHAW_KV, over_plain("Shaw K + V", 1.12)),
        line(TRANSFORMER_XL, over_plain("Transformer-XL", 1.7), beside_dense(TRANSFORMER_XL, 3)),
        line(DEBERTA, over_plain("DeBERTa", 1.4)),
    ]
    return Group(f"forward {shape(size)}", forward_jobs([Problem(scheme, size, contents) for scheme in schemes]), lines, size.operations)


def alibi(scale: Scale) -> Group:
    size = scale.size(scale.widths[0], True, scale.long, 1)
    contents = drawn(size, 2)
    problems = [Problem(scheme, size, contents) for scheme in (PLAIN, ALIBI)]
    jobs = forward_jobs(problems)
    jobs[ALIBI_SKIP.name] = partial(by.ours, Problem(ALIBI_SKIP, size, contents))
    skipped = Line(ALIBI_SKIP.name, ALIBI_SKIP.name, (over_plain(ALIBI_SKIP.name, 0.5),), peers_of(ALIBI))
    return Group(f"ALiBi {shape(size)}", jobs, [line(PLAIN), line(ALIBI, over_plain("ALiBi", None)), skipped], size.operations)


def inkling(scale: Scale, width: int) -> Group:
    size = scale.size(width, True, 2 * scale.tokens, 1)
    contents = drawn(size, 3)
    problems = [Problem(scheme, size, contents) for scheme in (PLAIN, INKLING, INKLING_ALL)]
    lines = [line(PLAIN), line(INKLING, over_plain(INKLING.name, 1.10)), line(INKLING_ALL, over_plain(INKLING_ALL.name, None))]
    return Group(f"Inkling {shape(size)}", forward_jobs(problems), lines, size.operations)


# ---- Backward ----

WITHOUT = " without its gradient"


def in_turns(name: str) -> str:
    return f"{name}, deterministic"


def ours_both_ways(problem: Problem, name: str, learned: bool) -> Jobs:
    return {
        name: partial(by.ours_backward, problem, learned),
        in_turns(name): partial(by.ours_backward, problem, learned, deterministic=True),
    }


def backward_line(name: str, flex: str, *targets: Target) -> Line:
    """Peers are those of the job `flex`, whose dense bias has the same name."""
    dense = {} if flex == "plain" else {"dense bias": f"dense {flex}"}
    turns = Target("deterministic over any order", in_turns(name), name, 1.10)
    return Line(name, name, (*targets, turns), PLAIN_PEERS | {"FlexAttention": f"flex {flex}"} | dense)


def backward_jobs(problems: list[Problem]) -> Jobs:
    jobs: Jobs = {name: partial(by.plain_peer_backward, name, problems[0]) for name in by.BACKENDS}
    for problem in problems:
        jobs |= ours_both_ways(problem, problem.name, learned=True)
        jobs[f"flex {problem.name}"] = partial(by.flex_backward, problem)
        if problem.scheme is not PLAIN:
            jobs[f"dense {problem.name}"] = partial(by.dense_backward, problem)
    return jobs


def backward(scale: Scale, width: int, causal: bool) -> Group:
    size = scale.size(width, causal)
    contents = drawn(size)
    problems = {scheme.name: Problem(scheme, size, contents) for scheme in (PLAIN, T5, UNCLIPPED, SHAW, SHAW_KV, TRANSFORMER_XL, DEBERTA)}
    jobs = backward_jobs(list(problems.values()))
    unlearned = UNCLIPPED.name + WITHOUT
    jobs |= ours_both_ways(problems[UNCLIPPED.name], unlearned, learned=False)
    jobs[f"flex {unlearned}"] = partial(by.flex_backward, problems[UNCLIPPED.name], learned=False)
    jobs[f"dense {unlearned}"] = partial(by.dense_backward, problems[UNCLIPPED.name], learned=False)
    limits = {T5.name: 1.10, unlearned: 1.12, UNCLIPPED.name: 1.45, SHAW.name: 1.15, SHAW_KV.name: 1.15, TRANSFORMER_XL.name: 2.0, DEBERTA.name: 1.6}
    lines = [backward_line("plain", "plain", least("of cuDNN", "cuDNN", "plain", 0.97))]
    for name, limit in limits.items():
        more = (beside_dense(TRANSFORMER_XL, 3),) if name == TRANSFORMER_XL.name else ()
        lines.append(backward_line(name, name, over_plain(name, limit), *more))
    return Group(f"backward {shape(size)}", jobs, lines, 2.5 * size.operations)
