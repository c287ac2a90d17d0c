// SPDX-License-Identifier: Apache-2.0
// A call of XLA, read.
#include "jax/call.hpp"

#include <algorithm>
#include <new>
#include <string>

#include "jax/failure.hpp"

namespace phasor::python::jax {

std::int64_t bytes_of(xla::DataType dtype) {
  switch (dtype) {
    case xla::DataType::pred:
    case xla::DataType::u8:
      return 1;
    case xla::DataType::f16:
    case xla::DataType::bf16:
      return 2;
    case xla::DataType::s32:
    case xla::DataType::u32:
    case xla::DataType::f32:
      return 4;
    case xla::DataType::s64:
    case xla::DataType::f64:
      return 8;
  }
  throw Failure(ErrorKind::invalid, "phasor.jax: an operand is of a dtype that it does not take");
}

namespace {

DType float_of(xla::DataType dtype) {
  switch (dtype) {
    case xla::DataType::f16:
      return DType::f16;
    case xla::DataType::bf16:
      return DType::bf16;
    case xla::DataType::f32:
      return DType::f32;
    case xla::DataType::f64:
      return DType::f64;
    default:
      throw Failure(ErrorKind::invalid, "phasor.jax: a tensor is not of float32, float64, float16 or bfloat16");
  }
}

PositionType position_of(xla::DataType dtype) {
  switch (dtype) {
    case xla::DataType::s32:
      return PositionType::i32;
    case xla::DataType::s64:
      return PositionType::i64;
    case xla::DataType::f64:
      return PositionType::f64;
    default:
      throw Failure(ErrorKind::invalid, "phasor.jax: positions are not of int32, int64 or float64");
  }
}

std::int64_t product(std::span<const std::int64_t> extents) {
  std::int64_t total = 1;
  for (const std::int64_t extent : extents) total *= extent;
  return total;
}

/// Whether no call has a block of its own.
bool shared(const Operand& operand) {
  return std::ranges::all_of(operand.mapped(), [](std::int64_t extent) { return extent == 1; });
}

}  // namespace

// ---- Operands ----

Operand::Operand(const xla::Buffer& buffer, std::int64_t own_axes, Device device) : buffer_(&buffer), own_(own_axes), device_(device) {
  demand(buffer.rank >= own_axes, "phasor.jax: an operand has fewer axes than wanted");
}

std::int64_t Operand::own_elements() const {
  std::int64_t total = 1;
  for (std::int64_t axis = 0; axis < own_; ++axis) total *= own(axis);
  return total;
}

// ---- Calls ----

Calls::Calls(const Operand& like) : extents_(like.mapped().begin(), like.mapped().end()), total_(product(extents_)) {}

void Calls::fold(const Folding& operands) {
  const std::int64_t batch = operands.whole.front().own(0);
  const auto whole = [&](const Operand& x) { return std::ranges::equal(x.mapped(), extents_) && x.own(0) == batch; };
  const auto single = [](const Operand& x) { return shared(x) && x.own(0) == 1; };
  folded_ = total_ > 1 && std::ranges::all_of(operands.whole, whole) &&
            std::ranges::all_of(operands.shareable, [&](const Operand& x) { return whole(x) || single(x); }) &&
            std::ranges::all_of(operands.single, single);
}

std::byte* Calls::at(const Operand& operand, std::int64_t call) const {
  if (folded_) return operand.data();
  const std::span<const std::int64_t> mapped = operand.mapped();
  std::int64_t block = 0;
  std::int64_t step = 1;
  for (std::size_t axis = extents_.size(); axis-- > 0;) {
    if (mapped[axis] > 1) block += call % extents_[axis] * step;
    step *= mapped[axis];
    call /= extents_[axis];
  }
  return operand.data() + block * operand.own_elements() * bytes_of(operand.dtype());
}

std::int64_t Calls::rows(const Operand& operand) const { return folded_ ? product(operand.mapped()) * operand.own(0) : operand.own(0); }

TensorView Calls::tensor(const Operand& operand, std::int64_t call) const {
  const Extents shape = {rows(operand), operand.own(1), operand.own(2), operand.own(3)};
  return {at(operand, call), float_of(operand.dtype()), shape, contiguous_strides(shape), operand.device()};
}

Positions Calls::positions(const Operand& operand, std::int64_t call) const {
  const std::int64_t axes = operand.own(1);
  const std::int64_t tokens = operand.own(2);
  return {.data = at(operand, call),
          .type = position_of(operand.dtype()),
          .shape = {axes, rows(operand), tokens},
          .strides = {tokens, axes * tokens, 1},
          .device = operand.device()};
}

Integers Calls::integers(const Operand& operand, std::int64_t call) const {
  Integers list;
  list.data = at(operand, call);
  list.size = rows(operand);
  list.bytes = bytes_of(operand.dtype());
  list.device = operand.device();
  return list;
}

// ---- One call ----

Call::Call(const xla::CallFrame& frame, DeviceKind kind) : frame_(frame) {
  if (kind == DeviceKind::cpu) return;
  xla::StreamGet stream = {sizeof stream, nullptr, frame.context, nullptr};
  xla::DeviceOrdinal device = {sizeof device, nullptr, frame.context, 0};
  const bool known = succeeded(frame, frame.api->stream_get(&stream)) && succeeded(frame, frame.api->device_ordinal(&device));
  demand(known, "phasor.jax: XLA does not say the stream and the device of a call");
  device_ = {kind, device.ordinal};
  stream_ = stream.stream;
}

void Call::free_blocks() {
  for (const std::span<std::byte> block : blocks_) {
    if (on_gpu()) {
      xla::MemoryFree free = {sizeof free, nullptr, frame_.context, block.size(), block.data()};
      static_cast<void>(succeeded(frame_, frame_.api->memory_free(&free)));
    } else {
      delete[] block.data();
    }
  }
  blocks_.clear();
}

Operand Call::argument(std::int64_t number, std::int64_t own_axes) const {
  demand(number < arguments(), "phasor.jax: a call has fewer arguments than its text says");
  return {*static_cast<const xla::Buffer*>(frame_.arguments.buffers[number]), own_axes, device_};
}

Operand Call::result(std::int64_t number, std::int64_t own_axes) const {
  demand(number < results(), "phasor.jax: a call has fewer results than its text says");
  return {*static_cast<const xla::Buffer*>(frame_.results.buffers[number]), own_axes, device_};
}

const void* Call::attribute(std::string_view name, xla::AttributeType type) const {
  const xla::Attributes& list = frame_.attributes;
  for (std::int64_t i = 0; i < list.size; ++i) {
    if (std::string_view(list.names[i]->ptr, list.names[i]->len) == name && list.types[i] == type) return list.values[i];
  }
  throw Failure(ErrorKind::invalid, "phasor.jax: a call has no attribute " + std::string(name));
}

std::string_view Call::text(std::string_view name) const {
  const auto* const span = static_cast<const xla::ByteSpan*>(attribute(name, xla::AttributeType::string));
  return {span->ptr, span->len};
}

std::int64_t Call::number(std::string_view name) const {
  const auto* const scalar = static_cast<const xla::Scalar*>(attribute(name, xla::AttributeType::scalar));
  demand(scalar->dtype == xla::DataType::s64, "phasor.jax: an attribute is no int64");
  return *static_cast<const std::int64_t*>(scalar->value);
}

Execution Call::execution(std::int64_t elements) {
  if (on_gpu()) return {.stream = stream_};
  threads_.emplace(frame_, elements);
  return {.runner = threads_->runner()};
}

std::span<std::byte> Call::block(std::int64_t bytes) {
  const auto size = static_cast<std::size_t>(bytes);
  blocks_.reserve(blocks_.size() + 1);
  void* memory = nullptr;
  if (on_gpu()) {
    xla::MemoryAllocate asked = {sizeof asked, nullptr, frame_.context, size, 256, nullptr};
    if (succeeded(frame_, frame_.api->memory_allocate(&asked))) memory = asked.data;
  } else {
    memory = new (std::nothrow) std::byte[size];  // not cleared: a vector would write it all
  }
  if (memory == nullptr) return {};
  return blocks_.emplace_back(static_cast<std::byte*>(memory), size);
}

}  // namespace phasor::python::jax
