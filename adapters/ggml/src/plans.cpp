// SPDX-License-Identifier: Apache-2.0
#include "plans.hpp"

#include <cstring>

namespace phasor_ggml {

bool Plans::is_of(const Entry& entry, const Rope& rope, const float* factors) {
  if (!(entry.rope == rope) || entry.factors.empty() != (factors == nullptr)) return false;
  return factors == nullptr || std::memcmp(entry.factors.data(), factors, entry.factors.size() * sizeof *factors) == 0;
}

std::shared_ptr<const Plan> Plans::get(const Rope& rope, const float* factors) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const Entry& entry : entries_) {
    if (is_of(entry, rope, factors)) return entry.plan;
  }
  Entry made{rope, {}, std::make_shared<const Plan>(make_plan(rope, factors, numerics_))};
  if (factors != nullptr) made.factors.assign(factors, factors + rope.pairs());
  if (entries_.size() < kMost) {
    entries_.push_back(std::move(made));
    return entries_.back().plan;
  }
  Entry& place = entries_[oldest_];
  oldest_ = (oldest_ + 1) % kMost;
  place = std::move(made);
  return place.plan;
}

}  // namespace phasor_ggml
