// SPDX-License-Identifier: Apache-2.0
// Analysis in C: bitwise what the C++ functions give, and lists and matrices that are filled whole or not at all.
#include "phasor/analysis.hpp"

#include <array>
#include <cstring>
#include <limits>
#include <numeric>

#include "c/owned.hpp"
#include "phasor/phasor.hpp"
#include "specs/rotary.hpp"

namespace phasor::test {
namespace {

/// A spec in both languages: 7 of 9 pairs, an amplitude and a softmax scale that are not 1.
struct Both {
  Both()
      : spec{.head_dim = 18,
             .rotary_width = 14,
             .base = 500000,
             .scaling = YarnScaling{.factor = 4, .original_length = 4096, .mscale = 0.7, .mscale_all_dim = 0.5},
             .pairing = Pairing::interleaved},
        rotary(*Rotary::make(spec)),
        scaling(c::c_scaling_of(spec.scaling)),
        c_spec(c::c_spec_of(spec)) {
    c_spec.scaling = &scaling;
    handle = owned<phasor_rotary>([&](phasor_rotary** to, phasor_error* error) { return phasor_rotary_make(&c_spec, to, error); });
  }
  Both(const Both&) = delete;
  Both& operator=(const Both&) = delete;

  RotarySpec spec;
  Rotary rotary;
  phasor_scaling scaling;
  phasor_rotary_spec c_spec;
  Owned<phasor_rotary> handle;
};

/// Equal bit for bit, NaN too.
bool same(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0; }
bool same(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0);
}

/// EXPECTs that fn(matrix, error) tells the shape, writes nothing where one number is missing, and then gives `want`.
template <class Call>
void gives(const Matrix& want, const Call& fn) {
  const std::size_t count = want.values.size();
  phasor_matrix matrix = {};
  EXPECT_NE(failure(PHASOR_TOO_SMALL, [&](phasor_error* error) { return fn(&matrix, error); }).find(": the matrix has room for 0"),
            std::string::npos);
  EXPECT_EQ(matrix.rows, want.rows);
  EXPECT_EQ(matrix.columns, want.columns);
  std::vector<double> values(count, -7);
  matrix = {values.data(), count - 1, 0, 0};
  EXPECT_EQ(fn(&matrix, nullptr), PHASOR_TOO_SMALL);
  EXPECT_EQ(values, std::vector<double>(count, -7));
  matrix = {values.data(), count, 0, 0};
  succeeds([&](phasor_error* error) { return fn(&matrix, error); });
  EXPECT_TRUE(same(values, want.values));
  EXPECT_EQ(matrix.rows * matrix.columns, static_cast<std::int64_t>(count));
  EXPECT_EQ(fn(nullptr, nullptr), PHASOR_INVALID);
}
/// The same for numbers.
template <class Call>
void gives(const std::vector<double>& want, const Call& fn) {
  phasor_doubles list = {};
  EXPECT_EQ(fn(&list, nullptr), PHASOR_TOO_SMALL);
  ASSERT_EQ(list.count, want.size());
  std::vector<double> values(list.count);
  list = {values.data(), values.size(), 0};
  succeeds([&](phasor_error* error) { return fn(&list, error); });
  EXPECT_TRUE(same(values, want));
  EXPECT_EQ(fn(nullptr, nullptr), PHASOR_INVALID);
}

/// What fn(list, error) gives, in two calls.
template <class Item, class List, class Call>
std::vector<Item> items_by(const Call& fn) {
  List list = {};
  EXPECT_EQ(fn(&list, nullptr), PHASOR_TOO_SMALL);
  std::vector<Item> items(list.count);
  list.data = items.data();
  list.capacity = list.count;
  EXPECT_NE(failure(PHASOR_INVALID, [&](phasor_error* error) { return fn(&list, error); }).find("the size of an item is 0"),
            std::string::npos);
  list.item_size = sizeof(Item);
  succeeds([&](phasor_error* error) { return fn(&list, error); });
  EXPECT_EQ(list.count, items.size());
  return items;
}

TEST(CAnalysis, matrices_and_wavelengths) {
  const Both both;
  gives(*rotation_matrix(both.rotary, 12345),
        [&](phasor_matrix* to, phasor_error* error) { return phasor_rotation_matrix(both.handle.get(), 12345, to, error); });
  gives(*relative_matrix(both.rotary, 7, -3),
        [&](phasor_matrix* to, phasor_error* error) { return phasor_relative_matrix(both.handle.get(), 7, -3, to, error); });
  gives(wavelengths(both.rotary),
        [&](phasor_doubles* to, phasor_error* error) { return phasor_wavelengths(both.handle.get(), to, error); });
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  phasor_matrix matrix = {};
  EXPECT_EQ(
      failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_relative_matrix(both.handle.get(), -2, kMost, &matrix, error); }),
      relative_matrix(both.rotary, -2, kMost).status().message());
}

TEST(CAnalysis, errors_of_angles) {
  const Both both;
  auto result = sized<phasor_angle_error_result>();
  succeeds([&](phasor_error* error) { return phasor_angle_error(both.handle.get(), 1000000, &result, error); });
  const AngleError want = *angle_error(both.rotary, 1000000);
  EXPECT_TRUE(same(result.exact, want.exact));
  EXPECT_TRUE(same(result.float32, want.float32));
  EXPECT_GT(result.float32, result.exact);
  result.size = 0;
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_angle_error(both.handle.get(), 1, &result, error); }),
            "angle_error: the size of result is 0, wanted its sizeof, 24 in this version");
}

TEST(CAnalysis, errors_of_profiles) {
  const Both both;
  const std::array<std::int64_t, 3> at = {0, 4097, 1000003};
  for (const Scaling& scaling : {both.spec.scaling, Scaling(NtkMixedScaling{.factor = 2})}) {
    RotarySpec spec = both.spec;
    spec.scaling = scaling;
    const phasor_scaling c_scaling = c::c_scaling_of(scaling);
    phasor_rotary_spec c_spec = both.c_spec;
    c_spec.scaling = &c_scaling;
    const std::vector<ProfileError> want = *profile_errors(spec, at);
    const auto items = items_by<phasor_profile_error, phasor_profile_error_list>([&](phasor_profile_error_list* list, phasor_error* error) {
      return phasor_profile_errors(&c_spec, at.data(), at.size(), list, error);
    });
    ASSERT_EQ(items.size(), want.size());
    const auto optional_of = [](std::int32_t has, double value) { return has != 0 ? std::optional(value) : std::nullopt; };
    for (std::size_t i = 0; i < items.size(); ++i) {
      EXPECT_EQ(items[i].position, at[i]);
      EXPECT_TRUE(same(items[i].exact, want[i].exact));
      EXPECT_EQ(optional_of(items[i].has_hf, items[i].hf), want[i].hf);
      EXPECT_EQ(optional_of(items[i].has_vllm, items[i].vllm), want[i].vllm);
      EXPECT_EQ(optional_of(items[i].has_ggml, items[i].ggml), want[i].ggml);
    }
  }
  EXPECT_FALSE((*profile_errors({.head_dim = 8, .scaling = NtkMixedScaling{.factor = 2}}, at))[0].hf);
}

TEST(CAnalysis, precision) {
  const Both both;
  const std::array<std::int64_t, 2> at = {3, 99999};
  const std::vector<PrecisionError> want = *precision_report(both.spec, at, 17);
  const auto items =
      items_by<phasor_precision_error, phasor_precision_error_list>([&](phasor_precision_error_list* list, phasor_error* error) {
        return phasor_precision_report(&both.c_spec, at.data(), at.size(), 17, list, error);
      });
  ASSERT_EQ(items.size(), want.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    EXPECT_EQ(items[i].position, want[i].position);
    EXPECT_EQ(items[i].numerics, static_cast<int>(want[i].numerics));
    EXPECT_EQ(items[i].dtype, static_cast<int>(want[i].dtype));
    EXPECT_TRUE(same(items[i].cos_sin, want[i].cos_sin));
    EXPECT_TRUE(same(items[i].score, want[i].score));
  }
  EXPECT_EQ(items[1].dtype, PHASOR_F16);
  EXPECT_EQ(items[2].dtype, PHASOR_BF16);
}

TEST(CAnalysis, items_of_an_older_and_a_newer_caller) {
  const Both both;
  struct Newer {
    phasor_pair_turns_result known;
    double more;
  };
  const std::vector<PairTurns> want = *pair_turns(both.rotary, 5000);
  std::vector<Newer> newer(want.size(), {{}, 5});
  phasor_pair_turns_list list = {&newer[0].known, sizeof(Newer), newer.size(), 0};
  succeeds([&](phasor_error* error) { return phasor_pair_turns(both.handle.get(), 5000, &list, error); });
  std::vector<double> older(2 * want.size() + 1, 5);
  list = {reinterpret_cast<phasor_pair_turns_result*>(older.data()), 2 * sizeof(double), want.size(), 0};
  succeeds([&](phasor_error* error) { return phasor_pair_turns(both.handle.get(), 5000, &list, error); });
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_TRUE(same(newer[i].known.turns, want[i].turns));
    EXPECT_EQ(newer[i].more, 0);
    EXPECT_TRUE(same(older[2 * i], want[i].frequency));
    EXPECT_TRUE(same(older[2 * i + 1], want[i].wavelength));
  }
  EXPECT_EQ(older.back(), 5);
}

TEST(CAnalysis, turns_of_pairs) {
  const Both both;
  const std::vector<PairTurns> want = *pair_turns(both.rotary, 777);
  const auto items = items_by<phasor_pair_turns_result, phasor_pair_turns_list>(
      [&](phasor_pair_turns_list* list, phasor_error* error) { return phasor_pair_turns(both.handle.get(), 777, list, error); });
  ASSERT_EQ(items.size(), want.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    EXPECT_TRUE(same(items[i].frequency, want[i].frequency) && same(items[i].wavelength, want[i].wavelength) &&
                same(items[i].turns, want[i].turns));
  }
}

TEST(CAnalysis, scores_by_distance_alone) {
  const Both both;
  const CTensor<float> q({1, 9, 4, 18}, floats(648));
  const CTensor<float> k({1, 9, 2, 18}, floats(324, 2));
  auto result = sized<phasor_distance_check_result>();
  succeeds([&](phasor_error* error) { return phasor_distance_check(both.handle.get(), q.get(), k.get(), 1000000, &result, error); });
  const DistanceCheck want =
      *distance_check(both.rotary, view(q.values.data(), {1, 9, 4, 18}), view(k.values.data(), {1, 9, 2, 18}), 1000000);
  EXPECT_EQ(result.scores, want.scores);
  EXPECT_TRUE(same(result.largest_score, want.largest_score));
  EXPECT_TRUE(same(result.exact_difference, want.exact_difference));
  EXPECT_TRUE(same(result.float32_difference, want.float32_difference));
  EXPECT_TRUE(same(result.rounding, want.rounding));
  EXPECT_EQ(failure(PHASOR_INVALID,
                    [&](phasor_error* error) { return phasor_distance_check(both.handle.get(), q.get(), nullptr, 1, &result, error); }),
            "distance_check: k is null, wanted one");
}

TEST(CAnalysis, decay_of_one_and_of_several) {
  const Both both;
  phasor_rotary_spec spec = {};
  spec.size = sizeof spec;
  spec.head_dim = 10;
  const auto other = owned<phasor_rotary>([&](phasor_rotary** to, phasor_error* error) { return phasor_rotary_make(&spec, to, error); });
  const std::array<std::int64_t, 5> distances = {0, 1, -2, 1000000, 77};
  gives(*decay(both.rotary, distances), [&](phasor_doubles* to, phasor_error* error) {
    return phasor_rotary_decay(both.handle.get(), distances.data(), distances.size(), to, error);
  });
  const std::vector<Rotary> rotaries = {both.rotary, *Rotary::make({.head_dim = 10})};
  const phasor_rotary* handles[] = {both.handle.get(), other.get()};
  gives(*decay(std::span<const Rotary>(rotaries), distances),
        [&](phasor_matrix* to, phasor_error* error) { return phasor_decay(handles, 2, distances.data(), distances.size(), to, error); });
  phasor_matrix matrix = {};
  handles[1] = nullptr;
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_decay(handles, 2, distances.data(), 5, &matrix, error); }),
            "decay: a rotary of the list is null, wanted one");
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_decay(handles, 1, nullptr, 5, &matrix, error); }),
            "decay: distances is null and has 5 elements, wanted their memory");

  std::int64_t distance = -2;
  succeeds([&](phasor_error* error) { return phasor_first_negative(other.get(), 1000, &distance, error); });
  EXPECT_EQ(distance, **first_negative(rotaries[1], 1000));
  succeeds([&](phasor_error* error) { return phasor_first_negative(other.get(), 2, &distance, error); });
  EXPECT_EQ(distance, -1);
  EXPECT_EQ(phasor_first_negative(other.get(), 2, nullptr, nullptr), PHASOR_INVALID);
}

TEST(CAnalysis, weights_by_distance) {
  const Both both;
  std::vector<double> bias(13);
  std::iota(bias.begin(), bias.end(), -4.5);
  bias[3] = -std::numeric_limits<double>::infinity();
  for (const bool biased : {false, true}) {
    const std::vector<DistanceWeight> want =
        *distance_weights(both.rotary, 13, biased ? std::span<const double>(bias) : std::span<const double>());
    const auto items =
        items_by<phasor_distance_weight, phasor_distance_weight_list>([&](phasor_distance_weight_list* list, phasor_error* error) {
          return phasor_distance_weights(both.handle.get(), 13, biased ? bias.data() : nullptr, biased ? bias.size() : 0, list, error);
        });
    ASSERT_EQ(items.size(), want.size());
    for (std::size_t i = 0; i < items.size(); ++i) {
      EXPECT_EQ(items[i].distance, want[i].distance);
      EXPECT_TRUE(same(items[i].sum, want[i].sum) && same(items[i].share, want[i].share));
      EXPECT_TRUE(same(items[i].score, want[i].score) && same(items[i].weight, want[i].weight));
    }
  }
  gives(*softmax_weights(bias),
        [&](phasor_doubles* to, phasor_error* error) { return phasor_softmax_weights(bias.data(), bias.size(), to, error); });
  bias[0] = std::numeric_limits<double>::quiet_NaN();
  phasor_doubles none = {};
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_softmax_weights(bias.data(), bias.size(), &none, error); }),
            softmax_weights(bias).status().message());
}

TEST(CAnalysis, similarity_of_rows_and_of_positions) {
  const CTensor<float> a({5, 6}, floats(30));
  const CTensor<double> b({3, 6}, std::vector<double>(18, 0.5));
  const Both both;
  const std::array<std::int64_t, 3> at = {0, 5, -8};
  for (const Similarity kind : {Similarity::cosine, Similarity::inner_product}) {
    const auto c_kind = static_cast<phasor_similarity_kind>(kind);
    gives(*similarity(view(a.values.data(), {1, 5, 1, 6}), view(b.values.data(), {1, 3, 1, 6}), kind),
          [&](phasor_matrix* to, phasor_error* error) { return phasor_similarity(a.get(), b.get(), c_kind, to, error); });
    gives(*similarity(both.rotary, at, kind), [&](phasor_matrix* to, phasor_error* error) {
      return phasor_rotary_similarity(both.handle.get(), at.data(), at.size(), c_kind, to, error);
    });
  }
  phasor_matrix none = {};
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_similarity(a.get(), b.get(), 2, &none, error); }),
            "similarity: kind is 2, wanted 0 to 1");
  const CTensor<std::int32_t> whole({2, 2});
  EXPECT_NE(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_similarity(a.get(), whole.get(), 0, &none, error); })
                .find("similarity: b has a dtype of"),
            std::string::npos);
}

TEST(CAnalysis, orthogonality_and_gaps) {
  const CTensor<float> a({5, 6}, floats(30));
  const CTensor<float> b({3, 6}, floats(18, 9));
  auto result = sized<phasor_orthogonality_result>();
  succeeds([&](phasor_error* error) { return phasor_orthogonality(a.get(), b.get(), &result, error); });
  const Orthogonality want = *orthogonality(view(a.values.data(), {1, 5, 1, 6}), view(b.values.data(), {1, 3, 1, 6}));
  EXPECT_EQ(result.cosines, want.cosines);
  EXPECT_TRUE(same(result.mean, want.mean) && same(result.mean_square, want.mean_square) && same(result.largest, want.largest));

  auto gap = sized<phasor_gap>();
  const auto equals = [&](const Gap& other) { return same(gap.gap, other.gap) && gap.first == other.first && gap.second == other.second; };
  succeeds([&](phasor_error* error) { return phasor_smallest_gap(a.get(), &gap, error); });
  EXPECT_TRUE(equals(*smallest_gap(view(a.values.data(), {1, 5, 1, 6}))));
  const Both both;
  succeeds([&](phasor_error* error) { return phasor_rotary_smallest_gap(both.handle.get(), 3000, &gap, error); });
  EXPECT_TRUE(equals(*smallest_gap(both.rotary, 3000)));
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_rotary_smallest_gap(both.handle.get(), 1, &gap, error); }),
            smallest_gap(both.rotary, 1).status().message());
  EXPECT_EQ(phasor_smallest_gap(nullptr, &gap, nullptr), PHASOR_INVALID);
  EXPECT_EQ(phasor_smallest_gap(a.get(), nullptr, nullptr), PHASOR_INVALID);
}

}  // namespace
}  // namespace phasor::test
