// SPDX-License-Identifier: Apache-2.0
// Random problems for the reference of attention, and one of every scheme. Like all that tests of attention share, compiled once: the
// reference's variant of schemes takes seconds in every file that looks inside it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "attention/reference/reference.hpp"
#include "phasor/tensor_view.hpp"

namespace phasor::test {

namespace ref = attend::reference;

/// splitmix64: the same numbers everywhere.
class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : state_(seed) {}
  /// In [low, high).
  double uniform(double low = -1, double high = 1) {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return low + (high - low) * static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
  }
  ref::Values values(std::int64_t count, double low = -1, double high = 1) {
    ref::Values result(static_cast<std::size_t>(count));
    for (double& x : result) x = uniform(low, high);
    return result;
  }

 private:
  std::uint64_t state_;
};

/// A list as the tensor (1, 1, 1, N).
inline TensorView list_view(std::vector<double>& list) { return view(list.data(), {1, 1, 1, static_cast<std::int64_t>(list.size())}); }

ref::Problem random_problem(const ref::Shape& s, std::uint64_t seed);

struct NamedScheme {
  std::string name;
  ref::Scheme scheme;
  bool causal_only = false;
};

ref::TransformerXl random_xl(const ref::Shape& s, Numbers& random, ref::XlOrder order = ref::XlOrder::halves);
/// Distances -8 to 8.
ref::TransformerXl random_xl_table(const ref::Shape& s, Numbers& random);
ref::T5 random_t5(const ref::Shape& s, Numbers& random, bool both_sides);
ref::Xlnet random_xlnet(const ref::Shape& s, Numbers& random);
ref::Deberta random_deberta(const ref::Shape& s, Numbers& random, std::int64_t buckets, ref::DebertaReading reading);

/// Biases that are functions of the distance.
std::vector<NamedScheme> diagonal_schemes(const ref::Shape& s, Numbers& random);
/// Tables on the query, key and value side, grids, dense biases: whatever is no function of one distance.
std::vector<NamedScheme> table_schemes(const ref::Shape& s, Numbers& random);
std::vector<NamedScheme> rotary_schemes();
/// One of each; positions up to 7.
std::vector<NamedScheme> every_scheme(const ref::Shape& shape, std::uint64_t seed);

/// What a scheme has gradients by.
ref::Parameters parameters_of(ref::Scheme& scheme);

}  // namespace phasor::test
