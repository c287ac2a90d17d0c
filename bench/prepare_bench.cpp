// SPDX-License-Identifier: Apache-2.0
// prepare_attention beside its ceiling, memcpy of what it reads, and beside its steps as calls of their own. 32 + 8 + 8 heads of 128.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "run.hpp"
#include "support.hpp"

namespace {

using bench::Buffer;
using phasor::DType;
using phasor::Storage;

constexpr std::int64_t kQueryHeads = 32;
constexpr std::int64_t kKeyHeads = 8;
constexpr std::int64_t kHeads = kQueryHeads + 2 * kKeyHeads;
constexpr std::int64_t kBlock = 16;

enum class Way : std::uint8_t {
  rotation,  // rotated and written
  norm,      // normed, too (Qwen 3)
  fp8,       // keys and values in fp8
  steps,     // a norm, a rotation and a copy by slots, each a call
};
constexpr const char* kNames[] = {"rotation", "norm", "norm_fp8", "norm_in_steps"};

/// Packed rows, the cache, and slots that turn the order of blocks.
struct Setting {
  DType dtype;
  std::int64_t tokens;
  phasor::Rotary rotary = *phasor::Rotary::make(bench::llama31(phasor::Pairing::half));
  Buffer packed, q, cache, between, weight;
  std::vector<std::int64_t> slots;

  Setting(DType dtype_, std::int64_t tokens_)
      : dtype(dtype_),
        tokens(tokens_),
        packed(tokens * kHeads * bench::kHeadDim * bytes_of(dtype)),
        q(tokens * kQueryHeads * bench::kHeadDim * bytes_of(dtype)),
        cache(tokens * 2 * kKeyHeads * bench::kHeadDim * bytes_of(dtype)),
        between(packed.bytes()),
        weight(bench::kHeadDim * 4) {
    bench::fill(packed, dtype);
    bench::fill(weight, DType::f32);
    bench::fill(q, dtype);
    bench::fill(cache, dtype);
    bench::fill(between, dtype);
    for (std::int64_t t = 0; t < tokens; ++t) slots.push_back((tokens / kBlock - 1 - t / kBlock) * kBlock + t % kBlock);
  }
  phasor::PrepareInputs inputs(const Buffer& from) const {
    const phasor::Extents shape = {1, tokens, 1, kHeads * bench::kHeadDim};
    const phasor::ConstTensorView rows(from.data(), dtype, shape, phasor::contiguous_strides(shape));
    return unpack_qkv(rows, {kQueryHeads, kKeyHeads, bench::kHeadDim});
  }
  phasor::PrepareOutputs outputs(Storage storage) const {
    const phasor::CachePair pair = vllm_flash_cache(cache.data(), storage, {tokens / kBlock, kBlock, kKeyHeads, bench::kHeadDim});
    phasor::PrepareOutputs outputs = {tensor_cache(tensor(q, dtype, {tokens, kQueryHeads})), pair.k, pair.v, {}};
    outputs.places.kind = phasor::TokenPlaces::Kind::slots;
    outputs.places.slots = phasor::integers(slots.data(), tokens);
    return outputs;
  }
};

phasor::TensorView writable(const phasor::ConstTensorView& v) { return {const_cast<void*>(v.data), v.dtype, v.shape, v.strides}; }

phasor::Status in_steps(const Setting& s, const phasor::PrepareSpec& spec, const phasor::Execution& one) {
  const phasor::PrepareInputs between = s.inputs(s.between);
  const phasor::PrepareOutputs normed = {
      tensor_cache(writable(between.q)), tensor_cache(writable(between.k)), tensor_cache(writable(between.v)), {}};
  phasor::Status status = prepare_attention(s.inputs(s.packed), {}, normed, spec, one);
  const phasor::TensorView q = tensor(s.q, s.dtype, {s.tokens, kQueryHeads});
  if (status.ok()) status = s.rotary.apply({between.q, q}, writable(between.k), phasor::positions_from(1000), {.execution = one});
  phasor::PrepareInputs kv = between;
  kv.q = {};
  phasor::PrepareOutputs written = s.outputs(s.dtype == DType::f32 ? Storage::f32 : Storage::bf16);
  written.q = {};
  return status.ok() ? prepare_attention(kv, {}, written, {}, one) : status;
}

phasor::Status make_ready(const Setting& s, Way way) {
  const phasor::Execution one = {.runner = bench::serial()};
  phasor::PrepareSpec spec;
  if (way != Way::rotation) {
    spec.q_norm.kind = phasor::HeadNorm::Kind::rms;
    spec.q_norm.cast = phasor::HeadNorm::Cast::before_weight;
    spec.q_norm.weight = {s.weight.data(), DType::f32, {1, 1, 1, bench::kHeadDim}, {0, 0, 0, 1}};
    spec.k_norm = spec.q_norm;
  }
  if (way == Way::steps) return in_steps(s, spec, one);
  const Storage storage = way == Way::fp8 ? Storage::f8_e4m3 : s.dtype == DType::f32 ? Storage::f32 : Storage::bf16;
  return prepare_attention(s.inputs(s.packed), {{&s.rotary, 1}, phasor::positions_from(1000), {}}, s.outputs(storage), spec, one);
}

/// One call is its steps, bit for bit. A benchmark that fails this prints no time.
bool is_its_steps(DType dtype) {
  const Setting fused(dtype, 2 * kBlock);
  const Setting steps(dtype, 2 * kBlock);
  if (!make_ready(fused, Way::norm).ok() || !make_ready(steps, Way::steps).ok()) return false;
  return std::memcmp(fused.q.data(), steps.q.data(), static_cast<std::size_t>(fused.q.bytes())) == 0 &&
         std::memcmp(fused.cache.data(), steps.cache.data(), static_cast<std::size_t>(fused.cache.bytes())) == 0;
}

void prepare(benchmark::State& state, DType dtype, Way way, std::int64_t bytes) {
  if (!is_its_steps(dtype)) return state.SkipWithError("wrong result");
  const std::int64_t token_bytes = kHeads * bench::kHeadDim * bytes_of(dtype);
  const Setting s(dtype, std::max<std::int64_t>(bytes / token_bytes / kBlock, 1) * kBlock);
  bool ok = true;
  for (auto _ : state) {
    ok &= make_ready(s, way).ok();
    benchmark::ClobberMemory();
  }
  if (!ok) state.SkipWithError("prepare_attention failed");
  state.SetBytesProcessed(state.iterations() * s.packed.bytes());
}

void register_all() {
  const std::int64_t dram = std::clamp<std::int64_t>(2 * bench::cache_bytes(3), 64 << 20, 256 << 20);
  for (const auto& [place, bytes] : {std::pair<const char*, std::int64_t>{"/L2", 256 << 10}, {"/DRAM", dram}}) {
    benchmark::RegisterBenchmark((std::string("memcpy") + place).c_str(), [bytes = bytes](benchmark::State& s) { bench::copy(s, bytes); });
    for (const DType dtype : {DType::bf16, DType::f32}) {
      for (const Way way : {Way::rotation, Way::norm, Way::fp8, Way::steps}) {
        const std::string name = std::string(name_of(dtype)) + "_" + kNames[static_cast<std::size_t>(way)] + place;
        benchmark::RegisterBenchmark(name.c_str(), [=, bytes = bytes](benchmark::State& s) { prepare(s, dtype, way, bytes); });
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) { return bench::run(argc, argv, register_all); }
