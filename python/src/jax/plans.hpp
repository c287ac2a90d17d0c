// SPDX-License-Identifier: Apache-2.0
// Specs made ready, kept by their texts: calls come from any of XLA's threads.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

namespace phasor::python::jax {

template <class Plan>
class Plans {
 public:
  /// The plan of a text; `make(text)` makes it where it is not there.
  template <class Make>
  Plan of(std::string_view text, const Make& make) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (const auto found = made_.find(text); found != made_.end()) return found->second;
    }
    Plan plan = make(text);  // without the lock: it takes its time
    const std::lock_guard<std::mutex> lock(mutex_);
    if (made_.size() >= kMost) made_.clear();
    return made_.try_emplace(std::string(text), std::move(plan)).first->second;
  }

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  static constexpr std::size_t kMost = 1024;
  std::mutex mutex_;
  std::unordered_map<std::string, Plan, Hash, std::equal_to<>> made_;
};

/// The one of the process; never destroyed, since XLA's threads may outlive static objects.
template <class Plan>
Plans<Plan>& plans() {
  static Plans<Plan>& all = *new Plans<Plan>;  // NOLINT(cppcoreguidelines-owning-memory)
  return all;
}

}  // namespace phasor::python::jax
