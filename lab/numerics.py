# SPDX-License-Identifier: Apache-2.0
"""What rounded angles cost: a trained rotary model with exact phases, with angles in float32, with tables in bfloat16, near and far away.

Beyond the trained length plain rotary fails by itself, which would hide what rounding does: there YaRN, set for the length, keeps the model at work.
"""

from __future__ import annotations

from lab.encodings import Encoding
from lab.encodings.changed import SCALINGS
from lab.encodings.rotary import Rotated
from lab.evaluation import Measured, Row, row_of
from lab.presets import NUMERICS_DOCUMENTS, NUMERICS_EXAMPLES
from lab.retrieval import answered, distance_at, examples

# Labels by the library's profiles: hf_float32 has float32 angles and tables, hf tables and products in the tensors' dtype.
PROFILES = {"rotary, exact": "exact", "rotary, hf float32 angles": "hf_float32", "rotary, hf bf16 tables": "hf"}
SHIFTS = (0, 1_000_000)
TASK = "passkey"


def on_profiles(of: Measured) -> list[Row]:
    """A row for each profile, length and shift; all read the same documents."""
    rows: list[Row] = []
    for multiple in of.preset.retrieval.multiples:
        length = of.preset.length(multiple)
        scaling = SCALINGS["yarn"](multiple, of.preset.shape) if multiple > 1 else None
        for label, profile in PROFILES.items():
            for shift in SHIFTS:
                encoding = Rotated(of.preset.shape, numerics=profile, first=shift, scaling=scaling)
                rows += of.tried("numerics", label, length, lambda: _row(of, label, length, shift, encoding))
    return rows


def _row(of: Measured, label: str, length: int, shift: int, encoding: Encoding) -> Row:
    found = row_of(of.losses(of.store.long_documents(length, min(NUMERICS_DOCUMENTS, of.documents(length))), encoding))
    asked = examples(of.store, TASK, length, distance_at(of.store, TASK, length, 0.5), min(NUMERICS_EXAMPLES, of.preset.retrieval.most))
    accuracy, loss = answered(of, asked, encoding)
    row = {"label": label, "length": length, "shift": shift, "loss": found["loss"], "last": found["last"]}
    return {**row, "passkey_accuracy": accuracy, "passkey_loss": loss}
