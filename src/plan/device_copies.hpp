// SPDX-License-Identifier: Apache-2.0
// Where a plan keeps copies of its lists that devices made: memory that it neither reads nor understands, and gives back when it ends.
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include "phasor/result.hpp"

namespace phasor::plan {

class DeviceCopies {
 public:
  /// A list of the plan, and the number of a device.
  struct Of {
    int device;
    const void* list;
    std::size_t bytes;
  };
  /// How a device makes a copy and gives it back.
  struct Maker {
    Status (*make)(const Of& of, void*& memory);
    void (*release)(int device, void* memory);
  };

  DeviceCopies() = default;
  /// A copied plan has lists of its own: it begins with none, and so does one that is assigned to.
  DeviceCopies(const DeviceCopies& /*other*/) {}
  DeviceCopies& operator=(const DeviceCopies& other);
  ~DeviceCopies();

  /// The copy of a list on a device, made by the first call for it. Any number of threads may ask; they wait for one another.
  Result<const void*> get(const Of& of, const Maker& maker) const;

 private:
  struct Copy {
    Of of;
    void* memory;
    void (*release)(int device, void* memory);
  };
  void release_all();

  mutable std::mutex mutex_;
  mutable std::vector<Copy> copies_;
};

}  // namespace phasor::plan
