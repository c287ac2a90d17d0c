# SPDX-License-Identifier: Apache-2.0
"""The check scripts fail on what they are there to find, and on nothing else."""
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import budgets  # noqa: E402
import check_formulas  # noqa: E402
import check_includes  # noqa: E402


class PlantedTree(unittest.TestCase):
    def plant(self, **files):
        """A tree of files, named folder__file_ext, in a fresh directory."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name, text in files.items():
            stem, ext = name.rsplit("_", 1)
            path = Path(folder.name) / (stem.replace("__", "/") + "." + ext)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return Path(folder.name)


class Includes(PlantedTree):
    def test_a_reversed_dependency_is_found_with_its_line(self):
        root = self.plant(src__math__phase_hpp='// first\n#include "plan/rotary.hpp"\n', src__plan__rotary_hpp="")
        self.assertEqual(check_includes.violations(root), ["src/math/phase.hpp:2: includes plan/rotary.hpp, math may not see plan"])

    def test_a_reversed_dependency_through_a_relative_path_is_found(self):
        root = self.plant(src__math__phase_hpp='#include "../ops/x.hpp"\n', src__ops__x_hpp="")
        self.assertEqual(len(check_includes.violations(root)), 1)

    def test_backends_do_not_see_each_other(self):
        root = self.plant(src__cpu__x_cpp='#include "cuda/x.hpp"\n', src__cuda__x_hpp="")
        self.assertEqual(len(check_includes.violations(root)), 1)

    def test_a_surface_does_not_see_the_inside(self):
        root = self.plant(cli__main_cpp='#include "math/phase.hpp"\n', src__math__phase_hpp="")
        self.assertEqual(len(check_includes.violations(root)), 1)

    def test_a_public_header_does_not_see_the_inside(self):
        root = self.plant(include__phasor__rotary_hpp='#include "plan/rotary.hpp"\n', src__plan__rotary_hpp="")
        self.assertEqual(len(check_includes.violations(root)), 1)

    def test_the_tool_and_the_page_see_figures_and_not_each_other(self):
        root = self.plant(figures__f_hpp='#include "phasor/rotary.hpp"\n', include__phasor__rotary_hpp="", cli__m_hpp="",
                          cli__a_cpp='#include "figures/f.hpp"\n', web__a_cpp='#include "figures/f.hpp"\n#include "cli/m.hpp"\n')
        self.assertEqual(check_includes.violations(root), ["web/a.cpp:2: includes cli/m.hpp, web may not see cli"])

    def test_figures_see_the_library_only(self):
        root = self.plant(figures__f_cpp='#include "cli/m.hpp"\n#include "plan/x.hpp"\n', cli__m_hpp="", src__plan__x_hpp="")
        self.assertEqual(len(check_includes.violations(root)), 2)

    def test_a_folder_that_is_no_stage_is_found(self):
        self.assertEqual(len(check_includes.violations(self.plant(src__utils__x_hpp=""))), 1)

    def test_the_right_direction_passes(self):
        root = self.plant(src__ops__x_cpp='#include <vector>\n#include "hwy/highway.h"\n#include "cpu/x.hpp"\n#include "phasor/rotary.hpp"\n',
                          src__cpu__x_hpp='#include "job/x.hpp"\n#include "math/x.inl"\n', cli__main_cpp='#include <phasor/phasor.hpp>\n#include "demo.hpp"\n',
                          cli__demo_hpp="")
        self.assertEqual(check_includes.violations(root), [])


class Formulas(PlantedTree):
    def test_each_function_is_found_in_each_folder(self):
        for folder in check_formulas.FOLDERS:
            for call in ["sin(", "cosf(", "std::exp(", "pow(", "::sqrtf("]:
                root = self.plant(**{folder.replace("/", "__") + "__x_cpp": f"double y =\n  {call}x);\n"})
                self.assertEqual(len(check_formulas.violations(root)), 1, f"{call} in {folder}")

    def test_a_formula_after_a_string_with_slashes_is_found(self):
        root = self.plant(cli__x_cpp='f("a // b", cos(x));\n')
        self.assertEqual(len(check_formulas.violations(root)), 1)

    def test_a_formula_between_digit_separators_is_found(self):
        root = self.plant(cli__x_cpp="f(1'000, cos(x), 1'000);  // it's\n")
        self.assertEqual(len(check_formulas.violations(root)), 1)

    def test_comments_longer_names_and_the_places_for_formulas_pass(self):
        root = self.plant(src__cpu__x_cpp="// cos(x)\n/* sin(\n exp( */ fill_cos_sin(x); arccos(y);\n", src__math__x_hpp="cos(x)",
                          python__x_py="# sqrt(2)\nrope.cos_sin(p)\n")
        self.assertEqual(check_formulas.violations(root), [])


class Budgets(PlantedTree):
    def test_functions_have_their_lines_and_parameters(self):
        text = ("template <class T>\nStatus apply(const T& a, std::map<int, int> b, int c = f(1, 2)) const {\n  if (a) {\n    return [&](int i) { return i; }(b);\n  }\n}\n"
                "struct S {\n  S() : x_(1), y_{2} {}\n};\nint main() {\n}\n")
        self.assertEqual([(f.name, f.lines, f.parameters) for f in budgets.functions_of(text)], [("apply", 5, 3), ("S", 1, 0), ("main", 2, 0)])

    def test_too_long_a_function_is_marked(self):
        root = self.plant(src__ops__x_cpp="void f() {\n" + "  g();\n" * 70 + "}\n")
        self.assertTrue(any("OVER" in line and "function" in line for line in budgets.report(root)))

    def test_too_full_a_folder_is_marked_and_recorded_data_is_not(self):
        root = self.plant(**{f"src__ops__x{i}_cpp": "" for i in range(21)}, **{f"tests__golden__x{i}_hpp": "" for i in range(30)},
                          **{f"src__math__x{i}_hpp": "" for i in range(20)})
        self.assertEqual([line.split() for line in budgets.report(root) if "folder" in line], ["OVER folder, source files 21 of 20 src/ops".split()])

    def test_a_cached_setting_is_an_option(self):
        root = self.plant(CMakeLists_txt="option(PHASOR_A \"a\" OFF)\nset(PHASOR_B 1)\n",
                          tests__programs_cmake='set(PHASOR_C "" CACHE PATH "c")\nset(sources a)\nset(OTHER "" CACHE PATH "d")\n')
        self.assertEqual([line.split()[-2:] for line in budgets.report(root) if "CMake options" in line], [["PHASOR_A", "PHASOR_C"]])


if __name__ == "__main__":
    unittest.main()
