// SPDX-License-Identifier: Apache-2.0
// Biases in C: specs both ways, values, gradients and inputs as in C++.
#include "specs/bias.hpp"
#include "c/support.hpp"
#include "phasor/phasor.h"
#include "phasor/phasor.hpp"
#include "serialised_specs.hpp"
#include "spec_bits.hpp"

namespace phasor::test {
namespace {

struct Free {
  void operator()(phasor_bias* bias) const { phasor_bias_free(bias); }
};
using BiasPointer = std::unique_ptr<phasor_bias, Free>;

BiasPointer made(const phasor_bias_spec& spec) {
  phasor_bias* bias = nullptr;
  succeeds([&](phasor_error* error) { return phasor_bias_make(&spec, &bias, error); });
  return BiasPointer(bias);
}

phasor_bias_spec spec_of(phasor_bias_kind kind, std::int64_t heads) {
  phasor_bias_spec spec = {};
  spec.size = sizeof spec;
  spec.kind = kind;
  spec.heads = heads;
  return spec;
}

std::string json_of(const phasor_bias* bias) {
  return text_by([&](phasor_text* text, phasor_error* error) { return phasor_bias_to_json(bias, text, error); });
}

TEST(CBias, every_spec_goes_through_structs_and_texts_unchanged) {
  std::size_t seen = 0;
  for (const auto& [name, any] : any_specs()) {
    const auto* spec = std::get_if<BiasSpec>(&any);
    if (spec == nullptr) continue;
    ++seen;
    const BiasPointer bias = made(c::c_bias_spec_of(*spec));
    ASSERT_NE(bias, nullptr) << name;
    const std::string json = json_of(bias.get());
    EXPECT_EQ(json, *spec_to_json(*spec)) << name;

    phasor_bias_spec given = {};
    given.size = sizeof given;
    succeeds([&](phasor_error* error) { return phasor_bias_get_spec(bias.get(), &given, error); });
    EXPECT_EQ(bits(AnySpec(c::bias_spec_of("test", &given))), bits(any)) << name;

    phasor_bias* again = nullptr;
    succeeds([&](phasor_error* error) { return phasor_bias_from_json(json.data(), json.size(), &again, error); });
    const BiasPointer from_json(again);
    std::vector<std::uint8_t> bytes(json.size());
    phasor_bytes binary = {bytes.data(), bytes.size(), 0};
    succeeds([&](phasor_error* error) { return phasor_bias_to_cbor(from_json.get(), &binary, error); });
    succeeds([&](phasor_error* error) { return phasor_bias_from_cbor(bytes.data(), binary.length, &again, error); });
    const BiasPointer from_cbor(again);
    EXPECT_EQ(json_of(from_cbor.get()), json);
  }
  EXPECT_GT(seen, 15U);
}

TEST(CBias, zeros_are_the_defaults) {
  const BiasSpec defaults[] = {Alibi{.heads = 5}, T5Buckets{.heads = 5}, DebertaBuckets{.heads = 5}, ShawClip{.heads = 5}};
  for (const BiasSpec& same : defaults) {
    EXPECT_EQ(json_of(made(spec_of(static_cast<phasor_bias_kind>(same.index()), 5)).get()), *spec_to_json(same));
  }
  EXPECT_EQ(json_of(made(spec_of(PHASOR_BIAS_SANDWICH, 5)).get()), *spec_to_json(BiasSpec(Sandwich{.heads = 5})));
  phasor_bias_spec v1 = spec_of(PHASOR_BIAS_DEBERTA, 2);
  v1.has_buckets = 1;
  EXPECT_EQ(json_of(made(v1).get()), *spec_to_json(BiasSpec(DebertaBuckets{.heads = 2, .buckets = 0})));
  const std::int64_t widths[] = {1, 2};
  const double parameters[] = {1, 2, 3, 4};
  phasor_bias_spec fire = spec_of(PHASOR_BIAS_FIRE, 0);
  fire.mlp = {widths, 2, parameters, 4, PHASOR_SILU, 0};
  EXPECT_EQ(json_of(made(fire).get()),
            *spec_to_json(BiasSpec(Fire{.mlp = {.widths = {1, 2}, .parameters = {1, 2, 3, 4}, .activation = Activation::silu}})));
}

TEST(CBias, values_and_gradients_of_every_scheme_are_those_of_cpp) {
  for (const auto& [name, spec] : every_bias()) {
    SCOPED_TRACE(name);
    const Bias same = *Bias::make(spec);
    const BiasPointer bias = made(c::c_bias_spec_of(spec));
    ASSERT_EQ(phasor_bias_heads(bias.get()), same.heads());
    EXPECT_EQ(phasor_bias_parameter_count(bias.get()), same.parameter_count());
    EXPECT_EQ(phasor_bias_rows(bias.get()), same.rows());
    for (const std::int64_t distance : {-9, -3, 0, 1, 5, 40}) EXPECT_EQ(phasor_bias_row(bias.get(), distance), same.row(distance));
    std::size_t count = 99;
    const double* slopes = phasor_bias_slopes(bias.get(), &count);
    EXPECT_EQ(std::vector<double>(slopes, slopes + count), same.slopes());

    const std::int64_t n = 5;
    const BiasPart part = {.first_head = 1, .query_position = 77};
    const CTensor<float> diagonal({2, n});
    std::vector<float> want(2 * n);
    ASSERT_TRUE(same.diagonal(view(want.data(), {1, 2, 1, n}), -2, part).ok());
    phasor_bias_diagonal_call along = {};
    along.size = sizeof along;
    along.out = diagonal.get();
    along.first_distance = -2;
    along.first_head = 1;
    along.query_position = 77;
    succeeds([&](phasor_error* error) { return phasor_bias_diagonal(bias.get(), &along, error); });
    EXPECT_EQ(diagonal.values, want);

    const auto parameters = static_cast<std::size_t>(same.parameter_count());
    std::vector<double> want_sum(parameters, 0.5);
    const CTensor<double> sum({same.parameter_count()}, want_sum);
    const CTensor<double> by({1, 2, 1, n}, numbers(2 * n, 5));
    ASSERT_TRUE(same.gradient(want_sum, view(by.values.data(), {1, 2, 1, n}), -2, part).ok());
    phasor_bias_gradient_call gradient = {};
    gradient.size = sizeof gradient;
    gradient.sum = sum.get();
    gradient.diagonal = by.get();
    gradient.first_distance = -2;
    gradient.first_head = 1;
    gradient.query_position = 77;
    succeeds([&](phasor_error* error) { return phasor_bias_gradient(bias.get(), &gradient, error); });
    EXPECT_EQ(sum.values, want_sum);
    if (parameters > 0) {
      EXPECT_NE(sum.values, std::vector<double>(parameters, 0.5));
    }
  }
}

TEST(CBias, blocks_are_those_of_cpp) {
  const Bias same = *Bias::make(T5Buckets{.heads = 3, .buckets = 10, .max_distance = 20, .table = numbers(30, 1)});
  const BiasPointer bias = made(c::c_bias_spec_of(same.spec()));
  const CTensor<std::int32_t> queries({2, 3}, {7, 0, 100, 5, 6, 7});
  const CTensor<double> out({2, 2, 3, 4});
  std::vector<double> want(48);
  ASSERT_TRUE(same.fill(view(want.data(), {2, 2, 3, 4}), positions(queries.values.data(), 2, 3), positions_from(4), 1).ok());
  phasor_bias_fill_call fill = {};
  fill.size = sizeof fill;
  fill.out = out.get();
  fill.queries.tensor = queries.get();
  fill.keys.offset = 4;
  fill.first_head = 1;
  succeeds([&](phasor_error* error) { return phasor_bias_fill(bias.get(), &fill, error); });
  EXPECT_EQ(out.values, want);
  fill.first_head = 2;
  EXPECT_NE(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_bias_fill(bias.get(), &fill, error); }), "");
  fill.out = nullptr;
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_bias_fill(bias.get(), &fill, error); }),
            "Bias::fill: out is null, wanted one");
  EXPECT_EQ(out.values, want);
}

TEST(CBias, takes_other_parameters_and_stays_as_it_was) {
  const BiasPointer alibi = made(spec_of(PHASOR_BIAS_ALIBI, 3));
  const std::string before = json_of(alibi.get());
  const double slopes[] = {0.25, -1, 3};
  phasor_bias* other = nullptr;
  succeeds([&](phasor_error* error) { return phasor_bias_with_parameters(alibi.get(), slopes, 3, &other, error); });
  const BiasPointer owned(other);
  std::size_t count = 0;
  const double* in_use = phasor_bias_slopes(other, &count);
  EXPECT_EQ(std::vector<double>(in_use, in_use + count), std::vector<double>(slopes, slopes + 3));
  EXPECT_EQ(json_of(alibi.get()), before);
  phasor_bias* none = nullptr;
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_bias_with_parameters(alibi.get(), slopes, 2, &none, error); }),
            "Bias::with_parameters: 2 parameters, the scheme has 3");
  EXPECT_EQ(
      failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_bias_with_parameters(alibi.get(), nullptr, 3, &none, error); }),
      "Bias::with_parameters: parameters is null and has 3 elements, wanted their memory");
  EXPECT_EQ(none, nullptr);
}

TEST(CBias, windows_and_sinusoids_are_those_of_cpp) {
  const phasor_window window = {3, 4};
  const CTensor<std::int32_t> out({12});
  std::vector<std::int32_t> want(12);
  ASSERT_TRUE(fill_window(positions(want.data(), 12), {.height = 3, .width = 4}).ok());
  succeeds([&](phasor_error* error) { return phasor_fill_window(out.get(), &window, error); });
  EXPECT_EQ(out.values, want);
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_fill_window(out.get(), nullptr, error); }),
            "fill_window: window is null, wanted one");

  const CTensor<std::int64_t> distances({3}, {-5, 2, 1000});
  for (const bool plain : {true, false}) {
    phasor_xl_sinusoids spec = {};
    spec.size = sizeof spec;
    spec.width = 6;
    XlSinusoids same = {.width = 6};
    if (!plain) {
      spec.base = 100;
      spec.order = PHASOR_XL_INTERLEAVED;
      spec.clamp = 4;
      same = {.width = 6, .base = 100, .order = XlOrder::interleaved, .clamp = 4};
    }
    const CTensor<double> rows({3, 6});
    std::vector<double> want_rows(18);
    ASSERT_TRUE(fill_xl_sinusoids(view(want_rows.data(), {1, 3, 1, 6}), same, positions(distances.values.data(), 3)).ok());
    succeeds([&](phasor_error* error) { return phasor_fill_xl_sinusoids(rows.get(), &spec, {distances.get(), 0}, error); });
    EXPECT_EQ(rows.values, want_rows);
    spec.order = 2;
    EXPECT_EQ(failure(PHASOR_INVALID,
                      [&](phasor_error* error) { return phasor_fill_xl_sinusoids(rows.get(), &spec, {distances.get(), 0}, error); }),
              "fill_xl_sinusoids: order is 2, wanted 0 to 1");
    EXPECT_EQ(rows.values, want_rows);
  }
}

TEST(CBias, bad_specs_are_refused) {
  phasor_bias* none = nullptr;
  const auto make = [&](const phasor_bias_spec& spec) {
    return failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_bias_make(&spec, &none, error); });
  };
  phasor_bias_spec spec = spec_of(PHASOR_BIAS_ALIBI, 4);
  spec.table_count = 3;
  spec.table = &spec.base;
  EXPECT_EQ(make(spec), "bias_make: table is given, and Alibi has none, wanted 0");
  spec = spec_of(PHASOR_BIAS_SWIN_V2, 4);
  EXPECT_EQ(make(spec), "bias_make: heads is given, and SwinV2 has none, wanted 0");
  spec = spec_of(PHASOR_BIAS_ALIBI, 4);
  spec.trained.width = 1;
  EXPECT_EQ(make(spec), "bias_make: trained.width is given, and Alibi has none, wanted 0");
  spec = spec_of(PHASOR_BIAS_DYNAMIC_MLP, 0);
  spec.mlp.reserved = 1;
  EXPECT_EQ(make(spec), "bias_make: mlp.reserved is given, and DynamicMlp has none, wanted 0");
  EXPECT_EQ(make(spec_of(10, 4)), "bias_make: the bias's kind is 10, wanted 0 to 9");
  spec = spec_of(PHASOR_BIAS_T5, 4);
  spec.buckets = 16;
  EXPECT_EQ(make(spec), "bias_make: buckets is given and has_buckets is 0, wanted 1");
  spec = spec_of(PHASOR_BIAS_ALIBI, 4);
  spec.slope_count = 4;
  EXPECT_EQ(make(spec), "bias_make: slopes is null and has 4 elements, wanted their memory");
  spec.slopes = reinterpret_cast<const double*>(&spec);
  spec.slope_count = SIZE_MAX / sizeof(double);
  EXPECT_EQ(make(spec), "bias_make: slopes has " + std::to_string(spec.slope_count) + " elements, wanted at most " +
                            std::to_string(PTRDIFF_MAX / sizeof(double)));
  spec = spec_of(PHASOR_BIAS_ALIBI, 4);
  spec.mlp.width_count = 2;
  EXPECT_EQ(make(spec), "bias_make: mlp.width_count is given, and Alibi has none, wanted 0");
  spec = spec_of(PHASOR_BIAS_ALIBI, 4);
  spec.form = 3;
  EXPECT_EQ(make(spec), "bias_make: form is 3, wanted 0 to 2");
  spec.size = 0;
  EXPECT_EQ(make(spec), "bias_make: the size of the bias is 0, wanted its sizeof, " + std::to_string(sizeof spec) + " in this version");
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_bias_make(nullptr, &none, error); }),
            "bias_make: the bias is null, wanted one");
  const phasor_bias_spec good = spec_of(PHASOR_BIAS_ALIBI, 4);
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_bias_make(&good, nullptr, error); }),
            "bias_make: bias is null, wanted one");
  const std::string rotary = *spec_to_json(RotarySpec{.head_dim = 8});
  EXPECT_NE(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_bias_from_json(rotary.data(), rotary.size(), &none, error); }),
            "");
  EXPECT_EQ(none, nullptr);
}

TEST(CBias, bad_arguments_are_refused) {
  const BiasPointer bias = made(spec_of(PHASOR_BIAS_ALIBI, 4));
  const CTensor<std::int32_t> whole({4, 3});
  phasor_bias_diagonal_call along = {};
  along.size = sizeof along;
  along.out = whole.get();
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_bias_diagonal(bias.get(), &along, error); }),
            "Bias::diagonal: out has a dtype of code 0, 32 bits, 1 lanes, wanted float32, float64, float16 or bfloat16");
  phasor_bias_gradient_call gradient = {};
  gradient.size = sizeof gradient;
  const CTensor<float> values({4, 3});
  gradient.diagonal = values.get();
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_bias_gradient(bias.get(), &gradient, error); }),
            "Bias::gradient: sum is null, wanted one");
  phasor_bias_spec small = {};
  small.size = 4;
  EXPECT_NE(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_bias_get_spec(bias.get(), &small, error); }), "");
  EXPECT_EQ(phasor_bias_heads(nullptr), 0);
  EXPECT_EQ(phasor_bias_parameter_count(nullptr), 0);
  EXPECT_EQ(phasor_bias_rows(nullptr), 0);
  EXPECT_EQ(phasor_bias_row(nullptr, 3), -1);
  std::size_t count = 9;
  EXPECT_EQ(phasor_bias_slopes(nullptr, &count), nullptr);
  EXPECT_EQ(count, 0U);
  phasor_bias_free(nullptr);
}

}  // namespace
}  // namespace phasor::test
