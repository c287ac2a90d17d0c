// SPDX-License-Identifier: Apache-2.0
// Random calls of attention with terms, masks, positions and dropout, as the kernels of mma.sync get them, in managed memory; and what a
// row of them should be, in double and by loops of its own.
#pragma once

#include <memory>
#include <numeric>

#include "cuda/attention/hopper_reference.hpp"
#include "cuda/attention/managed.hpp"
#include "cuda/attention/work.hpp"

namespace phasor::test {

using cuda::attention::AttentionWork;
using cuda::attention::RowKind;
using cuda::attention::RowUse;
using cuda::attention::TermUse;
using cuda::attention::TermWork;

class TermsProblem {
 public:
  explicit TermsProblem(std::uint64_t seed) : random_(seed), work_(std::make_unique<AttentionWork>()) {
    make_tensors();
    make_rules();
    if (chance(5)) {
      add_cope();
      return;
    }
    if (chance(4)) {
      add_rotated();
      return;
    }
    const int terms = any({0, 1, 1, 2, 3});
    for (int t = 0; t < terms; ++t) add_term();
    if (!work_->has_positions[0] && chance(3)) add_shaw();
  }
  AttentionWork& work() { return *work_; }
  DType dtype() const { return dtype_; }
  std::string text() const { return text_; }

  /// What row (sequence's batch row, query, head) should be.
  ExpectedRow expected(std::int64_t b, std::int64_t i, std::int64_t h) const;

 private:
  bool chance(int of) { return random_() % static_cast<std::uint64_t>(of) == 0; }
  template <class T>
  T any(std::initializer_list<T> list) {
    return list.begin()[random_() % list.size()];
  }
  TensorView tensor(DType dtype, const Extents& shape, float size = 1) {
    const std::int64_t count = shape[0] * shape[1] * shape[2] * shape[3];
    TensorView v = {nullptr, dtype, shape, contiguous_strides(shape), {DeviceKind::cuda, 0}};
    if (dtype == DType::f32) {
      v.data = memory_.take<float>(count);
      for (std::int64_t n = 0; n < count; ++n) static_cast<float*>(v.data)[n] = size * normal_(random_);
    } else {
      v.data = memory_.take<std::uint16_t>(count);
      for (std::int64_t n = 0; n < count; ++n) static_cast<std::uint16_t*>(v.data)[n] = bits_of(dtype, size * normal_(random_));
    }
    return v;
  }
  job::PositionSource list(std::int64_t batch, std::int64_t tokens, std::int64_t most, std::int64_t step) {
    auto* const data = memory_.take<std::int64_t>(batch * tokens);
    for (std::int64_t n = 0; n < batch * tokens; ++n) {
      data[n] = static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(most)) * step;
    }
    return {.data = data, .batch_stride = tokens, .token_stride = 1};
  }
  void say(const std::string& what) { text_ += (text_.empty() ? "" : ", ") + what; }
  void make_tensors();
  void make_rules();
  void add_term(bool with_tables = true);
  void add_table(TermWork& term);
  void add_shaw(bool of_queries = true);
  void add_cope();
  void add_rotated();
  std::int64_t row_of(const cuda::attention::TableWork& table, std::int64_t b, std::int64_t s, std::int64_t i, std::int64_t j) const;
  /// What tables add to each channel of a value, and magnitudes of it.
  struct Added {
    std::vector<double> sums, sizes;
  };
  Added added_values(std::int64_t b, std::int64_t s, std::int64_t i, std::int64_t j, std::int64_t h) const;

  struct Score {
    double value = 0;
    double error = 0;  // what float32 and tensor cores may make of it
    bool seen = false;
  };
  Score score(std::int64_t b, std::int64_t s, std::int64_t i, std::int64_t j, std::int64_t h) const;
  /// A row of a tensor; products of two, and what tensor cores may make of them.
  struct RowAt {
    const ConstTensorView& of;
    std::int64_t b, token, h;
  };
  static Score product(const RowAt& x, const RowAt& y);
  bool sees(std::int64_t b, std::int64_t s, std::int64_t i, std::int64_t j) const;
  Score counted(std::int64_t b, std::int64_t s, std::int64_t i, std::int64_t j, std::int64_t h) const;
  std::int64_t position(int side, std::int64_t b, std::int64_t s, std::int64_t token) const;
  std::int64_t sequence_of(std::int64_t b, std::int64_t i) const;

  std::mt19937_64 random_;
  std::normal_distribution<float> normal_;
  ManagedMemory memory_;
  std::unique_ptr<AttentionWork> work_;
  DType dtype_ = DType::bf16;
  std::string text_;
  std::vector<std::int64_t> starts_[2];  // of queries, of keys
};

inline void TermsProblem::make_tensors() {
  AttentionWork& w = *work_;
  dtype_ = chance(2) ? DType::bf16 : DType::f16;
  const std::int64_t batch = any({1, 2}), key_heads = any({1, 2}), heads = key_heads * any({1, 2});
  const std::int64_t tq = any({1, 17, 64, 65, 100, 130}), tk = any({1, 33, 64, 65, 96, 129, 200});
  const std::int64_t d = any({64, 32, 128, 40, 200}), dv = any({64, 8, 128, 72});
  w.shape = {batch, tq, tk, heads, key_heads, d, dv};
  w.sequences = batch;
  w.q = tensor(dtype_, {batch, tq, heads, d});
  w.k = tensor(dtype_, {batch, tk, key_heads, d});
  w.v = tensor(dtype_, {batch, tk, key_heads, dv});
  w.contents[0] = {w.q, w.k};
  w.outputs.out = tensor(dtype_, {batch, tq, heads, dv});
  w.outputs.lse = tensor(DType::f32, {batch, tq, heads, 1});
  w.scale = any({1.0, 0.3, -0.5}) / std::sqrt(static_cast<double>(d));
  say(std::string(name_of(dtype_)) + " " + std::to_string(batch) + " x " + std::to_string(tq) + " x " + std::to_string(tk) + " x " +
      std::to_string(heads) + "/" + std::to_string(key_heads) + " x " + std::to_string(d) + "/" + std::to_string(dv));
}

inline void TermsProblem::make_rules() {
  AttentionWork& w = *work_;
  const std::int64_t tq = w.shape.queries, tk = w.shape.keys, batch = w.shape.batch;
  starts_[0] = {0, tq}, starts_[1] = {0, tk};
  if (batch == 1 && chance(2)) {
    starts_[0] = {0, tq / 3, tq / 3, tq}, starts_[1] = {0, tk / 2, tk / 2 + 0, tk};
    for (int side = 0; side < 2; ++side) {
      auto* const data = memory_.take<std::int64_t>(4);
      std::copy(starts_[side].begin(), starts_[side].end(), data);
      (side == 0 ? w.see.query_starts : w.see.key_starts) = Integers(data, 4, w.q.device);
    }
    w.sequences = 3;
    say("varlen");
  } else if (chance(3)) {
    const std::int64_t step = any({1, 1, 1000});
    for (int side = 0; side < 2; ++side) {
      w.has_positions[side] = true;
      w.positions[side] = list(batch, side == 0 ? tq : tk, 150, step);
    }
    say("positions by " + std::to_string(step));
  }
  w.see.causal = chance(2);
  if (chance(4)) w.see.left = any({0, 5, 64, 100});
  if (chance(5)) w.see.right = any({0, 3, 70});
  if (chance(4)) {
    auto* const data = memory_.take<std::int64_t>(w.sequences);
    for (std::int64_t s = 0; s < w.sequences; ++s) data[s] = any({0, 7, 64, 90});
    w.see.prefix = Integers(data, static_cast<std::size_t>(w.sequences), w.q.device);
    say("prefix");
  }
  if (chance(3)) {
    auto* const data = memory_.take<std::uint8_t>(batch * tk);
    for (std::int64_t n = 0; n < batch * tk; ++n) data[n] = chance(4) ? 0 : 1;
    w.see.key_mask = {data, {tk, 1}, w.q.device};
    say("padding");
  }
  if (chance(4)) w.sinks = tensor(DType::f32, {1, 1, w.shape.heads, 1}), say("sinks");
  if (chance(4)) w.softcap = any({5.0, 30.0}), say("cap");
  if (chance(4)) w.content_shift = tensor(any({DType::f32, dtype_}), {1, 1, w.shape.heads, w.shape.width}), say("content shift");
  if (chance(4)) {
    w.dropout = {.present = true, .threshold = math::dropout_threshold(0.3), .factor = math::dropout_factor(0.3), .seed = 5, .offset = 9};
    say("dropout");
  }
  if (chance(3)) {
    const std::int64_t rows = 3 * batch * tq * w.shape.heads;
    w.partial = {3, memory_.take<float>(rows * w.shape.value_width), memory_.take<float>(rows), memory_.take<float>(rows)};
    say("three parts");
  }
  say(std::string(w.see.causal ? "causal" : "full") + " left " + std::to_string(w.see.left) + " right " + std::to_string(w.see.right));
}

inline std::int64_t TermsProblem::sequence_of(std::int64_t b, std::int64_t i) const {
  if (work_->see.query_starts.size == 0) return b;
  std::int64_t s = 0;
  while (i >= starts_[0][s + 1]) ++s;
  return s;
}
inline std::int64_t TermsProblem::position(int side, std::int64_t b, std::int64_t s, std::int64_t token) const {
  const AttentionWork& w = *work_;
  const std::int64_t n = w.see.query_starts.size == 0 ? 0 : s;
  const std::int64_t queries = starts_[0][n + 1] - starts_[0][n], keys = starts_[1][n + 1] - starts_[1][n];
  if (w.has_positions[side]) {
    return static_cast<const std::int64_t*>(w.positions[side].data)[b * w.positions[side].batch_stride + token];
  }
  return token - starts_[side][n] + (side == 0 ? keys - queries : 0);
}

inline std::int64_t TermsProblem::row_of(const cuda::attention::TableWork& table, std::int64_t b, std::int64_t s, std::int64_t i,
                                         std::int64_t j) const {
  if (table.kind == RowKind::segment) {
    const auto* const of_query = static_cast<const std::int64_t*>(table.segments[0].data);
    const auto* const of_key = static_cast<const std::int64_t*>(table.segments[1].data);
    return of_query[b * work_->shape.queries + i] == of_key[b * work_->shape.keys + j] ? 0 : 1;
  }
  const std::int64_t behind = position(1, b, s, j) - position(0, b, s, i);
  if (table.map.zero_outside && (behind < -table.map.left || behind > table.map.right)) return -1;
  return std::clamp(behind, -table.map.left, table.map.right) + table.map.left;
}
inline TermsProblem::Added TermsProblem::added_values(std::int64_t b, std::int64_t s, std::int64_t i, std::int64_t j,
                                                      std::int64_t h) const {
  const std::int64_t dv = work_->shape.value_width;
  Added added = {std::vector<double>(dv, 0.0), std::vector<double>(dv, 0.0)};
  for (int t = 0; t < work_->term_count; ++t) {
    const TermWork& term = work_->terms[t];
    const bool of_values = term.use == TermUse::table && term.table.use == RowUse::value;
    const std::int64_t row = of_values ? row_of(term.table, b, s, i, j) : -1;
    for (std::int64_t c = 0; row >= 0 && c < dv; ++c) {
      const double x = number(term.table.table, b, row, h, c);
      added.sums[c] += x, added.sizes[c] += std::abs(x);
    }
  }
  return added;
}

inline TermsProblem::Score TermsProblem::score(std::int64_t b, std::int64_t s, std::int64_t i, std::int64_t j, std::int64_t h) const {
  const AttentionWork& w = *work_;
  const std::int64_t m = position(0, b, s, i), n = position(1, b, s, j), key_head = h / (w.shape.heads / w.shape.key_heads);
  Score result;
  result.seen = sees(b, s, i, j);
  if (!result.seen) return result;
  // Each product adds |its summands| times the units of 2^-23 that its sum may lose: by steps of 16 channels on tensor cores, which cut
  // off; one by one where a thread adds (half a unit each).
  const auto add = [&](const ConstTensorView& x, std::int64_t xb, std::int64_t xt, std::int64_t xh, const ConstTensorView& y,
                       std::int64_t yb, std::int64_t yt, std::int64_t yh, double scale, bool by_one) {
    double sum = 0, size = 0;
    for (std::int64_t c = 0; c < x.shape[3]; ++c) {
      const double z = scale * number(x, xb, xt, xh, c) * number(y, yb, yt, yh, c);
      sum += z, size += std::abs(z);
    }
    const auto width = static_cast<double>(x.shape[3]);
    result.value += sum;
    result.error += size * ((by_one ? width / 2 : (width + 15) / 16) + 4 + 2 * w.term_count) * 0x1p-23;
  };
  const auto add_number = [&](double x) { result.value += x, result.error += std::abs(x) * (4 + 2 * w.term_count) * 0x1p-23; };
  add(w.contents[0].q, b, i, h, w.contents[0].k, b, j, key_head, w.scale, false);
  if (w.content_shift.data != nullptr) add(w.content_shift, 0, 0, h, w.k, b, j, key_head, w.scale, true);
  for (int t = 0; t < w.term_count; ++t) {
    const TermWork& term = w.terms[t];
    if (term.use == TermUse::dense) add_number(number(term.dense, b, i, h, j));
    if (term.use == TermUse::bias) {
      const bool by_key = term.bias.bias.form == AlibiForm::key_position;
      const double length = by_key ? static_cast<double>(n) : -std::abs(static_cast<double>(m - n));
      add_number((term.bias.gate.data == nullptr ? 1 : number(term.bias.gate, b, i, h, 0)) * term.bias.bias.slopes[h] * length);
    }
    if (term.use == TermUse::cope) {
      const Score x = counted(b, s, i, j, h);
      result.value += x.value, result.error += x.error;
    }
    if (term.use != TermUse::table) continue;
    const cuda::attention::TableWork& table = term.table;
    const std::int64_t row = row_of(table, b, s, i, j);
    if (row < 0 || table.use == RowUse::value) continue;
    if (table.use == RowUse::number) {
      add_number(table.scale * number(table.table, b, row, h, 0));
    } else if (table.use == RowUse::key) {
      add(w.k, b, j, key_head, table.table, b, row, h, table.scale, true);
    } else {
      add(table.features, b, i, h, table.table, b, row, h, table.scale, true);
      if (table.shift.data != nullptr) add(table.shift, 0, 0, h, table.table, b, row, h, table.scale, true);
    }
  }
  if (w.softcap != 0) {
    result.value = w.softcap * std::tanh(result.value / w.softcap);
    result.error += 4 * w.softcap * 0x1p-23;
  }
  return result;
}

inline ExpectedRow TermsProblem::expected(std::int64_t b, std::int64_t i, std::int64_t h) const {
  const AttentionWork& w = *work_;
  const std::int64_t s = sequence_of(b, i), n = w.see.query_starts.size == 0 ? 0 : s, dv = w.shape.value_width;
  ExpectedRow row = {std::vector<double>(dv, 0.0), std::vector<double>(dv, 0.0), -INFINITY, 0};
  std::vector<Score> scores;
  double greatest = w.sinks.data == nullptr ? -INFINITY : number(w.sinks, 0, 0, h, 0), error = 0;
  const double sink = greatest;
  for (std::int64_t j = starts_[1][n]; j < starts_[1][n + 1]; ++j) {
    scores.push_back(score(b, s, i, j, h));
    if (scores.back().seen) greatest = std::max(greatest, scores.back().value), error = std::max(error, scores.back().error);
  }
  if (greatest == -INFINITY) return row;
  double sum = std::exp(sink - greatest);
  for (const Score& x : scores) sum += x.seen ? std::exp(x.value - greatest) : 0;
  row.lse = greatest + std::log(sum);
  const double of_weight = 2 * error + 0x1p-20 + static_cast<double>(w.shape.keys) / 16 * 0x1p-23;
  row.lse_bound = of_weight + std::abs(row.lse) * 0x1p-22;
  const double rounding = dtype_ == DType::bf16 ? 0x1p-8 : 0x1p-11;
  const double least = dtype_ == DType::bf16 ? 0x1p-134 : 0x1p-25;
  std::vector<double> sizes(dv, 0.0), all(dv, 0.0);
  for (std::size_t x = 0; x < scores.size(); ++x) {
    if (!scores[x].seen) continue;
    const std::int64_t j = starts_[1][n] + static_cast<std::int64_t>(x), key = position(1, b, s, j);
    double weight = std::exp(scores[x].value - row.lse), factor = 1;
    if (w.dropout.present) {
      const math::PhiloxKey numbers =
          math::dropout_row_key(w.dropout.seed, position(0, b, s, i), static_cast<math::u32>(h), static_cast<math::u32>(s));
      const math::PhiloxBlock words = math::dropout_words(numbers, math::dropout_block(key), w.dropout.offset);
      factor = words.word[math::dropout_word(key)] >= w.dropout.threshold ? w.dropout.factor : 0;
    }
    weight *= factor;
    const Added added = added_values(b, s, i, j, h);
    for (std::int64_t c = 0; c < dv; ++c) {
      const double v = number(w.v, b, j, h / (w.shape.heads / w.shape.key_heads), c), size = std::abs(v) + added.sizes[c];
      row.out[c] += weight * (v + added.sums[c]), sizes[c] += weight * size, all[c] += factor * size;
    }
  }
  for (std::int64_t c = 0; c < dv; ++c) {
    const double before = sizes[c] * (rounding + of_weight) + all[c] * least;
    row.out_bound[c] = before + (std::abs(row.out[c]) + before) * rounding + least;
  }
  return row;
}

}  // namespace phasor::test

#include "cuda/attention/mma_cope.hpp"
#include "cuda/attention/mma_drawn.hpp"
