// SPDX-License-Identifier: Apache-2.0
// Tensors of C, and what the library can do on this machine.
#include "phasor/c/base.h"

#include <array>
#include <optional>
#include <string>

#include "core/call.hpp"
#include "core/tensor.hpp"
#include "phasor/targets.hpp"

namespace {

using namespace phasor;
using namespace phasor::c;

// By phasor_element.
constexpr std::array<phasor_dtype, 8> kDtypes = {
    {{2, 32, 1}, {2, 64, 1}, {2, 16, 1}, {4, 16, 1}, {0, 32, 1}, {0, 64, 1}, {1, 8, 1}, {6, 8, 1}}};

}  // namespace

extern "C" {

phasor_tensor phasor_tensor_of(void* data, phasor_element element, int64_t* shape, int32_t ndim) {
  phasor_tensor tensor{};
  tensor.data = data;
  tensor.device.device_type = 1;
  tensor.ndim = ndim;
  if (element >= 0 && static_cast<std::size_t>(element) < kDtypes.size()) tensor.dtype = kDtypes[static_cast<std::size_t>(element)];
  tensor.shape = shape;
  return tensor;
}

const char* phasor_version(void) { return version().data(); }  // a literal

phasor_status phasor_targets(phasor_text* names, phasor_error* error) {
  return call(error, [&] {
    std::string text;
    for (const std::string_view name : targets()) text += (text.empty() ? "" : "\n") + std::string(name);
    give("targets", text, names);
  });
}

phasor_status phasor_active_target(phasor_text* name, phasor_error* error) {
  return call(error, [&] { give("active_target", value_of(active_target()), name); });
}

phasor_status phasor_force_target(const char* name, phasor_error* error) {
  return call(error, [&] { must(force_target(need("force_target", "name", name))); });
}

int32_t phasor_has_backend(int32_t device_type) {
  const std::optional<DeviceKind> kind = device_kind_of(device_type);
  return kind && has_backend(*kind) ? 1 : 0;
}

}  // extern "C"
