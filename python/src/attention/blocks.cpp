// SPDX-License-Identifier: Apache-2.0
// Memory for a call of attention, asked for while it runs without the GIL.
#include "attention/blocks.hpp"

#include <string>

#include "status.hpp"

namespace phasor::python {

std::span<std::byte> Blocks::block_of(std::int64_t bytes) {
  if (make_.is_none() && !place_.on_gpu()) return host_block(static_cast<std::size_t>(bytes));
  const nb::gil_scoped_acquire acquire;
  try {
    return made_block(bytes);
  } catch (...) {  // such as PyTorch's out of memory: the library between has no exceptions
    failure_ = std::current_exception();
    return {};
  }
}

std::span<std::byte> Blocks::made_block(std::int64_t bytes) {
  if (make_.is_none()) raise(PyExc_ValueError, "attention: workspace is None for tensors on a GPU, wanted what makes memory there");
  const Array& array = arrays_.emplace_back(array_of(held_.emplace_back(make_(bytes)), "workspace", Access::write));
  if (array.ndim != 1 || array.dtype.bits != 8 || array.shape[0] < bytes || (array.shape[0] > 1 && array.strides[0] != 1)) {
    raise(PyExc_ValueError, "attention: workspace made another array than " + std::to_string(bytes) + " bytes side by side");
  }
  if (array.place.device != place_.device || array.place.stream != place_.stream) {
    raise(PyExc_ValueError, "attention: workspace made memory elsewhere, wanted it on the device and stream of the tensors");
  }
  return {static_cast<std::byte*>(array.data), static_cast<std::size_t>(array.shape[0])};
}

}  // namespace phasor::python
