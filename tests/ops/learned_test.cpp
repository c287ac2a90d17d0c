// SPDX-License-Identifier: Apache-2.0
// Learned tables: lookup in every dtype and stride, the gradient, hierarchical and resized tables, files, and positions made for them.
#include "phasor/learned.hpp"

#include <cmath>
#include <numeric>

#include "spec/safetensors_bytes.hpp"
#include "tensor.hpp"
#include "tolerance.hpp"

namespace phasor::test {
namespace {

class Learned : public EveryTarget {};

void expect_message(const Status& status, const std::string& wanted) {
  EXPECT_FALSE(status.ok()) << wanted;
  EXPECT_EQ(status.message(), wanted);
}

/// One addition in the arithmetic type of x, one rounding.
template <class T, class E>
void expect_lookup() {
  using V = typename Element<T>::Value;
  const std::int64_t d = 21;
  Tensor<E> table({1, 9, 1, d}, {0, d + 4, 0, 1}, 2);
  table.with_numbers(0, d, 7);
  const std::vector<std::int32_t> list = {-1, 0, 6, 3, 3, 2, 5, 1};
  Tensor<T> x({2, 4, 1, d}, {d + 1, 2 * (d + 1), 3, 1}, 3);
  x.with_numbers(0, d);
  Tensor<T> wanted = x;
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t t = 0; t < 4; ++t) {
      for (std::int64_t c = 0; c < d; ++c) {
        const V row = static_cast<V>(Element<E>::widen(table.at(0, list[static_cast<std::size_t>(b * 4 + t)] + 2, 0, c)));
        wanted.at(b, t, 0, c) = Element<T>::narrow(Element<T>::widen(x.at(b, t, 0, c)) + row);
      }
    }
  }
  Tensor<T> out({2, 4, 1, d}, 4);
  ASSERT_TRUE(lookup_add({x.view(), out.view()}, table.view(), positions(list.data(), 2, 4), {.offset = 2}).ok());
  ASSERT_TRUE(lookup_add(x.view(), table.view(), positions(list.data(), 2, 4), {.offset = 2}).ok());
  EXPECT_TRUE(same_bits(x.memory, wanted.memory));
  for (std::int64_t i = 0; i < 8; ++i) {
    for (std::int64_t c = 0; c < d; ++c)
      EXPECT_EQ(Element<T>::bits(out.at(i / 4, i % 4, 0, c)), Element<T>::bits(x.at(i / 4, i % 4, 0, c)));
  }
}

TEST_F(Learned, rows_are_added_in_every_dtype_of_tensor_and_table) {
  on_every_target([] {
    for_each_dtype([](auto of_x) {
      for_each_dtype([](auto of_table) {
        using T = typename decltype(of_x)::type;
        using E = typename decltype(of_table)::type;
        if constexpr (std::is_same_v<T, double> || !std::is_same_v<E, double>) expect_lookup<T, E>();
      });
    });
  });
}

TEST_F(Learned, a_table_wider_than_a_block_is_added_whole) {
  on_every_target([] {
    Tensor<float> table({1, 2, 1, 5003}, 1);
    table.with_numbers(0, 5003);
    Tensor<float> x({1, 1, 1, 5003}, 2);
    x.with_numbers(0, 5003, 9);
    Tensor<float> wanted = x;
    for (std::int64_t c = 0; c < 5003; ++c) wanted.at(0, 0, 0, c) += table.at(0, 1, 0, c);
    ASSERT_TRUE(lookup_add(x.view(), table.view(), positions_from(1)).ok());
    EXPECT_TRUE(same_bits(x.memory, wanted.memory));
  });
}

TEST_F(Learned, a_position_outside_the_table_names_its_length_and_writes_nothing) {
  Tensor<float> table({1, 512, 1, 4}, 1);
  Tensor<float> x({2, 3, 1, 4}, 2);
  const Tensor<float> before = x;
  const std::vector<std::int64_t> list = {0, 1, 2, 3, 512, 5};
  expect_message(lookup_add(x.view(), table.view(), positions(list.data(), 2, 3)),
                 "lookup_add: token 1 of batch row 1 is at position 512, the table has 512 rows, 0 to 511");
  expect_message(lookup_add(x.view(), table.view(), positions_from(-3), {.offset = 2}),
                 "lookup_add: token 0 of batch row 0 is at position -3 + 2, the table has 512 rows, 0 to 511");
  expect_message(lookup_add(x.view(), table.view(), positions_from(std::numeric_limits<std::int64_t>::max()), {.offset = 1}),
                 "lookup_add: token 0 of batch row 0 is at position 9223372036854775807 + 1, the table has 512 rows, 0 to 511");
  const std::vector<double> fractions(3, 0.5);
  expect_message(lookup_add(x.view(), table.view(), positions(fractions.data(), 3)),
                 "lookup_add: positions are f64, wanted i32 or i64: a table has whole rows");
  EXPECT_TRUE(same_bits(x.memory, before.memory));
}

TEST_F(Learned, tables_that_do_not_fit_say_so) {
  Tensor<float> table({1, 5, 1, 4}, 1);
  Tensor<double> doubles({1, 5, 1, 4}, 1);
  Tensor<float> grid({2, 5, 1, 4}, 1);
  Tensor<float> x({2, 3, 1, 6}, 2);
  Tensor<float> y({1, 3, 1, 4}, 2);
  expect_message(lookup_add(x.view(), table.view(), positions_from(0)), "lookup_add: x has 6 channels, the encoding has 4");
  expect_message(lookup_add(y.view(), doubles.view(), positions_from(0)), "lookup_add: table is f64 and x is f32, wanted f32, f16 or bf16");
  expect_message(lookup_add(y.view(), grid.view(), positions_from(0)),
                 "lookup_add: table has shape (2, 5, 1, 4), wanted (1, rows, 1, channels)");
  expect_message(lookup_add(y.view(), std::span<const ConstTensorView>(), positions_from(0)),
                 "lookup_add: there are 0 tables, wanted 1 to 4");
  TensorView own = table.view();
  own.shape[1] = 3;
  expect_message(lookup_add(own, table.view(), positions_from(0)), "lookup_add: table overlaps x's output, wanted memory apart");
}

/// A runner that goes backwards: results must not depend on it.
void backwards(void* /*context*/, std::int64_t tasks, void (*task)(void*, std::int64_t), void* task_context) {
  for (std::int64_t i = tasks; i-- > 0;) task(task_context, i);
}

TEST_F(Learned, the_gradient_is_summed_in_the_order_of_the_tokens_whatever_the_runner) {
  for_each_dtype([](auto tag) {
    using T = typename decltype(tag)::type;
    Tensor<T> gradient({3, 50, 1, 5}, {5 * 50 + 3, 6, 1, 1}, 1);
    gradient.with_numbers(0, 5);
    Random random(4);
    std::vector<std::int64_t> list(150);
    for (std::int64_t& p : list) p = static_cast<std::int64_t>(random.bits() % 200) - 1;
    Tensor<T> table({1, 200, 1, 5}, {0, 7, 0, 1}, 2);
    table.with_numbers(0, 5);
    Tensor<T> wanted = table;
    for (std::int64_t row = 0; row < 200; ++row) {
      for (std::int64_t c = 0; c < 5; ++c) {
        double sum = 0;
        for (std::size_t i = 0; i < 150; ++i) {
          const auto token = static_cast<std::int64_t>(i);
          if (list[i] + 1 == row) sum += static_cast<double>(Element<T>::widen(gradient.at(token / 50, token % 50, 0, c)));
        }
        const double before = static_cast<double>(Element<T>::widen(wanted.at(0, row, 0, c)));
        wanted.at(0, row, 0, c) = Element<T>::narrow(static_cast<typename Element<T>::Value>(before + sum));
      }
    }
    Tensor<T> other = table;
    ASSERT_TRUE(scatter_gradient(table.view(), gradient.view(), positions(list.data(), 3, 50), {.offset = 1}).ok());
    ASSERT_TRUE(
        scatter_gradient(other.view(), gradient.view(), positions(list.data(), 3, 50), {.offset = 1, .execution = {.runner = {backwards}}})
            .ok());
    EXPECT_TRUE(same_bits(table.memory, wanted.memory));
    EXPECT_TRUE(same_bits(other.memory, wanted.memory));
  });
}

TEST_F(Learned, a_gradient_that_does_not_fit_says_so) {
  Tensor<float> table({1, 5, 1, 4}, 1);
  Tensor<float> gradient({2, 3, 1, 4}, 2);
  Tensor<float> narrow({2, 3, 1, 3}, 2);
  expect_message(scatter_gradient(table.view(), narrow.view(), positions_from(0)),
                 "scatter_gradient: table_gradient has 4 channels, gradient has 3");
  expect_message(scatter_gradient(table.view(), gradient.view(), positions_from(3)),
                 "scatter_gradient: token 2 of batch row 0 is at position 5, the table has 5 rows, 0 to 4");
}

TEST_F(Learned, the_first_rows_of_a_hierarchical_table_are_the_table_and_the_rest_follow_su) {
  for_each_dtype([](auto tag) {
    using T = typename decltype(tag)::type;
    Tensor<T> table({1, 7, 1, 5}, {0, 6, 0, 1}, 3);
    table.with_numbers(0, 5);
    Tensor<T> out({1, 49, 1, 5}, 4);
    ASSERT_TRUE(fill_hierarchical(out.view(), table.view()).ok());
    const auto p = [&](std::int64_t row, std::int64_t c) { return static_cast<long double>(Element<T>::widen(table.at(0, row, 0, c))); };
    const long double alpha = 0.4L;
    const auto u = [&](std::int64_t row, std::int64_t c) { return (p(row, c) - alpha * p(0, c)) / (1 - alpha); };
    for (std::int64_t i = 0; i < 49 * 5; ++i) {
      const std::int64_t row = i / 5;
      const std::int64_t c = i % 5;
      const T is = out.at(0, row, 0, c);
      if (row < 7) {
        EXPECT_EQ(Element<T>::bits(is), Element<T>::bits(table.at(0, row, 0, c)));
      }
      const long double truth = alpha * u(row / 7, c) + (1 - alpha) * u(row % 7, c);
      // Below 16: half an ulp there, and a few roundings of float64.
      const double error = 4 * tolerance_of(dtype_of<T>).epsilon + 16 * tolerance_of(DType::f64).epsilon;
      EXPECT_NEAR(static_cast<double>(Element<T>::widen(is)), static_cast<double>(truth), error) << i;
    }
  });
}

TEST_F(Learned, hierarchical_tables_that_do_not_fit_say_so) {
  Tensor<float> table({1, 3, 1, 2}, 1);
  Tensor<float> out({1, 10, 1, 2}, 1);
  Tensor<double> doubles({1, 9, 1, 2}, 1);
  Tensor<float> fits({1, 9, 1, 2}, 1);
  expect_message(fill_hierarchical(out.view(), table.view()), "fill_hierarchical: out has 10 rows, wanted at most 3 x 3");
  expect_message(fill_hierarchical(doubles.view(), table.view()), "fill_hierarchical: out is f64, the table is f32, wanted one dtype");
  expect_message(fill_hierarchical(fits.view(), table.view(), 0.5), "fill_hierarchical: alpha is 0.5, wanted between 0 and 1, not 0.5");
  expect_message(fill_hierarchical(fits.view(), table.view(), 1), "fill_hierarchical: alpha is 1, wanted between 0 and 1, not 0.5");
}

TEST_F(Learned, a_table_resized_to_its_own_size_stays_as_it_is) {
  for (const Resampling::Kernel kernel : {Resampling::Kernel::linear, Resampling::Kernel::cubic}) {
    for (const bool align : {false, true}) {
      Tensor<BFloat16> table({3, 5, 1, 4}, {29, 5, 0, 1}, 1);
      table.with_numbers(0, 4);
      Tensor<BFloat16> out({3, 5, 1, 4}, 2);
      ASSERT_TRUE(resample_table(out.view(), table.view(), {kernel, align}).ok());
      for (std::int64_t i = 0; i < 60; ++i) EXPECT_EQ(out.at(i / 20, i / 4 % 5, 0, i % 4).bits, table.at(i / 20, i / 4 % 5, 0, i % 4).bits);
    }
  }
  Tensor<float> table({3, 5, 1, 4}, 1);
  Tensor<float> narrow({3, 5, 1, 3}, 1);
  Tensor<float> none({0, 5, 1, 4}, 1);
  expect_message(resample_table(narrow.view(), table.view()), "resample_table: out has 3 channels, the table has 4");
  expect_message(resample_table(table.view(), none.view()), "resample_table: table is empty, wanted at least one row and column");
  expect_message(resample_table(table.view(), table.view()), "resample_table: out overlaps the table, wanted memory apart");
}

TEST_F(Learned, a_table_is_read_from_a_safetensors_file_by_its_name) {
  const Folder folder;
  const float values[6] = {1, -2, 3.5F, 0, 7, -0.125F};
  const std::string data(reinterpret_cast<const char*>(values), sizeof values);
  const std::string header =
      R"({"wpe.weight":{"dtype":"F32","shape":[1,3,2],"data_offsets":[0,24]},"ids":{"dtype":"I64","shape":[1,2],"data_offsets":[24,40]},)"
      R"("flat":{"dtype":"BF16","shape":[2],"data_offsets":[40,44]}})";
  const std::string path = folder.file("model.safetensors", safetensors_bytes(header, data + std::string(20, '\1')));
  const Result<LearnedTable> table = read_learned_table(path, "wpe.weight");
  ASSERT_TRUE(table.ok()) << table.status().message();
  EXPECT_EQ(table->rows, 3);
  EXPECT_EQ(table->width, 2);
  std::vector<float> x(4, 0);
  ASSERT_TRUE(lookup_add(view(x.data(), {1, 2, 1, 2}), table->view(), positions_from(1)).ok());
  EXPECT_EQ(x, (std::vector<float>{3.5F, 0, 7, -0.125F}));
  expect_message(read_learned_table(path, "wte.weight").status(),
                 "read_learned_table: there is no tensor wte.weight among the 3 of the file");
  expect_message(read_learned_table(path, "ids").status(), "read_learned_table: ids is I64, wanted F32, F64, F16 or BF16");
  expect_message(read_learned_table(path, "flat").status(), "read_learned_table: flat has shape (2), wanted (rows, channels)");
  EXPECT_FALSE(read_learned_table(folder.file("none"), "flat").ok());
  EXPECT_FALSE(read_learned_table(folder.file("bad", "short"), "flat").ok());
}

TEST_F(Learned, abacus_counts_the_digits_of_every_run) {
  const std::vector<std::int32_t> ids = {12, 1, 2, 99, 3, 1, 1, 99, 99, 2, 2, 2, 12, 12, 1, 3};
  const std::vector<std::int32_t> digits = {1, 2, 3};
  std::vector<std::int64_t> out(16);
  ASSERT_TRUE(fill_abacus(positions(out.data(), 2, 8), {.input_ids = ids, .digits = digits}).ok());
  EXPECT_EQ(out, (std::vector<std::int64_t>{0, 1, 2, 0, 1, 2, 3, 0, 0, 1, 2, 3, 0, 0, 1, 2}));
  ASSERT_TRUE(fill_abacus(positions(out.data(), 2, 8), {.input_ids = ids, .digits = digits, .offset = 40}).ok());
  EXPECT_EQ(out, (std::vector<std::int64_t>{0, 41, 42, 0, 41, 42, 43, 0, 0, 41, 42, 43, 0, 0, 41, 42}));
  expect_message(fill_abacus(positions(out.data(), 2, 8), {.input_ids = ids, .digits = digits, .offset = -1}),
                 "fill_abacus: offset is -1, wanted 0 or above");
  expect_message(fill_abacus(positions(out.data(), 2, 8), {.input_ids = ids}),
                 "fill_abacus: digits is empty, wanted the token ids of the digits");
  expect_message(fill_abacus(positions(out.data(), 1, 8), {.input_ids = ids, .digits = digits}),
                 "fill_abacus: input_ids has 16 elements, wanted 8");
}

TEST_F(Learned, detr_positions_that_do_not_fit_say_so) {
  std::vector<std::int64_t> out(24, 9);
  const std::vector<std::uint8_t> mask = {1, 1, 2, 1};
  expect_message(fill_detr(positions(out.data(), 1, 1, 4), {.rows = 2, .columns = 2}), "fill_detr: out has 1 axes, wanted 2 (row, column)");
  expect_message(fill_detr(positions(out.data(), 2, 1, 4), {.rows = 2, .columns = 3}), "fill_detr: out has 4 tokens, wanted 6");
  expect_message(fill_detr(positions(out.data(), 2, 1, 4), {.rows = 2, .columns = 2, .normalised = true}),
                 "fill_detr: out holds integers, wanted f64 for normalised positions");
  expect_message(fill_detr(positions(out.data(), 2, 1, 4), {.rows = 2, .columns = 2, .mask = mask}),
                 "fill_detr: mask has 2 at 2, wanted 0 or 1");
  expect_message(fill_detr(positions(out.data(), 2, 2, 4), {.rows = 2, .columns = 2, .mask = mask}),
                 "fill_detr: mask has 4 elements, wanted 8");
  EXPECT_EQ(out, std::vector<std::int64_t>(24, 9));
}

TEST_F(Learned, a_table_of_a_file_that_is_not_there_is_not_found) {
  const Status status = read_learned_table("/nowhere/model.safetensors", "wpe.weight").status();
  EXPECT_EQ(status.kind(), ErrorKind::not_found) << status.message();
}

TEST_F(Learned, roberta_opt_and_bloom_rows_come_from_the_mask) {
  Tensor<float> table({1, 8, 1, 1}, 1);
  for (std::int64_t r = 0; r < 8; ++r) table.at(0, r, 0, 0) = static_cast<float>(r);
  const std::vector<std::uint8_t> mask = {0, 1, 1, 1};
  const auto rows = [&](const MaskRule& rule, std::int64_t offset) {
    std::vector<std::int64_t> at(4);
    EXPECT_TRUE(fill_from_mask(positions(at.data(), 1, 4), {.values = mask}, rule).ok());
    std::vector<float> x(4, 0);
    EXPECT_TRUE(lookup_add(view(x.data(), {1, 4, 1, 1}), table.view(), positions(at.data(), 1, 4), {.offset = offset}).ok());
    return x;
  };
  EXPECT_EQ(rows(roberta_rule(1), 0), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(rows({.first = 0, .masked = -1}, 2), (std::vector<float>{1, 2, 3, 4}));  // OPT
  EXPECT_EQ(rows({}, 0), (std::vector<float>{0, 0, 1, 2}));                          // Bloom
}

}  // namespace
}  // namespace phasor::test
