// SPDX-License-Identifier: Apache-2.0
// Copies of a plan's lists: found, made, given back.
#include "plan/device_copies.hpp"

#include "spec/without_exceptions.hpp"

namespace phasor::plan {

DeviceCopies& DeviceCopies::operator=(const DeviceCopies& other) {
  if (this != &other) release_all();
  return *this;
}

DeviceCopies::~DeviceCopies() { release_all(); }

Result<const void*> DeviceCopies::get(const Of& of, const Maker& maker) const {
  return spec::without_exceptions([&]() -> Result<const void*> {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Copy& copy : copies_) {
      if (copy.of.device == of.device && copy.of.list == of.list && copy.of.bytes == of.bytes) return copy.memory;
    }
    copies_.reserve(copies_.size() + 1);  // so that nothing fails once the memory is there
    void* memory = nullptr;
    if (Status made = maker.make(of, memory); !made) return made;
    copies_.push_back({of, memory, maker.release});
    return memory;
  });
}

void DeviceCopies::release_all() {
  for (const Copy& copy : copies_) copy.release(copy.of.device, copy.memory);
  copies_.clear();
}

}  // namespace phasor::plan
