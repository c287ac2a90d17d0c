// SPDX-License-Identifier: Apache-2.0
// The band of a bias: which distances it holds, and its values laid out by key - query.
#include <algorithm>
#include <cstring>

#include "cpu/attention/host_terms/bias_parts.hpp"
#include "spec/bias.hpp"

namespace phasor::attend {
namespace {

constexpr std::int64_t farthest = std::int64_t{1} << 62;

/// Where the last bucket of a side begins.
std::int64_t last_threshold(const plan::RowRule& row, std::int64_t without) {
  return row.threshold_count == 0 ? without : row.thresholds[row.threshold_count - 1];
}

}  // namespace

DistanceRange changing_distances(const plan::BiasSource& bias) {
  const plan::RowRule& row = bias.row;
  switch (row.kind) {
    case plan::RowRule::Kind::t5: {
      const std::int64_t last = last_threshold(row, row.buckets / 2);
      return {row.both ? -last : 0, last};
    }
    case plan::RowRule::Kind::deberta_clip:
      return {-row.max_distance, row.max_distance - 1};
    case plan::RowRule::Kind::deberta: {
      const std::int64_t last = std::max(row.mid + 1, last_threshold(row, 0));
      return {-last, last};
    }
    case plan::RowRule::Kind::shaw:
      return {-row.right, row.left};
    default:
      return {-farthest, farthest};
  }
}

void fill_distances(const BiasJob& bias, std::int64_t first, std::span<std::int64_t> to) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = -(bias.low + first + static_cast<std::int64_t>(i));
}

namespace {

/// Where a band of T is written, head by head.
template <class T>
struct BandWriter {
  const BiasJob& bias;
  const BiasNumbers& numbers;
  std::int64_t heads;
  T* band;

  T& at(std::int64_t head, std::int64_t offset) const { return band[head * bias.stride + kBandMargin + offset - bias.low]; }

  /// Distance by distance.
  void fill() const {
    const std::int64_t count = bias.high - bias.low + 1;
    std::vector<double> values(static_cast<std::size_t>(heads * std::min(count, kDistanceChunk)));
    std::vector<std::int64_t> distances(static_cast<std::size_t>(std::min(count, kDistanceChunk)));
    for (std::int64_t first = 0; first < count; first += kDistanceChunk) {
      const std::int64_t n = std::min(kDistanceChunk, count - first);
      const std::span<double> some = std::span(values).first(static_cast<std::size_t>(heads * n));
      const std::span<std::int64_t> chunk = std::span(distances).first(static_cast<std::size_t>(n));
      fill_distances(bias, first, chunk);
      plan::fill_values(bias.source, {bias.first_head, heads, 0}, chunk, some);
      for (std::int64_t head = 0; head < heads; ++head) {
        const double* const from = some.data() + head * n;
        std::transform(from, from + n, &at(head, bias.low + first), [](double x) { return static_cast<T>(x); });
      }
    }
  }
  /// |r| by |r|, both sides at once.
  void fill_even() const {
    const LengthRange range = lengths_of(bias);
    std::vector<double> values(static_cast<std::size_t>(heads * std::min(range.end - range.first, kDistanceChunk)));
    for (std::int64_t first = range.first; first < range.end; first += kDistanceChunk) {
      const std::int64_t n = std::min(kDistanceChunk, range.end - first);
      fill_lengths(numbers, {bias.first_head, heads, first, std::span(values).first(static_cast<std::size_t>(heads * n))});
      for (std::int64_t head = 0; head < heads; ++head) {
        const double* const from = values.data() + head * n;
        for (std::int64_t a = first; a < first + n; ++a) {
          if (a >= bias.low && a <= bias.high) at(head, a) = static_cast<T>(from[a - first]);
          if (-a >= bias.low && -a <= bias.high) at(head, -a) = static_cast<T>(from[a - first]);
        }
      }
    }
  }
  void fill_margins() const {
    for (std::int64_t head = 0; head < heads; ++head) {
      T* const begin = band + head * bias.stride;
      std::fill_n(begin, kBandMargin, at(head, bias.low));
      std::fill(&at(head, bias.high) + 1, begin + bias.stride, at(head, bias.high));
    }
  }
};

}  // namespace

namespace {

/// The part of the band that the distances of a group lie in; one place where it has none.
GroupBand part_of(const BiasJob& bias, const AttentionJob& job, const SequenceGroup& group) {
  const DistanceRange range = distances_of(job, group, 0, 1);
  const bool any = range.low <= range.high;
  const std::int64_t least = any ? std::clamp(-range.high, bias.low, bias.high) : bias.low;
  const std::int64_t most = any ? std::clamp(-range.low, bias.low, bias.high) : bias.low;
  const std::int64_t count = most - least + 1;
  return {least - bias.low, count, padded(count + 2 * kBandMargin), 0};
}

}  // namespace

void make_diagonals(const TermContext& context, Arena& arena, BiasJob& bias) {
  const AttentionJob& job = *context.job;
  auto* const bands = arena.take<GroupBand>(static_cast<std::int64_t>(job.groups.size()));
  std::int64_t used = 0;
  for (std::size_t g = 0; g < job.groups.size(); ++g) {
    GroupBand band = part_of(bias, job, job.groups[g]);
    band.first = used;
    used += job.backward.parts * job.shape.heads * band.stride;
    if (bands != nullptr) bands[g] = band;
  }
  bias.group_bands = bands;
  bias.diagonals = take_arithmetic(arena, job, used);
  if (bias.diagonals != nullptr) std::memset(bias.diagonals, 0, static_cast<std::size_t>(used * bytes_of(job.arithmetic)));
}

LengthRange lengths_of(const BiasJob& bias) {
  const std::int64_t most = std::max(std::abs(bias.low), std::abs(bias.high));
  const bool both = bias.low <= 0 && bias.high >= 0;
  return {both ? 0 : std::min(std::abs(bias.low), std::abs(bias.high)), most + 1};
}

void make_bias_band(const TermContext& context, Arena& arena, BiasJob& bias) {
  const std::int64_t heads = context.job->shape.heads;
  bias.stride = padded(bias.high - bias.low + 1 + 2 * kBandMargin);
  void* const memory = take_arithmetic(arena, *context.job, heads * bias.stride);
  bias.values = memory;
  if (memory == nullptr) return;
  with_arithmetic(context.job->arithmetic, [&](auto zero) {
    const BandWriter<decltype(zero)> writer = {bias, *context.bias, heads, static_cast<decltype(zero)*>(memory)};
    is_even(bias.source) ? writer.fill_even() : writer.fill();
    writer.fill_margins();
  });
}

}  // namespace phasor::attend
