// SPDX-License-Identifier: Apache-2.0
// The cosine and sine of one pair of one row, by the definition: what a thread makes. From phases, directions, a numerics profile, given
// tables or differences of phases. Bits as the CPU's rows (src/cpu/rotary), which make many at a time. Runs on the host, too, for tests.
#pragma once

#include <cstdint>
#include <type_traits>

#include "job/rotary.hpp"
#include "math/angle.hpp"
#include "math/phase/difference.hpp"
#include "math/phase/sum.hpp"
#include "math/sincos.hpp"

namespace phasor::cuda {

using std::int64_t;

/// Cosine and sine of a pair.
template <class T>
struct CosSin {
  T cos;
  T sin;
};
/// Of both lanes of a pair: they differ in full-width tables and per-channel frequencies alone.
template <class T>
struct PairRow {
  CosSin<T> lane[2];
};

template <class T>
PHASOR_HD inline CosSin<T> no_number() {
  if constexpr (std::is_same_v<T, float>) {
    return {math::bit_cast<float>(math::u32{0x7fc00000}), math::bit_cast<float>(math::u32{0x7fc00000})};
  } else {
    return {math::bit_cast<double>(math::u64{0x7ff8} << 48), math::bit_cast<double>(math::u64{0x7ff8} << 48)};
  }
}

/// A source of rows where it lies, in a kernel's parameter. Its host tables are bytes beside it then, and its pointers say where they begin
/// (cuda/tables.hpp); on the host, in tests, `tables` is null and the pointers are what they seem.
struct Rows {
  const job::RowSource* source;
  const std::byte* tables = nullptr;
  const job::RowSource* from_source = nullptr;  // of differences

  PHASOR_HD const job::RowSource* operator->() const { return source; }
  template <class T>
  PHASOR_HD const T* table(const T* packed) const {
    return tables == nullptr ? packed : reinterpret_cast<const T*>(tables + reinterpret_cast<std::uintptr_t>(packed) - 1);
  }
  PHASOR_HD const math::Step* steps() const { return table(source->steps); }
  PHASOR_HD Rows from() const { return {from_source, tables}; }
};

// ---- Positions of a row, an axis each ----

template <class Position>
struct RowPositions {
  Position at[job::kMaxAxes];
};

PHASOR_HD inline bool is_fractional(const job::PositionSource& p) { return p.data != nullptr && p.type == PositionType::f64; }

template <class Position>
PHASOR_HD inline RowPositions<Position> positions_of(const job::PositionSource& p, int64_t batch, int64_t token) {
  RowPositions<Position> row{};
  for (int64_t a = 0; a < p.axes; ++a) {
    const int64_t index = a * p.axis_stride + batch * p.batch_stride + token * p.token_stride;
    if constexpr (std::is_same_v<Position, double>) {
      row.at[a] = static_cast<const double*>(p.data)[index];
    } else if (p.data == nullptr) {
      row.at[a] = static_cast<int64_t>(static_cast<math::u64>(p.offset) + static_cast<math::u64>(token));
    } else {
      row.at[a] =
          p.type == PositionType::i32 ? static_cast<const std::int32_t*>(p.data)[index] : static_cast<const int64_t*>(p.data)[index];
    }
  }
  return row;
}

PHASOR_HD inline bool is_sound(int64_t /*position*/) { return true; }
PHASOR_HD inline bool is_sound(double position) { return math::is_position(position); }

/// Which numbers of a source's lists a value reads: those of a head, and of lane 1 of per-channel frequencies.
struct ListPart {
  int64_t steps = 0;  // before the first pair's
  int64_t lane = 0;   // the same of lists without heads
};

PHASOR_HD inline int64_t axis_of(const Rows& rows, int64_t pair, const ListPart& part) {
  return rows->axis_of_pair == nullptr ? 0 : rows.table(rows->axis_of_pair)[part.lane + pair];
}

// ---- Phases ----

template <class T>
PHASOR_HD inline CosSin<T> unturned(const Rows& rows) {
  return {static_cast<T>(rows->amplitude), T{0}};
}

/// A row at position 0 on every axis, and the trailing pairs that never turn, have the sine +0, whatever its sign.
template <class T, class Position>
PHASOR_HD inline CosSin<T> phase_value(const Rows& rows, const RowPositions<Position>& row, int64_t pair, const ListPart& part) {
  bool sound = true;
  bool origin = true;
  for (int64_t a = 0; a < rows->positions.axes; ++a) {
    sound = sound && is_sound(row.at[a]);
    origin = origin && row.at[a] == 0;
  }
  const bool along_directions = rows->step_axis_stride != 0;
  if (!sound && along_directions) return no_number<T>();
  if (sound && (origin || pair >= rows->turning_pairs)) return unturned<T>(rows);
  CosSin<T> value{};
  const math::Step* const steps = rows.steps() + part.steps + pair;
  if (along_directions) {
    math::sincos(math::Steps{steps, rows->step_axis_stride, static_cast<int>(rows->positions.axes)}, row.at, rows->amplitude, value.cos,
                 value.sin);
  } else {
    math::sincos(*steps, row.at[axis_of(rows, pair, part)], rows->amplitude, value.cos, value.sin);
  }
  value.sin *= static_cast<T>(rows->sine_sign);
  return value;
}

// ---- Numerics profiles ----

/// A NaN stays as it is: a GPU's own has all low bits set, and the sum that rounds would carry into its sign.
PHASOR_HD inline float rounded_to(DType dtype, float value) {
  if (value != value) return value;
  if (dtype == DType::bf16) return math::rounded_bf16(math::One<float>(), value);
  return dtype == DType::f16 ? math::rounded_f16(math::One<float>(), value) : value;
}

template <class Position>
PHASOR_HD inline float angle_of(const Rows& rows, const RowPositions<Position>& row, int64_t pair, const ListPart& part) {
  const job::ProfileSource& profile = rows->profile;
  const auto at = static_cast<float>(row.at[axis_of(rows, pair, part)]);
  const float position = math::ready_position(at, profile.position_divisor, profile.position_factor);
  const int64_t index = profile.first + part.lane + pair;
  if (profile.running == nullptr) return position * rows.table(profile.frequencies)[index];
  const math::RunningPair& running = rows.table(profile.running)[index];
  float theta = position;
  for (int64_t rung = 0; rung < running.rung; ++rung) theta *= running.ratio;
  return math::ggml_angle(theta, running.angle);
}

template <class T, class Position>
PHASOR_HD inline CosSin<T> profile_value(const Rows& rows, const RowPositions<Position>& row, int64_t pair, const ListPart& part) {
  float cos = 0;
  float sin = 0;
  math::sincos_of_angle(angle_of(rows, row, pair, part), cos, sin);
  const auto amplitude = static_cast<float>(rows->amplitude);
  cos = rounded_to(rows->value_dtype, cos * amplitude);
  sin = static_cast<float>(rows->sine_sign) * rounded_to(rows->value_dtype, sin * amplitude);
  return {static_cast<T>(cos), static_cast<T>(sin)};
}

// ---- Given tables ----

/// Widened; a NaN becomes the plain one.
template <class T, DType dtype, class Storage>
PHASOR_HD inline T table_number(Storage bits) {
  if constexpr (dtype == DType::f64) return static_cast<T>(math::bit_cast<double>(bits));
  const math::One<float> d;
  float value = 0;
  if constexpr (dtype == DType::f32) value = math::bit_cast<float>(bits);
  if constexpr (dtype == DType::f16) value = math::widen_f16(d, math::u32{bits});
  if constexpr (dtype == DType::bf16) value = math::widen_bf16(d, math::u32{bits});
  return value != value ? no_number<T>().cos : static_cast<T>(value);
}

/// One of a table whose dtype is known when it runs.
template <class T>
PHASOR_HD inline T table_value(const std::byte* data, DType dtype, int64_t index) {
  if (dtype == DType::f32) return table_number<T, DType::f32>(reinterpret_cast<const math::u32*>(data)[index]);
  if (dtype == DType::f64) return table_number<T, DType::f64>(reinterpret_cast<const math::u64*>(data)[index]);
  const std::uint16_t bits = reinterpret_cast<const std::uint16_t*>(data)[index];
  return dtype == DType::f16 ? table_number<T, DType::f16>(bits) : table_number<T, DType::bf16>(bits);
}

/// Where a thread's value lies: of which row and head, and the first pair of its segment.
struct RowPlace {
  int64_t batch = 0;
  int64_t token = 0;
  int64_t head = 0;
  int64_t segment = 0;
};

/// Where a row's tables have a pair, lane 0.
struct TableAt {
  int64_t cos;
  int64_t sin;
};
PHASOR_HD inline TableAt table_at(const Rows& rows, const RowPlace& place, int64_t pair) {
  const job::TableSource& table = rows->tables;
  // A full-width table in half pairing has both lanes of a segment before the next segment.
  const int64_t shift = rows->second_lane != 0 && rows->pair_stride == 1 ? place.segment : 0;
  const int64_t first = pair * rows->pair_stride + shift;
  return {place.batch * table.cos_strides[0] + place.token * table.cos_strides[1] + place.head * table.cos_head_stride + first,
          place.batch * table.sin_strides[0] + place.token * table.sin_strides[1] + place.head * table.sin_head_stride + first};
}
/// Both lanes: everything is asked for before anything is used.
template <class T, DType dtype, class Storage>
PHASOR_HD inline PairRow<T> typed_row(const Rows& rows, const TableAt& at) {
  const auto* const cos_table = reinterpret_cast<const Storage*>(rows->tables.cos);
  const auto* const sin_table = reinterpret_cast<const Storage*>(rows->tables.sin);
  const Storage cos[2] = {cos_table[at.cos], cos_table[at.cos + rows->second_lane]};
  const Storage sin[2] = {sin_table[at.sin], sin_table[at.sin + rows->second_lane]};
  const auto sign = static_cast<T>(rows->sine_sign);
  return {{{table_number<T, dtype>(cos[0]), sign * table_number<T, dtype>(rows->swap_sines ? sin[1] : sin[0])},
           {table_number<T, dtype>(cos[1]), sign * table_number<T, dtype>(rows->swap_sines ? sin[0] : sin[1])}}};
}
template <class T>
PHASOR_HD inline PairRow<T> table_row(const Rows& rows, const RowPlace& place, int64_t pair) {
  const TableAt at = table_at(rows, place, pair);
  switch (rows->tables.dtype) {
    case DType::f32:
      return typed_row<T, DType::f32, math::u32>(rows, at);
    case DType::f64:
      return typed_row<T, DType::f64, math::u64>(rows, at);
    case DType::f16:
      return typed_row<T, DType::f16, std::uint16_t>(rows, at);
    default:
      return typed_row<T, DType::bf16, std::uint16_t>(rows, at);
  }
}
template <class T>
PHASOR_HD inline CosSin<T> table_lane(const Rows& rows, const RowPlace& place, int64_t pair, int lane) {
  return table_row<T>(rows, place, pair).lane[lane];
}

// ---- Differences of phases: rerotation ----

/// One side: whole or fractional positions.
struct Side {
  bool fractional;
  RowPositions<int64_t> whole;
  RowPositions<double> fraction;

  PHASOR_HD bool sound(int64_t axis) const { return !fractional || is_sound(fraction.at[axis]); }
  PHASOR_HD math::Phase phase(const math::Step& step, int64_t axis) const {
    return fractional ? math::phase_of(step, fraction.at[axis]) : math::phase_of(step, whole.at[axis]);
  }
};
PHASOR_HD inline Side side_of(const Rows& rows, const RowPlace& place) {
  Side side{};
  side.fractional = is_fractional(rows->positions);
  if (side.fractional) {
    side.fraction = positions_of<double>(rows->positions, place.batch, place.token);
  } else {
    side.whole = positions_of<int64_t>(rows->positions, place.batch, place.token);
  }
  return side;
}

/// a - b where it does not overflow.
PHASOR_HD inline bool subtract(int64_t a, int64_t b, int64_t& difference) {
  difference = static_cast<int64_t>(static_cast<math::u64>(a) - static_cast<math::u64>(b));
  return (b >= 0) == (difference <= a);
}

/// to - from on every axis, where the ladder is one and that is exact: then the row there is the row wanted.
PHASOR_HD inline bool whole_shift(const Rows& rows, const Side& from, const Side& to, RowPositions<int64_t>& by) {
  if (!rows->same_ladder || from.fractional || to.fractional) return false;
  for (int64_t a = 0; a < rows->positions.axes; ++a) {
    if (!subtract(to.whole.at[a], from.whole.at[a], by.at[a])) return false;
  }
  return true;
}
PHASOR_HD inline bool fractional_shift(const Rows& rows, const Side& from, const Side& to, RowPositions<double>& by) {
  if (!rows->same_ladder || !from.fractional || !to.fractional) return false;
  for (int64_t a = 0; a < rows->positions.axes; ++a) {
    if (!from.sound(a) || !to.sound(a)) return false;
    const math::DoubleDouble difference = math::two_sum(to.fraction.at[a], -from.fraction.at[a]);
    if (difference.low != 0 || !math::is_position(difference.high)) return false;
    by.at[a] = difference.high;
  }
  return true;
}

/// One pair's way from one rotation to the other.
struct PairMove {
  const math::Step& from_step;
  const math::Step& to_step;
  int64_t from_axis;
  int64_t to_axis;
};

PHASOR_HD inline bool same_place(const Side& from, const Side& to, const PairMove& pair) {
  if (from.fractional != to.fractional) return false;
  return from.fractional ? from.fraction.at[pair.from_axis] == to.fraction.at[pair.to_axis]
                         : from.whole.at[pair.from_axis] == to.whole.at[pair.to_axis];
}

/// All 192 bits. Pairs of one step go by the difference of the positions: the same bits, and a smaller error.
PHASOR_HD inline math::Phase difference_phase(const Rows& rows, const Side& from, const Side& to, const PairMove& pair) {
  int64_t by = 0;
  if (!from.fractional && !to.fractional && !rows->opposed && math::same_step(pair.from_step, pair.to_step) &&
      subtract(to.whole.at[pair.to_axis], from.whole.at[pair.from_axis], by)) {
    return math::phase_of(pair.to_step, by);
  }
  return math::combine(to.phase(pair.to_step, pair.to_axis), from.phase(pair.from_step, pair.from_axis), rows->opposed);
}

template <class T>
PHASOR_HD inline CosSin<T> difference_value(const Rows& rows, const RowPlace& place, int64_t pair) {
  const Side from = side_of(rows.from(), place);
  const Side to = side_of(rows, place);
  RowPositions<int64_t> by{};
  if (whole_shift(rows, from, to, by)) return phase_value<T>(rows, by, pair, {});
  RowPositions<double> by_fraction{};
  if (fractional_shift(rows, from, to, by_fraction)) return phase_value<T>(rows, by_fraction, pair, {});
  bool sound = true;
  for (int64_t a = 0; a < rows.from()->positions.axes; ++a) sound = sound && from.sound(a);
  for (int64_t a = 0; a < rows->positions.axes; ++a) sound = sound && to.sound(a);
  const int64_t turning = rows->turning_pairs > rows.from()->turning_pairs ? rows->turning_pairs : rows.from()->turning_pairs;
  if (sound && pair >= turning) return unturned<T>(rows);
  const PairMove move = {rows.from().steps()[pair], rows.steps()[pair], axis_of(rows.from(), pair, {}), axis_of(rows, pair, {})};
  if (!from.sound(move.from_axis) || !to.sound(move.to_axis)) return no_number<T>();
  if (!rows->opposed && math::same_step(move.from_step, move.to_step) && same_place(from, to, move)) return unturned<T>(rows);
  CosSin<T> value{};
  math::sincos(difference_phase(rows, from, to, move), rows->amplitude, value.cos, value.sin);
  value.sin = value.sin == 0 ? T{0} : value.sin * static_cast<T>(rows->sine_sign);  // +0, so that there and back are one way
  return value;
}

// ---- Any of them ----

template <class T, class Position>
PHASOR_HD inline CosSin<T> made_value(const Rows& rows, const RowPlace& place, int64_t pair, const ListPart& part) {
  const RowPositions<Position> row = positions_of<Position>(rows->positions, place.batch, place.token);
  return rows->profile.count != 0 ? profile_value<T>(rows, row, pair, part) : phase_value<T>(rows, row, pair, part);
}
template <class T>
PHASOR_HD inline CosSin<T> lane_value(const Rows& rows, const RowPlace& place, int64_t pair, int lane) {
  if (rows->kind == job::RowSource::Kind::tables) return table_lane<T>(rows, place, pair, lane);
  if (rows->kind == job::RowSource::Kind::differences) return difference_value<T>(rows, place, pair);
  const int64_t of_lane = lane * rows->step_lane_stride;
  const ListPart part = {place.head * rows->step_head_stride + of_lane, of_lane};
  return is_fractional(rows->positions) ? made_value<T, double>(rows, place, pair, part) : made_value<T, int64_t>(rows, place, pair, part);
}

PHASOR_HD inline bool lanes_differ(const Rows& rows) { return rows->second_lane != 0 || rows->step_lane_stride != 0; }

template <class T>
PHASOR_HD inline PairRow<T> pair_row(const Rows& rows, const RowPlace& place, int64_t pair) {
  PairRow<T> row{};
  row.lane[0] = row.lane[1] = lane_value<T>(rows, place, pair, 0);
  if (!lanes_differ(rows)) return row;
  row.lane[1] = lane_value<T>(rows, place, pair, 1);
  if (rows->step_lane_stride != 0 && rows->swap_sines) {  // tables are read with their sines swapped already
    const T sine = row.lane[0].sin;
    row.lane[0].sin = row.lane[1].sin;
    row.lane[1].sin = sine;
  }
  return row;
}

}  // namespace phasor::cuda
