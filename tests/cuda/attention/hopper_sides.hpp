// SPDX-License-Identifier: Apache-2.0
// Tables by distance, on the side of queries and of keys, in problems for the backward of attention on Hopper.
#pragma once

#include <cuda_bf16.h>

#include <optional>

#include "cuda/attention/hopper_problem.hpp"
#include "cuda/attention/hopper_reference.hpp"
#include "cuda/attention/place.hpp"
#include "phasor/bias.hpp"
#include "plan/bias/bias.hpp"
#include "plan/bias/source.hpp"

namespace phasor::test {

/// A table by distance; no memory: none.
struct GradientSide {
  Tensor16 rows;                // (1, rows, heads or 1, D)
  std::optional<Bias> buckets;  // whose rule the map has
  job::RowMap map = {};         // lists are the host's
  double scale = 1;
  std::int64_t left = 0, right = 0;
  bool wants = false;  // its gradient

  double at(DType dtype, std::int64_t row, std::int64_t h, std::int64_t c) const {
    return value_of(dtype, rows.memory[static_cast<std::size_t>(rows.at(0, row, rows.shape[2] == 1 ? 0 : h, c))]);
  }
  std::int64_t row(std::int64_t r) const { return cuda::attention::row_by_distance(map, r); }
};

/// What tables by distance add to a score: rows that it reads, and products with them.
struct SideProducts {
  std::int64_t rows[2] = {};
  double products[2] = {};
  double size = 0;  // of all that is summed
  double kept = 0;  // what is rounded to float16, by magnitude: each, and then their sum

  double sum() const { return products[0] + products[1]; }
};
/// Added to queries; no vector: nothing.
struct GradientShift {
  std::vector<float> vector;  // (heads or 1, D)
  Tensor16 queries;           // the sums, rounded as the kernels do it
  bool wants = false;         // its gradient

  double at(std::int64_t h, std::int64_t c, std::int64_t d) const {
    if (vector.empty()) return 0;
    return static_cast<double>(vector[static_cast<std::size_t>((static_cast<std::int64_t>(vector.size()) == d ? 0 : h) * d + c)]);
  }
};
/// `shift`: of queries where they meet rows.
inline SideProducts side_products(const HopperProblem& p, const GradientShift& shift, const GradientSide (&sides)[2],
                                  const std::int64_t (&at)[4], std::int64_t r) {
  const auto [b, i, h, j] = at;
  SideProducts to;
  for (std::size_t side = 0; side < 2; ++side) {
    const GradientSide& table = sides[side];
    if (table.rows.memory.empty()) continue;
    to.rows[side] = table.row(r);
    const std::int64_t key_head = h / (p.q.shape[2] / p.k.shape[2]);
    for (std::int64_t c = 0; c < p.q.shape[3]; ++c) {
      const double of_feature = value_of(p.dtype, side == 0 ? p.q.memory[p.q.at(b, i, h, c)] : p.k.memory[p.k.at(b, j, key_head, c)]);
      const double more = side == 0 ? shift.at(h, c, p.q.shape[3]) : 0, row = table.at(p.dtype, to.rows[side], h, c) * table.scale;
      to.products[side] += (of_feature + more) * row, to.size += (std::abs(of_feature) + std::abs(more)) * std::abs(row);
    }
  }
  const bool both = !sides[0].rows.memory.empty() && !sides[1].rows.memory.empty();
  to.kept = std::abs(to.sum()) + (both ? std::abs(to.products[0]) + std::abs(to.products[1]) : 0);
  return to;
}

/// Clips, DeBERTa's, and its buckets.
inline void make_rule(RandomHopper& random, GradientSide& side) {
  std::int64_t rows = 0;
  if (random.chance(2)) {
    side.map.left = side.left = random.any<std::int64_t>({0, 1, 15, 16, 17, 64, 100, 128, 200, 256, 700});
    side.map.right = side.right = random.any<std::int64_t>({0, 1, 15, 31, 64, 100, 127, 255, 256, 700});
    rows = side.left + side.right + 1;
  } else {
    const std::int64_t buckets = random.any<std::int64_t>({0, 8, 32, 64, 256}), most = random.any<std::int64_t>({33, 100, 256, 512});
    const auto reading = random.chance(2) ? DebertaReading::microsoft : DebertaReading::hf;
    side.buckets =
        *Bias::make(DebertaBuckets{.heads = 1, .buckets = buckets, .max_distance = std::max(most, buckets + 1), .reading = reading});
    side.map = {.has_buckets = true, .buckets = plan::source_of(side.buckets->plan()).row};
    rows = 2 * (buckets == 0 ? std::max(most, buckets + 1) : buckets);
    constexpr std::int64_t kLong = 5000;
    for (side.left = kLong; side.left > 0 && side.row(side.left - 1) == side.row(kLong); --side.left) {
    }
    for (side.right = kLong; side.right > 0 && side.row(1 - side.right) == side.row(-kLong); --side.right) {
    }
  }
  side.rows.shape[1] = rows;
}
/// A row for each distance of the call, or more.
inline void make_all_rows(RandomHopper& random, const HopperProblem& f, GradientSide& side) {
  side.map.left = side.left = f.k.shape[1] - 1 + random.any({0, 5});
  side.map.right = side.right = f.causal ? random.any({0, 3}) : f.q.shape[1] - 1 + random.any({0, 9});
  side.rows.shape[1] = side.left + side.right + 1;
}
/// Tables on the side of queries (bit 0 of `which`), of keys, or of both.
inline void add_sides(RandomHopper& random, const HopperProblem& f, int which, bool all_rows, GradientSide (&sides)[2]) {
  for (int side = 0; side < 2; ++side) {
    if ((which & 1 << side) == 0) continue;
    GradientSide& of = sides[side];
    all_rows ? make_all_rows(random, f, of) : make_rule(random, of);
    const std::int64_t heads = random.chance(2) ? 1 : f.q.shape[2], pitch = f.q.shape[3] + 8 * random.any({0, 1});
    of.rows.shape = {1, of.rows.shape[1], heads, f.q.shape[3]};
    of.rows.strides = {0, heads * pitch, pitch, 1};
    of.rows.memory = random.numbers(f.dtype, static_cast<std::size_t>(of.rows.shape[1] * heads * pitch));
    of.scale = random.chance(3) ? 0.7 * f.scale : f.scale;
    of.wants = !random.chance(4);
  }
}

inline void add_shift(RandomHopper& random, const HopperProblem& f, GradientShift& shift) {
  const std::int64_t heads = random.chance(3) ? 1 : f.q.shape[2], d = f.q.shape[3];
  shift.vector.resize(static_cast<std::size_t>(heads * d));
  for (float& x : shift.vector) x = random.normal();
  shift.wants = !random.chance(4);
  shift.queries = f.q;
  each_row(f.q.shape, [&](std::int64_t b, std::int64_t i, std::int64_t h) {
    for (std::int64_t c = 0; c < d; ++c) {
      std::uint16_t& to = shift.queries.memory[static_cast<std::size_t>(f.q.at(b, i, h, c))];
      const float sum = static_cast<float>(value_of(f.dtype, to)) + shift.vector[static_cast<std::size_t>((heads == 1 ? 0 : h) * d + c)];
      to = f.dtype == DType::bf16 ? std::bit_cast<std::uint16_t>(__float2bfloat16_rn(sum))
                                  : std::bit_cast<std::uint16_t>(__float2half_rn(sum));
    }
  });
}

}  // namespace phasor::test
