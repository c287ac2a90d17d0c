// SPDX-License-Identifier: Apache-2.0
#include "attention/support/narrow_problems.hpp"

#include <algorithm>
#include <array>

namespace phasor::test {
namespace {

NarrowProblem problem_of(const std::string& name, const ref::Shape& shape, const std::vector<ref::Scheme>& schemes) {
  ref::Problem p = random_problem(shape, 5);
  p.schemes = schemes;
  return {name, p};
}

/// Features of their own for every query, which do not grow with positions: they would be rounded twice.
ref::Inkling random_inkling(const ref::Shape& s, Numbers& random, std::int64_t extent, std::int64_t width = 16) {
  return {.extent = extent,
          .feature_width = width,
          .features = random.values(s.batch * s.queries * s.heads * width),
          .table = random.values(width * extent)};
}

ref::Deberta far_deberta(const ref::Shape& s, Numbers& random) {
  ref::Deberta scheme = random_deberta(s, random, 16, ref::DebertaReading::hf);
  scheme.max_distance = 50;
  return scheme;
}

/// Rows for every distance, and u and v.
ref::TransformerXl whole_xl(const ref::Shape& s, Numbers& random) {
  const std::int64_t width = s.heads * s.width;
  const std::int64_t most = std::max(s.queries, s.keys);
  return {.u = random.values(width), .v = random.values(width), .table = random.values(width * (2 * most + 1)), .first_distance = -most};
}

/// Shaw's K + V, or V alone.
struct Clip {
  std::int64_t left;
  std::int64_t right;
};
ref::Shaw valued_shaw(const ref::Shape& s, Numbers& random, const Clip& clip, bool with_keys, bool per_head) {
  const std::int64_t rows = (clip.left + 1 + clip.right) * (per_head ? s.heads : 1);
  ref::Shaw scheme{.left = clip.left, .right = clip.right, .per_head = per_head, .values = random.values(rows * s.value_width)};
  if (with_keys) scheme.keys = random.values(rows * s.width);
  return scheme;
}

std::vector<ref::Scheme> many_terms(const ref::Shape& s) {
  Numbers random(6);
  return {random_t5(s, random, true), far_deberta(s, random), ref::Shaw{.left = 20, .right = 9, .keys = random.values(30 * s.width)},
          whole_xl(s, random)};
}

}  // namespace

std::vector<NarrowProblem> masked_problems(const ref::Shape& s) {
  std::vector<NarrowProblem> all;
  for (const NamedMask& mask : every_mask(s)) {
    all.push_back(problem_of(mask.name, s, {}));
    all.back().problem.visibility = mask.visibility;
  }
  return all;
}

std::vector<NarrowProblem> term_problems(const ref::Shape& s) {
  Numbers random(4);
  const ref::Shaw shared{.left = 20, .right = 9, .keys = random.values(30 * s.width)};
  const ref::Shaw own{.left = 3, .right = 200, .per_head = true, .keys = random.values(s.heads * 204 * s.width)};
  std::vector<NarrowProblem> all = {problem_of("shaw", s, {shared}),
                                    problem_of("shaw per head", s, {own}),
                                    problem_of("transformer-xl", s, {whole_xl(s, random)}),
                                    problem_of("deberta", s, {far_deberta(s, random)}),
                                    problem_of("deberta of microsoft", s, {random_deberta(s, random, 4, ref::DebertaReading::microsoft)}),
                                    problem_of("deberta without buckets", s, {random_deberta(s, random, 0, ref::DebertaReading::hf)}),
                                    problem_of("biases", s, {random_t5(s, random, true), ref::Alibi{random.values(s.heads, 0.01, 0.1)}})};
  all.back().problem.visibility.causal = true;
  return all;
}

namespace {

/// What the forward takes besides: features of queries' own; one table, or one of each side, beside biases and caps, under every mask.
void add_forward_tables(const ref::Shape& s, Numbers& random, std::vector<NarrowProblem>& all) {
  all.push_back(problem_of("causal shaw", s, {ref::Shaw{.left = 70, .right = 0, .keys = random.values(71 * s.width)}}));
  all.back().problem.visibility.causal = true;
  all.push_back(problem_of("transformer-xl", s, {whole_xl(s, random)}));
  all.push_back(problem_of("inkling", s, {random_inkling(s, random, 100)}));
  all.push_back(problem_of("inkling and a bias", s, {random_inkling(s, random, 40), random_t5(s, random, true)}));
  all.back().problem.visibility.causal = true;
  all.push_back(problem_of("deberta without buckets", s, {random_deberta(s, random, 0, ref::DebertaReading::hf)}));
  all.push_back(problem_of("deberta and a bias, capped", s, {far_deberta(s, random), random_t5(s, random, true)}));
  all.back().problem.softcap = 3;
  all.back().problem.sinks = random.values(s.heads, -2, 4);
  for (const NamedMask& mask : every_mask(s)) {
    if (mask.name == "full" || (s.width > 64 && mask.name != "padding")) continue;
    all.push_back(problem_of(mask.name, s, {far_deberta(s, random)}));
    all.back().problem.visibility = mask.visibility;
  }
}

/// Heads of few channels and of many. Fewer and shorter for the forward, whose list is longer.
std::array<ref::Shape, 2> shapes_of_many_tiles(TablesBy by) {
  if (by == TablesBy::forward) {
    return {{{.batch = 1, .queries = 150, .keys = 250, .heads = 2, .key_heads = 1, .width = 24, .value_width = 16},
             {.batch = 1, .queries = 250, .keys = 150, .heads = 1, .key_heads = 1, .width = 72, .value_width = 96}}};
  }
  return {{{.batch = 1, .queries = 260, .keys = 330, .heads = 2, .key_heads = 1, .width = 64, .value_width = 32},
           {.batch = 1, .queries = 330, .keys = 200, .heads = 1, .key_heads = 1, .width = 104, .value_width = 16}}};
}

}  // namespace

std::vector<NarrowProblem> long_table_problems(TablesBy by) {
  Numbers random(13);
  std::vector<NarrowProblem> all;
  for (const ref::Shape& s : shapes_of_many_tiles(by)) {
    all.push_back(problem_of("buckets of both sides", s, {far_deberta(s, random)}));
    all.push_back(problem_of("more rows", s, {random_deberta(s, random, 32, ref::DebertaReading::microsoft)}));
    std::get<ref::Deberta>(all.back().problem.schemes[0]).max_distance = 120;
    all.back().problem.visibility.causal = true;
    const ref::Shaw clipped{.left = 30, .right = 5, .keys = random.values(36 * s.width)};
    all.push_back(problem_of("clipped, in a window", s, {clipped}));
    all.back().problem.visibility = {.left = 150, .right = 90};
    all.push_back(problem_of("ragged", s, {far_deberta(s, random)}));
    all.back().problem.visibility = {.query_starts = {0, 60, 60, 63, s.queries}, .key_starts = {0, 70, 80, 100, s.keys}};
    if (by == TablesBy::forward) {
      add_forward_tables(s, random, all);
    } else {
      all.push_back(problem_of("three tables", s, {clipped, far_deberta(s, random)}));
      all.push_back(problem_of("a bias and a shift", s, {whole_xl(s, random), random_t5(s, random, true), clipped}));
    }
  }
  return all;
}

std::vector<NarrowProblem> mixed_problems() {
  std::vector<NarrowProblem> all;
  for (const char* const name : {"wide window", "prefix", "padding"}) {
    all.push_back(problem_of(name, kNarrow, many_terms(kNarrow)));
    for (const NamedMask& mask : every_mask(kNarrow)) {
      if (mask.name == name) all.back().problem.visibility = mask.visibility;
    }
    all.back().problem.sinks = Numbers(9).values(kNarrow.heads, -2, 4);
  }
  const ref::Shape ragged{.batch = 1, .queries = 130, .keys = 160, .heads = 2, .key_heads = 1, .width = 16, .value_width = 8};
  all.push_back(problem_of("ragged", ragged, many_terms(ragged)));
  all.back().problem.visibility = {.query_starts = {0, 50, 50, 60, 130}, .key_starts = {0, 70, 90, 90, 160}};
  return all;
}

std::vector<NarrowProblem> capped_problems(const ref::Shape& s) {
  Numbers random(11);
  std::vector<NarrowProblem> all = {problem_of("far below", s, {}), problem_of("near", s, {}), problem_of("many terms", s, many_terms(s)),
                                    problem_of("values", s, {valued_shaw(s, random, {16, 5}, true, false)}),
                                    problem_of("far above", s, {random_t5(s, random, true)})};
  const double caps[] = {0.05, 0.6, 5, 2, 50};
  for (std::size_t n = 0; n < all.size(); ++n) {
    all[n].problem.softcap = caps[n];
    all[n].problem.visibility.causal = n % 2 == 0;
  }
  all[1].problem.sinks = random.values(s.heads, -2, 4);
  for (const NamedMask& mask : every_mask(s)) {
    if (mask.name != "padding" && mask.name != "wide window") continue;
    all.push_back(problem_of(mask.name, s, {}));
    all.back().problem.visibility = mask.visibility;
    all.back().problem.softcap = 1;
  }
  return all;
}

std::vector<NarrowProblem> dropped_problems(const ref::Shape& s) {
  Numbers random(12);
  std::vector<NarrowProblem> all = {problem_of("plain", s, {}), problem_of("causal and capped", s, {}),
                                    problem_of("many terms", s, many_terms(s))};
  all[1].problem.visibility.causal = true;
  all[1].problem.softcap = 2;
  all[1].problem.sinks = random.values(s.heads, -2, 4);
  for (const NamedMask& mask : every_mask(s)) {
    if (mask.name != "padding" && mask.name != "wide window") continue;
    all.push_back(problem_of(mask.name, s, {}));
    all.back().problem.visibility = mask.visibility;
  }
  ref::Shape more = s;
  more.queries = s.keys + 3;
  all.push_back(problem_of("more queries than keys", more, {}));
  const ref::Shape ragged{.batch = 1, .queries = 130, .keys = 160, .heads = 2, .key_heads = 1, .width = 16, .value_width = 8};
  all.push_back(problem_of("ragged", ragged, {}));
  all.back().problem.visibility = {.query_starts = {0, 50, 50, 60, 130}, .key_starts = {0, 70, 90, 90, 160}};
  for (NarrowProblem& one : all)
    one.problem.dropout = {.probability = 1.0 / 3, .seed = 41, .offset = 7, .first_head = 3, .first_sequence = 2};
  return all;
}

std::vector<NarrowProblem> value_problems(const ref::Shape& s) {
  Numbers random(7);
  std::vector<NarrowProblem> all = {
      problem_of("values", s, {valued_shaw(s, random, {20, 9}, false, false)}),
      problem_of("one row", s, {valued_shaw(s, random, {0, 0}, true, false)}),
      problem_of("values per head", s, {valued_shaw(s, random, {3, 40}, true, true)}),
      problem_of("without a clip", s, {valued_shaw(s, random, {200, 200}, true, false)}),
      problem_of("two tables", s, {valued_shaw(s, random, {7, 0}, true, false), valued_shaw(s, random, {2, 90}, false, true)}),
      problem_of("beside others", s, {valued_shaw(s, random, {16, 2}, true, false)})};
  all.back().problem.schemes.emplace_back(random_t5(s, random, true));
  all.back().problem.schemes.emplace_back(far_deberta(s, random));
  all.back().problem.sinks = random.values(s.heads, -2, 4);
  for (const NamedMask& mask : every_mask(s)) {
    if (mask.name == "full" || mask.name == "wide window" || mask.name == "causal padding" || mask.name == "all padding") continue;
    all.push_back(problem_of(mask.name, s, {valued_shaw(s, random, {16, 5}, true, false)}));
    all.back().problem.visibility = mask.visibility;
  }
  const ref::Shape ragged{.batch = 1, .queries = 130, .keys = 160, .heads = 2, .key_heads = 1, .width = 16, .value_width = 8};
  all.push_back(problem_of("ragged", ragged, {valued_shaw(ragged, random, {6, 3}, true, false)}));
  all.back().problem.visibility = {.query_starts = {0, 50, 50, 60, 130}, .key_starts = {0, 70, 90, 90, 160}};
  return all;
}

std::vector<NarrowProblem> long_value_problems() {
  Numbers random(8);
  std::vector<NarrowProblem> all;
  for (const ref::Shape& s :
       {ref::Shape{.batch = 1, .queries = 200, .keys = 330, .heads = 1, .key_heads = 1, .width = 16, .value_width = 64},
        ref::Shape{.batch = 1, .queries = 190, .keys = 130, .heads = 2, .key_heads = 1, .width = 72, .value_width = 96}}) {
    all.push_back(problem_of("both sides", s, {valued_shaw(s, random, {16, 16}, true, false)}));
    all.push_back(problem_of("causal", s, {valued_shaw(s, random, {16, 0}, true, false)}));
    all.back().problem.visibility.causal = true;
    all.push_back(problem_of("values in a window", s, {valued_shaw(s, random, {30, 4}, false, true)}));
    all.back().problem.visibility = {.left = 100, .right = 50};
  }
  return all;
}

// ---- Features of their own ----

std::vector<NarrowProblem> feature_problems(const ref::Shape& s) {
  Numbers random(14);
  std::vector<NarrowProblem> all;
  for (const auto& [width, extent] : {std::pair{8, 40}, {16, 1}, {16, 300}, {24, 70}, {40, 9}, {64, 50}}) {
    ref::Inkling scheme = random_inkling(s, random, extent, width);
    scheme.scale = width == 16 ? 1 : -0.7;
    all.push_back(problem_of(std::to_string(width) + " channels, " + std::to_string(extent) + " rows", s, {scheme}));
  }
  all.push_back(problem_of("biases", s, {random_inkling(s, random, 60), random_t5(s, random, true)}));
  all.back().problem.schemes.emplace_back(ref::Alibi{random.values(s.heads, 0.01, 0.1)});
  all.push_back(problem_of("capped", s, {random_t5(s, random, true), random_inkling(s, random, 33)}));
  all.back().problem.softcap = 2;
  all.back().problem.sinks = random.values(s.heads, -2, 4);
  all.push_back(problem_of("dropout", s, {random_inkling(s, random, 60)}));
  all.back().problem.dropout = {.probability = 1.0 / 3, .seed = 41, .offset = 7, .first_head = 3, .first_sequence = 2};
  for (const NamedMask& mask : every_mask(s)) {
    if (mask.name == "full") continue;
    all.push_back(problem_of(mask.name, s, {random_inkling(s, random, 50)}));
    all.back().problem.visibility = mask.visibility;
  }
  const ref::Shape ragged{.batch = 1, .queries = 130, .keys = 160, .heads = 2, .key_heads = 1, .width = s.width, .value_width = 8};
  all.push_back(problem_of("ragged", ragged, {random_inkling(ragged, random, 30)}));
  all.back().problem.visibility = {.query_starts = {0, 50, 50, 60, 130}, .key_starts = {0, 70, 90, 90, 160}};
  return all;
}

std::vector<NarrowProblem> feature_lengths() {
  Numbers random(15);
  std::vector<NarrowProblem> all;
  for (const auto& [queries, keys] : {std::pair{1, 1}, {1, 65}, {63, 64}, {65, 63}, {33, 97}, {70, 40}, {130, 1}, {200, 330}}) {
    const std::int64_t width = keys % 2 == 0 ? 72 : 16;
    const ref::Shape s{.batch = 1, .queries = queries, .keys = keys, .heads = 4, .key_heads = 2, .width = width, .value_width = 24};
    all.push_back(problem_of(std::to_string(queries) + " x " + std::to_string(keys), s, {random_inkling(s, random, 37)}));
    all.back().problem.visibility.causal = true;
  }
  return all;
}

NarrowProblem random_feature_problem(std::uint64_t seed) {
  Numbers random(seed);
  const auto any = [&](const std::vector<std::int64_t>& list) {
    return list[static_cast<std::size_t>(random.uniform(0, static_cast<double>(list.size())))];
  };
  const std::int64_t key_heads = any({1, 2});
  const ref::Shape s{.batch = any({1, 2}),
                     .queries = any({1, 31, 64, 65, 100, 130}),
                     .keys = any({1, 33, 64, 65, 129, 150}),
                     .heads = key_heads * any({1, 2}),
                     .key_heads = key_heads,
                     .width = any({8, 40, 64, 72, 128}),
                     .value_width = any({8, 48, 72})};
  const std::int64_t extent = any({1, 2, 16, 17, 63, 65, 128, 400});
  const std::int64_t features = any({8, 16, 16, 24, 32, 48, 64});
  ref::Inkling scheme = random_inkling(s, random, extent, features);
  scheme.scale = random.uniform();
  NarrowProblem one = problem_of(std::to_string(seed) + ": " + std::to_string(s.queries) + " x " + std::to_string(s.keys) + " x " +
                                     std::to_string(s.width) + ", " + std::to_string(features) + " by " + std::to_string(extent),
                                 s, {scheme});
  if (any({0, 1}) == 1) one.problem.schemes.emplace_back(random_t5(s, random, true));
  if (any({0, 1, 2}) == 0) one.problem.softcap = 3;
  if (any({0, 1, 2}) == 0) one.problem.sinks = random.values(s.heads, -2, 4);
  const std::vector<NamedMask> masks = every_mask(s);
  const NamedMask& mask = masks[static_cast<std::size_t>(any({0, 1, 1, 1, 2, 3, 5, 6, 7}))];
  one.problem.visibility = mask.visibility;
  one.name += ", " + mask.name;
  return one;
}

// ---- CoPE ----

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

NarrowProblem counted_problem(const std::string& name, const ref::Shape& shape, const ref::Cope& cope) {
  NarrowProblem one = problem_of(name, shape, {cope});
  one.problem.visibility.causal = true;
  return one;
}

/// Queries that are nearly alike, and keys that meet them with one sign: gates are all small, or all large.
void align(ref::Problem& p, double sign) {
  for (double& x : p.q) x = 0.5 + 0.5 * std::abs(x);
  for (double& x : p.k) x = sign * (0.5 + 0.5 * std::abs(x));
}

}  // namespace

std::vector<NarrowProblem> cope_problems(const ref::Shape& s) {
  std::vector<NarrowProblem> all;
  for (const std::int64_t rows : {1, 2, 16, 17, 64}) all.push_back(counted_problem(std::to_string(rows) + " rows", s, cope_of(s, rows)));
  all.push_back(counted_problem("per head", s, cope_of(s, 9, true)));
  all.push_back(counted_problem("sinks", s, cope_of(s, 9)));
  all.back().problem.sinks = Numbers(9).values(s.heads, -2, 4);
  ref::Cope other = cope_of(s, 24);
  other.gate_scale = -0.3;
  other.term_scale = -1.2;
  all.push_back(counted_problem("other signs", s, other));
  const ref::Shape ragged{.batch = 1, .queries = 130, .keys = 160, .heads = 2, .key_heads = 1, .width = s.width, .value_width = 8};
  all.push_back(counted_problem("ragged", ragged, cope_of(ragged, 12)));
  all.back().problem.visibility.query_starts = {0, 50, 50, 60, 130};
  all.back().problem.visibility.key_starts = {0, 70, 90, 90, 160};
  return all;
}

std::vector<NarrowProblem> masked_cope_problems(const ref::Shape& s) {
  std::vector<NarrowProblem> all;
  for (const NamedMask& mask : every_mask(s)) {
    all.push_back(counted_problem(mask.name, s, cope_of(s, 11)));
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
    all.push_back(counted_problem(std::to_string(queries) + " x " + std::to_string(keys), s, cope_of(s, 20)));
  }
  return all;
}

std::vector<NarrowProblem> cope_clips() {
  const ref::Shape s{.batch = 1, .queries = 70, .keys = 90, .heads = 2, .key_heads = 1, .width = 16, .value_width = 16};
  std::vector<NarrowProblem> all;
  for (const std::int64_t rows : {1, 2, 17, 46, 60}) {  // 90 halves are row 45
    all.push_back(counted_problem("halves, " + std::to_string(rows) + " rows", s, cope_of(s, rows)));
    for (double& x : all.back().problem.k) x = 0;
  }
  all.push_back(counted_problem("a gate scale of 0", s, cope_of(s, 23)));
  std::get<ref::Cope>(all.back().problem.schemes[0]).gate_scale = 0;
  for (const double sign : {-1.0, 1.0}) {
    all.push_back(counted_problem(sign < 0 ? "closed gates" : "open gates", s, cope_of(s, 64)));
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
    all.push_back(counted_problem("few rows", s, cope_of(s, 5)));
    all.push_back(counted_problem("some rows", s, cope_of(s, 40)));
    all.push_back(counted_problem("few rows in a window", s, cope_of(s, 5)));
    all.back().problem.visibility.left = 90;
  }
  return all;
}

}  // namespace phasor::test
