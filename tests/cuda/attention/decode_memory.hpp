// SPDX-License-Identifier: Apache-2.0
// A problem of decoding in memory, of a GPU or of the host, and how far from the reference what was made of it is.
#pragma once

#include <cstring>

#include "cuda/attention/decode_problem.hpp"

namespace phasor::test {

inline void fill(Storage storage, std::byte* to, int64_t count, std::mt19937_64& random) {
  for (int64_t n = 0; n < count; ++n) {
    if (storage > Storage::bf16) {
      auto bits = static_cast<unsigned>(random() & 0xff);
      if ((bits & 0x7f) >= (storage == Storage::f8_e4m3 ? 0x70U : 0x58U)) bits &= 0x8f;  // no NaN, and not too far apart
      to[n] = static_cast<std::byte>(bits);
    } else {
      job::store_element(to, storage == Storage::f16 ? DType::f16 : DType::bf16, n, static_cast<double>(random() % 4001) / 1000 - 2);
    }
  }
}

/// A problem's memory: Memory takes bytes, and copies lists.
template <class Memory>
struct DecodeMemory {
  DecodeProblem p;
  Memory memory;
  float* lse;
  std::byte* out;
  DType out_dtype;

  explicit DecodeMemory(std::uint64_t seed) : p(random_decode(seed)) {
    std::mt19937_64 random(seed * 77 + 1);
    DecodeWork& w = p.work;
    const int64_t size = bytes_of(w.storage), row = w.width * size, heads = w.key_heads;
    const int64_t block = w.page_size * heads * row;
    std::byte* const cache = memory.take(static_cast<std::size_t>(2 * p.cache_blocks * block));
    fill(w.storage, cache, 2 * p.cache_blocks * block / size, random);
    for (auto* const side : {&w.k, &w.v}) {
      side->data = cache + (side == &w.v ? block : 0);  // k and v are views of one tensor
      side->strides[0] = 2 * block;
      side->strides[1] = p.heads_first ? row : heads * row;
      side->strides[2] = p.heads_first ? w.page_size * row : row;
    }
    const Extents shape = {w.batch, w.queries, w.heads, w.width};
    const int64_t count = shape[0] * shape[1] * shape[2] * shape[3];
    auto* const q = memory.take(static_cast<std::size_t>(count * 4));
    for (int64_t n = 0; n < count; ++n) job::store_element(q, w.q.dtype, n, static_cast<double>(random() % 4001) / 1000 - 2);
    w.q = {q, w.q.dtype, shape, contiguous_strides(shape), Device{DeviceKind::cuda, 0}};
    out_dtype = random() % 3 == 0 ? DType::f32 : w.storage == Storage::f16 ? DType::f16 : DType::bf16;
    out = memory.take(static_cast<std::size_t>(count * 4));
    std::memset(out, 0xff, static_cast<std::size_t>(count * 4));
    lse = reinterpret_cast<float*>(memory.take(static_cast<std::size_t>(count / w.width * 4)));
    w.outputs.out = {out, out_dtype, shape, contiguous_strides(shape), Device{DeviceKind::cuda, 0}};
    const Extents rows = {w.batch, w.queries, w.heads, 1};
    w.outputs.lse = {lse, DType::f32, rows, contiguous_strides(rows), Device{DeviceKind::cuda, 0}};
    w.lengths = Integers(memory.copy(p.lengths), p.lengths.size(), Device{DeviceKind::cuda, 0});
    w.blocks = Integers(memory.copy(p.blocks), p.blocks.size(), Device{DeviceKind::cuda, 0});
    if (p.has_mask) w.mask = {memory.copy(p.mask), {w.room, 1}, Device{DeviceKind::cuda, 0}};
    if (!p.diagonal.empty()) w.diagonal = memory.copy(p.diagonal);
    if (!p.sinks.empty()) w.sinks = {memory.copy(p.sinks), DType::f32, {1, 1, w.heads, 1}, {0, 0, 1, 1}, Device{DeviceKind::cuda, 0}};
    if (!p.scales.empty()) {
      const float* const scales = memory.copy(p.scales);
      w.k.scales = scales, w.v.scales = scales + w.key_heads;
      w.k.scale_stride = w.v.scale_stride = 1;
    }
    place_partials(w);
  }
  void place_partials(DecodeWork& w) {
    const int64_t numbers = cuda::decode::partial_numbers(w);
    auto* const room = reinterpret_cast<float*>(memory.take(static_cast<std::size_t>(numbers * 4)));
    std::memset(room, 0xff, static_cast<std::size_t>(numbers * 4));
    w.partial_out = room;
    w.partial_sum = room + numbers / (w.width + 2) * w.width;
  }
  std::size_t out_bytes() const {
    return static_cast<std::size_t>(p.work.batch * p.work.queries * p.work.heads * p.work.width * bytes_of(out_dtype));
  }
};

/// How far a row is off, as a share of the bound; 9 where it is wrong, and what is wrong in `text`.
template <class Memory>
double share_of_bound(const DecodeMemory<Memory>& on, std::int64_t b, std::int64_t i, std::int64_t h, std::string& text) {
  const DecodeProblem& p = on.p;
  const DecodeWork& w = p.work;
  const DecodedRow want = expected_decode(p, static_cast<int>(b), static_cast<int>(i), static_cast<int>(h), on.out_dtype);
  const int64_t row = (b * w.queries + i) * w.heads + h;
  const double lse = static_cast<double>(on.lse[row]);
  double share = want.lse == -INFINITY ? (lse == -INFINITY ? 0 : 9) : std::abs(lse - want.lse) / want.lse_bound;
  if (!(share <= 1)) share = 9;
  int at = 0;
  for (int c = 0; c < w.width; ++c) {
    const double out = job::load_element(on.out, on.out_dtype, row * w.width + c);
    const double off = std::abs(out - want.out[static_cast<std::size_t>(c)]) / std::max(want.out_bound[static_cast<std::size_t>(c)], 1e-30);
    if (!(off <= 1) && share <= 1) at = c;
    share = off <= 1 ? std::max(share, off) : 9;
  }
  if (share > 1) {
    text = p.text + ": row " + std::to_string(b) + " " + std::to_string(i) + " " + std::to_string(h) + ", length " +
           std::to_string(p.lengths[static_cast<std::size_t>(b)]) + ", lse " + std::to_string(lse) + " wanted " + std::to_string(want.lse) +
           ", out[" + std::to_string(at) + "] " + std::to_string(job::load_element(on.out, on.out_dtype, row * w.width + at)) + " wanted " +
           std::to_string(want.out[static_cast<std::size_t>(at)]);
  }
  return share;
}

}  // namespace phasor::test
