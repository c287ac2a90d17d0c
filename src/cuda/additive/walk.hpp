// SPDX-License-Identifier: Apache-2.0
// Sinusoids added to many tokens: a thread has one pair of some tokens, whose channels it asks for before it makes the first value. Widths
// without a channel behind the pairs, whole positions, not float64; cuda/additive/add.hpp has the rest.
#pragma once

#include "cuda/additive/add.hpp"
#include "cuda/rotary/walk.hpp"

namespace phasor::cuda {

inline bool walks(const job::AddJob& job) {
  for (int64_t p = 0; p < job.part_count; ++p) {
    if (job.parts[p].unpaired || job.parts[p].width != 2 * job.parts[p].pairs) return false;
  }
  return job.target.dtype != DType::f64 && can_walk(job.rows);
}
/// Whether both channels of every pair are one aligned word.
inline bool has_words(const job::AddJob& job) {
  const auto whole = [&](int64_t bytes) { return bytes % (2 * bytes_of(job.target.dtype)) == 0; };
  const auto aligned = [&](const std::byte* data, const int64_t strides[2]) {
    return whole(static_cast<int64_t>(reinterpret_cast<std::uintptr_t>(data))) && whole(strides[0]) && whole(strides[1]);
  };
  return job.order == SinusoidOrder::interleaved && aligned(job.target.in, job.target.in_strides) &&
         aligned(job.target.out, job.target.out_strides);
}

/// A thread's channels of a token: as they lie in a word, or two elements.
template <DType dtype, bool words>
struct PairMemory {
  using E = Element<dtype>;
  using Storage = typename E::Storage;
  using Word = Vector<Storage, 2>;  // sine, cosine
  int64_t sin;
  int64_t cos;

  PHASOR_HD Word load(const std::byte* token) const {
    const auto* const channels = reinterpret_cast<const Storage*>(token);
    if constexpr (words) return *reinterpret_cast<const Word*>(channels + sin);
    return {{channels[sin], channels[cos]}};
  }
  PHASOR_HD void store(std::byte* token, const Word& word) const {
    auto* const channels = reinterpret_cast<Storage*>(token);
    if constexpr (words) {
      *reinterpret_cast<Word*>(channels + sin) = word;
    } else {
      channels[sin] = word.at[0];
      channels[cos] = word.at[1];
    }
  }
};

/// Sines::of<T> is sinusoid<T>, out of line.
template <DType dtype, bool words, int run, class Sines>
PHASOR_HD inline void add_walk(const job::AddJob& job, const WalkShape& shape, int64_t index) {
  using E = Element<dtype>;
  using Memory = PairMemory<dtype, words>;
  int64_t i = 0;
  const WalkPlace place = walk_at<run>(shape, index, i);
  const spec::AxisPart* part = job.parts;
  for (; i >= part->pairs; ++part) i -= part->pairs;
  const int64_t pair = part->pair + i;
  const int64_t axis = part->axis;
  const plan::PairChannels at = plan::channels_of(*part, job.order, i);
  const Memory memory = {at.sin, at.cos};
  const job::AddTarget x = job.target;  // copies: the job is in memory, and what is written might be it
  const bool adds = x.in != nullptr;
  const bool has_zero = job.has_zero;
  const float sign = job.negative ? -1.0F : 1.0F;
  typename Memory::Word held[run] = {};
  const std::byte* const in = adds ? x.in + place.batch * x.in_strides[0] + place.token * x.in_strides[1] : nullptr;
  std::byte* const out = x.out + place.batch * x.out_strides[0] + place.token * x.out_strides[1];
  unrolled<run>([&](auto j) {
    if (run > 1 && adds && place.count == run) held[j] = memory.load(in + j * x.in_strides[1]);
  });
  const auto write = [&](int j, typename Memory::Word word, const CosSin<float>& value) {
    if (!has_zero || !is_zero_position(job, axis, place.batch, place.token + j)) {
      word.at[0] = E::narrow(adds ? E::widen(word.at[0]) + sign * value.sin : sign * value.sin);
      word.at[1] = E::narrow(adds ? E::widen(word.at[1]) + sign * value.cos : sign * value.cos);
    }
    memory.store(out + j * x.out_strides[1], word);
  };
  const Walk walk = {job.rows, job.rows.steps[pair], axis, place};
  const std::uint32_t rest = walk_pair<run>(walk, [&](auto j, const CosSin<float>& value) { write(j, held[j], value); });
  each_bit(rest, [&](int j) {  // reads once more: what is indexed by a number that the compiler does not know is not in registers
    const typename Memory::Word word = adds ? memory.load(in + j * x.in_strides[1]) : typename Memory::Word{};
    const RowPlace row = {place.batch, place.token + j};
    write(j, word, value_apart(walk, j, [&] { return Sines::template of<float>({&job.rows}, pair, axis, row); }));
  });
}

}  // namespace phasor::cuda
