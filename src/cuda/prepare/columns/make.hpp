// SPDX-License-Identifier: Apache-2.0
// Values that lie in a cache by channels, a page's tokens side by side (vLLM's older layout): a block takes some tokens of a head to shared
// memory and writes the channels of eight tokens whose places are neighbours at once. Others are written one by one. Written for any
// executor of a block; tests run it on the host.
#pragma once

#include "cuda/prepare/squads/store.hpp"
#include "job/prepare/places.hpp"

namespace phasor::cuda {

constexpr int kColumnThreads = 128;
constexpr int kColumnTokens = 32;  // of a block
constexpr int kColumnCell = 8;     // tokens that are written at once
constexpr int kColumnCells = kColumnTokens / kColumnCell;
constexpr int kColumnVectors = 32;  // of a head, at most

struct ColumnWork {
  job::PlaceSource places;
  SquadOperand operand;
  int64_t tokens = 0;  // of a batch row
  int64_t batch = 0;
  int heads = 0;
  int vectors_shift = 0;  // log2 of the vectors of a head
  DType dtype = DType::bf16;
  bool follows = false;  // another launch of the same call: what that waited for has ended, and it writes elsewhere
};

/// Which tokens go how.
struct alignas(16) ColumnShared {
  Words words[kColumnTokens * kColumnVectors];
  int64_t at[kColumnTokens];  // from where channel 0 of the head has its places; none: kNowhere
  int leaders[kColumnCells];  // tokens from which on a cell is full; -1: none
  bool alone[kColumnTokens];
};

template <DType dtype>
struct ColumnMaker {
  static constexpr int64_t kNowhere = INT64_MIN;
  const ColumnWork& work;
  SquadPlace place;  // its first token, its head
  ColumnShared& shared;

  PHASOR_HD int tokens() const {
    const int64_t left = work.tokens - place.token;
    return left < kColumnTokens ? static_cast<int>(left) : kColumnTokens;
  }
  PHASOR_HD bool is_wide() const { return bytes_of(work.operand.storage) == 2; }
  PHASOR_HD int size() const { return is_wide() ? 2 : 1; }
  /// A vector of a token; those of tokens eight apart are in other banks.
  PHASOR_HD int word_of(int token, int vector) const { return (token << work.vectors_shift) + (vector ^ (token / kColumnCell)); }

  template <class Block>
  PHASOR_HD void ask(int thread, const Block& block) const {
    const SquadOperand& of = work.operand;
    const math::u64 row = math::u64{static_cast<unsigned>(place.batch)} * of.in_batch;
    const int count = tokens() << work.vectors_shift;
    for (int n = thread; n < count; n += kColumnThreads) {
      const int token = n >> work.vectors_shift;
      const int vector = n & ((1 << work.vectors_shift) - 1);
      const math::u64 before = row + math::u64{static_cast<unsigned>(place.token + token)} * of.in_token + static_cast<unsigned>(vector);
      block.fetch(shared.words + word_of(token, vector), of.in + before * sizeof(Words) + int64_t{place.first_head} * of.in_head);
    }
    if (thread < kColumnCells) shared.leaders[thread] = -1;
    if (thread >= kColumnTokens) return;
    shared.at[thread] = kNowhere;
    if (thread >= tokens()) return;
    const job::TokenPlace to = job::place_of(work.places, place.batch, place.token + thread, work.tokens);
    if (to.block >= 0) shared.at[thread] = to.block * of.out_block + to.token * of.out_token;
  }
  /// A thread for each token: whether it is one of eight neighbours that fill a cell, of which the first is named, or alone (1).
  PHASOR_HD unsigned sort(int thread) const {
    if (thread >= kColumnTokens) return 0;
    shared.alone[thread] = false;
    const int64_t at = shared.at[thread];
    if (at == kNowhere) return 0;
    const int before = static_cast<int>((at >> (is_wide() ? 1 : 0)) & (kColumnCell - 1));
    const int first = thread - before;
    bool full = first >= 0 && first + kColumnCell <= kColumnTokens;
    for (int i = 0; i < kColumnCell && full; ++i) full = shared.at[first + i] == at + (i - before) * size();
    if (full && before == 0) shared.leaders[first / kColumnCell] = first;
    shared.alone[thread] = !full;
    return full ? 0 : 1;
  }

  PHASOR_HD std::uint16_t bits(int token, int channel) const {
    const Words* const words = shared.words + word_of(token, channel / 8);
#ifdef __CUDA_ARCH__
    return reinterpret_cast<const std::uint16_t*>(words)[channel % 8];
#else
    return static_cast<std::uint16_t>(words->at[channel % 8 / 2] >> 16 * (channel & 1));
#endif
  }
  PHASOR_HD std::byte* out_of(int token, int channel) const {
    const SquadOperand& of = work.operand;
    return of.out + shared.at[token] + int64_t{place.first_head} * of.out_head + int64_t{channel} * of.out_inner;
  }
  PHASOR_HD bool is_scaled() const { return work.operand.scales != CacheScales::Kind::none; }
  /// Numbers as they are before they become e4m3.
  template <int count>
  PHASOR_HD void scale(float (&x)[count]) const {
    if (is_scaled()) scale_values<count>(x, work.operand, {work.operand.scale, 1.0F / work.operand.scale}, true);
  }
  PHASOR_HD void put_cells(int thread) const {
    const int items = kColumnCells * 8 << work.vectors_shift;
    for (int item = thread; item < items; item += kColumnThreads) {
      const int first = shared.leaders[item % kColumnCells];
      const int channel = item / kColumnCells;
      if (first < 0) continue;
      std::uint16_t column[kColumnCell];
      unrolled<kColumnCell>([&](auto i) { column[i] = bits(first + i, channel); });
      std::byte* const to = out_of(first, channel);
      if (is_wide()) {
        Words words;
        unrolled<4>([&](auto i) { words.at[i] = column[2 * i] | std::uint32_t{column[2 * i + 1]} << 16; });
        store_words<false>(to, words);
        continue;
      }
      float x[kColumnCell];
      unrolled<kColumnCell>([&](auto i) { x[i] = Element<dtype>::widen(column[i]); });
      scale(x);
      Vector<std::uint32_t, 2> codes = {};
      unrolled<4>([&](auto i) { codes.at[i / 2] |= two_codes<Storage::f8_e4m3>(x[2 * i], x[2 * i + 1]) << (i % 2 * 16); });
      *reinterpret_cast<Vector<std::uint32_t, 2>*>(to) = codes;
    }
  }
  PHASOR_HD void put_alone(int thread) const {
    const int channels = 8 << work.vectors_shift;
    for (int token = 0; token < kColumnTokens; ++token) {
      if (!shared.alone[token]) continue;
      for (int channel = thread; channel < channels; channel += kColumnThreads) {
        std::byte* const to = out_of(token, channel);
        if (is_wide()) {
          *reinterpret_cast<std::uint16_t*>(to) = bits(token, channel);
          continue;
        }
        float x[1] = {Element<dtype>::widen(bits(token, channel))};
        scale(x);
        *to = static_cast<std::byte>(two_codes<Storage::f8_e4m3>(x[0], 0) & 0xffU);
      }
    }
  }
};

/// Block: `each(body)` runs body(thread) for every thread; `either(body)` does, waits for all, and gives the bits that one of them
/// returned; `wait()`; `fetch` and `arrive` as of prepare_latent.
template <DType dtype, class Block>
PHASOR_HD inline void put_columns(const ColumnWork& work, const SquadPlace& place, ColumnShared& shared, Block& block) {
  const ColumnMaker<dtype> maker = {work, place, shared};
  block.each([&](int thread) { maker.ask(thread, block); });
  block.wait();
  block.arrive();
  const unsigned alone = block.either([&](int thread) { return maker.sort(thread); });
  block.each([&](int thread) { maker.put_cells(thread); });
  if (alone != 0) block.each([&](int thread) { maker.put_alone(thread); });
}

}  // namespace phasor::cuda
