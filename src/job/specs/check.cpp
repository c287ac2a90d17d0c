// SPDX-License-Identifier: Apache-2.0
// Checks of several specs in one call.
#include "job/specs/check.hpp"

#include <limits>

#include "job/rotation.hpp"
#include "plan/rotary.hpp"

namespace phasor::job {
namespace {

/// What the rows of specs are applied to is one.
Status check_agree(const char* where, const plan::RotaryPlan& first, const plan::RotaryPlan& other) {
  const RotarySpec& a = first.spec;
  const RotarySpec& b = other.spec;
  const bool agree = a.head_dim == b.head_dim && a.rotary_width == b.rotary_width && a.rotary_offset == b.rotary_offset &&
                     a.segments == b.segments && a.pairing == b.pairing && a.output_pairing == b.output_pairing && a.lanes == b.lanes &&
                     a.numerics == b.numerics && a.sense == b.sense;
  if (!agree) return error(where, "rotaries differ in more than base, scaling and axes, wanted one geometry, pairing, sense and numerics");
  if (first.heads != other.heads) return error(where, "rotaries have directions of different heads, wanted the same");
  return {};
}

}  // namespace

Status check_list(const char* where, const char* name, const IntegerList& list, Device device) {
  if (list.size < 0) return error(where, "{} has {} entries, wanted 0 or more", name, list.size);
  if (list.data == nullptr)
    return list.size == 0 ? Status() : error(where, "{} is null and has {} entries, wanted memory", name, list.size);
  if (list.type != PositionType::i32 && list.type != PositionType::i64) {
    return error(where, "{} has an unknown type ({}), wanted int32 or int64", name, static_cast<int>(list.type));
  }
  const std::uintptr_t size = list.type == PositionType::i32 ? 4 : 8;
  if (reinterpret_cast<std::uintptr_t>(list.data) % size != 0)
    return error(where, "{} is not aligned to its elements of {} bytes", name, size);
  return check_device(where, name, list.device, device);
}

StridedBytes bytes_of_list(const IntegerList& list) {
  StridedBytes bytes{list.data, list.type == PositionType::i32 ? 4 : 8};
  bytes.add(list.size, bytes.size);
  return bytes;
}

Status fill_specs(const SpecsCall& call, std::span<RowSource> rows, SpecList& list) {
  if (Status s = check_list(call.where, "spec_of", call.spec_of, call.shape.device); !s) return s;
  if (call.rotaries.size() < 2 && call.spec_of.data == nullptr) return {};
  const std::int64_t batch = call.shape.batch;
  const std::int64_t tokens = call.shape.tokens;
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const std::int64_t all = batch > 0 && tokens > kMost / batch ? kMost : batch * tokens;  // of tensors without heads it might wrap
  if (call.spec_of.size != batch && call.spec_of.size != all) {
    return error(call.where, "spec_of has {} entries, wanted {} (one per batch row) or {} (one per token)", call.spec_of.size, batch, all);
  }
  for (std::size_t i = 0; i < call.rotaries.size(); ++i) {
    const plan::RotaryPlan& plan = call.rotaries[i].plan();
    if (Status s = check_agree(call.where, call.rotaries[0].plan(), plan); !s) return s;
    const Result<RotateJob> one = make_rotation(call.where, plan, call.positions, call.shape, call.dtype, call.direction);
    if (!one.ok()) return one.status();
    rows[i] = one->rows;
  }
  list.rows = rows.data();
  list.count = static_cast<std::int64_t>(call.rotaries.size());
  list.spec_of = source_of(call.spec_of);
  const bool by_batch = call.spec_of.size == batch;
  list.strides[0] = by_batch ? 1 : tokens;
  list.strides[1] = by_batch ? 0 : 1;
  return {};
}

Status check_spec_of(const char* where, const SpecList& list) {
  for (std::int64_t i = 0; i < list.spec_of.size; ++i) {
    const std::int64_t spec = integer_at(list.spec_of, i);
    if (spec < 0 || spec >= list.count) return error(where, "spec_of[{}] is {}, wanted 0 to {}", i, spec, list.count - 1);
  }
  return {};
}

}  // namespace phasor::job
