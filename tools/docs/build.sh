#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The documentation site, build/docs/html: pages, pictures and tables by the installed wheel, the API from headers and docstrings. Warnings are errors.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
python=build/venv-docs/bin/python
source=build/docs/source

tools/python/python_venv.sh venv-docs docs/requirements.txt
tools/python/python_wheel.sh test venv-docs

# Doxygen goes on without a filter that fails.
for header in include/phasor/*.hpp include/phasor/*.h include/phasor/c/*.h; do python3 tools/docs/doxygen_filter.py "$header" >/dev/null; done
doxygen_xml() {  # name, then more lines of the Doxyfile
  mkdir -p "build/docs/doxygen/$1"
  { cat docs/Doxyfile && printf '%s\n' "OUTPUT_DIRECTORY = build/docs/doxygen/$1" "${@:2}"; } | doxygen -
}
doxygen_xml cpp "INPUT = include/phasor" "FILE_PATTERNS = *.hpp" "EXCLUDE = include/phasor/fields.hpp"
doxygen_xml c "INPUT = include/phasor include/phasor/c" "FILE_PATTERNS = *.h" "OPTIMIZE_OUTPUT_FOR_C = YES"

# A font for formulas goes along (SIL Open Font License), so that they look the same on every machine.
font=/usr/share/fonts/opentype/stix-word/STIXMath-Regular.otf
mkdir -p build/docs/static
if [[ -f $font ]]; then cp "$font" build/docs/static/math.otf; else echo "docs: no $font (fonts-stix): formulas are shown in what font a reader has"; fi

"$python" tools/docs/stage.py "$source"
"$python" tools/docs/performance.py "$source/made"
"$python" -P tools/docs/performance_plots.py "$source/made/plots"
"$python" -P tools/docs/tables.py "$source/made"
"$python" -P tools/docs/figures.py "$source/made/figures"
"$python" -P -m sphinx -a -b html -W --keep-going -n -q -c docs -d build/docs/doctrees "$source" build/docs/html
"$python" tools/docs/check_site.py build/docs/html
