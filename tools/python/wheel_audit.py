#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a published wheel must be, looked up in the file itself: tools/python/wheel_audit.py WHEEL..."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

LIBRARIES = {"libc", "libm", "libpthread", "libdl", "ld-linux-x86-64", "ld-linux-aarch64"}  # of every Linux of these years
MACHINES = {"x86_64": "Advanced Micro Devices X86-64", "aarch64": "AArch64"}
WANTED = ("phasor/py.typed", "phasor/_core.pyi", "data/scripts/phasor", "licenses/LICENSE", "THIRD_PARTY_LICENSES.txt", "man1/phasor.1")


def read(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def check_binary(path: Path, arch: str) -> None:
    assert MACHINES[arch] in read("readelf", "-h", str(path)), f"{path.name} is not for {arch}"
    dynamic = read("readelf", "-d", str(path))
    needed = {re.sub(r"\.so.*", "", name) for name in re.findall(r"NEEDED.*\[(.*?)\]", dynamic)}
    assert needed <= LIBRARIES, f"{path.name} needs {sorted(needed - LIBRARIES)}, wanted only what every Linux has"
    assert "RPATH" not in dynamic and "RUNPATH" not in dynamic, f"{path.name} looks for libraries in folders of its own"


def run_tool(path: Path, arch: str) -> None:
    """On this machine, or in qemu with the C library of the cross compiler."""
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    command = [] if arch == os.uname().machine else [f"qemu-{arch}", "-L", f"/usr/{arch}-linux-gnu"]
    assert not command or shutil.which(command[0]), f"{command[0]} is not here, wanted it to run the tool of {arch}"
    assert "llama3" in read(*command, str(path), "explain", "llama3.1", "--json"), "the tool does not explain llama3.1"


def audit(wheel: Path) -> None:
    match = re.fullmatch(r"phasor-[\d.]+-cp3\d+-(abi3|cp311)-(manylinux\w*?)_(x86_64|aarch64)\.whl", wheel.name.replace(".manylinux2014", ""))
    glibc = re.search(r"manylinux_2_(\d+)", match[2]) if match else None
    assert glibc and int(glibc[1]) <= 28, f"{wheel.name}: wanted a wheel of manylinux_2_28, or of an older one"
    arch = match[3]
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        names = archive.namelist()
        missing = [wanted for wanted in WANTED if not any(name.endswith(wanted) for name in names)]
        assert not missing, f"{wheel.name} has no {missing}"
        assert not [name for name in names if ".libs/" in name], f"{wheel.name} brings libraries of others"
        archive.extractall(folder)
        binaries = [path for path in Path(folder).rglob("*") if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"]
        assert sorted(path.name for path in binaries)[-1] == "phasor" and len(binaries) == 2, f"{wheel.name}: binaries are {binaries}"
        (module,) = [path.name for path in binaries if path.name != "phasor"]
        assert module in ("_core.abi3.so", f"_core.cpython-311-{arch}-linux-gnu.so"), f"{wheel.name}: no Python of {arch} finds {module}"
        for path in binaries:
            check_binary(path, arch)
        run_tool(next(path for path in binaries if path.name == "phasor"), arch)
    if match[1] == "abi3":
        read(sys.executable, "-m", "abi3audit", "--strict", "--verbose", str(wheel))
    print(f"{wheel.name}: audited")


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        audit(Path(argument))
