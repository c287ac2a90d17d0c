// SPDX-License-Identifier: Apache-2.0
// Devices and streams of arrays.
#include "arrays/place.hpp"

#include <utility>

#include "phasor/targets.hpp"
#include "status.hpp"

namespace phasor::python {

namespace nb = nanobind;

namespace {

// DLPack's numbers of devices.
constexpr int kCpu = 1, kCuda = 2, kCudaHost = 3, kCudaManaged = 13;

std::string cuda_advice = "wanted the package phasor-cuda13 beside phasor, of the same version";  // written at import, under the GIL

nb::object module_if_imported(const char* name) {
  nb::object found = nb::steal(PyImport_GetModule(nb::str(name).ptr()));
  if (!found.is_valid()) PyErr_Clear();
  return found;
}

void* torch_stream(const DlpackExchange& exchange, std::int32_t index) {
  void* stream = nullptr;
  if (exchange.current_work_stream == nullptr) return stream;
  if (exchange.current_work_stream(kCuda, index, &stream) != 0) throw nb::python_error();
  return stream;
}

void* cupy_stream(nb::handle cupy, std::int32_t index) {
  const auto address = nb::cast<std::uintptr_t>(cupy.attr("cuda").attr("get_current_stream")(index).attr("ptr"));
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr): a stream as Python has it
}

bool is_of(nb::handle object, const char* library) {
  return nb::cast<std::string>(nb::handle(object.type()).attr("__module__")).starts_with(library);
}

}  // namespace

Device device_of(DlpackDevice device, const char* name) {
  if (device.kind == kCpu || device.kind == kCudaHost) return {};
  if (device.kind != kCuda && device.kind != kCudaManaged) {
    raise(PyExc_NotImplementedError,
          std::string(name) + ": is on a device of DLPack's kind " + std::to_string(device.kind) + ", wanted memory of the CPU or of CUDA");
  }
  if (!has_backend(DeviceKind::cuda)) {
    raise(PyExc_NotImplementedError,
          std::string(name) + ": is on cuda:" + std::to_string(device.index) + ", and this phasor has no CUDA kernels; " + cuda_advice);
  }
  return {DeviceKind::cuda, device.index};
}

Place torch_place(const DlpackExchange& exchange, DlpackDevice device, const char* name) {
  Place place{device_of(device, name)};
  if (place.on_gpu()) place.stream = torch_stream(exchange, device.index);
  return place;
}

Place foreign_place(nb::handle object, const DlpackExchange* torch, DlpackDevice device, const char* name) {
  Place place{device_of(device, name)};
  if (!place.on_gpu()) return place;
  const bool of_cupy = is_of(object, "cupy");
  const nb::object cupy = of_cupy || torch == nullptr ? module_if_imported("cupy") : nb::object();
  if (cupy.is_valid()) {
    place.stream = cupy_stream(cupy, device.index);
  } else if (torch != nullptr) {
    place.stream = torch_stream(*torch, device.index);
  }
  return place;
}

nb::object capsule_on(nb::handle object, const Place& place) {
  // 0 is no stream of DLPack: what CUDA means by it is called 1 there.
  const auto address = reinterpret_cast<std::uintptr_t>(place.stream);
  nb::dict arguments;
  arguments["stream"] = address == 0 ? 1 : address;
  const nb::object method = object.attr("__dlpack__");
  try {
    arguments["max_version"] = nb::make_tuple(1, 0);  // only a capsule with a version says whether memory may be written
    return method(**arguments);
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;  // else a library older than that argument
  }
  PyDict_DelItemString(arguments.ptr(), "max_version");
  return method(**arguments);
}

Place common_place(std::span<const Place> places) {
  Place found{};
  for (const Place& place : places) {
    if (!place.on_gpu()) continue;
    if (!found.on_gpu()) found = place;
    if (place.device == found.device && place.stream != found.stream) {
      raise(PyExc_ValueError, "stream: the arrays of the call come from libraries that work on different streams of cuda:" +
                                  std::to_string(place.device.index) +
                                  ", wanted one (torch.cuda.ExternalStream and cupy.cuda.ExternalStream share one)");
    }
  }
  return found;
}

const std::string& get_cuda_advice() { return cuda_advice; }

void set_cuda_advice(std::string advice) { cuda_advice = std::move(advice); }

}  // namespace phasor::python
