// SPDX-License-Identifier: Apache-2.0
// Rotary kernels beside their ceilings (memcpy, and reading, multiplying and writing in place) and beside the float32 way with libm.
// tools/bench_table.py turns the JSON into ratios.
#include <benchmark/benchmark.h>

#include <string>

#include "run.hpp"
#include "support.hpp"

namespace {

using bench::Buffer;
using bench::Shape;
using phasor::DType;
using phasor::Pairing;

constexpr std::int64_t kHeads = 32;
constexpr std::int64_t kFarPosition = 1000000;

struct Size {
  const char* name;
  std::int64_t bytes;
};

std::vector<Size> sizes() {
  // Beyond the last level cache by a factor of two, within reason: a virtual machine may see a whole server's cache.
  const std::int64_t dram = std::clamp<std::int64_t>(2 * bench::cache_bytes(3), 256 << 20, 512 << 20);
  return {{"L2", 256 << 10}, {"L3", 8 << 20}, {"DRAM", dram}};
}

void set_bytes(benchmark::State& state, std::int64_t bytes) { state.SetBytesProcessed(state.iterations() * bytes); }

void multiply(benchmark::State& state, std::int64_t bytes) {
  const Buffer buffer(bytes);
  bench::fill(buffer, DType::f32);
  float factor = -1.0F;  // keeps the values in range
  benchmark::DoNotOptimize(factor);
  float* x = static_cast<float*>(buffer.data());
  const std::int64_t count = bytes / 4;
  for (auto _ : state) {
    for (std::int64_t i = 0; i < count; ++i) x[i] *= factor;
    benchmark::ClobberMemory();
  }
  set_bytes(state, bytes);
}

/// One way to rotate.
struct Case {
  DType dtype;
  Pairing pairing;
  bool out_of_place;
  bool rows_given;
  int threads;
};

void rotate(benchmark::State& state, const Case& c, std::int64_t bytes, std::int64_t heads) {
  const auto rotary = phasor::Rotary::make(bench::llama31(c.pairing));
  if (!rotary.ok() || !bench::rotates_rightly(*rotary, c.dtype)) return state.SkipWithError("wrong result");
  const std::int64_t token_bytes = heads * bench::kHeadDim * phasor::bytes_of(c.dtype);
  const Shape shape = {std::max<std::int64_t>(1, bytes / token_bytes), heads};
  const Buffer in(shape.tokens * token_bytes);
  const Buffer out(c.out_of_place ? in.bytes() : 4096);
  bench::fill(in, c.dtype);
  bench::fill(out, c.dtype);  // its pages must be there before the clock starts
  const phasor::InOut q =
      c.out_of_place ? phasor::InOut(tensor(in, c.dtype, shape), tensor(out, c.dtype, shape)) : tensor(in, c.dtype, shape);
  const DType row_dtype = c.dtype == DType::f64 ? DType::f64 : DType::f32;
  const Buffer cos(shape.tokens * bench::kPairs * phasor::bytes_of(row_dtype));
  const Buffer sin(cos.bytes());
  const phasor::Extents rows = {1, shape.tokens, 1, bench::kPairs};
  const phasor::TensorView cos_view = {cos.data(), row_dtype, rows, phasor::contiguous_strides(rows)};
  const phasor::TensorView sin_view = {sin.data(), row_dtype, rows, phasor::contiguous_strides(rows)};
  if (!rotary->cos_sin(phasor::positions_from(kFarPosition), cos_view, sin_view).ok()) return state.SkipWithError("no rows");
  const phasor::ApplyOptions options = {.execution = {.runner = c.threads == 1 ? bench::serial() : phasor::Runner{}}};
  phasor::TableLayout layout;
  layout.pairing = c.pairing;
  bool ok = true;
  for (auto _ : state) {
    ok &= c.rows_given ? phasor::apply_rotary(q, cos_view, sin_view, layout, options).ok()
                       : rotary->apply(q, phasor::positions_from(kFarPosition), options).ok();
    benchmark::ClobberMemory();
  }
  if (!ok) state.SkipWithError("apply failed");
  set_bytes(state, shape.tokens * token_bytes);
}

/// As the peers do it on a CPU: a float32 angle, libm's cosf and sinf, a loop over heads.
void rotate_by_libm(benchmark::State& state, std::int64_t bytes, std::int64_t heads) {
  const std::int64_t token_bytes = heads * bench::kHeadDim * 4;
  const std::int64_t tokens = std::max<std::int64_t>(1, bytes / token_bytes);
  const Buffer buffer(tokens * token_bytes);
  bench::fill(buffer, DType::f32);
  const auto rotary = phasor::Rotary::make(bench::llama31(Pairing::half));
  std::vector<float> frequency(rotary->frequencies().begin(), rotary->frequencies().end());
  for (auto _ : state) {
    float* x = static_cast<float*>(buffer.data());
    for (std::int64_t t = 0; t < tokens; ++t) {
      float c[bench::kPairs];
      float s[bench::kPairs];
      for (std::int64_t i = 0; i < bench::kPairs; ++i) {
        const float angle = static_cast<float>(kFarPosition + t) * frequency[static_cast<std::size_t>(i)];
        c[i] = std::cos(angle);
        s[i] = std::sin(angle);
      }
      for (std::int64_t h = 0; h < heads; ++h, x += bench::kHeadDim) {
        for (std::int64_t i = 0; i < bench::kPairs; ++i) {
          const float a = x[i];
          const float b = x[i + bench::kPairs];
          x[i] = a * c[i] - b * s[i];
          x[i + bench::kPairs] = a * s[i] + b * c[i];
        }
      }
    }
    benchmark::ClobberMemory();
  }
  set_bytes(state, tokens * token_bytes);
}

/// Rows of 64 pairs alone: `items` are rows.
void make_rows(benchmark::State& state, bool consecutive) {
  constexpr std::int64_t kRows = 1024;
  const auto rotary = phasor::Rotary::make(bench::llama31(Pairing::half));
  std::vector<float> cos(kRows * bench::kPairs);
  std::vector<float> sin(kRows * bench::kPairs);
  std::vector<std::int64_t> position(kRows);
  std::uint64_t draw = 1;
  for (auto& p : position) p = static_cast<std::int64_t>((draw = draw * 6364136223846793005ULL + 1442695040888963407ULL) >> 30);
  const phasor::Extents extents = {1, kRows, 1, bench::kPairs};
  const phasor::Positions at = consecutive ? phasor::positions_from(kFarPosition) : phasor::positions(position.data(), kRows);
  bool ok = true;
  for (auto _ : state) {
    ok &=
        rotary
            ->cos_sin(at, phasor::view(cos.data(), extents), phasor::view(sin.data(), extents), {.execution = {.runner = bench::serial()}})
            .ok();
    benchmark::ClobberMemory();
  }
  if (!ok) state.SkipWithError("cos_sin failed");
  state.SetItemsProcessed(state.iterations() * kRows);
}

void make_plan(benchmark::State& state) {
  for (auto _ : state) {
    auto rotary = phasor::Rotary::make(bench::llama31(Pairing::half));
    benchmark::DoNotOptimize(rotary);
  }
}

std::string name_of(const Case& c) {
  return std::string(phasor::name_of(c.dtype)) + (c.pairing == Pairing::half ? "_half" : "_interleaved") +
         (c.out_of_place ? "_out" : "_in_place") + (c.rows_given ? "_rows_given" : "") + (c.threads == 1 ? "" : "_threads");
}

void register_all() {
  std::vector<Case> cases;
  for (DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (Pairing pairing : {Pairing::half, Pairing::interleaved}) {
      for (bool out_of_place : {false, true}) cases.push_back({dtype, pairing, out_of_place, false, 1});
      cases.push_back({dtype, pairing, false, true, 1});
    }
  }
  cases.push_back({DType::f64, Pairing::half, false, true, 1});
  for (const Size& size : sizes()) {
    const std::string suffix = std::string("/") + size.name;
    const std::int64_t bytes = size.bytes;
    benchmark::RegisterBenchmark(("memcpy" + suffix).c_str(), [bytes](benchmark::State& s) { bench::copy(s, bytes); });
    benchmark::RegisterBenchmark(("multiply_in_place" + suffix).c_str(), [bytes](benchmark::State& s) { multiply(s, bytes); });
    benchmark::RegisterBenchmark(("libm_f32_half" + suffix).c_str(), [bytes](benchmark::State& s) { rotate_by_libm(s, bytes, kHeads); });
    for (const Case& c : cases) {
      benchmark::RegisterBenchmark((name_of(c) + suffix).c_str(), [c, bytes](benchmark::State& s) { rotate(s, c, bytes, kHeads); });
    }
  }
  const std::int64_t prefill = std::int64_t{2048} * kHeads * bench::kHeadDim * 4;
  benchmark::RegisterBenchmark("f32_half_in_place/prefill", [=](benchmark::State& s) {
    rotate(s, {DType::f32, Pairing::half, false, false, 1}, prefill, kHeads);
  })->UseRealTime();
  benchmark::RegisterBenchmark("f32_half_in_place_threads/prefill", [=](benchmark::State& s) {
    rotate(s, {DType::f32, Pairing::half, false, false, 0}, prefill, kHeads);
  })->UseRealTime();
  benchmark::RegisterBenchmark("memcpy/decode", [](benchmark::State& s) { bench::copy(s, kHeads * bench::kHeadDim * 4); });
  benchmark::RegisterBenchmark("libm_f32_half/decode", [](benchmark::State& s) { rotate_by_libm(s, 1, kHeads); });
  for (DType dtype : {DType::f32, DType::bf16}) {
    for (bool rows_given : {false, true}) {
      const Case c = {dtype, Pairing::half, false, rows_given, 1};
      benchmark::RegisterBenchmark((name_of(c) + "/decode").c_str(), [c](benchmark::State& s) { rotate(s, c, 1, kHeads); });
    }
  }
  benchmark::RegisterBenchmark("rows/random", [](benchmark::State& s) { make_rows(s, false); });
  benchmark::RegisterBenchmark("rows/consecutive", [](benchmark::State& s) { make_rows(s, true); });
  benchmark::RegisterBenchmark("plan/llama31", make_plan);
}

}  // namespace

int main(int argc, char** argv) { return bench::run(argc, argv, register_all); }
