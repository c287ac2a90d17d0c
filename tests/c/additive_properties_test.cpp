// SPDX-License-Identifier: Apache-2.0
// Properties of encodings in C, of the library's and of a caller's function.
#include "phasor/additive_properties.hpp"
#include <cstdio>

#include "c/support.hpp"
#include "phasor/phasor.h"

namespace phasor::test {
namespace {

phasor_encoding_rows rows_of(phasor_encoding_kind kind) {
  phasor_encoding_rows rows = {};
  rows.size = sizeof rows;
  rows.kind = kind;
  return rows;
}

std::string name_of(const phasor_encoding_rows& rows) {
  return text_by([&](phasor_text* text, phasor_error* error) { return phasor_encoding_name(&rows, text, error); });
}

void expect_same(const phasor_encoding_rows& rows, const EncodingRows& same, std::int64_t length, std::int64_t trained_length) {
  SCOPED_TRACE(same.name);
  EXPECT_EQ(name_of(rows), same.name);
  std::int64_t width = 0;
  succeeds([&](phasor_error* error) { return phasor_encoding_width(&rows, &width, error); });
  ASSERT_EQ(width, same.width);
  std::vector<double> row(static_cast<std::size_t>(width));
  std::vector<double> want(row.size());
  phasor_doubles to = {row.data(), row.size(), 0};
  ASSERT_TRUE(same.row(3, 7, want).ok());
  succeeds([&](phasor_error* error) { return phasor_encoding_row(&rows, 3, 7, &to, error); });
  EXPECT_EQ(row, want);

  const EncodingProperties is = *measure_encoding(same, length, trained_length);
  phasor_measure_call call = {sizeof call, &rows, length, trained_length};
  phasor_encoding_properties properties = {};
  properties.size = sizeof properties;
  std::vector<double> alternations(row.size());
  phasor_doubles crossings = {alternations.data(), alternations.size(), 0};
  succeeds([&](phasor_error* error) { return phasor_measure_encoding(&call, &properties, &crossings, error); });
  EXPECT_EQ(properties.smallest_gap, is.smallest_gap);
  EXPECT_EQ(properties.largest, is.largest);
  EXPECT_EQ(properties.growth, is.growth);
  EXPECT_EQ(properties.relative_defect, is.relative_defect);
  EXPECT_EQ(properties.unique != 0, is.unique);
  EXPECT_EQ(properties.independent_of_length != 0, is.independent_of_length);
  EXPECT_EQ(properties.bounded != 0, is.bounded);
  EXPECT_EQ(properties.relative != 0, is.relative);
  EXPECT_EQ(properties.defined_beyond != 0, is.defined_beyond);
  EXPECT_EQ(alternations, is.alternations);
  properties.largest = -1;
  succeeds([&](phasor_error* error) { return phasor_measure_encoding(&call, &properties, nullptr, error); });
  EXPECT_EQ(properties.largest, is.largest);
}

TEST(CEncodings, measure_as_in_cpp) {
  const Sinusoidal sinusoidal = *Sinusoidal::make({.width = 6});
  phasor_sinusoidal_spec spec = {};
  spec.size = sizeof spec;
  spec.width = 6;
  phasor_sinusoidal* made = nullptr;
  succeeds([&](phasor_error* error) { return phasor_sinusoidal_make(&spec, &made, error); });
  phasor_encoding_rows rows = rows_of(PHASOR_ENCODING_SINUSOIDAL);
  rows.sinusoidal = made;
  expect_same(rows, sinusoidal_rows(sinusoidal), 17, 0);
  phasor_sinusoidal_free(made);

  const CTensor<float> table({20, 3}, floats(60));
  rows = rows_of(PHASOR_ENCODING_LEARNED);
  rows.table = table.get();
  expect_same(rows, learned_rows(view(table.values.data(), {1, 20, 1, 3})), 9, 20);
  expect_same(rows_of(PHASOR_ENCODING_RAW_INDEX), raw_index_rows(), 9, 12);
  expect_same(rows_of(PHASOR_ENCODING_SCALED_INDEX), scaled_index_rows(), 9, 12);
  rows = rows_of(PHASOR_ENCODING_BINARY);
  rows.width = 5;
  expect_same(rows, binary_rows(5), 17, 16);
}

struct Line {
  double slope = 1;
  std::int64_t end = 100;
};
phasor_status line(void* context, std::int64_t position, std::int64_t length, double* row, phasor_error* error) {
  const auto* by = static_cast<const Line*>(context);
  if (position >= by->end) {
    if (by->end == 2) std::snprintf(error->message, sizeof error->message, "line: beyond %d", 2);
    return by->end == 3 ? PHASOR_UNSUPPORTED : PHASOR_INVALID;
  }
  row[0] = by->slope * static_cast<double>(position);
  row[1] = static_cast<double>(length);
  return PHASOR_OK;
}

TEST(CEncodings, a_callers_function_is_measured_and_its_errors_come_back) {
  Line by = {.slope = 0.25, .end = 100};
  phasor_encoding_rows rows = rows_of(PHASOR_ENCODING_GIVEN);
  rows.width = 2;
  rows.name = "line";
  rows.row = line;
  rows.context = &by;
  const EncodingRows same = {"line", 2, [](std::int64_t position, std::int64_t length, std::span<double> row) {
                               if (position >= 100) return Status::invalid("beyond");
                               row[0] = 0.25 * static_cast<double>(position);
                               row[1] = static_cast<double>(length);
                               return Status();
                             }};
  expect_same(rows, same, 9, 60);

  phasor_measure_call call = {sizeof call, &rows, 9, 0};
  phasor_encoding_properties properties = {};
  properties.size = sizeof properties;
  properties.largest = -1;
  const auto measured = [&](phasor_status status) {
    return failure(status, [&](phasor_error* error) { return phasor_measure_encoding(&call, &properties, nullptr, error); });
  };
  by.end = 2;
  EXPECT_EQ(measured(PHASOR_INVALID), "line: beyond 2");
  by.end = 3;
  EXPECT_EQ(measured(PHASOR_UNSUPPORTED), "encoding_row: the caller's function gave status 2 at position 3");
  by.end = 100;
  call.length = 1;
  EXPECT_EQ(measured(PHASOR_INVALID), "measure_encoding: length is 1, wanted 2 to 4096");
  call.encoding = nullptr;
  EXPECT_EQ(measured(PHASOR_INVALID), "measure_encoding: the encoding is null, wanted one");
  call.encoding = &rows;
  call.length = 9;
  double one = 5;
  phasor_doubles short_list = {&one, 1, 0};
  EXPECT_EQ(failure(PHASOR_TOO_SMALL, [&](phasor_error* error) { return phasor_measure_encoding(&call, &properties, &short_list, error); }),
            "measure_encoding: the buffer has room for 1 numbers, wanted 2");
  EXPECT_EQ(short_list.count, 2U);
  EXPECT_EQ(one, 5);
  EXPECT_EQ(properties.largest, -1);
  by.end = 0;
  std::vector<double> row = {7, 7};
  phasor_doubles to = {row.data(), 2, 0};
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_encoding_row(&rows, 0, 9, &to, error); }),
            "encoding_row: the caller's function gave status 1 at position 0");
  EXPECT_EQ(row, (std::vector<double>{7, 7}));
}

TEST(CEncodings, bad_arguments_are_refused) {
  std::int64_t width = 9;
  const auto width_of = [&](const phasor_encoding_rows& rows) {
    return failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_encoding_width(&rows, &width, error); });
  };
  phasor_encoding_rows rows = rows_of(PHASOR_ENCODING_RAW_INDEX);
  rows.width = 3;
  EXPECT_EQ(width_of(rows), "encoding_width: width is given, and an encoding of raw index has none, wanted 0");
  EXPECT_EQ(width_of(rows_of(PHASOR_ENCODING_SINUSOIDAL)), "encoding_width: sinusoidal is null, wanted one");
  EXPECT_EQ(width_of(rows_of(PHASOR_ENCODING_LEARNED)), "encoding_width: table is null, wanted one");
  EXPECT_EQ(width_of(rows_of(PHASOR_ENCODING_BINARY)), "encoding_width: the encoding's width is 0, wanted 1 or more");
  EXPECT_EQ(width_of(rows_of(PHASOR_ENCODING_GIVEN)), "encoding_width: row is null, wanted one");
  EXPECT_EQ(width_of(rows_of(6)), "encoding_width: the encoding's kind is 6, wanted 0 to 5");
  rows.size = 1;
  EXPECT_EQ(width_of(rows),
            "encoding_width: the size of the encoding is 1, wanted its sizeof, " + std::to_string(sizeof rows) + " in this version");
  EXPECT_EQ(width, 9);
}

TEST(CEncodings, adding_is_compared_as_in_cpp) {
  const std::vector<double> x = {1, 0.1, -3};
  const std::vector<double> p = {0.3, 7, 1e-9};
  const std::vector<double> weights = {1, 2, 3, 4, 5.5, 6};
  const phasor_adding_call call = {sizeof call, x.data(), p.data(), 3, weights.data(), 6};
  const AddingConcatenating same = *compare_adding(x, p, weights);
  std::vector<double> sums(4, -1);
  phasor_doubles added = {sums.data(), 2, 0};
  phasor_doubles concatenated = {sums.data() + 2, 1, 0};
  std::int64_t extra = 0;
  const auto compare = [&](phasor_error* error) { return phasor_compare_adding(&call, &added, &concatenated, &extra, error); };
  EXPECT_EQ(failure(PHASOR_TOO_SMALL, compare), "compare_adding: the buffer has room for 1 numbers, wanted 2");
  EXPECT_EQ(added.count, 2U);
  EXPECT_EQ(concatenated.count, 2U);
  EXPECT_EQ(sums, std::vector<double>(4, -1));
  concatenated.capacity = 2;
  succeeds(compare);
  EXPECT_EQ(std::vector<double>(sums.begin(), sums.begin() + 2), same.added);
  EXPECT_EQ(std::vector<double>(sums.begin() + 2, sums.end()), same.concatenated);
  EXPECT_EQ(extra, same.extra_parameters);
  phasor_adding_call bad = call;
  bad.weight_count = 5;
  const auto refused = [&] {
    return failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_compare_adding(&bad, &added, &concatenated, nullptr, error); });
  };
  EXPECT_EQ(refused(), "compare_adding: weights has 5 elements, wanted a multiple of 3");
  bad.encoding = nullptr;
  EXPECT_EQ(refused(), "compare_adding: encoding is null and has 3 elements, wanted their memory");
}

}  // namespace
}  // namespace phasor::test
