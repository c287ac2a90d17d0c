// SPDX-License-Identifier: Apache-2.0
// Gradients by frequencies and by positions: against central differences of the rotation itself, against naive sums, under every runner.
#include "ops/rotary/learned_rotary.hpp"

#include <functional>
#if !defined(__EMSCRIPTEN__)  // WebAssembly is built without threads
#include <atomic>
#include <thread>
#endif

#include "tolerance.hpp"

namespace phasor::test {
namespace {

constexpr double two_pi = 6.283185307179586476925286766559;

/// A central difference of step h of a loss that is sinusoidal of frequency `rate`: its third derivative cuts off, the loss's own
/// roundings are divided by h.
double difference_error(double scale, double rate, double h) {
  const Tolerance tolerance = tolerance_of(DType::f64);
  return scale * (rate * rate * rate * h * h / 6 + tolerance.round_trip * tolerance.epsilon / h);
}

double unit_of(const RotarySpec& spec) { return spec.unit == FrequencyUnit::turns ? two_pi : 1; }

TEST(LearnedRotary, gradients_by_frequencies_are_the_differences_of_rotations_made_anew) {
  for (const LearnedLayer& layer : learned_layers()) {
    SCOPED_TRACE(layer.name);
    const std::vector<double> at = any_positions(layer);
    const std::vector<double> by_phase = phase_gradient_of(layer, at);
    const Rotary rotary = make_rotary(layer.spec);
    std::vector<double> sum(rotary.frequencies().size(), 0.5);  // what is there stays
    const Status status = rotary.frequency_gradient(sum, phase_view(layer, by_phase), layer.where(at));
    ASSERT_TRUE(status.ok()) << status.message();
    RotarySpec spec = layer.spec;
    std::vector<double>& learned = LearnedLayer::learned(spec);
    ASSERT_EQ(learned.size(), sum.size());
    const double h = 0x1p-17;
    for (std::size_t i = 0; i < sum.size(); ++i) {
      const double before = learned[i];
      learned[i] = before + h;
      const long double above = loss(layer, spec, at);
      learned[i] = before - h;
      const long double below = loss(layer, spec, at);
      learned[i] = before;
      const double unit = unit_of(spec);  // a frequency in turns: 2 pi times the gradient by radians
      EXPECT_NEAR((sum[i] - 0.5) * unit, static_cast<double>((above - below) / (2 * h)), difference_error(loss_scale(layer), 4 * unit, h))
          << i;
    }
  }
}

TEST(LearnedRotary, gradients_by_positions_are_the_differences_of_rotations_elsewhere) {
  for (const LearnedLayer& layer : learned_layers()) {
    SCOPED_TRACE(layer.name);
    std::vector<double> at = any_positions(layer);
    const std::vector<double> by_phase = phase_gradient_of(layer, at);
    const Rotary rotary = make_rotary(layer.spec);
    std::vector<double> out(at.size(), std::nan(""));
    const PositionsView to = positions(out.data(), layer.given_axes, layer.given_batch, LearnedLayer::tokens);
    const Status status = rotary.position_gradient(to, phase_view(layer, by_phase));
    ASSERT_TRUE(status.ok()) << status.message();
    const double h = 0x1p-17;
    for (std::size_t i = 0; i < at.size(); ++i) {
      const double before = at[i];
      at[i] = before + h;
      const long double above = loss(layer, layer.spec, at);
      at[i] = before - h;
      const long double below = loss(layer, layer.spec, at);
      at[i] = before;
      const double fastest = unit_of(layer.spec) * static_cast<double>(layer.axes);  // frequencies are within 1
      EXPECT_NEAR(out[i], static_cast<double>((above - below) / (2 * h)), difference_error(loss_scale(layer), fastest, h)) << i;
    }
  }
}

/// (B, T, H, P) numbers with strides of their own.
template <class T>
Tensor<T> any_phase_gradient(const Extents& shape) {
  const std::int64_t head = shape[1] * (shape[3] + 1);
  Tensor<T> x(shape, {shape[2] * head, shape[3] + 1, head, 1}, 61);
  x.with_numbers(0, shape[3], 62);
  return x;
}

/// Directions of 2 axes and 3 heads, 7 pairs: the largest of the shapes.
RotarySpec spec_of_directions() { return {.head_dim = 14, .rotary_width = 14, .scaling = GivenDirections{2, 3, any_frequencies(42)}}; }

template <class T>
void check_naive_sums() {
  const Rotary rotary = make_rotary(spec_of_directions());
  const Extents shape = {3, 211, 3, 7};  // more tokens than one partial sum has
  Tensor<T> x = any_phase_gradient<T>(shape);
  const Tensor<T> before = x;
  std::vector<std::int64_t> at(2 * 3 * 211);
  std::iota(at.begin(), at.end(), -300);
  std::vector<double> sum(42);
  Tensor<double> out({2, 3, 211, 1}, {3, 7, 21, 1}, 63);
  ASSERT_TRUE(rotary.frequency_gradient(sum, x.view(), positions(at.data(), 2, 3, 211)).ok());
  const PositionsView to = {out.view().data, PositionType::f64, {2, 3, 211}, {3, 7, 21}};
  ASSERT_TRUE(rotary.position_gradient(to, x.view()).ok());
  EXPECT_TRUE(same_bits(x.memory, before.memory));
  const double terms = 3 * 211 * 3;
  for (std::int64_t a = 0; a < 2; ++a) {
    for (std::int64_t h = 0; h < 3; ++h) {
      for (std::int64_t i = 0; i < 7; ++i) {
        long double wanted = 0;
        long double scale = 0;
        for (std::int64_t token = 0; token < 3 * 211; ++token) {
          const long double term =
              static_cast<long double>(at[static_cast<std::size_t>(a * 633 + token)]) * x.at(token / 211, token % 211, h, i);
          wanted += term;
          scale += std::fabs(term);
        }
        const double is = sum[static_cast<std::size_t>((a * 3 + h) * 7 + i)];
        EXPECT_NEAR(is, static_cast<double>(wanted), terms * 0x1p-53 * static_cast<double>(scale));
      }
    }
    for (std::int64_t token = 0; token < 3 * 211; ++token) {
      long double wanted = 0;
      for (std::int64_t i = 0; i < 21; ++i) {
        wanted += static_cast<long double>(rotary.frequencies()[static_cast<std::size_t>(a * 21 + i)]) *
                  x.at(token / 211, token % 211, i / 7, i % 7);
      }
      EXPECT_NEAR(out.at(a, token / 211, token % 211, 0), static_cast<double>(wanted), 21 * 0x1p-53 * 21 * 4);
    }
  }
}

TEST(LearnedRotary, sums_over_strided_gradients_are_the_naive_ones) {
  check_naive_sums<float>();
  check_naive_sums<double>();
}

TEST(LearnedRotary, positions_of_every_type_and_an_offset_give_the_same_bits) {
  const Rotary rotary = make_rotary({.head_dim = 14, .scaling = GivenFrequencies{any_frequencies(7)}});
  Tensor<float> x = any_phase_gradient<float>({2, 300, 3, 7});
  std::vector<std::int64_t> whole(300);
  std::iota(whole.begin(), whole.end(), 41);
  const std::vector<std::int32_t> small(whole.begin(), whole.end());
  const std::vector<double> fractions(whole.begin(), whole.end());
  std::vector<std::vector<double>> sums;
  for (const Positions& where : {positions_from(41), Positions(positions(whole.data(), 300)), Positions(positions(small.data(), 300)),
                                 Positions(positions(fractions.data(), 300))}) {
    sums.emplace_back(7);
    ASSERT_TRUE(rotary.frequency_gradient(sums.back(), x.view(), where).ok());
    EXPECT_TRUE(same_bits(sums.back(), sums[0]));
  }
  EXPECT_NE(sums[0], std::vector<double>(7));
}

using Task = void (*)(void* task_context, std::int64_t index);

void run_in_reverse(void* context, std::int64_t tasks, Task task, void* task_context) {
  *static_cast<std::int64_t*>(context) = tasks;
  for (std::int64_t i = tasks - 1; i >= 0; --i) task(task_context, i);
}

#if !defined(__EMSCRIPTEN__)
void run_on_threads(void* context, std::int64_t tasks, Task task, void* task_context) {
  *static_cast<std::int64_t*>(context) = tasks;
  std::atomic<std::int64_t> next{0};
  const auto work = [&] {
    for (std::int64_t i = next++; i < tasks; i = next++) task(task_context, i);
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 5; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
}
#else
void run_on_threads(void* context, std::int64_t tasks, Task task, void* task_context) {
  run_in_reverse(context, tasks, task, task_context);
}
#endif

/// All three functions, one into the other, and how many tasks each was cut into.
struct Results {
  std::vector<double> phase = std::vector<double>(3 * 811 * 3 * 7);
  std::vector<double> frequencies = std::vector<double>(42);
  std::vector<double> positions = std::vector<double>(2 * 811);
  std::int64_t tasks[3] = {0, 0, 0};
};

Results results_of(void (*run)(void*, std::int64_t, Task, void*)) {
  Results r;
  const Extents shape = {3, 811, 3, 14};
  Tensor<Float16> y(shape, 71);
  Tensor<Float16> g(shape, 72);
  y.with_numbers(0, 14, 73);
  g.with_numbers(0, 14, 74);
  const TensorView phase = view(r.phase.data(), {3, 811, 3, 7});
  const Rotary rotary = make_rotary(spec_of_directions());
  const auto runner = [&](int i) { return Runner{run, &r.tasks[i]}; };
  EXPECT_TRUE(phase_gradient(phase, y.view(), g.view(), {}, {.execution = {.runner = runner(0)}}).ok());
  EXPECT_TRUE(rotary.frequency_gradient(r.frequencies, phase, positions_from(3), {.runner = runner(1)}).ok());
  EXPECT_TRUE(rotary.position_gradient(positions(r.positions.data(), 2, 1, 811), phase, {.runner = runner(2)}).ok());
  return r;
}

TEST(LearnedRotary, results_do_not_depend_on_who_runs_the_tasks) {
  const Results own = results_of(nullptr);
  for (const auto run : {run_in_reverse, run_on_threads}) {
    const Results other = results_of(run);
    for (const std::int64_t tasks : other.tasks) EXPECT_GT(tasks, 1);
    EXPECT_TRUE(same_bits(other.phase, own.phase));
    EXPECT_TRUE(same_bits(other.frequencies, own.frequencies));
    EXPECT_TRUE(same_bits(other.positions, own.positions));
  }
  for (const double x : own.positions) EXPECT_NE(x, 0);
}

TEST(LearnedRotary, no_tokens_add_nothing_and_no_batch_rows_sum_to_0) {
  const Rotary rotary = make_rotary({.head_dim = 14, .scaling = GivenFrequencies{any_frequencies(7)}});
  std::vector<double> sum(7, 2);
  std::vector<double> out(3, 2);
  const auto* none = static_cast<const double*>(nullptr);
  EXPECT_TRUE(rotary.frequency_gradient(sum, view(none, {2, 0, 1, 7}), positions_from(0)).ok());
  EXPECT_TRUE(rotary.frequency_gradient(sum, view(none, {0, 3, 1, 7}), positions_from(0)).ok());
  EXPECT_EQ(sum, std::vector<double>(7, 2));
  EXPECT_TRUE(rotary.position_gradient(positions(out.data(), 2, 0), view(none, {2, 0, 1, 7})).ok());
  EXPECT_EQ(out, std::vector<double>(3, 2));
  EXPECT_TRUE(rotary.position_gradient(positions(out.data(), 1, 3), view(none, {0, 3, 1, 7})).ok());
  EXPECT_EQ(out, std::vector<double>(3, 0));
}

TEST(LearnedRotary, frequency_gradients_go_to_a_view_of_either_dtype) {
  const Rotary rotary = make_rotary(spec_of_directions());
  Tensor<float> x = any_phase_gradient<float>({2, 300, 3, 7});
  std::vector<double> wanted(42, 0.25);
  ASSERT_TRUE(rotary.frequency_gradient(wanted, x.view(), positions_from(41)).ok());
  std::vector<double> sum(42, 0.25);
  ASSERT_TRUE(rotary.frequency_gradient(view(sum.data(), {1, 1, 1, 42}), x.view(), positions_from(41)).ok());
  EXPECT_TRUE(same_bits(sum, wanted));
  std::vector<float> rounded(42, 0.25F);
  ASSERT_TRUE(rotary.frequency_gradient(view(rounded.data(), {1, 1, 1, 42}), x.view(), positions_from(41)).ok());
  EXPECT_EQ(rounded, std::vector<float>(wanted.begin(), wanted.end())) << "summed in float64, rounded once";
}

TEST(LearnedRotary, frequency_gradients_go_to_f32_or_f64_where_the_call_is) {
  const Rotary rotary = make_rotary(spec_of_directions());
  Tensor<float> x = any_phase_gradient<float>({2, 3, 3, 7});
  std::vector<double> memory(42, 0.5);
  const TensorView sum = view(memory.data(), {1, 1, 1, 42});
  const auto message = [&](TensorView spoilt) { return rotary.frequency_gradient(spoilt, x.view(), positions_from(0)).message(); };
  TensorView other = sum;
  other.dtype = DType::bf16;
  EXPECT_EQ(message(other), "frequency_gradient: sum is bf16, wanted f32 or f64");
  other = sum;
  other.shape = {1, 2, 1, 21};
  EXPECT_EQ(message(other), "frequency_gradient: sum has shape (1, 2, 1, 21), wanted (1, 1, 1, 42)");
  other = sum;
  other.device = {DeviceKind::cuda, 2};
  EXPECT_EQ(message(other), "frequency_gradient: sum is on cuda:2, wanted cpu, where the call's first tensor is");
  EXPECT_EQ(memory, std::vector<double>(42, 0.5));
}

/// Calls that are right; each case spoils one thing. 2 axes, 3 heads, 7 pairs; (B, T) = (2, 3).
struct Attempt {
  std::vector<double> memory = std::vector<double>(400, 0.5);
  RotarySpec spec = spec_of_directions();
  std::span<double> sum = {memory.data(), 42};
  ConstTensorView gradient = view(memory.data() + 50, {2, 3, 3, 7});
  Positions at = positions(memory.data() + 200, 2, 2, 3);
  PositionsView out = positions(memory.data(), 2, 2, 3);
};

enum class Function { frequencies, positions };

struct Case {
  const char* wanted;  // a fragment of the message
  std::function<void(Attempt&)> spoil;
  ErrorKind kind = ErrorKind::invalid;
};

Status run(Function function, const Attempt& call) {
  const Rotary rotary = make_rotary(call.spec);
  if (function == Function::frequencies) return rotary.frequency_gradient(call.sum, call.gradient, call.at);
  return rotary.position_gradient(call.out, call.gradient);
}

void check_cases(Function function, const std::vector<Case>& cases) {
  const Attempt right;
  ASSERT_TRUE(run(function, right).ok());
  EXPECT_NE(right.memory, std::vector<double>(400, 0.5));
  const char* where = function == Function::frequencies ? "frequency_gradient: " : "position_gradient: ";
  for (const Case& c : cases) {
    SCOPED_TRACE(c.wanted);
    Attempt call;
    c.spoil(call);
    const std::vector<double> before = call.memory;
    const Status status = run(function, call);
    EXPECT_EQ(status.kind(), c.kind);
    EXPECT_EQ(status.message().find(where), 0U) << status.message();
    EXPECT_NE(status.message().find(c.wanted), std::string::npos) << status.message();
    EXPECT_EQ(call.memory, before);
  }
}

std::vector<Case> cases_of_both() {
  return {
      {"phase_gradient is bf16, wanted f32 or f64", [](Attempt& c) { c.gradient.dtype = DType::bf16; }},
      {"phase_gradient has null data", [](Attempt& c) { c.gradient.data = nullptr; }},
      {"phase_gradient has width 6, the spec has 7 pairs", [](Attempt& c) { c.gradient.shape[3] = 6; }},
      {"phase_gradient has 1 heads, wanted 3: each turns by its own", [](Attempt& c) { c.gradient.shape[2] = 1; }},
      {"phase_gradient has 0 heads, wanted at least 1",
       [](Attempt& c) {
         c.spec.scaling = GivenDirections{2, 1, any_frequencies(14)};
         c.gradient.shape[2] = 0;
       }},
      {"lanes are per_channel_frequencies",
       [](Attempt& c) { c.spec = {.head_dim = 14, .pairing = Pairing::interleaved, .lanes = Lanes::per_channel_frequencies}; },
       ErrorKind::unsupported},
  };
}

TEST(LearnedRotary, frequency_gradients_of_what_does_not_fit_are_refused) {
  check_cases(Function::frequencies, cases_of_both());
  check_cases(Function::frequencies, {
                                         {"sum has 41 entries, the spec has 42 frequencies", [](Attempt& c) { c.sum = c.sum.first(41); }},
                                         {"sum is null", [](Attempt& c) { c.sum = {static_cast<double*>(nullptr), 42}; }},
                                         {"sum overlaps phase_gradient", [](Attempt& c) { c.sum = {c.memory.data() + 100, 42}; }},
                                         {"positions overlap sum", [](Attempt& c) { c.at.data = c.memory.data() + 1; }},
                                         {"positions have 4 tokens, wanted 3", [](Attempt& c) { c.at.shape[2] = 4; }},
                                         {"positions have batch 3, wanted 1 or 2", [](Attempt& c) { c.at.shape[1] = 3; }},
                                         {"positions have 3 axes, the spec wants 2, or 1 for all", [](Attempt& c) { c.at.shape[0] = 3; }},
                                     });
}

TEST(LearnedRotary, position_gradients_of_what_does_not_fit_are_refused) {
  check_cases(Function::positions, cases_of_both());
  check_cases(Function::positions, {
                                       {"out is i64, wanted f64", [](Attempt& c) { c.out.type = PositionType::i64; }},
                                       {"out has 3 axes, the spec has 2, wanted as many or 1", [](Attempt& c) { c.out.shape[0] = 3; }},
                                       {"out has batch 3, wanted 1 or 2", [](Attempt& c) { c.out = positions(c.memory.data(), 2, 3, 3); }},
                                       {"out has 2 tokens, wanted 3", [](Attempt& c) { c.out.shape[2] = 2; }},
                                       {"out has strides (6, 0, 1) that write an element twice", [](Attempt& c) { c.out.strides[1] = 0; }},
                                       {"out overlaps phase_gradient", [](Attempt& c) { c.out.data = c.memory.data() + 60; }},
                                   });
}

}  // namespace
}  // namespace phasor::test
