// SPDX-License-Identifier: Apache-2.0
// Every check of a rotary call, once, and the plain data that comes out of it.
#include "job/rotary.hpp"

#include "job/check.hpp"
#include "job/overlap.hpp"
#include "job/rotation.hpp"
#include "job/tables/given.hpp"
#include "spec/format.hpp"

namespace phasor::job {
namespace {

/// q and k against each other.
Status check_pair(const char* where, const InOut& q, const InOut& k) {
  if (q.in.dtype != k.in.dtype) return error(where, "q is {} and k is {}, wanted one dtype", name_of(q.in.dtype), name_of(k.in.dtype));
  if (Status s = check_device(where, "k is", k.in.device, q.in.device); !s) return s;
  for (int i : {0, 1, 3}) {
    if (q.in.shape[i] != k.in.shape[i])
      return error(where, "q has {} {} and k has {}, wanted the same", kAxisNames[i], q.in.shape[i], k.in.shape[i]);
  }
  if (overlap(q.out, k.out) != Overlap::none) return error(where, "q and k share an element, wanted tensors apart");
  if (overlap(q.out, k.in) != Overlap::none) return error(where, "q's output overlaps k's input, wanted tensors apart");
  if (overlap(k.out, q.in) != Overlap::none) return error(where, "k's output overlaps q's input, wanted tensors apart");
  return {};
}

Status check_operands(const RotateOperands& operands, std::int64_t head_dim) {
  if (Status s = check_in_out(operands.where, operands.name, *operands.q); !s) return s;
  if (operands.q->in.shape[3] != head_dim)
    return error(operands.where, "{} has head_dim {}, the spec wants {}", operands.name, operands.q->in.shape[3], head_dim);
  if (operands.k == nullptr) return {};
  if (Status s = check_in_out(operands.where, "k", *operands.k); !s) return s;
  if (operands.k->in.shape[3] != head_dim)
    return error(operands.where, "k has head_dim {}, the spec wants {}", operands.k->in.shape[3], head_dim);
  return check_pair(operands.where, *operands.q, *operands.k);
}

/// What is read while outputs are written must lie elsewhere.
Status check_apart(const RotateOperands& operands, const char* name, const ConstTensorView& source) {
  for (const auto& [operand, x] : {std::pair<const char*, const InOut*>{operands.name, operands.q}, {"k", operands.k}}) {
    if (x != nullptr && overlap(x->out, source) != Overlap::none) {
      return error(operands.where, "{} overlap {}'s output, wanted memory apart", name, operand);
    }
  }
  return {};
}

/// Whether rows read more than one position of a token.
bool needs_axes(const RowSource& rows) { return rows.axis_of_pair != nullptr || rows.step_axis_stride != 0; }

ProfileSource profile_source(const plan::Profile& profile) {
  const bool runs = !profile.running.empty();
  return {.count = static_cast<std::int64_t>(runs ? profile.running.size() : profile.frequencies.size()),
          .frequencies = runs ? nullptr : profile.frequencies.data(),
          .running = runs ? profile.running.data() : nullptr,
          .position_divisor = profile.position_divisor,
          .position_factor = profile.position_factor};
}

/// The lists of a plan, or of its per-channel frequencies.
template <class Lists>
void fill_lists_of(const Lists& lists, RowSource& rows) {
  rows.steps = lists.steps.data();
  rows.step_count = static_cast<std::int64_t>(lists.steps.size());
  rows.turn_cos = lists.turn_cos.data();
  rows.turn_sin = lists.turn_sin.data();
  if (lists.profile) rows.profile = profile_source(*lists.profile);
}

/// Several axes, heads with ladders of their own, per-channel frequencies.
void fill_axes_of(const plan::RotaryPlan& plan, const Positions& positions, Direction direction, RowSource& rows) {
  const std::int64_t pairs = plan.spec.rotary_width / 2;
  const bool per_channel = plan.spec.lanes == Lanes::per_channel_frequencies;
  if (per_channel) {
    fill_lists_of(plan.per_channel, rows);
    rows.turning_pairs = pairs;
    rows.step_lane_stride = pairs;
    rows.swap_sines = direction != Direction::forward;
  }
  if (plan.axes > 1 && plan.axis_of_pair.empty()) rows.step_axis_stride = plan.heads * pairs;
  if (plan.heads > 1) rows.step_head_stride = pairs;
  // Axes that share their positions are one axis, and as fast.
  const bool apart = positions.data != nullptr && positions.shape[0] > 1;
  if (apart && !plan.axis_of_pair.empty())
    rows.axis_of_pair = per_channel ? plan.per_channel.axis_of_pair.data() : plan.axis_of_pair.data();
}

void fill_rows_of(const plan::RotaryPlan& plan, const Positions& positions, Direction direction, RowSource& rows) {
  rows.kind = RowSource::Kind::phases;
  rows.sine_sign = (plan.spec.sense == Sense::clockwise) != (direction != Direction::forward) ? -1 : 1;
  fill_lists_of(plan, rows);
  rows.copies = &plan.copies;
  rows.turning_pairs = plan.turning_pairs;
  rows.amplitude = direction == Direction::inverse ? plan.inverse_amplitude : plan.amplitude;
  if (plan.profile) {
    rows.amplitude = direction == Direction::inverse ? plan.profile->inverse_amplitude : plan.profile->amplitude;
  }
  if (plan.axes > 1 || plan.heads > 1 || plan.spec.lanes == Lanes::per_channel_frequencies) fill_axes_of(plan, positions, direction, rows);
  rows.positions = source_of(positions, plan.axes > 1 && needs_axes(rows) ? plan.axes : 1);
  rows.shared = rows.positions.data == nullptr || rows.positions.batch_stride == 0;
}

/// An empty tensor may have any strides: none are taken from it.
Operand operand_of(const InOut& x) {
  if (is_empty(x.in)) return {};
  Operand operand{static_cast<const std::byte*>(x.in.data), static_cast<std::byte*>(x.out.data), x.in.shape[2], {}, {}};
  for (int i = 0; i < 3; ++i) {
    operand.in_strides[i] = x.in.strides[i] * bytes_of(x.in.dtype);
    operand.out_strides[i] = x.out.strides[i] * bytes_of(x.out.dtype);
  }
  return operand;
}

Geometry geometry_of(const RotarySpec& spec) {
  return {spec.rotary_width, spec.rotary_offset, spec.segments, spec.pairing, spec.output_pairing.value_or(spec.pairing)};
}

/// All of a job but its rows and what follows from them.
Status fill_job(const RotateOperands& operands, const Geometry& g, Direction direction, RotateJob& job) {
  const ConstTensorView& q = operands.q->in;
  job.operands[job.operand_count++] = operand_of(*operands.q);
  if (operands.k != nullptr) job.operands[job.operand_count++] = operand_of(*operands.k);
  job.device = q.device;
  job.dtype = q.dtype;
  job.batch = q.shape[0];
  job.tokens = q.shape[1];
  job.head_dim = q.shape[3];
  fill_geometry(g, direction, job);
  for (int i = 0; i < job.operand_count; ++i) {
    const bool in_place = job.operands[i].in == job.operands[i].out && !is_empty(q);
    if (job.read != job.write && in_place && g.width > kMaxWidthInPlaceAcrossPairings) {
      return Status::unsupported(spec::format("{}: rotary_width is {}, in place from one pairing to the other at most {} is supported",
                                              operands.where, g.width, kMaxWidthInPlaceAcrossPairings));
    }
  }
  return {};
}

/// The dtype in which a profile keeps its tables for tensors of `dtype`.
DType table_dtype(Numerics numerics, DType dtype) {
  const bool as_tensor = numerics == Numerics::hf || numerics == Numerics::vllm;
  return as_tensor && is_16_bit(dtype) ? dtype : DType::f32;
}

/// Heads with ladders or tables of their own, against the tensors'.
Status check_heads(const RotateOperands& operands, std::int64_t heads) {
  for (const auto& [name, x] : {std::pair<const char*, const InOut*>{"q", operands.q}, {"k", operands.k}}) {
    if (x != nullptr && heads != 1 && x->in.shape[2] != heads) {
      return error(operands.where, "{} has {} heads, wanted {}: each turns by its own", name, x->in.shape[2], heads);
    }
  }
  return {};
}

/// Per-channel frequencies turn the two channels of a pair by different angles: undone only where those are not a quarter turn apart.
Status check_inverse(const char* where, const plan::RotaryPlan& plan, Direction direction) {
  if (plan.spec.lanes != Lanes::per_channel_frequencies || direction != Direction::inverse) return {};
  return error(where, "direction is inverse and lanes are per_channel_frequencies, wanted forward or transpose");
}

Status check_direction(const char* where, Direction direction) {
  if (direction == Direction::forward || direction == Direction::inverse || direction == Direction::transpose) return {};
  return error(where, "direction is {}, wanted forward, inverse or transpose", static_cast<int>(direction));
}

/// cos and sin to be filled: (B, T, heads, R/2), or R values per row of per-channel frequencies.
Status check_rows(const char* where, const plan::RotaryPlan& plan, const TensorView& cos, const TensorView& sin) {
  const std::int64_t width = plan.spec.rotary_width / (plan.spec.lanes == Lanes::per_channel_frequencies ? 1 : 2);
  for (const auto& [name, table] : {std::pair<const char*, const TensorView&>{"cos", cos}, {"sin", sin}}) {
    if (Status s = check_view(where, name, table); !s) return s;
    if (table.dtype != DType::f32 && table.dtype != DType::f64)
      return error(where, "{} is {}, wanted f32 or f64", name, name_of(table.dtype));
    if (table.shape[2] != plan.heads) return error(where, "{} has {} heads, wanted {}", name, table.shape[2], plan.heads);
    if (table.shape[3] != width) return error(where, "{} has width {}, wanted {}", name, table.shape[3], width);
    if (self_overlap(table) != Overlap::none) return error(where, "{} is a view in which elements repeat, wanted each element once", name);
  }
  if (cos.dtype != sin.dtype || cos.shape != sin.shape) return error(where, "cos and sin differ in dtype or shape, wanted the same");
  if (Status s = check_device(where, "sin is", sin.device, cos.device); !s) return s;
  if (overlap(cos, sin) != Overlap::none) return error(where, "cos and sin share an element, wanted tensors apart");
  return {};
}

/// Rows of per-channel frequencies are the segments' ladders, each written twice: no lane is made by itself.
void tile_rows(const plan::RotaryPlan& plan, RowsJob& job) {
  job.tile = job.pairs / plan.spec.segments;
  fill_lists_of(plan, job.rows);
  job.rows.turning_pairs = plan.turning_pairs;
  job.rows.step_lane_stride = 0;
  if (job.rows.axis_of_pair != nullptr) job.rows.axis_of_pair = plan.axis_of_pair.data();
}

}  // namespace

PositionSource source_of(const Positions& p, std::int64_t axes) {
  return {.data = p.data,
          .type = p.type,
          .axes = axes,
          .axis_stride = p.shape[0] == 1 ? 0 : p.strides[0],
          .batch_stride = p.shape[1] == 1 ? 0 : p.strides[1],
          .token_stride = p.strides[2],
          .offset = p.offset};
}

Result<RotateJob> make_rotation(const char* where, const plan::RotaryPlan& plan, const Positions& positions, const PositionShape& shape,
                                DType dtype, Direction direction) {
  if (Status s = check_inverse(where, plan, direction); !s) return s;
  if (Status s = check_positions(where, positions, {shape.batch, shape.tokens, plan.axes, shape.device}); !s) return s;
  Result<RotateJob> job(std::in_place);
  job->device = shape.device;
  job->dtype = dtype;
  job->batch = shape.batch;
  job->tokens = shape.tokens;
  job->head_dim = plan.spec.head_dim;
  fill_geometry(geometry_of(plan.spec), direction, *job);
  fill_rows_of(plan, positions, direction, job->rows);
  job->rows.value_dtype = table_dtype(plan.spec.numerics, dtype);
  fill_numerics(plan.spec.numerics, job->rows.value_dtype, *job);
  return job;
}

Result<RotateJob> make_rotate_job(const RotateOperands& operands, const plan::RotaryPlan& plan, const Positions& positions,
                                  Direction direction) {
  if (Status s = check_direction(operands.where, direction); !s) return s;
  if (Status s = check_inverse(operands.where, plan, direction); !s) return s;
  if (Status s = check_operands(operands, plan.spec.head_dim); !s) return s;
  if (Status s = check_heads(operands, plan.heads); !s) return s;
  const ConstTensorView& q = operands.q->in;
  const bool paged = operands.paged_tokens >= 0;
  const char* where = operands.positions_where != nullptr ? operands.positions_where : operands.where;
  const PositionShape wanted = {paged ? 1 : q.shape[0], paged ? operands.paged_tokens : q.shape[1], plan.axes, q.device};
  if (Status s = check_positions(where, positions, wanted); !s) return s;
  if (positions.data != nullptr) {
    if (Status s = check_apart(operands, "positions", view_of(positions)); !s) return s;
  }
  const RotarySpec& spec = plan.spec;
  Result<RotateJob> job(std::in_place);  // filled in place: a job is large, and decoding makes one for every token
  Geometry geometry = geometry_of(spec);
  if (operands.rotated) geometry.pairing = geometry.output_pairing;
  if (Status s = fill_job(operands, geometry, direction, *job); !s) return s;
  fill_rows_of(plan, positions, direction, job->rows);
  job->rows.value_dtype = table_dtype(spec.numerics, q.dtype);
  fill_numerics(spec.numerics, job->rows.value_dtype, *job);
  return job;
}

Result<RotateJob> make_rotate_job(const RotateOperands& operands, const ConstTensorView& cos, const ConstTensorView& sin,
                                  const TableLayout& layout, Direction direction) {
  const std::int64_t head_dim = operands.q->in.shape[3];
  if (Status s = check_direction(operands.where, direction); !s) return s;
  if (Status s = check_operands(operands, head_dim); !s) return s;
  if (Status s = check_layout(operands.where, layout, head_dim); !s) return s;
  if (Status s = check_tables(operands.where, {cos, sin, layout}, {operands.name, operands.q->in}, head_dim); !s) return s;
  if (Status s = check_heads(operands, cos.shape[2]); !s) return s;
  if (Status s = check_apart(operands, "tables (cos)", cos); !s) return s;
  if (Status s = check_apart(operands, "tables (sin)", sin); !s) return s;
  Result<RotateJob> job(std::in_place);
  if (Status s = fill_job(operands, geometry_of(layout, head_dim), direction, *job); !s) return s;
  fill_tables({cos, sin, layout}, head_dim, direction, *job);
  return job;
}

Result<RowsJob> make_rows_job(const plan::RotaryPlan& plan, const Positions& positions, const TensorView& cos, const TensorView& sin,
                              Direction direction) {
  const char* where = "cos_sin";
  if (Status s = check_direction(where, direction); !s) return s;
  if (Status s = check_inverse(where, plan, direction); !s) return s;
  if (Status s = check_rows(where, plan, cos, sin); !s) return s;
  if (Status s = check_positions(where, positions, {cos.shape[0], cos.shape[1], plan.axes, cos.device}); !s) return s;
  for (const TensorView* table : {&cos, &sin}) {
    if (positions.data != nullptr && overlap(*table, view_of(positions)) != Overlap::none) {
      return error(where, "positions overlap an output, wanted memory apart");
    }
  }
  RowsJob job;
  job.device = cos.device;
  fill_rows_of(plan, positions, direction, job.rows);
  if (plan.spec.sense == Sense::clockwise)
    job.rows.sine_sign = -job.rows.sine_sign;  // the table is of the angle; its user applies the sense
  job.dtype = cos.dtype;
  job.cos = static_cast<std::byte*>(cos.data);
  job.sin = static_cast<std::byte*>(sin.data);
  job.batch = cos.shape[0];
  job.tokens = cos.shape[1];
  job.heads = plan.heads;
  job.pairs = plan.spec.rotary_width / 2;
  if (plan.spec.lanes == Lanes::per_channel_frequencies) tile_rows(plan, job);
  for (int i = 0; i < 3; ++i) {
    job.cos_strides[i] = cos.strides[i];
    job.sin_strides[i] = sin.strides[i];
  }
  return job;
}

}  // namespace phasor::job
