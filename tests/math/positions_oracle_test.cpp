// SPDX-License-Identifier: Apache-2.0
// Temperatures against MPFR at 200 bits: the nearest float64 and the nearest float32, at edges and at random positions.
#include <gtest/gtest.h>
#include <mpfr.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "phasor/positions.hpp"

namespace phasor::test {
namespace {

class Exact {
 public:
  explicit Exact(std::int64_t n) : Exact() { mpfr_set_sj(value_, n, MPFR_RNDN); }
  Exact() { mpfr_init2(value_, 200); }
  ~Exact() { mpfr_clear(value_); }
  Exact(const Exact&) = delete;
  Exact& operator=(const Exact&) = delete;
  mpfr_ptr get() { return value_; }

 private:
  mpfr_t value_;
};

/// Position p in [0, 2^63 - 1).
void temperature(Exact& out, const QueryTemperature& t, std::int64_t p) {
  if (t.kind == QueryTemperature::Kind::log_n) {
    Exact length(t.length);
    mpfr_set_sj(out.get(), p + 1, MPFR_RNDN);
    mpfr_log(out.get(), out.get(), MPFR_RNDN);
    mpfr_log(length.get(), length.get(), MPFR_RNDN);
    mpfr_div(out.get(), out.get(), length.get(), MPFR_RNDN);
    if (mpfr_cmp_ui(out.get(), 1) < 0) mpfr_set_ui(out.get(), 1, MPFR_RNDN);
    return;
  }
  mpfr_set_sj(out.get(), (p + t.shift) / t.length, MPFR_RNDN);
  mpfr_log1p(out.get(), out.get(), MPFR_RNDN);
  mpfr_mul_d(out.get(), out.get(), t.scale, MPFR_RNDN);
  mpfr_add_ui(out.get(), out.get(), 1, MPFR_RNDN);
}

TEST(TemperatureOracle, every_temperature_is_the_nearest_float64_and_float32) {
  const QueryTemperature cases[] = {
      {.kind = QueryTemperature::Kind::log_n, .length = 2},
      {.kind = QueryTemperature::Kind::log_n, .length = 2048},
      {.kind = QueryTemperature::Kind::log_n, .length = 8191},
      {.kind = QueryTemperature::Kind::floored_log, .scale = 0.1, .length = 8192, .shift = 1},
      {.kind = QueryTemperature::Kind::floored_log, .scale = 0.1, .length = 16384, .shift = 0},
      {.kind = QueryTemperature::Kind::floored_log, .scale = -3.25, .length = 7, .shift = 3},
  };
  std::vector<std::int64_t> at;
  for (std::int64_t p = 0; p < 20000; ++p) at.push_back(p);
  std::uint64_t x = 1;
  for (int i = 0; i < 20000; ++i) {
    x = x * 6364136223846793005U + 1442695040888963407U;
    at.push_back(static_cast<std::int64_t>(x >> 1) >> (i % 62));
  }
  std::vector<float> floats(at.size());
  Exact exact;
  for (const QueryTemperature& t : cases) {
    for (std::int64_t& p : at) p = std::min(p, std::numeric_limits<std::int64_t>::max() - 4);
    ASSERT_TRUE(fill_temperature(floats, t, positions(at.data(), static_cast<std::int64_t>(at.size()))).ok());
    for (std::size_t i = 0; i < at.size(); ++i) {
      temperature(exact, t, at[i]);
      ASSERT_EQ(query_temperature(t, at[i]), mpfr_get_d(exact.get(), MPFR_RNDN)) << at[i] << " " << t.length;
      ASSERT_EQ(floats[i], mpfr_get_flt(exact.get(), MPFR_RNDN)) << at[i] << " " << t.length;
    }
  }
}

}  // namespace
}  // namespace phasor::test
