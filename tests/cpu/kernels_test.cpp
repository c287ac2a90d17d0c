// SPDX-License-Identifier: Apache-2.0
// The kernels of every target by themselves: conversions of all 16-bit numbers, and the parts of a job that have no public surface yet
// (one ladder per head, one axis per pair).
#include "cpu/rotary/kernels.hpp"

#include <cmath>

#include "math/sincos.hpp"
#include "ops/rotary/rotary_call.hpp"
#include "plan/rotary.hpp"

namespace phasor::test {
namespace {

// ---- Conversions, one lane ----

/// A format, the library's conversions of it and the reference's magnitudes.
struct Conversion {
  const char* name;
  reference::Format format;
  float (*widen)(std::uint16_t code);
  std::uint16_t (*narrow)(float x);
};

const Conversion conversions[] = {
    {"f16", reference::f16_format, [](std::uint16_t code) { return math::widen_f16(math::One<float>(), math::u32{code}); },
     [](float x) { return static_cast<std::uint16_t>(math::narrow_f16(math::One<float>(), x)); }},
    {"bf16", reference::bf16_format, [](std::uint16_t code) { return math::widen_bf16(math::One<float>(), math::u32{code}); },
     [](float x) { return static_cast<std::uint16_t>(math::narrow_bf16(math::One<float>(), x)); }},
};

bool is_nan_code(const Conversion& c, std::uint16_t code) { return std::isnan(reference::value_of(c.format, code)); }

TEST(HalfConversion, widens_all_65536_codes_exactly) {
  for (const Conversion& c : conversions) {
    for (std::uint32_t code = 0; code < 65536; ++code) {
      const float is = c.widen(static_cast<std::uint16_t>(code));
      const double wanted = reference::value_of(c.format, static_cast<std::uint16_t>(code));
      ASSERT_TRUE(std::isnan(wanted) ? std::isnan(is) : is == wanted) << c.name << " " << code;
      ASSERT_EQ(std::signbit(is), (code & 0x8000) != 0) << c.name << " " << code;
    }
  }
}

/// One narrowing against the neighbours' search; a NaN must stay a quiet NaN of its sign.
bool narrows_right(const Conversion& c, const std::vector<double>& list, float x) {
  const std::uint16_t is = c.narrow(x);
  if (!std::isnan(x)) return is == reference::nearest_code(c.format, list, x);
  const std::uint16_t quiet = static_cast<std::uint16_t>(1 << (c.format.mantissa_bits - 1));
  return is_nan_code(c, is) && (is & quiet) != 0 && (is >> 15 != 0) == std::signbit(x);
}

TEST(HalfConversion, narrows_every_code_every_midpoint_and_their_neighbours_to_nearest_even) {
  for (const Conversion& c : conversions) {
    const std::vector<double> list = reference::magnitudes(c.format);
    for (std::size_t code = 0; code + 1 < list.size(); ++code) {
      const float value = static_cast<float>(list[code]);
      const float middle = static_cast<float>(list[code] / 2 + list[code + 1] / 2);
      for (const float at : {value, middle}) {
        const std::uint32_t bits = Element<float>::bits(at);
        for (std::uint32_t near = bits == 0 ? 0 : bits - 1; near <= bits + 1; ++near) {
          for (const std::uint32_t sign : {0U, 0x80000000U}) {
            ASSERT_TRUE(narrows_right(c, list, Element<float>::from_bits(near | sign))) << c.name << " " << std::hex << (near | sign);
          }
        }
      }
    }
  }
}

TEST(HalfConversion, narrows_random_float32_of_any_bits_to_nearest_even) {
  Random random(1);
  for (const Conversion& c : conversions) {
    const std::vector<double> list = reference::magnitudes(c.format);
    for (int i = 0; i < 1000000; ++i) {
      const std::uint64_t bits = random.bits();
      ASSERT_TRUE(narrows_right(c, list, Element<float>::from_bits(bits))) << c.name << " " << std::hex << bits;
    }
    for (int i = 0; i < 500000; ++i) {  // around the range of float16, subnormals and overflow too
      const std::uint64_t bits = (random.bits() & 0x80ffffff) + 0x33000000 + (random.bits() % 20 << 24);
      ASSERT_TRUE(narrows_right(c, list, Element<float>::from_bits(bits))) << c.name << " " << std::hex << bits;
    }
  }
}

TEST(HalfConversion, the_edges_of_the_formats_are_where_ieee_has_them) {
  const float infinity = std::numeric_limits<float>::infinity();
  const auto f16 = conversions[0].narrow;
  const auto bf16 = conversions[1].narrow;
  EXPECT_EQ(f16(65504), 0x7bff);
  EXPECT_EQ(f16(65519.996F), 0x7bff);
  EXPECT_EQ(f16(65520), 0x7c00);
  EXPECT_EQ(f16(-infinity), 0xfc00);
  EXPECT_EQ(f16(0x1p-24F), 0x0001);
  EXPECT_EQ(f16(0x1p-25F), 0x0000);
  EXPECT_EQ(f16(0x1.000002p-25F), 0x0001);
  EXPECT_EQ(f16(-0.0F), 0x8000);
  EXPECT_EQ(bf16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(bf16(infinity), 0x7f80);
  EXPECT_EQ(bf16(1.00390625F), 0x3f80);  // halfway, 0x3f80 is even
  EXPECT_EQ(bf16(1.01171875F), 0x3f82);  // halfway, 0x3f81 is odd
  EXPECT_TRUE(is_nan_code(conversions[1], bf16(Element<float>::from_bits(0x7f800001))));
  EXPECT_TRUE(is_nan_code(conversions[1], bf16(Element<float>::from_bits(0x7fffffff))));
}

// ---- Conversions through every kernel ----

using Kernels = EveryTarget;

/// All 65536 codes as the first channels of pairs (the second ones shuffled), as tokens of 64 pairs, turned by `cos` and `sin`.
template <class T>
void check_all_codes(Pairing pairing, float cos, float sin) {
  const reference::Geometry g = {128, 0, pairing, pairing};
  Tensor<T> x({1, 1024, 1, 128}, 3);
  for (std::uint32_t code = 0; code < 65536; ++code) {
    x.at(0, code / 64, 0, reference::channel(pairing, 128, code % 64, 0)) = Element<T>::from_bits(code);
    x.at(0, code / 64, 0, reference::channel(pairing, 128, code % 64, 1)) = Element<T>::from_bits(code * 40503U + 12345U);
  }
  reference::Rows<float> rows{1, 1024, 64, {}, {}};
  for (const int lane : {0, 1}) {
    rows.cos[lane].assign(65536, cos);
    rows.sin[lane].assign(65536, sin);
  }
  Tensor<T> wanted = x;
  rotate_reference(x, wanted, g, rows);
  const ConstTensorView cos_view = view(std::as_const(rows.cos[0]).data(), {1, 1024, 1, 64});
  const ConstTensorView sin_view = view(std::as_const(rows.sin[0]).data(), {1, 1024, 1, 64});
  TableLayout layout;
  layout.pairing = pairing;
  ASSERT_TRUE(apply_rotary(x.view(), cos_view, sin_view, layout).ok());
  EXPECT_TRUE(same_numbers(x.memory, wanted.memory)) << cos << " " << sin;
}

TEST_F(Kernels, convert_all_codes_of_f16_and_bf16_as_the_reference_does) {
  on_every_target([] {
    for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
      check_all_codes<Float16>(pairing, 0.8F, 0.6F);
      check_all_codes<Float16>(pairing, -1, 0x1p-40F);    // the second product vanishes or decides a tie
      check_all_codes<Float16>(pairing, 0x1p-9F, -0.5F);  // into the subnormals
      check_all_codes<BFloat16>(pairing, 0.8F, 0.6F);
      check_all_codes<BFloat16>(pairing, -1, 0x1p-40F);
      check_all_codes<BFloat16>(pairing, 1.00390625F, 0);  // ties
    }
  });
}

// ---- What has no public surface yet ----

/// Runs every task of a job on the kernels of one target.
void run_all(const cpu::RotaryKernels& kernels, const job::RotateJob& job) {
  const cpu::Running<job::RotateJob> run = {.job = job};
  for (std::int64_t i = 0; i < run.grid.tasks; ++i) kernels.rotate(run, i);
}

template <class Body>
void on_every_kernel(Body body) {
  const cpu::RotaryKernelTable table = cpu::rotary_kernels();
  for (int i = 0; i < table.count; ++i) {
    if (!table.entries[i].available()) continue;
    SCOPED_TRACE(table.entries[i].target);
    body(table.entries[i]);
  }
}

constexpr std::int64_t heads = 3;
constexpr std::int64_t pairs = 21;
constexpr std::int64_t width = 2 * pairs;

RotarySpec spec_of_base(double base) {
  RotarySpec spec;
  spec.head_dim = width;
  spec.base = base;
  return spec;
}

plan::RotaryPlan plan_of(const RotarySpec& spec) {
  Result<plan::RotaryPlan> plan = plan::make_rotary_plan(spec);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  return *std::move(plan);
}

/// Head h turns by the ladder of bases[h].
template <class T>
void check_ladder_a_head(const cpu::RotaryKernels& kernels, Pairing pairing, std::int64_t tokens) {
  const double bases[heads] = {100, 10000, 777};
  plan::RotaryPlan all = plan_of(spec_of_base(bases[0]));
  for (std::int64_t h = 1; h < heads; ++h) {
    const plan::RotaryPlan one = plan_of(spec_of_base(bases[h]));
    all.steps.insert(all.steps.end(), one.steps.begin(), one.steps.end());
    all.turn_cos.insert(all.turn_cos.end(), one.turn_cos.begin(), one.turn_cos.end());
    all.turn_sin.insert(all.turn_sin.end(), one.turn_sin.begin(), one.turn_sin.end());
  }
  all.spec.pairing = pairing;
  Tensor<T> x({2, tokens, heads, width}, 5);
  x.with_numbers(0, width);
  Tensor<T> wanted = x;
  const reference::Geometry g = {width, 0, pairing, pairing};
  for (std::int64_t h = 0; h < heads; ++h) {
    const auto rows = rows_of<typename Element<T>::Value>(make_rotary(spec_of_base(bases[h])), {positions_from(-3), 1, tokens});
    Tensor<T> turned = x;
    rotate_reference(x, turned, g, rows);
    for (std::int64_t row = 0; row < 2 * tokens; ++row) {
      wanted.set_head(row / tokens, row % tokens, h, turned.head(row / tokens, row % tokens, h));
    }
  }
  const InOut q = x.view();
  Result<job::RotateJob> job = job::make_rotate_job({"test", &q, nullptr}, all, positions_from(-3), Direction::forward);
  ASSERT_TRUE(job.ok()) << job.status().message();
  job->rows.step_head_stride = pairs;
  run_all(kernels, *job);
  EXPECT_TRUE(same_bits(x.memory, wanted.memory));
}

TEST(KernelJobs, every_head_may_have_a_ladder_of_its_own) {
  on_every_kernel([](const cpu::RotaryKernels& kernels) {
    for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
      for_each_dtype([&](auto tag) { check_ladder_a_head<typename decltype(tag)::type>(kernels, pairing, 37); });
      check_ladder_a_head<float>(kernels, pairing, 1);
    }
  });
}

/// Pair i turns by the position on axis i % 3. Positions are (axes, B, T); token 1 is at the origin of one axis, token 2 of all.
template <class T, class P>
void check_axis_a_pair(const cpu::RotaryKernels& kernels, const std::vector<P>& list) {
  constexpr std::int64_t axes = 3;
  const plan::RotaryPlan plan = plan_of(spec_of_base(10000));
  const Rotary rotary = make_rotary(spec_of_base(10000));
  std::vector<std::uint8_t> axis_of_pair;
  for (std::int64_t i = 0; i < pairs; ++i) axis_of_pair.push_back(static_cast<std::uint8_t>(i % axes));
  const std::int64_t tokens = static_cast<std::int64_t>(list.size()) / (2 * axes);
  reference::Rows<typename Element<T>::Value> rows;
  for (std::int64_t a = 0; a < axes; ++a) {
    const auto of_axis = rows_of<typename Element<T>::Value>(rotary, {positions(list.data() + a * 2 * tokens, 2, tokens), 2, tokens});
    if (a == 0) rows = of_axis;
    for (std::size_t i = 0; i < rows.cos[0].size(); ++i) {
      if (axis_of_pair[i % pairs] != a) continue;
      for (const int lane : {0, 1}) {
        rows.cos[lane][i] = of_axis.cos[lane][i];
        rows.sin[lane][i] = of_axis.sin[lane][i];
      }
    }
  }
  Tensor<T> x({2, tokens, heads, width}, 6);
  x.with_numbers(0, width);
  Tensor<T> wanted = x;
  rotate_reference(x, wanted, {width, 0, Pairing::half, Pairing::half}, rows);
  const InOut q = x.view();
  Result<job::RotateJob> job = job::make_rotate_job({"test", &q, nullptr}, plan, positions(list.data(), 2, tokens), Direction::forward);
  ASSERT_TRUE(job.ok()) << job.status().message();
  job->rows.axis_of_pair = axis_of_pair.data();
  job->rows.positions.axes = axes;
  job->rows.positions.axis_stride = 2 * tokens;
  run_all(kernels, *job);
  EXPECT_TRUE(same_numbers(x.memory, wanted.memory));
}

TEST(KernelJobs, every_pair_may_have_an_axis_of_its_own) {
  constexpr std::size_t tokens = 11;
  std::vector<std::int64_t> whole;
  for (std::size_t i = 0; i < 3 * 2 * tokens; ++i) whole.push_back(static_cast<std::int64_t>(i * i) - 700);
  std::vector<double> fractions(whole.begin(), whole.end());
  for (double& x : fractions) x /= 16;
  for (std::size_t row = 0; row < 6; ++row) {
    whole[row * tokens + 2] = 0;
    fractions[row * tokens + 2] = 0;
    for (std::size_t t = 4; t < 9; ++t) whole[row * tokens + t] = static_cast<std::int64_t>(100 * row + t);  // a run on every axis
  }
  whole[1] = 0;
  fractions[2 * tokens + 1] = 0;
  fractions[4 * tokens + 3] = std::nan("");  // one axis has no position, the others do
  on_every_kernel([&](const cpu::RotaryKernels& kernels) {
    for_each_dtype([&](auto tag) {
      check_axis_a_pair<typename decltype(tag)::type>(kernels, whole);
      check_axis_a_pair<typename decltype(tag)::type>(kernels, fractions);
    });
  });
}

TEST(KernelJobs, the_tasks_of_a_job_cover_it_once) {
  for (const std::int64_t batch : {1, 3, 17}) {
    for (const std::int64_t tokens : {1, 31, 33, 1000}) {
      const RotarySpec spec = spec_of_base(10000);
      const plan::RotaryPlan plan = plan_of(spec);
      Tensor<float> x({batch, tokens, 1, width}, 7);
      const InOut q = x.view();
      const Result<job::RotateJob> job = job::make_rotate_job({"test", &q, nullptr}, plan, positions_from(0), Direction::forward);
      ASSERT_TRUE(job.ok());
      const cpu::TaskGrid grid = cpu::grid_of(*job);
      const std::int64_t batch_blocks = grid.tasks / grid.row_blocks;
      EXPECT_EQ(grid.tasks, batch_blocks * grid.row_blocks);
      EXPECT_GE(grid.row_blocks * grid.rows_per_task, tokens);
      EXPECT_LT((grid.row_blocks - 1) * grid.rows_per_task, tokens);
      EXPECT_GE(batch_blocks * grid.batches_per_task, batch);
      EXPECT_LT((batch_blocks - 1) * grid.batches_per_task, batch);
    }
  }
}

}  // namespace
}  // namespace phasor::test
