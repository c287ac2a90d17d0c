// SPDX-License-Identifier: Apache-2.0
// The CPU's backend with some of its functions replaced, while it lives.
#pragma once

#include "backend/backend.hpp"

namespace phasor::test {

class ReplacedBackend {
 public:
  /// `change(backend)` replaces functions.
  template <class Change>
  explicit ReplacedBackend(const Change& change) : backend_(**backend::choose({})) {
    change(backend_);
    before_ = backend::replace(DeviceKind::cpu, &backend_);
  }
  ~ReplacedBackend() { backend::replace(DeviceKind::cpu, before_); }
  ReplacedBackend(const ReplacedBackend&) = delete;
  ReplacedBackend& operator=(const ReplacedBackend&) = delete;

 private:
  backend::Backend backend_;
  const backend::Backend* before_ = nullptr;
};

}  // namespace phasor::test
