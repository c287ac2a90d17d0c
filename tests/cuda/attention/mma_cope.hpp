// SPDX-License-Identifier: Apache-2.0
// CoPE among the random calls of mma_terms.hpp: how it is drawn, whom a query sees and so counts, and what that adds to a score.
#pragma once

#include "cuda/attention/mma_terms.hpp"

namespace phasor::test {

/// CoPE alone, with what it may have beside it. Some gates are one half, so that counts are whole numbers; some tables end before the keys.
inline void TermsProblem::add_cope() {
  AttentionWork& w = *work_;
  w.see.causal = true;
  w.has_positions[0] = w.has_positions[1] = false;
  w.content_shift = {};
  w.dropout = {};
  w.partial = {};
  TermWork& term = w.terms[w.term_count++];
  term.use = TermUse::cope;
  const std::int64_t rows = any({1, 2, 16, 17, 64, 100});
  term.cope.table = tensor(dtype_, {1, rows, any<std::int64_t>({1, w.shape.heads}), w.shape.width}, 0.5F);
  term.cope.gate_scale = any({1.0, 0.1, -0.5, 0.0});
  term.cope.scale = any({1.0, 0.2});
  term.table.table = term.cope.table;
  say("CoPE of " + std::to_string(rows) + " rows by " + std::to_string(term.cope.gate_scale) + ", alone, causal");
}

inline bool TermsProblem::sees(std::int64_t b, std::int64_t s, std::int64_t i, std::int64_t j) const {
  const AttentionWork& w = *work_;
  const std::int64_t m = position(0, b, s, i), n = position(1, b, s, j);
  const std::int64_t prefix = w.see.prefix.size == 0 ? INT64_MIN : static_cast<const std::int64_t*>(w.see.prefix.data)[s];
  return (!w.see.causal || m >= n || n < prefix) && m - n <= w.see.left && n - m <= w.see.right &&
         (w.see.key_mask.data == nullptr || w.see.key_mask.data[b * w.see.key_mask.strides[0] + j] != 0);
}

inline TermsProblem::Score TermsProblem::product(const RowAt& x, const RowAt& y) {
  double sum = 0, size = 0;
  for (std::int64_t c = 0; c < x.of.shape[3]; ++c) {
    const double z = number(x.of, x.b, x.token, x.h, c) * number(y.of, y.b, y.token, y.h, c);
    sum += z, size += std::abs(z);
  }
  return {sum, size * (static_cast<double>(x.of.shape[3] + 15) / 16 + 4) * 0x1p-23, true};
}

/// A gate is off by what its product is off by, times its slope (at most 1/4), and by 2^-21 for its own arithmetic; a count by all of its
/// gates, and a rounding of each sum. What it adds moves with the count along the steps between rows nearby: at a row there are two.
inline TermsProblem::Score TermsProblem::counted(std::int64_t b, std::int64_t s, std::int64_t i, std::int64_t j, std::int64_t h) const {
  const AttentionWork& w = *work_;
  const CopeTerm& term = w.terms[0].cope;
  const std::int64_t m = position(0, b, s, i), n = position(1, b, s, j), key_head = h / (w.shape.heads / w.shape.key_heads);
  const std::int64_t last = term.table.shape[1] - 1, sequence = w.see.query_starts.size == 0 ? 0 : s;
  double count = 0, off = 0;
  for (std::int64_t other = j; other < starts_[1][sequence + 1]; ++other) {
    if (position(1, b, s, other) < n || position(1, b, s, other) > m || !sees(b, s, i, other)) continue;
    const Score x = product({w.q, b, i, h}, {w.k, b, other, key_head});
    count += 1 / (1 + std::exp(-term.gate_scale * x.value));
    off += std::abs(term.gate_scale) * (x.error + std::abs(x.value) * 0x1p-22) / 4 + 0x1p-21 + count * 0x1p-23;
  }
  const double at = std::min(count, static_cast<double>(last)), below = std::floor(at);
  const auto lower = static_cast<std::int64_t>(below);
  const auto row = [&](std::int64_t r) { return product({w.q, b, i, h}, {term.table, b, std::clamp<std::int64_t>(r, 0, last), h}); };
  const Score low = row(lower), high = row(lower + 1);
  double steepest = std::abs(high.value - low.value);
  steepest = std::max({steepest, std::abs(low.value - row(lower - 1).value), std::abs(row(lower + 2).value - high.value)});
  const double value = low.value + (at - below) * (high.value - low.value);
  const double error = low.error + high.error + steepest * off + (std::abs(low.value) + std::abs(high.value)) * 0x1p-22;
  return {term.scale * value, std::abs(term.scale) * error, true};
}

}  // namespace phasor::test
