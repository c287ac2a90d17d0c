// SPDX-License-Identifier: Apache-2.0
#include "attention/support/cope_problems.hpp"

namespace phasor::test {
namespace {

constexpr double kGateScale = 0.9;

ref::Cope cope_of(const ref::Shape& s, std::int64_t rows, bool per_head = false) {
  Numbers random(static_cast<std::uint64_t>(rows));
  return {.rows = rows,
          .per_head = per_head,
          .table = random.values(rows * s.width * (per_head ? s.heads : 1)),
          .gate_scale = kGateScale,
          .term_scale = 0.6};
}

NarrowProblem problem_of(const std::string& name, const ref::Shape& shape, const ref::Cope& cope) {
  ref::Problem p = random_problem(shape, 5);
  p.schemes = {cope};
  p.visibility.causal = true;
  return {name, p};
}

/// Queries that are nearly alike, and keys that meet them with one sign: gates are all small, or all large.
void align(ref::Problem& p, double sign) {
  for (double& x : p.q) x = 0.5 + 0.5 * std::abs(x);
  for (double& x : p.k) x = sign * (0.5 + 0.5 * std::abs(x));
}

}  // namespace

std::vector<NarrowProblem> cope_problems(const ref::Shape& s) {
  std::vector<NarrowProblem> all;
  for (const std::int64_t rows : {1, 2, 16, 17, 64}) all.push_back(problem_of(std::to_string(rows) + " rows", s, cope_of(s, rows)));
  all.push_back(problem_of("per head", s, cope_of(s, 9, true)));
  all.push_back(problem_of("sinks", s, cope_of(s, 9)));
  all.back().problem.sinks = Numbers(9).values(s.heads, -2, 4);
  ref::Cope other = cope_of(s, 24);
  other.gate_scale = -0.3;
  other.term_scale = -1.2;
  all.push_back(problem_of("other signs", s, other));
  const ref::Shape ragged{.batch = 1, .queries = 130, .keys = 160, .heads = 2, .key_heads = 1, .width = s.width, .value_width = 8};
  all.push_back(problem_of("ragged", ragged, cope_of(ragged, 12)));
  all.back().problem.visibility.query_starts = {0, 50, 50, 60, 130};
  all.back().problem.visibility.key_starts = {0, 70, 90, 90, 160};
  return all;
}

std::vector<NarrowProblem> masked_cope_problems(const ref::Shape& s) {
  std::vector<NarrowProblem> all;
  for (const NamedMask& mask : every_mask(s)) {
    all.push_back(problem_of(mask.name, s, cope_of(s, 11)));
    all.back().problem.visibility = mask.visibility;
    all.back().problem.visibility.causal = true;
  }
  return all;
}

std::vector<NarrowProblem> cope_lengths() {
  std::vector<NarrowProblem> all;
  for (const auto& [queries, keys] :
       {std::pair{1, 1}, {1, 65}, {63, 63}, {64, 64}, {65, 65}, {130, 130}, {31, 32}, {33, 97}, {70, 40}, {130, 1}}) {
    const ref::Shape s{.batch = 1, .queries = queries, .keys = keys, .heads = 4, .key_heads = 2, .width = 16, .value_width = 24};
    all.push_back(problem_of(std::to_string(queries) + " x " + std::to_string(keys), s, cope_of(s, 20)));
  }
  return all;
}

std::vector<NarrowProblem> cope_clips() {
  const ref::Shape s{.batch = 1, .queries = 70, .keys = 90, .heads = 2, .key_heads = 1, .width = 16, .value_width = 16};
  std::vector<NarrowProblem> all;
  for (const std::int64_t rows : {1, 2, 17, 46, 60}) {  // 90 halves are row 45
    all.push_back(problem_of("halves, " + std::to_string(rows) + " rows", s, cope_of(s, rows)));
    for (double& x : all.back().problem.k) x = 0;
  }
  all.push_back(problem_of("a gate scale of 0", s, cope_of(s, 23)));
  std::get<ref::Cope>(all.back().problem.schemes[0]).gate_scale = 0;
  for (const double sign : {-1.0, 1.0}) {
    all.push_back(problem_of(sign < 0 ? "closed gates" : "open gates", s, cope_of(s, 64)));
    align(all.back().problem, sign);
    std::get<ref::Cope>(all.back().problem.schemes[0]).gate_scale = 4;
  }
  return all;
}

std::vector<NarrowProblem> long_cope_problems() {
  std::vector<NarrowProblem> all;
  for (const ref::Shape& s :
       {ref::Shape{.batch = 1, .queries = 100, .keys = 230, .heads = 1, .key_heads = 1, .width = 16, .value_width = 64},
        ref::Shape{.batch = 1, .queries = 70, .keys = 200, .heads = 2, .key_heads = 1, .width = 72, .value_width = 96}}) {
    all.push_back(problem_of("few rows", s, cope_of(s, 5)));
    all.push_back(problem_of("some rows", s, cope_of(s, 40)));
    all.push_back(problem_of("few rows in a window", s, cope_of(s, 5)));
    all.back().problem.visibility.left = 90;
  }
  return all;
}

}  // namespace phasor::test
