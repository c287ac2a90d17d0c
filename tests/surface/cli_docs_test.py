#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Completions and the man page say what --help says, and work. Arguments: the tool, the checkout."""
import importlib.util
import subprocess
import sys
import unittest
from pathlib import Path

TOOL, ROOT = sys.argv[1], Path(sys.argv[2])
SPEC = importlib.util.spec_from_file_location("make_cli_docs", ROOT / "tools" / "make_cli_docs.py")
DOCS = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(DOCS)


def completed(*words):
    """What bash offers for the last of the words."""
    script = f'source "$1"; shift; COMP_WORDS=(phasor "$@"); COMP_CWORD=$#; _phasor; printf "%s\\n" "${{COMPREPLY[@]}}"'
    return subprocess.run(["bash", "-c", script, "bash", ROOT / "completions" / "phasor.bash", *words], capture_output=True, text=True, check=True).stdout.split()


class Documents(unittest.TestCase):
    def test_they_are_made_from_this_help(self):
        done = subprocess.run([sys.executable, ROOT / "tools" / "make_cli_docs.py", TOOL, "--check"], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_every_command_and_option_is_in_them(self):
        texts = [(ROOT / name).read_text(encoding="utf-8") for name in ("completions/phasor.bash", "completions/_phasor", "man/phasor.1")]
        commands = list(DOCS.leaves(DOCS.parse(TOOL, [])))
        self.assertGreater(len(commands), 18)
        for command in commands:
            for text in texts:
                plain = text.replace("\\-", "-")
                self.assertTrue(all(word in plain for word in command.words))
                self.assertTrue(all(option.name in plain for option in command.options if option.name not in ("--help", "--version")))

    def test_bash_completes_commands_options_and_values(self):
        self.assertEqual(completed("pl"), ["plot", "plan", "playground"])
        self.assertEqual(completed("plot", "s"), ["similarity", "sinusoid", "scaling"])
        self.assertEqual(completed("plot", "decay", "--dist"), ["--distances"])
        self.assertEqual(completed("table", "--scaling", "l"), ["linear", "llama3", "longrope"])
        for words in (["explain", "l"], ["diff", "config.json", "l"], ["export", "l"], ["report", "l"], ["table", "--model", "l"], ["permute", "--config", "l"]):
            self.assertEqual([word for word in completed(*words) if word.startswith("llama")], ["llama2", "llama3.1"], words)
        for words in (["explain"], ["table", "--model"]):
            self.assertEqual(completed(*words, str(ROOT / "READ")), [str(ROOT / "README.md")])
        self.assertEqual(completed("report", str(ROOT / "READ")), [str(ROOT / "README.md")])

    def test_zsh_reads_its_completion(self):
        done = subprocess.run(["zsh", "-n", ROOT / "completions" / "_phasor"], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_the_man_page_is_clean(self):
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", ROOT / "man" / "phasor.1"], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
