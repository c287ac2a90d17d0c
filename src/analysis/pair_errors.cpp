// SPDX-License-Identifier: Apache-2.0
// How far off the tables of each numerics profile are, pair by pair.
#include <algorithm>
#include <cmath>

#include "analysis/table.hpp"
#include "job/check.hpp"
#include "phasor/analysis_by_pair.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor {
namespace {

using analysis::Table;
using analysis::table_at;

constexpr const char* kPairErrors = "pair_errors";
constexpr std::int64_t kMostErrors = std::int64_t{1} << 22;
constexpr Numerics kPairProfiles[] = {Numerics::exact, Numerics::hf, Numerics::vllm, Numerics::ggml};

/// One that cannot be at a position (an angle too large for the peer) is NaN in every pair.
void append_row(const Rotary& profile, const Table<double>& truth, std::int64_t position, std::vector<double>& values) {
  const auto table = table_at<float>(profile, position);
  for (std::size_t i = 0; i < truth.cos.size(); ++i) {
    const double cos = table.ok() ? std::abs(table->cos[i] - truth.cos[i]) : std::nan("");
    values.push_back(table.ok() ? std::max(cos, std::abs(table->sin[i] - truth.sin[i])) : cos);
  }
}

Result<std::vector<PairErrors>> errors_of(const RotarySpec& spec, std::span<const std::int64_t> positions) {
  const Result<std::vector<Rotary>> profiles = analysis::in_profiles(spec, kPairProfiles);
  if (!profiles.ok()) return profiles.status();
  const Rotary& exact = profiles->front();
  const std::int64_t pairs = exact.rotary_width() / 2;
  const auto rows = static_cast<std::int64_t>(positions.size());
  if (rows > kMostErrors / pairs) return job::error(kPairErrors, "there are {} positions, wanted at most {}", rows, kMostErrors / pairs);
  std::vector<PairErrors> list;
  list.reserve(profiles->size());
  for (const Rotary& profile : *profiles) list.push_back({profile.spec().numerics, {rows, pairs, {}}});
  for (const std::int64_t position : positions) {
    const auto truth = table_at<double>(exact, position);
    if (!truth.ok()) return truth.status();
    for (std::size_t i = 0; i < profiles->size(); ++i) append_row((*profiles)[i], *truth, position, list[i].errors.values);
  }
  return list;
}

}  // namespace

Result<std::vector<PairErrors>> pair_errors(const RotarySpec& spec, std::span<const std::int64_t> positions) {
  return spec::without_exceptions([&] { return errors_of(spec, positions); });
}

}  // namespace phasor
