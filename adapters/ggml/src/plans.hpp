// SPDX-License-Identifier: Apache-2.0
// Plans that were made, by the parameters of their nodes.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "plan.hpp"

namespace phasor_ggml {

/// A model has a handful of distinct ropes, asked for with every graph. For any number of threads.
class Plans {
 public:
  explicit Plans(phasor_numerics numerics) : numerics_(numerics) {}

  /// The plan, made at the first call; finding it does not allocate. `factors` as for make_plan.
  std::shared_ptr<const Plan> get(const Rope& rope, const float* factors);
  phasor_numerics numerics() const { return numerics_; }

 private:
  struct Entry {
    Rope rope;
    std::vector<float> factors;  // empty: none, or those of 1 that stand for values not known yet
    std::shared_ptr<const Plan> plan;
  };
  static bool is_of(const Entry& entry, const Rope& rope, const float* factors);

  /// Factors may be computed by the graph itself and differ each time: the oldest plans then make room.
  static constexpr std::size_t kMost = 64;

  phasor_numerics numerics_;
  std::mutex mutex_;
  std::vector<Entry> entries_;
  std::size_t oldest_ = 0;
};

}  // namespace phasor_ggml
