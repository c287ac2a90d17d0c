# SPDX-License-Identifier: Apache-2.0
"""What the packages say of themselves agrees with the build, and what cannot be built here (vcpkg, hosted workflows) is at least well formed."""
import json
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PORT = ROOT / "packaging" / "vcpkg" / "ports" / "phasor"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
VERSION = re.search(r"project\(phasor VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"))[1]

# vcpkg's functions, as far as the port calls them: each writes its name and what it was given. One that is not here is an error of CMake.
FUNCTIONS = """
cmake_minimum_required(VERSION 3.25)
function(note name)
  list(JOIN ARGN " " words)
  file(APPEND "${CALLS}" "${name} ${words}\\n")
endfunction()
function(vcpkg_check_features)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "OUT_FEATURE_OPTIONS" "FEATURES")
  note(vcpkg_check_features ${arg_FEATURES})
  set(${arg_OUT_FEATURE_OPTIONS} -DFEATURES_WERE_ASKED=ON PARENT_SCOPE)
endfunction()
foreach(name vcpkg_cmake_configure vcpkg_cmake_install vcpkg_cmake_config_fixup vcpkg_fixup_pkgconfig vcpkg_copy_tools vcpkg_install_copyright)
  cmake_language(EVAL CODE "function(${name})\\nnote(${name} \\${ARGN})\\nendfunction()")
endforeach()
"""
# The fields that vcpkg documents (its reference of vcpkg.json), as far as a port has them.
FIELDS = {"name": str, "version": str, "description": (str, list), "license": str, "supports": str, "homepage": str, "documentation": str,
          "port-version": int, "maintainers": (str, list), "dependencies": list, "features": dict, "default-features": list}
IDENTIFIER = re.compile(r"^[a-z0-9]+(-[a-z0-9]+)*$")


def text_of(*parts):
    return ROOT.joinpath(*parts).read_text(encoding="utf-8")


class Vcpkg(unittest.TestCase):
    def setUp(self):
        self.manifest = json.loads((PORT / "vcpkg.json").read_text(encoding="utf-8"))

    def run_port(self, features):
        """The calls that the port makes, by name."""
        with tempfile.TemporaryDirectory() as folder:
            script, calls = Path(folder) / "run.cmake", Path(folder) / "calls"
            script.write_text(FUNCTIONS + f'set(CALLS "{calls}")\nset(PORT phasor)\nset(FEATURES {";".join(features)})\n'
                              f'set(CURRENT_PACKAGES_DIR "{folder}/packages")\ninclude("{PORT}/portfile.cmake")\n', encoding="utf-8")
            done = subprocess.run(["cmake", "-P", script], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue((Path(folder) / "packages" / "share" / "phasor" / "usage").is_file())
            return dict(line.split(" ", 1) for line in calls.read_text(encoding="utf-8").splitlines())

    def test_the_manifest_has_the_fields_that_vcpkg_documents(self):
        for name, value in self.manifest.items():
            self.assertIn(name, FIELDS)
            self.assertIsInstance(value, FIELDS[name], name)
        features = self.manifest["features"]
        self.assertLessEqual(set(self.manifest["default-features"]), set(features))
        lists = [self.manifest["dependencies"], *(f.get("dependencies", []) for f in features.values())]
        for dependency in (d for each in lists for d in each):
            name = dependency if isinstance(dependency, str) else dependency["name"]
            self.assertRegex(name, IDENTIFIER)
        for feature in features.values():
            self.assertLessEqual(set(feature), {"description", "dependencies", "supports"})

    def test_the_port_runs_and_its_features_are_options_of_the_build(self):
        calls = self.run_port(["core", "tool"])
        words = calls["vcpkg_check_features"].split()
        self.assertEqual(set(words[::2]), set(self.manifest["features"]))
        for option in words[1::2]:
            self.assertIn(f"option({option} ", text_of("CMakeLists.txt"))
        self.assertEqual(calls["vcpkg_cmake_configure"], f"SOURCE_PATH {ROOT} OPTIONS -DFEATURES_WERE_ASKED=ON")
        self.assertEqual(calls["vcpkg_install_copyright"], f"FILE_LIST {ROOT}/LICENSE {ROOT}/packaging/THIRD_PARTY_LICENSES.txt")
        self.assertTrue((ROOT / "packaging" / "THIRD_PARTY_LICENSES.txt").is_file())
        self.assertIn("vcpkg_copy_tools", calls)
        self.assertNotIn("vcpkg_copy_tools", self.run_port(["core"]))

    def test_every_header_that_is_asked_for_is_a_dependency(self):
        text = text_of("cmake", "third_party.cmake")
        ports = {"hwy": "highway", "boost": "boost-multiprecision", "fmt": "fmt", "nlohmann": "nlohmann-json", "CLI": "cli11"}
        library = re.search(r"set\(probes ([^)]*)\)", text)[1].split()
        tool = re.search(r"PHASOR_BUILD_CLI\)\s*list\(APPEND probes ([^)]*)\)", text)[1].split()
        self.assertEqual({ports[p.split("/")[0]] for p in library}, {d for d in self.manifest["dependencies"] if isinstance(d, str)})
        self.assertEqual([ports[p.split("/")[0]] for p in tool], self.manifest["features"]["tool"]["dependencies"])


class Versions(unittest.TestCase):
    def test_every_package_has_the_version_of_the_build(self):
        self.assertTrue(text_of("packaging", "debian", "changelog").startswith(f"phasor ({VERSION}-"))
        self.assertEqual(json.loads(text_of("packaging", "vcpkg", "ports", "phasor", "vcpkg.json"))["version"], VERSION)

    def test_the_symbols_of_debian_are_those_of_the_map(self):
        blocks = re.findall(r"^(PHASOR_\S+) \{", text_of("c", "phasor.map"), re.MULTILINE)
        self.assertEqual(re.findall(r"\(symver\)(\S+)", text_of("packaging", "debian", "libphasor-c0.symbols")), blocks)

    def test_what_debian_builds_with_is_what_setup_installs(self):
        control = text_of("packaging", "debian", "control")
        needed = {re.sub(r" \(.*", "", p.strip()) for p in re.search(r"Build-Depends:((?:.|\n )*)", control)[1].split(",")}
        build = re.search(r'local build="([^"]*)"', text_of("tools", "setup.sh"))[1].split()
        self.assertEqual(needed - {"debhelper-compat"}, set(build) - {"g++", "make", "ccache"})


class Workflows(unittest.TestCase):
    """What they run is here; their form is checked by tools/packages/workflows.sh."""

    def test_actions_are_pinned_to_commits(self):
        self.assertTrue(WORKFLOWS)
        uses = [u for w in WORKFLOWS for u in re.findall(r"uses: *(.*)", w.read_text(encoding="utf-8"))]
        self.assertTrue(uses)
        for use in uses:
            self.assertRegex(use, r"^[\w-]+/[\w-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+$")

    def test_targets_and_scripts_exist(self):
        makefile = text_of("Makefile")
        targets = {t for w in WORKFLOWS for t in re.findall(r"\bmake ([a-z-]+)(?:$|\s)", re.sub(r"#.*", "", w.read_text(encoding="utf-8")), re.MULTILINE)}
        self.assertLessEqual({"test", "check", "test-packages"}, targets)
        for target in targets:
            self.assertRegex(makefile, rf"(?m)^{target}:", target)
        for workflow in WORKFLOWS:
            for script in re.findall(r"\btools/[\w/]+\.(?:sh|py)", workflow.read_text(encoding="utf-8")):
                self.assertTrue((ROOT / script).exists(), script)


if __name__ == "__main__":
    unittest.main()
