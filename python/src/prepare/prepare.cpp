// SPDX-License-Identifier: Apache-2.0
// The step before attention for Python: what phasor/_prepare.py is made of.
#include "phasor/prepare.hpp"

#include <nanobind/stl/vector.h>

#include <vector>

#include "arrays/arguments.hpp"
#include "bindings.hpp"
#include "prepare/call.hpp"
#include "threads/threads.hpp"

namespace phasor::python {

namespace {

std::vector<Rotary> rotaries_of(const nb::list& list) {
  std::vector<Rotary> rotaries;
  for (nb::handle rotary : list) rotaries.push_back(nb::cast<Rotary&>(rotary));
  return rotaries;
}

/// Arguments beside the heads and the rotation: arrays that are read, arrays that are written, integers, reals.
struct Lists {
  CallArrays arrays;
  CallNumbers numbers;
  explicit Lists(const nb::tuple& lists)
      : arrays(nb::cast<nb::list>(lists[0]), nb::cast<nb::list>(lists[1])),
        numbers(nb::cast<std::vector<std::int64_t>>(lists[2]), nb::cast<std::vector<double>>(lists[3])) {}
};

/// Inputs, rotation and spec of a call: what its gradients need, too.
struct Steps {
  Lists lists;
  PrepareInputs inputs;
  std::vector<Rotary> rotaries;
  PositionsArgument positions;
  PrepareSpec spec;
  PrepareRotation turn;  // but for rotaries and positions

  Steps(const nb::tuple& heads, const nb::list& rotary, nb::handle at, const nb::tuple& given)
      : lists(given),
        inputs{lists.arrays.heads(heads[0], "q"), lists.arrays.heads(heads[1], "k"), lists.arrays.heads(heads[2], "v"), {}},
        rotaries(rotaries_of(rotary)),
        positions(at),
        spec(read_spec(lists.numbers, lists.arrays)) {
    inputs.query_factors = read_factors(lists.numbers, lists.arrays);
    turn.spec_of = read_list(lists.numbers, lists.arrays, "spec_of");
    read_tables(lists.numbers, lists.arrays, turn);
  }
  PrepareRotation rotation() const {
    PrepareRotation all = turn;
    all.rotaries = rotaries;
    all.positions = positions.get();
    return all;
  }
  Place place() const { return common_place({lists.arrays.place(), positions.place()}); }
  std::int64_t elements() const {
    std::int64_t count = 0;
    for (const ConstTensorView* x : {&inputs.q, &inputs.k, &inputs.v}) count += x->shape[0] * x->shape[1] * x->shape[2] * x->shape[3];
    return count;
  }
};

void prepare(const nb::tuple& heads, const nb::list& rotaries, nb::handle positions, const nb::tuple& given) {
  Steps steps(heads, rotaries, positions, given);
  const PrepareOutputs outputs = read_outputs(steps.lists.numbers, steps.lists.arrays);
  steps.lists.numbers.finish();
  run_unlocked(steps.place(), steps.elements(), [&](const Execution& execution) {
    return prepare_attention(steps.inputs, steps.rotation(), outputs, steps.spec, execution);
  });
}

/// (by_output, by_input, by_weight or None), or None for heads that nobody wants a gradient by: those are left out of the call.
PrepareGradient read_gradient(nb::handle object, const char* name, CallArrays& arrays, ConstTensorView& in, HeadNorm& norm) {
  PrepareGradient gradient;
  if (object.is_none()) {
    in = {};
    norm = {};
    return gradient;
  }
  const auto given = nb::cast<nb::tuple>(object);
  gradient.by_output = arrays.heads(given[0], name);
  gradient.by_input = arrays.heads(given[1], name, Access::write);
  if (given[2].is_none()) return gradient;
  const ConstTensorView weight = weight_of(arrays.take(given[2], "by_weight", Access::write));
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): taken to be written
  gradient.by_weight = {const_cast<void*>(weight.data), weight.dtype, weight.shape, weight.strides, weight.device};
  return gradient;
}

/// `workspace` makes an array of so many float64, where the heads are.
void prepare_backward(const nb::tuple& call, const nb::tuple& by, const nb::callable& workspace) {
  Steps steps(nb::cast<nb::tuple>(call[0]), nb::cast<nb::list>(call[1]), call[2], nb::cast<nb::tuple>(call[3]));
  steps.lists.numbers.finish();
  CallArrays& arrays = steps.lists.arrays;
  PrepareGradients gradients;
  gradients.q = read_gradient(by[0], "gradient of q", arrays, steps.inputs.q, steps.spec.q_norm);
  gradients.k = read_gradient(by[1], "gradient of k", arrays, steps.inputs.k, steps.spec.k_norm);
  gradients.v = read_gradient(by[2], "gradient of v", arrays, steps.inputs.v, steps.spec.v_norm);
  if (by.size() > 3 && !by[3].is_none()) {
    gradients.by_query_factors = factors_of(arrays.take(by[3], "by_query_factors", Access::write), "prepare_attention: by_query_factors");
  }
  nb::object held;  // a tensor of PyTorch lives as long as somebody holds it
  if (const std::int64_t size = value_of(prepare_attention_backward_workspace(steps.inputs, gradients, steps.spec)); size > 0) {
    held = workspace(size);
    const Array& memory = arrays.take(held, "workspace", Access::write);
    const Extents shape = {1, 1, 1, size};
    gradients.workspace = {memory.data, DType::f64, shape, contiguous_strides(shape), memory.place.device};
  }
  run_unlocked(steps.place(), steps.elements(), [&](const Execution& execution) {
    return prepare_attention_backward(steps.inputs, steps.rotation(), gradients, steps.spec, execution);
  });
}

}  // namespace

void bind_prepare(nb::module_& m) {
  m.def("prepare_attention", &prepare, nb::arg("heads"), nb::arg("rotaries"), nb::arg("positions").none(), nb::arg("lists"),
        "Makes heads (q, k, v) ready for attention. Lists: arrays that are read, arrays that are written, integers and reals, in the order "
        "of phasor/_prepare/call.py.");
  m.def("prepare_attention_backward", &prepare_backward, nb::arg("call"), nb::arg("gradients"), nb::arg("workspace"),
        "Gradients of the step before attention, whose arguments are `call`, lists without outputs: for each of q, k and v (by its result, "
        "by it, by its weight or None), or None, and where the gradient by query_factors goes, or None. `workspace` makes an array of so "
        "many float64.");
}

}  // namespace phasor::python
