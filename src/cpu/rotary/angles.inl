// SPDX-License-Identifier: Apache-2.0
// Rows of a numerics profile: float32 angles as a peer forms them (math/angle.hpp), their nearest cosines and sines, times the amplitude,
// rounded as its tables are. Every step is rounded by definition, so there is no recurrence here.

/// The angles of one row, asked for in the order of the pairs.
template <class Position>
class AngleRow {
 public:
  AngleRow(const job::RowSource& source, const RowPosition<Position>& at) : source_(source), profile_(source.profile) {
    for (std::int64_t a = 0; a < source.positions.axes; ++a) {
      position_[a] = math::ready_position(static_cast<float>(at.by_axis[a]), profile_.position_divisor, profile_.position_factor);
    }
  }

  void fill(std::int64_t first, std::int64_t count, float* angles) {
    for (std::int64_t i = 0; i < count; ++i) angles[i] = profile_.running == nullptr ? product(first + i) : running(first + i);
  }

 private:
  /// The running product of one axis: `value` is the position times `ratio`, `rung` times over.
  struct Theta {
    float value;
    float ratio;
    std::int64_t rung;
  };

  std::int64_t axis_of(std::int64_t pair) const { return source_.axis_of_pair == nullptr ? 0 : source_.axis_of_pair[pair]; }

  float product(std::int64_t pair) const { return position_[axis_of(pair)] * profile_.frequencies[profile_.first + pair]; }

  /// A ladder that begins anew (axes that share their positions, per-channel frequencies) begins its product anew.
  float running(std::int64_t pair) {
    const math::RunningPair& p = profile_.running[profile_.first + pair];
    const std::int64_t axis = axis_of(pair);
    Theta& theta = theta_[axis];
    if (theta.ratio != p.ratio || theta.rung > p.rung) theta = {position_[axis], p.ratio, 0};  // the ladder begins (again)
    for (; theta.rung < p.rung; ++theta.rung) theta.value *= p.ratio;
    return math::ggml_angle(theta.value, p.angle);
  }

  const job::RowSource& source_;
  const job::ProfileSource& profile_;
  float position_[job::kMaxAxes] = {};
  Theta theta_[job::kMaxAxes] = {};  // a ratio of 0: not begun
};

/// Nearest cos and sin of up to kPhaseChunk angles.
struct AngleChunk {
  alignas(64) float angle[kPhaseChunk];
  alignas(64) float cos[kPhaseChunk];
  alignas(64) float sin[kPhaseChunk];
};

#if PHASOR_LANES

/// The phases of a chunk; small angles, and those that have none, get a harmless one. Returns whether there are such.
inline bool fill_phases_of_angles(const float* angle, std::int64_t count, PhaseChunk& phases) {
  bool special = false;
  float largest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const bool plain = !math::is_small_angle(angle[i]) && math::is_angle(angle[i]);
    const math::Phase128 p = plain ? math::phase128_of_angle(angle[i]) : math::Phase128{u64{1} << 60, 0};
    phases.high[i] = p.high;
    phases.low[i] = p.low;
    special |= !plain;
    if (plain) largest = std::max(largest, std::abs(angle[i]));
  }
  phases.tiny = math::tiny_bound_of_angle(largest);
  return special;
}

#endif  // PHASOR_LANES

inline void fill_angle_chunk(AngleChunk& chunk, std::int64_t count) {
  std::int64_t done = 0;
#if PHASOR_LANES
  PhaseChunk phases;
  const bool special = fill_phases_of_angles(chunk.angle, count, phases);
  job::RowSource plain;  // amplitude 1, sign 1
  done = fill_proven(plain, phases, RowBlock<float>{0, count, chunk.cos, chunk.sin, 0});
  for (std::int64_t i = 0; special && i < done; ++i) {
    if (math::is_small_angle(chunk.angle[i]) || !math::is_angle(chunk.angle[i])) {
      math::sincos_of_angle(chunk.angle[i], chunk.cos[i], chunk.sin[i]);
    }
  }
#endif
  for (std::int64_t i = done; i < count; ++i) math::sincos_of_angle(chunk.angle[i], chunk.cos[i], chunk.sin[i]);
}

/// Times the amplitude in float32, rounded to the table's dtype, times a sign.
template <DType dtype>
void finish_values(float* values, std::int64_t count, float amplitude, float sign) {
  const RoundProduct<dtype> round;
  std::int64_t i = 0;
#if PHASOR_LANES
  const hn::ScalableTag<float> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (; i + lanes <= count; i += lanes) {
    const auto value = round(hn::Mul(hn::LoadU(d, values + i), hn::Set(d, amplitude)));
    hn::StoreU(hn::Mul(value, hn::Set(d, sign)), d, values + i);
  }
#endif
  for (; i < count; ++i) values[i] = sign * round(values[i] * amplitude);
}

inline void finish_values(const job::RowSource& source, float* values, std::int64_t count, float sign) {
  const auto amplitude = static_cast<float>(source.amplitude);
  if (source.value_dtype == DType::bf16) return finish_values<DType::bf16>(values, count, amplitude, sign);
  if (source.value_dtype == DType::f16) return finish_values<DType::f16>(values, count, amplitude, sign);
  finish_values<DType::f32>(values, count, amplitude, sign);
}

template <class T, class Position>
void fill_from_angles(const job::RowSource& source, const RowRange& rows, const RowBlock<T>& block) {
  AngleChunk chunk;
  for (std::int64_t r = 0; r < rows.count; ++r) {
    RowPosition<Position> at = {{}, source.axis_of_pair};
    for (std::int64_t a = 0; a < source.positions.axes; ++a) {
      at.by_axis[a] = position_at<Position>(source.positions, a, rows.batch, rows.token + r);
    }
    AngleRow<Position> angles(source, at);
    for (std::int64_t i = 0; i < block.count; i += kPhaseChunk) {
      const std::int64_t count = std::min(kPhaseChunk, block.count - i);
      angles.fill(block.first + i, count, chunk.angle);
      fill_angle_chunk(chunk, count);
      finish_values(source, chunk.cos, count, 1);
      finish_values(source, chunk.sin, count, static_cast<float>(source.sine_sign));
      std::copy_n(chunk.cos, count, block.cos + r * block.stride + i);
      std::copy_n(chunk.sin, count, block.sin + r * block.stride + i);
    }
  }
}
