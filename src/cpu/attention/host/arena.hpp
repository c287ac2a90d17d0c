// SPDX-License-Identifier: Apache-2.0
// An arena lays buffers out in the caller's workspace. The same code runs twice: first to measure (no memory: every pointer is null), then
// to use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace phasor::attend {

class Arena {
 public:
  /// Measures.
  Arena() = default;
  /// Lays out in `memory`, which must be as large as was measured.
  explicit Arena(std::span<std::byte> memory) : base_(memory.data()), measuring_(false) { align(); }

  bool measuring() const { return measuring_; }
  /// Aligned to 64 bytes; null while measuring. Not cleared.
  template <class T>
  T* take(std::int64_t count) {
    return static_cast<T*>(take_bytes(count * static_cast<std::int64_t>(sizeof(T))));
  }
  void* take_bytes(std::int64_t bytes) {
    void* const result = measuring_ ? nullptr : base_ + used_;
    used_ += (bytes + 63) / 64 * 64;
    return result;
  }
  /// Bytes that `attention` must be given: 64 more than laid out, so that any memory can be aligned.
  std::int64_t needed() const { return used_ + 64; }

 private:
  void align() { base_ += (64 - reinterpret_cast<std::uintptr_t>(base_) % 64) % 64; }

  std::byte* base_ = nullptr;
  std::int64_t used_ = 0;
  bool measuring_ = true;
};

}  // namespace phasor::attend
