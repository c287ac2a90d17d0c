// SPDX-License-Identifier: Apache-2.0
// The long proof that every float32 cosine and sine is the nearest: `make test-exhaustive`.
// Usage: phasor_exhaustive [POSITIONS [DRAWS]], 10 million of each unless given.
#include <cstdlib>

#include "cpu/sweep.hpp"

namespace phasor::exact {
namespace {

using oracle::SinCosOracle;

constexpr std::int64_t kRowsAtATime = 512;

void check(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.message().c_str());
  std::exit(2);
}

/// The scalar definition and every target's row, at one position of one pair, against MPFR.
template <class Position>
void ask(Counts& counts, SinCosOracle& mpfr, const Ladder& ladder, std::int64_t pair, Position position,
         const std::vector<Rows<float>>& by_target, std::int64_t row) {
  const std::size_t i = static_cast<std::size_t>(pair);
  mpfr.at(ladder.frequencies[i], position);
  const float truth[2] = {mpfr.cos_float(), mpfr.sin_float()};
  counts.asked += 2;
  float found[2];
  decide(counts, ladder.plan.steps[i], position, found[0], found[1]);
  compare(counts, ladder, pair, static_cast<double>(position), truth, found, "math::sincos");
  for (const Rows<float>& rows : by_target) {
    compare(counts, ladder, pair, static_cast<double>(position), truth, {rows.cos_at(row, pair), rows.sin_at(row, pair)}, "a kernel");
  }
}

template <class Position>
std::vector<Rows<float>> rows_of_every_target(const Ladder& ladder, const std::vector<Position>& position) {
  std::vector<Rows<float>> by_target;
  const std::int64_t tokens = static_cast<std::int64_t>(position.size());
  for (const cpu::RotaryKernels* kernels : available_kernels()) {
    by_target.emplace_back(tokens, ladder.pairs());
    check(fill(*kernels, ladder.plan, positions(position.data(), tokens), by_target.back()));
  }
  return by_target;
}

/// A ladder of its own for every item; a random pair at each of `draws` positions.
template <class Position>
void draw_and_ask(std::int64_t item, std::int64_t draws, Position (*draw)(std::mt19937_64&), Counts& counts) {
  std::mt19937_64 random(static_cast<std::uint64_t>(item) * 2 + (std::is_same_v<Position, double> ? 1 : 0));
  const oracle::LadderDraw drawn = oracle::draw_ladder(random);
  const Ladder ladder = make_ladder(drawn.base, drawn.width);
  std::vector<Position> position(static_cast<std::size_t>(draws));
  for (Position& p : position) p = draw(random);
  const auto by_target = rows_of_every_target(ladder, position);
  SinCosOracle mpfr;
  for (std::int64_t k = 0; k < draws; ++k) {
    const std::int64_t pair = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(ladder.pairs()));
    ask(counts, mpfr, ladder, pair, position[static_cast<std::size_t>(k)], by_target, k);
  }
}

template <class Position>
Counts random_draws(const char* name, std::int64_t draws, Position (*draw)(std::mt19937_64&)) {
  return sweep(name, (draws + kRowsAtATime - 1) / kRowsAtATime, [&](std::int64_t item, Counts& counts) {
    draw_and_ask(item, std::min(kRowsAtATime, draws - item * kRowsAtATime), draw, counts);
  });
}

/// Every pair at every position from 0 to `end` - 1, in consecutive rows, MPFR on every value.
Counts first_positions(std::int64_t end) {
  std::vector<Ladder> ladders;
  for (double base : {1e4, 5e5}) ladders.push_back(make_ladder(base, 128));
  const std::int64_t blocks = (end + kRowsAtATime - 1) / kRowsAtATime;
  return sweep("positions 0 to 65535 of two ladders", 2 * blocks, [&](std::int64_t item, Counts& counts) {
    const Ladder& ladder = ladders[static_cast<std::size_t>(item / blocks)];
    std::vector<std::int64_t> position(static_cast<std::size_t>(std::min(kRowsAtATime, end - item % blocks * kRowsAtATime)));
    for (std::size_t r = 0; r < position.size(); ++r) position[r] = item % blocks * kRowsAtATime + static_cast<std::int64_t>(r);
    const auto by_target = rows_of_every_target(ladder, position);
    SinCosOracle mpfr;
    for (std::size_t r = 0; r < position.size(); ++r) {
      for (std::int64_t pair = 0; pair < ladder.pairs(); ++pair) {
        ask(counts, mpfr, ladder, pair, position[r], by_target, static_cast<std::int64_t>(r));
      }
    }
  });
}

constexpr double kBases[] = {1e4, 5e5, 1e6, 1.6e5};
constexpr int kWidths[] = {64, 80, 96, 128, 256};

std::vector<Ladder> all_ladders() {
  std::vector<Ladder> ladders;
  for (double base : kBases) {
    for (int width : kWidths) ladders.push_back(make_ladder(base, width));
  }
  return ladders;
}

/// The positions where a pair's sine or cosine nearly vanishes, either sign; the convergents of pi are those of pair 0.
Counts convergents(const std::vector<Ladder>& ladders) {
  return sweep("convergents of pi and of every frequency", static_cast<std::int64_t>(ladders.size()),
               [&](std::int64_t item, Counts& counts) {
                 const Ladder& ladder = ladders[static_cast<std::size_t>(item)];
                 SinCosOracle mpfr;
                 for (std::int64_t pair = 0; pair < ladder.pairs(); ++pair) {
                   std::vector<std::int64_t> position;
                   for (std::int64_t m : oracle::nearest_to_quarter_turns(ladder.frequencies[static_cast<std::size_t>(pair)])) {
                     for (std::int64_t near : {m, -m, m - 1, m + 1}) position.push_back(near);
                   }
                   const auto by_target = rows_of_every_target(ladder, position);
                   for (std::size_t r = 0; r < position.size(); ++r)
                     ask(counts, mpfr, ladder, pair, position[r], by_target, static_cast<std::int64_t>(r));
                 }
               });
}

/// One block of consecutive positions of one ladder. Three ways that share no error bound must agree: the best target's recurrence, the
/// random rows of another target (level 1, Short), and level 1 (Long) one by one. Where Long is in doubt MPFR is the judge.
void compare_block(const Ladder& ladder, std::int64_t first, std::int64_t count, Counts& counts) {
  const auto kernels = available_kernels();
  std::vector<std::int64_t> backwards(static_cast<std::size_t>(count));  // so that no run is consecutive
  for (std::int64_t r = 0; r < count; ++r) backwards[static_cast<std::size_t>(r)] = first + count - 1 - r;
  Rows<float> run(count, ladder.pairs());
  Rows<float> single(count, ladder.pairs());
  check(fill(*kernels.front(), ladder.plan, positions_from(first), run));
  check(fill(*kernels[kernels.size() > 2 ? 1 : 0], ladder.plan, positions(backwards.data(), count), single));
  SinCosOracle mpfr;
  for (std::int64_t r = 0; r < count; ++r) {
    const std::int64_t position = first + r;
    for (std::int64_t pair = 0; pair < ladder.pairs(); ++pair) {
      const std::uint64_t before = counts.doubt;
      float truth[2];
      decide(counts, ladder.plan.steps[static_cast<std::size_t>(pair)], position, truth[0], truth[1]);
      if (counts.doubt != before) {
        const float decided[2] = {truth[0], truth[1]};
        mpfr.at(ladder.frequencies[static_cast<std::size_t>(pair)], position);
        counts.asked += 2;
        truth[0] = mpfr.cos_float();
        truth[1] = mpfr.sin_float();
        compare(counts, ladder, pair, static_cast<double>(position), truth, decided, "math::sincos");
      }
      compare(counts, ladder, pair, static_cast<double>(position), truth, {run.cos_at(r, pair), run.sin_at(r, pair)}, "the recurrence");
      compare(counts, ladder, pair, static_cast<double>(position), truth,
              {single.cos_at(count - 1 - r, pair), single.sin_at(count - 1 - r, pair)}, "a random row");
    }
  }
}

Counts full_product(const std::vector<Ladder>& ladders, std::int64_t count) {
  const std::int64_t blocks = (count + kRowsAtATime - 1) / kRowsAtATime;
  return sweep("full product", blocks * static_cast<std::int64_t>(ladders.size()), [&](std::int64_t item, Counts& counts) {
    const std::int64_t first = item / static_cast<std::int64_t>(ladders.size()) * kRowsAtATime;
    compare_block(ladders[static_cast<std::size_t>(item) % ladders.size()], first, std::min(kRowsAtATime, count - first), counts);
  });
}

int run(std::int64_t count, std::int64_t draws) {
  const std::vector<Ladder> ladders = all_ladders();
  Counts total;
  total += convergents(ladders);
  total += first_positions(65536);
  total += random_draws("random fractional positions", draws / 5, oracle::draw_fraction);
  total += random_draws("random positions in all of int64", draws, oracle::draw_position);
  total += full_product(ladders, count);
  std::printf("%s: %llu values, %llu wrong, %llu undecided\n", total.wrong + total.undecided == 0 ? "PASSED" : "FAILED",
              static_cast<unsigned long long>(total.values), static_cast<unsigned long long>(total.wrong),
              static_cast<unsigned long long>(total.undecided));
  return total.wrong + total.undecided == 0 ? 0 : 1;
}

}  // namespace
}  // namespace phasor::exact

int main(int count, char** arguments) {
  const std::int64_t wanted = count > 1 ? std::atoll(arguments[1]) : 10'000'000;
  const std::int64_t draws = count > 2 ? std::atoll(arguments[2]) : 10'000'000;
  if (wanted < 1 || draws < 1) {
    std::fprintf(stderr, "usage: phasor_exhaustive [POSITIONS [DRAWS]], wanted both at least 1\n");
    return 2;
  }
  return phasor::exact::run(wanted, draws);
}
