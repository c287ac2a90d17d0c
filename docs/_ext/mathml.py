# SPDX-License-Identifier: Apache-2.0
"""Formulas become MathML when the site is built, so that no page loads a script for them."""
from docutils import nodes
from latex2mathml.converter import convert
from sphinx.util import logging

logger = logging.getLogger(__name__)


def mathml(node, display):
    """The formula of a node; one that cannot be read is a warning, which ends the build."""
    try:
        return convert(node.astext(), display=display)
    except Exception as error:  # the converter has no class of its own for what it cannot read
        logger.warning("formula %r cannot be read: %s", node.astext(), error, location=node)
        return ""


def inline(translator, node):
    translator.body.append(mathml(node, "inline"))
    raise nodes.SkipNode


def block(translator, node):
    translator.body.append(f'<div class="math">{mathml(node, "block")}</div>')
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
