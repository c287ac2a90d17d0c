// SPDX-License-Identifier: Apache-2.0
// Tensors of terms on the host side.
#include "cpu/attention/host/term_tensors.hpp"

#include <algorithm>
#include <cstring>

#include "cpu/attention/host_tables/slots.hpp"
#include "job/check.hpp"
#include "job/element.hpp"
#include "job/overlap.hpp"
#include "job/positions/positions.hpp"

namespace phasor::attend {
namespace {

std::int64_t index_in(const ConstTensorView& v, const RowIndex& row, std::int64_t channel) {
  const std::array<std::int64_t, 4> place = {row.b, row.t, row.h, channel};
  std::int64_t index = 0;
  for (std::size_t axis = 0; axis < 4; ++axis) index += v.shape[axis] == 1 ? 0 : place[axis] * v.strides[axis];
  return index;
}

/// Widths from `starts`, of sequence s.
std::int64_t length_of(const Integers& starts, std::int64_t s) { return job::at(starts, s + 1) - job::at(starts, s); }

PositionRange range_of(const Positions& p, std::int64_t batch, std::int64_t tokens) {
  if (tokens == 0 || batch == 0) return {};
  PositionRange range{job::integer_at(p, 0, 0), job::integer_at(p, 0, 0)};
  const std::int64_t rows = p.data == nullptr || p.shape[1] == 1 ? 1 : batch;
  for (std::int64_t b = 0; b < rows; ++b) {
    for (std::int64_t t = 0; t < tokens; ++t) {
      const std::int64_t at = job::integer_at(p, b, t);
      range.least = std::min(range.least, at);
      range.greatest = std::max(range.greatest, at);
    }
  }
  return range;
}

}  // namespace

double element_at(const ConstTensorView& v, const RowIndex& row, std::int64_t channel) {
  return job::load_element(v.data, v.dtype, index_in(v, row, channel));
}

void add_to_element(const TensorView& v, const RowIndex& row, std::int64_t channel, double x) {
  const std::int64_t index = index_in(v, row, channel);
  job::store_element(v.data, v.dtype, index, job::load_element(v.data, v.dtype, index) + x);
}

void* pack_rows(const ConstTensorView& v, const Packing& packing, const AttentionJob& job, Arena& arena) {
  const std::int64_t rows = v.shape[1];
  const std::int64_t heads = heads_of(v);
  void* const memory = arena.take_bytes(heads * rows * packing.padded * bytes_of_arithmetic(job));
  if (memory == nullptr) return nullptr;
  with_arithmetic(job.arithmetic, [&]<class T>(T) {
    T* out = static_cast<T*>(memory);
    std::fill(out, out + heads * rows * packing.padded, T{0});
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t r = 0; r < rows; ++r, out += packing.padded) {
        for (std::int64_t c = 0; c < v.shape[3]; ++c) out[c] = static_cast<T>(packing.factor * element_at(v, {0, r, h}, c));
      }
    }
  });
  return memory;
}

void* pack_columns(const ConstTensorView& v, const Packing& packing, const AttentionJob& job, Arena& arena) {
  const std::int64_t heads = heads_of(v);
  const std::int64_t size = job.shape.padded_width * packing.padded;
  void* const memory = arena.take_bytes(heads * size * bytes_of_arithmetic(job));
  if (memory == nullptr) return nullptr;
  with_arithmetic(job.arithmetic, [&]<class T>(T) {
    T* out = static_cast<T*>(memory);
    std::fill(out, out + heads * size, T{0});
    for (std::int64_t h = 0; h < heads; ++h, out += size) {
      for (std::int64_t r = 0; r < v.shape[1]; ++r) {
        for (std::int64_t c = 0; c < v.shape[3]; ++c)
          out[c * packing.padded + r] = static_cast<T>(packing.factor * element_at(v, {0, r, h}, c));
      }
    }
  });
  return memory;
}

void* take_sums(std::int64_t count, const AttentionJob& job, Arena& arena) {
  const std::int64_t bytes = slots_of(job) * count * bytes_of_arithmetic(job);
  void* const memory = arena.take_bytes(bytes);
  if (memory != nullptr) std::memset(memory, 0, static_cast<std::size_t>(bytes));
  return memory;
}

double sum_of_slots(const void* sums, std::int64_t count, const AttentionJob& job, std::int64_t head, std::int64_t index) {
  double sum = 0;
  with_arithmetic(job.arithmetic, [&]<class T>(T) {
    const T* const at = static_cast<const T*>(sums) + index;
    const std::int64_t slots = slots_of(job);
    for (std::int64_t slot = head; slot < slots; slot += job.shape.heads) sum += static_cast<double>(at[slot * count]);
  });
  return sum;
}

PositionRange query_range(const job::AttentionJob& asked, const AttentionShape& shape) {
  if (shape.queries == 0 || shape.batch == 0) return {};
  if (asked.query_positions.given) return range_of(asked.query_positions.at, shape.batch, shape.queries);
  const Integers& starts = asked.visibility.query_starts;
  if (starts.size == 0) return {shape.keys - shape.queries, shape.keys - 1};
  PositionRange range;
  for (std::int64_t s = 0; s + 1 < starts.size; ++s) {
    const std::int64_t queries = length_of(starts, s);
    const std::int64_t keys = length_of(asked.visibility.key_starts, s);
    if (queries == 0) continue;
    range.least = std::min(range.least, keys - queries);
    range.greatest = std::max(range.greatest, keys - 1);
  }
  return range;
}

PositionRange key_range(const job::AttentionJob& asked, const AttentionShape& shape) {
  if (shape.keys == 0 || shape.batch == 0) return {};
  if (asked.key_positions.given) return range_of(asked.key_positions.at, shape.batch, shape.keys);
  const Integers& starts = asked.visibility.key_starts;
  if (starts.size == 0) return {0, shape.keys - 1};
  std::int64_t longest = 0;
  for (std::int64_t s = 0; s + 1 < starts.size; ++s) longest = std::max(longest, length_of(starts, s));
  return {0, longest - 1};
}

}  // namespace phasor::attend
