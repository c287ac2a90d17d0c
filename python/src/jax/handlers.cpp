// SPDX-License-Identifier: Apache-2.0
// XLA's handlers, and the module's list of them: what phasor/jax/_targets.py registers.
#include "jax/handlers.hpp"

#include <nanobind/nanobind.h>

#include <algorithm>
#include <new>

#include "bindings.hpp"
#include "jax/failure.hpp"

namespace phasor::python {

namespace jax {

namespace {

xla::Error* error_of(const xla::CallFrame& frame, xla::ErrorCode code, const char* message) {
  xla::ErrorCreate error = {sizeof error, nullptr, message, code};
  return frame.api->error_create(&error);
}

/// Whether the call asks for the version only, which it is then told: the newest that both know.
bool told_version(const xla::CallFrame& frame) {
  if (frame.extension_start == nullptr || frame.extension_start->type != xla::kMetadata) return false;
  xla::Metadata& metadata = *reinterpret_cast<xla::MetadataExtension*>(frame.extension_start)->metadata;
  metadata.version.major_version = xla::kMajor;
  metadata.version.minor_version = std::min(xla::kMinor, frame.api->version.minor_version);
  metadata.traits = 0;
  return true;
}

template <void (*body)(Call&), DeviceKind kind>
xla::Error* handler(xla::CallFrame* frame) {
  if (told_version(*frame) || frame->stage != xla::kExecute) return nullptr;
  try {
    Call call(*frame, kind);
    body(call);
    return nullptr;
  } catch (const Failure& failure) {
    return error_of(*frame, failure.code(), failure.what());
  } catch (const std::bad_alloc&) {
    return error_of(*frame, xla::ErrorCode::resource_exhausted, "out of memory");
  } catch (const std::exception& other) {
    return error_of(*frame, xla::ErrorCode::internal, other.what());
  }
}

template <DeviceKind kind>
nanobind::dict handlers() {
  nanobind::dict all;
  const auto put = [&all](const char* name, xla::Handler function) {
    all[name] = nanobind::capsule(reinterpret_cast<const void*>(function));
  };
  put("phasor_rotary", handler<rotate, kind>);
  put("phasor_cos_sin", handler<fill_rows, kind>);
  put("phasor_sinusoidal", handler<fill_sinusoid, kind>);
  put("phasor_add_sinusoidal", handler<add_sinusoid, kind>);
  put("phasor_bias", handler<fill_bias, kind>);
  put("phasor_bias_gradient", handler<bias_gradient, kind>);
  put("phasor_attention", handler<attend, kind>);
  put("phasor_attention_backward", handler<attend_backward, kind>);
  return all;
}

}  // namespace

}  // namespace jax

void bind_jax(nanobind::module_& m) {
  m.def(
      "xla_handlers", [](bool cuda) { return cuda ? jax::handlers<DeviceKind::cuda>() : jax::handlers<DeviceKind::cpu>(); },
      nanobind::arg("cuda") = false, "Handlers of XLA's foreign function interface by name, each in a capsule.");
}

}  // namespace phasor::python
