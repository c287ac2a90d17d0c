# SPDX-License-Identifier: Apache-2.0
"""Byte-pair tokens, learned from the text that is trained on and no other."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

VOCABULARY = 8192


def learned(texts: Iterable[str]) -> Tokenizer:
    """Of bytes, so that nothing is unknown; the same texts give the same tokens."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=VOCABULARY, initial_alphabet=alphabet, show_progress=False))
    if made.get_vocab_size() != VOCABULARY:
        raise ValueError(f"tokens: the text gives {made.get_vocab_size()} of them, wanted {VOCABULARY}: more text is needed")
    return made


def encoded(tokenizer: Tokenizer, texts: list[str]) -> list[np.ndarray]:
    """The tokens of each text."""
    return [np.array(one.ids, "<u2") for one in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
