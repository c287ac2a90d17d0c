// SPDX-License-Identifier: Apache-2.0
// Rows that take keys from one rotation to another: cosines and sines of differences of phases, each rounding proven as in rows.inl.

/// Where one side of a rerotation has a row: whole or fractional positions, an axis each.
struct Side {
  const job::RowSource* source;
  bool fractional;
  std::int64_t whole[job::kMaxAxes];
  double fraction[job::kMaxAxes];

  std::int64_t axis(std::int64_t pair) const { return source->axis_of_pair == nullptr ? 0 : source->axis_of_pair[pair]; }
  const math::Step& step(std::int64_t pair) const { return source->steps[pair]; }
  bool is_sound(std::int64_t a) const { return !fractional || math::is_position(fraction[a]); }
  bool is_sound() const {
    for (std::int64_t a = 0; a < source->positions.axes; ++a) {
      if (!is_sound(a)) return false;
    }
    return true;
  }
  math::Phase128 phase128(std::int64_t pair) const {
    return fractional ? phase128_at(step(pair), fraction[axis(pair)]) : phase128_at(step(pair), whole[axis(pair)]);
  }
  math::Phase phase(std::int64_t pair) const {
    return fractional ? math::phase_of(step(pair), fraction[axis(pair)]) : math::phase_of(step(pair), whole[axis(pair)]);
  }
  double tiny_bound(std::int64_t pair) const { return fractional ? tiny_bound_at(fraction[0]) : tiny_bound_at(whole[axis(pair)]); }
};

inline Side side_at(const job::RowSource& source, std::int64_t batch, std::int64_t token) {
  Side side = {&source, source.positions.type == PositionType::f64 && source.positions.data != nullptr, {}, {}};
  for (std::int64_t a = 0; a < source.positions.axes; ++a) {
    if (side.fractional) {
      side.fraction[a] = position_at<double>(source.positions, a, batch, token);
    } else {
      side.whole[a] = position_at<std::int64_t>(source.positions, a, batch, token);
    }
  }
  return side;
}

/// One row's way from one rotation to the other. `source` is that of the rows: its own phases are those of `to`.
struct Move {
  const job::RowSource& source;
  Side from;
  Side to;

  bool on_one_axis() const { return source.axis_of_pair == nullptr && source.from->axis_of_pair == nullptr; }
  bool are_whole() const { return !from.fractional && !to.fractional; }
  bool same_place(std::int64_t pair) const {
    if (from.fractional != to.fractional) return false;
    return from.fractional ? from.fraction[from.axis(pair)] == to.fraction[to.axis(pair)]
                           : from.whole[from.axis(pair)] == to.whole[to.axis(pair)];
  }
  /// Whether a pair turns alike on both sides, so that it does not move, exactly.
  bool is_still(std::int64_t pair) const { return !source.opposed && math::same_step(from.step(pair), to.step(pair)) && same_place(pair); }
};

inline Move move_at(const job::RowSource& source, std::int64_t batch, std::int64_t token) {
  return {source, side_at(*source.from, batch, token), side_at(source, batch, token)};
}

/// All 192 bits. Pairs of one step go by the difference of the positions: the same bits, and a smaller error.
inline math::Phase difference_of(const Move& move, std::int64_t pair) {
  std::int64_t by = 0;
  if (move.are_whole() && !move.source.opposed && math::same_step(move.from.step(pair), move.to.step(pair)) &&
      !__builtin_sub_overflow(move.to.whole[move.to.axis(pair)], move.from.whole[move.from.axis(pair)], &by)) {
    return math::phase_of(move.to.step(pair), by);
  }
  return math::combine(move.to.phase(pair), move.from.phase(pair), move.source.opposed);
}

/// One pair by the definition; the sign of the sine applied. NaN where a side has no phase.
template <class T>
void fill_difference_pair(const Move& move, std::int64_t pair, T& cos, T& sin) {
  if (!move.from.is_sound(move.from.axis(pair)) || !move.to.is_sound(move.to.axis(pair))) {
    cos = sin = std::numeric_limits<T>::quiet_NaN();
    return;
  }
  if (move.is_still(pair)) return fill_unturned(move.source, 1, &cos, &sin);
  math::sincos(difference_of(move, pair), move.source.amplitude, cos, sin);
  sin = sin == 0 ? T{0} : sin * static_cast<T>(move.source.sine_sign);  // +0, so that there and back are one way
}

#if PHASOR_LANES

#include "math/phase/difference.inl"

/// The phases of up to kPhaseChunk pairs where none is still: whole positions on one axis, different ones.
HWY_INLINE void fill_whole_phases(const Move& move, const RowBlock<float>& block, PhaseChunk& phases) {
  const std::int64_t a = move.from.whole[0];
  const std::int64_t b = move.to.whole[0];
  for (std::int64_t i = 0; i < block.count; ++i) {
    const math::Phase128 p = math::combine(math::phase128_of(move.to.step(block.first + i), b),
                                           math::phase128_of(move.from.step(block.first + i), a), move.source.opposed);
    phases.high[i] = p.high;
    phases.low[i] = p.low;
  }
  phases.tiny = math::tiny_bound(a) + math::tiny_bound(b);  // their errors add up
}

/// The phases of up to kPhaseChunk pairs. Returns a bit for each pair that is still, whose phase is one that is easily proven instead.
HWY_INLINE u64 fill_difference_phases(const Move& move, const RowBlock<float>& block, PhaseChunk& phases) {
  u64 still = 0;
  if (move.are_whole() && move.on_one_axis() && !move.same_place(0)) {
    fill_whole_phases(move, block, phases);
    return still;
  }
  phases.tiny = 0;
  for (std::int64_t i = 0; i < block.count; ++i) {
    const std::int64_t pair = block.first + i;
    math::Phase128 p = {u64{1} << 60, 0};
    if (move.is_still(pair)) {
      still |= u64{1} << i;
    } else {
      p = math::combine(move.to.phase128(pair), move.from.phase128(pair), move.source.opposed);
      phases.tiny = std::max(phases.tiny, move.to.tiny_bound(pair) + move.from.tiny_bound(pair));
    }
    phases.high[i] = p.high;
    phases.low[i] = p.low;
  }
  return still;
}

#endif  // PHASOR_LANES

/// One row of up to kPhaseChunk pairs, as fill_chunk.
inline void fill_difference_chunk(const Move& move, const RowBlock<float>& block) {
  std::int64_t done = 0;
#if PHASOR_LANES
  PhaseChunk phases;
  const u64 still = fill_difference_phases(move, block, phases);
  done = fill_proven(move.source, phases, block);
  for (std::int64_t i = 0; i < done; ++i) {
    if ((still >> i & 1) != 0) fill_unturned(move.source, 1, block.cos + i, block.sin + i);
  }
#endif
  for (std::int64_t i = done; i < block.count; ++i) fill_difference_pair(move, block.first + i, block.cos[i], block.sin[i]);
}

/// Pairs before the trailing ones that turn on neither side.
inline std::int64_t turning_in(const job::RowSource& source, std::int64_t first, std::int64_t count) {
  return std::clamp(std::max(source.turning_pairs, source.from->turning_pairs) - first, std::int64_t{0}, count);
}

/// One row by differences of phases.
template <class T>
void fill_difference_row(const Move& move, const RowBlock<T>& block, std::int64_t row) {
  const bool sound = move.from.is_sound() && move.to.is_sound();
  const std::int64_t turning = sound ? turning_in(move.source, block.first, block.count) : block.count;
  const RowBlock<T> whole = block.part(row, 0, block.count);
  std::int64_t i = 0;
  if constexpr (std::is_same_v<T, float>) {
    for (; sound && i < turning; i += kPhaseChunk) fill_difference_chunk(move, block.part(row, i, std::min(kPhaseChunk, turning - i)));
  }
  for (; i < turning; ++i) fill_difference_pair(move, whole.first + i, whole.cos[i], whole.sin[i]);
  fill_unturned(move.source, block.count - turning, whole.cos + turning, whole.sin + turning);
}

#if PHASOR_LANES

/// `count` rows of a block from `row` on, both sides at consecutive positions from those of `move` on.
struct MoveRun {
  const Move& move;
  std::int64_t row;
  std::int64_t count;
};

/// Where the run begins, and its turn from row to row. Pairs that are still keep a value that is easily proven.
HWY_INLINE Turning<DoubleVec> difference_seed(const Move& move, std::int64_t pair) {
  const DoubleTag d;
  const hn::RebindToUnsigned<DoubleTag> du;
  alignas(64) u64 high[hn::MaxLanes(DoubleTag())];
  alignas(64) u64 low[hn::MaxLanes(DoubleTag())];
  alignas(64) u64 still[hn::MaxLanes(DoubleTag())];
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) {
    const std::int64_t at = pair + static_cast<std::int64_t>(i);
    const math::Phase128 p = math::combine(move.to.phase128(at), move.from.phase128(at), move.source.opposed);
    high[i] = p.high;
    low[i] = p.low;
    still[i] = move.is_still(at) ? ~u64{0} : 0;
  }
  const job::RowSource& to = move.source;
  const auto is_still = hn::MaskFromVec(hn::BitCast(d, hn::Load(du, still)));
  const auto easy = hn::Set(d, 0.75);
  const auto r = sincos_lanes<Long>(d, hn::Load(du, high), hn::Load(du, low), 0.0);
  const Pair<DoubleVec> turn = turn_between<DoubleVec>({hn::LoadU(d, to.turn_cos + pair), hn::LoadU(d, to.turn_sin + pair)},
                                                       {hn::LoadU(d, to.from->turn_cos + pair), hn::LoadU(d, to.from->turn_sin + pair)},
                                                       hn::Set(d, to.opposed ? -1.0 : 1.0));
  return {hn::IfThenElse(is_still, easy, hn::Mul(r.cos, hn::Set(d, to.amplitude))),
          hn::IfThenElse(is_still, easy, hn::Mul(r.sin, hn::Set(d, to.amplitude * to.sine_sign))),
          hn::IfThenElse(is_still, hn::Set(d, 1.0), turn.x),
          hn::IfThenElse(is_still, hn::Zero(d), hn::Mul(turn.y, hn::Set(d, to.sine_sign)))};
}

/// As fill_group.
inline u32 fill_difference_group(const RowBlock<float>& block, const MoveRun& run, std::int64_t i) {
  const std::int64_t pair = block.first + i;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(DoubleTag()));
  return turn_rows(difference_seed(run.move, pair), difference_seed(run.move, pair + lanes),
                   hn::Set(DoubleTag(), kDifferenceError * run.move.source.amplitude), block.part(run.row, i, kGroupVectors * lanes),
                   run.count);
}

/// As fill_run: rows in doubt, and the pairs that do not fill registers, go through level 1.
inline void fill_difference_run(const RowBlock<float>& block, const MoveRun& run) {
  const std::int64_t group = kGroupVectors * static_cast<std::int64_t>(hn::Lanes(DoubleTag()));
  const job::RowSource& source = run.move.source;
  const std::int64_t turning = turning_in(source, block.first, block.count);
  u32 doubt = 0;
  std::int64_t end = 0;
  for (; end + group <= turning; end += group) doubt |= fill_difference_group(block, run, end);
  Move move = run.move;
  for (std::int64_t r = 0; r < run.count; ++r) {
    const std::int64_t row = run.row + r;
    move.from.whole[0] = run.move.from.whole[0] + r;
    move.to.whole[0] = run.move.to.whole[0] + r;
    if ((doubt >> r & 1) != 0) {
      fill_difference_row(move, block, row);
      continue;
    }
    for (std::int64_t i = end; i < turning; i += kPhaseChunk) {
      fill_difference_chunk(move, block.part(row, i, std::min(kPhaseChunk, turning - i)));
    }
    const RowBlock<float> rest = block.part(row, turning, block.count - turning);
    fill_unturned(source, rest.count, rest.cos, rest.sin);
  }
  for (std::int64_t i = 0; i < end; ++i) {
    if (!run.move.is_still(block.first + i)) continue;
    for (std::int64_t r = 0; r < run.count; ++r) {
      const RowBlock<float> one = block.part(run.row + r, i, 1);
      fill_unturned(source, 1, one.cos, one.sin);
    }
  }
}

/// How many rows from `rows.token` on are consecutive on both sides; 1 where a recurrence does not serve.
inline std::int64_t move_run_length(const Move& move, const RowRange& rows) {
  const job::RowSource& to = move.source;
  if (!move.are_whole() || !move.on_one_axis()) return 1;
  std::int64_t positions[2][kMaxBlockRows];
  for (std::int64_t r = 0; r < rows.count; ++r) {
    positions[0][r] = position_at<std::int64_t>(to.from->positions, 0, rows.batch, rows.token + r);
    positions[1][r] = position_at<std::int64_t>(to.positions, 0, rows.batch, rows.token + r);
  }
  return std::min(run_length(positions[0], 0, rows.count), run_length(positions[1], 0, rows.count));
}

#endif  // PHASOR_LANES

/// to - from on every axis, where that is exact: then a row of the one ladder at that position is the row wanted.
inline bool shift_of(const Move& move, RowPosition<std::int64_t>& by) {
  if (!move.source.same_ladder || !move.are_whole()) return false;
  by = {{}, move.source.axis_of_pair};
  for (std::int64_t a = 0; a < move.source.positions.axes; ++a) {
    if (__builtin_sub_overflow(move.to.whole[a], move.from.whole[a], &by.by_axis[a])) return false;
  }
  return true;
}
inline bool shift_of(const Move& move, RowPosition<double>& by) {
  if (!move.source.same_ladder || !move.from.fractional || !move.to.fractional) return false;
  by = {{}, move.source.axis_of_pair};
  for (std::int64_t a = 0; a < move.source.positions.axes; ++a) {
    if (!move.from.is_sound(a) || !move.to.is_sound(a)) return false;
    const math::DoubleDouble difference = math::two_sum(move.to.fraction[a], -move.from.fraction[a]);
    if (difference.low != 0 || !math::is_position(difference.high)) return false;
    by.by_axis[a] = difference.high;
  }
  return true;
}

/// Rows moved by one and the same shift (a K-shift), made once; returns how many, 0 when the first is not a shift.
template <class T, class Position>
std::int64_t fill_shifted(const job::RowSource& source, const RowRange& rows, const RowBlock<T>& block, std::int64_t row) {
  RowPosition<Position> by;
  RowPosition<Position> next;
  if (!shift_of(move_at(source, rows.batch, rows.token + row), by)) return 0;
  fill_row(source, by, block, row);
  const RowBlock<T> first = block.part(row, 0, block.count);
  std::int64_t r = row + 1;
  for (; r < rows.count && shift_of(move_at(source, rows.batch, rows.token + r), next); ++r) {
    if (!std::equal(by.by_axis, by.by_axis + source.positions.axes, next.by_axis)) break;
    std::copy_n(first.cos, block.count, block.cos + r * block.stride);
    std::copy_n(first.sin, block.count, block.sin + r * block.stride);
  }
  return r - row;
}

template <class T>
void fill_from_differences(const job::RowSource& source, const RowRange& rows, const RowBlock<T>& block) {
  for (std::int64_t r = 0; r < rows.count;) {
    std::int64_t done = fill_shifted<T, std::int64_t>(source, rows, block, r);
    if (done == 0) done = fill_shifted<T, double>(source, rows, block, r);
    r += done;
    if (done != 0) continue;
    const Move move = move_at(source, rows.batch, rows.token + r);
#if PHASOR_LANES
    if constexpr (std::is_same_v<T, float>) {
      const MoveRun run = {move, r, move_run_length(move, {rows.batch, rows.token + r, rows.count - r})};
      if (run.count >= kShortestRun) {
        fill_difference_run(block, run);
        r += run.count;
        continue;
      }
    }
#endif
    fill_difference_row(move, block, r);
    ++r;
  }
}
