// SPDX-License-Identifier: Apache-2.0
// Every check of an additive call, once, and the plain data that comes out of it.
#include "job/additive.hpp"

#include <cmath>

#include "job/check.hpp"
#include "job/overlap.hpp"

namespace phasor::job {
namespace {

/// What a call writes to, and what messages call it.
struct Written {
  const char* where;
  const char* name;
  const InOut& x;
};

Status check_call(const Written& written, const plan::SinusoidalPlan& plan, const Positions& positions, double amplitude) {
  const auto& [where, name, x] = written;
  if (Status s = check_add_target(where, name, x, plan.spec.width); !s) return s;
  const auto axes = static_cast<std::int64_t>(plan.parts.size());
  if (Status s = check_positions(where, positions, {x.out.shape[0], x.out.shape[1], axes, x.out.device}); !s) return s;
  if (positions.data != nullptr && overlap(x.out, view_of(positions)) != Overlap::none) {
    return error(where, "positions overlap {}, wanted memory apart", name);
  }
  if (!spec::is_amplitude(amplitude)) return error(where, "amplitude is {}, wanted 2^-64 to 2^64 (or below 0)", amplitude);
  return {};
}

AddJob job_of(const plan::SinusoidalPlan& plan, const InOut& x, bool reads, const Positions& positions, double amplitude) {
  AddJob job;
  const AddTarget target = target_of(x, reads);
  job.device = x.out.device;
  job.target = target;
  job.rows.steps = plan.steps.data();
  job.rows.step_count = static_cast<std::int64_t>(plan.steps.size());
  job.rows.turn_cos = plan.turn_cos.data();
  job.rows.turn_sin = plan.turn_sin.data();
  job.rows.turning_pairs = plan.turning_pairs;
  job.rows.copies = &plan.copies;
  job.rows.amplitude = std::fabs(amplitude);
  job.rows.positions = source_of(positions, 1);
  job.rows.shared = positions.data == nullptr || job.rows.positions.batch_stride == 0;
  job.parts = plan.parts.data();
  job.part_count = static_cast<std::int64_t>(plan.parts.size());
  job.order = plan.spec.order;
  job.negative = amplitude < 0;
  job.has_zero = plan.spec.zero_position.has_value();
  job.zero_position = plan.spec.zero_position.value_or(0);
  job.batch = target.batch;
  job.tokens = target.tokens;
  return job;
}

}  // namespace

Status check_add_target(const char* where, const char* name, const InOut& x, std::int64_t width) {
  if (Status s = check_in_out(where, name, x); !s) return s;
  if (x.out.shape[2] != 1) return error(where, "{} has {} heads, wanted 1", name, x.out.shape[2]);
  if (x.out.shape[3] != width) return error(where, "{} has {} channels, the encoding has {}", name, x.out.shape[3], width);
  return {};
}

Status check_gradient(const plan::SinusoidalPlan& plan, const ConstTensorView& gradient, const Positions& positions) {
  const char* where = "amplitude_gradient";
  if (Status s = check_view(where, "gradient", gradient); !s) return s;
  if (gradient.shape[2] != 1) return error(where, "gradient has {} heads, wanted 1", gradient.shape[2]);
  if (gradient.shape[3] != plan.spec.width) {
    return error(where, "gradient has {} channels, the encoding has {}", gradient.shape[3], plan.spec.width);
  }
  return check_positions(where, positions,
                         {gradient.shape[0], gradient.shape[1], static_cast<std::int64_t>(plan.parts.size()), gradient.device});
}

Positions batch_row(const Positions& positions, std::int64_t batch) {
  if (positions.data == nullptr || positions.shape[1] == 1) return positions;
  Positions row = positions;
  const std::int64_t bytes = positions.type == PositionType::i32 ? 4 : 8;
  row.data = static_cast<const std::byte*>(positions.data) + batch * positions.strides[1] * bytes;
  row.shape[1] = 1;
  return row;
}

AddTarget target_of(const InOut& x, bool reads) {
  AddTarget target;
  target.dtype = x.out.dtype;
  target.batch = x.out.shape[0];
  target.tokens = x.out.shape[1];
  target.width = x.out.shape[3];
  if (is_empty(x.out)) return target;  // it may have any strides
  target.out = static_cast<std::byte*>(x.out.data);
  if (reads) target.in = static_cast<const std::byte*>(x.in.data);
  for (int i = 0; i < 2; ++i) {
    target.in_strides[i] = x.in.strides[i] * bytes_of(x.in.dtype);
    target.out_strides[i] = x.out.strides[i] * bytes_of(x.out.dtype);
  }
  return target;
}

Result<AddJob> make_fill_job(const plan::SinusoidalPlan& plan, const TensorView& out, const Positions& positions, double amplitude) {
  if (Status s = check_call({"fill_sinusoidal", "out", out}, plan, positions, amplitude); !s) return s;
  return job_of(plan, out, false, positions, amplitude);
}

Result<AddJob> make_add_job(const plan::SinusoidalPlan& plan, const InOut& x, const Positions& positions, double amplitude) {
  if (Status s = check_call({"add_sinusoidal", "x", x}, plan, positions, amplitude); !s) return s;
  return job_of(plan, x, true, positions, amplitude);
}

}  // namespace phasor::job
