// SPDX-License-Identifier: Apache-2.0
// Checks of views and positions, shared by the jobs of every family. Messages begin with `where` and name the argument.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "job/views.hpp"
#include "phasor/positions.hpp"
#include "phasor/result.hpp"
#include "phasor/tensor_view.hpp"
#include "spec/format.hpp"

namespace phasor::job {

inline constexpr const char* kAxisNames[] = {"batch", "tokens", "heads", "head_dim"};

/// "where: what is, what is wanted".
template <class... Args>
Status error(const char* where, fmt::format_string<Args...> format, Args&&... args) {
  return Status::invalid(spec::format("{}: {}", where, spec::format(format, std::forward<Args>(args)...)));
}

/// "cuda:1" or "cpu".
std::string name_of(Device device);

/// Where the memory of a call must be: where its first tensor is.
Status check_device(const char* where, const char* name, Device is, Device wanted);

/// Numbers that are computed in float64: gradients.
Status check_float(const char* where, const char* name, DType dtype);

/// Numbers that learn: whose they are and what they are called, for messages.
struct LearnedNumbers {
  const char* owner;
  const char* name;
  std::int64_t count;
};
/// Where their gradient goes, which messages call `sum`: (1, 1, 1, count), f32 or f64, on the device of the call.
Status check_sum(const char* where, const TensorView& sum, const LearnedNumbers& numbers, Device device);

/// For what has no backend of its own.
Status check_on_cpu(const char* where, const char* name, Device is);

/// Strides and extents whose reach fits the address space, a dtype and a device that exist, memory where there must be some.
Status check_view(const char* where, const char* name, const ConstTensorView& v);

/// One tensor that is read and written: alike, no element written twice, the same elements or none.
Status check_in_out(const char* where, const char* name, const InOut& x);

/// What positions are for.
struct PositionShape {
  std::int64_t batch;
  std::int64_t tokens;
  std::int64_t axes = 1;
  Device device{};  // of the tensors
};
Status check_positions(const char* where, const Positions& p, const PositionShape& wanted);

}  // namespace phasor::job
