// SPDX-License-Identifier: Apache-2.0
// The tensors of a call of attention, read.
#include "attention/call.hpp"

#include <string>
#include <utility>

namespace phasor::python {

namespace {

/// The value of a key; None where it is absent.
nb::object at(const nb::dict& dict, const char* key) { return dict.contains(key) ? nb::object(dict[key]) : nb::none(); }

/// An integer; 0 where it is absent.
std::int64_t integer_at(const nb::dict& dict, const char* key) {
  const nb::object object = at(dict, key);
  return object.is_none() ? 0 : nb::cast<std::int64_t>(object);
}

/// Seed and offset.
void read_seed(nb::handle object, AttentionTensors& out) {
  if (object.is_none()) return;
  const Array array = array_of(object, "dropout_seed", Access::read);
  if (array.dtype.bits != 64 || array.ndim != 1 || array.shape[0] != 2) {
    raise(PyExc_ValueError, "attention: dropout_seed is another array than two integers of 64 bits, wanted seed and offset");
  }
  // A job carries its numbers: reading them from a GPU would wait for it.
  if (array.place.on_gpu()) raise(PyExc_ValueError, "attention: dropout_seed is on a GPU, wanted memory of the CPU");
  const auto* const pair = static_cast<const std::int64_t*>(array.data);
  out.dropout_seed = static_cast<std::uint64_t>(pair[0]);
  out.dropout_offset = static_cast<std::uint64_t>(pair[array.strides[0]]);
}

}  // namespace

ConstTensorView AttentionCall::tensor(const nb::dict& dict, const char* name) {
  const nb::object object = at(dict, name);
  if (object.is_none()) return {};
  return tensor_of(arrays_.emplace_back(array_of(object, name, Access::read)), name);
}

TensorView AttentionCall::output(const nb::dict& dict, const char* name) {
  const nb::object object = at(dict, name);
  if (object.is_none()) return {};
  return tensor_of(arrays_.emplace_back(array_of(object, name, Access::write)), name);
}

Positions AttentionCall::positions(nb::handle object, const char* name) {
  if (PyLong_Check(object.ptr()) != 0) return positions_from(nb::cast<std::int64_t>(object));
  return positions_of(arrays_.emplace_back(array_of(object, name, Access::read)), name);
}

TermTensors AttentionCall::term(const nb::dict& dict) {
  TermTensors made = {.table = tensor(dict, "table"),
                      .second = tensor(dict, "second"),
                      .features = tensor(dict, "features"),
                      .shift = tensor(dict, "shift"),
                      .parameters = tensor(dict, "parameters")};
  const nb::object queries = at(dict, "query_segments");
  const nb::object keys = at(dict, "key_segments");
  if (!queries.is_none()) made.query_segments = positions(queries, "query_segments");
  if (!keys.is_none()) made.key_segments = positions(keys, "key_segments");
  return made;
}

KeyMask AttentionCall::key_mask(nb::handle mask) {
  if (mask.is_none()) return {};
  const Array& array = arrays_.emplace_back(array_of(mask, "key_mask", Access::read));
  if (array.dtype.bits != 8 || array.ndim != 2) raise(PyExc_TypeError, "key_mask: wanted (B, Tk) of bool or uint8");
  mask_shape_ = {array.shape[0], array.shape[1]};
  return {static_cast<const std::uint8_t*>(array.data), {array.strides[0], array.strides[1]}, array.place.device};
}

void AttentionCall::check_mask(std::int64_t batch, std::int64_t keys, const char* where) const {
  const std::array<std::int64_t, 2> wanted = {batch, keys};
  if (spec.visibility.key_mask.data == nullptr || mask_shape_ == wanted) return;
  const auto text = [](const std::array<std::int64_t, 2>& s) { return "(" + std::to_string(s[0]) + ", " + std::to_string(s[1]) + ")"; };
  raise(PyExc_ValueError, std::string(where) + ": key_mask has shape " + text(mask_shape_) + ", wanted " + text(wanted));
}

Place AttentionCall::place() const {
  Place common{};
  for (const Array& array : arrays_) common = common_place({common, array.place});
  for (const IntegersArgument& list : integers_) common = common_place({common, list.place()});
  return common;
}

AttentionCall::AttentionCall(const Attention& plan, const nb::dict& dict) {
  std::vector<TermTensors> terms;
  for (const nb::handle item : at(dict, "terms")) terms.push_back(term(nb::cast<nb::dict>(item)));
  AttentionTensors tensors = {.terms = terms,
                              .content_shift = tensor(dict, "content_shift"),
                              .sinks = tensor(dict, "sinks"),
                              .prefix = integers_.emplace_back(at(dict, "prefix"), "prefix").get(),
                              .query_starts = integers_.emplace_back(at(dict, "query_starts"), "query_starts").get(),
                              .key_starts = integers_.emplace_back(at(dict, "key_starts"), "key_starts").get(),
                              .key_mask = key_mask(at(dict, "key_mask"))};
  const nb::object queries = at(dict, "query_positions");
  const nb::object keys = at(dict, "key_positions");
  if (!queries.is_none()) tensors.query_positions = positions(queries, "query_positions");
  if (!keys.is_none()) tensors.key_positions = positions(keys, "key_positions");
  read_seed(at(dict, "dropout_seed"), tensors);
  tensors.dropout_first_head = integer_at(dict, "dropout_first_head");
  tensors.dropout_first_sequence = integer_at(dict, "dropout_first_sequence");
  spec = value_of(plan.spec(tensors));
}

void AttentionCall::set_gradients(nb::handle list) {
  if (list.is_none()) return;
  for (const nb::handle item : list) {
    const auto dict = nb::cast<nb::dict>(item);
    gradients.push_back({.table = output(dict, "table"),
                         .second = output(dict, "second"),
                         .features = output(dict, "features"),
                         .shift = output(dict, "shift"),
                         .parameters = output(dict, "parameters")});
  }
}

}  // namespace phasor::python
