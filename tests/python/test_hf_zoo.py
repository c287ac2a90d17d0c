# SPDX-License-Identifier: Apache-2.0
"""A tiny random model of every architecture of the installed transformers, patched: the same bits, or the reason in docs/hf.md."""

from __future__ import annotations

import json
import os

import filelock
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from hf_zoo.compare import EXACT_LIMIT  # noqa: E402
from hf_zoo.models import model_types, rotary_folders  # noqa: E402
from hf_zoo.table import DOCUMENT, outcomes, status, table, with_table  # noqa: E402
from transformers.models.auto.configuration_auto import model_type_to_module_name  # noqa: E402


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Computed once, also where the tests of this file run in several processes (pytest-xdist)."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return outcomes()
    shared = tmp_path_factory.getbasetemp().parent / "hf_zoo.json"
    with filelock.FileLock(f"{shared}.lock"):
        if not shared.exists():
            shared.write_text(json.dumps(outcomes()))
    return json.loads(shared.read_text())


def test_every_model_type_has_an_outcome(rows):
    assert [row["model_type"] for row in rows] == model_types()


def test_no_patched_model_differs_by_a_bit_in_float32_or_bfloat16(rows):
    assert [(row["model_type"], row["different"]) for row in rows if row["different"]] == []


def test_unpatch_leaves_every_model_as_it_was(rows):
    assert [row["model_type"] for row in rows if not row["restored"]] == []


def test_exact_tables_change_short_inputs_by_no_more_than_float32_angles_err(rows):
    print("largest:", max((row["exact_error"], row["model_type"]) for row in rows))
    assert [(row["model_type"], row["exact_error"]) for row in rows if row["exact_error"] > EXACT_LIMIT] == []
    assert sum(1 for row in rows if row["exact_error"] > 0) > 150  # they are other tables, after all


def test_nearly_all_folders_that_rotate_have_a_model_that_ran_patched(rows):
    ran = {model_type_to_module_name(row["model_type"]) for row in rows if row["ours"]}
    missing = sorted(set(rotary_folders()) - ran)
    print(len(ran), "folders ran;", "missing:", missing)
    assert len(ran) >= FOLDERS_RUN


def test_a_model_that_does_not_run_patched_says_why(rows):
    for row in rows:
        assert row["ours"] or row["problem"] or row["left"] or not row["rotations"] or "needs no rotation" in status(row), json.dumps(row)


def test_the_table_in_the_documentation_is_of_today(rows):
    document = DOCUMENT.read_text()
    assert document == with_table(document, table(rows)), "docs/hf.md is old: run tools/make_hf_table.py"


FOLDERS_RUN = 194
