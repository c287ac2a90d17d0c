// SPDX-License-Identifier: Apache-2.0
// Validation of a bias spec, and the extents that follow from it.
#pragma once

#include <span>
#include <string_view>

#include "phasor/bias.hpp"

namespace phasor::spec {

/// An error says which field, what it is, what is wanted: "T5Buckets: max_distance is 8, wanted more than 8, ...".
Status check(const BiasSpec& spec);

/// Numbers of a scheme that learn, by themselves, in the words of check: a list, or one number.
struct NamedNumbers {
  std::string_view scheme;
  std::string_view field;
  std::span<const double> values;
  bool is_list = true;
};
enum class NumberRule : std::uint8_t { finite, positive, power };
Status check_numbers(const NamedNumbers& numbers, NumberRule rule);

/// The following are of specs that check has seen.
std::int64_t heads_of(const BiasSpec& spec);
/// Rows of the scheme's table; 0: it has none.
std::int64_t table_rows(const BiasSpec& spec);
std::int64_t parameter_count(const BiasSpec& spec);
/// The trained window, or the window itself where none is given.
Window trained_window(const SwinV2& s);

/// Buckets of one side.
inline std::int64_t side_buckets(const T5Buckets& s) { return s.sides == BucketSides::both ? s.buckets / 2 : s.buckets; }
constexpr std::int64_t window_rows(const Window& w) { return (2 * w.height - 1) * (2 * w.width - 1); }

}  // namespace phasor::spec
