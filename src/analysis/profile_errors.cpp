// SPDX-License-Identifier: Apache-2.0
// How far off the tables of each numerics profile are at a position, against the exact ones.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "analysis/table.hpp"
#include "phasor/analysis.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor {
namespace {

using analysis::Table;
using analysis::table_at;

double largest_difference(const Table<float>& is, const Table<double>& truth) {
  double largest = 0;
  for (std::size_t i = 0; i < truth.cos.size(); ++i) {
    largest = std::max({largest, std::abs(is.cos[i] - truth.cos[i]), std::abs(is.sin[i] - truth.sin[i])});
  }
  return largest;
}

Result<Rotary> with_numerics(RotarySpec spec, Numerics numerics) {
  spec.numerics = numerics;
  return Rotary::make(spec);
}

/// None where the peer has no such scaling.
std::optional<double> error_of(const Result<Rotary>& profile, const Table<double>& truth, std::int64_t position) {
  if (!profile.ok()) return std::nullopt;
  const auto table = table_at<float>(*profile, position);
  return table.ok() ? std::optional<double>(largest_difference(*table, truth)) : std::nullopt;
}

Result<std::vector<ProfileError>> errors(const RotarySpec& spec, std::span<const std::int64_t> positions) {
  const Result<Rotary> exact = with_numerics(spec, Numerics::exact);
  if (!exact.ok()) return exact.status();
  const Result<Rotary> hf = with_numerics(spec, Numerics::hf);
  const Result<Rotary> vllm = with_numerics(spec, Numerics::vllm);
  const Result<Rotary> ggml = with_numerics(spec, Numerics::ggml);
  std::vector<ProfileError> list;
  list.reserve(positions.size());
  for (const std::int64_t position : positions) {
    const auto truth = table_at<double>(*exact, position);
    if (!truth.ok()) return truth.status();
    const auto of = [&](const Result<Rotary>& profile) { return error_of(profile, *truth, position); };
    list.push_back({position, of(exact).value_or(0), of(hf), of(vllm), of(ggml)});
  }
  return list;
}

}  // namespace

Result<std::vector<ProfileError>> profile_errors(const RotarySpec& spec, std::span<const std::int64_t> positions) {
  return spec::without_exceptions([&] { return errors(spec, positions); });
}

}  // namespace phasor
