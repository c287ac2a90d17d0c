# SPDX-License-Identifier: Apache-2.0
"""The shared library shows what the headers declare, and nothing else: symbols_test.py LIBRARY HEADERS_FOLDER"""
import re
import subprocess
import sys
from pathlib import Path

DECLARED = re.compile(r"PHASOR_API\b[^;]*?\b(phasor_\w+)\(", re.DOTALL)


def declared(folder):
    return {name for header in Path(folder).glob("*.h") for name in DECLARED.findall(header.read_text())}


def shown(library):
    """Names of defined dynamic symbols, with their versions."""
    lines = subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", library], capture_output=True, text=True, check=True).stdout.splitlines()
    return [line.split()[-1] for line in lines]


def main():
    library, headers = sys.argv[1:3]
    symbols = [name for name in shown(library) if not re.fullmatch(r"PHASOR_[\d.]+(@@PHASOR_[\d.]+)?", name)]
    names = {name.split("@")[0] for name in symbols}
    wanted = declared(headers)
    assert len(wanted) > 20, wanted
    assert names == wanted, f"shown and not declared: {sorted(names - wanted)}; declared and not shown: {sorted(wanted - names)}"
    unversioned = [name for name in symbols if "@@PHASOR_" not in name]
    assert not unversioned, unversioned
    soname = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
    assert re.search(r"SONAME.*libphasor_c\.so\.\d+\]", soname), soname
    print(f"{len(names)} functions")


if __name__ == "__main__":
    main()
