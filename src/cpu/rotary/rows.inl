// SPDX-License-Identifier: Apache-2.0
// Rows of cosines and sines for a range of pairs, from phases: level 1 and the recurrence, each proving its roundings.

constexpr std::int64_t kMaxBlockRows = math::kRecurrenceRows;
/// Values of one block of rows, cosines or sines: 16 KiB of float32 for both, so that a block stays in L1.
constexpr std::int64_t kBlockValues = 2048;
/// Pairs whose phases are held at a time.
constexpr std::int64_t kPhaseChunk = 64;
/// Shorter runs of consecutive positions are cheaper row by row.
constexpr std::int64_t kShortestRun = 3;

/// Pairs [first, first + count) of a row, and where a block's rows go: row r begins at cos + r * stride.
template <class T>
struct RowBlock {
  std::int64_t first;
  std::int64_t count;
  T* cos;
  T* sin;
  std::int64_t stride;

  RowBlock part(std::int64_t row, std::int64_t from, std::int64_t pairs) const {
    return {first + from, pairs, cos + row * stride + from, sin + row * stride + from, stride};
  }
};

/// Rows [token, token + count) of a batch row; at most kMaxBlockRows.
struct RowRange {
  std::int64_t batch;
  std::int64_t token;
  std::int64_t count;
};

/// The positions of one row, an axis each.
template <class Position>
struct RowPosition {
  Position by_axis[job::kMaxAxes];
  const std::uint8_t* axis_of_pair;

  std::int64_t axis(std::int64_t pair) const { return axis_of_pair == nullptr ? 0 : axis_of_pair[pair]; }
  Position of(std::int64_t pair) const { return by_axis[axis(pair)]; }
};

inline math::Phase128 phase128_at(const math::Step& step, std::int64_t position) { return math::phase128_of(step, position); }
inline math::Phase128 phase128_at(const math::Step& step, double position) {
  const math::Phase p = math::phase_of(step, position);
  return {p.limb[2], p.limb[1]};
}
inline double tiny_bound_at(std::int64_t position) { return math::tiny_bound(position); }
inline double tiny_bound_at(double /*position*/) { return math::tiny_bound_of_fraction(); }

/// One pair by the definition; the sign of the sine applied.
template <class T, class Position>
void fill_pair(const job::RowSource& source, const RowPosition<Position>& at, std::int64_t pair, T& cos, T& sin) {
  math::sincos(source.steps[pair], at.of(pair), source.amplitude, cos, sin);
  sin *= static_cast<T>(source.sine_sign);
}

#if PHASOR_LANES

using DoubleTag = hn::ScalableTag<double>;
using DoubleVec = hn::Vec<DoubleTag>;

/// The phases of up to kPhaseChunk pairs at one position.
struct PhaseChunk {
  alignas(64) u64 high[kPhaseChunk];
  alignas(64) u64 low[kPhaseChunk];
  double tiny;
};

template <class Position>
HWY_INLINE void fill_phases(const job::RowSource& source, const RowPosition<Position>& at, const RowBlock<float>& block,
                            PhaseChunk& phases) {
  phases.tiny = 0;
  for (std::int64_t i = 0; i < block.count; ++i) {
    const Position position = at.of(block.first + i);
    const math::Phase128 p = phase128_at(source.steps[block.first + i], position);
    phases.high[i] = p.high;
    phases.low[i] = p.low;
    if (i == 0 || at.axis_of_pair != nullptr) phases.tiny = std::max(phases.tiny, tiny_bound_at(position));
  }
}

/// Level 1 for as many pairs of a chunk as fill registers; returns how many, or 0 when a rounding is not proven.
inline std::int64_t fill_proven(const job::RowSource& source, const PhaseChunk& phases, const RowBlock<float>& block) {
  const DoubleTag d;
  const hn::RebindToUnsigned<DoubleTag> du;
  const hn::Rebind<float, DoubleTag> df;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const u64 bound = math::doubt_with_amplitude(Short::doubt, source.amplitude);
  const auto amplitude_cos = hn::Set(d, source.amplitude);
  const auto amplitude_sin = hn::Set(d, source.amplitude * source.sine_sign);
  auto doubt = hn::MaskFromVec(hn::Zero(d));
  std::int64_t i = 0;
  for (; i + lanes <= block.count; i += lanes) {
    const auto r = sincos_lanes<Short>(d, hn::Load(du, phases.high + i), hn::Load(du, phases.low + i), phases.tiny);
    const auto c = hn::Mul(r.cos, amplitude_cos);
    const auto s = hn::Mul(r.sin, amplitude_sin);
    const auto near = hn::Or(near_midpoint(d, c, bound), near_midpoint(d, s, bound));
    doubt = hn::Or(doubt, hn::Or(r.tiny, hn::RebindMask(d, near)));
    hn::StoreU(hn::DemoteTo(df, c), df, block.cos + i);
    hn::StoreU(hn::DemoteTo(df, s), df, block.sin + i);
  }
  return hn::AllFalse(d, doubt) ? i : 0;
}

/// Rounds to float32 and stores; returns whether every lane is proven.
HWY_INLINE bool store_proven(DoubleVec value, DoubleVec error, float* to) {
  const hn::Rebind<float, DoubleTag> df;
  const auto up = hn::DemoteTo(df, hn::Add(value, error));
  const auto down = hn::DemoteTo(df, hn::Sub(value, error));
  hn::StoreU(up, df, to);
  return hn::AllTrue(df, hn::Eq(up, down));
}

#if HWY_TARGET == HWY_NEON
#include "cpu/rotary/rows_neon.inl"
#endif

/// `rows` rows of two registers of pairs, from `first_row` on, by the recurrence; a bit of the result for each row in doubt.
HWY_INLINE u32 turn_rows(Turning<DoubleVec> a, Turning<DoubleVec> b, DoubleVec error, const RowBlock<float>& first_row, std::int64_t rows) {
#if HWY_TARGET == HWY_NEON
  if (turn_rows_at_once(a, b, error, first_row, rows)) return 0;
#endif
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(DoubleTag()));
  u32 doubt = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    float* cos = first_row.cos + r * first_row.stride;
    float* sin = first_row.sin + r * first_row.stride;
    bool proven = store_proven(a.cos, error, cos);
    proven &= store_proven(a.sin, error, sin);
    proven &= store_proven(b.cos, error, cos + lanes);
    proven &= store_proven(b.sin, error, sin + lanes);
    doubt |= static_cast<u32>(!proven) << r;
    advance(a);
    advance(b);
  }
  return doubt;
}

/// Level 1 for as many pairs of a chunk as fill registers and are proven; returns how many.
template <class Position>
HWY_INLINE std::int64_t fill_registers(const job::RowSource& source, const RowPosition<Position>& at, const RowBlock<float>& block) {
  std::int64_t done = 0;
#if HWY_TARGET == HWY_NEON
  if (at.axis_of_pair == nullptr && is_word(at.by_axis[0])) {
    done = fill_eights(source, static_cast<std::int64_t>(at.by_axis[0]), block);
    const bool in_doubt = done == 0 && block.count >= 8;  // and would be again: fill_proven has the same polynomials
    if (done == block.count || in_doubt) return done;
  }
#endif
  const RowBlock<float> rest = block.part(0, done, block.count - done);
  PhaseChunk phases;
  fill_phases(source, at, rest, phases);
  return done + fill_proven(source, phases, rest);
}

#endif  // PHASOR_LANES

/// One row of up to kPhaseChunk pairs. A chunk with a rounding in doubt (one in a thousand rows) is done again pair by pair.
template <class Position>
void fill_chunk(const job::RowSource& source, const RowPosition<Position>& at, const RowBlock<float>& block) {
  std::int64_t done = 0;
#if PHASOR_LANES
  done = fill_registers(source, at, block);
#endif
  for (std::int64_t i = done; i < block.count; ++i) fill_pair(source, at, block.first + i, block.cos[i], block.sin[i]);
}

/// Whether every axis is at position 0, where nothing turns.
template <class Position>
bool at_origin(const job::RowSource& source, const RowPosition<Position>& at) {
  for (std::int64_t a = 0; a < source.positions.axes; ++a) {
    if (at.by_axis[a] != 0) return false;
  }
  return true;
}

template <class T>
void fill_unturned(const job::RowSource& source, std::int64_t count, T* cos, T* sin) {
  std::fill_n(cos, count, static_cast<T>(source.amplitude));
  std::fill_n(sin, count, T{0});
}

/// One row at any position.
template <class T, class Position>
void fill_row(const job::RowSource& source, const RowPosition<Position>& at, const RowBlock<T>& block, std::int64_t row) {
  T* cos = block.cos + row * block.stride;
  T* sin = block.sin + row * block.stride;
  if constexpr (std::is_same_v<Position, double>) {
    for (std::int64_t a = 0; a < source.positions.axes; ++a) {
      if (!math::is_position(at.by_axis[a])) {  // NaN rows, pair by pair: rare, and an axis may still be sound
        for (std::int64_t i = 0; i < block.count; ++i) fill_pair(source, at, block.first + i, cos[i], sin[i]);
        return;
      }
    }
  }
  const std::int64_t turning = at_origin(source, at) ? 0 : std::clamp(source.turning_pairs - block.first, std::int64_t{0}, block.count);
  if constexpr (std::is_same_v<T, float>) {
    for (std::int64_t i = 0; i < turning; i += kPhaseChunk) fill_chunk(source, at, block.part(row, i, std::min(kPhaseChunk, turning - i)));
  } else {
    for (std::int64_t i = 0; i < turning; ++i) fill_pair(source, at, block.first + i, cos[i], sin[i]);
  }
  fill_unturned(source, block.count - turning, cos + turning, sin + turning);
}

#if PHASOR_LANES

/// Pairs held in registers while the rows go by: two registers of doubles.
constexpr std::int64_t kGroupVectors = 2;

/// `count` rows of a block from `row` on, at consecutive positions.
struct Run {
  std::int64_t position;
  std::int64_t row;
  std::int64_t count;

  RowPosition<std::int64_t> at(std::int64_t r) const { return {{position + r}, nullptr}; }
};

HWY_INLINE Turning<DoubleVec> seed(const job::RowSource& source, std::int64_t pair, const Run& run) {
  const DoubleTag d;
  const hn::RebindToUnsigned<DoubleTag> du;
  alignas(64) u64 high[hn::MaxLanes(DoubleTag())];
  alignas(64) u64 low[hn::MaxLanes(DoubleTag())];
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) {
    const math::Phase128 p = math::phase128_of(source.steps[pair + static_cast<std::int64_t>(i)], run.position);
    high[i] = p.high;
    low[i] = p.low;
  }
  const auto r = sincos_lanes<Long>(d, hn::Load(du, high), hn::Load(du, low), 0.0);
  return {hn::Mul(r.cos, hn::Set(d, source.amplitude)), hn::Mul(r.sin, hn::Set(d, source.amplitude * source.sine_sign)),
          hn::LoadU(d, source.turn_cos + pair), hn::Mul(hn::LoadU(d, source.turn_sin + pair), hn::Set(d, source.sine_sign))};
}

/// A run over kGroupVectors registers of pairs from `i` of the block on; a bit of the result for each row in doubt.
template <class AnyRun>
HWY_INLINE u32 fill_group(const job::RowSource& source, const RowBlock<float>& block, const AnyRun& run, std::int64_t i) {
  const std::int64_t pair = block.first + i;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(DoubleTag()));
  return turn_rows(seed(source, pair, run), seed(source, pair + lanes, run), hn::Set(DoubleTag(), kRecurrenceError * source.amplitude),
                   block.part(run.row, i, kGroupVectors * lanes), run.count);
}

#if HWY_TARGET == HWY_NEON
/// fill_group for as many pairs as make eights, their seeds made together; returns how many.
HWY_INLINE std::int64_t fill_groups(const job::RowSource& source, const RowBlock<float>& block, const Run& run, std::int64_t turning,
                                    u32& doubt) {
  if (!is_word(run.position)) return 0;
  const auto error = hn::Set(DoubleTag(), kRecurrenceError * source.amplitude);
  std::int64_t i = 0;
  while (i + 8 <= turning) {
    const std::int64_t count = std::min(kPhaseChunk, turning - i) & ~std::int64_t{7};
    const std::int64_t pair = block.first + i;
    Seeds seeds;
    fill_seeds(source, run.position, pair, count, seeds);
    for (std::int64_t j = 0; j < count; j += 4) {
      doubt |= turn_rows(turning_of(source, pair + j, seeds, j), turning_of(source, pair + j + 2, seeds, j + 2), error,
                         block.part(run.row, i + j, 4), run.count);
    }
    i += count;
  }
  return i;
}
#endif

/// Rows in doubt, and the pairs that do not fill registers, go through level 1.
template <class AnyRun>
void fill_run(const job::RowSource& source, const RowBlock<float>& block, const AnyRun& run) {
  const std::int64_t group = kGroupVectors * static_cast<std::int64_t>(hn::Lanes(DoubleTag()));
  const std::int64_t turning = std::clamp(source.turning_pairs - block.first, std::int64_t{0}, block.count);
  u32 doubt = 0;
  std::int64_t i = 0;
#if HWY_TARGET == HWY_NEON
  if constexpr (std::is_same_v<AnyRun, Run>) i = fill_groups(source, block, run, turning, doubt);
#endif
  for (; i + group <= turning; i += group) doubt |= fill_group(source, block, run, i);
  for (std::int64_t r = 0; r < run.count; ++r) {
    const RowPosition<std::int64_t> at = run.at(r);
    const std::int64_t row = run.row + r;
    if (at_origin(source, at) || (doubt >> r & 1) != 0) {
      fill_row(source, at, block, row);
      continue;
    }
    for (std::int64_t j = i; j < turning; j += kPhaseChunk) fill_chunk(source, at, block.part(row, j, std::min(kPhaseChunk, turning - j)));
    const RowBlock<float> rest = block.part(row, turning, block.count - turning);
    fill_unturned(source, rest.count, rest.cos, rest.sin);
  }
}

#endif  // PHASOR_LANES

template <class Position>
Position position_at(const job::PositionSource& p, std::int64_t axis, std::int64_t batch, std::int64_t token) {
  if constexpr (std::is_same_v<Position, std::int64_t>) {
    if (p.data == nullptr) return static_cast<std::int64_t>(static_cast<std::uint64_t>(p.offset) + static_cast<std::uint64_t>(token));
  }
  const std::int64_t index = axis * p.axis_stride + batch * p.batch_stride + token * p.token_stride;
  if constexpr (std::is_same_v<Position, double>) return static_cast<const double*>(p.data)[index];
  return p.type == PositionType::i32 ? static_cast<const std::int32_t*>(p.data)[index] : static_cast<const std::int64_t*>(p.data)[index];
}

/// How many rows from `row` on have consecutive positions.
inline std::int64_t run_length(const std::int64_t* position, std::int64_t row, std::int64_t rows) {
  std::int64_t end = row + 1;
  while (end < rows && static_cast<std::uint64_t>(position[end]) == static_cast<std::uint64_t>(position[end - 1]) + 1 &&
         position[end] > position[end - 1])
    ++end;
  return end - row;
}

/// Rows by phases of positions of several axes: cpu/rotary/axes.inl.
template <class T, class Position>
void fill_from_axes(const job::RowSource& source, const RowRange& rows, const RowBlock<T>& block);

/// Rows by phases.
template <class T, class Position>
void fill_from_phases(const job::RowSource& source, const RowRange& rows, const RowBlock<T>& block) {
  if (source.positions.axes > 1) return fill_from_axes<T, Position>(source, rows, block);
  Position position[kMaxBlockRows] = {};
  for (std::int64_t r = 0; r < rows.count; ++r) position[r] = position_at<Position>(source.positions, 0, rows.batch, rows.token + r);
  for (std::int64_t r = 0; r < rows.count;) {
#if PHASOR_LANES
    if constexpr (std::is_same_v<T, float> && std::is_same_v<Position, std::int64_t>) {
      const Run run = {position[r], r, run_length(position, r, rows.count)};
      if (run.count >= kShortestRun && run.position != 0) {  // sines of 0 no recurrence proves
        fill_run(source, block, run);
        r += run.count;
        continue;
      }
    }
#endif
    fill_row(source, RowPosition<Position>{{position[r]}, nullptr}, block, r);
    ++r;
  }
}

/// Rows of one lane of the tables (lane 0, or lane 1 where the lanes differ): cpu/rotary/tables.inl.
template <class T>
void fill_from_tables(const job::RowSource& source, const RowRange& rows, const RowBlock<T>& block, int lane);
/// Rows of a numerics profile (cpu/rotary/angles.inl).
template <class T, class Position>
void fill_from_angles(const job::RowSource& source, const RowRange& rows, const RowBlock<T>& block);
/// Rows by differences of phases: cpu/rotary/difference_rows.inl.
template <class T>
void fill_from_differences(const job::RowSource& source, const RowRange& rows, const RowBlock<T>& block);

template <class T>
void fill_rows(const job::RowSource& source, const RowRange& rows, const RowBlock<T>& block) {
  if (source.kind == job::RowSource::Kind::tables) return fill_from_tables(source, rows, block, 0);
  if (source.kind == job::RowSource::Kind::differences) return fill_from_differences(source, rows, block);
  const bool fractional = source.positions.type == PositionType::f64 && source.positions.data != nullptr;
  if (source.profile.count != 0) {
    return fractional ? fill_from_angles<T, double>(source, rows, block) : fill_from_angles<T, std::int64_t>(source, rows, block);
  }
  if (fractional) return fill_from_phases<T, double>(source, rows, block);
  fill_from_phases<T, std::int64_t>(source, rows, block);
}
