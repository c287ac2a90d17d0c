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

Values values_of(const Rows<float>& rows, std::int64_t row, std::int64_t pair) { return {rows.cos_at(row, pair), rows.sin_at(row, pair)}; }

/// Rows of every target at some positions of a ladder, and MPFR to judge them and the scalar definition.
template <class Position>
class Judge {
 public:
  Judge(const Ladder& ladder, const std::vector<Position>& position) : ladder_(ladder), position_(position) {
    const std::int64_t tokens = static_cast<std::int64_t>(position.size());
    for (const cpu::RotaryKernels* kernels : available_kernels()) {
      by_target_.emplace_back(tokens, ladder.pairs());
      check(fill(*kernels, ladder.plan, positions(position.data(), tokens), by_target_.back()));
    }
  }

  void ask(std::size_t row, std::int64_t pair, Counts& counts) {
    const Place at = {ladder_, pair, static_cast<double>(position_[row])};
    mpfr_.at(ladder_.frequencies[static_cast<std::size_t>(pair)], position_[row]);
    const Values truth = {mpfr_.cos_float(), mpfr_.sin_float()};
    counts.asked += 2;
    compare(counts, at, truth, decide(counts, ladder_.plan.steps[static_cast<std::size_t>(pair)], position_[row]), "math::sincos");
    for (const Rows<float>& rows : by_target_)
      compare(counts, at, truth, values_of(rows, static_cast<std::int64_t>(row), pair), "a kernel");
  }

 private:
  const Ladder& ladder_;
  const std::vector<Position>& position_;
  std::vector<Rows<float>> by_target_;
  SinCosOracle mpfr_;
};

/// A ladder of its own for every item; a random pair at each of `draws` positions.
template <class Position>
void draw_and_ask(std::int64_t item, std::int64_t draws, Position (*draw)(std::mt19937_64&), Counts& counts) {
  std::mt19937_64 random(static_cast<std::uint64_t>(item) * 2 + (std::is_same_v<Position, double> ? 1 : 0));
  const oracle::LadderDraw drawn = oracle::draw_ladder(random);
  const Ladder ladder = make_ladder(drawn.base, drawn.width);
  std::vector<Position> position(static_cast<std::size_t>(draws));
  for (Position& p : position) p = draw(random);
  Judge<Position> judge(ladder, position);
  for (std::size_t row = 0; row < position.size(); ++row) {
    judge.ask(row, static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(ladder.pairs())), counts);
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
    Judge<std::int64_t> judge(ladder, position);
    for (std::size_t row = 0; row < position.size(); ++row) {
      for (std::int64_t pair = 0; pair < ladder.pairs(); ++pair) judge.ask(row, pair, counts);
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
                   Judge<std::int64_t> judge(ladder, position);
                   for (std::size_t row = 0; row < position.size(); ++row) judge.ask(row, pair, counts);
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
      const Place at = {ladder, pair, static_cast<double>(position)};
      const std::uint64_t doubts = counts.doubt;
      Values truth = decide(counts, ladder.plan.steps[static_cast<std::size_t>(pair)], position);
      if (counts.doubt != doubts) {
        const Values decided = truth;
        mpfr.at(ladder.frequencies[static_cast<std::size_t>(pair)], position);
        counts.asked += 2;
        truth = {mpfr.cos_float(), mpfr.sin_float()};
        compare(counts, at, truth, decided, "math::sincos");
      }
      compare(counts, at, truth, values_of(run, r, pair), "the recurrence");
      compare(counts, at, truth, values_of(single, count - 1 - r, pair), "a random row");
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
