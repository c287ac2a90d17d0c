// SPDX-License-Identifier: Apache-2.0
// Checks of what callers hand in, before anything is made of it.
#include "job/check.hpp"

#include "job/overlap.hpp"

namespace phasor::job {
namespace {

/// Keeps every product of a stride, an extent and a size within int64.
constexpr std::int64_t kLargest = std::int64_t{1} << 56;

__extension__ typedef __int128 Wide;  // a product instead of a division: this runs for every token decoded

bool is_dtype(DType dtype) { return bytes_of(dtype) != 0; }

/// What nearly every view is, asked in one go: this runs several times for every token decoded, and a Status for each question costs more
/// than the question. Extents and strides below 2^28 make products that cannot leave 2^56.
bool is_usual(const ConstTensorView& v) {
  constexpr int kBits = 28;
  std::uint64_t unusual = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    unusual |= (static_cast<std::uint64_t>(v.shape[i]) - 1) >> kBits;  // 0 and what is negative have high bits, too
    unusual |= (static_cast<std::uint64_t>(v.strides[i]) + (std::uint64_t{1} << kBits)) >> (kBits + 1);
  }
  const auto misaligned = reinterpret_cast<std::uintptr_t>(v.data) & static_cast<std::uintptr_t>(bytes_of(v.dtype) - 1);
  return (unusual | misaligned) == 0 && v.data != nullptr && (v.strides[3] == 1 || v.shape[3] == 1) && is_dtype(v.dtype) &&
         v.device.kind <= DeviceKind::cuda;
}

Status check_shape(const char* where, const char* name, const ConstTensorView& v) {
  for (std::size_t i = 0; i < 4; ++i) {
    if (v.shape[i] < 0 || v.shape[i] > kLargest) return error(where, "{} has {} {}, wanted 0 to 2^56", name, kAxisNames[i], v.shape[i]);
  }
  return {};
}

/// No sum of strides times indices leaves 2^58 elements.
Status check_strides(const char* where, const char* name, const ConstTensorView& v) {
  if (v.shape[3] != 1 && v.strides[3] != 1) {
    return error(where, "{} has stride {} on its last axis, wanted 1 (contiguous)", name, v.strides[3]);
  }
  for (std::size_t i = 0; i < 3; ++i) {
    if (v.strides[i] < -kLargest || v.strides[i] > kLargest) {
      return error(where, "{} has stride {} on {}, wanted at most 2^56", name, v.strides[i], kAxisNames[i]);
    }
    const Wide reach = Wide{v.shape[i]} * v.strides[i];
    if (v.shape[i] > 1 && (reach > kLargest || reach < -kLargest)) {
      return error(where, "{} reaches beyond 2^56 elements: {} {} of stride {}", name, v.shape[i], kAxisNames[i], v.strides[i]);
    }
  }
  return {};
}

/// Heads there are, and each element once.
Status check_written(const char* where, const char* name, const ConstTensorView& out) {
  if (out.shape[2] == 0) return error(where, "{} has 0 heads, wanted at least 1", name);
  if (self_overlap(out) == Overlap::none) return {};
  return error(where, "{} is written to a view in which elements repeat (or cannot be shown not to), wanted each element once", name);
}

}  // namespace

std::string name_of(Device device) {
  if (device.kind == DeviceKind::cpu) return "cpu";
  return spec::format("{}:{}", device.kind == DeviceKind::cuda ? "cuda" : "unknown device", device.index);
}

Status check_device(const char* where, const char* name, Device is, Device wanted) {
  if (is == wanted) return {};
  return error(where, "{} on {}, wanted {}, where the call's first tensor is", name, name_of(is), name_of(wanted));
}

Status check_on_cpu(const char* where, const char* name, Device is) {
  if (is.kind == DeviceKind::cpu) return {};
  return Status::unsupported(spec::format("{}: {} is on {}, wanted cpu: this runs there alone", where, name, name_of(is)));
}

Status check_view(const char* where, const char* name, const ConstTensorView& v) {
  if (is_usual(v)) return {};
  if (!is_dtype(v.dtype)) {
    return error(where, "{} has an unknown dtype ({}), wanted f32, f64, f16 or bf16", name, static_cast<int>(v.dtype));
  }
  if (v.device.kind > DeviceKind::cuda) {
    return error(where, "{} is on an unknown kind of device ({}), wanted cpu or cuda", name, static_cast<int>(v.device.kind));
  }
  if (Status s = check_shape(where, name, v); !s) return s;
  if (is_empty(v)) return {};
  if (v.data == nullptr) {
    return error(where, "{} has null data and {} x {} x {} x {} elements, wanted memory", name, v.shape[0], v.shape[1], v.shape[2],
                 v.shape[3]);
  }
  if (reinterpret_cast<std::uintptr_t>(v.data) % static_cast<std::uintptr_t>(bytes_of(v.dtype)) != 0) {
    return error(where, "{} is not aligned to its elements of {} bytes", name, bytes_of(v.dtype));
  }
  return check_strides(where, name, v);
}

Status check_float(const char* where, const char* name, DType dtype) {
  if (dtype == DType::f32 || dtype == DType::f64) return {};
  return error(where, "{} is {}, wanted f32 or f64", name, name_of(dtype));
}

Status check_sum(const char* where, const TensorView& sum, const LearnedNumbers& numbers, Device device) {
  const auto [batch, tokens, heads, count] = sum.shape;
  if (batch != 1 || tokens != 1 || heads != 1) {
    return error(where, "sum has shape ({}, {}, {}, {}), wanted (1, 1, 1, {})", batch, tokens, heads, count, numbers.count);
  }
  if (count != numbers.count) {
    return error(where, "sum has {} entries, the {} has {} {}", count, numbers.owner, numbers.count, numbers.name);
  }
  if (sum.data == nullptr && count > 0) return error(where, "sum is null and has {} entries, wanted memory", count);
  if (Status s = check_view(where, "sum", sum); !s) return s;
  if (Status s = check_float(where, "sum", sum.dtype); !s) return s;
  return check_device(where, "sum is", sum.device, device);
}

Status check_in_out(const char* where, const char* name, const InOut& x) {
  if (Status s = check_view(where, name, x.in); !s) return s;
  const bool in_place = x.in.data == x.out.data && x.in.dtype == x.out.dtype && x.in.device == x.out.device && x.in.shape == x.out.shape &&
                        x.in.strides == x.out.strides;
  if (in_place) return check_written(where, name, x.out);
  if (Status s = check_view(where, name, x.out); !s) return s;
  if (x.in.dtype != x.out.dtype)
    return error(where, "{} is read as {} and written as {}, wanted one dtype", name, name_of(x.in.dtype), name_of(x.out.dtype));
  if (x.in.device != x.out.device) {
    return error(where, "{} is read on {} and written on {}, wanted one device", name, name_of(x.in.device), name_of(x.out.device));
  }
  if (x.in.shape != x.out.shape) return error(where, "{} is read and written with different shapes, wanted the same", name);
  if (Status s = check_written(where, name, x.out); !s) return s;
  const Overlap both = overlap(x.in, x.out);
  if (both == Overlap::partial || both == Overlap::undecided)
    return error(where, "{}'s output overlaps its input, wanted the same elements or none", name);
  return {};
}

Status check_positions(const char* where, const Positions& p, const PositionShape& wanted) {
  if (p.data == nullptr) {
    if (p.shape[2] == 0) return {};  // an offset
    return error(where, "positions have null data and {} tokens, wanted memory", p.shape[2]);
  }
  if (p.type != PositionType::i32 && p.type != PositionType::i64 && p.type != PositionType::f64) {
    return error(where, "positions have an unknown type ({}), wanted i32, i64 or f64", static_cast<int>(p.type));
  }
  if (p.shape[0] != 1 && p.shape[0] != wanted.axes) {
    return error(where, "positions have {} axes, the spec wants {}{}", p.shape[0], wanted.axes, wanted.axes == 1 ? "" : ", or 1 for all");
  }
  if (p.shape[1] != 1 && p.shape[1] != wanted.batch) {
    return error(where, "positions have batch {}, wanted 1 or {}", p.shape[1], wanted.batch);
  }
  if (p.shape[2] != wanted.tokens) return error(where, "positions have {} tokens, wanted {}", p.shape[2], wanted.tokens);
  if (Status s = check_device(where, "positions are", p.device, wanted.device); !s) return s;
  return check_view(where, "positions", view_of(p));
}

ConstTensorView view_of(const Positions& p) {
  return {p.data,
          p.type == PositionType::i32 ? DType::f32 : DType::f64,
          {p.shape[0], p.shape[1], p.shape[2], 1},
          {p.strides[0], p.strides[1], p.strides[2], 1},
          p.device};
}

}  // namespace phasor::job
