// SPDX-License-Identifier: Apache-2.0
// Every check of the gradients of learned rotations.
#include "job/phase_gradient.hpp"

#include "job/check.hpp"
#include "job/overlap.hpp"
#include "job/positions/positions.hpp"

namespace phasor::job {
namespace {

Status check_sources(const char* where, const ConstTensorView& rotated, const ConstTensorView& gradient) {
  if (Status s = check_view(where, "rotated", rotated); !s) return s;
  if (Status s = check_view(where, "gradient", gradient); !s) return s;
  if (rotated.dtype != gradient.dtype) {
    return error(where, "rotated is {} and gradient is {}, wanted one dtype", name_of(rotated.dtype), name_of(gradient.dtype));
  }
  if (Status s = check_device(where, "gradient is", gradient.device, rotated.device); !s) return s;
  for (std::size_t i = 0; i < 4; ++i) {
    if (rotated.shape[i] != gradient.shape[i]) {
      return error(where, "rotated has {} {} and gradient has {}, wanted the same", kAxisNames[i], rotated.shape[i], gradient.shape[i]);
    }
  }
  if (rotated.shape[2] == 0) return error(where, "rotated has 0 heads, wanted at least 1");
  return {};
}

/// (B, T, H or 1, pairs) of its own memory.
Status check_out(const char* where, const TensorView& out, const ConstTensorView& rotated, const ConstTensorView& gradient,
                 std::int64_t pairs) {
  if (Status s = check_view(where, "out", out); !s) return s;
  if (Status s = check_float(where, "out", out.dtype); !s) return s;
  if (Status s = check_device(where, "out is", out.device, rotated.device); !s) return s;
  for (std::size_t i : {0U, 1U}) {
    if (out.shape[i] != rotated.shape[i]) {
      return error(where, "out has {} {} and rotated has {}, wanted the same", kAxisNames[i], out.shape[i], rotated.shape[i]);
    }
  }
  if (out.shape[2] != 1 && out.shape[2] != rotated.shape[2]) {
    return error(where, "out has {} heads, wanted 1{}", out.shape[2],
                 rotated.shape[2] == 1 ? std::string() : spec::format(" or {}", rotated.shape[2]));
  }
  if (out.shape[3] != pairs) return error(where, "out has width {}, wanted {} (one value per pair)", out.shape[3], pairs);
  if (self_overlap(out) != Overlap::none) return error(where, "out is a view in which elements repeat, wanted each element once");
  if (overlap(out, rotated) != Overlap::none) return error(where, "out overlaps rotated, wanted memory apart");
  if (overlap(out, gradient) != Overlap::none) return error(where, "out overlaps gradient, wanted memory apart");
  return {};
}

/// A phase gradient that is read, against the spec whose phases it is by.
Status check_phase_gradient(const char* where, const plan::RotaryPlan& plan, const ConstTensorView& gradient) {
  if (plan.spec.lanes == Lanes::per_channel_frequencies) {
    return Status::unsupported(
        spec::format("{}: lanes are per_channel_frequencies, the two of a pair have no angle in common, wanted alike", where));
  }
  if (Status s = check_view(where, "phase_gradient", gradient); !s) return s;
  if (Status s = check_float(where, "phase_gradient", gradient.dtype); !s) return s;
  const std::int64_t pairs = plan.spec.rotary_width / 2;
  if (gradient.shape[3] != pairs) return error(where, "phase_gradient has width {}, the spec has {} pairs", gradient.shape[3], pairs);
  if (plan.heads != 1 && gradient.shape[2] != plan.heads) {
    return error(where, "phase_gradient has {} heads, wanted {}: each turns by its own", gradient.shape[2], plan.heads);
  }
  if (gradient.shape[2] == 0) return error(where, "phase_gradient has 0 heads, wanted at least 1");
  return {};
}

LadderSource ladder_of(const plan::RotaryPlan& plan) {
  return {.frequencies = plan.frequencies.data(),
          .count = static_cast<std::int64_t>(plan.frequencies.size()),
          .axis_of_pair = plan.axis_of_pair.empty() ? nullptr : plan.axis_of_pair.data(),
          .axes = plan.axes,
          .heads = plan.heads,
          .copies = &plan.copies};
}

}  // namespace

Result<PhaseGradientJob> make_phase_gradient_job(const TensorView& out, const ConstTensorView& rotated, const ConstTensorView& gradient,
                                                 const TableLayout& layout, Accumulate accumulate) {
  const char* where = "phase_gradient";
  if (accumulate != Accumulate::replace && accumulate != Accumulate::add) {
    return error(where, "accumulate is {}, wanted replace or add", static_cast<int>(accumulate));
  }
  if (Status s = check_sources(where, rotated, gradient); !s) return s;
  if (Status s = check_layout(where, layout, rotated.shape[3]); !s) return s;
  const std::int64_t width = layout.rotary_width == 0 ? rotated.shape[3] : layout.rotary_width;
  if (Status s = check_out(where, out, rotated, gradient, width / 2); !s) return s;
  PhaseGradientJob job{.device = out.device, .out = out, .rotated = rotated, .gradient = gradient};
  job.offset = layout.rotary_offset;
  job.pairs = width / 2;
  job.interleaved = layout.output_pairing.value_or(layout.pairing) == Pairing::interleaved;
  job.segment_pairs = job.interleaved ? job.pairs : job.pairs / layout.segments;  // neighbours are neighbours in any part
  job.clockwise = layout.sense == Sense::clockwise;
  job.add = accumulate == Accumulate::add;
  job.batch = rotated.shape[0];
  job.tokens = rotated.shape[1];
  return job;
}

Result<FrequencyGradientJob> make_frequency_gradient_job(const TensorView& sum, const plan::RotaryPlan& plan,
                                                         const ConstTensorView& phase_gradient, const Positions& positions) {
  const char* where = "frequency_gradient";
  if (Status s = check_phase_gradient(where, plan, phase_gradient); !s) return s;
  const std::int64_t batch = phase_gradient.shape[0];
  const std::int64_t tokens = phase_gradient.shape[1];
  if (Status s = check_positions(where, positions, {batch, tokens, plan.axes, phase_gradient.device}); !s) return s;
  const LadderSource ladder = ladder_of(plan);
  if (Status s = check_sum(where, sum, {"spec", "frequencies", ladder.count}, phase_gradient.device); !s) return s;
  if (overlap(sum, phase_gradient) != Overlap::none) {
    return error(where, "sum overlaps phase_gradient, wanted memory apart");
  }
  if (positions.data != nullptr && overlap(sum, view_of(positions)) != Overlap::none) {
    return error(where, "positions overlap sum, wanted memory apart");
  }
  return FrequencyGradientJob{.device = phase_gradient.device,
                              .sum = sum,
                              .gradient = phase_gradient,
                              .positions = source_of(positions, plan.axes),
                              .ladder = ladder};
}

Result<PositionGradientJob> make_position_gradient_job(const PositionsView& out, const plan::RotaryPlan& plan,
                                                       const ConstTensorView& phase_gradient) {
  const char* where = "position_gradient";
  if (Status s = check_phase_gradient(where, plan, phase_gradient); !s) return s;
  if (Status s = check_written_positions(where, out); !s) return s;
  if (Status s = check_device(where, "out is", out.device, phase_gradient.device); !s) return s;
  if (out.type != PositionType::f64) return error(where, "out is {}, wanted f64", out.type == PositionType::i32 ? "i32" : "i64");
  if (out.shape[0] != 1 && out.shape[0] != plan.axes) {
    return error(where, "out has {} axes, the spec has {}{}", out.shape[0], plan.axes, plan.axes == 1 ? "" : ", wanted as many or 1");
  }
  const Extents& shape = phase_gradient.shape;
  if (out.shape[1] != 1 && out.shape[1] != shape[0]) return error(where, "out has batch {}, wanted 1 or {}", out.shape[1], shape[0]);
  if (out.shape[2] != shape[1]) return error(where, "out has {} tokens, wanted {}", out.shape[2], shape[1]);
  if (overlap(view_of(Positions(out)), phase_gradient) != Overlap::none) {
    return error(where, "out overlaps phase_gradient, wanted memory apart");
  }
  PositionGradientJob job{.device = phase_gradient.device, .out = out, .gradient = phase_gradient, .ladder = ladder_of(plan)};
  job.batch = out.shape[1];
  job.tokens = out.shape[2];
  return job;
}

}  // namespace phasor::job
