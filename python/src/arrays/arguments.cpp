// SPDX-License-Identifier: Apache-2.0
// Arrays as the arguments of additive, learned and bias functions and of the builders of positions.
#include "arrays/arguments.hpp"

#include <memory>
#include <string>
#include <utility>

namespace phasor::python {

namespace {

std::string has_axes(const char* name, const Array& array) {
  return std::string(name) + ": has " + std::to_string(array.ndim) + " axes, wanted ";
}

/// The same memory with an axis of one entry before axis `at`.
Array with_axis(Array array, int at) {
  for (int i = array.ndim; i > at; --i) {
    array.shape[i] = array.shape[i - 1];
    array.strides[i] = array.strides[i - 1];
  }
  array.shape[at] = 1;
  array.strides[at] = 0;
  ++array.ndim;
  return array;
}

std::int64_t size_of(const Array& array) {
  std::int64_t size = 1;
  for (int i = 0; i < array.ndim; ++i) size *= array.shape[i];
  return size;
}

bool is_contiguous(const Array& array) {
  if (size_of(array) == 0) return true;
  std::int64_t dense = 1;
  for (int i = array.ndim - 1; i >= 0; --i) {
    if (array.shape[i] != 1 && array.strides[i] != dense) return false;
    dense *= array.shape[i];
  }
  return true;
}

void check_float64(const Array& array, const char* name) {
  if (array.is_bf16_bits || array.dtype != nb::dtype<double>()) raise(PyExc_TypeError, std::string(name) + ": wanted float64");
  if (!is_contiguous(array)) raise(PyExc_ValueError, std::string(name) + ": has gaps between its elements, wanted it contiguous");
}

}  // namespace

TokensArgument::TokensArgument(nb::handle object, const char* name, Access access) : array_(array_of(object, name, access)) {
  if (array_.ndim < 2 || array_.ndim > 3) raise(PyExc_ValueError, has_axes(name, array_) + "(B, T, D) or (T, D)");
  view_ = tensor_of(array_.ndim == 3 ? with_axis(array_, 2) : array_, name);
}

BiasArgument::BiasArgument(nb::handle object, const char* name, Access access, Shape shape) : array_(array_of(object, name, access)) {
  if (shape == Shape::diagonal) {
    if (array_.ndim != 2) raise(PyExc_ValueError, has_axes(name, array_) + "(H, N)");
    view_ = tensor_of(with_axis(array_, 1), name);
    return;
  }
  if (array_.ndim < 3) raise(PyExc_ValueError, has_axes(name, array_) + "(B, H, Tq, Tk) or (H, Tq, Tk)");
  view_ = tensor_of(array_, name);
}

PositionsOut::PositionsOut(nb::handle object) : array_(array_of(object, "out", Access::write)) {
  const Positions to = positions_of(array_, "out");
  view_ = {.data = array_.data, .type = to.type, .shape = to.shape, .strides = to.strides, .device = to.device};
}

IntegersArgument::IntegersArgument(nb::handle object, const char* name) {
  if (object.is_none()) return;
  array_ = array_of(object, name, Access::read);
  const std::int64_t size = size_of(array_);
  if (size == 0) return;
  if (!is_contiguous(array_)) raise(PyExc_ValueError, std::string(name) + ": are strided, wanted contiguous integers");
  using Code = nb::dlpack::dtype_code;
  const auto code = static_cast<Code>(array_.dtype.code);
  const int bits = array_.dtype.bits;
  const bool wide = code == Code::Int && (bits == 32 || bits == 64);
  const bool narrow = (code == Code::UInt || code == Code::Bool) && bits == 8;
  if (array_.is_bf16_bits || array_.dtype.lanes != 1 || !(wide || narrow)) {
    raise(PyExc_TypeError, std::string(name) + ": are of another type, wanted int32, int64, uint8 or bool");
  }
  integers_.data = array_.data;
  integers_.size = size;
  integers_.bytes = bits / 8;
  integers_.device = array_.place.device;
}

NumbersOut::NumbersOut(nb::handle object, const char* name) : array_(array_of(object, name, Access::write)) {
  check_float64(array_, name);
  const Extents shape = {1, 1, 1, size_of(array_)};
  view_ = {array_.data, DType::f64, shape, contiguous_strides(shape), array_.place.device};
}

RealsArgument::RealsArgument(nb::handle object, const char* name, Access access) : array_(array_of(object, name, access)) {
  if (array_.place.on_gpu()) raise(PyExc_ValueError, std::string(name) + ": is on a GPU, wanted memory of the CPU");
  check_float64(array_, name);
  values_ = {static_cast<double*>(array_.data), static_cast<std::size_t>(size_of(array_))};
}

nb::any numpy_array(std::vector<double> values, const std::vector<std::int64_t>& shape) {
  auto held = std::make_unique<std::vector<double>>(std::move(values));
  std::vector<std::size_t> extents(shape.begin(), shape.end());
  if (extents.empty()) extents.push_back(held->size());
  double* data = held->data();
  const nb::capsule owner(held.get(), [](void* memory) noexcept { delete static_cast<std::vector<double>*>(memory); });
  (void)held.release();  // the capsule has it
  return nb::steal<nb::any>(nb::cast(nb::ndarray<nb::numpy, double>(data, extents.size(), extents.data(), owner)).release());
}

}  // namespace phasor::python
