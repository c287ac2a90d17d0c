# SPDX-License-Identifier: Apache-2.0
"""Formulas become MathML when the site is built, so that no page loads a script for them."""
import re

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.util import logging

logger = logging.getLogger(__name__)


PRIME = "&#x02032;"
# A function and what it is of: browsers set them apart only where a parenthesis stands between.
FUNCTION = "<mi>(?:cos|sin|ln|log|exp)</mi>"
APPLIED = re.compile(rf"({FUNCTION})(?=<m(?:i|n|sub|sup|frac)>)|(<mn>[^<]*</mn>|</msub>)(?={FUNCTION})")
PRIMED = re.compile(rf"<msup>(<mi>[^<]*</mi>)<mi>{PRIME}</mi></msup>")


def readable(formula):
    """What the converter writes, as browsers without a font for formulas show it, too: a raised prime would be raised twice."""
    formula = PRIMED.sub(rf'<mrow>\1<mo lspace="0em" rspace="0em">{PRIME}</mo></mrow>', formula)
    return APPLIED.sub(r'\g<0><mspace width="0.17em"/>', formula)


def mathml(node, display):
    """The formula of a node; one that cannot be read is a warning, which ends the build."""
    try:
        return readable(convert(node.astext(), display=display))
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
