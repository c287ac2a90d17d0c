// SPDX-License-Identifier: Apache-2.0
// Problems for the backward of attention on Hopper, a naive reference in double, and how far from it the arithmetic may be.
#pragma once

#include <mutex>

#include "cuda/attention/hopper/backward/run.hpp"
#include "cuda/attention/hopper_reference.hpp"
#include "cuda/attention/hopper_sides.hpp"

namespace phasor::test {

/// What the forward gave is part of the problem, rounded: the reference begins with the same numbers.
struct BackwardProblem {
  HopperProblem forward;
  GradientSide sides[2];            // on the side of queries, and of keys
  GradientShift shifts[2];          // of queries where they meet keys, and where they meet rows
  Tensor16 gradient;                // of the outputs
  std::vector<float> lse;           // (B, H, Tq)
  std::vector<float> lse_gradient;  // the same; empty: none
  bool wants_distances = false;
  bool wants_table = false;

  std::int64_t row(std::int64_t b, std::int64_t i, std::int64_t h) const { return (b * forward.q.shape[2] + h) * forward.q.shape[1] + i; }
  /// As they meet keys, and rows of tables by distance.
  const Tensor16& queries(int shift) const { return shifts[shift].vector.empty() ? forward.q : shifts[shift].queries; }
  std::string text() const {
    std::string of_sides;
    for (const GradientSide& s : sides) {
      if (s.rows.memory.empty()) continue;
      of_sides += std::string(&s == sides ? " queries" : " keys") + ": " + std::to_string(s.rows.shape[1]) + " rows" +
                  (s.rows.shape[2] > 1 ? " by head" : "") + " constant from " + std::to_string(s.left) + " " + std::to_string(s.right) +
                  (s.map.has_buckets ? " buckets" : "") + (s.wants ? " wanted" : "");
    }
    for (const GradientShift& s : shifts) {
      if (!s.vector.empty()) of_sides += std::string(&s == shifts ? " u" : " v") + (s.wants ? " wanted" : "");
    }
    return forward.text() + of_sides + (lse_gradient.empty() ? "" : " dlse") + (wants_distances ? " distances" : "") +
           (wants_table ? " dtable" : "");
  }
};

/// What a score is, and -infinity where it is not seen; `size`: of what is summed to it.
struct ReferenceScore {
  double value = -INFINITY, size = 0;
  std::int64_t distance = 0;  // as far as the bias has it
  std::int64_t row = 0;       // of a table
  std::int64_t rows[2] = {};  // of those by distance
  double kept = 0;            // the product with it, which is rounded to float16
  double kept_by_sides = 0;   // SideProducts::kept
};
/// From the first one on; beyond the ends, and where the bias is one value, they are one.
inline std::int64_t clipped_distance(const HopperProblem& p, std::int64_t r) {
  const std::int64_t inside = std::clamp(r, p.first_distance, p.first_distance + p.distances - 1);
  return std::clamp(inside, p.far_right == kNoLimit ? inside : -p.far_right, p.far_left) - p.first_distance;
}
inline ReferenceScore score_of(const BackwardProblem& of, std::int64_t b, std::int64_t i, std::int64_t h, std::int64_t j) {
  const HopperProblem& p = of.forward;
  const std::int64_t r = i + p.k.shape[1] - p.q.shape[1] - j, key_head = h / (p.q.shape[2] / p.k.shape[2]);
  if ((p.causal && r < 0) || r > p.left || -r > p.right) return {};
  ReferenceScore s = {0, 0, 0};
  for (std::int64_t c = 0; c < p.q.shape[3]; ++c) {
    const Tensor16& q = of.queries(0);
    const double x = value_of(p.dtype, q.memory[q.at(b, i, h, c)]) * value_of(p.dtype, p.k.memory[p.k.at(b, j, key_head, c)]);
    s.value += x * p.scale, s.size += std::abs(x) * p.scale;
  }
  if (!p.table.memory.empty()) {
    s.row = std::clamp(-r, -p.table_left, p.table_right) + p.table_left;
    double product = 0;
    for (std::int64_t c = 0; c < p.q.shape[3]; ++c) {
      const double x = value_of(p.dtype, p.q.memory[p.q.at(b, i, h, c)]) * p.table_at(s.row, h, c);
      product += x, s.size += std::abs(x) * p.table_scale;
    }
    s.kept = product * p.table_scale, s.value += s.kept;
  }
  const SideProducts of_sides = side_products(p, of.queries(1), of.sides, {b, i, h, j}, r);
  s.rows[0] = of_sides.rows[0], s.rows[1] = of_sides.rows[1];
  s.value += of_sides.sum(), s.size += of_sides.size, s.kept_by_sides = of_sides.kept;
  if (p.diagonal.empty()) return s;
  s.distance = clipped_distance(p, r);
  const double bias = p.diagonal[static_cast<std::size_t>(h * p.diagonal_stride + s.distance)];
  s.value += bias, s.size += std::abs(bias);
  return s;
}

/// A number and by how much it may differ.
struct Bounded {
  double value = 0, bound = 0;
};
struct ReferenceGradients {
  std::vector<Bounded> q, k, v;    // (B, T, heads, width), packed
  std::vector<Bounded> distances;  // (H, distances)
  std::vector<Bounded> table;      // (rows, H or 1, D)
  std::vector<Bounded> sides[2];   // the same
  std::vector<Bounded> shifts[2];  // (H or 1, D)
};

inline double half_unit(DType dtype) { return dtype == DType::bf16 ? 0x1p-8 : 0x1p-11; }
inline double half_of_least(DType dtype) { return dtype == DType::bf16 ? 0x1p-134 : 0x1p-25; }

/// Weights of one row and the gradients of its scores, with their errors before and after they are rounded to 16 bits.
struct ReferenceRow {
  std::vector<Bounded> weight, gradient;
  std::vector<std::int64_t> distance, row, rows[2];
};
inline ReferenceRow reference_row(const BackwardProblem& of, std::int64_t b, std::int64_t i, std::int64_t h) {
  const HopperProblem& p = of.forward;
  const std::int64_t keys = p.k.shape[1], key_head = h / (p.q.shape[2] / p.k.shape[2]);
  const double rounding = half_unit(p.dtype), least = half_of_least(p.dtype);
  ReferenceRow row;
  row.weight.resize(static_cast<std::size_t>(keys)), row.gradient.resize(static_cast<std::size_t>(keys));
  for (std::vector<std::int64_t>* const x : {&row.distance, &row.row, &row.rows[0], &row.rows[1]})
    x->resize(static_cast<std::size_t>(keys));
  const double lse = of.lse[static_cast<std::size_t>(of.row(b, i, h))];
  if (lse == -INFINITY) return row;
  double delta = 0, delta_size = 0;
  for (std::int64_t c = 0; c < p.v.shape[3]; ++c) {
    const double x =
        value_of(p.dtype, p.out.memory[p.out.at(b, i, h, c)]) * value_of(p.dtype, of.gradient.memory[of.gradient.at(b, i, h, c)]);
    delta += x, delta_size += std::abs(x);
  }
  if (!of.lse_gradient.empty()) {
    const double x = of.lse_gradient[static_cast<std::size_t>(of.row(b, i, h))];
    delta -= x, delta_size += std::abs(x);
  }
  // Tensor cores add 16 channels at a time and may lose 2 units of the 24th bit of the largest; ordinary sums a unit each.
  const double steps = static_cast<double>(p.q.shape[3] + 15) / 16 + 4, value_steps = static_cast<double>(p.v.shape[3] + 15) / 16 + 4;
  for (std::int64_t j = 0; j < keys; ++j) {
    const ReferenceScore s = score_of(of, b, i, h, j);
    if (s.value == -INFINITY) continue;
    double dot = 0, size = 0;
    for (std::int64_t c = 0; c < p.v.shape[3]; ++c) {
      const double x =
          value_of(p.dtype, p.v.memory[p.v.at(b, j, key_head, c)]) * value_of(p.dtype, of.gradient.memory[of.gradient.at(b, i, h, c)]);
      dot += x, size += std::abs(x);
    }
    const double weight = std::exp(s.value - lse);
    // Of the exponent: that of the score, of the log-sum-exp in powers of two, of the far value; and of the exponential itself.
    // A product with a table is summed in the same way and kept as float16, as in the forward.
    const double of_product = std::abs(s.kept) * (1 + steps * 0x1p-23) * 0x1p-11 + p.scale * 0x1p-25;
    const double of_products = s.kept_by_sides * (1 + steps * 0x1p-23 + 0x1p-10) * 0x1p-11 + 3 * p.scale * 0x1p-25;
    const double of_table = !p.table.memory.empty() ? of_product : s.kept_by_sides == 0 ? 0 : of_products;
    const double of_weight =
        of_table * (1 + of_table) + s.size * steps * 0x1p-23 + (std::abs(lse) + std::abs(s.value) + s.size) * 0x1p-22 + 0x1p-21;
    // The kernels' exponential gives 0 for what is below the least normal number.
    const double lost = weight * (1 - of_weight) < 0x1p-126 ? weight : 0;
    const double difference = dot - delta;
    const double of_difference = size * value_steps * 0x1p-23 + delta_size * 32 * 0x1p-24 + std::abs(difference) * 0x1p-23;
    const double ds = weight * difference;
    const double of_ds = weight * (of_difference + (std::abs(difference) + of_difference) * of_weight) + lost * std::abs(difference);
    row.weight[static_cast<std::size_t>(j)] = {weight, weight * (of_weight + rounding * (1 + of_weight)) + lost + least};
    row.gradient[static_cast<std::size_t>(j)] = {ds, of_ds + (std::abs(ds) + of_ds) * rounding + least};
    row.distance[static_cast<std::size_t>(j)] = s.distance, row.row[static_cast<std::size_t>(j)] = s.row;
    for (int side = 0; side < 2; ++side) row.rows[side][static_cast<std::size_t>(j)] = s.rows[side];
  }
  return row;
}

/// A sum of products of numbers with errors and exact ones.
struct BoundedSum {
  double value = 0, error = 0, size = 0;

  void add(const BoundedSum& x) { value += x.value, error += x.error, size += x.size; }
  void add(const Bounded& x, double by) {
    value += x.value * by, error += x.bound * std::abs(by), size += (std::abs(x.value) + x.bound) * std::abs(by);
  }
  /// Summed in float32 by so many steps; then multiplied, and rounded to 16 bits.
  Bounded rounded(double steps, double factor, DType dtype) const {
    const double before = (error + size * steps * 0x1p-23) * factor;
    return {value * factor, before + (std::abs(value) * factor + before) * half_unit(dtype) + half_of_least(dtype)};
  }
};

/// Gradients of one query's scores added up by the table's row that they read. Those between the ends are single numbers. What is beyond
/// the clips is summed in float32, a step for each 16 keys and for each block of them, and becomes two numbers of 16 bits.
inline std::vector<Bounded> by_row(DType dtype, const std::vector<Bounded>& gradient, const std::vector<std::int64_t>& row,
                                   std::int64_t rows) {
  std::vector<BoundedSum> sums(static_cast<std::size_t>(rows));
  for (std::size_t j = 0; j < gradient.size(); ++j) {
    if (gradient[j].bound != 0) sums[static_cast<std::size_t>(row[j])].add(gradient[j], 1);
  }
  const double rounding = half_unit(dtype), steps = static_cast<double>(gradient.size()) / 16 + 64;
  std::vector<Bounded> list;
  for (const BoundedSum& s : sums) {
    list.push_back({s.value, s.error + s.size * (steps * 0x1p-23 + rounding * rounding) + (s.size == 0 ? 0 : half_of_least(dtype))});
  }
  return list;
}
inline std::vector<Bounded> by_row(const HopperProblem& p, const ReferenceRow& row) {
  return p.table.memory.empty() ? std::vector<Bounded>() : by_row(p.dtype, row.gradient, row.row, p.table.shape[1]);
}
/// Of one query, or of one key with the queries of a head, on their side.
inline std::vector<Bounded> by_row_of_side(const BackwardProblem& of, const std::vector<ReferenceRow>& rows, int side,
                                           const std::int64_t (&at)[3]) {
  const GradientSide& table = of.sides[side];
  if (table.rows.memory.empty()) return {};
  const auto [b, token, h] = at;
  if (side == 0) {
    const ReferenceRow& row = rows[static_cast<std::size_t>(of.row(b, token, h))];
    return by_row(of.forward.dtype, row.gradient, row.rows[0], table.rows.shape[1]);
  }
  std::vector<Bounded> gradient;
  std::vector<std::int64_t> row_of;
  for (std::int64_t i = 0; i < of.forward.q.shape[1]; ++i) {
    const ReferenceRow& row = rows[static_cast<std::size_t>(of.row(b, i, h))];
    gradient.push_back(row.gradient[static_cast<std::size_t>(token)]), row_of.push_back(row.rows[1][static_cast<std::size_t>(token)]);
  }
  return by_row(of.forward.dtype, gradient, row_of, table.rows.shape[1]);
}
/// What features get of a table, in units of what q . k gives them.
inline void add_rows_of_side(const BackwardProblem& of, const std::vector<ReferenceRow>& rows, int side, const std::int64_t (&at)[3],
                             std::vector<BoundedSum>& sums) {
  const std::vector<Bounded> list = by_row_of_side(of, rows, side, at);
  for (std::size_t x = 0; x < list.size(); ++x) {
    for (std::size_t c = 0; c < sums.size(); ++c) {
      const double of_row = of.sides[side].at(of.forward.dtype, static_cast<std::int64_t>(x), at[2], static_cast<std::int64_t>(c));
      sums[c].add(list[x], of_row * of.sides[side].scale / of.forward.scale);
    }
  }
}
inline std::vector<Bounded> reference_side(const BackwardProblem& of, const std::vector<ReferenceRow>& rows, int side) {
  const HopperProblem& p = of.forward;
  const GradientSide& table = of.sides[side];
  const Tensor16& features = side == 0 ? of.queries(1) : p.k;
  const std::int64_t d = p.q.shape[3], heads = table.rows.shape[2], lines = table.rows.shape[1], group = p.q.shape[2] / features.shape[2];
  std::vector<BoundedSum> sums(static_cast<std::size_t>(lines * heads * d));
  for (std::int64_t n = 0; n < p.q.shape[0] * p.q.shape[2] * features.shape[1]; ++n) {
    const std::int64_t token = n % features.shape[1], h = n / features.shape[1] % p.q.shape[2], b = n / features.shape[1] / p.q.shape[2];
    const std::vector<Bounded> list = by_row_of_side(of, rows, side, {b, token, h});
    for (std::int64_t x = 0; x < lines; ++x) {
      if (list[static_cast<std::size_t>(x)].bound == 0) continue;
      BoundedSum* const to = sums.data() + (x * heads + (heads == 1 ? 0 : h)) * d;
      for (std::int64_t c = 0; c < d; ++c) {
        to[c].add(list[static_cast<std::size_t>(x)], value_of(p.dtype, features.memory[features.at(b, token, h / group, c)]));
      }
    }
  }
  const double steps = static_cast<double>(p.q.shape[0] * p.q.shape[2]) * (static_cast<double>(features.shape[1]) / 16 + 8) +
                       static_cast<double>(p.q.shape[1] + p.k.shape[1]);
  std::vector<Bounded> to;
  for (const BoundedSum& s : sums) to.push_back({s.value * table.scale, (s.error + s.size * steps * 0x1p-23) * table.scale + 0x1p-140});
  return to;
}

/// (rows, H or 1, D): each sum in float32, of 16 queries at a time, of tiles, parts, heads and batch rows.
inline std::vector<Bounded> reference_table(const BackwardProblem& of, const std::vector<ReferenceRow>& rows) {
  const HopperProblem& p = of.forward;
  const std::int64_t d = p.q.shape[3], heads = p.table.shape[2], lines = p.table.shape[1];
  std::vector<BoundedSum> sums(static_cast<std::size_t>(lines * heads * d));
  for (std::int64_t b = 0; b < p.q.shape[0]; ++b) {
    for (std::int64_t h = 0; h < p.q.shape[2]; ++h) {
      for (std::int64_t i = 0; i < p.q.shape[1]; ++i) {
        const std::vector<Bounded> list = by_row(p, rows[static_cast<std::size_t>(of.row(b, i, h))]);
        for (std::int64_t x = 0; x < lines; ++x) {
          if (list[static_cast<std::size_t>(x)].bound == 0) continue;
          BoundedSum* const to = sums.data() + (x * heads + (heads == 1 ? 0 : h)) * d;
          for (std::int64_t c = 0; c < d; ++c)
            to[c].add(list[static_cast<std::size_t>(x)], value_of(p.dtype, p.q.memory[p.q.at(b, i, h, c)]));
        }
      }
    }
  }
  const double steps = static_cast<double>(p.q.shape[0] * (p.q.shape[2] / heads)) * (static_cast<double>(p.q.shape[1]) / 8 + 8) + 8;
  std::vector<Bounded> list;
  for (const BoundedSum& s : sums)
    list.push_back({s.value * p.table_scale, (s.error + s.size * steps * 0x1p-23) * p.table_scale + 0x1p-140});
  return list;
}

/// (H, distances).
inline std::vector<Bounded> reference_distances(const BackwardProblem& of, const std::vector<ReferenceRow>& rows) {
  const HopperProblem& p = of.forward;
  const std::int64_t queries = p.q.shape[1], keys = p.k.shape[1], heads = p.q.shape[2];
  std::vector<Bounded> to;
  std::vector<BoundedSum> sums(static_cast<std::size_t>(heads * p.distances));
  for (std::int64_t b = 0; b < p.q.shape[0]; ++b) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t i = 0; i < queries; ++i) {
        const ReferenceRow& row = rows[static_cast<std::size_t>(of.row(b, i, h))];
        for (std::size_t j = 0; j < row.gradient.size(); ++j) {
          if (row.gradient[j].bound != 0) sums[static_cast<std::size_t>(h * p.distances + row.distance[j])].add(row.gradient[j], 1);
        }
      }
    }
  }
  const double all_steps = static_cast<double>(queries + keys + 64) + static_cast<double>(p.q.shape[0] * (keys / 128 + 16));
  for (const BoundedSum& s : sums) to.push_back({s.value, s.error + s.size * all_steps * 0x1p-23 + 0x1p-140});
  return to;
}

/// What is added to queries gets the sum of what these get, in units of what q . k gives them. Threads add to it at once.
struct ShiftSums {
  const BackwardProblem& of;
  std::int64_t width;
  std::vector<BoundedSum> sums;
  std::mutex adding;

  ShiftSums(const BackwardProblem& p, int shift) : of(p), width(p.forward.q.shape[3]), sums(p.shifts[shift].vector.size()) {}
  void add(std::int64_t h, const std::vector<BoundedSum>& of_query) {
    if (sums.empty()) return;
    const std::lock_guard<std::mutex> alone(adding);
    const auto first = static_cast<std::size_t>(static_cast<std::int64_t>(sums.size()) == width ? 0 : h * width);
    for (std::size_t c = 0; c < of_query.size(); ++c) sums[first + c].add(of_query[c]);
  }
  /// A query's sum has so many steps.
  std::vector<Bounded> all(double steps_of_query) const {
    const Extents& s = of.forward.q.shape;
    const double steps = steps_of_query + static_cast<double>(s[0] * s[2] * (s[1] / 32 + 8));
    std::vector<Bounded> list;
    for (const BoundedSum& x : sums) {
      list.push_back({x.value * of.forward.scale, (x.error + x.size * steps * 0x1p-23) * of.forward.scale + 0x1p-140});
    }
    return list;
  }
};

inline ReferenceGradients reference_gradients(const BackwardProblem& of) {
  const HopperProblem& p = of.forward;
  const std::int64_t queries = p.q.shape[1], keys = p.k.shape[1], heads = p.q.shape[2], key_heads = p.k.shape[2], d = p.q.shape[3],
                     dv = p.v.shape[3];
  std::vector<ReferenceRow> rows(of.lse.size());
  const Tensor16& q = of.queries(0);
  ShiftSums of_shifts[2] = {{of, 0}, {of, 1}};
  ReferenceGradients to;
  to.q.resize(static_cast<std::size_t>(p.q.shape[0] * queries * heads * d));
  to.k.resize(static_cast<std::size_t>(p.q.shape[0] * keys * key_heads * d)),
      to.v.resize(static_cast<std::size_t>(p.q.shape[0] * keys * key_heads * dv));
  const double query_steps = static_cast<double>(queries * heads / key_heads) / 16 + static_cast<double>(heads) + 8;
  const double of_keys = of.sides[1].rows.memory.empty() ? 1 : 3;  // lines come in chunks of 16, too, and four more of them for each head
  const double key_steps = static_cast<double>(keys) / 16 + static_cast<double>(keys) / 128 + 8;
  each_row(p.q.shape, [&](std::int64_t b, std::int64_t i, std::int64_t h) {
    ReferenceRow& row = rows[static_cast<std::size_t>(of.row(b, i, h))] = reference_row(of, b, i, h);
    std::vector<BoundedSum> sums(static_cast<std::size_t>(d));
    for (std::int64_t j = 0; j < keys; ++j) {
      const Bounded& ds = row.gradient[static_cast<std::size_t>(j)];
      for (std::int64_t c = 0; c < d; ++c) {
        sums[static_cast<std::size_t>(c)].add(ds, value_of(p.dtype, p.k.memory[p.k.at(b, j, h / (heads / key_heads), c)]));
      }
    }
    of_shifts[0].add(h, sums);
    const std::vector<Bounded> rows_of_table = by_row(p, row);
    for (std::size_t x = 0; x < rows_of_table.size(); ++x) {
      for (std::int64_t c = 0; c < d; ++c) {
        const double of_row = p.table_at(static_cast<std::int64_t>(x), h, c);
        sums[static_cast<std::size_t>(c)].add(rows_of_table[x], of_row * p.table_scale / p.scale);
      }
    }
    std::vector<BoundedSum> of_rows(static_cast<std::size_t>(d));
    add_rows_of_side(of, rows, 0, {b, i, h}, of_rows);
    of_shifts[1].add(h, of_rows);
    for (std::size_t c = 0; c < sums.size(); ++c) sums[c].add(of_rows[c]);
    const double table_steps = (rows_of_table.empty() ? 0 : 12) + (of.sides[0].rows.memory.empty() ? 0 : key_steps + 12);
    for (std::int64_t c = 0; c < d; ++c) {
      to.q[static_cast<std::size_t>(((b * queries + i) * heads + h) * d + c)] =
          sums[static_cast<std::size_t>(c)].rounded(key_steps + table_steps, p.scale, p.dtype);
    }
  });
  each_row(p.k.shape, [&](std::int64_t b, std::int64_t j, std::int64_t kh) {
    std::vector<BoundedSum> k(static_cast<std::size_t>(d)), v(static_cast<std::size_t>(dv));
    for (std::int64_t h = kh * (heads / key_heads); h < (kh + 1) * (heads / key_heads); ++h) {
      for (std::int64_t i = 0; i < queries; ++i) {
        const ReferenceRow& row = rows[static_cast<std::size_t>(of.row(b, i, h))];
        const Bounded &ds = row.gradient[static_cast<std::size_t>(j)], &weight = row.weight[static_cast<std::size_t>(j)];
        if (weight.value == 0) continue;
        for (std::int64_t c = 0; c < d; ++c) k[static_cast<std::size_t>(c)].add(ds, value_of(p.dtype, q.memory[q.at(b, i, h, c)]));
        for (std::int64_t c = 0; c < dv; ++c) {
          v[static_cast<std::size_t>(c)].add(weight, value_of(p.dtype, of.gradient.memory[of.gradient.at(b, i, h, c)]));
        }
      }
      add_rows_of_side(of, rows, 1, {b, j, h}, k);
    }
    const std::int64_t token = (b * keys + j) * key_heads + kh;
    for (std::int64_t c = 0; c < d; ++c)
      to.k[static_cast<std::size_t>(token * d + c)] = k[static_cast<std::size_t>(c)].rounded(query_steps * of_keys, p.scale, p.dtype);
    for (std::int64_t c = 0; c < dv; ++c)
      to.v[static_cast<std::size_t>(token * dv + c)] = v[static_cast<std::size_t>(c)].rounded(query_steps, 1, p.dtype);
  });
  if (of.wants_table) to.table = reference_table(of, rows);
  for (int side = 0; side < 2; ++side) {
    if (of.sides[side].wants) to.sides[side] = reference_side(of, rows, side);
  }
  for (int shift = 0; shift < 2; ++shift) {
    if (of.shifts[shift].wants) to.shifts[shift] = of_shifts[shift].all(2 * key_steps + 12);
  }
  if (of.wants_distances) to.distances = reference_distances(of, rows);
  return to;
}

}  // namespace phasor::test
