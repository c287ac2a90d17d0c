// SPDX-License-Identifier: Apache-2.0
// Arrays of any library as views. PyTorch's plain tensors take the DLPack C exchange API: 0.1 us instead of the 6 us of a capsule.
#include "arrays/array.hpp"

#include <string>

#include "arrays/dlpack_exchange.hpp"
#include "status.hpp"

namespace phasor::python {

namespace {

struct TorchTypes {
  PyTypeObject* tensor = nullptr;
  PyTypeObject* parameter = nullptr;
  const DlpackExchange* exchange = nullptr;
  PyObject* is_neg = nullptr;  // the method
};
TorchTypes torch_types;  // written once, when PyTorch is first seen, under the GIL

/// JAX's arrays cannot change, yet their memory says that it can be written.
bool never_written(nb::handle object) {
  const auto module = nb::cast<std::string>(nb::handle(object.type()).attr("__module__"));
  return module.starts_with("jax");
}

[[noreturn]] void refuse_negative(const char* name) {
  raise(PyExc_NotImplementedError,
        std::string(name) +
            ": is a negative view, whose memory has the other sign; wanted an ordinary tensor, as tensor.resolve_neg() gives");
}

/// For tensors that are not plain, or that come before `use_torch`. What has a buffer (NumPy) has no such views.
void check_sign(nb::handle object, const char* name) {
  if (PyObject_CheckBuffer(object.ptr()) != 0 || !nb::hasattr(object, "is_neg")) return;
  if (nb::cast<bool>(object.attr("is_neg")())) refuse_negative(name);
}

void take_shape(Array& array, const nb::dlpack::dltensor& tensor, const char* name, int most_axes) {
  if (tensor.ndim < 0 || tensor.ndim > most_axes) {
    raise(PyExc_ValueError,
          std::string(name) + ": has " + std::to_string(tensor.ndim) + " axes, wanted at most " + std::to_string(most_axes));
  }
  array.ndim = tensor.ndim;
  std::int64_t dense = 1;  // no strides mean a contiguous tensor
  for (int i = tensor.ndim - 1; i >= 0; --i) {
    array.shape[i] = tensor.shape[i];
    array.strides[i] = tensor.strides != nullptr ? tensor.strides[i] : dense;
    dense *= tensor.shape[i];
  }
  array.dtype = tensor.dtype;
  array.data = tensor.data == nullptr ? nullptr : static_cast<char*>(tensor.data) + tensor.byte_offset;
  if (array.data == nullptr && dense != 0) {
    raise(PyExc_ValueError, std::string(name) + ": has no memory (a fake tensor, one of the meta device, zeros not stored), wanted values");
  }
}

Array torch_array(nb::handle object, const char* name, Sign sign, int most_axes) {
  if (sign == Sign::to_be_asked && is_negative_view(object)) refuse_negative(name);
  nb::dlpack::dltensor tensor{};
  if (torch_types.exchange->tensor_of(object.ptr(), &tensor) != 0) throw nb::python_error();
  Array array;
  array.place = torch_place(*torch_types.exchange, {tensor.device.device_type, tensor.device.device_id}, name);
  take_shape(array, tensor, name, most_axes);
  return array;
}

/// What nanobind makes of the object, or nothing. Memory of a GPU comes by a capsule that its library made for the stream of the call.
std::optional<nb::ndarray<nb::ro>> imported(nb::handle object, Access access, const Place& place) {
  const nb::object capsule = place.on_gpu() ? capsule_on(object, place) : nb::object();
  if (capsule.is_valid()) object = capsule;
  nb::ndarray<nb::ro> read_only;
  if (access == Access::read) {
    if (nb::try_cast(object, read_only, false)) return read_only;
  } else if (nb::ndarray<> writable; nb::try_cast(object, writable, false)) {
    return nb::ndarray<nb::ro>(writable);
  }
  return std::nullopt;
}

/// The device of an object that says it; of any other the CPU's, which its memory is found to be on or not when it is imported.
DlpackDevice said_device(nb::handle object) {
  const DlpackDevice cpu{nb::device::cpu::value, 0};
  const nb::object method = nb::getattr(object, "__dlpack_device__", nb::none());
  if (method.is_none()) return cpu;
  const nb::object answer = nb::steal(PyObject_CallNoArgs(method.ptr()));
  if (!answer.is_valid()) {
    PyErr_Clear();
    return cpu;
  }
  return {nb::cast<int>(answer[0]), nb::cast<std::int32_t>(answer[1])};
}

/// NumPy's bfloat16, which no protocol carries, as the uint16 that its bits are; nothing for any other object.
nb::object bfloat16_bits(nb::handle object) {
  if (!nb::hasattr(object, "dtype") || !nb::hasattr(object, "view")) return {};
  const nb::object dtype = object.attr("dtype");
  return nb::cast<std::string>(nb::str(dtype)) == "bfloat16" ? object.attr("view")("uint16") : nb::object();
}

[[noreturn]] void refuse_foreign(nb::handle object, const char* name) {
  const std::string where = std::string(name) + ": is ";
  if (const nb::object dtype = nb::getattr(object, "dtype", nb::none()); !dtype.is_none()) {
    raise(PyExc_TypeError, where + "of " + nb::cast<std::string>(nb::str(dtype)) +
                               ", which libraries do not share; wanted plain numbers in the order of bytes of this machine");
  }
  raise(PyExc_TypeError, where + type_name_of(object) + ", wanted an array (NumPy, PyTorch, JAX, CuPy, DLPack)");
}

Array foreign_array(nb::handle object, const char* name, Access access, int most_axes) {
  if (access == Access::write && never_written(object)) {
    raise(PyExc_ValueError, std::string(name) + ": is an array of JAX, which cannot change; wanted one that can be written");
  }
  check_sign(object, name);
  Array array;
  array.place = foreign_place(object, torch_types.exchange, said_device(object), name);
  auto found = imported(object, access, array.place);
  nb::object bits;
  if (!found && (bits = bfloat16_bits(object)).is_valid()) {
    array.is_bf16_bits = true;
    object = bits;
    found = imported(object, access, array.place);
  }
  if (!found && access == Access::write && imported(object, Access::read, array.place)) {
    raise(PyExc_ValueError, std::string(name) + ": is read-only, wanted an array that can be written");
  }
  if (!found) refuse_foreign(object, name);
  array.keeps = *std::move(found);
  if (device_of({array.keeps.device_type(), array.keeps.device_id()}, name) != array.place.device) {
    raise(PyExc_ValueError, std::string(name) + ": its __dlpack__ gives memory of another device than its __dlpack_device__ says");
  }
  nb::dlpack::dltensor tensor{};
  tensor.data = const_cast<void*>(array.keeps.data());  // NOLINT(cppcoreguidelines-pro-type-const-cast): written only when asked for
  tensor.ndim = static_cast<std::int32_t>(array.keeps.ndim());
  tensor.dtype = array.keeps.dtype();
  tensor.shape = const_cast<std::int64_t*>(array.keeps.shape_ptr());     // NOLINT(cppcoreguidelines-pro-type-const-cast): read
  tensor.strides = const_cast<std::int64_t*>(array.keeps.stride_ptr());  // NOLINT(cppcoreguidelines-pro-type-const-cast): read
  take_shape(array, tensor, name, most_axes);
  return array;
}

std::optional<DType> float_type(const Array& array) {
  if (array.is_bf16_bits) return DType::bf16;
  if (array.dtype.lanes != 1) return std::nullopt;
  if (array.dtype.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bfloat)) {
    return array.dtype.bits == 16 ? std::optional(DType::bf16) : std::nullopt;
  }
  if (array.dtype.code != static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float)) return std::nullopt;
  switch (array.dtype.bits) {
    case 64:
      return DType::f64;
    case 32:
      return DType::f32;
    case 16:
      return DType::f16;
    default:
      return std::nullopt;
  }
}

std::optional<PositionType> position_type(const Array& array) {
  if (array.is_bf16_bits || array.dtype.lanes != 1) return std::nullopt;
  if (array.dtype.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Int)) {
    if (array.dtype.bits == 64) return PositionType::i64;
    if (array.dtype.bits == 32) return PositionType::i32;
  }
  if (array.dtype.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float) && array.dtype.bits == 64) return PositionType::f64;
  return std::nullopt;
}

}  // namespace

std::string text_of_dtype(const nb::dlpack::dtype& dtype) {
  static constexpr const char* kKinds[] = {"int", "uint", "float", "opaque", "bfloat", "complex", "bool"};
  const std::string kind = dtype.code < std::size(kKinds) ? kKinds[dtype.code] : "kind " + std::to_string(dtype.code) + " of ";
  return kind + std::to_string(dtype.bits) + (dtype.lanes == 1 ? "" : " x " + std::to_string(dtype.lanes));
}

Array array_of(nb::handle object, const char* name, Access access, Sign sign, int most_axes) {
  if (is_plain_torch(object)) return torch_array(object, name, sign, most_axes);
  return foreign_array(object, name, access, most_axes);
}

TensorView tensor_of(const Array& array, const char* name) {
  const std::optional<DType> dtype = float_type(array);
  if (!dtype)
    raise(PyExc_TypeError, std::string(name) + ": is of " + text_of_dtype(array.dtype) + ", wanted float32, float64, float16 or bfloat16");
  if (array.ndim < 2) {
    raise(PyExc_ValueError, std::string(name) + ": has " + std::to_string(array.ndim) + " axes, wanted (B, T, H, D), (T, H, D) or (T, D)");
  }
  const auto& n = array.shape;
  const auto& s = array.strides;
  const Device at = array.place.device;
  if (array.ndim == 2) return {array.data, *dtype, {1, n[0], 1, n[1]}, {0, s[0], 0, s[1]}, at};
  if (array.ndim == 3) return {array.data, *dtype, {1, n[0], n[1], n[2]}, {0, s[0], s[1], s[2]}, at};
  return {array.data, *dtype, {n[0], n[1], n[2], n[3]}, {s[0], s[1], s[2], s[3]}, at};
}

TensorView table_of(const Array& array, const char* name) {
  TensorView view = tensor_of(array, name);
  if (array.ndim == 3) {
    view.shape = {array.shape[0], array.shape[1], 1, array.shape[2]};
    view.strides = {array.strides[0], array.strides[1], 0, array.strides[2]};
  }
  return view;
}

TensorView factors_of(const Array& array, const char* name) {
  if (array.dtype != nb::dtype<float>() || array.ndim < 1 || array.ndim > 2) {
    raise(PyExc_ValueError, std::string(name) + " are " + text_of_dtype(array.dtype) + " of " + std::to_string(array.ndim) +
                                " axes, wanted float32 (T) or (B, T)");
  }
  const bool rows = array.ndim == 2;
  return {array.data,
          DType::f32,
          {rows ? array.shape[0] : 1, array.shape[rows ? 1 : 0], 1, 1},
          {rows ? array.strides[0] : 0, array.strides[rows ? 1 : 0], 0, 1},
          array.place.device};
}

Positions positions_of(const Array& array, const char* name) {
  const std::optional<PositionType> type = position_type(array);
  if (!type) raise(PyExc_TypeError, std::string(name) + ": are of " + text_of_dtype(array.dtype) + ", wanted int32, int64 or float64");
  if (array.ndim < 1 || array.ndim > 3) {
    raise(PyExc_ValueError, std::string(name) + ": have " + std::to_string(array.ndim) + " axes, wanted (T), (B, T) or (axes, B, T)");
  }
  static const std::int64_t nothing = 0;  // of no positions: a null pointer would mean consecutive ones
  Positions positions{.data = array.data != nullptr ? array.data : &nothing,
                      .type = *type,
                      .shape = {1, 1, 1},
                      .strides = {0, 0, 0},
                      .device = array.place.device};
  for (int i = 0; i < array.ndim; ++i) {
    positions.shape[3 - array.ndim + i] = array.shape[i];
    positions.strides[3 - array.ndim + i] = array.strides[i];
  }
  return positions;
}

PositionsArgument::PositionsArgument(nb::handle object, const char* name, Sign sign) {
  if (object.is_none()) {
    positions_ = positions_from(0);
  } else if (PyLong_Check(object.ptr()) != 0) {
    const long long offset = PyLong_AsLongLong(object.ptr());
    if (offset == -1 && PyErr_Occurred() != nullptr) {
      PyErr_Clear();
      raise(PyExc_ValueError, std::string(name) + ": does not fit in 64 bits");
    }
    positions_ = positions_from(offset);
  } else {
    array_ = array_of(object, name, Access::read, sign);
    positions_ = positions_of(*array_, name);
  }
}

InOutArgument::InOutArgument(nb::handle in, nb::handle out, const char* name, Sign sign)
    : in_array_(array_of(in, name, out.is_none() ? Access::write : Access::read, sign)) {
  const TensorView from = tensor_of(in_array_, name);
  in_ = from;
  if (out.is_none()) {
    out_ = from;
  } else {
    out_array_ = array_of(out, name, Access::write, sign);
    out_ = tensor_of(*out_array_, name);
  }
}

bool is_plain_torch(nb::handle object) {
  const PyTypeObject* type = Py_TYPE(object.ptr());
  return torch_types.exchange != nullptr && (type == torch_types.tensor || type == torch_types.parameter);
}

bool is_negative_view(nb::handle tensor) {
  PyObject* self = tensor.ptr();
  const nb::object answer = nb::steal(PyObject_Vectorcall(torch_types.is_neg, &self, 1, nullptr));
  if (!answer.is_valid()) throw nb::python_error();
  return answer.ptr() == Py_True;
}

void use_torch(nb::handle tensor_type, nb::handle parameter_type) {
  const nb::object capsule = nb::getattr(tensor_type, "__dlpack_c_exchange_api__", nb::none());
  if (capsule.is_none()) return;  // PyTorch before 2.10: its tensors enter through their capsules
  const auto* exchange = static_cast<const DlpackExchange*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  if (exchange == nullptr) throw nb::python_error();
  const auto* header = &exchange->header;
  while (header != nullptr && header->version.major != 1) header = header->previous;
  exchange = reinterpret_cast<const DlpackExchange*>(header);
  if (exchange == nullptr || exchange->tensor_of == nullptr) return;
  // The types live as long as the module torch, that is, as long as the interpreter.
  torch_types = {reinterpret_cast<PyTypeObject*>(tensor_type.ptr()), reinterpret_cast<PyTypeObject*>(parameter_type.ptr()), exchange,
                 nb::object(tensor_type.attr("is_neg")).release().ptr()};
}

}  // namespace phasor::python
