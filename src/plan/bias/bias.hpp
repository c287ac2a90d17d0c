// SPDX-License-Identifier: Apache-2.0
// The plan of a bias spec: slopes, thresholds of buckets, steps of cosines; and what follows from them at a distance.
#pragma once

#include <span>
#include <vector>

#include "math/phase/phase.hpp"
#include "phasor/bias.hpp"
#include "plan/bias/at_distance.hpp"
#include "plan/bias/source.hpp"

namespace phasor::plan {

struct BiasPlan {
  BiasSpec spec;  // as given
  std::int64_t heads = 0;
  std::int64_t rows = 0;
  std::int64_t parameters = 0;
  std::vector<double> slopes;            // Alibi
  std::vector<std::int64_t> thresholds;  // T5, DeBERTa: see buckets.hpp
  std::vector<math::Step> steps;         // Sandwich
  DeviceCopies copies;                   // of the lists, on devices
};

/// Checks the spec (spec/bias.hpp) and computes. Lets no exception out.
Result<BiasPlan> make_bias_plan(const BiasSpec& spec);

/// The same with other parameters, as many as it has, in the order of add_gradient. Lets no exception out.
Result<BiasPlan> with_parameters(const BiasPlan& plan, std::span<const double> parameters);

/// The same of a source, in two steps: numbers that cannot be are an error in the words of spec::check; then the source reads `numbers`,
/// which stay as long as it (ALiBi's are rounded there).
Status check_parameters(const BiasSource& bias, std::span<const double> numbers);
BiasSource with_parameters(const BiasSource& bias, std::span<double> numbers);

/// Some heads, and for FIRE the position of the query.
struct BiasSlice {
  std::int64_t first_head;
  std::int64_t heads;
  std::int64_t query_position;
};

/// Numbers that fill_values and add_gradient work in, for so many heads: none without a perceptron.
std::size_t scratch_size(const BiasSource& bias, std::int64_t heads);

/// The biases of some heads at some distances, (heads, N). Distances must lie inside a window where there is one. The first works in
/// `scratch`, the others in memory of their own.
void fill_values(const BiasSource& bias, const BiasSlice& slice, std::span<const std::int64_t> distances, std::span<double> out,
                 std::span<double> scratch) noexcept;
void fill_values(const BiasSource& bias, const BiasSlice& slice, std::span<const std::int64_t> distances, std::span<double> out);
void fill_values(const BiasPlan& plan, const BiasSlice& slice, std::span<const std::int64_t> distances, std::span<double> out);

/// FIRE in two steps, so that a row of its own costs no logarithm a key: psi of every distance, then the values of one query.
std::vector<double> fire_psi(const FireCurve& fire, std::span<const std::int64_t> distances);
std::vector<double> fire_psi(const Fire& fire, std::span<const std::int64_t> distances);
void fill_fire(const BiasSource& bias, const BiasSlice& slice, std::span<const double> psi, std::span<double> out);

/// Adds the gradient of the parameters to `sum`, from that of the values above. The first works in `scratch`, the others in memory of
/// their own.
struct BiasGradient {
  std::span<const std::int64_t> distances;
  std::span<const double> gradient;  // (heads, N)
  std::span<double> sum;
};
void add_gradient(const BiasSource& bias, const BiasSlice& slice, const BiasGradient& gradient, std::span<double> scratch) noexcept;
void add_gradient(const BiasSource& bias, const BiasSlice& slice, const BiasGradient& gradient);
void add_gradient(const BiasPlan& plan, const BiasSlice& slice, const BiasGradient& gradient);

}  // namespace phasor::plan
