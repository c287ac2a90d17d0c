#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what says again what --help says: the completions for bash and zsh, and the man page. Arguments: the tool, --check to compare only."""
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
OPTION = re.compile(r"^  (?:(-\w),)?(--[\w-]+)((?: (?:TEXT|INT|FLOAT)(?: \.\.\.)?)?)(?: (?:REQUIRED|Excludes:[^ ]*(?: --[\w-]+)*))*\s{2,}(.*)$")
NAME = re.compile(r"^  ([a-z]+)\s{2,}(.*)$")
CHOICES = re.compile(r": ([\w.-]+(?:, [\w.-]+)+)$")
MODELS = re.compile(r"a GGUF file, or ([\w.-]+(?:, [\w.-]+)+)$")  # as model_words of cli/models.cpp says it
SHARED = "The encoding"


class Option(NamedTuple):
    short: str
    name: str
    takes: str
    text: str
    group: str

    def choices(self):
        found = CHOICES.search(self.text)
        return found[1].split(", ") if found and self.takes else []


def models_of(text):
    """Names of built-in models, where a model is taken by its file or by its name."""
    found = MODELS.search(text)
    return found[1].split(", ") if found else []


class Command(NamedTuple):
    words: list
    text: str
    options: list
    positionals: list
    commands: list
    footer: str

    def models(self):
        return sorted({name for _, text in self.positionals for name in models_of(text)})


def parse(tool, words):
    """The command `phasor words`, and those below it."""
    shown = subprocess.run([tool, *words, "--help"], capture_output=True, text=True, check=True).stdout
    # A long name has its words on the next line.
    shown = re.sub(r"^(  -\S.*\S)\n {20,}", r"\1  ", shown, flags=re.MULTILINE).splitlines()
    text, group, options, positionals, names = shown[0], "", [], [], []
    for i, line in enumerate(shown):
        if line.startswith("Example") or (group and line and not line.startswith(" ") and not line.endswith(":")):
            break
        if line.endswith(":") and not line.startswith(" "):
            group = line[:-1]
        elif group == "Subcommands" and NAME.match(line):
            names.append(NAME.match(line)[1])
        elif group == "Positionals" and line.startswith("  "):
            positionals.append(re.match(r"  (\w+) TEXT(?: REQUIRED)?\s+(.*)", line).groups())
        elif found := OPTION.match(line):
            options.append(Option(found[1] or "", found[2], found[3].strip(), found[4], group))
        elif line.startswith("  -"):
            raise SystemExit(f"{' '.join(words)}: not understood: {line}")
    commands = [parse(tool, [*words, name]) for name in names]
    return Command(words, text, options, positionals, commands, "\n".join(shown[i:]))


def leaves(command):
    yield command
    for below in command.commands:
        yield from leaves(below)


def words_of(command):
    return [c.words[-1] for c in command.commands] + [word for o in command.options for word in (o.short, o.name) if word]


def bash(top):
    out = ["# SPDX-License-Identifier: Apache-2.0", "# Completion of phasor in bash. Made by tools/make_cli_docs.py from --help.", "_phasor() {",
           '  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command="" words="" files="" i',
           "  for ((i = 1; i < COMP_CWORD; ++i)); do", '    case "$command ${COMP_WORDS[i]}" in']
    names = [" ".join(["", *c.words]) for c in leaves(top) if c.words]
    out.append("      " + "|".join(f'"{name}"' for name in names) + ') command="$command ${COMP_WORDS[i]}" ;;')
    out += ["    esac", "  done", '  case "$command $previous" in']
    for command in leaves(top):
        for option in command.options:
            name = " ".join(["", *command.words, option.name])
            if models_of(option.text):
                out.append(f'    "{name}") COMPREPLY=($(compgen -W "{" ".join(models_of(option.text))}" -- "$current") $(compgen -f -- "$current")); return ;;')
            elif option.choices():
                out.append(f'    "{name}") words="{" ".join(option.choices())}" ;;')
            elif option.takes:
                keys = [f'"{name}"'] + ([f'"{" ".join(["", *command.words, option.short])}"'] if option.short else [])
                out.append(f"    {'|'.join(keys)}) COMPREPLY=($(compgen -f -- \"$current\")); return ;;")
    out += ["    *)", '      case "$command" in']
    for command in leaves(top):
        out.append(f'        "{" ".join(["", *command.words]) if command.words else ""}") words="{" ".join(words_of(command) + command.models())}"{" files=1" if command.models() else ""} ;;')
    out += ["      esac ;;", "  esac", '  COMPREPLY=($(compgen -W "$words" -- "$current"))',
            '  [[ $current == -* || -z $files && ${#COMPREPLY[@]} -gt 0 ]] || COMPREPLY+=($(compgen -f -- "$current"))', "}",
            "complete -o filenames -F _phasor phasor"]
    return "\n".join(out) + "\n"


def zsh_quoted(text):
    return text.replace("'", "").replace("[", "(").replace("]", ")").replace(":", "\\:")


def zsh(top):
    out = ["#compdef phasor", "# SPDX-License-Identifier: Apache-2.0", "# Completion of phasor in zsh. Made by tools/make_cli_docs.py from --help."]
    names = sorted({name for command in leaves(top) for name in command.models()})
    out += ["", "_phasor_name_or_file() {", f"  _alternative 'models:built-in model:({' '.join(names)})' 'files:file:_files'", "}"]
    for command in leaves(top):
        function = "_".join(["_phasor", *command.words]) if command.words else "_phasor_top"
        out += ["", f"{function}() {{"]
        if command.commands:
            out += ["  local -a commands=("] + [f"    '{c.words[-1]}:{zsh_quoted(c.text)}'" for c in command.commands] + ["  )"]
        out.append("  _arguments -C \\")
        for o in command.options:
            after = ":value:_phasor_name_or_file" if models_of(o.text) else f":value:({' '.join(o.choices())})" if o.choices() else ":value:_files" if o.takes else ""
            for word in filter(None, (o.short, o.name)):
                out.append(f"    '{word}[{zsh_quoted(o.text)}]{after}' \\")
        if command.commands:
            out += ["    '1:command:->command' '*::argument:->arguments'",
                    "  case $state in", "    command) _describe command commands ;;",
                    f"    arguments) (( $+functions[{'_'.join(['_phasor', *command.words])}_$words[1]] )) && {'_'.join(['_phasor', *command.words])}_$words[1] ;;",
                    "  esac"]
        else:
            out.append(f"    '*:file:{'_phasor_name_or_file' if command.models() else '_files'}'")
        out.append("}")
    return "\n".join([*out, "", '_phasor_top "$@"']) + "\n"


def roff(text):
    return re.sub(r"^([.'])", r"\\&\1", text.replace("\\", "\\e").replace("-", "\\-"), flags=re.MULTILINE)


def option_lines(options):
    out = []
    for o in options:
        name = ", ".join(filter(None, (o.short, o.name)))
        out += [".TP", f".B {roff(name)}" + (f" \\fI{roff(o.takes)}\\fR" if o.takes else ""), roff(o.text)]
    return out


def man(top):
    out = ['.\\" SPDX-License-Identifier: Apache-2.0', '.\\" Made by tools/make_cli_docs.py from --help.', '.TH PHASOR 1 "" "phasor" "User Commands"',
           ".SH NAME", "phasor \\- position encodings for Transformers, exact at every position", ".SH SYNOPSIS",
           ".B phasor", "\\fICOMMAND\\fR [\\fIOPTIONS\\fR]", ".SH DESCRIPTION", roff(top.text), ".SH COMMANDS"]
    for command in leaves(top):
        if not command.words:
            continue
        places = "".join(f" \\fI{name}\\fR" for name, _ in command.positionals)
        out += [f".SS phasor {' '.join(command.words)}{places}", roff(command.text)]
        for name, text in command.positionals:
            out += [".TP", f"\\fI{name}\\fR", roff(text)]
        out += option_lines([o for o in command.options if o.group != SHARED and o.name != "--help"])
        if any(o.group == SHARED for o in command.options):
            out += [".PP", "Takes the encoding options below" + (" and \\fB\\-\\-against\\fR." if any(o.name == "--against" for o in command.options) else ".")]
        out += [".PP", ".nf", roff(command.footer), ".fi"]
    shared = {o.name: o for c in leaves(top) for o in c.options if o.group == SHARED}
    out += [".SH ENCODING OPTIONS", *option_lines(shared.values())]
    out += [".SH EXIT STATUS", "0 good; 1 failed (diff: something that matters differs); 2 used wrongly.", ".SH ENVIRONMENT", ".TP", ".B PHASOR_TARGET",
            "The instruction set to use, one of those that phasor targets lists.", ".TP", ".B NO_COLOR", "Set and not empty: no colour on a terminal."]
    return "\n".join(out) + "\n"


def main():
    tool, check = sys.argv[1], "--check" in sys.argv[2:]
    top = parse(tool, [])
    stale = []
    for name, text in {"completions/phasor.bash": bash(top), "completions/_phasor": zsh(top), "man/phasor.1": man(top)}.items():
        file = ROOT / name
        if check:
            stale += [name] if not file.exists() or file.read_text(encoding="utf-8") != text else []
        else:
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
    if stale:
        print(f"{', '.join(stale)}: not what --help says, wanted tools/make_cli_docs.py run again")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
