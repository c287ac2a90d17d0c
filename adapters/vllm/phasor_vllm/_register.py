# SPDX-License-Identifier: Apache-2.0
"""The entry point: puts phasor's classes in the place of vLLM's, or says why not and leaves vLLM as it is."""

from __future__ import annotations

import importlib
import pkgutil
import re
from typing import Any

import phasor
from phasor.engines import KINDS

from . import _state

# Major and minor of the versions that were run (0.32.0). A class of another version may have the same name and another forward.
VERSIONS = ((0, 32),)
PACKAGE = "vllm.model_executor.layers.rotary_embedding"

_done: list[str] = []  # classes that were replaced, in this process


def register() -> None:
    """Replaces the rotary layers of vLLM. An engine that is not known stays as it is, with a warning; a wrong profile is an error."""
    from vllm.logger import init_logger

    logger = init_logger("vllm.phasor")
    profile = _state.profile_by_environment()  # a typing error of the user's ends the start, instead of being somebody's numbers
    if _done:
        return
    why = why_not()
    if why is not None:
        logger.warning("phasor-vllm: %s; vLLM's own rotary layers stay", why)
        return
    try:
        _done.extend(replace_all())
    except Exception:  # noqa: BLE001  an engine that changed must run as it would without us
        logger.exception("phasor-vllm: vLLM's rotary layers are not as expected; those that were not replaced stay")
        return
    remember_in_compile_keys()
    logger.info("phasor-vllm %s: %d rotary layers by phasor, profile %s", phasor.__version__, len(_done), "vllm" if profile == "engine" else profile)


def why_not() -> str | None:
    """Why this vLLM cannot be helped, or None."""
    import vllm
    from vllm.platforms import current_platform

    if version_of(vllm.__version__) not in VERSIONS:
        known = " or ".join(".".join(map(str, v)) for v in VERSIONS)
        return f"vLLM is {vllm.__version__}, wanted {known}"
    if not (current_platform.is_cpu() or current_platform.is_cuda()):
        return f"the platform is {current_platform.device_name}, wanted the CPU or CUDA"
    if current_platform.is_cuda() and not phasor._core.has_cuda():
        return "this phasor has no CUDA kernels (pip install phasor-cuda13)"
    return None


def version_of(text: str) -> tuple[int, int] | None:
    """Major and minor of a version, None where there are none (a development build may say "dev")."""
    match = re.match(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else None


def replace_all() -> list[str]:
    """Every rotary class that vLLM has and phasor knows: through vLLM's register of out-of-tree operators where it looks there."""
    from vllm.model_executor.custom_op import CustomOp

    from ._layers import ours

    package = importlib.import_module(PACKAGE)
    replaced = []
    for own in classes_of(package):
        if own.__name__ not in KINDS and own.__name__ != "ApplyRotaryEmb":
            continue
        new = ours(own)
        if issubclass(own, CustomOp):
            CustomOp.register_oot(name=own.__name__)(new)
        else:  # made by its name: the name then means ours
            for module in (package, importlib.import_module(own.__module__)):
                if getattr(module, own.__name__, None) is own:
                    setattr(module, own.__name__, new)
        replaced.append(own.__name__)
    return replaced


def classes_of(package: Any) -> list[type]:
    """Classes that the modules of the package define."""
    found: dict[str, type] = {}
    for info in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        module = importlib.import_module(info.name)
        found |= {name: thing for name, thing in vars(module).items() if isinstance(thing, type) and thing.__module__ == info.name}
    return list(found.values())


def remember_in_compile_keys() -> None:
    """A graph that vLLM compiled without us, or by another profile, must not be taken from its cache: the key gets a factor."""
    from vllm import envs

    variables = getattr(envs, "environment_variables", None)
    if isinstance(variables, dict):
        variables["PHASOR_VLLM"] = lambda: f"{phasor.__version__} {_state.profile_by_environment()}"
