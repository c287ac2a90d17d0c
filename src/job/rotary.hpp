// SPDX-License-Identifier: Apache-2.0
// Rotary jobs: plain data in which every check has passed and every decision is taken. Nothing after this can fail on a CPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "job/plain.hpp"
#include "math/angle.hpp"
#include "math/phase/phase.hpp"
#include "phasor/rotary.hpp"
#include "plan/rotary.hpp"

namespace phasor::job {

inline constexpr std::int64_t kMaxAxes = 4;
/// Widest rotation that may read one pairing and write the other in place: a head is buffered on the stack.
inline constexpr std::int64_t kMaxWidthInPlaceAcrossPairings = 4096;

/// Where a row's positions come from. Strides in elements.
struct PositionSource {
  const void* data = nullptr;  // null: offset + token
  PositionType type = PositionType::i64;
  std::int64_t axes = 1;
  std::int64_t axis_stride = 0;
  std::int64_t batch_stride = 0;
  std::int64_t token_stride = 0;
  std::int64_t offset = 0;
};

/// What checked positions become; `axes` of them are read.
PositionSource source_of(const Positions& p, std::int64_t axes);

/// Given cos and sin. Strides in elements of `dtype`.
struct TableSource {
  const std::byte* cos = nullptr;
  const std::byte* sin = nullptr;
  DType dtype = DType::f32;
  std::int64_t cos_strides[2] = {0, 0};  // batch, token
  std::int64_t sin_strides[2] = {0, 0};
  std::int64_t cos_head_stride = 0;  // 0: one table for every head
  std::int64_t sin_head_stride = 0;
};

/// The numbers of a numerics profile (plan::Profile), one per pair: either the frequencies or the running product.
struct ProfileSource {
  std::int64_t count = 0;                      // of either; 0: no profile, exact
  std::int64_t first = 0;                      // where pair 0 has its number
  const float* frequencies = nullptr;          // host table
  const math::RunningPair* running = nullptr;  // host table
  float position_divisor = 1;
  float position_factor = 1;
};

/// What the cosines and sines of a row are made from.
struct RowSource {
  enum class Kind : std::uint8_t { phases, tables, differences };
  Kind kind = Kind::phases;
  /// The two lanes of a pair have values of their own (full-width tables): `second_lane` is the distance between them in the table,
  /// `pair_stride` that between pairs. With half-width tables second_lane is 0.
  std::int64_t pair_stride = 1;
  std::int64_t second_lane = 0;
  double sine_sign = 1;     // -1: inverse, transpose, clockwise
  bool swap_sines = false;  // transpose of lanes that differ: each lane takes its partner's sine
  bool shared = false;      // the same rows for every batch row
  // Phases
  const math::Step* steps = nullptr;           // host table, and so are axis_of_pair, turn_cos and turn_sin
  std::int64_t step_count = 0;                 // of each of these
  std::int64_t step_head_stride = 0;           // in steps; 0: one ladder for every head
  std::int64_t step_axis_stride = 0;           // in steps; not 0: a phase is the sum over the axes of position times step (directions)
  std::int64_t step_lane_stride = 0;           // in steps; not 0: lane 1 of each pair has steps of its own (per-channel frequencies)
  const std::uint8_t* axis_of_pair = nullptr;  // null: axis 0
  const double* turn_cos = nullptr;
  const double* turn_sin = nullptr;
  std::int64_t turning_pairs = 0;
  double amplitude = 1;
  PositionSource positions;
  // A numerics profile: the positions, the amplitude and the sign as above, angles as it says, values rounded to `value_dtype`.
  ProfileSource profile;
  DType value_dtype = DType::f32;
  // Tables
  TableSource tables;
  // Differences: the phases above less those of `from`. The amplitude is the quotient.
  const RowSource* from = nullptr;
  bool opposed = false;                        // the two turn in opposite senses: the sum of the phases instead
  bool same_ladder = false;                    // the two differ in their positions only
  const plan::DeviceCopies* copies = nullptr;  // where devices keep the host tables; null: there are none
};

/// One tensor of a rotation. Strides in bytes: batch, token, head.
struct Operand {
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  std::int64_t heads = 0;
  std::int64_t in_strides[3] = {0, 0, 0};
  std::int64_t out_strides[3] = {0, 0, 0};
};

struct RotateJob {
  Device device;
  RowSource rows;
  Operand operands[2];
  int operand_count = 0;
  DType dtype = DType::f32;
  std::int64_t batch = 0;
  std::int64_t tokens = 0;
  std::int64_t head_dim = 0;
  std::int64_t pairs = 0;
  std::int64_t offset = 0;    // first rotated channel
  std::int64_t segments = 1;  // equal parts of the width, each paired within itself; divides pairs
  Pairing read = Pairing::half;
  Pairing write = Pairing::half;
  bool turns_all = false;        // numerics profiles: a pair with cosine 1 and sine 0 is computed like any other
  bool rounds_products = false;  // numerics hf in a 16-bit dtype: each product is rounded to it, as eager PyTorch does
  // A paged cache: token t lies at slots[t], `page_size` to a step of the first stride; negative ones are skipped. Null: token t lies at t.
  const std::int64_t* slots = nullptr;
  std::int64_t page_size = 1;
};

/// cos_sin: rows written out, (B, T, heads, P), or R values per row where `tile` is not 0. Strides in elements.
struct RowsJob {
  Device device;
  RowSource rows;
  DType dtype = DType::f32;  // f32 or f64
  std::byte* cos = nullptr;
  std::byte* sin = nullptr;
  std::int64_t batch = 0;
  std::int64_t tokens = 0;
  std::int64_t pairs = 0;
  std::int64_t heads = 1;
  std::int64_t tile = 0;  // per-channel frequencies: pairs of a segment, whose values are written twice, one after the other
  std::int64_t cos_strides[3] = {0, 0, 0};  // batch, token, head
  std::int64_t sin_strides[3] = {0, 0, 0};
};

PHASOR_MEMBERS(PositionSource, data, type, axes, axis_stride, batch_stride, token_stride, offset)
PHASOR_MEMBERS(TableSource, cos, sin, dtype, cos_strides, sin_strides, cos_head_stride, sin_head_stride)
PHASOR_MEMBERS(ProfileSource, count, first, frequencies, running, position_divisor, position_factor)
PHASOR_MEMBERS(RowSource, kind, pair_stride, second_lane, sine_sign, swap_sines, shared, steps, step_count, step_head_stride,
               step_axis_stride, step_lane_stride, axis_of_pair, turn_cos, turn_sin, turning_pairs, amplitude, positions, profile,
               value_dtype, tables, from, opposed, same_ladder, copies)
PHASOR_MEMBERS(Operand, in, out, heads, in_strides, out_strides)
PHASOR_MEMBERS(RotateJob, device, rows, operands, operand_count, dtype, batch, tokens, head_dim, pairs, offset, segments, read, write,
               turns_all, rounds_products, slots, page_size)
PHASOR_MEMBERS(RowsJob, device, rows, dtype, cos, sin, batch, tokens, pairs, heads, tile, cos_strides, sin_strides)

/// Pairings, sense, numerics, width, offset and segments against tensors of so many channels.
Status check_layout(const char* where, const TableLayout& layout, std::int64_t head_dim);

/// The tensors of one call; k null for q alone. `where` begins every message.
struct RotateOperands {
  const char* where;
  const InOut* q;
  const InOut* k;
  // What rerotation says otherwise.
  const char* name = "q";                 // of q in messages
  const char* positions_where = nullptr;  // begins messages about positions; null: `where`
  bool rotated = false;                   // q has been rotated already: it is read in the pairing that is written
  std::int64_t paged_tokens = -1;         // tokens of a paged cache, whose shape does not tell; -1: not paged
};

Result<RotateJob> make_rotate_job(const RotateOperands& operands, const plan::RotaryPlan& plan, const Positions& positions,
                                  Direction direction);
Result<RotateJob> make_rotate_job(const RotateOperands& operands, const ConstTensorView& cos, const ConstTensorView& sin,
                                  const TableLayout& layout, Direction direction);
Result<RowsJob> make_rows_job(const plan::RotaryPlan& plan, const Positions& positions, const TensorView& cos, const TensorView& sin,
                              Direction direction);

}  // namespace phasor::job
