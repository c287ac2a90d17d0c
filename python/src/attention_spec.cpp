// SPDX-License-Identifier: Apache-2.0
// The dict of a call of attention, read.
#include "attention_spec.hpp"

#include <string>
#include <utility>

#include "fields/position_fields.hpp"

namespace phasor::python {

namespace {

/// The value of a key; None where it is absent.
nb::object at(const nb::dict& dict, const char* key) { return dict.contains(key) ? nb::object(dict[key]) : nb::none(); }
template <class T>
T value_at(const nb::dict& dict, const char* key, T absent) {
  const nb::object value = at(dict, key);
  return value.is_none() ? absent : nb::cast<T>(value);
}
template <class T>
std::optional<T> optional_at(const nb::dict& dict, const char* key) {
  const nb::object value = at(dict, key);
  return value.is_none() ? std::nullopt : std::optional<T>(nb::cast<T>(value));
}

/// Filled where it stays: g++ 12 doubts an optional that is moved with its content.
void read_content(nb::handle object, AttentionContent& content) {
  if (object.is_none()) return;
  const auto dict = nb::cast<nb::dict>(object);
  const auto& rotary = nb::cast<const Rotary&>(dict["rotary"]);
  if (dict.contains("gamma")) {
    content.emplace<XposContent>(rotary, nb::cast<double>(dict["gamma"]), nb::cast<double>(dict["scale_base"]));
    return;
  }
  auto& rotated = content.emplace<RotaryContent>(rotary, value_at(dict, "keys_rotated", false) ? KeyState::rotated : KeyState::unrotated);
  const nb::object map = at(dict, "map");
  if (!map.is_none()) rotated.map = read<PositionMap>(map, "map");
}

TableRows rows_of(const nb::dict& dict) {
  const nb::object bias = at(dict, "rows");
  if (!bias.is_none()) return nb::cast<const Bias&>(bias);
  return ClipRows{.left = nb::cast<std::int64_t>(dict["left"]),
                  .right = nb::cast<std::int64_t>(dict["right"]),
                  .outside = value_at(dict, "zero_outside", false) ? OutsideRows::zero : OutsideRows::clamp};
}

TableSide side_of(const std::string& name) {
  if (name == "query") return TableSide::query;
  return name == "key" ? TableSide::key : TableSide::value;
}

Window window_of(nb::handle pair) { return {nb::cast<std::int64_t>(pair[0]), nb::cast<std::int64_t>(pair[1])}; }

}  // namespace

ConstTensorView AttentionCall::tensor(nb::handle object, const char* name) {
  if (object.is_none()) return {};
  return tensor_of(arrays_.emplace_back(array_of(object, name, Access::read)), name);
}

TensorView AttentionCall::output(nb::handle object, const char* name) {
  if (object.is_none()) return {};
  return tensor_of(arrays_.emplace_back(array_of(object, name, Access::write)), name);
}

Positions AttentionCall::positions(nb::handle object, const char* name) {
  if (PyLong_Check(object.ptr()) != 0) return positions_from(nb::cast<std::int64_t>(object));
  return positions_of(arrays_.emplace_back(array_of(object, name, Access::read)), name);
}

BiasTerm AttentionCall::bias_term(const nb::dict& dict) {
  Bias bias = nb::cast<const Bias&>(dict["bias"]);
  const nb::object parameters = at(dict, "parameters");
  if (!parameters.is_none()) bias = value_of(bias.with_parameters(reals_.emplace_back(parameters, "parameters").get()));
  return {.bias = std::move(bias), .first_head = value_at<std::int64_t>(dict, "first_head", 0), .gate = tensor(at(dict, "gate"), "gate")};
}

TableTerm AttentionCall::table_term(const nb::dict& dict) {
  return {.side = side_of(nb::cast<std::string>(dict["side"])),
          .table = tensor(dict["table"], "table"),
          .rows = rows_of(dict),
          .features = tensor(at(dict, "features"), "features"),
          .shift = tensor(at(dict, "shift"), "shift"),
          .scale = optional_at<double>(dict, "scale")};
}

SegmentTerm AttentionCall::segment_term(const nb::dict& dict) {
  return {.table = tensor(dict["table"], "table"),
          .shift = tensor(at(dict, "shift"), "shift"),
          .query_segments = positions(dict["query_segments"], "query_segments"),
          .key_segments = positions(dict["key_segments"], "key_segments"),
          .scale = optional_at<double>(dict, "scale")};
}

AttentionTerm AttentionCall::term(const nb::dict& dict) {
  const auto kind = nb::cast<std::string>(dict["kind"]);
  if (kind == "bias") return bias_term(dict);
  if (kind == "table") return table_term(dict);
  if (kind == "segment") return segment_term(dict);
  if (kind == "grid") {
    return GridTerm{.window = window_of(dict["window"]),
                    .class_token = value_at(dict, "class_token", false) ? ClassToken::first : ClassToken::absent,
                    .table = tensor(dict["table"], "table")};
  }
  if (kind == "decomposed") {
    return DecomposedTerm{.query_grid = window_of(dict["query_grid"]),
                          .key_grid = window_of(dict["key_grid"]),
                          .rows_h = tensor(dict["rows_h"], "rows_h"),
                          .rows_w = tensor(dict["rows_w"], "rows_w"),
                          .scale = value_at(dict, "scale", 1.0)};
  }
  if (kind == "dense") return DenseTerm{.bias = tensor(dict["bias"], "bias")};
  if (kind == "cope") {
    return CopeTerm{
        .table = tensor(dict["table"], "table"), .gate_scale = value_at(dict, "gate_scale", 1.0), .scale = value_at(dict, "scale", 1.0)};
  }
  raise(PyExc_ValueError, "attention: a term is of kind '" + kind + "', wanted one of the library's");
}

void AttentionCall::read_visibility(const nb::dict& dict) {
  Visibility& visibility = spec.visibility;
  visibility.mask = value_at(dict, "causal", false) ? Mask::causal : Mask::full;
  visibility.left = optional_at<std::int64_t>(dict, "left");
  visibility.right = optional_at<std::int64_t>(dict, "right");
  visibility.prefix = integers_.emplace_back(at(dict, "prefix"), "prefix").get();
  visibility.query_starts = integers_.emplace_back(at(dict, "query_starts"), "query_starts").get();
  visibility.key_starts = integers_.emplace_back(at(dict, "key_starts"), "key_starts").get();
  const nb::object mask = at(dict, "key_mask");
  if (mask.is_none()) return;
  const Array& array = arrays_.emplace_back(array_of(mask, "key_mask", Access::read));
  if (array.dtype.bits != 8 || array.ndim != 2) raise(PyExc_TypeError, "key_mask: wanted (B, Tk) of bool or uint8");
  visibility.key_mask = {static_cast<const std::uint8_t*>(array.data), {array.strides[0], array.strides[1]}};
  mask_shape_ = {array.shape[0], array.shape[1]};
}

void AttentionCall::check_mask(const AttentionInputs& inputs) const {
  const std::array<std::int64_t, 2> wanted = {inputs.k.shape[0], inputs.k.shape[1]};
  if (spec.visibility.key_mask.data == nullptr || mask_shape_ == wanted) return;
  const auto text = [](const std::array<std::int64_t, 2>& s) { return "(" + std::to_string(s[0]) + ", " + std::to_string(s[1]) + ")"; };
  raise(PyExc_ValueError, "attention: key_mask has shape " + text(mask_shape_) + ", wanted " + text(wanted));
}

AttentionCall::AttentionCall(nb::dict dict) {
  read_content(at(dict, "content"), spec.content);
  spec.content_shift = tensor(at(dict, "content_shift"), "content_shift");
  const nb::object terms = at(dict, "terms");
  if (!terms.is_none()) {
    for (const nb::handle item : terms) spec.terms.push_back(term(nb::cast<nb::dict>(item)));
  }
  spec.scale = optional_at<double>(dict, "scale");
  spec.softcap = value_at(dict, "softcap", 0.0);
  spec.sinks = tensor(at(dict, "sinks"), "sinks");
  read_visibility(dict);
  const nb::object queries = at(dict, "query_positions");
  const nb::object keys = at(dict, "key_positions");
  if (!queries.is_none()) spec.query_positions = positions(queries, "query_positions");
  if (!keys.is_none()) spec.key_positions = positions(keys, "key_positions");
  spec.skip = value_at(dict, "skip", false) ? TileSkip::certified : TileSkip::none;
}

void AttentionCall::set_gradients(nb::handle list) {
  if (list.is_none()) return;
  for (const nb::handle item : list) {
    const auto dict = nb::cast<nb::dict>(item);
    TermGradient& gradient = gradients.emplace_back();
    gradient.table = output(at(dict, "table"), "table gradient");
    gradient.second = output(at(dict, "second"), "rows_w gradient");
    gradient.features = output(at(dict, "features"), "features gradient");
    gradient.shift = output(at(dict, "shift"), "shift gradient");
    const nb::object parameters = at(dict, "parameters");
    if (!parameters.is_none()) {
      const std::span<double> sums = reals_.emplace_back(parameters, "parameters gradient", Access::write).get();
      gradient.parameters = view(sums.data(), {1, 1, 1, static_cast<std::int64_t>(sums.size())});
    }
  }
}

}  // namespace phasor::python
