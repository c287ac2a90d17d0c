// SPDX-License-Identifier: Apache-2.0
// A call of prepare_attention that is right. q (2, 3, 3, 16), k and v (2, 3, 1, 16), 4 blocks of 2.
#pragma once

#include "prepare/spoiled.hpp"

namespace phasor::test {

struct Attempt {
  static constexpr const char* kBegins = "prepare_attention: ";
  std::vector<float> memory = std::vector<float>(4000, 0.5F);
  std::vector<std::int64_t> slots = {0, 5, -1, 2, 7, 1};
  std::vector<std::int64_t> list = {0, 1, 2, 3, 4, 5, 6};
  std::vector<Rotary> rotaries = {*Rotary::make({.head_dim = 16}), *Rotary::make({.head_dim = 16, .base = 100})};
  PrepareInputs inputs = {
      view(memory.data(), {2, 3, 3, 16}), view(memory.data() + 400, {2, 3, 1, 16}), view(memory.data() + 600, {2, 3, 1, 16}), {}};
  PrepareRotation rotation = {{rotaries.data(), 1}, positions_from(5), {}};
  PrepareOutputs outputs = {contiguous_cache(memory.data() + 1000, Storage::f32, {2, 3, 3, 16}),
                            contiguous_cache(memory.data() + 2000, Storage::f32, {4, 2, 1, 16}),
                            contiguous_cache(memory.data() + 3000, Storage::f8_e4m3, {4, 2, 1, 16}),
                            {.kind = TokenPlaces::Kind::slots, .slots = integers(slots.data(), 6)}};
  PrepareSpec spec;

  CacheView& k() { return outputs.k.parts[0]; }
  CacheView& v() { return outputs.v.parts[0]; }
  Status run() const { return prepare_attention(inputs, rotation, outputs, spec); }
  std::vector<float> held() const { return memory; }
};

inline void check_cases(const std::vector<Spoiled<Attempt>>& cases, ErrorKind kind = ErrorKind::invalid) { expect_refused(cases, kind); }

}  // namespace phasor::test
