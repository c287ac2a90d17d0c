# SPDX-License-Identifier: Apache-2.0
"""Beside the papers: what each claims, in our words, where that was read, what our results say of it, and what differs."""

from __future__ import annotations

from lab.report.papers import FAILS, MISSING, NO_STANDARD, Claim, above, falls, finds, grows, judged, no_worse, stays, together, worse
from lab.report.results import Results
from lab.report.tables import table

LARGER = "larger models, trained on 10 to 1000 times as many tokens there"
ALIBI = "16 layers of width 1024, 205 epochs of the 103M tokens of WikiText-103 there; windows that do not overlap, and all of their tokens count"
YARN = "LLaMA of 7B parameters there, trained at 2048 tokens; windows slide by 256 tokens over ten documents of Proof-pile, so that nearly all of a window stands before each token: ours at the end"
CLAIMS = (
    Claim(
        "ALiBi (Press, Smith, Lewis 2022), figure 1",
        "sinusoidal positions get worse from 50 tokens behind the trained length on",
        (grows("sinusoidal", 1.5), grows("sinusoidal", 2)),
        ALIBI,
        "section 2.2 (trained at 512: better up to 20 tokens more, worse from 50 more on)",
    ),
    Claim(
        "ALiBi, figure 1",
        "rotary goes on a little longer than sinusoidal, then fails",
        (above("sinusoidal", "rotary", 2), grows("rotary", 4)),
        "the same",
        "section 2.2 (better up to 200 tokens more, of 512)",
    ),
    Claim(
        "ALiBi, figure 1",
        "T5's bias goes on further than rotary, to about twice the length",
        (stays("t5", 2), above("rotary", "t5", 2), above("rotary", "t5", 4)),
        "the same",
        "section 2.2 (better up to 600 tokens more, of 512), section 4.1",
    ),
    Claim(
        "ALiBi, figure 1",
        "ALiBi gets better up to three times the length at least, and stays good beyond; T5 does not",
        (falls("alibi", 2), stays("alibi", 8), above("t5", "alibi", 8, end=True)),
        "windows that do not overlap there, so that fewer tokens of a longer one lack context, and that alone is a gain; of 1.3B parameters ALiBi is best at twice the length (figure 6)",
        "section 4.1 (trained at 512: better to beyond 12000 tokens); by a summary the paper itself lays its gains to those first tokens",
    ),
    Claim(
        "Kazemnejad and others 2023, figures 1 to 3",
        "without positions (NoPE) a decoder answers at greater lengths better than with T5's bias, ALiBi, rotary or sinusoids, in this order",
        (finds("none", "t5", 2), finds("none", "alibi", 2), finds("none", "rotary", 2), finds("none", "sinusoidal", 2)),
        "107M parameters there, one model a task of reasoning, trained at up to 20 steps and asked at up to 40; ours are of remembering inside of text, and only one seed without positions learned any of them",
        "figure 1, by a summary (mean reciprocal rank 0.69, 0.55, 0.50, 0.33, 0.22)",
    ),
    Claim(
        "KERPLE (Chi and others 2022)",
        "its logarithmic kernel is below ALiBi and T5 at many times the length",
        (above("alibi", "kerple", 16), above("t5", "kerple", 16)),
        "OpenWebText2, GitHub and ArXiv, 162M parameters there",
        "abstract (excellent beyond the length, on three sets of text); beside whom: from memory",
    ),
    Claim(
        "Sandwich (Chi and others 2023)",
        "makes use of more than the trained length; is as good as ALiBi, and better than rotary, beyond it",
        (falls("sandwich", 8), above("alibi", "sandwich", 4, even=True), above("rotary", "sandwich", 4)),
        "OpenWebText2, GitHub and ArXiv there",
        "abstract (it makes use of more than the trained length); beside whom: from memory",
    ),
    Claim(
        "FIRE (Li and others 2024)",
        "is below ALiBi, KERPLE, T5 and rotary at four times the length",
        (above("alibi", "fire", 4), above("kerple", "fire", 4), above("t5", "fire", 4), above("rotary", "fire", 4)),
        "trained at 2048 tokens of C4 there, with a threshold that is learned; fixed at the trained length here, so that training never sees a squeezed distance; " + LARGER,
        "by a summary of its introduction (2.28 of perplexity below the best other one on C4); lengths and names: from memory",
    ),
    Claim(
        "xPos (Sun and others 2022), table 5, without blocks",
        "decay in rotary makes it go on further: below rotary at two and four times the length, below ALiBi at two, above it at four",
        (above("rotary", "xpos", 2), above("rotary", "xpos", 4), above("alibi", "xpos", 2), above("xpos", "alibi", 4)),
        "trained at 1024 tokens there; attention in blocks beyond the length, with which xPos is below ALiBi at four times, too, is not ours",
        "table 5 (perplexity at 2048 and 4096: rotary 73.6 and 294, ALiBi 23.1 and 24.3, xPos 22.6 and 28.4, in blocks 21.6 and 20.7)",
    ),
    Claim(
        "YaRN (Peng and others 2023), table 5, without fine-tuning",
        "YaRN is below linear interpolation and NTK at the length that they are set for",
        tuple(above(f"rotary, {how}", "rotary, yarn", multiple, end=True) for multiple in (2, 4) for how in ("linear", "ntk")),
        YARN,
        "table 5 of the third version (linear, NTK, YaRN at 2x 3.90, 5.97, 3.67; at 4x 6.18, over 10, 3.65)",
    ),
    Claim(
        "YaRN, table 5, without fine-tuning",
        "NTK fails at the very length that it is set for: it is above linear interpolation there",
        (
            *(worse("rotary, ntk", multiple, "rotary") for multiple in (2, 4)),
            *(above("rotary, ntk", "rotary, linear", multiple, end=True) for multiple in (2, 4)),
        ),
        "the same; linear interpolation fails here by more than NTK, untrained as it is. That NTK is below it at half of the length that it is set for is not tested: ours are read with these scalings at no other length",
        "table 5 (set for 4x, read at 2x: linear 6.39, NTK 3.84)",
    ),
    Claim(
        "YaRN, table 5, after a fine-tune",
        "after a short fine-tune YaRN is below linear interpolation at every length up to that of the fine-tune",
        tuple(above("rotary, linear", "rotary, yarn", multiple, True, end=True) for multiple in (1, 2, 4)),
        "400 steps at 16 times the length there, 40 at four times here, after which linear interpolation is still broken: more than half a nat behind rotary as it was",
        "table 5 (at 1x 5.70 and 4.19, at 16x 3.57 and 2.77)",
    ),
    Claim(
        "YaRN, table 1, after a fine-tune",
        "at the length of the fine-tune YaRN is as good as linear interpolation",
        (above("rotary, linear", "rotary, yarn", 4, True, even=True, end=True),),
        "Llama 2 of 7B parameters there, 400 steps at twice the length for YaRN and 1000 for the others; 40 at four times for both here, too few for linear interpolation",
        "table 1 of the third version (linear 3.34, NTK 3.59, YaRN 3.35)",
        premise=no_worse("rotary, linear", 4, "rotary", True),
    ),
    Claim(
        "YaRN, tables 1 and 2, beyond the fine-tune",
        "beyond the length that it is fine-tuned and set for each of them fails, and YaRN is still below linear interpolation",
        (grows("rotary, linear", 8, 4, True), grows("rotary, yarn", 8, 4, True), above("rotary, linear", "rotary, yarn", 8, True)),
        "read at 1.25 and 1.5 times the fine-tune's length there, at twice here; that a scaling set for twice the fine-tune's length goes on to it (table 2: 2.37) was not tried here",
        "table 1 (at 1.25 times: linear 8.07, NTK 6.24, YaRN 6.04), table 2 (YaRN for 16x, at 24x: over 10)",
    ),
    Claim(
        "LongRoPE (Ding and others 2024), tables 1 and 3, without fine-tuning",
        "searched factors are below YaRN, dynamic NTK and linear interpolation",
        (
            *(above(f"rotary, {how}", "rotary, longrope", multiple) for multiple in (2, 4) for how in ("linear", "ntk dynamic", "yarn")),
            above("rotary, linear", "rotary, longrope", 16),
            above("rotary, yarn", "rotary, longrope", 16),
        ),
        "Llama 2 of 7B parameters there, a much longer search, which at 16x also leaves first tokens alone",
        "tables 1 and 3 (Proof-pile at 2x: linear 3.65, dynamic NTK 3.50, YaRN 3.49, searched 3.45; at 4x 4.93, 3.87, 3.25, 3.13; at 16x 72.5, -, 4.15, 3.22; on PG19 YaRN is the worst)",
    ),
    Claim(
        "ReRoPE (Su 2023), Self-Extend (Jin and others 2024)",
        "distances that are never greater than those of training save rotary without training",
        (*(above("rotary", f"rotary, {how}", 8) for how in ("rerope", "self-extend")), *(no_worse(f"rotary, {how}", 8, "rotary") for how in ("rerope", "self-extend"))),
        "models of 7B to 13B parameters there",
        "Self-Extend's abstract; ReRoPE: from memory",
    ),
)


def verdict_of(claim: Claim, results: Results | None) -> str:
    """Nothing is agreed with where what ours are compared with has failed here."""
    found = together([judged(test, None if results is None else test.difference(results)) for test in claim.tests])
    premise = None if results is None or claim.premise is None else judged(claim.premise, claim.premise.difference(results))
    return NO_STANDARD if premise == FAILS and found != MISSING else found


def lines(results: Results | None) -> list[str]:
    rows = []
    for claim in CLAIMS:
        tests = claim.tests if claim.premise is None else (*claim.tests, claim.premise)
        values = [None if results is None else test.difference(results) for test in tests]
        words = [test.words + (" (else it says nothing)" if test is claim.premise else "") for test in tests]
        ours = "; ".join(f"{word}: {'–' if value is None else value.written(3, True)}" for word, value in zip(words, values))
        rows.append([claim.paper, claim.says, ours, verdict_of(claim, results), claim.differs, claim.read])
    head = ["paper", "claim", "ours, above 0 where it holds", "", "what differs", "read where"]
    return table(head, rows)[1:]  # words, not numbers: they may be broken
