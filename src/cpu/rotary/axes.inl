// SPDX-License-Identifier: Apache-2.0
// Rows of positions of several axes: runs in which each axis advances or rests, and pairs that turn along directions.

/// The positions of a row on every axis.
template <class Position>
RowPosition<Position> row_position(const job::RowSource& source, std::int64_t batch, std::int64_t token) {
  RowPosition<Position> at = {{}, source.axis_of_pair};
  for (std::int64_t a = 0; a < source.positions.axes; ++a) at.by_axis[a] = position_at<Position>(source.positions, a, batch, token);
  return at;
}

#if PHASOR_LANES

/// Rows of a block from `row` on, through which each axis goes from position to position or stays where it is.
struct AxisRun {
  const RowPosition<std::int64_t>* positions;  // of the block's rows
  std::int64_t row;
  std::int64_t count;
  bool advances[job::kMaxAxes];

  const RowPosition<std::int64_t>& at(std::int64_t r) const { return positions[row + r]; }
};

/// What a run's seed and recurrence need of some pairs, each by its own axis. A resting pair turns by nothing, exactly.
HWY_INLINE Turning<DoubleVec> seed(const job::RowSource& source, std::int64_t pair, const AxisRun& run) {
  constexpr std::size_t kLanes = hn::MaxLanes(DoubleTag());
  const DoubleTag d;
  const hn::RebindToUnsigned<DoubleTag> du;
  alignas(64) u64 high[kLanes];
  alignas(64) u64 low[kLanes];
  alignas(64) double turn_cos[kLanes];
  alignas(64) double turn_sin[kLanes];
  const RowPosition<std::int64_t>& at = run.at(0);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) {
    const std::int64_t p = pair + static_cast<std::int64_t>(i);
    const math::Phase128 phase = math::phase128_of(source.steps[p], at.of(p));
    const bool turns = run.advances[at.axis(p)];
    high[i] = phase.high;
    low[i] = phase.low;
    turn_cos[i] = turns ? source.turn_cos[p] : 1;
    turn_sin[i] = turns ? source.turn_sin[p] * source.sine_sign : 0;
  }
  const auto r = sincos_lanes<Long>(d, hn::Load(du, high), hn::Load(du, low), 0.0);
  return {hn::Mul(r.cos, hn::Set(d, source.amplitude)), hn::Mul(r.sin, hn::Set(d, source.amplitude * source.sine_sign)),
          hn::Load(d, turn_cos), hn::Load(d, turn_sin)};
}

/// Whether an axis goes from one row to the next as it should: by 1 where it advances, not at all where it rests.
inline bool follows(std::int64_t from, std::int64_t to, bool advances) {
  if (!advances) return from == to;
  return to > from && static_cast<std::uint64_t>(to) - static_cast<std::uint64_t>(from) == 1;
}

/// The longest run from `row` on; of one row where there is none. An axis at 0 has sines of 0, which no recurrence proves.
inline AxisRun axis_run(const job::RowSource& source, const RowPosition<std::int64_t>* positions, std::int64_t row, std::int64_t rows) {
  AxisRun run = {positions, row, 1, {}};
  if (row + 1 == rows) return run;
  const std::int64_t axes = source.positions.axes;
  for (std::int64_t a = 0; a < axes; ++a) {
    const std::int64_t first = positions[row].by_axis[a];
    run.advances[a] = positions[row + 1].by_axis[a] != first;
    if (first == 0) return run;
  }
  const auto goes_on = [&](std::int64_t next) {
    for (std::int64_t a = 0; a < axes; ++a) {
      if (!follows(positions[next - 1].by_axis[a], positions[next].by_axis[a], run.advances[a])) return false;
    }
    return true;
  };
  while (row + run.count < rows && goes_on(row + run.count)) ++run.count;
  return run;
}

#endif  // PHASOR_LANES

/// Rows in which every pair turns by the position on its own axis.
template <class T, class Position>
void fill_by_axis(const job::RowSource& source, const RowPosition<Position>* positions, std::int64_t rows, const RowBlock<T>& block) {
  for (std::int64_t r = 0; r < rows;) {
#if PHASOR_LANES
    if constexpr (std::is_same_v<T, float> && std::is_same_v<Position, std::int64_t>) {
      const AxisRun run = axis_run(source, positions, r, rows);
      if (run.count >= kShortestRun) {
        fill_run(source, block, run);
        r += run.count;
        continue;
      }
    }
#endif
    fill_row(source, positions[r], block, r);
    ++r;
  }
}

inline math::Steps steps_of(const job::RowSource& source, std::int64_t pair) {
  return {source.steps + pair, source.step_axis_stride, static_cast<int>(source.positions.axes)};
}

/// One row of up to kPhaseChunk pairs along directions.
template <class Position>
void fill_direction_chunk(const job::RowSource& source, const RowPosition<Position>& at, const RowBlock<float>& block) {
  std::int64_t done = 0;
#if PHASOR_LANES
  PhaseChunk phases;
  phases.tiny = 0;
  for (std::int64_t i = 0; i < block.count; ++i) {
    const math::BoundedPhase128 p = math::phase128_of(steps_of(source, block.first + i), at.by_axis);
    phases.high[i] = p.phase.high;
    phases.low[i] = p.phase.low;
    phases.tiny = p.tiny;  // of the positions alone: the same for every pair
  }
  done = fill_proven(source, phases, block);
#endif
  for (std::int64_t i = done; i < block.count; ++i) {
    math::sincos(steps_of(source, block.first + i), at.by_axis, source.amplitude, block.cos[i], block.sin[i]);
    block.sin[i] *= static_cast<float>(source.sine_sign);
  }
}

/// Whether every axis has a phase.
template <class Position>
bool has_phases(const job::RowSource& source, const RowPosition<Position>& at) {
  if constexpr (std::is_same_v<Position, double>) {
    for (std::int64_t a = 0; a < source.positions.axes; ++a) {
      if (!math::is_position(at.by_axis[a])) return false;
    }
  }
  return true;
}

/// One row in which every pair turns along its direction.
template <class T, class Position>
void fill_along_directions(const job::RowSource& source, const RowPosition<Position>& at, const RowBlock<T>& row) {
  if (!has_phases(source, at)) {
    std::fill_n(row.cos, row.count, std::numeric_limits<T>::quiet_NaN());
    std::fill_n(row.sin, row.count, std::numeric_limits<T>::quiet_NaN());
    return;
  }
  const std::int64_t turning = at_origin(source, at) ? 0 : std::clamp(source.turning_pairs - row.first, std::int64_t{0}, row.count);
  if constexpr (std::is_same_v<T, float>) {
    for (std::int64_t i = 0; i < turning; i += kPhaseChunk)
      fill_direction_chunk(source, at, row.part(0, i, std::min(kPhaseChunk, turning - i)));
  } else {
    for (std::int64_t i = 0; i < turning; ++i) {
      math::sincos(steps_of(source, row.first + i), at.by_axis, source.amplitude, row.cos[i], row.sin[i]);
      row.sin[i] *= source.sine_sign;
    }
  }
  fill_unturned(source, row.count - turning, row.cos + turning, row.sin + turning);
}

template <class T, class Position>
void fill_from_axes(const job::RowSource& source, const RowRange& rows, const RowBlock<T>& block) {
  RowPosition<Position> positions[kMaxBlockRows];
  for (std::int64_t r = 0; r < rows.count; ++r) positions[r] = row_position<Position>(source, rows.batch, rows.token + r);
  if (source.step_axis_stride == 0) return fill_by_axis(source, positions, rows.count, block);
  for (std::int64_t r = 0; r < rows.count; ++r) fill_along_directions(source, positions[r], block.part(r, 0, block.count));
}

/// Rows of per-channel frequencies, a value for each channel: each segment's ladder twice. Their transpose takes the sine of the other
/// lane.
template <class T>
void write_per_channel_rows(const job::RowsJob& job, const RowRange& rows, const RowBlock<T>& block) {
  for (std::int64_t first = 0; first < job.pairs; first += job.tile) {
    fill_rows(job.rows, rows, RowBlock<T>{first, job.tile, block.cos + 2 * first, block.sin + 2 * first, block.stride});
  }
  for (std::int64_t r = 0; r < rows.count; ++r) {
    T* cos = block.cos + r * block.stride;
    T* sin = block.sin + r * block.stride;
    for (std::int64_t first = 0; first < 2 * job.pairs; first += 2 * job.tile) {
      std::copy_n(cos + first, job.tile, cos + first + job.tile);
      std::copy_n(sin + first, job.tile, sin + first + job.tile);
    }
    if (!job.rows.swap_sines) continue;
    for (std::int64_t i = 0; i < job.pairs; ++i) std::swap(sin[2 * i], sin[2 * i + 1]);
  }
}
