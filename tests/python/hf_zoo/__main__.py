# SPDX-License-Identifier: Apache-2.0
"""python -m hf_zoo PART PARTS [TYPE ...]: the outcomes of every PARTS-th model type, or of the types named, as lines of JSON."""

import dataclasses
import json
import os
import sys
import warnings

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
warnings.filterwarnings("ignore")

import torch  # noqa: E402

from settled import settle  # noqa: E402

from .compare import outcome_of  # noqa: E402
from .models import model_types  # noqa: E402


def main() -> None:
    part, parts, named = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    torch.set_num_threads(1)
    settle()
    for model_type in named or model_types()[part::parts]:
        print(json.dumps(dataclasses.asdict(outcome_of(model_type))), flush=True)


main()
