// SPDX-License-Identifier: Apache-2.0
// What threads do by themselves before and after the blocks of the backward: an element each, its summands in one order.
#pragma once

#include "cuda/attention/backward/place.hpp"
#include "cuda/attention/forward.hpp"

namespace phasor::cuda::attention {

/// Sums, and where they go.
struct SumWork {
  int64_t at[4] = {-1, -1, -1, -1};  // of the call; of a block for add_slots
  int count = 1;
  int64_t parts = 1;
  Extents shape = {};  // of a part; of the call for add_parts
  TensorView to = {};
};

/// Element n of a tensor.
struct ElementAt {
  int64_t index[4];
};
template <class Whole>
PHASOR_HD inline ElementAt element_by(const Extents& s, Whole n) {
  const Whole row = n / static_cast<Whole>(s[3]);
  const Whole token = row / static_cast<Whole>(s[2]);
  const Whole batch = token / static_cast<Whole>(s[1]);
  return {{batch, token - batch * static_cast<Whole>(s[1]), row - token * static_cast<Whole>(s[2]), n - row * static_cast<Whole>(s[3])}};
}
/// Divisions of 64 bits take most of a thread's time where it stores one element: almost always 32 are enough.
PHASOR_HD inline ElementAt element_of(const Extents& s, int64_t n) {
  const bool is_near = (n | s[1] | s[2] | s[3]) <= int64_t{0xffffffff};
  return is_near ? element_by(s, static_cast<std::uint32_t>(n)) : element_by(s, n);
}
PHASOR_HD inline int64_t place_of(const TensorView& v, const ElementAt& e) {
  return e.index[0] * v.strides[0] + e.index[1] * v.strides[1] + e.index[2] * v.strides[2] + e.index[3] * v.strides[3];
}
PHASOR_HD inline void add_to(const TensorView& v, const ElementAt& e, double x) {
  const int64_t at = place_of(v, e);
  job::store_element(v.data, v.dtype, at, job::load_element(v.data, v.dtype, at) + x);
}

PHASOR_HD inline double rounded_to(DType dtype, double x) {
  std::uint16_t bits = 0;
  job::store_element(&bits, dtype, 0, x);
  return job::load_element(&bits, dtype, 0);
}

/// Of the outputs, as the blocks multiply it: what they subtract is then the mean of what they have, and rounding moves no mean.
template <class T>
PHASOR_HD inline T out_gradient_at(const AttentionWork& work, int64_t batch, int64_t token, int64_t head, int64_t c) {
  const T x = element_at<T>(work.backward.saved.out_gradient, batch, token, head, c);
  return work.backward.rounds_out_gradient ? static_cast<T>(rounded_to(work.q.dtype, x)) : x;
}

/// <do, o> - dlse of row n of (B, Tq, H). Where a whole output is 0 its gradient counts for nothing, even if it is no number: such a query
/// sees no key.
template <class T>
PHASOR_HD inline void write_delta(const AttentionWork& work, int64_t n) {
  const AttentionSaved& saved = work.backward.saved;
  const int64_t head = n % work.shape.heads;
  const int64_t token = n / work.shape.heads % work.shape.queries;
  const int64_t batch = n / work.shape.heads / work.shape.queries;
  T sum = 0;
  bool answered = false;
  for (int64_t c = 0; c < work.shape.value_width; ++c) {
    const T out = element_at<T>(saved.out, batch, token, head, c);
    answered = answered || out != 0;
    sum += out * out_gradient_at<T>(work, batch, token, head, c);
  }
  if (!answered) sum = 0;
  if (saved.lse_gradient.data != nullptr) sum -= element_at<T>(saved.lse_gradient, batch, token, head, 0);
  sums_at<T>(work, work.backward.delta)[n] = sum;
}

/// Rows of queries whose sinks an item takes.
constexpr int64_t kSinkRows = 256;

/// Item n of (chunks of rows, H). A sink's probability is e^(sink - lse), and its value is zero: as every score it has the gradient
/// p (<do, value> - delta).
template <class T>
PHASOR_HD inline void add_sink_rows(const AttentionWork& work, const SumWork& to, int64_t n) {
  const int64_t heads = work.shape.heads;
  const int64_t head = n % heads;
  const T sink = element_at<T>(work.sinks, 0, 0, head, 0);
  const int64_t first = n / heads * kSinkRows;
  const int64_t end = least(first + kSinkRows, work.shape.batch * work.shape.queries);
  double sum = 0;
  for (int64_t row = first; row < end && sink != -infinity<T>(); ++row) {
    const T lse = element_at<T>(work.backward.saved.lse, row / work.shape.queries, row % work.shape.queries, head, 0);
    sum -= static_cast<double>(weight_under(sink, lse)) * static_cast<double>(sums_at<T>(work, work.backward.delta)[row * heads + head]);
  }
  sums_at<T>(work, to.at[0])[n] = static_cast<T>(sum);
}

/// Element n of (B, keys of a chunk, ...), from all parts to the first one's.
template <class T>
PHASOR_HD inline void add_parts(const AttentionWork& work, const SumWork& sum, int64_t n) {
  const KeyChunk& chunk = work.backward.chunk;
  const int64_t row = sum.shape[2] * sum.shape[3];
  const int64_t batch = sum.shape[0] == 1 ? 0 : n / (chunk.keys * row);
  const int64_t element = n - batch * chunk.keys * row;
  if (element >= (sum.shape[1] - chunk.first) * row) return;  // behind the last key
  T* const sums = sums_at<T>(work, sum.at[0]) + element;
  T* const to = sums + key_row(work, 0, batch, chunk.first) * row;
  const T* const from = sums + key_row(work, 1, batch, chunk.first) * row;
  const int64_t of_part = sum.shape[0] * chunk.keys * row;
  T total = *to;
  for (int64_t p = 1; p < sum.parts; ++p) total += from[(p - 1) * of_part];
  *to = total;
}

/// Element n of a tensor, from what blocks have added up: all of them, but for those that have other heads or batch rows.
template <class T>
PHASOR_HD inline void add_slots(const AttentionWork& work, const SumWork& sum, int64_t n) {
  const BackwardWork& b = work.backward;
  const Extents& s = sum.to.shape;
  const ElementAt e = element_of(s, n);
  const bool own_batch = s[0] > 1 && slot_batches(work, s) == 1;
  const int64_t first_group = own_batch ? e.index[0] : 0;
  const int64_t end_group = own_batch ? e.index[0] + 1 : b.groups;
  const int64_t first_key_group = s[2] == 1 ? 0 : e.index[2] / heads_of_block(work);
  const int64_t end_key_group = s[2] == 1 ? b.key_groups : first_key_group + 1;
  const int64_t at = sum.at[0] + slot_row(work, s, e.index[0], e.index[1], e.index[2]) + e.index[3];
  double total = 0;
  for (int64_t g = first_group; g < end_group; ++g) {
    for (int64_t k = first_key_group; k < end_key_group; ++k) {
      for (int64_t p = 0; p < b.parts; ++p) total += static_cast<double>(*slot_at<T>(work, (g * b.key_groups + k) * b.parts + p, at));
    }
  }
  add_to(sum.to, e, total);
}

/// Element n of a tensor, from sums of the call: its own, and where batch rows or heads share it all of them.
template <class T>
PHASOR_HD inline void add_sums(const AttentionWork& work, const SumWork& sum, int64_t n) {
  const Extents& s = sum.shape;
  const ElementAt e = element_of(sum.to.shape, n);
  const int64_t batches = s[0] / sum.to.shape[0];
  const int64_t heads = s[2] / sum.to.shape[2];
  const T* const from = sums_at<T>(work, sum.at[0]);
  double total = 0;
  for (int64_t p = 0; p < sum.parts; ++p) {
    for (int64_t b = e.index[0] * batches; b < (e.index[0] + 1) * batches; ++b) {
      for (int64_t h = e.index[2] * heads; h < (e.index[2] + 1) * heads; ++h) {
        total += static_cast<double>(from[(((p * s[0] + b) * s[1] + e.index[1]) * s[2] + h) * s[3] + e.index[3]]);
      }
    }
  }
  add_to(sum.to, e, total);
}

template <class T>
PHASOR_HD inline void store_sums(const AttentionWork& work, const SumWork& sum, int64_t n) {
  T total = 0;
  for (int i = 0; i < sum.count; ++i) total += sums_at<T>(work, sum.at[i])[n];
  job::store_element(sum.to.data, sum.to.dtype, place_of(sum.to, element_of(sum.to.shape, n)), total);
}

}  // namespace phasor::cuda::attention
