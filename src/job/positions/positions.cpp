// SPDX-License-Identifier: Apache-2.0
// Checks of what positions are built from and written to, and the sink that writes them.
#include "job/positions/positions.hpp"

#include <cmath>
#include <limits>
#include <string>

#include "job/overlap.hpp"
#include "spec/format.hpp"

namespace phasor::job {
namespace {

constexpr std::int64_t kLargestInteger = std::int64_t{1} << 53;  // that float64 counts to

bool is_type(PositionType type) { return type == PositionType::i32 || type == PositionType::i64 || type == PositionType::f64; }

const char* name_of(PositionType type) { return type == PositionType::i32 ? "i32" : type == PositionType::i64 ? "i64" : "f64"; }

/// As a tensor of elements of the same size. The axes come where heads are, since check_view names batch and tokens.
ConstTensorView tensor_of(const Positions& p) {
  return {p.data,
          p.type == PositionType::i32 ? DType::f32 : DType::f64,
          {p.shape[1], p.shape[2], p.shape[0], 1},
          {p.strides[1], p.strides[2], p.strides[0], 1},
          p.device};
}

Status check_memory(const char* where, const char* name, const Positions& p) {
  if (!is_type(p.type)) return error(where, "{} has an unknown type ({}), wanted i32, i64 or f64", name, static_cast<int>(p.type));
  if (p.shape[0] < 1) return error(where, "{} has {} axes, wanted at least 1", name, p.shape[0]);
  return check_view(where, name, tensor_of(p));
}

/// A contiguous list as a tensor of at least its bytes.
ConstTensorView tensor_of(const Integers& list) {
  const DType dtype = list.bytes == 8 ? DType::f64 : list.bytes == 4 ? DType::f32 : DType::f16;
  const std::int64_t n = list.bytes == 1 ? (list.size + 1) / 2 : list.size;
  return {list.data, dtype, {1, 1, 1, n}, {n, n, n, 1}, list.device};
}

bool fits(PositionType type, std::int64_t value) {
  if (type == PositionType::i32)
    return value >= std::numeric_limits<std::int32_t>::min() && value <= std::numeric_limits<std::int32_t>::max();
  return type == PositionType::i64 || (value >= -kLargestInteger && value <= kLargestInteger);
}

/// 0 first, rising, the tokens last.
Status check_ends(const char* where, const Integers& cu, std::int64_t tokens) {
  if (at(cu, 0) != 0) return error(where, "cu_seqlens begins with {}, wanted 0", at(cu, 0));
  for (std::int64_t s = 1; s < cu.size; ++s) {
    if (at(cu, s) < at(cu, s - 1)) return error(where, "cu_seqlens[{}] is {} after {}, wanted it to rise", s, at(cu, s), at(cu, s - 1));
  }
  if (at(cu, cu.size - 1) != tokens) return error(where, "cu_seqlens ends with {}, wanted {} tokens", at(cu, cu.size - 1), tokens);
  return {};
}

}  // namespace

Status check_written_positions(const char* where, const PositionsView& out) {
  if (Status s = check_memory(where, "out", out); !s) return s;
  if (self_overlap(tensor_of(out)) != Overlap::none) {
    return error(where, "out has strides ({}, {}, {}) that write an element twice, wanted every element once", out.strides[0],
                 out.strides[1], out.strides[2]);
  }
  return {};
}

Status check_output(const char* where, const PositionsView& out) {
  if (out.device.kind != DeviceKind::cpu)
    return error(where, "out is on {}, wanted cpu: positions are built there", job::name_of(out.device));
  return check_written_positions(where, out);
}

Status check_extents(const char* where, const PositionsView& out, std::int64_t batch, std::int64_t tokens) {
  if (batch != 0 && out.shape[1] != batch) return error(where, "out has batch {}, wanted {}", out.shape[1], batch);
  if (out.shape[2] != tokens) return error(where, "out has {} tokens, wanted {}", out.shape[2], tokens);
  return {};
}

Status check_list(const char* where, const char* name, const Integers& list, const PositionsView& out) {
  if (list.size < 0 || list.size > std::int64_t{1} << 56) return error(where, "{} has {} elements, wanted 0 to 2^56", name, list.size);
  if (list.bytes != 1 && list.bytes != 4 && list.bytes != 8) {
    return error(where, "{} has elements of {} bytes, wanted 1, 4 or 8", name, list.bytes);
  }
  if (list.size == 0) return {};
  if (list.data == nullptr) return error(where, "{} is null and has {} elements, wanted memory", name, list.size);
  if (reinterpret_cast<std::uintptr_t>(list.data) % static_cast<std::uintptr_t>(list.bytes) != 0) {
    return error(where, "{} is not aligned to its elements of {} bytes", name, list.bytes);
  }
  if (Status s = check_device(where, (std::string(name) + " is").c_str(), list.device, out.device); !s) return s;
  if (overlap(tensor_of(list), tensor_of(out)) != Overlap::none) return error(where, "{} lies in out, wanted it apart", name);
  return {};
}

Status check_list_of(const char* where, const char* name, const Integers& list, const PositionsView& out, std::int64_t wanted) {
  if (Status s = check_list(where, name, list, out); !s) return s;
  if (list.size != wanted) return error(where, "{} has {} elements, wanted {}", name, list.size, wanted);
  return {};
}

Status check_source(const char* where, const Positions& source, const PositionsView& out) {
  if (source.data == nullptr) {
    return source.shape[2] == 0 ? Status() : error(where, "at has null data and {} tokens, wanted memory", source.shape[2]);
  }
  if (Status s = check_memory(where, "at", source); !s) return s;
  if (Status s = check_device(where, "at is", source.device, out.device); !s) return s;
  if (source.type == PositionType::f64) return error(where, "at holds f64, wanted integers");
  if (source.shape[0] != 1) return error(where, "at has {} axes, wanted 1", source.shape[0]);
  if (source.shape[1] != 1 && source.shape[1] != out.shape[1])
    return error(where, "at has batch {}, wanted {}", source.shape[1], out.shape[1]);
  if (source.shape[2] != out.shape[2]) return error(where, "at has {} tokens, out has {}", source.shape[2], out.shape[2]);
  const Overlap shared = overlap(tensor_of(source), tensor_of(out));
  if (shared != Overlap::none && shared != Overlap::exact) return error(where, "at overlaps out, wanted it apart or the same");
  return {};
}

Status check_ragged(const char* where, const Ragged& ragged, const PositionsView& out, std::int64_t tokens) {
  const Integers& cu = ragged.cu_seqlens;
  if (Status s = check_list(where, "cu_seqlens", cu, out); !s) return s;
  if (cu.size < 1) return error(where, "cu_seqlens is empty, wanted a 0 and the end of each sequence");
  if (out.device.kind == DeviceKind::cpu) {
    if (Status s = check_ends(where, cu, tokens); !s) return s;
  }
  if (ragged.offsets.size == 0) return {};
  return check_list_of(where, "offsets", ragged.offsets, out, cu.size - 1);
}

void PositionSink::put_axis(const Place& place, std::int64_t base, std::int64_t n) {
  std::int64_t value = 0;
  if (__builtin_add_overflow(base, n, &value) || !fits(out_.type, value)) {
    if (!refused_.any) refused_ = {.any = true, .place = place, .base = base, .n = n};
  } else if (writing_) {
    write(place, value);
  }
}

void PositionSink::put_fraction(const Place& place, double value) {
  if (out_.type == PositionType::f64) {
    if (writing_) static_cast<double*>(out_.data)[index(place)] = value;
  } else if (!(std::fabs(value) < 0x1p63) || value != std::floor(value)) {
    if (!refused_.any) refused_ = {.any = true, .place = place, .fraction = value};
  } else {
    put_axis(place, static_cast<std::int64_t>(value));
  }
}

void PositionSink::write(const Place& place, std::int64_t value) const {
  const std::int64_t i = index(place);
  if (out_.type == PositionType::i64) {
    static_cast<std::int64_t*>(out_.data)[i] = value;
  } else if (out_.type == PositionType::i32) {
    static_cast<std::int32_t*>(out_.data)[i] = static_cast<std::int32_t>(value);
  } else {
    static_cast<double*>(out_.data)[i] = static_cast<double>(value);
  }
}

Status PositionSink::begin_writing(const char* where) {
  writing_ = true;
  if (!refused_.any) return {};
  std::int64_t sum = 0;
  const bool beyond = __builtin_add_overflow(refused_.base, refused_.n, &sum);
  const std::string is = refused_.fraction != 0 ? spec::format("{}, a fraction", refused_.fraction)
                         : beyond               ? spec::format("{} + {}", refused_.base, refused_.n)
                                                : spec::format("{}", sum);
  return error(where, "token {} of batch row {} is at {}, wanted what {} holds", refused_.place.t, refused_.place.b, is,
               name_of(out_.type));
}

}  // namespace phasor::job
