// SPDX-License-Identifier: Apache-2.0
// Several specs in one call: which one turns a token, read on host and device. Also the caller's lists of integers.
#pragma once

#include "job/rotary.hpp"
#include "math/portable.hpp"
#include "phasor/cache.hpp"

namespace phasor::job {

/// A list of the caller's, null where there is none.
struct IntegerSource {
  const void* data = nullptr;
  bool narrow = false;  // int32
  std::int64_t size = 0;
};

inline IntegerSource source_of(const IntegerList& list) { return {list.data, list.type == PositionType::i32, list.size}; }

PHASOR_HD inline std::int64_t integer_at(const IntegerSource& list, std::int64_t index) {
  return list.narrow ? static_cast<const std::int32_t*>(list.data)[index] : static_cast<const std::int64_t*>(list.data)[index];
}

/// The specs of a call, or some of them that follow each other: a device may take a list piece by piece.
struct SpecList {
  RowSource* rows = nullptr;  // host table, count of them; null: one spec for every token
  std::int64_t count = 0;
  std::int64_t first = 0;  // of the call's specs: which one rows[0] is of
  IntegerSource spec_of;
  std::int64_t strides[2] = {0, 0};  // of spec_of: batch, token
};

PHASOR_MEMBERS(IntegerSource, data, narrow, size)
PHASOR_MEMBERS(SpecList, rows, count, first, spec_of, strides)

/// Which of the list's rows token t of batch row b is turned by; not one of [0, count): the list does not have it.
PHASOR_HD inline std::int64_t spec_at(const SpecList& list, std::int64_t b, std::int64_t t) {
  return integer_at(list.spec_of, b * list.strides[0] + t * list.strides[1]) - list.first;
}

}  // namespace phasor::job
