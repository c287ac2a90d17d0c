// SPDX-License-Identifier: Apache-2.0
// Properties of encodings in C: an encoding as rows, measured; adding against concatenating.
#include <span>
#include <string>
#include <vector>

#include "core/call.hpp"
#include "core/fields.hpp"
#include "core/lists.hpp"
#include "core/tensor.hpp"
#include "handles.hpp"
#include "phasor/additive_properties.hpp"
#include "phasor/c/additive.h"

namespace {

using namespace phasor;
using namespace phasor::c;

constexpr int kKinds = PHASOR_ENCODING_GIVEN + 1;

Status status_of_callback(phasor_status status, const phasor_error& error, std::int64_t position) {
  std::string message(error.message);
  if (message.empty())
    message = "encoding_row: the caller's function gave status " + std::to_string(status) + " at position " + std::to_string(position);
  switch (status) {
    case PHASOR_OK:
      return {};
    case PHASOR_UNSUPPORTED:
      return Status::unsupported(std::move(message));
    case PHASOR_NOT_FOUND:
      return Status::not_found(std::move(message));
    case PHASOR_OUT_OF_MEMORY:
      return Status::out_of_memory();
    default:
      return Status::invalid(std::move(message));
  }
}

EncodingRows given_rows(const char* where, const phasor_encoding_rows& c) {
  need(where, "row", c.row);
  return {c.name == nullptr ? "" : c.name, c.width,
          [fill = c.row, context = c.context](std::int64_t position, std::int64_t length, std::span<double> row) {
            phasor_error error{};
            const phasor_status status = fill(context, position, length, row.data(), &error);
            error.message[sizeof(error.message) - 1] = '\0';
            return status_of_callback(status, error, position);
          }};
}

void check_leftover(const phasor_encoding_rows& c, const Leftover& visit) {
  if (c.kind != PHASOR_ENCODING_SINUSOIDAL) visit("sinusoidal", c.sinusoidal);
  if (c.kind != PHASOR_ENCODING_LEARNED) visit("table", c.table);
  if (c.kind != PHASOR_ENCODING_BINARY && c.kind != PHASOR_ENCODING_GIVEN) visit("width", c.width);
  if (c.kind == PHASOR_ENCODING_GIVEN) return;
  visit("name", c.name);
  visit("row", c.row);
  visit("context", c.context);
}

EncodingRows rows_of_kind(const char* where, const phasor_encoding_rows& c) {
  switch (choice_of<phasor_encoding_kind>(where, "the encoding's kind", c.kind, kKinds)) {
    case PHASOR_ENCODING_SINUSOIDAL:
      return sinusoidal_rows(need(where, "sinusoidal", c.sinusoidal)->value);
    case PHASOR_ENCODING_LEARNED:
      return learned_rows(tensor_of(where, "table", need(where, "table", c.table)));
    case PHASOR_ENCODING_RAW_INDEX:
      return raw_index_rows();
    case PHASOR_ENCODING_SCALED_INDEX:
      return scaled_index_rows();
    case PHASOR_ENCODING_BINARY:
      return binary_rows(c.width);
    default:
      return given_rows(where, c);
  }
}

EncodingRows encoding_of(const char* where, const phasor_encoding_rows* encoding) {
  const phasor_encoding_rows c = known(where, "the encoding", need(where, "the encoding", encoding));
  EncodingRows rows = rows_of_kind(where, c);
  check_leftover(c, Leftover(where, "an encoding of " + rows.name));
  if (rows.width < 1) fail(std::string(where) + ": the encoding's width is " + std::to_string(rows.width) + ", wanted 1 or more");
  return rows;
}

phasor_encoding_properties c_properties_of(const EncodingProperties& is) {
  phasor_encoding_properties c{};
  c.smallest_gap = is.smallest_gap;
  c.largest = is.largest;
  c.growth = is.growth;
  c.relative_defect = is.relative_defect;
  c.unique = is.unique ? 1 : 0;
  c.independent_of_length = is.independent_of_length ? 1 : 0;
  c.bounded = is.bounded ? 1 : 0;
  c.relative = is.relative ? 1 : 0;
  c.defined_beyond = is.defined_beyond ? 1 : 0;
  return c;
}

}  // namespace

extern "C" {

phasor_status phasor_encoding_name(const phasor_encoding_rows* encoding, phasor_text* name, phasor_error* error) {
  return call(error, [&] { give("encoding_name", encoding_of("encoding_name", encoding).name, name); });
}

phasor_status phasor_encoding_width(const phasor_encoding_rows* encoding, int64_t* width, phasor_error* error) {
  constexpr const char* kWhere = "encoding_width";
  return call(error, [&] { *need(kWhere, "width", width) = encoding_of(kWhere, encoding).width; });
}

phasor_status phasor_encoding_row(const phasor_encoding_rows* encoding, int64_t position, int64_t length, phasor_doubles* row,
                                  phasor_error* error) {
  constexpr const char* kWhere = "encoding_row";
  return call(error, [&] {
    const EncodingRows rows = encoding_of(kWhere, encoding);
    const auto width = static_cast<std::size_t>(rows.width);
    need_room(kWhere, width, row);
    std::vector<double> values(width);  // the caller's stay as they are where there is no row
    must(rows.row(position, length, values));
    give(kWhere, values.data(), width, row);
  });
}

phasor_status phasor_measure_encoding(const phasor_measure_call* call_of, phasor_encoding_properties* properties,
                                      phasor_doubles* alternations, phasor_error* error) {
  constexpr const char* kWhere = "measure_encoding";
  return call(error, [&] {
    const phasor_measure_call c = known(kWhere, "the call", need(kWhere, "the call", call_of));
    const EncodingRows encoding = encoding_of(kWhere, c.encoding);
    check_given(kWhere, "properties", properties);
    if (alternations != nullptr) need_room(kWhere, static_cast<std::size_t>(encoding.width), alternations);
    const EncodingProperties is = value_of(measure_encoding(encoding, c.length, c.trained_length));
    if (alternations != nullptr) give(kWhere, is.alternations.data(), is.alternations.size(), alternations);
    give(kWhere, "properties", c_properties_of(is), properties);
  });
}

phasor_status phasor_compare_adding(const phasor_adding_call* call_of, phasor_doubles* added, phasor_doubles* concatenated,
                                    int64_t* extra_parameters, phasor_error* error) {
  constexpr const char* kWhere = "compare_adding";
  return call(error, [&] {
    const phasor_adding_call c = known(kWhere, "the call", need(kWhere, "the call", call_of));
    const auto x = span_of(kWhere, "x", c.x, c.width);
    const auto encoding = span_of(kWhere, "encoding", c.encoding, c.width);
    const AddingConcatenating both = value_of(compare_adding(x, encoding, span_of(kWhere, "weights", c.weights, c.weight_count)));
    need(kWhere, "the list", added)->count = both.added.size();
    need_room(kWhere, both.concatenated.size(), concatenated);  // before the first is written
    give(kWhere, both.added.data(), both.added.size(), added);
    give(kWhere, both.concatenated.data(), both.concatenated.size(), concatenated);
    if (extra_parameters != nullptr) *extra_parameters = both.extra_parameters;
  });
}

}  // extern "C"
