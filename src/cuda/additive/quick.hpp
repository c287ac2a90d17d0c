// SPDX-License-Identifier: Apache-2.0
// Sinusoids of 16 bits: a thread has one pair, or four that lie in vectors, of some tokens. Values are those of level 0, two ends of an
// interval each (math/sincos_quick.hpp): where both give the same 16 bits, those are the result. Elsewhere, for one in thousands, level 1
// is asked, then the definition. Widths without a channel behind the pairs, whole positions.
#pragma once

#include "cuda/additive/add.hpp"
#include "cuda/additive/walk.hpp"
#include "math/sincos_quick.hpp"

namespace phasor::cuda {

/// How the channels of a thread's pairs lie: four pairs as one vector of 16 bytes, their sines and their cosines as one of 8 bytes each, or
/// one pair anywhere.
enum class QuickLayout : std::uint8_t { neighbours, halves, one };
PHASOR_HD constexpr int quick_pairs(QuickLayout layout) { return layout == QuickLayout::one ? 1 : 4; }

inline bool is_quick(const job::AddJob& job) { return bytes_of(job.target.dtype) == 2 && walks(job); }
inline QuickLayout quick_layout(const job::AddJob& job) {
  const bool neighbours = job.order == SinusoidOrder::interleaved;
  const int64_t bytes = neighbours ? 16 : 8;
  const auto aligned = [&](const std::byte* data, const int64_t strides[2]) {
    return (static_cast<int64_t>(reinterpret_cast<std::uintptr_t>(data)) | strides[0] | strides[1]) % bytes == 0;
  };
  bool whole = aligned(job.target.in, job.target.in_strides) && aligned(job.target.out, job.target.out_strides);
  for (int64_t p = 0; p < job.part_count; ++p) whole = whole && job.parts[p].pairs % 4 == 0 && job.parts[p].channel * 2 % bytes == 0;
  if (!whole) return QuickLayout::one;
  return neighbours ? QuickLayout::neighbours : QuickLayout::halves;
}

/// How a call is cut into threads, and what each would compute again. `job` with tables of the host.
struct QuickShape {
  math::QuickAmplitude amplitude;
  int64_t groups;        // of a token: pairs of a thread
  int64_t runs;          // of a batch row: tokens of a thread
  int run;               // how many they are
  spec::AxisPart first;  // where there is one part, nobody reads it from memory
};
inline QuickShape quick_shape(const job::AddJob& job, QuickLayout layout, int run) {
  const double amplitude = job.negative ? -job.rows.amplitude : job.rows.amplitude;
  return {math::quick_amplitude(amplitude), token_items(job) / quick_pairs(layout), (job.tokens + run - 1) / run, run, job.parts[0]};
}
inline int64_t quick_threads(const QuickShape& shape, int64_t batch) { return shape.groups * shape.runs * batch; }
/// With as many tokens for each thread as leave enough threads.
inline QuickShape quick_shape_of(const job::AddJob& job, QuickLayout layout) {
  const QuickShape far = quick_shape(job, layout, kQuickRun);
  if (quick_threads(far, job.batch) >= kQuickRunThreads) return far;
  const QuickShape some = quick_shape(job, layout, kQuickAhead);
  return quick_threads(some, job.batch) >= kQuickThreads ? some : quick_shape(job, layout, 1);
}

/// A job where it lies, in a kernel's parameter or on the host.
struct QuickCall {
  const job::AddJob& job;
  const QuickShape& shape;
  Rows rows;
  const spec::AxisPart* parts;
};
/// A thread's pairs of a token: a word each, the sine in its low half.
template <QuickLayout layout>
struct QuickWords {
  math::u32 at[quick_pairs(layout)];
};

/// Where a thread's channels of a token are.
template <QuickLayout layout>
struct QuickChannels {
  using Words = QuickWords<layout>;
  using Two = Vector<math::u32, 2>;
  using Four = Vector<math::u32, 4>;
  plan::PairChannels first;

  /// Those of pair k.
  PHASOR_HD plan::PairChannels at(int k) const {
    const int apart = layout == QuickLayout::neighbours ? 2 * k : k;
    return {first.sin + apart, first.cos + apart};
  }
  PHASOR_HD Words load(const std::byte* token) const {
    const auto* const x = reinterpret_cast<const std::uint16_t*>(token);
    if constexpr (layout == QuickLayout::neighbours) {
      const Four four = *reinterpret_cast<const Four*>(x + first.sin);
      return {{four.at[0], four.at[1], four.at[2], four.at[3]}};
    } else if constexpr (layout == QuickLayout::halves) {
      const Two s = *reinterpret_cast<const Two*>(x + first.sin);
      const Two c = *reinterpret_cast<const Two*>(x + first.cos);
      return {{low_halves(s.at[0], c.at[0]), high_halves(s.at[0], c.at[0]), low_halves(s.at[1], c.at[1]), high_halves(s.at[1], c.at[1])}};
    } else {
      return {{x[first.sin] | math::u32{x[first.cos]} << 16}};
    }
  }
  PHASOR_HD void store(std::byte* token, const Words& w) const {
    auto* const x = reinterpret_cast<std::uint16_t*>(token);
    if constexpr (layout == QuickLayout::neighbours) {
      *reinterpret_cast<Four*>(x + first.sin) = {{w.at[0], w.at[1], w.at[2], w.at[3]}};
    } else if constexpr (layout == QuickLayout::halves) {
      *reinterpret_cast<Two*>(x + first.sin) = {{low_halves(w.at[0], w.at[1]), low_halves(w.at[2], w.at[3])}};
      *reinterpret_cast<Two*>(x + first.cos) = {{high_halves(w.at[0], w.at[1]), high_halves(w.at[2], w.at[3])}};
    } else {
      x[first.sin] = static_cast<std::uint16_t>(w.at[0]);
      x[first.cos] = static_cast<std::uint16_t>(w.at[0] >> 16);
    }
  }

 private:
  PHASOR_HD static math::u32 low_halves(math::u32 a, math::u32 b) { return (a & 0xffffU) | b << 16; }
  PHASOR_HD static math::u32 high_halves(math::u32 a, math::u32 b) { return a >> 16 | (b & 0xffff0000U); }
};

/// A thread's pairs and tokens.
template <QuickLayout layout>
struct QuickPlace {
  int64_t pair;  // first
  int64_t axis;
  int64_t batch;
  int64_t token;  // first
  int count;      // of tokens
  QuickChannels<layout> channels;
};
template <QuickLayout layout>
PHASOR_HD inline QuickPlace<layout> quick_place(const QuickCall& call, int64_t index) {
  const QuickShape& shape = call.shape;
  const int64_t walk = divided(index, shape.groups);
  int64_t i = (index - walk * shape.groups) * quick_pairs(layout);
  const int64_t batch = divided(walk, shape.runs);
  const int64_t token = (walk - batch * shape.runs) * shape.run;
  const int64_t left = call.job.tokens - token;
  const int count = left < shape.run ? static_cast<int>(left) : shape.run;
  spec::AxisPart part = shape.first;
  for (int64_t p = 1; i >= part.pairs; ++p) {
    i -= part.pairs;
    part = call.parts[p];
  }
  return {part.pair + i, part.axis, batch, token, count, {plan::channels_of(part, call.job.order, i)}};
}

/// Level 0: the words of a token's pairs. Bits of those in doubt, which stay what they were.
template <DType dtype, QuickLayout layout>
PHASOR_HD inline math::u32 quick_token(const math::QuickStep (&steps)[quick_pairs(layout)], int64_t position,
                                       const math::QuickAmplitude& amplitude, QuickWords<layout>& words) {
  using E = Element<dtype>;
  if (!math::is_quick_position(position)) return (1U << quick_pairs(layout)) - 1;
  math::u32 doubts = 0;
  unrolled<quick_pairs(layout)>([&](auto k) {
    const math::u32 phase = math::quick_phase(steps[k], static_cast<math::i32>(position));
    const math::QuickSinCos value = math::quick_sincos(phase, amplitude);
    const math::u32 x = words.at[k];
    const float sin = E::widen(static_cast<std::uint16_t>(x));
    const float cos = E::widen(static_cast<std::uint16_t>(x >> 16));
    const math::u32 low = E::narrow(sin + value.sin.low, cos + value.cos.low);
    const math::u32 high = E::narrow(sin + value.sin.high, cos + value.cos.high);
    if (low == high) {
      words.at[k] = low;
    } else {
      doubts |= 1U << k;
    }
  });
  return doubts;
}

/// A pair of a thread's tokens, counted token by token, by level 1 or the definition. Its channels are still what they were, and they are
/// where the result is to be. Kernels call it out of line, with few numbers: the thread's place is found again.
template <DType dtype, QuickLayout layout>
PHASOR_HD inline void settle_pair(const QuickCall& call, int64_t index, int which) {
  using E = Element<dtype>;
  const QuickPlace<layout> place = quick_place<layout>(call, index);
  const int64_t token = place.token + which / quick_pairs(layout);
  const int k = which % quick_pairs(layout);
  const RowPlace row = {place.batch, token};
  const int64_t pair = place.pair + k;
  const Walk walk = {call.job.rows, call.rows.steps()[pair], place.axis, {place.batch, token, 1}};
  const CosSin<float> value = value_apart(walk, 0, [&] { return sinusoid<float>(call.rows, pair, place.axis, row); });
  const job::AddTarget& x = call.job.target;
  auto* const out = reinterpret_cast<std::uint16_t*>(x.out + place.batch * x.out_strides[0] + token * x.out_strides[1]);
  const plan::PairChannels at = place.channels.at(k);
  const float sign = call.job.negative ? -1.0F : 1.0F;
  const bool adds = x.in != nullptr;
  out[at.sin] = E::narrow(adds ? E::widen(out[at.sin]) + sign * value.sin : sign * value.sin);
  out[at.cos] = E::narrow(adds ? E::widen(out[at.cos]) + sign * value.cos : sign * value.cos);
}

/// All tokens of a thread, `ahead` at a time: it asks for what they hold before it computes. Bits of the pairs to be settled, counted token
/// by token, are for when everything else is done: nothing that is still needed lives on over a call.
template <DType dtype, QuickLayout layout, int ahead>
PHASOR_HD inline math::u64 add_quickly(const QuickCall& call, int64_t index) {
  constexpr int kPairs = quick_pairs(layout);
  static_assert(kQuickRun * kPairs <= 64);
  const QuickPlace<layout> place = quick_place<layout>(call, index);
  const job::AddTarget& x = call.job.target;
  const RowOfPositions positions = row_of(call.job.rows.positions, place.axis, place.batch);
  const math::QuickAmplitude amplitude = call.shape.amplitude;
  const bool has_zero = call.job.has_zero;
  const int64_t zero = call.job.zero_position;
  math::QuickStep steps[kPairs];
  unrolled<kPairs>([&](auto k) { steps[k] = math::quick_step(call.rows.steps()[place.pair + k].fraction[2]); });
  math::u64 doubts = 0;
  for (int done = 0; done < place.count; done += ahead) {
    const int64_t token = place.token + done;
    const std::byte* const in = x.in == nullptr ? nullptr : x.in + place.batch * x.in_strides[0] + token * x.in_strides[1];
    std::byte* const out = x.out + place.batch * x.out_strides[0] + token * x.out_strides[1];
    QuickWords<layout> words[ahead] = {};  // zeros where nothing is added to
    int64_t at[ahead];
    read_positions(positions, token, place.count - done, at);
    unrolled<ahead>([&](auto j) {
      if (ahead > 1 && done + j >= place.count) return;
      if (in != nullptr) words[j] = place.channels.load(in + j * x.in_strides[1]);
    });
    math::u32 some = 0;
    unrolled<ahead>([&](auto j) {
      if (ahead > 1 && done + j >= place.count) return;
      if (!has_zero || at[j] != zero) some |= quick_token<dtype, layout>(steps, at[j], amplitude, words[j]) << (j * kPairs);
      place.channels.store(out + j * x.out_strides[1], words[j]);
    });
    doubts |= math::u64{some} << (done * kPairs);
  }
  return doubts;
}

/// add_quickly and what it leaves. Settle::pair is settle_pair.
template <DType dtype, QuickLayout layout, int ahead, class Settle>
PHASOR_HD inline void add_and_settle(const QuickCall& call, int64_t index) {
  const math::u64 doubts = add_quickly<dtype, layout, ahead>(call, index);
  each_bit(static_cast<math::u32>(doubts), [&](int which) { Settle::template pair<dtype, layout>(call, index, which); });
  each_bit(static_cast<math::u32>(doubts >> 32), [&](int which) { Settle::template pair<dtype, layout>(call, index, 32 + which); });
}

}  // namespace phasor::cuda
