// SPDX-License-Identifier: Apache-2.0
// The common rotation at the speed of memory: a team of threads (a warp, or a block) turns some pairs of some heads of one token. Each
// thread asks for its vectors, makes one cosine and sine while they come, and turns them. What is rare (a rounding in doubt, a pair that
// rests, lanes that differ) is done again from the start, out of line. Written for any executor of a team; tests run it on the host.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/rotary/element.hpp"
#include "cuda/rotary/rotate.hpp"
#include "cuda/rotary/row_value.hpp"
#include "cuda/rotary/team_tuning.hpp"
#include "math/sincos_pairs.hpp"

namespace phasor::cuda {

/// How the work is cut, and what every thread reads of it: small, since a launch finds none of its parameter in a cache, and in the order
/// of use. A slice is some neighbouring pairs, a group some heads. Strides of tokens and batch rows in vectors, those of heads in bytes.
struct TeamShape {
  // Where a team's work is.
  int unit_shift = 0;  // units of a token: group << slice_shift | slice; some of the last may be nobody's
  int slice_shift = 0;
  int slice_pairs = 0;
  int pairs = 0;
  int tokens = 0;
  int groups = 0;
  int group_heads = 0;
  int all_heads = 0;
  // What its sines are of.
  const void* positions = nullptr;  // null: offset + token
  int64_t offset = 0;
  unsigned position_token = 0;
  unsigned position_batch = 0;
  unsigned position_axis = 0;
  bool narrow_positions = false;
  bool by_tables = false;
  bool many_axes = false;
  bool copies_rest = false;  // channels that are not rotated, out of place
  // Where a thread's vectors are.
  int vectors = 0;          // of a slice: threads that a head takes
  int vector_inverse = 0;   // 65536 / vectors, rounded up: a thread's head without a division
  int rows = 0;             // heads that the team's threads have at a time
  int first_heads = 0;      // of q; those of k follow
  int first_byte = 0;       // of a head that is rotated
  int half_bytes = 0;       // from one lane of a pair to the other, in half pairing
  int segment_pairs = 0;    // 0: one segment
  int segment_inverse = 0;  // 65536 / segment_pairs, rounded up
  const std::byte* in[2] = {};
  unsigned in_token[2] = {};
  unsigned in_batch[2] = {};
  int in_head = 0;  // from a head to the next, of q and of k
  int in_rows = 0;  // from one of a thread's heads to its next
  float sine_sign = 1;
  math::FloatPair amplitude = {1, 0};
  int out_head = 0;
  int out_rows = 0;
  std::byte* out[2] = {};
  unsigned out_token[2] = {};
  unsigned out_batch[2] = {};
};

struct TeamWork {
  TeamShape shape;
  RotateWork rotate;
};
struct TeamWorkAt {
  const TeamWork* work;
  Rows rows;
  const math::Step* steps;
  const std::uint8_t* axis_of_pair;

  PHASOR_HD const job::RotateJob& job() const { return work->rotate.job; }
  PHASOR_HD const TeamShape& shape() const { return work->shape; }
};

/// What one team turns.
struct TeamPlace {
  int batch;
  int token;
  int first_pair;
  int pairs;
  int first_head;
  int end_head;
};
PHASOR_HD inline int lesser(int a, int b) { return a < b ? a : b; }
/// What follows from it is to lie apart from the common way.
PHASOR_HD inline bool seldom(bool condition) { return __builtin_expect(static_cast<long>(condition), 0L) != 0; }

/// False where a unit is nobody's.
PHASOR_HD inline bool place_of(const TeamShape& shape, int batch, int token, int unit, TeamPlace& place) {
  const int slice = unit & ((1 << shape.slice_shift) - 1);
  const int group = unit >> shape.slice_shift;
  const int first = slice * shape.slice_pairs;
  if (first >= shape.pairs || group >= shape.groups || token >= shape.tokens) return false;
  const int head = group * shape.group_heads;
  place = {batch, token, first, lesser(shape.slice_pairs, shape.pairs - first), head, lesser(head + shape.group_heads, shape.all_heads)};
  return true;
}
/// The same for a team of a block: teams that are warps take units one after the other, a block by itself has one in y.
template <int teams>
PHASOR_HD inline bool place_in_grid(const TeamShape& shape, const unsigned block[3], int team, TeamPlace& place) {
  const int shift = shape.unit_shift;
  const unsigned unit = block[0] * teams + static_cast<unsigned>(team);
  if constexpr (teams == 1)
    return place_of(shape, static_cast<int>(block[2]), static_cast<int>(block[0]), static_cast<int>(block[1]), place);
  return place_of(shape, static_cast<int>(block[2]), static_cast<int>(unit >> shift), static_cast<int>(unit & ((1U << shift) - 1)), place);
}

// ---- Memory ----

/// 16 bytes, the widest access of one thread.
struct alignas(16) Words {
  std::uint32_t at[4];
};

template <bool streams>
PHASOR_HD inline Words load_words(const std::byte* from) {
#ifdef __CUDA_ARCH__
  const auto* const p = reinterpret_cast<const uint4*>(from);
  const uint4 v = streams ? __ldcs(p) : *p;
  return {{v.x, v.y, v.z, v.w}};
#else
  return *reinterpret_cast<const Words*>(from);
#endif
}
template <bool streams>
PHASOR_HD inline void store_words(std::byte* to, const Words& words) {
#ifdef __CUDA_ARCH__
  auto* const p = reinterpret_cast<uint4*>(to);
  const uint4 v = make_uint4(words.at[0], words.at[1], words.at[2], words.at[3]);
  streams ? __stcs(p, v) : static_cast<void>(*p = v);
#else
  *reinterpret_cast<Words*>(to) = words;
#endif
}

/// Makes the compiler forget what it knows of a number: what follows from it is computed anew, not kept in registers over the sines.
PHASOR_HD inline void forget(int& number) {
#ifdef __CUDA_ARCH__
  asm volatile("" : "+r"(number));
#else
  (void)number;
#endif
}
/// Keeps loaded words as they are until here. Widened before the sines, they take twice the registers, are spilled, and a spill waits for
/// its load.
PHASOR_HD inline void still_narrow(Words& words) {
#ifdef __CUDA_ARCH__
  asm volatile("" : "+r"(words.at[0]), "+r"(words.at[1]), "+r"(words.at[2]), "+r"(words.at[3]));
#else
  (void)words;
#endif
}
/// The same, by an empty instruction that needs a sine.
PHASOR_HD inline void still_narrow(Words& words, float sine) {
#ifdef __CUDA_ARCH__
  asm("" : "+r"(words.at[0]), "+r"(words.at[1]), "+r"(words.at[2]), "+r"(words.at[3]) : "f"(sine));
#else
  (void)words;
  (void)sine;
#endif
}

/// A thread of a team: which of the group's first heads it has, and which vectors of every head.
struct Spot {
  int row;
  int vector;
  bool works;
};
template <int width>
PHASOR_HD inline Spot spot_of(const TeamShape& shape, const TeamPlace& place, int thread) {
  const int row = (thread * shape.vector_inverse) >> 16;
  const int vector = thread - row * shape.vectors;
  return {row, vector, row < shape.rows && vector * width < place.pairs};
}

/// First pair of a pair's segment.
PHASOR_HD inline int segment_of(const TeamShape& shape, int pair) { return ((pair * shape.segment_inverse) >> 16) * shape.segment_pairs; }

/// Bytes from a head's beginning to the first of a thread's two vectors (the two lanes of `width` pairs, or twice both lanes of half as
/// many), and from the first to the second.
template <DType dtype, Pairing pairing>
PHASOR_HD inline int first_vector(const TeamShape& shape, const TeamPlace& place, int vector) {
  constexpr int kSize = static_cast<int>(bytes_of(dtype));
  constexpr int kWidth = static_cast<int>(kVectorBytes) / kSize;
  if constexpr (pairing == Pairing::interleaved) return shape.first_byte + (2 * place.first_pair + vector * kWidth) * kSize;
  const int pair = place.first_pair + vector * kWidth;
  return shape.first_byte + (pair + segment_of(shape, pair)) * kSize;
}
template <DType dtype, Pairing pairing>
PHASOR_HD inline int second_vector(const TeamShape& shape, const TeamPlace& place) {
  return pairing == Pairing::half ? shape.half_bytes : place.pairs * static_cast<int>(bytes_of(dtype));
}
/// Which of a slice's pairs the first of part 0 or 1 of a thread's vectors is; a part has half a vector's pairs.
template <Pairing pairing, int width>
PHASOR_HD inline int first_of_part(const TeamPlace& place, int vector, int part) {
  return pairing == Pairing::half ? vector * width + part * (width / 2) : part * (place.pairs / 2) + vector * (width / 2);
}

/// Heads of a token, from `head` on some number apart: those of q, then those of k.
template <class Byte>
struct HeadsAt {
  Byte* q;
  Byte* k;
  int head;
  int apart;
  int bytes;
  int first_heads;

  PHASOR_HD Byte* at(int i) const { return (head + i * apart < first_heads ? q : k) + i * bytes; }
};
PHASOR_HD inline int64_t token_byte(const TeamPlace& place, unsigned batch_stride, unsigned token_stride) {
  const math::u64 vectors =
      math::u64{static_cast<unsigned>(place.batch)} * batch_stride + math::u64{static_cast<unsigned>(place.token)} * token_stride;
  return static_cast<int64_t>(vectors * static_cast<math::u64>(kVectorBytes));
}
/// `byte` of each head.
PHASOR_HD inline HeadsAt<const std::byte> heads_read(const TeamShape& s, const TeamPlace& place, int head, int byte) {
  return {s.in[0] + token_byte(place, s.in_batch[0], s.in_token[0]) + (head * s.in_head + byte),
          s.in[1] + token_byte(place, s.in_batch[1], s.in_token[1]) + ((head - s.first_heads) * s.in_head + byte),
          head,
          s.rows,
          s.in_rows,
          s.first_heads};
}
PHASOR_HD inline HeadsAt<std::byte> heads_written(const TeamShape& s, const TeamPlace& place, int head, int byte) {
  return {s.out[0] + token_byte(place, s.out_batch[0], s.out_token[0]) + (head * s.out_head + byte),
          s.out[1] + token_byte(place, s.out_batch[1], s.out_token[1]) + ((head - s.first_heads) * s.out_head + byte),
          head,
          s.rows,
          s.out_rows,
          s.first_heads};
}

// ---- Values ----

/// A position as it lies in memory, with zeros above 32 bits: nothing is done to it before it is needed, which would wait for it.
PHASOR_HD inline math::u64 position_bits(const TeamShape& shape, unsigned axis, const TeamPlace& place) {
  if (shape.positions == nullptr) return static_cast<math::u64>(shape.offset) + static_cast<math::u64>(place.token);
  const math::u64 index = math::u64{axis} * shape.position_axis + math::u64{static_cast<unsigned>(place.batch)} * shape.position_batch +
                          math::u64{static_cast<unsigned>(place.token)} * shape.position_token;
  return shape.narrow_positions ? static_cast<const math::u32*>(shape.positions)[index]
                                : static_cast<const math::u64*>(shape.positions)[index];
}
PHASOR_HD inline int64_t position_of(const TeamShape& shape, math::u64 bits) {
  return shape.narrow_positions ? int64_t{static_cast<std::int32_t>(bits)} : static_cast<int64_t>(bits);
}

/// What a thread asks memory for before anything else: its sine waits for it.
struct Asked {
  math::Step step;
  math::u64 position;
};
PHASOR_HD inline Asked asked_of(const TeamWorkAt& work, const TeamPlace& place, int pair) {
  const TeamShape& shape = work.shape();
  if (seldom(shape.by_tables)) return {};
  const math::Step step = work.steps[pair];
  return {step, position_bits(shape, seldom(shape.many_axes) ? work.axis_of_pair[pair] : 0U, place)};
}

template <class T>
PHASOR_HD inline bool same_bits(T a, T b) {
  using Bits = std::conditional_t<sizeof(T) == sizeof(float), math::u32, math::u64>;
  return math::bit_cast<Bits>(a) == math::bit_cast<Bits>(b);
}

/// The value of a pair. True where it must be made again: it is not proven, or its two lanes are not alike.
template <class T>
PHASOR_HD inline bool table_value_of(const TeamWorkAt& work, const TeamPlace& place, int pair, CosSin<T>& value) {
  const RowPlace row = {place.batch, place.token, 0, segment_of(work.shape(), pair)};
  const PairRow<T> both = table_row<T>(work.rows, row, pair);
  value = both.lane[0];
  return !same_bits(value.cos, both.lane[1].cos) || !same_bits(value.sin, both.lane[1].sin);
}
template <class T>
PHASOR_HD inline bool phase_value_of(const TeamWorkAt& work, const Asked& asked, CosSin<T>& value) {
  const int64_t position = position_of(work.shape(), asked.position);
  bool doubt = false;
  if constexpr (sizeof(T) == sizeof(float)) {
    doubt = math::sincos_by_pairs(math::phase128_of(asked.step, position), position, work.shape().amplitude, value.cos, value.sin);
  } else {
    doubt = position == 0;
    math::sincos(asked.step, position, work.rows->amplitude, value.cos, value.sin);
  }
  value.sin *= static_cast<T>(work.shape().sine_sign);
  return doubt;
}
/// True also where the pair rests: it is left bit for bit, which costs an instruction for each element.
template <class T>
PHASOR_HD inline bool make_value(const TeamWorkAt& work, const TeamPlace& place, int pair, const Asked& asked, CosSin<T>& value) {
  bool again = false;
  if (seldom(work.shape().by_tables)) {
    again = table_value_of(work, place, pair, value);
  } else {
    again = phase_value_of(work, asked, value);
  }
  return again || math::is_identity(value.cos, value.sin);
}

// ---- Turning ----

/// Eight bytes as values, and back.
template <DType dtype>
struct EightBytes {
  static constexpr int kCount = static_cast<int>(8 / bytes_of(dtype));
  using T = typename Element<dtype>::Value;
  T at[kCount];

  PHASOR_HD void read(std::uint32_t low, std::uint32_t high) {
    using E = Element<dtype>;
    if constexpr (E::kHalf) {
      at[0] = E::widen(static_cast<std::uint16_t>(low));
      at[1] = E::widen(static_cast<std::uint16_t>(low >> 16));
      at[2] = E::widen(static_cast<std::uint16_t>(high));
      at[3] = E::widen(static_cast<std::uint16_t>(high >> 16));
    } else if constexpr (dtype == DType::f32) {
      at[0] = math::bit_cast<float>(low);
      at[1] = math::bit_cast<float>(high);
    } else {
      at[0] = math::bit_cast<double>(math::u64{high} << 32 | low);
    }
  }
  PHASOR_HD void write(std::uint32_t& low, std::uint32_t& high) const {
    using E = Element<dtype>;
    if constexpr (E::kHalf) {
      low = E::narrow(at[0], at[1]);
      high = E::narrow(at[2], at[3]);
    } else if constexpr (dtype == DType::f32) {
      low = math::bit_cast<std::uint32_t>(at[0]);
      high = math::bit_cast<std::uint32_t>(at[1]);
    } else {
      const auto bits = math::bit_cast<math::u64>(at[0]);
      low = static_cast<std::uint32_t>(bits);
      high = static_cast<std::uint32_t>(bits >> 32);
    }
  }
};

template <class T>
PHASOR_HD inline void turn(T& x, T& y, const CosSin<T>& by) {
  const math::Pair<T> turned = math::rotate<T>({x, y}, {by.cos, by.cos}, {by.sin, by.sin});
  x = turned.x;
  y = turned.y;
}

/// A thread's two vectors of one head.
struct TwoVectors {
  Words first;
  Words second;
};

/// The values of one part of a thread's pairs.
template <class T, int count>
struct alignas(16) PartValues {
  CosSin<T> at[count];
};
template <class T, int count>
PHASOR_HD inline PartValues<T, count> values_at(const CosSin<T>* shared) {
  return *reinterpret_cast<const PartValues<T, count>*>(shared);
}

/// Part 0 or 1 of a thread's pairs of one head.
template <DType dtype, Pairing pairing, int part, class T, int count>
PHASOR_HD inline void turn_part(TwoVectors& held, const PartValues<T, count>& values) {
  EightBytes<dtype> x;
  EightBytes<dtype> y;
  if constexpr (pairing == Pairing::half) {
    x.read(held.first.at[2 * part], held.first.at[2 * part + 1]);
    y.read(held.second.at[2 * part], held.second.at[2 * part + 1]);
    unrolled<count>([&](auto i) { turn(x.at[i], y.at[i], values.at[i]); });
    x.write(held.first.at[2 * part], held.first.at[2 * part + 1]);
    y.write(held.second.at[2 * part], held.second.at[2 * part + 1]);
  } else {
    Words& words = part == 0 ? held.first : held.second;
    x.read(words.at[0], words.at[1]);
    y.read(words.at[2], words.at[3]);
    if constexpr (count == 1) {
      turn(x.at[0], y.at[0], values.at[0]);
    } else {
      unrolled<count / 2>([&](auto i) {
        turn(x.at[2 * i], x.at[2 * i + 1], values.at[i]);
        turn(y.at[2 * i], y.at[2 * i + 1], values.at[count / 2 + i]);
      });
    }
    x.write(words.at[0], words.at[1]);
    y.write(words.at[2], words.at[3]);
  }
}

/// The steps of a team, between which it waits.
template <DType dtype, Pairing pairing, TeamKind kind>
struct TeamTurner {
  using T = typename Element<dtype>::Value;
  static constexpr int kWidth = static_cast<int>(kVectorBytes / bytes_of(dtype));
  static constexpr int kPart = kWidth / 2;
  static constexpr int kEach = tuning_of(kind, dtype).each;
  static constexpr bool kStreams = tuning_of(kind, dtype).streams;
  static constexpr bool kParts = tuning_of(kind, dtype).parts;
  struct Held {
    TwoVectors heads[kEach];
  };
  TeamWorkAt work;
  TeamPlace place;
  CosSin<T>* shared;

  PHASOR_HD bool has(const Spot& spot, int i) const {
    return spot.works && place.first_head + spot.row + i * work.shape().rows < place.end_head;
  }

  PHASOR_HD Asked ask(int thread) const { return thread < place.pairs ? asked_of(work, place, place.first_pair + thread) : Asked{}; }
  PHASOR_HD void load(int thread, Held& held) const {
    const TeamShape& shape = work.shape();
    const Spot spot = spot_of<kWidth>(shape, place, thread);
    const auto heads = heads_read(shape, place, place.first_head + spot.row, first_vector<dtype, pairing>(shape, place, spot.vector));
    const int second = second_vector<dtype, pairing>(shape, place);
    unrolled<kEach>([&](auto i) {
      if (!has(spot, i)) return;
      held.heads[i].first = load_words<kStreams>(heads.at(i));
      held.heads[i].second = load_words<kStreams>(heads.at(i) + second);
    });
  }
  /// True where the team must do its work again. A slice has no more pairs than a team has threads.
  PHASOR_HD bool make(int thread, const Asked& asked) const {
    if (thread >= place.pairs) return false;
    CosSin<T> value{};
    const bool again = make_value(work, place, place.first_pair + thread, asked, value);
    shared[thread] = value;
    return again;
  }
  PHASOR_HD void finish(int thread, Held& held) const {
    forget(thread);
    const TeamShape& shape = work.shape();
    const Spot spot = spot_of<kWidth>(shape, place, thread);
    if (!spot.works) return;
    const auto heads = heads_written(shape, place, place.first_head + spot.row, first_vector<dtype, pairing>(shape, place, spot.vector));
    const int second = second_vector<dtype, pairing>(shape, place);
    const auto store = [&](int i) {
      store_words<kStreams>(heads.at(i), held.heads[i].first);
      store_words<kStreams>(heads.at(i) + second, held.heads[i].second);
    };
    const auto values = [&](int part) { return values_at<T, kPart>(shared + first_of_part<pairing, kWidth>(place, spot.vector, part)); };
    if constexpr (kParts) {
      unrolled<2>([&](auto part) {
        const auto by = values(part);
        unrolled<kEach>([&](auto i) {
          if (part == 0) still_narrow(held.heads[i].first);
          if (part == 0) still_narrow(held.heads[i].second);
          turn_part<dtype, pairing, part>(held.heads[i], by);
        });
      });
      unrolled<kEach>([&](auto i) {
        if (has(spot, i)) store(i);
      });
    } else {
      const auto by_first = values(0);
      const auto by_second = values(1);
      unrolled<kEach>([&](auto i) {
        if (!has(spot, i)) return;
        still_narrow(held.heads[i].first, by_first.at[0].cos);
        still_narrow(held.heads[i].second, by_first.at[0].cos);
        turn_part<dtype, pairing, 0>(held.heads[i], by_first);
        turn_part<dtype, pairing, 1>(held.heads[i], by_second);
        store(i);
      });
    }
  }
};

// ---- Again, from the start ----

/// Both lanes of a pair of a common row, by the definition.
template <class T>
PHASOR_HD inline PairRow<T> common_row(const TeamWorkAt& work, const TeamPlace& place, int pair) {
  const Rows& rows = work.rows;
  if (rows->kind == job::RowSource::Kind::tables) {
    return table_row<T>(rows, {place.batch, place.token, 0, segment_of(work.shape(), pair)}, pair);
  }
  const CosSin<T> value = phase_value<T>(rows, positions_of<int64_t>(rows->positions, place.batch, place.token), pair, {});
  return {{value, value}};
}

/// One pair of one head by the definition. `shared` has lane 0 of the slice's pairs, then lane 1.
template <DType dtype, Pairing pairing>
PHASOR_HD inline void turn_again(const TeamWorkAt& work, const TeamPlace& place, const CosSin<typename Element<dtype>::Value>* shared,
                                 int item) {
  using E = Element<dtype>;
  using Storage = typename E::Storage;
  const int in_slice = item % place.pairs;
  const int head = place.first_head + item / place.pairs;
  const int pair = place.first_pair + in_slice;
  const TeamShape& shape = work.shape();
  const auto* const in = reinterpret_cast<const Storage*>(heads_read(shape, place, head, shape.first_byte).at(0));
  auto* const out = reinterpret_cast<Storage*>(heads_written(shape, place, head, shape.first_byte).at(0));
  const int64_t x = pairing == Pairing::half ? pair + segment_of(work.shape(), pair) : 2 * pair;
  const int64_t y = pairing == Pairing::half ? x + work.work->rotate.segment_pairs : x + 1;
  const auto& first = shared[in_slice];
  const auto& second = shared[shape.slice_pairs + in_slice];
  const Storage is[2] = {in[x], in[y]};
  if (math::is_identity(first.cos, first.sin) && math::is_identity(second.cos, second.sin)) {
    out[x] = is[0];
    out[y] = is[1];
    return;
  }
  const auto turned = math::rotate<typename E::Value>({E::widen(is[0]), E::widen(is[1])}, {first.cos, second.cos}, {first.sin, second.sin});
  out[x] = E::narrow(turned.x);
  out[y] = E::narrow(turned.y);
}

template <DType dtype, Pairing pairing, class Team>
PHASOR_HD inline void turn_slice_again(const TeamWorkAt& work, const TeamPlace& place, CosSin<typename Element<dtype>::Value>* shared,
                                       Team& team) {
  using T = typename Element<dtype>::Value;
  const int threads = team.threads();
  team.each([&](int thread) {
    for (int i = thread; i < place.pairs; i += threads) {
      const int pair = place.first_pair + i;
      const PairRow<T> row = common_row<T>(work, place, pair);
      shared[i] = row.lane[0];
      shared[work.shape().slice_pairs + i] = row.lane[1];
    }
  });
  team.last([&](int thread) {
    const int items = (place.end_head - place.first_head) * place.pairs;
    for (int item = thread; item < items; item += threads) turn_again<dtype, pairing>(work, place, shared, item);
  });
}

// ---- A team's work ----

/// Channels that are not rotated, out of place: those of a group are copied by its first slice.
template <DType dtype>
PHASOR_HD inline void copy_rest_of_heads(const TeamWorkAt& work, const TeamPlace& place, int thread, int threads) {
  using Storage = typename Element<dtype>::Storage;
  const job::RotateJob& job = work.job();
  const int rest = static_cast<int>(job.head_dim - 2 * job.pairs);
  const int items = (place.end_head - place.first_head) * rest;
  for (int item = thread; item < items; item += threads) {
    const int head = place.first_head + item / rest;
    const job::Operand& operand = job.operands[head < work.shape().first_heads ? 0 : 1];
    if (operand.in == operand.out) continue;
    const int64_t at = item % rest < job.offset ? item % rest : item % rest + 2 * job.pairs;
    reinterpret_cast<Storage*>(heads_written(work.shape(), place, head, 0).at(0))[at] =
        reinterpret_cast<const Storage*>(heads_read(work.shape(), place, head, 0).at(0))[at];
  }
}

/// Team: `any(body)` runs body(thread) for every thread, waits, and says whether one returned true; `each(body)` runs and waits,
/// `last(body)` does not wait; `threads()` are its own; PerThread<S> is a thread's own S; `again` is turn_slice_again out of line.
template <DType dtype, Pairing pairing, TeamKind kind, class Team>
PHASOR_HD inline void turn_slice(const TeamWorkAt& work, const TeamPlace& place, CosSin<typename Element<dtype>::Value>* shared,
                                 Team& team) {
  using Turner = TeamTurner<dtype, pairing, kind>;
  constexpr bool kAsksFirst = tuning_of(kind, dtype).asks_first;
  const Turner turner = {work, place, shared};
  typename Team::template PerThread<typename Turner::Held> held;
  const bool again = team.any([&](int thread) {
    Asked asked{};
    if constexpr (kAsksFirst) asked = turner.ask(thread);
    turner.load(thread, held.of(thread));
    if constexpr (!kAsksFirst) asked = turner.ask(thread);
    return turner.make(thread, asked);
  });
  if (again) {
    team.template again<dtype, pairing>(work, place, shared);
  } else {
    team.last([&](int thread) { turner.finish(thread, held.of(thread)); });
  }
  if (!work.shape().copies_rest || place.first_pair != 0) return;
  team.last([&](int thread) { copy_rest_of_heads<dtype>(work, place, thread, team.threads()); });
}

}  // namespace phasor::cuda
