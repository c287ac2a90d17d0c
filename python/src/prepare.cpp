// SPDX-License-Identifier: Apache-2.0
// The step before attention for Python: what phasor/_prepare.py is made of.
#include "phasor/prepare.hpp"

#include <nanobind/stl/vector.h>

#include <vector>

#include "arrays/arguments.hpp"
#include "bindings.hpp"
#include "prepare_call.hpp"
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

void prepare(const nb::tuple& heads, const nb::list& rotaries, nb::handle positions, const nb::tuple& given) {
  Lists lists(given);
  PrepareInputs inputs = {lists.arrays.heads(heads[0], "q"), lists.arrays.heads(heads[1], "k"), lists.arrays.heads(heads[2], "v"), {}};
  const std::vector<Rotary> specs = rotaries_of(rotaries);
  const PositionsArgument at(positions);
  const PrepareSpec spec = read_spec(lists.numbers, lists.arrays);
  inputs.query_factors = read_factors(lists.numbers, lists.arrays);
  const IntegerList spec_of = read_list(lists.numbers, lists.arrays, "spec_of");
  const PrepareOutputs outputs = read_outputs(lists.numbers, lists.arrays);
  lists.numbers.finish();
  const PrepareRotation rotation = {specs, at.get(), spec_of};
  const Place places[] = {lists.arrays.place(), at.place()};
  std::int64_t elements = 0;
  for (const ConstTensorView* x : {&inputs.q, &inputs.k, &inputs.v}) elements += x->shape[0] * x->shape[1] * x->shape[2] * x->shape[3];
  run_unlocked(common_place(places), elements,
               [&](const Execution& execution) { return prepare_attention(inputs, rotation, outputs, spec, execution); });
}

}  // namespace

void bind_prepare(nb::module_& m) {
  m.def("prepare_attention", &prepare, nb::arg("heads"), nb::arg("rotaries"), nb::arg("positions").none(), nb::arg("lists"),
        "Makes heads (q, k, v) ready for attention. Lists: arrays that are read, arrays that are written, integers and reals, in the order "
        "of phasor/_prepare_call.py.");
}

}  // namespace phasor::python
