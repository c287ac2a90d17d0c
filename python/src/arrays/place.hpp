// SPDX-License-Identifier: Apache-2.0
// Where an array is: its device, and the stream of a GPU on which its library works now, so that a call comes after what made its arrays
// and before what uses them. Nothing waits.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "arrays/dlpack_exchange.hpp"
#include "phasor/tensor_view.hpp"

namespace phasor::python {

struct Place {
  Device device{};
  void* stream = nullptr;  // of a GPU: a cudaStream_t, whose values 0, 1 and 2 mean what CUDA says; null on the CPU

  bool on_gpu() const { return device.kind == DeviceKind::cuda; }
};

/// A device as DLPack names it: its kind and number.
struct DlpackDevice {
  int kind;
  std::int32_t index;
};

/// The device of memory that messages call `name`. NotImplementedError for one that this build has no kernels for.
Device device_of(DlpackDevice device, const char* name);

/// Where a plain tensor of PyTorch is.
Place torch_place(const DlpackExchange& exchange, DlpackDevice device, const char* name);

/// Of an array that is not PyTorch's: the stream that CuPy works on for its arrays, else what PyTorch works on, else CuPy, else CUDA's
/// default.
Place foreign_place(nanobind::handle object, const DlpackExchange* torch, DlpackDevice device, const char* name);

/// A foreign array's capsule, made after its library let that stream wait for what is still to be written to it.
nanobind::object capsule_on(nanobind::handle object, const Place& place);

/// Where a call runs: the first place on a GPU, else the CPU. ValueError where arrays of one GPU come from several streams, because then no
/// stream is right for all of them. (Arrays on several devices are refused by the library, which knows their names.)
Place common_place(std::span<const Place> places);
inline Place common_place(std::initializer_list<Place> places) { return common_place(std::span(places.begin(), places.size())); }

/// What Python says when memory is on a GPU and this build has no kernels for it.
const std::string& get_cuda_advice();
void set_cuda_advice(std::string advice);

}  // namespace phasor::python
