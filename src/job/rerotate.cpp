// SPDX-License-Identifier: Apache-2.0
// Every check of a rerotation: two rotations of the same channels, and the slots of a paged cache.
#include "job/rerotate.hpp"

#include <vector>

#include "job/check.hpp"
#include "job/overlap.hpp"
#include "math/phase/difference.hpp"
#include "spec/format.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor::job {
namespace {

constexpr const char* kWhere = "rerotate";
/// What a spec allows an amplitude to be, so that float32 holds it and its inverse.
constexpr double kLargestAmplitude = 0x1p64;

Pairing pairing_of_keys(const RotarySpec& spec) { return spec.output_pairing.value_or(spec.pairing); }

/// Whether a spec's rotations make a group, in which two are one.
Status check_composes(const char* name, const RotarySpec& spec) {
  if (spec.numerics != Numerics::exact) {
    return Status::unsupported(
        spec::format("{}: {} has a numerics profile, wanted exact: phases that were rounded have no exact difference", kWhere, name));
  }
  if (spec.lanes != Lanes::alike) {
    return Status::unsupported(spec::format(
        "{}: {} has per-channel frequencies, wanted lanes alike: their pairs do not rotate, so two turns are not one", kWhere, name));
  }
  if (std::holds_alternative<GivenDirections>(spec.scaling)) {
    return Status::unsupported(spec::format("{}: {} has given directions, wanted one frequency per pair", kWhere, name));
  }
  return {};
}

Status check_agree(const RotarySpec& from, const RotarySpec& to) {
  const auto differ = [](const char* what, std::int64_t a, std::int64_t b) {
    return error(kWhere, "from has {} {} and to has {}, wanted the same", what, a, b);
  };
  if (from.head_dim != to.head_dim) return differ("head_dim", from.head_dim, to.head_dim);
  if (from.rotary_width != to.rotary_width) return differ("rotary_width", from.rotary_width, to.rotary_width);
  if (from.rotary_offset != to.rotary_offset) return differ("rotary_offset", from.rotary_offset, to.rotary_offset);
  if (from.segments != to.segments) return differ("segments", from.segments, to.segments);
  if (pairing_of_keys(from) != pairing_of_keys(to)) {
    return error(kWhere, "from and to write keys in different pairings, wanted the same (output_pairing, else pairing)");
  }
  return {};
}

/// Slots that rise are each once; others are marked off.
Status check_no_slot_twice(std::span<const std::int64_t> slots, std::int64_t count) {
  std::int64_t last = -1;
  bool rising = true;
  for (const std::int64_t slot : slots) {
    if (slot < 0) continue;
    rising &= slot > last;
    last = slot;
  }
  if (rising) return {};
  std::vector<bool> taken(static_cast<std::size_t>(count));
  for (std::size_t t = 0; t < slots.size(); ++t) {
    if (slots[t] < 0) continue;
    if (taken[static_cast<std::size_t>(slots[t])]) return error(kWhere, "slots[{}] is {} once more, wanted each slot once", t, slots[t]);
    taken[static_cast<std::size_t>(slots[t])] = true;
  }
  return {};
}

/// `cache` has passed the checks of a tensor: its elements are all there, so the number of its slots is no more than its bytes.
Status check_slots(const Slots& given, const TensorView& cache) {
  if (given.size < 0) return error(kWhere, "slots have {} tokens, wanted 0 or above", given.size);
  if (given.data == nullptr && given.size > 0) return error(kWhere, "slots have null data and {} tokens, wanted memory", given.size);
  if (Status s = check_device(kWhere, "slots are", given.device, cache.device); !s) return s;
  if (given.device.kind != DeviceKind::cpu) return {};  // their values are the caller's word
  const std::span<const std::int64_t> slots(given.data, static_cast<std::size_t>(given.size));
  const std::int64_t count = is_empty(cache) ? 0 : cache.shape[0] * cache.shape[1];
  for (std::size_t t = 0; t < slots.size(); ++t) {
    if (slots[t] >= count) {
      return error(kWhere, "slots[{}] is {}, the cache has {} ({} blocks of {} slots)", t, slots[t], count, cache.shape[0], cache.shape[1]);
    }
  }
  const Extents shape = {1, 1, static_cast<std::int64_t>(slots.size()), 1};
  if (overlap(cache, ConstTensorView(slots.data(), DType::f64, shape, contiguous_strides(shape))) != Overlap::none) {
    return error(kWhere, "slots overlap the cache, wanted memory apart");
  }
  return spec::without_exceptions([&] { return check_no_slot_twice(slots, count); });
}

std::int64_t axis_of(const RowSource& rows, std::int64_t pair) { return rows.axis_of_pair == nullptr ? 0 : rows.axis_of_pair[pair]; }

/// Whether the two sources differ in their positions only: then the difference of the phases is the phase of a difference.
bool same_ladder(const RowSource& a, const RowSource& b, std::int64_t pairs) {
  if (a.positions.axes != b.positions.axes) return false;
  for (std::int64_t i = 0; i < pairs; ++i) {
    if (!math::same_step(a.steps[i], b.steps[i]) || axis_of(a, i) != axis_of(b, i)) return false;
  }
  return true;
}

/// The quotient of the amplitudes, the nearest float64: 1 exactly when they are the same, so that a shift is a pure rotation.
Result<double> quotient_of(const RotationSide& from, const RotationSide& to, Direction direction) {
  const double quotient =
      direction == Direction::inverse ? from.plan.amplitude / to.plan.amplitude : to.plan.amplitude / from.plan.amplitude;
  if (quotient >= 1 / kLargestAmplitude && quotient <= kLargestAmplitude) return quotient;
  return error(kWhere, "the amplitude changes from {} to {}, wanted a quotient of 2^-64 to 2^64", from.plan.amplitude, to.plan.amplitude);
}

void fill_differences(const RotationSide& from, const RotationSide& to, RerotateJob& job) {
  RowSource& rows = job.rotate.rows;
  rows.kind = RowSource::Kind::differences;
  rows.opposed = from.plan.spec.sense != to.plan.spec.sense;
  rows.same_ladder = !rows.opposed && same_ladder(job.from, rows, job.rotate.pairs);
  rows.shared = rows.shared && job.from.shared;
}

void page(const RerotateOperands& operands, RotateJob& job) {
  job.slots = operands.slots->data;
  job.page_size = operands.keys.out.shape[1];
  job.batch = 1;
  job.tokens = operands.slots->size;
}

}  // namespace

Result<RerotateJob> make_rerotate_job(const RerotateOperands& operands, const RotationSide& from, const RotationSide& to,
                                      Direction direction) {
  if (Status s = check_composes("from", from.plan.spec); !s) return s;
  if (Status s = check_composes("to", to.plan.spec); !s) return s;
  if (Status s = check_agree(from.plan.spec, to.plan.spec); !s) return s;
  const Result<double> quotient = quotient_of(from, to, direction);
  if (!quotient.ok()) return quotient.status();
  RotateOperands keys = {kWhere, &operands.keys, nullptr, operands.slots == nullptr ? "keys" : "cache"};
  keys.rotated = true;
  if (operands.slots != nullptr) keys.paged_tokens = operands.slots->size;
  keys.positions_where = "rerotate: from";
  const Result<RotateJob> before = make_rotate_job(keys, from.plan, from.positions, direction);
  if (!before.ok()) return before.status();
  keys.positions_where = "rerotate: to";
  const Result<RotateJob> after = make_rotate_job(keys, to.plan, to.positions, direction);
  if (!after.ok()) return after.status();
  Result<RerotateJob> job(std::in_place);
  job->device = after->device;
  job->rotate = *after;
  job->from = before->rows;
  job->rotate.rows.amplitude = *quotient;
  fill_differences(from, to, *job);
  if (operands.slots != nullptr) {
    if (Status s = check_slots(*operands.slots, operands.keys.out); !s) return s;
    page(operands, job->rotate);
  }
  return job;
}

}  // namespace phasor::job
