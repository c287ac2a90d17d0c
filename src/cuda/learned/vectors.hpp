// SPDX-License-Identifier: Apache-2.0
// Rows of learned tables added by vectors of 16 bytes: a thread has one vector of some tokens. Tables of x's dtype, everything aligned;
// cuda/learned/lookup.hpp has the rest.
#pragma once

#include "cuda/learned/lookup.hpp"
#include "cuda/rotary/walk.hpp"
#include "cuda/tuning.hpp"

namespace phasor::cuda {

/// Tokens of a thread: its loads are on their way together.
constexpr int kLookupTokens = 4;

inline bool takes_vectors(const job::LookupJob& job) {
  const job::AddTarget& x = job.target;
  const int64_t size = bytes_of(x.dtype);
  const auto whole = [](int64_t bytes) { return bytes % kVectorBytes == 0; };
  const auto aligned = [&](const std::byte* data) { return whole(static_cast<int64_t>(reinterpret_cast<std::uintptr_t>(data))); };
  for (int64_t t = 0; t < job.table_count; ++t) {
    const job::LookupTable& table = job.tables[t];
    if (table.dtype != x.dtype || !aligned(table.data) || !whole(table.row_stride * size) || !whole(table.width * size)) return false;
  }
  const bool strides = whole(x.in_strides[0]) && whole(x.in_strides[1]) && whole(x.out_strides[0]) && whole(x.out_strides[1]);
  return strides && aligned(x.in) && aligned(x.out);
}
PHASOR_HD inline int64_t vectors_of_token(const job::LookupJob& job) {
  return job.target.width * bytes_of(job.target.dtype) / kVectorBytes;
}
PHASOR_HD inline WalkShape lookup_shape(const job::LookupJob& job) { return walk_shape(vectors_of_token(job), job.tokens, kLookupTokens); }

template <DType dtype>
PHASOR_HD inline void lookup_vectors(const job::LookupJob& job, const WalkShape& shape, int64_t index) {
  using E = Element<dtype>;
  using Storage = typename E::Storage;
  constexpr int kWidth = static_cast<int>(kVectorBytes / bytes_of(dtype));
  using Lanes = Vector<Storage, kWidth>;
  int64_t vector = 0;
  const WalkPlace place = walk_at<kLookupTokens>(shape, index, vector);
  const int64_t channel = vector * kWidth;
  int64_t c = channel;
  int64_t axis = 0;
  for (; c >= job.tables[axis].width; ++axis) c -= job.tables[axis].width;
  const job::LookupTable& table = job.tables[axis];
  const job::AddTarget& x = job.target;
  Lanes rows[kLookupTokens] = {};
  Lanes held[kLookupTokens] = {};
  const auto each = [&](const auto& body) {
    unrolled<kLookupTokens>([&](auto j) {
      if (j < place.count) body(j);
    });
  };
  const auto token_of = [&](auto* data, const int64_t strides[2], int j) {
    return data + place.batch * strides[0] + (place.token + j) * strides[1] + vector * kVectorBytes;
  };
  each([&](auto j) {
    if (x.in != nullptr) held[j] = *reinterpret_cast<const Lanes*>(token_of(x.in, x.in_strides, j));
  });
  each([&](auto j) {
    const int64_t row = whole_position(job.positions, axis, place.batch, place.token + j) + job.offset;
    rows[j] = *reinterpret_cast<const Lanes*>(reinterpret_cast<const Storage*>(table.data) + row * table.row_stride + c);
  });
  each([&](auto j) {
    unrolled<kWidth>([&](auto i) {
      const typename E::Value value = E::widen(rows[j].at[i]);
      rows[j].at[i] = E::narrow(x.in == nullptr ? value : E::widen(held[j].at[i]) + value);
    });
    *reinterpret_cast<Lanes*>(token_of(x.out, x.out_strides, j)) = rows[j];
  });
}

}  // namespace phasor::cuda
