// SPDX-License-Identifier: Apache-2.0
// Rotary encoding for Python: what phasor/_rotary.py is made of.
#include "phasor/rotary.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>

#include "arrays/arguments.hpp"
#include "arrays/torch_plain.hpp"
#include "bindings.hpp"
#include "phasor/serialised.hpp"
#include "threads/threads.hpp"

namespace phasor::python {

namespace {

nb::object dataclasses() { return nb::module_::import_("phasor._spec"); }

Direction direction_of(int number) {
  if (number < 0 || number > 2) raise(PyExc_ValueError, "direction: is " + std::to_string(number) + ", wanted 0, 1 or 2");
  return static_cast<Direction>(number);
}

/// phasor._torch, from where tensors of PyTorch come, has asked q and k for their sign: asking again would take as long as a view.
Sign sign_of(nb::handle q) { return is_plain_torch(q) ? Sign::as_in_memory : Sign::to_be_asked; }

/// q, and k where it is there.
class Rotated {
 public:
  Rotated(nb::handle q, nb::handle k, nb::handle q_out, nb::handle k_out) : q_(q, q_out, "q", sign_of(q)) {
    if (!k.is_none()) k_.emplace(k, k_out, "k", sign_of(q));
  }
  void turn(const Rotary& rotary, const PositionsArgument& at, int direction) const {
    ApplyOptions options{.direction = direction_of(direction)};
    const Place place = common_place({q_.place(), k_ ? k_->place() : Place{}, at.place()});
    const auto work = [&](const Execution& execution) {
      options.execution = execution;
      return k_ ? rotary.apply(q_.get(), k_->get(), at.get(), options) : rotary.apply(q_.get(), at.get(), options);
    };
    run_unlocked(place, q_.elements() + (k_ ? k_->elements() : 0), work, Gil::kept_if_short);
  }

 private:
  InOutArgument q_;
  std::optional<InOutArgument> k_;
};

void apply(const Rotary& rotary, nb::handle q, nb::handle k, nb::handle positions, int direction, nb::handle q_out, nb::handle k_out) {
  const Rotated rotated(q, k, q_out, k_out);
  rotated.turn(rotary, PositionsArgument(positions), direction);
}

/// In place on PyTorch tensors, when nothing of PyTorch needs to know but their version counters; else false, and nothing is done.
bool apply_past_torch(const Rotary& rotary, nb::handle q, nb::handle k, nb::handle positions, int direction) {
  if (direction > 2 || !may_write_past_torch(q, k, positions)) return false;
  const PositionsArgument at(positions, "positions", Sign::as_in_memory);
  if (at.get().type == PositionType::f64 && is_plain_torch(positions) && learns(positions)) return false;
  const nb::object none = nb::none();
  const Rotated rotated(q, k, none, none);
  rotated.turn(rotary, at, direction);
  count_write(q, k);
  return true;
}

void cos_sin(const Rotary& rotary, nb::handle positions, nb::handle cos, nb::handle sin) {
  const Array cos_array = array_of(cos, "cos", Access::write);
  const Array sin_array = array_of(sin, "sin", Access::write);
  const TensorView cos_view = table_of(cos_array, "cos");
  const TensorView sin_view = table_of(sin_array, "sin");
  const PositionsArgument at(positions);
  run_unlocked(common_place({cos_array.place, sin_array.place, at.place()}), elements_of(cos_view),
               [&](const Execution& execution) { return rotary.cos_sin(at.get(), cos_view, sin_view, {.execution = execution}); });
}

struct Tables {
  Array cos_array, sin_array;
  ConstTensorView cosines, sines;
  Tables(nb::handle c, nb::handle s, Sign sign)
      : cos_array(array_of(c, "cos", Access::read, sign)),
        sin_array(array_of(s, "sin", Access::read, sign)),
        cosines(table_of(cos_array, "cos")),
        sines(table_of(sin_array, "sin")) {}
};

void apply_tables(nb::handle q, nb::handle k, nb::handle cos, nb::handle sin, const TableLayout& layout, int direction, nb::handle q_out,
                  nb::handle k_out) {
  const Sign sign = sign_of(q);
  const InOutArgument q_view(q, q_out, "q", sign);
  const bool both = !k.is_none();
  std::optional<InOutArgument> k_view;
  if (both) k_view.emplace(k, k_out, "k", sign);
  const Tables tables(cos, sin, sign);
  ApplyOptions options{.direction = direction_of(direction)};
  const Place place = common_place({q_view.place(), both ? k_view->place() : Place{}, tables.cos_array.place, tables.sin_array.place});
  run_unlocked(place, q_view.elements() + (both ? k_view->elements() : 0), [&](const Execution& execution) {
    options.execution = execution;
    return both ? apply_rotary(q_view.get(), k_view->get(), tables.cosines, tables.sines, layout, options)
                : apply_rotary(q_view.get(), tables.cosines, tables.sines, layout, options);
  });
}

/// Where the tokens of a paged cache lie: contiguous int64, which phasor.Rotary makes of int32.
class SlotsArgument {
 public:
  explicit SlotsArgument(nb::handle object) : array_(array_of(object, "slots", Access::read)) {
    if (array_.ndim != 1 || array_.dtype != nb::dtype<std::int64_t>() || (array_.strides[0] != 1 && array_.shape[0] > 1)) {
      raise(PyExc_TypeError, "slots: are " + text_of_dtype(array_.dtype) + " of " + std::to_string(array_.ndim) +
                                 " axes, wanted a contiguous list of int32 or int64");
    }
    slots_.data = static_cast<const std::int64_t*>(array_.data);
    slots_.size = array_.shape[0];
    slots_.device = array_.place.device;
  }
  const Slots& get() const { return slots_; }
  const Place& place() const { return array_.place; }

 private:
  Array array_;
  Slots slots_{};
};

/// By a pair of rotaries and at one of positions: what the keys were rotated by, and what they are to be.
void move_keys(nb::tuple rotaries, nb::handle k, nb::tuple positions, nb::handle slots, nb::handle k_out) {
  const auto& from = nb::cast<const Rotary&>(rotaries[0]);
  const auto& to = nb::cast<const Rotary&>(rotaries[1]);
  const InOutArgument k_view(k, k_out, "k");
  const PositionsArgument before(positions[0], "from_positions");
  const PositionsArgument after(positions[1], "to_positions");
  std::optional<SlotsArgument> paged;
  if (!slots.is_none()) paged.emplace(slots);
  const Place place = common_place({k_view.place(), before.place(), after.place(), paged ? paged->place() : Place{}});
  run_unlocked(place, k_view.elements(), [&](const Execution& execution) {
    const RotatedAt source = {from, before.get()};
    const RotatedAt target = {to, after.get()};
    const ApplyOptions options{.execution = execution};
    return paged ? rerotate(k_view.get().out, paged->get(), source, target, options) : rerotate(k_view.get(), source, target, options);
  });
}

std::vector<std::int64_t> words_of(const Rotary& rotary) { return value_of(integers_of_json(value_of(spec_to_json(rotary.spec())))); }

/// The Rotary that these words (a contiguous int64 array) are the spec of; made once for each content.
nb::object rotary_from_words(nb::handle object, nb::dict cache) {
  const Array array = array_of(object, "words", Access::read, Sign::as_in_memory);  // made by phasor._torch
  const bool words = array.ndim == 1 && array.dtype == nb::dtype<std::int64_t>() && (array.strides[0] == 1 || array.shape[0] <= 1);
  if (array.place.on_gpu()) raise(PyExc_ValueError, "rotary_from_words: words are on a GPU, wanted memory of the CPU");
  if (!words) raise(PyExc_TypeError, "rotary_from_words: wanted a contiguous list of int64");
  const nb::bytes key(static_cast<const char*>(array.data), static_cast<std::size_t>(array.shape[0]) * sizeof(std::int64_t));
  if (PyObject* found = PyDict_GetItemWithError(cache.ptr(), key.ptr()); found != nullptr) return nb::borrow(found);
  const std::span<const std::int64_t> content(static_cast<const std::int64_t*>(array.data), static_cast<std::size_t>(array.shape[0]));
  const RotarySpec spec = value_of(rotary_spec_from_json(value_of(json_of_integers(content))));
  nb::object made = nb::cast(value_of(Rotary::make(spec)));
  constexpr Py_ssize_t kMost = 1024;  // specs of learned frequencies are new at every step
  if (PyDict_Size(cache.ptr()) >= kMost) PyDict_Clear(cache.ptr());
  cache[key] = made;
  return made;
}

void bind_layout(nb::module_& m) {
  nb::class_<TableLayout>(m, "TableLayout", "How given tables are applied; made once, reused.")
      .def(
          "__init__",
          [](TableLayout* self, nb::handle dataclass) {
            TableLayout layout;
            read_python(dataclass, layout, "apply_rotary");
            new (self) TableLayout(layout);
          },
          nb::arg("layout"));
}

}  // namespace

void bind_rotary(nb::module_& m) {
  nb::class_<Rotary>(m, "Rotary", "A rotary spec made ready.")
      .def(
          "__init__",
          [](Rotary* self, nb::handle dataclass) {
            RotarySpec spec;
            read_python(dataclass, spec, "RotarySpec");
            new (self) Rotary(value_of(Rotary::make(spec)));
          },
          nb::arg("spec"))
      .def("apply", &apply, nb::arg("q"), nb::arg("k").none(), nb::arg("positions").none(), nb::arg("direction"), nb::arg("q_out").none(),
           nb::arg("k_out").none(), "Rotates q and k; outputs of None: in place.")
      .def("apply_past_torch", &apply_past_torch, nb::arg("q"), nb::arg("k").none(), nb::arg("positions").none(), nb::arg("direction"),
           "Rotates plain PyTorch tensors in place and says so, or does nothing where PyTorch would want to see the call.")
      .def("cos_sin", &cos_sin, nb::arg("positions").none(), nb::arg("cos"), nb::arg("sin"), "Fills cos and sin.")
      .def_prop_ro("spec", [](const Rotary& r) { return to_python(r.spec(), dataclasses()); })
      .def_prop_ro("words", &words_of, "The spec's text as 64-bit integers.")
      .def_prop_ro("rotary_width", &Rotary::rotary_width)
      .def_prop_ro("frequencies", &Rotary::frequencies)
      .def_prop_ro("amplitude", &Rotary::amplitude)
      .def_prop_ro("softmax_scale", &Rotary::softmax_scale);
  bind_layout(m);
  m.def("apply_tables", &apply_tables, nb::arg("q"), nb::arg("k").none(), nb::arg("cos"), nb::arg("sin"), nb::arg("layout"),
        nb::arg("direction"), nb::arg("q_out").none(), nb::arg("k_out").none(), "Rotates q and k by given tables.");
  m.def("rerotate", &move_keys, nb::arg("rotaries"), nb::arg("k"), nb::arg("positions"), nb::arg("slots").none(), nb::arg("k_out").none(),
        "Moves keys rotated by the first of two rotaries and positions to the second ones; with slots those of a paged cache.");
  nb::dict cache;
  m.attr("_rotaries") = cache;  // in the module, so that the interpreter frees it
  m.def(
      "rotary_from_words", [](nb::handle words, nb::dict cached) { return rotary_from_words(words, std::move(cached)); }, nb::arg("words"),
      nb::arg("cached") = cache, "The Rotary of a spec's words.");
  m.def("use_torch", &use_torch, nb::arg("tensor_type"), nb::arg("parameter_type"), "Lets plain PyTorch tensors in by their exchange API.");
}

}  // namespace phasor::python
