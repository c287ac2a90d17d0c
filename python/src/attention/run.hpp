// SPDX-License-Identifier: Apache-2.0
// What every call of attention from Python has in common: its arrays, where they are, and running it there.
#pragma once

#include <cstdint>
#include <deque>

#include "attention/blocks.hpp"
#include "attention/call.hpp"

namespace phasor::python {

/// Arrays of a call that are read or written as they are.
struct Tensors {
  std::deque<Array> arrays;
  ConstTensorView read(nb::handle object, const char* name) {
    return object.is_none() ? ConstTensorView() : tensor_of(arrays.emplace_back(array_of(object, name, Access::read)), name);
  }
  TensorView write(nb::handle object, const char* name) {
    return object.is_none() ? TensorView() : tensor_of(arrays.emplace_back(array_of(object, name, Access::write)), name);
  }
  Place place() const {
    Place common{};
    for (const Array& array : arrays) common = common_place({common, array.place});
    return common;
  }
  AttentionInputs inputs(nb::handle qkv) { return {read(qkv[0], "q"), read(qkv[1], "k"), read(qkv[2], "v")}; }
};

/// Runs `work(workspace)` for a call whose tensors are known, where they are. `scores`: so that small calls stay on one thread.
template <class Work>
void run_call(AttentionCall& call, const Place& tensors, std::int64_t scores, nb::handle workspace, const Work& work) {
  const Place place = common_place({tensors, call.place()});
  Blocks blocks(place, workspace);
  run_unlocked(place, scores, [&](const Execution& execution) {
    call.spec.execution = execution;
    return blocks.status_of(work(blocks.workspace()));
  });
  blocks.raise_failure();
}

}  // namespace phasor::python
