// SPDX-License-Identifier: Apache-2.0
// The DLPack C exchange API (DLPack 1.2 and newer), as far as it is used here: a tensor's memory without an allocation.
// nanobind declares the rest of DLPack, but not this.
#pragma once

#include <nanobind/ndarray.h>

#include <cstdint>

namespace phasor::python {

struct DlpackVersion {
  std::uint32_t major;
  std::uint32_t minor;
};

struct DlpackExchangeHeader {
  DlpackVersion version;
  DlpackExchangeHeader* previous;
};

/// `tensor_of` fills a borrowed description that is valid while the Python object lives; `current_work_stream` says on which stream of a
/// device its library works now. Both: 0 on success, else a Python error is set.
struct DlpackExchange {
  DlpackExchangeHeader header;
  void* managed_tensor_allocator;
  void* managed_tensor_from_py_object;
  void* managed_tensor_to_py_object;
  int (*tensor_of)(void* py_object, nanobind::dlpack::dltensor* out);
  int (*current_work_stream)(int device_type, std::int32_t device_id, void** stream);
};

}  // namespace phasor::python
