// SPDX-License-Identifier: Apache-2.0
// Schemes of the reference that rotate q and k before they meet.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <tuple>

#include "attention/reference/parts.hpp"
#include "attention/reference/remembered.hpp"

namespace phasor::attend::reference {
namespace {

/// A side of the product: what position it is rotated at, and what the ladder's gains are raised to. None: left as it is.
struct Turn {
  long double position = 0;
  long double power = 0;
  bool none = false;
};

struct Turns {
  Turn query;
  Turn key;
};

std::int64_t rotary_width(const Ladder& ladder, std::int64_t width) { return ladder.rotary_width == 0 ? width : ladder.rotary_width; }

long double frequency(const Ladder& ladder, std::int64_t pair, std::int64_t width) {
  if (!ladder.frequencies.empty()) return ladder.frequencies[static_cast<std::size_t>(pair)];
  const long double exponent = static_cast<long double>(2 * pair) / static_cast<long double>(rotary_width(ladder, width));
  return 1 / std::pow(static_cast<long double>(ladder.base), exponent);
}

/// x to so many binary digits, ties to even; digits below 2^least are not there, and what rounds beyond `most` is infinite.
double rounded(double x, int digits, int least, double most) {
  if (x == 0 || !std::isfinite(x)) return x;
  int exponent = 0;
  std::frexp(x, &exponent);
  const double unit = std::ldexp(1.0, std::max(exponent - digits, least));  // of the last digit
  const double y = std::nearbyint(x / unit) * unit;
  return std::fabs(y) > most ? std::copysign(HUGE_VAL, x) : y;
}
double stored_as(Stored stored, double x) {
  if (stored == Stored::f16) return rounded(x, 11, -24, 65504);
  return stored == Stored::bf16 ? rounded(x, 8, -133, 0x1.fep127) : x;
}
/// Exact of one sum or product of float32 numbers.
double in_float(double x) { return static_cast<double>(static_cast<float>(x)); }

struct CosSin {
  double c;
  double s;
};

/// x rotated; transposed: by the transposed matrix. gamma: of xPos.
struct Rotation {
  const Ladder& ladder;
  long double gamma;
  std::int64_t width;  // D
  bool magnitudes = false;

  /// Cosine and sine of every pair, times its gain.
  std::vector<CosSin> rows(const Turn& turn) const {
    const std::int64_t pairs = rotary_width(ladder, width) / 2;
    std::vector<CosSin> result;
    for (std::int64_t n = 0; n < pairs; ++n) {
      const long double angle = turn.position * frequency(ladder, n, width);
      const long double zeta = (static_cast<long double>(n) / static_cast<long double>(pairs) + gamma) / (1 + gamma);
      const long double gain = ladder.amplitude * (turn.power == 0 ? 1 : std::pow(zeta, turn.power));
      result.push_back({static_cast<double>(gain * std::cos(angle)), static_cast<double>(gain * std::sin(angle))});
    }
    return result;
  }
  /// What cosines and sines depend on.
  using RowsKey = std::tuple<long double, long double, double, std::int64_t, long double, double, Values>;
  RowsKey rows_key(const Turn& turn) const {
    return {turn.position, turn.power, ladder.base, rotary_width(ladder, width), gamma, ladder.amplitude, ladder.frequencies};
  }
  const std::vector<CosSin>& remembered_rows(const Turn& turn) const {
    thread_local std::map<RowsKey, std::vector<CosSin>> memory;
    return remembered(memory, rows_key(turn), [&] { return rows(turn); });
  }

  /// By float32 arithmetic: both products, their sum, then what it is stored as.
  double narrow_sum(double a, double c, double b, double s) const {
    return stored_as(ladder.stored, in_float(in_float(a * in_float(c)) + in_float(b * in_float(s))));
  }

  /// x turned, each pair by sum(a, c, b, s) = a c + b s.
  template <class Sum>
  Values turned_by(const Values& x, const Turn& turn, bool transposed, const Sum& sum) const {
    Values y = x;
    const std::vector<CosSin>& row = remembered_rows(turn);
    const auto pairs = row.size();
    for (std::size_t n = 0; n < pairs; ++n) {
      const bool half = ladder.pairing == Pairing::half;
      const std::size_t first = half ? n : 2 * n;
      const std::size_t second = half ? n + pairs : 2 * n + 1;
      const double c = magnitudes ? std::fabs(row[n].c) : row[n].c;
      const double s = magnitudes ? std::fabs(row[n].s) : transposed ? -row[n].s : row[n].s;
      y[first] = sum(x[first], c, x[second], magnitudes ? s : -s);
      y[second] = sum(x[first], s, x[second], c);
    }
    return y;
  }

  Values turned(const double* x, const Turn& turn, bool transposed) const {
    const Values all(x, x + width);
    if (turn.none) return all;
    if (ladder.stored == Stored::f64 || magnitudes || transposed) {  // gradients are as if nothing had been rounded
      return turned_by(all, turn, transposed, [](double a, double c, double b, double s) { return a * c + b * s; });
    }
    thread_local std::map<std::tuple<Pairing, Stored, Values, RowsKey>, Values> memory;  // roundings take their time
    return remembered(memory, {ladder.pairing, ladder.stored, all, rows_key(turn)}, [&] {
      return turned_by(all, turn, false, [this](double a, double c, double b, double s) { return narrow_sum(a, c, b, s); });
    });
  }

  double content(const Problem& p, const Cell& c, const Turns& at) const {
    return p.scale * dot(turned(query(p, c), at.query, false).data(), turned(key(p, c), at.key, false).data(), width);
  }

  void gradient(const Problem& p, const Cell& c, const Turns& at, double ds, Gradients& sum) const {
    const Values q = turned(query(p, c), at.query, false);
    const Values k = turned(key(p, c), at.key, false);
    add(sum.q.data() + query_row(p, c), p.scale * ds, turned(k.data(), at.query, true).data(), width);
    add(sum.k.data() + key_row(p, c), p.scale * ds, turned(q.data(), at.key, true).data(), width);
  }
};

Turns rope_turns(const Rope& s, const Problem& p, const Cell& c) {
  return {{.position = static_cast<long double>(query_position(p, c))},
          {.position = static_cast<long double>(key_position(p, c)), .none = s.keys_rotated}};
}

Turns xpos_turns(const Xpos& s, const Problem& p, const Cell& c) {
  const auto m = static_cast<long double>(query_position(p, c));
  const auto n = static_cast<long double>(key_position(p, c));
  return {{.position = m, .power = m / s.scale_base}, {.position = n, .power = -n / s.scale_base, .none = s.keys_rotated}};
}

Turns at(long double m, long double n) { return {{.position = m}, {.position = n}}; }

Turns dual_chunk_turns(const MappedRope& s, std::int64_t m, std::int64_t n) {
  const std::int64_t c = s.chunk - s.local;
  const std::int64_t apart = m / c - n / c;
  std::int64_t query_at = std::min(2 * c - 1, s.chunk);
  if (apart == 0) query_at = m % c;
  if (apart == 1) query_at = std::min(m % c + c, s.chunk);
  return at(static_cast<long double>(query_at), static_cast<long double>(n % c));
}

Turns mapped_turns(const MappedRope& s, const Problem& p, const Cell& cell) {
  const std::int64_t m = query_position(p, cell);
  const std::int64_t n = key_position(p, cell);
  if (s.kind == MapKind::dual_chunk) return dual_chunk_turns(s, m, n);
  const auto query_at = static_cast<long double>(m);
  const auto key_at = static_cast<long double>(n);
  if (m - n < s.window) return at(query_at, key_at);
  const auto window = static_cast<long double>(s.window);
  const auto factor = static_cast<long double>(s.factor);
  switch (s.kind) {
    case MapKind::rerope:
      return at(window, 0);
    case MapKind::leaky_rerope:
      return at((query_at + window * (factor - 1)) / factor, key_at / factor);
    case MapKind::self_extend:
    case MapKind::dual_chunk:
      break;
  }
  const std::int64_t query_group = m / s.group + s.window - s.window / s.group;
  const std::int64_t key_group = n / s.group;
  return at(static_cast<long double>(query_group), static_cast<long double>(key_group));
}

void check_ladder(const Ladder& ladder, const Problem& p) {
  const std::int64_t width = rotary_width(ladder, p.shape.width);
  expect(width % 2 == 0 && width <= p.shape.width, "the rotary width is odd or more than D");
  if (!ladder.frequencies.empty()) expect_size(ladder.frequencies, width / 2, "frequencies");
}

}  // namespace

double Rope::content(const Problem& p, const Cell& c) const {
  return Rotation{ladder, 0, p.shape.width, p.magnitudes_of != nullptr}.content(p, c, rope_turns(*this, p, c));
}
void Rope::content_gradient(const Problem& p, const Cell& c, double ds, Gradients& sum) const {
  Rotation{ladder, 0, p.shape.width, p.magnitudes_of != nullptr}.gradient(p, c, rope_turns(*this, p, c), ds, sum);
}
void Rope::check(const Problem& p) const { check_ladder(ladder, p); }

double Xpos::content(const Problem& p, const Cell& c) const {
  return Rotation{ladder, gamma, p.shape.width, p.magnitudes_of != nullptr}.content(p, c, xpos_turns(*this, p, c));
}
void Xpos::content_gradient(const Problem& p, const Cell& c, double ds, Gradients& sum) const {
  Rotation{ladder, gamma, p.shape.width, p.magnitudes_of != nullptr}.gradient(p, c, xpos_turns(*this, p, c), ds, sum);
}
void Xpos::check(const Problem& p) const { check_ladder(ladder, p); }

double MappedRope::content(const Problem& p, const Cell& c) const {
  return Rotation{ladder, 0, p.shape.width, p.magnitudes_of != nullptr}.content(p, c, mapped_turns(*this, p, c));
}
void MappedRope::content_gradient(const Problem& p, const Cell& c, double ds, Gradients& sum) const {
  Rotation{ladder, 0, p.shape.width, p.magnitudes_of != nullptr}.gradient(p, c, mapped_turns(*this, p, c), ds, sum);
}
void MappedRope::check(const Problem& p) const {
  check_ladder(ladder, p);
  expect(p.visibility.causal && p.visibility.prefix.empty(), "maps of positions want a causal mask without a prefix");
  expect(kind != MapKind::dual_chunk || chunk > local, "dual chunk wants chunk > local");
  expect(group > 0 && factor > 0, "maps want a group and a factor above 0");
}

}  // namespace phasor::attend::reference
