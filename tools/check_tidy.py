#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""clang-tidy over sources, several at once: check_tidy.py BUILD JOBS [--since COMMIT | --all] [SOURCES...].

What a file is, with all its headers and the checks, is kept as a hash in BUILD/tidy once it was found clean, and not looked at again until it
changes. Without SOURCES: those of the library and of the tests' reference that changed since the commit that BUILD/tidy/clean names, which is
HEAD of the last clean run of this kind; where that file is missing, or names no ancestor, since the commit OLDEST first parents back (all of
them where history is shorter). --since names another commit, --all looks at all of them. A changed header brings one source that includes it;
a change of #include lines alone, as when files move, brings nothing. Named SOURCES are all looked at."""
import argparse
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
FOLDERS = ("src", "cli", "include", "tests/attention/reference")
OLDEST = 10
HEAVY = ("cli/parser.cpp", "cli/json.cpp")  # half a minute each: they include CLI11 and nlohmann-json
ELSEWHERE = "src/one_target/"  # Emscripten compiles it, for the playground alone


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


def tidy(build, source, database, command, settings):
    """Whether the source was looked at, and what is wrong with it: nothing where it is clean."""
    stamp = build / "tidy" / hashlib.sha256(settings + content_of(*command)).hexdigest()
    if stamp.exists():
        return False, ""
    done = subprocess.run([TIDY, "--quiet", "-p", database, source], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        stamp.touch()
        return True, ""
    return True, done.stdout + done.stderr or f"{source}: {TIDY} ended with status {done.returncode}\n"


def includers(root):
    """Which files of FOLDERS include a file, by its path."""
    found = {}
    for file in sorted(f for folder in FOLDERS for f in (root / folder).rglob("*.[chi]*") if f.is_file()):
        for name in re.findall(r'^\s*#\s*include\s*"([^"]+)"', file.read_text(encoding="utf-8"), re.MULTILINE):
            for base in (file.parent, root / "src", root / "cli", root / "include", root / "tests"):
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


def git(root, *words):
    """What git says, nothing where it fails."""
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def last_clean(root, stamp):
    """The commit to look from: the one that was found clean, else the one OLDEST first parents back, else none."""
    if stamp.exists():
        commit = stamp.read_text(encoding="utf-8").strip()
        if git(root, "merge-base", "--is-ancestor", commit, "HEAD") is not None:
            return commit
    return (git(root, "rev-parse", "--verify", "--quiet", f"HEAD~{OLDEST}") or "").strip() or None


def changed_sources(root, commit, sources):
    """What of the sources is to be looked at again after a commit; all of them where git does not know it."""
    diff = git(root, "-c", "core.quotePath=off", "diff", "--no-ext-diff", "-M", "-U0", "-I", r"^[ \t]*#[ \t]*include", commit, "--", *FOLDERS)
    if diff is None:
        return sources
    changed = [root / name for name in re.findall(r"^\+\+\+ b/(.*?)\t?$", diff, re.MULTILINE)]
    by = includers(root)
    wanted = {f if f.suffix == ".cpp" else source_of(f, by) for f in changed}
    return [s for s in sources if s in wanted]


def sources_of(root, build, options):
    """The sources to look at."""
    if options.sources:
        return [Path(s).resolve() for s in options.sources]
    names = (git(root, "ls-files", "src/*.cpp", "cli/*.cpp", "tests/attention/reference/*.cpp") or "").split()
    sources = [root / name for name in names if name not in HEAVY and not name.startswith(ELSEWHERE)]
    commit = None if options.all else options.since or last_clean(root, build / "tidy" / "clean")
    if commit is None:
        return sources
    chosen = changed_sources(root, commit, sources)
    print(f"clang-tidy: {len(chosen)} of {len(sources)} files changed since {commit}, or include what did")
    return chosen


def look(root, build, sources, jobs):
    """Looks at every source; whether all are clean."""
    version = subprocess.run([TIDY, "--version"], capture_output=True, check=True).stdout
    settings = version + (root / ".clang-tidy").read_bytes()
    # Builds compile the sources of a folder as one file: their own commands are in the preset that compiles each alone.
    databases = [d for d in (build.parent / "alone", build) if (d / "compile_commands.json").exists()]
    commands = {source: (d, command) for d in databases for source, command in commands_of(d).items()}
    missing = [str(s.relative_to(root)) for s in sources if s not in commands]
    with ThreadPoolExecutor(jobs) as pool:
        results = list(pool.map(lambda s: tidy(build, s, *commands[s], settings), [s for s in sources if s in commands]))
    found = [text for _, text in results if text]
    print("".join(found), end="")
    if missing:
        print(f"clang-tidy: compiled by no build, so not looked at: {' '.join(missing)}")
    if found or missing:
        return False
    print(f"clang-tidy: clean, {sum(looked for looked, _ in results)} of {len(results)} files looked at, the others did not change")
    return True


def main(words, root=ROOT):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("jobs", type=int)
    parser.add_argument("--since")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("sources", nargs="*")
    options = parser.parse_args(words)
    build = options.build.resolve()
    (build / "tidy").mkdir(exist_ok=True)
    if not look(root, build, sources_of(root, build, options), options.jobs):
        return 1
    if not options.sources and not options.since:
        (build / "tidy" / "clean").write_text(git(root, "rev-parse", "HEAD") or "", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
