// SPDX-License-Identifier: Apache-2.0
// The code of fmt that programs (the tool, the benchmarks) call, compiled once and with FMT_HEADER_ONLY: it takes 8 s, and libfmt itself,
// where a distribution has it, is a shared library that must not follow the tool into a wheel.
#include <fmt/format.h>

#include <cstdio>

namespace {

// Their addresses are wanted, so they are compiled; the linker then gives them to those who only saw their declarations.
[[gnu::used]] std::string (*const vformat)(fmt::string_view, fmt::format_args) = fmt::vformat;
[[gnu::used]] void (*const vprint_to)(std::FILE*, fmt::string_view, fmt::format_args) = fmt::vprint;
[[gnu::used]] void (*const vprint)(fmt::string_view, fmt::format_args) = fmt::vprint;

}  // namespace
