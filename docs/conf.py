# SPDX-License-Identifier: Apache-2.0
"""How Sphinx makes the site. tools/docs/build.sh runs it on build/docs/source, which tools/docs/stage.py makes of docs/."""
import re
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
BUILT = DOCS.parent / "build" / "docs"
sys.path.insert(0, str(DOCS / "_ext"))

project = "Phasor"
copyright = "The Phasor maintainers"
release = re.search(r'^version = "(.*)"', (DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)[1]
version = release

extensions = ["myst_parser", "breathe", "sphinx.ext.autodoc", "mathml", "bigrams", "package"]
exclude_patterns = ["made"]
nitpicky = True

myst_enable_extensions = ["dollarmath", "colon_fence", "attrs_block"]
myst_heading_anchors = 4
suppress_warnings = [
    "myst.xref_missing",  # checked by tests/tools/docs_test.py, files outside of docs/ too
]

html_theme = "furo"
html_title = f"Phasor {release}"
html_static_path = [str(DOCS / "_static"), str(BUILT / "static")]  # the second: a font for formulas
html_css_files = ["site.css"]
html_math_renderer = "mathml"  # at build time: nothing is loaded to show a formula
html_show_search_summary = False  # a summary fetches the page that was found, which a browser refuses for file://
html_search_language = "bigrams"
html_copy_source = False
html_show_sphinx = False

breathe_projects = {"cpp": str(BUILT / "doxygen" / "cpp" / "xml"), "c": str(BUILT / "doxygen" / "c" / "xml")}
breathe_default_project = "cpp"
breathe_domain_by_extension = {"h": "c", "hpp": "cpp"}
breathe_default_members = ("members",)
breathe_show_include = False

autodoc_mock_imports = ["torch", "transformers", "phasor._torch"]  # phasor.nn and phasor.hf are described without them
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True

# Names that a reference cannot lead to: the standard library's, and what the headers keep to themselves.
nitpick_ignore_regex = [
    ("cpp:identifier", r"(std|plan|detail|phasor)(::.*)?"),
    ("cpp:identifier", r"(u?int(8|16|32|64)_t|size_t|T|Plan|ListedInteger)"),
    ("c:identifier", r"(u?int(8|16|32|64)_t|size_t|PHASOR_API|DL\w+)"),
    ("py:class", r"(numpy|torch|collections\.abc|os|phasor(\.\w+)?\._\w+)\..*|Tensor|BiasSpec"),
]
