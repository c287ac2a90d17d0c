// SPDX-License-Identifier: Apache-2.0
// Random calls of every rotary function, made from a seed: specs of every kind, dtypes, strides, positions, tables, caches. The memory of a
// call is a list of buffers, so that one call runs on the host and on a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "phasor/phasor.hpp"

namespace phasor::test {

/// Buffers by number, and the call with pointers to their copies.
struct RandomCall {
  std::string name;
  std::vector<std::vector<std::byte>> buffers;
  std::vector<DType> elements;  // of each buffer that holds a tensor, for comparing; those of integers are not written
  std::function<Status(const std::vector<std::byte*>& memory, const Execution& execution, Device device)> run;
  bool writes_integers = false;  // then no bits are those of a NaN
};

/// None where the seed's spec or call is one that the library refuses.
std::optional<RandomCall> random_call(std::uint64_t seed);

/// Whether two buffers hold the same bits; two NaN are the same, since machines differ in theirs.
bool same_elements(const std::vector<std::byte>& a, const std::vector<std::byte>& b, DType dtype);

/// Where two buffers first differ, as text; empty: nowhere, but for the bits of NaN.
std::string first_difference(const std::vector<std::byte>& got, const std::vector<std::byte>& wanted, DType dtype);
/// The same of a buffer of a call.
std::string first_difference(const RandomCall& call, std::size_t buffer, const std::vector<std::byte>& got,
                             const std::vector<std::byte>& wanted);

}  // namespace phasor::test
