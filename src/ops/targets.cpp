// SPDX-License-Identifier: Apache-2.0
// Targets and version: what a program may ask about the library itself.
#include "phasor/targets.hpp"

#include "backend/backend.hpp"
#include "cpu/common/targets.hpp"

namespace phasor {

std::vector<std::string_view> targets() {
  std::vector<std::string_view> names;
  const cpu::RotaryKernelTable table = cpu::rotary_kernels();
  for (int i = 0; i < table.count; ++i) {
    if (table.entries[i].available()) names.emplace_back(table.entries[i].target);
  }
  return names;
}

Result<std::string_view> active_target() {
  const Result<const cpu::RotaryKernels*> kernels = cpu::active_kernels();
  if (!kernels.ok()) return kernels.status();
  return std::string_view((*kernels)->target);
}

Status force_target(std::string_view name) { return cpu::force(name); }

bool has_backend(DeviceKind kind) { return backend::choose({.kind = kind}).ok(); }

std::string_view version() { return PHASOR_VERSION; }

}  // namespace phasor
