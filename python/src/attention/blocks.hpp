// SPDX-License-Identifier: Apache-2.0
// What a call of attention works in: blocks that it asks for while it is laid out, kept until it ends.
#pragma once

#include <cstddef>
#include <deque>
#include <exception>
#include <memory>
#include <span>

#include "arrays/array.hpp"
#include "phasor/attention.hpp"

namespace phasor::python {

/// Blocks where the tensors of a call are. `make` makes an array of so many bytes there: memory of the library whose tensors they are, so
/// that it is given back in the order of their stream, and a graph that is captured has it among its own. None: memory of the host,
/// allocated here. Made and ended with the GIL held, used without.
class Blocks {
 public:
  Blocks(const Place& place, nb::handle make) : place_(place), make_(nb::borrow(make)) {}

  Workspace workspace() {
    return {{}, [this](std::int64_t bytes) { return block_of(bytes); }};
  }
  /// What a call gave; nothing where it failed because `make` did, which raise_failure tells better.
  Status status_of(Status status) const { return failure_ ? Status() : std::move(status); }
  /// Raises what `make` raised.
  void raise_failure() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::span<std::byte> block_of(std::int64_t bytes);
  std::span<std::byte> host_block(std::size_t bytes) { return {blocks_.emplace_back(new std::byte[bytes]).get(), bytes}; }
  std::span<std::byte> made_block(std::int64_t bytes);

  Place place_;
  nb::object make_;
  std::deque<std::unique_ptr<std::byte[]>> blocks_;  // NOLINT(modernize-avoid-c-arrays); not cleared: a vector would write it all
  std::deque<nb::object> held_;                      // a tensor of PyTorch lives as long as somebody holds it
  std::deque<Array> arrays_;
  std::exception_ptr failure_;
};

}  // namespace phasor::python
