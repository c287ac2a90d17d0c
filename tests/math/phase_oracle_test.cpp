// SPDX-License-Identifier: Apache-2.0
// Phases bit for bit against integers of any size (GMP), and their error bound against MPFR.
#include <gtest/gtest.h>

#include <vector>

#include "math/exact_oracle.hpp"
#include "math/phase/phase.hpp"

namespace phasor::math {
namespace {

using oracle::MpfrReal;

class Integer {
 public:
  Integer() { mpz_init(value_); }
  Integer(const Integer&) = delete;
  Integer& operator=(const Integer&) = delete;
  ~Integer() { mpz_clear(value_); }
  mpz_ptr get() { return value_; }

 private:
  mpz_t value_;
};

/// The step as an integer, in units of 2^-192 turns.
void set_step(Integer& n, const Step& step) {
  mpz_set_si(n.get(), step.whole);
  for (int i = 2; i >= 0; --i) {
    mpz_mul_2exp(n.get(), n.get(), 64);
    mpz_add_ui(n.get(), n.get(), step.fraction[i]);
  }
}

/// floor(step * significand * 2^exponent) modulo 2^192.
void expect_phase(const Step& step, i64 significand, int exponent, const Phase& phase) {
  Integer n;
  set_step(n, step);
  mpz_mul_si(n.get(), n.get(), significand);
  if (exponent >= 0) {
    mpz_mul_2exp(n.get(), n.get(), static_cast<mp_bitcnt_t>(exponent));
  } else {
    mpz_fdiv_q_2exp(n.get(), n.get(), static_cast<mp_bitcnt_t>(-exponent));
  }
  for (int i = 0; i < 3; ++i) {
    Integer limb;
    mpz_fdiv_r_2exp(limb.get(), n.get(), 64);
    mpz_fdiv_q_2exp(n.get(), n.get(), 64);
    ASSERT_EQ(phase.limb[i], mpz_get_ui(limb.get())) << "limb " << i << " of " << significand << " * 2^" << exponent;
  }
}

std::vector<Step> awkward_steps() {
  std::vector<Step> steps = {
      {{0, 0, 0}, 1}, {{1, 0, 0}, 0}, {{~u64{0}, ~u64{0}, ~u64{0}}, -1}, {{0, ~u64{0}, 0}, 0}, {{0, 0, u64{1} << 63}, -2}};
  std::mt19937_64 random(11);
  for (int k = 0; k < 200; ++k) steps.push_back({{random(), random(), random()}, static_cast<i64>(random()) >> (2 + random() % 62)});
  return steps;
}

TEST(PhaseOracle, whole_positions_are_the_product_modulo_one_turn_bit_for_bit) {
  std::mt19937_64 random(12);
  for (const Step& step : awkward_steps()) {
    for (const i64 m : {i64{0}, i64{1}, i64{-1}, std::numeric_limits<i64>::min(), std::numeric_limits<i64>::max()}) {
      expect_phase(step, m, 0, phase_of(step, m));
    }
    for (int k = 0; k < 200; ++k) {
      const i64 m = oracle::draw_position(random);
      expect_phase(step, m, 0, phase_of(step, m));
    }
  }
}

TEST(PhaseOracle, fractional_positions_are_the_product_modulo_one_turn_bit_for_bit) {
  std::mt19937_64 random(13);
  std::vector<double> always = {0.37, -0.37, 1e-300, -1e-300, 0x1p-1074, -0x1p-1074, 0x1.fffffffffffffp62, -0x1.fffffffffffffp62, 0x1p53};
  for (const Step& step : awkward_steps()) {
    std::vector<double> positions = always;
    for (int k = 0; k < 200; ++k) positions.push_back(oracle::draw_fraction(random));
    for (int k = 0; k < 100; ++k) positions.push_back(std::ldexp(oracle::draw_fraction(random), -static_cast<int>(random() % 300)));
    for (const double x : positions) {
      int exponent = 0;
      const i64 significand = static_cast<i64>(std::ldexp(std::frexp(x, &exponent), 53));
      expect_phase(step, significand, exponent - 53, phase_of(step, x));
    }
  }
}

/// Distance of a phase from turns, modulo one turn, in radians.
double radians_off(const Phase& phase, const MpfrReal& turns) {
  MpfrReal fraction;
  for (int i = 0; i < 3; ++i) {
    MpfrReal limb;
    mpfr_set_uj(limb.get(), phase.limb[i], MPFR_RNDN);
    mpfr_div_2ui(limb.get(), limb.get(), static_cast<unsigned long>(64 * (3 - i)), MPFR_RNDN);
    fraction = fraction + limb;
  }
  const MpfrReal off = turns - fraction;
  const MpfrReal rest = off - floor_of(off + MpfrReal(0.5));
  return std::fabs((rest * MpfrReal(2) * MpfrReal::pi()).nearest_double());
}

TEST(PhaseOracle, is_off_by_less_than_its_error) {
  std::mt19937_64 random(14);
  const MpfrReal turn = MpfrReal(2) * MpfrReal::pi();
  double largest = 0;  // as a share of the bound
  for (int k = 0; k < 300; ++k) {
    const oracle::LadderDraw drawn = oracle::draw_ladder(random);
    const std::vector<MpfrReal> frequencies = oracle::ladder(drawn.base, drawn.width);
    for (int draw = 0; draw < 50; ++draw) {
      const MpfrReal& frequency = frequencies[random() % frequencies.size()];
      const Step step = oracle::step_of(frequency);
      const i64 m = oracle::draw_position(random) | 1;
      const Phase whole = phase_of(step, m);
      largest = std::fmax(largest, radians_off(whole, frequency * MpfrReal::of_integer(m) / turn) / whole.error);
      const double x = oracle::draw_fraction(random);
      const Phase fractional = phase_of(step, x);
      largest = std::fmax(largest, radians_off(fractional, frequency * MpfrReal(x) / turn) / fractional.error);
    }
  }
  RecordProperty("largest_share_of_the_bound", std::to_string(largest));
  EXPECT_LE(largest, 1);
  EXPECT_GT(largest, 0.1);  // else the bound, or this test, is not what it says
}

}  // namespace
}  // namespace phasor::math
