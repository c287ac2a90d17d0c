// SPDX-License-Identifier: Apache-2.0
// Learned encodings in C: lookups, gradients, resized tables, tables of files, and the positions made for them.
#include <algorithm>

#include "c/support.hpp"
#include "phasor/learned.hpp"
#include "phasor/phasor.h"
#include "spec/safetensors_bytes.hpp"

namespace phasor::test {
namespace {

phasor_lookup lookup_of(const phasor_tensor* x, const phasor_tensor* const* tables, std::size_t count) {
  phasor_lookup lookup = {};
  lookup.size = sizeof lookup;
  lookup.x = x;
  lookup.tables = tables;
  lookup.table_count = count;
  return lookup;
}

TEST(CLearned, rows_are_added_as_in_cpp) {
  const CTensor<float> table({9, 5}, floats(45, 2));
  const CTensor<float> x({2, 3, 1, 5}, floats(30));
  const CTensor<float> out({2, 3, 1, 5});
  const CTensor<std::int32_t> at({2, 3}, {6, 0, 1, 1, 3, 5});
  const phasor_tensor* one[] = {table.get()};
  phasor_lookup lookup = lookup_of(x.get(), one, 1);
  lookup.out = out.get();
  lookup.positions.tensor = at.get();
  lookup.offset = 2;
  std::vector<float> want(30);
  ASSERT_TRUE(lookup_add({view(x.values.data(), {2, 3, 1, 5}), view(want.data(), {2, 3, 1, 5})}, view(table.values.data(), {1, 9, 1, 5}),
                         positions(at.values.data(), 2, 3), {.offset = 2})
                  .ok());
  succeeds([&](phasor_error* error) { return phasor_lookup_add(&lookup, error); });
  EXPECT_EQ(out.values, want);

  // One table for each axis, in place.
  const CTensor<float> rows({4, 2}, floats(8, 3));
  const phasor_tensor* two[] = {table.get(), rows.get()};
  const CTensor<float> wide({3, 7}, floats(21, 4));
  const CTensor<std::int64_t> axes({2, 1, 3}, {8, 0, 4, 3, 2, 1});
  phasor_lookup both = lookup_of(wide.get(), two, 2);
  both.positions.tensor = axes.get();
  want = wide.values;
  const ConstTensorView tables[] = {view(table.values.data(), {1, 9, 1, 5}), view(rows.values.data(), {1, 4, 1, 2})};
  ASSERT_TRUE(lookup_add(view(want.data(), {1, 3, 1, 7}), tables, positions(axes.values.data(), 2, 1, 3)).ok());
  succeeds([&](phasor_error* error) { return phasor_lookup_add(&both, error); });
  EXPECT_EQ(wide.values, want);

  const auto refused = [&](const phasor_lookup& bad) {
    return failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_lookup_add(&bad, error); });
  };
  const std::vector<float> before = out.values;
  lookup.offset = 3;
  EXPECT_NE(refused(lookup).find("the table"), std::string::npos) << refused(lookup);
  lookup.tables = nullptr;
  EXPECT_EQ(refused(lookup), "lookup_add: tables is null and has 1 elements, wanted their memory");
  one[0] = nullptr;
  lookup.tables = one;
  EXPECT_EQ(refused(lookup), "lookup_add: a table is null, wanted one");
  one[0] = table.get();
  phasor_tensor integers = *out.get();
  integers.dtype = {0, 32, 1};
  lookup.out = &integers;
  EXPECT_EQ(refused(lookup), "lookup_add: out has a dtype of code 0, 32 bits, 1 lanes, wanted float32, float64, float16 or bfloat16");
  lookup.x = nullptr;
  EXPECT_EQ(refused(lookup), "lookup_add: x is null, wanted one");
  lookup.size = 0;
  EXPECT_EQ(refused(lookup),
            "lookup_add: the size of the lookup is 0, wanted its sizeof, " + std::to_string(sizeof lookup) + " in this version");
  EXPECT_EQ(out.values, before);
}

TEST(CLearned, gradients_are_those_of_cpp) {
  const CTensor<float> gradient({2, 3, 1, 5}, floats(30));
  const CTensor<std::int32_t> at({2, 3}, {6, 0, 1, 1, 6, -1});
  CTensor<float> sum({8, 5}, floats(40, 2));
  phasor_scatter scatter = {};
  scatter.size = sizeof scatter;
  scatter.table_gradient = sum.get();
  scatter.gradient = gradient.get();
  scatter.positions.tensor = at.get();
  scatter.offset = 1;
  const std::vector<float> before = sum.values;
  for (const bool padding : {false, true}) {
    std::copy(before.begin(), before.end(), sum.values.begin());
    std::vector<float> want = before;
    ScatterOptions options = {.offset = 1};
    if (padding) {
      scatter.has_padding_row = 1;  // row 0: the token at -1
      options.padding_row = 0;
    }
    ASSERT_TRUE(scatter_gradient(view(want.data(), {1, 8, 1, 5}), view(gradient.values.data(), {2, 3, 1, 5}),
                                 positions(at.values.data(), 2, 3), options)
                    .ok());
    succeeds([&](phasor_error* error) { return phasor_scatter_gradient(&scatter, error); });
    EXPECT_EQ(sum.values, want);
    EXPECT_EQ(std::equal(before.begin(), before.begin() + 5, want.begin()), padding);
  }
  const auto refused = [&] {
    return failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_scatter_gradient(&scatter, error); });
  };
  const std::vector<float> after = sum.values;
  scatter.has_padding_row = 0;
  scatter.padding_row = 3;
  EXPECT_EQ(refused(), "scatter_gradient: padding_row is given and has_padding_row is 0, wanted 1");
  scatter.padding_row = 0;
  scatter.gradient = nullptr;
  EXPECT_EQ(refused(), "scatter_gradient: gradient is null, wanted one");
  EXPECT_EQ(sum.values, after);
}

TEST(CLearned, tables_become_longer_and_other_sizes_as_in_cpp) {
  const CTensor<float> table({4, 3}, floats(12));
  const CTensor<float> longer({11, 3});
  std::vector<float> want(33);
  for (const double alpha : {0.0, 0.3}) {
    const ConstTensorView from = view(table.values.data(), {1, 4, 1, 3});
    const TensorView to = view(want.data(), {1, 11, 1, 3});
    ASSERT_TRUE((alpha == 0 ? fill_hierarchical(to, from) : fill_hierarchical(to, from, alpha)).ok());
    succeeds([&](phasor_error* error) { return phasor_fill_hierarchical(longer.get(), table.get(), alpha, error); });
    EXPECT_EQ(longer.values, want) << alpha;
  }
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_fill_hierarchical(longer.get(), table.get(), 0.5, error); }),
            "fill_hierarchical: alpha is 0.5, wanted between 0 and 1, not 0.5");
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_fill_hierarchical(longer.get(), nullptr, 0, error); }),
            "fill_hierarchical: table is null, wanted one");
  EXPECT_EQ(longer.values, want);

  const CTensor<double> grid({2, 3, 1, 2}, {1, 2, 3, -4, 5, 6, 7, 8, -9, 10, 11, 12});
  const CTensor<double> resized({3, 5, 1, 2});
  std::vector<double> want_resized(30);
  std::vector<std::vector<double>> seen;
  for (const phasor_resampling_kernel kernel : {PHASOR_RESAMPLING_CUBIC, PHASOR_RESAMPLING_LINEAR}) {
    for (const bool align : {false, true}) {
      const phasor_resampling how = {sizeof how, kernel, align ? 1 : 0};
      ASSERT_TRUE(resample_table(view(want_resized.data(), {3, 5, 1, 2}), view(grid.values.data(), {2, 3, 1, 2}),
                                 {.kernel = kernel == PHASOR_RESAMPLING_CUBIC ? Resampling::Kernel::cubic : Resampling::Kernel::linear,
                                  .align_corners = align})
                      .ok());
      const bool by_default = kernel == PHASOR_RESAMPLING_CUBIC && !align;
      succeeds([&](phasor_error* error) { return phasor_resample_table(resized.get(), grid.get(), by_default ? nullptr : &how, error); });
      EXPECT_EQ(resized.values, want_resized);
      EXPECT_EQ(std::count(seen.begin(), seen.end(), want_resized), 0) << "options that make no difference";
      seen.push_back(want_resized);
    }
  }
  const phasor_resampling unknown = {sizeof unknown, 2, 0};
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_resample_table(resized.get(), grid.get(), &unknown, error); }),
            "resample_table: kernel is 2, wanted 0 to 1");
  EXPECT_EQ(resized.values, want_resized);
}

TEST(CLearned, a_table_is_read_from_a_file_and_lives_as_long_as_its_handle) {
  const Folder folder;
  const float values[6] = {1, -2, 3.5F, 0, 7, -0.125F};
  const std::string header =
      R"({"wpe.weight":{"dtype":"F32","shape":[1,3,2],"data_offsets":[0,24]},"half":{"dtype":"BF16","shape":[2,2],"data_offsets":[24,32]}})";
  const std::string data(reinterpret_cast<const char*>(values), sizeof values);
  const std::string path = folder.file("model.safetensors", safetensors_bytes(header, data + std::string(8, '\1')));
  phasor_learned_table* table = nullptr;
  succeeds([&](phasor_error* error) { return phasor_read_learned_table(path.c_str(), "wpe.weight", &table, error); });
  const phasor_tensor* tensor = phasor_learned_table_tensor(table);
  ASSERT_NE(tensor, nullptr);
  ASSERT_EQ(tensor->ndim, 2);
  EXPECT_EQ(tensor->shape[0], 3);
  EXPECT_EQ(tensor->shape[1], 2);
  const CTensor<float> x({2, 2});
  phasor_lookup lookup = lookup_of(x.get(), &tensor, 1);
  lookup.positions.offset = 1;
  succeeds([&](phasor_error* error) { return phasor_lookup_add(&lookup, error); });
  EXPECT_EQ(x.values, (std::vector<float>{3.5F, 0, 7, -0.125F}));
  phasor_learned_table_free(table);
  succeeds([&](phasor_error* error) { return phasor_read_learned_table(path.c_str(), "half", &table, error); });
  EXPECT_EQ(phasor_learned_table_tensor(table)->dtype.code, 4);
  EXPECT_EQ(phasor_learned_table_tensor(table)->dtype.bits, 16);
  phasor_learned_table_free(table);

  table = nullptr;
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_read_learned_table(path.c_str(), "wte", &table, error); }),
            "read_learned_table: there is no tensor wte among the 2 of the file");
  EXPECT_NE(failure(PHASOR_NOT_FOUND,
                    [&](phasor_error* error) { return phasor_read_learned_table(folder.file("none").c_str(), "wte", &table, error); }),
            "");
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_read_learned_table(nullptr, "wte", &table, error); }),
            "read_learned_table: path is null, wanted one");
  EXPECT_EQ(table, nullptr);
  EXPECT_EQ(phasor_learned_table_tensor(nullptr), nullptr);
  phasor_learned_table_free(nullptr);
}

TEST(CLearned, abacus_and_detr_positions_are_those_of_cpp) {
  const CTensor<std::int32_t> ids({2, 5}, {12, 1, 2, 99, 3, 1, 1, 99, 99, 2});
  const CTensor<std::int64_t> digits({3}, {1, 2, 3});
  phasor_abacus_tokens tokens = {sizeof tokens, ids.get(), digits.get(), 40};
  const CTensor<std::int32_t> out({2, 5});
  std::vector<std::int32_t> want(10);
  ASSERT_TRUE(fill_abacus(positions(want.data(), 2, 5), {.input_ids = ids.values, .digits = digits.values, .offset = 40}).ok());
  succeeds([&](phasor_error* error) { return phasor_fill_abacus(out.get(), &tokens, error); });
  EXPECT_EQ(out.values, want);
  tokens.digits = nullptr;
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_fill_abacus(out.get(), &tokens, error); }),
            "fill_abacus: digits is empty, wanted the token ids of the digits");
  EXPECT_EQ(out.values, want);

  const CTensor<std::uint8_t> mask({1, 2, 3}, {1, 1, 0, 1, 1, 0});
  for (const bool masked : {false, true}) {
    for (const bool normalised : {false, true}) {
      phasor_detr_grid grid = {};
      grid.size = sizeof grid;
      grid.rows = 2;
      grid.columns = 3;
      grid.mask = masked ? mask.get() : nullptr;
      grid.normalised = normalised ? 1 : 0;
      const CTensor<double> pixels({2, 1, 6});
      std::vector<double> want_pixels(12);
      DetrGrid same = {.rows = 2, .columns = 3, .normalised = normalised};
      if (masked) same.mask = mask.values;
      ASSERT_TRUE(fill_detr(positions(want_pixels.data(), 2, 1, 6), same).ok());
      succeeds([&](phasor_error* error) { return phasor_fill_detr(pixels.get(), &grid, error); });
      EXPECT_EQ(pixels.values, want_pixels);
      grid.reserved = 1;
      EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_fill_detr(pixels.get(), &grid, error); }),
                "fill_detr: `reserved` of the grid is 1, wanted 0");
    }
  }
}

}  // namespace
}  // namespace phasor::test
