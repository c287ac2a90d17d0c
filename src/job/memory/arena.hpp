// SPDX-License-Identifier: Apache-2.0
// An arena lays buffers out in the caller's workspace, and counts what they take. Where memory ends it goes on counting: the layout is made
// once, and its end knows whether there was room and how many bytes that takes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "phasor/attention.hpp"

namespace phasor::attend {

class Arena {
 public:
  /// Measures: every pointer is null.
  Arena() = default;
  /// Lays out in a workspace, which stays as long.
  explicit Arena(Workspace&&) = delete;
  explicit Arena(const Workspace& workspace) : workspace_(&workspace), gives_(true) { begin(workspace.memory); }

  /// Aligned to 64 bytes, not cleared. Null while measuring and where memory has ended, and then for all that is taken later, too: what was
  /// taken before something that is there, is there.
  template <class T>
  T* take(std::int64_t count) {
    return static_cast<T*>(take_bytes(count * static_cast<std::int64_t>(sizeof(T))));
  }
  void* take_bytes(std::int64_t bytes) {
    const std::int64_t rounded = (bytes + 63) / 64 * 64;
    used_ += rounded;
    if (gives_ && (at_ == nullptr || rounded > left_)) gives_ = ask_for(rounded);
    if (!gives_) return nullptr;
    void* const result = at_;
    at_ += rounded;
    left_ -= rounded;
    return result;
  }
  /// Bytes that a call must be given in one piece: 64 more than laid out, so that any memory can be aligned.
  std::int64_t needed() const { return used_ + 64; }
  /// At the end: whether everything has memory, and the call was given as much as it must be.
  Status check(const char* where) const;

 private:
  /// Of a block that is asked for, at least: a call asks seldom.
  static constexpr std::int64_t kBlock = std::int64_t{1} << 20;

  void begin(std::span<std::byte> block) {
    const auto skipped = static_cast<std::int64_t>((64 - reinterpret_cast<std::uintptr_t>(block.data()) % 64) % 64);
    left_ = static_cast<std::int64_t>(block.size()) - skipped;
    at_ = left_ >= 0 ? block.data() + skipped : nullptr;
  }
  bool ask_for(std::int64_t bytes) {
    if (!workspace_->more) return false;
    begin(workspace_->more(std::max(bytes + 64, kBlock)));
    return at_ != nullptr && bytes <= left_;
  }

  const Workspace* workspace_ = nullptr;
  bool gives_ = false;
  std::byte* at_ = nullptr;
  std::int64_t left_ = 0;
  std::int64_t used_ = 0;
};

}  // namespace phasor::attend
