// SPDX-License-Identifier: Apache-2.0
// Rerotation of cached keys in place beside its ceilings: memcpy, and rotating keys of the same bytes. 8 heads, as caches have them.
#include <benchmark/benchmark.h>

#include <numeric>
#include <string>

#include "run.hpp"
#include "support.hpp"

namespace {

using bench::Buffer;
using bench::Shape;
using phasor::DType;
using phasor::Pairing;
using phasor::Positions;
using phasor::RotatedAt;

constexpr std::int64_t kHeads = 8;
constexpr std::int64_t kPlaces = 16;
constexpr std::int64_t kFar = 1000000;

enum class Way : std::uint8_t {
  apply,      // not a rerotation: what rotating the keys costs
  shift,      // one spec, every key by the same distance
  paged,      // the same in a paged cache
  base,       // another base, positions as they were
  scattered,  // another base, positions in no order
};
constexpr const char* kNames[] = {"apply", "shift", "shift_paged", "another_base", "another_base_scattered"};

struct Case {
  Way way;
  DType dtype;
  Pairing pairing;
};

/// What a case moves between, and the memory of its positions and slots.
struct Setting {
  phasor::Rotary from;
  phasor::Rotary to;
  std::vector<std::int64_t> scattered;
  std::vector<std::int64_t> slots;

  Setting(const Case& c, std::int64_t tokens)
      : from(*phasor::Rotary::make(bench::llama31(c.pairing))), to(from), scattered(static_cast<std::size_t>(tokens)), slots(scattered) {
    phasor::RotarySpec other = bench::llama31(c.pairing);
    other.base = 2000000;
    if (c.way == Way::base || c.way == Way::scattered) to = *phasor::Rotary::make(other);
    std::uint64_t draw = 1;
    for (auto& p : scattered) p = static_cast<std::int64_t>((draw = draw * 6364136223846793005ULL + 1442695040888963407ULL) >> 44);
    std::iota(slots.begin(), slots.end(), 0);
    for (std::size_t i = 0; i + 2 * kPlaces <= slots.size(); i += 2 * kPlaces) {  // blocks in turned order
      std::swap_ranges(slots.begin() + static_cast<std::ptrdiff_t>(i), slots.begin() + static_cast<std::ptrdiff_t>(i + kPlaces),
                       slots.begin() + static_cast<std::ptrdiff_t>(i + kPlaces));
    }
  }
  Positions old_positions(const Case& c) const {
    return c.way == Way::scattered ? phasor::positions(scattered.data(), static_cast<std::int64_t>(scattered.size()))
                                   : phasor::positions_from(kFar);
  }
  Positions new_positions(const Case& c) const {
    return phasor::positions_from(c.way == Way::shift || c.way == Way::paged ? kFar - 4096 : kFar);
  }
};

phasor::Status move(const Case& c, const Setting& s, const phasor::TensorView& keys) {
  const phasor::ApplyOptions options = {.execution = {.runner = bench::serial()}};
  if (c.way == Way::apply) return s.to.apply(keys, s.new_positions(c), options);
  const RotatedAt from = {s.from, s.old_positions(c)};
  const RotatedAt to = {s.to, s.new_positions(c)};
  if (c.way != Way::paged) return rerotate(keys, from, to, options);
  const phasor::Extents shape = {keys.shape[1] / kPlaces, kPlaces, keys.shape[2], keys.shape[3]};
  return rerotate(phasor::TensorView{keys.data, keys.dtype, shape, phasor::contiguous_strides(shape)}, s.slots, from, to, options);
}

/// Keys rotated and then moved against keys rotated afresh. A benchmark that fails this prints no time.
bool moves_rightly(const Case& c) {
  const Shape shape = {2 * kPlaces, kHeads};
  const std::int64_t count = shape.tokens * shape.heads * bench::kHeadDim;
  const Setting s(c, shape.tokens);
  const Buffer moved(count * phasor::bytes_of(c.dtype));
  const Buffer fresh(moved.bytes());
  bench::fill(moved, c.dtype);
  bench::fill(fresh, c.dtype);
  const phasor::TensorView keys = tensor(moved, c.dtype, shape);
  // In a paged cache token t lies at slots[t], so its position belongs there.
  std::vector<std::int64_t> before(s.slots.size());
  std::vector<std::int64_t> after(s.slots.size());
  for (std::size_t t = 0; t < before.size(); ++t) {
    const auto at = static_cast<std::size_t>(c.way == Way::paged ? s.slots[t] : static_cast<std::int64_t>(t));
    before[at] = c.way == Way::scattered ? s.scattered[t] : kFar + static_cast<std::int64_t>(t);
    after[at] = s.new_positions(c).offset + static_cast<std::int64_t>(t);
  }
  if (c.way != Way::apply && !s.from.apply(keys, phasor::positions(before.data(), shape.tokens)).ok()) return false;
  if (!move(c, s, keys).ok() || !s.to.apply(tensor(fresh, c.dtype, shape), phasor::positions(after.data(), shape.tokens)).ok())
    return false;
  // Three rotations' roundings of pairs below sqrt(2).
  const double bound = c.dtype == DType::f32 ? 2e-6 : 2e-2;
  for (std::int64_t i = 0; i < count; ++i) {
    if (!(std::fabs(bench::value_at(moved, c.dtype, i) - bench::value_at(fresh, c.dtype, i)) < bound)) return false;
  }
  return true;
}

void rerotate_keys(benchmark::State& state, const Case& c, std::int64_t bytes) {
  if (!moves_rightly(c)) return state.SkipWithError("wrong result");
  const std::int64_t token_bytes = kHeads * bench::kHeadDim * phasor::bytes_of(c.dtype);
  const Shape shape = {bytes / token_bytes / (2 * kPlaces) * (2 * kPlaces), kHeads};
  const Setting s(c, shape.tokens);
  const Buffer buffer(shape.tokens * token_bytes);
  bench::fill(buffer, c.dtype);
  bool ok = true;
  for (auto _ : state) {
    ok &= move(c, s, tensor(buffer, c.dtype, shape)).ok();
    benchmark::ClobberMemory();
  }
  if (!ok) state.SkipWithError("rerotate failed");
  state.SetBytesProcessed(state.iterations() * buffer.bytes());
}

void register_all() {
  const std::int64_t dram = std::clamp<std::int64_t>(2 * bench::cache_bytes(3), 256 << 20, 512 << 20);
  for (const auto& [place, bytes] : {std::pair<const char*, std::int64_t>{"/L2", 256 << 10}, {"/L3", 8 << 20}, {"/DRAM", dram}}) {
    benchmark::RegisterBenchmark((std::string("memcpy") + place).c_str(), [bytes = bytes](benchmark::State& s) { bench::copy(s, bytes); });
    for (const Way way : {Way::apply, Way::shift, Way::paged, Way::base, Way::scattered}) {
      for (const Case& c :
           {Case{way, DType::f32, Pairing::half}, {way, DType::bf16, Pairing::half}, {way, DType::bf16, Pairing::interleaved}}) {
        const std::string name = std::string(name_of(c.dtype)) + (c.pairing == Pairing::half ? "_half_" : "_interleaved_") +
                                 kNames[static_cast<std::size_t>(way)] + place;
        benchmark::RegisterBenchmark(name.c_str(), [c, bytes = bytes](benchmark::State& s) { rerotate_keys(s, c, bytes); });
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) { return bench::run(argc, argv, register_all); }
