#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""clang-tidy over sources, several at once: check_tidy.py BUILD JOBS [--since COMMIT] SOURCES... What a file is, with all its headers and the
checks, is kept as a hash in BUILD/tidy once it was found clean, and not looked at again until it changes. --since: only sources that changed
after that commit, and for every changed header one source that includes it; all of them where git does not know the commit."""
import hashlib
import json
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TIDY = "clang-tidy-19"
FOLDERS = ("src", "cli", "include")  # each is a root of #include


def commands_of(build):
    """The compiler's words for every source of a build."""
    entries = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    return {Path(e["directory"], e["file"]).resolve(): (e["directory"], shlex.split(e["command"])) for e in entries}


def content_of(directory, words):
    """All that the compiler sees of a source. With its comments: some of them silence a check."""
    if Path(words[0]).name == "ccache":
        words = words[1:]
    keep = [w for i, w in enumerate(words) if w not in ("-c", "-o") and words[i - 1] != "-o"]
    return subprocess.run([*keep, "-E", "-C"], cwd=directory, capture_output=True, check=True).stdout


def tidy(build, source, command, settings):
    """Nothing where the source is clean, else what is wrong with it."""
    stamp = build / "tidy" / hashlib.sha256(settings + content_of(*command)).hexdigest()
    if stamp.exists():
        return False, ""
    done = subprocess.run([TIDY, "--quiet", "-p", build, source], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        stamp.touch()
        return True, ""
    return True, done.stdout + done.stderr or f"{source}: {TIDY} ended with status {done.returncode}\n"


def includers(root):
    """Which files of src, cli and include include a file, by its path."""
    found = {}
    for file in sorted(f for folder in FOLDERS for f in (root / folder).rglob("*.[chi]*") if f.is_file()):
        for name in re.findall(r'^\s*#\s*include\s*"([^"]+)"', file.read_text(encoding="utf-8"), re.MULTILINE):
            for base in (file.parent, *(root / folder for folder in FOLDERS)):
                found.setdefault((base / name).resolve(), []).append(file)
    return found


def source_of(header, by):
    """The nearest source that includes a header, through others too; nothing where there is none."""
    reached, border = {header}, [header]
    while border:
        border = [f for header in border for f in by.get(header, []) if f not in reached]
        for file in border:
            if file.suffix == ".cpp":
                return file
        reached |= set(border)
    return None


def changed_sources(root, commit, sources):
    """What of the sources is to be looked at again after a commit."""
    done = subprocess.run(["git", "diff", "--name-only", "-z", commit, "--", *FOLDERS], cwd=root, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return sources
    changed = [root / name for name in done.stdout.split("\0") if name]
    by = includers(root)
    wanted = {f if f.suffix == ".cpp" else source_of(f, by) for f in changed}
    return [s for s in sources if s in wanted]


def main():
    build, jobs, words = Path(sys.argv[1]).resolve(), int(sys.argv[2]), sys.argv[3:]
    commit = words[1] if words[0] == "--since" else None
    sources = [Path(s).resolve() for s in (words[2:] if commit else words)]
    if commit:
        every = len(sources)
        sources = changed_sources(ROOT, commit, sources)
        print(f"clang-tidy: {len(sources)} of {every} files changed since {commit}, or include what did")
        if not sources:
            return 0
    (build / "tidy").mkdir(exist_ok=True)
    version = subprocess.run([TIDY, "--version"], capture_output=True, check=True).stdout
    settings = version + (ROOT / ".clang-tidy").read_bytes()
    commands = commands_of(build)
    missing = [str(s.relative_to(ROOT)) for s in sources if s not in commands]
    with ThreadPoolExecutor(jobs) as pool:
        results = list(pool.map(lambda s: tidy(build, s, commands[s], settings), [s for s in sources if s in commands]))
    found = [text for _, text in results if text]
    print("".join(found), end="")
    if missing:
        print(f"clang-tidy: not compiled by this build, so not looked at: {' '.join(missing)}")
    if found or not results:
        return 1
    print(f"clang-tidy: clean, {sum(looked for looked, _ in results)} of {len(results)} files looked at, the others did not change")
    return 0


if __name__ == "__main__":
    sys.exit(main())
