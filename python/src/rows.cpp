// SPDX-License-Identifier: Apache-2.0
// Several rotary encodings in one call, for Python: what phasor/_rows.py is made of.
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <vector>

#include "arrays/arguments.hpp"
#include "bindings.hpp"
#include "phasor/rotaries.hpp"
#include "threads/threads.hpp"

namespace phasor::python {

namespace {

/// Which rotary turns what: a contiguous list of int32 or int64, (B), (B T) or (B, T); None where there is one.
class SpecOfArgument {
 public:
  explicit SpecOfArgument(nb::handle object) {
    if (object.is_none()) return;
    array_ = array_of(object, "spec_of", Access::read);
    const bool narrow = array_->dtype == nb::dtype<std::int32_t>();
    if (!narrow && array_->dtype != nb::dtype<std::int64_t>()) raise(PyExc_TypeError, "spec_of: wanted int32 or int64");
    std::int64_t size = 1;
    for (int axis = array_->ndim - 1; axis >= 0; --axis) {
      const auto at = static_cast<std::size_t>(axis);
      if (array_->shape[at] > 1 && array_->strides[at] != size) raise(PyExc_ValueError, "spec_of: is not contiguous, wanted it to be");
      size *= array_->shape[at];
    }
    list_ = {array_->data, narrow ? PositionType::i32 : PositionType::i64, size, array_->place.device};
  }
  const IntegerList& get() const { return list_; }
  Place place() const { return array_ ? array_->place : Place{}; }

 private:
  std::optional<Array> array_;
  IntegerList list_{};
};

/// q, k and where they go; k of None: q alone.
struct Operands {
  InOutArgument q;
  std::optional<InOutArgument> k;

  explicit Operands(nb::tuple list) : q(list[0], list[2], "q") {
    if (!list[1].is_none()) k.emplace(list[1], list[3], "k");
  }
  Place k_place() const { return k ? k->place() : Place{}; }
  std::int64_t elements() const { return q.elements() + (k ? k->elements() : 0); }
};

void apply_all(nb::list rotaries, nb::handle spec_of, nb::tuple operands, nb::handle positions, int direction) {
  std::vector<Rotary> list;
  for (nb::handle rotary : rotaries) list.push_back(nb::cast<const Rotary&>(rotary));
  const Operands of(operands);
  const SpecOfArgument specs(spec_of);
  const PositionsArgument at(positions);
  ApplyOptions options{.direction = static_cast<Direction>(direction)};
  run_unlocked(common_place({of.q.place(), of.k_place(), at.place(), specs.place()}), of.elements(), [&](const Execution& execution) {
    options.execution = execution;
    const RotaryList rows = {list, specs.get()};
    return of.k ? apply_rotaries(rows, of.q.get(), of.k->get(), at.get(), options) : apply_rotaries(rows, of.q.get(), at.get(), options);
  });
}

}  // namespace

void bind_rotaries(nb::module_& m) {
  m.def("apply_rotaries", &apply_all, nb::arg("rotaries"), nb::arg("spec_of").none(), nb::arg("operands"), nb::arg("positions").none(),
        nb::arg("direction"), "Rotates (q, k, q_out, k_out), each row by its own of the rotaries; outputs of None: in place.");
}

}  // namespace phasor::python
