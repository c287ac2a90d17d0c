// SPDX-License-Identifier: Apache-2.0
// Handles of the C API that free themselves, and structs that know their size.
#pragma once

#include <memory>

#include "c/support.hpp"
#include "phasor/phasor.h"

namespace phasor::test {

struct FreeHandle {
  void operator()(phasor_rotary* rotary) const { phasor_rotary_free(rotary); }
  void operator()(phasor_model* model) const { phasor_model_free(model); }
  void operator()(phasor_differences* differences) const { phasor_differences_free(differences); }
  void operator()(phasor_permute_report* report) const { phasor_permute_report_free(report); }
  void operator()(phasor_planned_scalings* plan) const { phasor_planned_scalings_free(plan); }
};
template <class T>
using Owned = std::unique_ptr<T, FreeHandle>;

/// What fn(pointer, error) makes.
template <class T, class Call>
Owned<T> owned(const Call& fn) {
  T* pointer = nullptr;
  succeeds([&](phasor_error* error) { return fn(&pointer, error); });
  return Owned<T>(pointer);
}

}  // namespace phasor::test
