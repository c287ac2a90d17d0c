# SPDX-License-Identifier: Apache-2.0
"""Links between the pages lead somewhere, and the files that the pages for contributors name are there."""
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DESIGN = [ROOT / "HACKING.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs" / "design").glob("*.md"))]
# Where a path in backticks may begin.
BASES = [ROOT, ROOT / "src", ROOT / "python" / "phasor", ROOT / "tests", ROOT / "tests" / "python", ROOT / "tests" / "attention" / "reference"]
BUILT = re.compile(r"^(build|out|\.carry|_core)")


class Docs(unittest.TestCase):
    def test_links_lead_somewhere(self):
        pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
        broken = []
        for page in pages:
            for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
                if "://" not in target and not (page.parent / target).exists():
                    broken.append(f"{page.relative_to(ROOT)}: {target}")
        self.assertEqual(broken, [])

    def test_files_that_are_named_exist(self):
        missing = []
        for page in DESIGN:
            for name in re.findall(r"`([\w./-]+\.(?:cpp|hpp|inl|cu|py|sh|cmake|md|json))`", page.read_text(encoding="utf-8")):
                if BUILT.match(name) or name == "config.json" or "NAME" in name:
                    continue
                found = [base for base in BASES if (base / name).exists()]
                if not found and ("/" in name or not any(ROOT.glob(f"*/**/{name}"))):
                    missing.append(f"{page.relative_to(ROOT)}: {name}")
        self.assertEqual(missing, [])


if __name__ == "__main__":
    unittest.main()
