// SPDX-License-Identifier: Apache-2.0
// Every multi-axis model by name: against numbers recorded from its own code, and bit for bit against its formula on every target.
#include <fstream>
#include <map>
#include <sstream>

#include "golden_file.hpp"
#include "ops/rotary/axes_models.hpp"
#include "ops/rotary/rotary_call.hpp"
#include "tolerance.hpp"

namespace phasor::test {
namespace {

using AxesModels = EveryTarget;

/// What tools/record/record_axes.py wrote of one model.
struct Recorded {
  std::vector<std::vector<double>> positions;
  std::vector<std::vector<double>> output;
};

std::vector<double> numbers_of(const std::string& line) {
  std::istringstream in(line);
  std::vector<double> list;
  for (double x = 0; in >> x;) list.push_back(x);
  return list;
}

std::map<std::string, Recorded> recorded() {
  std::ifstream file(golden_file("axes.txt"));
  EXPECT_TRUE(file.good());
  std::map<std::string, Recorded> all;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model ", 0) != 0) continue;
    std::istringstream head(line.substr(6));
    std::string name;
    int rows = 0;
    int tokens = 0;
    head >> name >> rows >> tokens;
    Recorded& one = all[name];
    for (int i = 0; i < rows && std::getline(file, line); ++i) one.positions.push_back(numbers_of(line));
    for (int i = 0; i < tokens && std::getline(file, line); ++i) one.output.push_back(numbers_of(line));
  }
  return all;
}

/// The q that the script made, for the tokens that it kept.
std::vector<double> query(std::int64_t tokens, std::int64_t width, const std::vector<double>* kept) {
  std::vector<double> q;
  for (std::int64_t t = 0; t < tokens; ++t) {
    const std::int64_t token = kept == nullptr ? t : static_cast<std::int64_t>((*kept)[static_cast<std::size_t>(t)]);
    for (std::int64_t c = 0; c < width; ++c) q.push_back(static_cast<double>((token * 37 + c * 11) % 17 - 8) / 8);
  }
  return q;
}

/// 13 digits of numbers below 2, and float64 angles up to 900: 1e-16 of each position and frequency.
constexpr double recorded_error = 1e-12;

TEST_F(AxesModels, the_models_own_code_gives_the_same_numbers) {
  const std::map<std::string, Recorded> all = recorded();
  const std::vector<Model> models = recorded_models();
  ASSERT_EQ(all.size(), models.size());
  for (const Model& model : models) {
    SCOPED_TRACE(model.name);
    ASSERT_EQ(all.count(model.name), 1U);
    const Recorded& one = all.at(model.name);
    const auto axes = static_cast<std::size_t>(model.axes);
    const auto tokens = static_cast<std::int64_t>(one.output.size());
    std::vector<double> at;
    for (std::size_t a = 0; a < axes; ++a) at.insert(at.end(), one.positions[a].begin(), one.positions[a].end());
    std::vector<double> q = query(tokens, model.spec.head_dim, one.positions.size() > axes ? &one.positions[axes] : nullptr);
    const Status status =
        make_rotary(model.spec).apply(view(q.data(), {1, tokens, 1, model.spec.head_dim}), positions(at.data(), model.axes, 1, tokens));
    ASSERT_TRUE(status.ok()) << status.message();
    std::size_t i = 0;
    for (const std::vector<double>& row : one.output) {
      ASSERT_EQ(static_cast<std::int64_t>(row.size()), model.spec.head_dim);
      for (const double wanted : row) EXPECT_NEAR(q[i++], wanted, recorded_error) << "value " << i - 1;
    }
  }
}

/// (axes, B, T): text that begins at 0, a grid, and a place far away. T = 41 is more than a block of rows.
std::vector<std::int64_t> places(std::int64_t axes, std::int64_t batch, std::int64_t tokens) {
  std::vector<std::int64_t> list;
  for (std::int64_t a = 0; a < axes; ++a) {
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t t = 0; t < tokens; ++t) {
        const std::int64_t in_grid[] = {9, 9 + t % 20 / 5, 9 + t % 5, -t};
        list.push_back(t < 12 ? t + 3 * b : t < 35 ? in_grid[a] : 1000 * (a + 1) + 7 * t);
      }
    }
  }
  return list;
}

/// In long double, which decides the rounding to float32; float64 rows are compared with a tolerance instead.
template <class T, class P>
void check_model(const Model& model, const std::vector<P>& at, Direction direction) {
  const std::int64_t batch = 2;
  const auto tokens = static_cast<std::int64_t>(at.size()) / (model.axes * batch);
  Tensor<T> x({batch, tokens, 3, model.spec.head_dim}, 11);
  x.with_numbers(model.spec.rotary_offset, 2 * static_cast<std::int64_t>(model.pairs.size()));
  Tensor<T> wanted = x;
  x.each_head([&](std::int64_t b, std::int64_t t, std::int64_t h) {
    std::array<long double, 4> where{};
    for (std::int64_t a = 0; a < model.axes; ++a) {
      where[static_cast<std::size_t>(a)] = static_cast<long double>(at[static_cast<std::size_t>((a * batch + b) * tokens + t)]);
    }
    wanted.set_head(b, t, h, naive_head(x.head(b, t, h), model, where, direction != Direction::forward));
  });
  const Status status = make_rotary(model.spec).apply(x.view(), positions(at.data(), model.axes, batch, tokens), {.direction = direction});
  ASSERT_TRUE(status.ok()) << status.message();
  if constexpr (std::is_same_v<T, double>) {
    for (std::size_t i = 0; i < x.memory.size(); ++i) {
      if (Element<T>::bits(x.memory[i]) == Element<T>::bits(wanted.memory[i])) continue;
      ASSERT_NEAR(x.memory[i], wanted.memory[i], 8 * tolerance_of(DType::f64).round_trip * tolerance_of(DType::f64).epsilon) << i;
    }
  } else {
    EXPECT_TRUE(same_bits(x.memory, wanted.memory));
  }
}

void check_every_dtype(const Model& model, Direction direction) {
  for_each_dtype([&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::vector<std::int64_t> whole = places(model.axes, 2, 41);
    check_model<T>(model, whole, direction);
    check_model<T>(model, std::vector<std::int32_t>(whole.begin(), whole.end()), direction);
    std::vector<double> fractions(whole.begin(), whole.end());
    for (double& p : fractions) p /= 32;
    check_model<T>(model, fractions, direction);
  });
}

/// One model by itself: what an emulator has the time for (tests/sweeps.cmake).
TEST_F(AxesModels, every_dtype_of_gemma4_vision_is_the_formula_bit_for_bit_on_every_target) {
  on_every_target([] { check_every_dtype(gemma4_vision(), Direction::forward); });
}

TEST_F(AxesModels, every_dtype_is_the_formula_bit_for_bit_on_every_target) {
  on_every_target([] {
    for (const Model& model : recorded_models()) {
      SCOPED_TRACE(model.name);
      check_every_dtype(model, Direction::forward);
    }
  });
}

TEST_F(AxesModels, the_transpose_is_the_adjoint_of_each_pair) {
  on_every_target([] {
    for (const Model& model : recorded_models()) {
      SCOPED_TRACE(model.name);
      check_every_dtype(model, Direction::transpose);
      if (model.spec.lanes == Lanes::alike) check_every_dtype(model, Direction::inverse);
    }
  });
}

TEST_F(AxesModels, a_rotary_part_may_begin_anywhere_in_the_head) {
  on_every_target([] {
    for (Model model : recorded_models()) {
      SCOPED_TRACE(model.name);
      model.spec.rotary_width = 2 * static_cast<std::int64_t>(model.pairs.size());
      model.spec.rotary_offset = 3;
      model.spec.head_dim = model.spec.rotary_width + 8;
      check_every_dtype(model, Direction::forward);
    }
  });
}

/// Peer defect B4: ggml's interleaved M-RoPE gives the pairs that are left over to a fourth position, 0 for text. They are time's.
TEST_F(AxesModels, pairs_61_and_62_of_qwen3_vl_turn_with_time) {
  on_every_target([] {
    const Rotary rotary = make_rotary(qwen3_vl().spec);
    std::vector<std::int64_t> at = {100000, 0, 0};  // time alone
    std::vector<float> cos(64);
    std::vector<float> sin(64);
    ASSERT_TRUE(rotary.cos_sin(positions(at.data(), 3, 1, 1), view(cos.data(), {1, 1, 1, 64}), view(sin.data(), {1, 1, 1, 64})).ok());
    for (const std::size_t pair : {61U, 62U}) {
      const long double angle = 1e5L * ladder(5e6, 128, static_cast<std::int64_t>(pair));
      EXPECT_EQ(sin[pair], static_cast<float>(std::sin(angle))) << pair;
      EXPECT_GT(sin[pair], 0.02F) << pair;  // what a model trained with time at these pairs loses
    }
    for (std::size_t pair = 0; pair < 64; ++pair) EXPECT_EQ(sin[pair] != 0, pair % 3 == 0 || pair >= 60) << pair;
  });
}

}  // namespace
}  // namespace phasor::test
