# SPDX-License-Identifier: Apache-2.0
"""The Python package as autodoc wants it: public things belong to the module that users import them from, and docstrings are plain text, not reST."""
import importlib
import re

from sphinx.ext.autodoc.mock import mock

MODULES = ["phasor", "phasor.positions", "phasor.analysis", "phasor.plot", "phasor.nn", "phasor.hf"]
BuiltIn = type(importlib.import_module("phasor").get_num_threads)  # a function of the core cannot be told another module
CODE = re.compile(r"`([^`]+)`")


def name_modules(app):
    """`phasor.Rotary`, not `phasor._rotary.Rotary`. What two modules show belongs to the first."""
    with mock(app.config.autodoc_mock_imports):
        modules = [importlib.import_module(name) for name in MODULES]
    for module in reversed(modules):
        for name in module.__all__:
            thing = getattr(module, name)
            if callable(thing) and str(getattr(thing, "__module__", "")).startswith("phasor") and not isinstance(thing, BuiltIn):
                thing.__module__ = module.__name__


def plain(line):
    """A line of text: `code` as code, and nothing else that reST would read something into."""
    parts = CODE.split(line)
    text = [re.sub(r"([*|\\])", r"\\\1", part) for part in parts[::2]]
    text = [re.sub(r"(\w)_(?=\W|$)", r"\1\\_", part) for part in text]
    code = [f"``{part}``" for part in parts[1::2]]
    return "".join(t + c for t, c in zip(text, [*code, ""]))


def plain_docstring(app, what, name, thing, options, lines):
    """In place, as autodoc hands the lines over. Examples stay as they are."""
    example = False
    for i, line in enumerate(lines):
        example = line.lstrip().startswith(">>>") or (example and line.strip() != "")
        if not example:
            lines[i] = plain(line)


def readable_signature(app, what, name, thing, options, signature, returned):
    """A default made by a factory is written as no expression, which would keep Sphinx from reading the types beside it."""
    return (signature and signature.replace("<factory>", "...")), returned


def setup(app):
    app.connect("builder-inited", name_modules)
    app.connect("autodoc-process-docstring", plain_docstring)
    app.connect("autodoc-process-signature", readable_signature)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
