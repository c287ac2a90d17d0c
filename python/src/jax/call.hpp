// SPDX-License-Identifier: Apache-2.0
// A call of XLA as handlers see it: operands with the axes that jax.vmap put before their own, attributes, and where it runs.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "jax/threads.hpp"
#include "jax/xla_ffi.hpp"
#include "phasor/execution.hpp"
#include "phasor/position_builders.hpp"
#include "phasor/positions.hpp"
#include "phasor/tensor_view.hpp"

namespace phasor::python::jax {

/// A buffer of a call, contiguous. jax.vmap (vmap_method="expand_dims") puts axes before its own: of the mapped extent, or 1 where it is
/// shared.
class Operand {
 public:
  Operand() = default;
  Operand(const xla::Buffer& buffer, std::int64_t own_axes, Device device);

  std::span<const std::int64_t> mapped() const { return {buffer_->dims, static_cast<std::size_t>(buffer_->rank - own_)}; }
  std::int64_t own(std::int64_t axis) const { return buffer_->dims[buffer_->rank - own_ + axis]; }
  std::int64_t own_axes() const { return own_; }
  std::int64_t own_elements() const;
  xla::DataType dtype() const { return buffer_->dtype; }
  Device device() const { return device_; }
  std::byte* data() const { return static_cast<std::byte*>(buffer_->data); }

 private:
  const xla::Buffer* buffer_ = nullptr;
  std::int64_t own_ = 0;
  Device device_{};
};

std::int64_t bytes_of(xla::DataType dtype);

/// The operands of a call by what their first own axis may be when the mapped axes are folded into it: `whole` have every mapped axis and
/// as many rows each; `shareable` the same, or no mapped axis and one row; `single` have no mapped axis and one row.
struct Folding {
  std::span<const Operand> whole = {};
  std::span<const Operand> shareable = {};
  std::span<const Operand> single = {};
};

/// The calls that one call under jax.vmap stands for. Folded, the mapped axes and the first own axis, the batch, are one: a single call.
class Calls {
 public:
  /// `like`: an operand with every mapped axis in full, such as a result.
  explicit Calls(const Operand& like);
  /// Folds where it can be done without a copy.
  void fold(const Folding& operands);

  std::int64_t count() const { return folded_ ? 1 : total_; }
  /// Where an operand begins in a call.
  std::byte* at(const Operand& operand, std::int64_t call) const;
  /// Rows of an operand's first own axis.
  std::int64_t rows(const Operand& operand) const;

  TensorView tensor(const Operand& operand, std::int64_t call) const;    // (B, T, H, D)
  Positions positions(const Operand& operand, std::int64_t call) const;  // (B, axes, T)
  Integers integers(const Operand& operand, std::int64_t call) const;    // (n)

 private:
  std::vector<std::int64_t> extents_;
  std::int64_t total_ = 1;
  bool folded_ = false;
};

/// One call.
class Call {
 public:
  Call(const xla::CallFrame& frame, DeviceKind kind);

  std::int64_t arguments() const { return frame_.arguments.size; }
  std::int64_t results() const { return frame_.results.size; }
  Operand argument(std::int64_t number, std::int64_t own_axes) const;
  Operand result(std::int64_t number, std::int64_t own_axes) const;
  std::string_view text(std::string_view name) const;
  std::int64_t number(std::string_view name) const;
  bool on_gpu() const { return device_.kind == DeviceKind::cuda; }

  /// For work on so many elements; valid until the next one is made.
  Execution execution(std::int64_t elements);
  /// Memory on the call's device, until it is freed or the call ends; empty where there is none.
  std::span<std::byte> block(std::int64_t bytes);
  void free_blocks();

  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() { free_blocks(); }

 private:
  const void* attribute(std::string_view name, xla::AttributeType type) const;

  const xla::CallFrame& frame_;
  Device device_{};
  void* stream_ = nullptr;
  std::optional<XlaThreads> threads_;
  std::vector<std::span<std::byte>> blocks_;
};

}  // namespace phasor::python::jax
