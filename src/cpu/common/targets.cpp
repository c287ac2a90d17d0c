// SPDX-License-Identifier: Apache-2.0
// Choice of the target: forced, named by the environment, or the best.
#include "cpu/common/targets.hpp"

#include <atomic>
#include <cstdlib>
#include <string>

#include "spec/format.hpp"

namespace phasor::cpu {
namespace {

const RotaryKernels* find(std::string_view target) {
  const RotaryKernelTable table = rotary_kernels();
  for (int i = 0; i < table.count; ++i) {
    if (table.entries[i].available() && target == table.entries[i].target) return &table.entries[i];
  }
  return nullptr;
}

std::string available_names() {
  std::string names;
  const RotaryKernelTable table = rotary_kernels();
  for (int i = 0; i < table.count; ++i) {
    if (table.entries[i].available()) names += (names.empty() ? "" : ", ") + std::string(table.entries[i].target);
  }
  return names;
}

/// Best target, or the one PHASOR_TARGET names; null when it names none. Read once: a program's kernels do not change under it.
const RotaryKernels* default_kernels() {
  static const RotaryKernels* const chosen = [] {
    const char* name = std::getenv("PHASOR_TARGET");
    if (name != nullptr && *name != '\0') return find(name);
    const RotaryKernelTable table = rotary_kernels();
    int i = 0;
    while (!table.entries[i].available()) ++i;
    return &table.entries[i];
  }();
  return chosen;
}

std::atomic<const RotaryKernels*> forced{nullptr};

}  // namespace

Result<const RotaryKernels*> active_kernels() {
  if (const RotaryKernels* kernels = forced.load(std::memory_order_relaxed)) return kernels;
  if (const RotaryKernels* kernels = default_kernels()) return kernels;
  const char* name = std::getenv("PHASOR_TARGET");
  return Status::unsupported(spec::format("PHASOR_TARGET is '{}', wanted one of: {}", name == nullptr ? "" : name, available_names()));
}

Status force(std::string_view target) {
  const RotaryKernels* kernels = target.empty() ? nullptr : find(target);
  if (kernels == nullptr && !target.empty()) {
    return Status::unsupported(spec::format("force_target: target is '{}', wanted one of: {}", target, available_names()));
  }
  forced.store(kernels, std::memory_order_relaxed);
  return {};
}

}  // namespace phasor::cpu
