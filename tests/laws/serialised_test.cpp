// SPDX-License-Identifier: Apache-2.0
// Laws of specs as text: whatever the spec, its text reads back as every bit of it, and so do its binary form and its integers.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "bias_specs.hpp"
#include "laws/axes.hpp"
#include "spec_bits.hpp"

namespace phasor::laws {
namespace {

template <class Spec>
void comes_back(const Spec& spec) {
  const auto text = spec_to_json(spec);
  RC_ASSERT(text.status().message() == "");
  const auto integers = integers_of_json(*text);
  RC_ASSERT(*json_of_integers(*integers) == *text);
  const auto back = spec_from_json(*text);
  RC_ASSERT(back.status().message() == "");
  RC_ASSERT(test::bits(*back) == test::bits(spec));
  RC_ASSERT(*std::visit([](const auto& one) { return spec_to_json(one); }, *back) == *text);
  const auto unpacked = spec_from_cbor(*cbor_of_json(*text));
  RC_ASSERT(unpacked.status().message() == "");
  RC_ASSERT(test::bits(*unpacked) == test::bits(spec));
}

/// Any finite double below 2^64, the smallest and zeros of both signs included.
double any_double() {
  const double x = std::bit_cast<double>(*rc::gen::arbitrary<std::uint64_t>());
  const double near = std::isfinite(x) ? x : 0.0;
  return std::fabs(near) < 0x1p64 ? near : std::ldexp(near, -960);
}

RC_GTEST_PROP(SerialisedLaws, a_rotary_spec_comes_back, ()) { comes_back(*any_spec()); }

RC_GTEST_PROP(SerialisedLaws, a_rotary_spec_of_several_axes_comes_back, ()) { comes_back((*any_axes_case()).base.spec); }

RC_GTEST_PROP(SerialisedLaws, every_double_comes_back, ()) {
  std::vector<double> frequencies(8);
  for (double& x : frequencies) x = any_double();
  comes_back(RotarySpec{.head_dim = 16, .scaling = GivenFrequencies{.frequencies = std::move(frequencies)}});
}

RC_GTEST_PROP(SerialisedLaws, a_bias_comes_back_with_any_table, ()) {
  BiasSpec spec = (*rc::gen::elementOf(test::every_bias())).spec;
  if (auto* shaw = std::get_if<ShawClip>(&spec); shaw != nullptr) {
    for (double& x : shaw->table) x = any_between(-1e3, 1e3) / 3;
  }
  comes_back(spec);
}

RC_GTEST_PROP(SerialisedLaws, any_text_comes_back_from_its_integers, (const std::string& text)) {
  RC_ASSERT(*json_of_integers(*integers_of_json(text)) == text);
}

}  // namespace
}  // namespace phasor::laws
