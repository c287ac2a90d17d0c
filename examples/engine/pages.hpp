// SPDX-License-Identifier: Apache-2.0
// The pages of one sequence, the same in every layer: decided on the host, read on the device.
#pragma once

#include "buffer.hpp"

namespace engine {

constexpr std::int64_t kPage = 4;  // tokens of a page

/// Some tokens one after the other: their positions, and where they lie in the cache.
struct Places {
  Buffer<std::int64_t> positions;
  Buffer<std::int64_t> slots;
};

class Pages {
 public:
  Pages(const engine_device& device, std::int64_t blocks) : device_(device), table_(device, blocks), length_(device, 1) {
    for (std::int64_t block = 0; block < blocks; ++block) free_.push_back(static_cast<std::int32_t>(block));
  }

  std::int64_t length() const { return tokens_; }

  /// Room for tokens behind the last. A free page is taken from the end, so that pages lie anywhere.
  void grow(std::int64_t tokens) {
    tokens_ += tokens;
    while (static_cast<std::int64_t>(pages_.size()) * kPage < tokens_) {
      pages_.push_back(free_.back());
      free_.pop_back();
    }
    write();
  }
  /// Without `count` tokens behind the first `keep`, both whole pages.
  void drop(std::int64_t keep, std::int64_t count) {
    const auto first = pages_.begin() + keep / kPage;
    free_.insert(free_.end(), first, first + count / kPage);
    pages_.erase(first, first + count / kPage);
    tokens_ -= count;
    write();
  }

  phasor::PageTable view() const {
    const phasor::Device at = where(device_);
    return {.blocks = {table_.data(), pages_.size(), at}, .lengths = {length_.data(), 1, at}, .page_size = kPage};
  }
  Places places(std::int64_t first, std::int64_t count) const {
    Places made = {Buffer<std::int64_t>(device_, count), Buffer<std::int64_t>(device_, count)};
    must(phasor::fill_from_offset(positions(made.positions), first, on(device_)));
    must(phasor::fill_slots(positions(made.slots), view(), positions(made.positions), {}, on(device_)));
    return made;
  }

 private:
  void write() const {
    table_.write(pages_.data(), pages_.size());
    length_.write(&tokens_, 1);
  }

  const engine_device& device_;
  std::vector<std::int32_t> pages_;  // block of each page of the sequence
  std::vector<std::int32_t> free_;
  std::int64_t tokens_ = 0;  // in the cache
  Buffer<std::int32_t> table_;
  Buffer<std::int64_t> length_;
};

}  // namespace engine
