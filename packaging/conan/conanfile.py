# SPDX-License-Identifier: Apache-2.0
"""Phasor for Conan 2, from the sources around this file. What it compiles with (Highway, Boost, fmt, nlohmann-json: headers alone, and none of them in
what it installs) is the system's, so no recipe of another server is needed: conan create packaging/conan"""
import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rmdir

ROOT = os.path.join("..", "..")


class Phasor(ConanFile):
    name = "phasor"
    description = "Exact position encodings for Transformers"
    license = "Apache-2.0"
    topics = ("transformers", "attention", "rope", "position-encoding")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    # fPIC has no effect: the library is position-independent in any case, since libphasor_c holds it.
    options = {"shared": [True, False], "fPIC": [True, False], "with_openmp": [True, False]}
    default_options = {"shared": False, "fPIC": True, "with_openmp": True}
    implements = ["auto_shared_fpic"]

    def set_version(self):
        text = load(self, os.path.join(self.recipe_folder, ROOT, "CMakeLists.txt"))
        self.version = re.search(r"project\(phasor VERSION (\S+)", text)[1]

    def export_sources(self):
        root = os.path.join(self.recipe_folder, ROOT)
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "src/*", "c/*", "packaging/THIRD_PARTY_LICENSES.txt"):
            copy(self, pattern, root, self.export_sources_folder)

    def validate(self):
        if self.settings.get_safe("compiler.cppstd"):
            check_min_cppstd(self, 20)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["PHASOR_BUILD_CLI"] = False
        toolchain.cache_variables["PHASOR_OPENMP"] = bool(self.options.with_openmp)
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        for name in ("LICENSE", "packaging/THIRD_PARTY_LICENSES.txt"):
            copy(self, name, self.source_folder, os.path.join(self.package_folder, "licenses"), keep_path=False)
        rmdir(self, os.path.join(self.package_folder, "share", "doc"))  # the same licences, where CMake puts them
        # Conan writes its own from package_info.
        for folder in ("cmake", "pkgconfig"):
            rmdir(self, os.path.join(self.package_folder, "lib", folder))

    def package_info(self):
        library = self.cpp_info.components["phasor"]
        library.set_property("cmake_target_name", "phasor::phasor")
        library.set_property("pkg_config_name", "phasor")
        library.libs = ["phasor"]
        if self.options.with_openmp and not self.options.shared:
            library.exelinkflags = library.sharedlinkflags = ["-fopenmp"]
        c = self.cpp_info.components["c"]
        c.set_property("cmake_target_name", "phasor::c")
        c.set_property("pkg_config_name", "phasor_c")
        c.libs = ["phasor_c"]
