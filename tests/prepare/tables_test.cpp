// SPDX-License-Identifier: Apache-2.0
// Rows that are given as tables: with the rows of a spec a call and its gradients are those of the spec, bit for bit; tables that do not
// fit are refused. (Random tables against the naive step: cuda/random_tables.hpp.)
#include <gtest/gtest.h>

#include "phasor/prepare.hpp"
#include "prepare/attempt.hpp"
#include "tensor.hpp"

namespace phasor::test {
namespace {

constexpr std::int64_t kBatch = 2, kTokens = 5, kHeads = 3, kDim = 48;

GivenDirections directions() {
  GivenDirections made{.heads = kHeads};
  for (int i = 0; i < 2 * kHeads * kDim / 2; ++i) made.frequencies.push_back(0.1 + 0.01 * i);
  return made;
}

/// Every way in which rows lie in tables: a value for each pair, for each channel, for each head.
std::vector<RotarySpec> specs() {
  return {{.head_dim = kDim},
          {.head_dim = kDim, .rotary_width = 20, .rotary_offset = 7, .pairing = Pairing::interleaved},
          {.head_dim = kDim, .pairing = Pairing::interleaved, .output_pairing = Pairing::half},
          {.head_dim = kDim, .sense = Sense::clockwise, .segments = 3},
          {.head_dim = kDim, .scaling = YarnScaling{.factor = 4, .original_length = 4096}},
          {.head_dim = kDim, .scaling = directions()},
          {.head_dim = kDim, .pairing = Pairing::interleaved, .lanes = Lanes::per_channel_frequencies},
          {.head_dim = kDim, .pairing = Pairing::interleaved, .segments = 2, .lanes = Lanes::per_channel_frequencies}};
}

/// A spec, and its rows as tables.
struct Tabled {
  Rotary rotary;
  std::vector<float> cos, sin;
  Extents shape = {kBatch, kTokens, 1, 0};

  explicit Tabled(const RotarySpec& spec) : rotary(*Rotary::make(spec)) {
    if (std::holds_alternative<GivenDirections>(spec.scaling)) shape[2] = kHeads;
    shape[3] = rotary.rotary_width() / (spec.lanes == Lanes::per_channel_frequencies ? 1 : 2);
    cos.resize(static_cast<std::size_t>(shape[0] * shape[1] * shape[2] * shape[3]));
    sin.resize(cos.size());
    EXPECT_TRUE(rotary.cos_sin(positions_from(77), view(cos.data(), shape), view(sin.data(), shape)).ok());
  }
  PrepareRotation by_spec() const { return {.rotaries = {&rotary, 1}, .positions = positions_from(77)}; }
  PrepareRotation by_tables() const {
    const RotarySpec& spec = rotary.spec();
    PrepareRotation rotation;
    rotation.cos = view(cos.data(), shape);
    rotation.sin = view(sin.data(), shape);
    rotation.layout = {.rotary_width = spec.rotary_width,
                       .rotary_offset = spec.rotary_offset,
                       .pairing = spec.pairing,
                       .output_pairing = spec.output_pairing,
                       .sense = spec.sense,
                       .segments = spec.segments};
    return rotation;
  }
};

/// Per-channel frequencies have their values by channel (c mod R/2): tables of interleaved pairs have them so, too.
class TabledRows : public EveryTarget {
 protected:
  /// make(rotation, spec) gives tensors: by every rotary spec and by its tables the same, alone and with norm, scale and the other order.
  template <class Make>
  void expect_same(const Make& make) {
    const std::vector<RotarySpec> list = specs();
    on_every_target([&] {
      for (std::size_t i = 0; i < 4 * list.size(); ++i) {
        SCOPED_TRACE(i);
        const Tabled rows(list[i / 4]);
        PrepareSpec spec;
        if (i % 4 > 0) spec.q_norm.kind = HeadNorm::Kind::rms;
        if (i % 4 > 1) spec.query_scale = 0.3F;
        if (i % 4 > 2) spec.order = PrepareSpec::Order::rotation_first;
        const std::vector<Tensor<float>> of_spec = make(rows.by_spec(), spec);
        const std::vector<Tensor<float>> of_tables = make(rows.by_tables(), spec);
        for (std::size_t n = 0; n < of_spec.size(); ++n) EXPECT_TRUE(same_bits(of_spec[n].memory, of_tables[n].memory)) << n;
      }
    });
  }
};

TEST_F(TabledRows, of_a_spec_give_what_the_spec_gives) {
  expect_same([](const PrepareRotation& rotation, const PrepareSpec& spec) {
    Tensor<float> q({kBatch, kTokens, kHeads, kDim}, 1);
    Tensor<float> k({kBatch, kTokens, kHeads, kDim}, 2);
    q.with_numbers(0, kDim, 7);
    k.with_numbers(0, kDim, 8);
    const Status status =
        prepare_attention({q.view(), k.view(), {}, {}}, rotation, {tensor_cache(q.view()), tensor_cache(k.view()), {}, {}}, spec);
    EXPECT_TRUE(status.ok()) << status.message();
    return std::vector<Tensor<float>>{q, k};
  });
}

TEST_F(TabledRows, of_a_spec_have_the_gradients_of_the_spec) {
  expect_same([](const PrepareRotation& rotation, const PrepareSpec& spec) {
    Tensor<float> q({kBatch, kTokens, kHeads, kDim}, 1);
    Tensor<float> by_output({kBatch, kTokens, kHeads, kDim}, 2);
    Tensor<float> by_input({kBatch, kTokens, kHeads, kDim}, 3);
    q.with_numbers(0, kDim, 7);
    by_output.with_numbers(0, kDim, 8);
    PrepareGradients gradients;
    gradients.q = {by_output.view(), by_input.view(), {}};
    const Status status = prepare_attention_backward({q.view(), {}, {}, {}}, rotation, gradients, spec);
    EXPECT_TRUE(status.ok()) << status.message();
    return std::vector<Tensor<float>>{by_input};
  });
}

/// q (2, 3, 3, 16), k (2, 3, 1, 16); tables of (1, 3, 1, 8) behind the memory of outputs.
void take_tables(Attempt& c) {
  c.rotation = {};
  c.rotation.cos = view(c.memory.data() + 3500, {1, 3, 1, 8});
  c.rotation.sin = view(c.memory.data() + 3600, {1, 3, 1, 8});
}
Spoiled<Attempt> with_tables(const char* message, void (*spoil)(Attempt&)) {
  return {message, [spoil](Attempt& c) {
            take_tables(c);
            spoil(c);
          }};
}

TEST(TabledInput, that_fits_is_taken) {
  Attempt attempt;
  take_tables(attempt);
  EXPECT_TRUE(attempt.run().ok()) << attempt.run().message();
}

TEST(TabledInput, that_does_not_fit_is_refused) {
  check_cases({
      with_tables("rotaries and tables are given", [](Attempt& c) { c.rotation.rotaries = {c.rotaries.data(), 1}; }),
      with_tables("one of cos and sin is given, wanted both", [](Attempt& c) { c.rotation.cos = {}; }),
      with_tables("one of cos and sin is given, wanted both", [](Attempt& c) { c.rotation.sin = {}; }),
      with_tables("cos has batch 4, wanted 1 or 2", [](Attempt& c) { c.rotation.cos.shape[0] = 4; }),
      with_tables("sin has 2 tokens, wanted 3", [](Attempt& c) { c.rotation.sin.shape[1] = 2; }),
      with_tables("cos has 2 heads, wanted 1 or 3", [](Attempt& c) { c.rotation.cos.shape[2] = 2; }),
      with_tables("k has 1 heads, wanted 3: each turns by its own",
                  [](Attempt& c) { c.rotation.cos.shape[2] = c.rotation.sin.shape[2] = 3; }),
      with_tables("cos has width 7, wanted 8 (one value per pair) or 16", [](Attempt& c) { c.rotation.cos.shape[3] = 7; }),
      with_tables("cos is f64 and q is f32, wanted f32, f16 or bf16 tables", [](Attempt& c) { c.rotation.cos.dtype = DType::f64; }),
      with_tables("cos is f32 and sin is f16", [](Attempt& c) { c.rotation.sin.dtype = DType::f16; }),
      with_tables("sin is on cuda:1 and q on cpu", [](Attempt& c) { c.rotation.sin.device = {DeviceKind::cuda, 1}; }),
      with_tables("rotary_width is 15, wanted an even number", [](Attempt& c) { c.rotation.layout.rotary_width = 15; }),
      with_tables("segments is 3, wanted a divisor of 8", [](Attempt& c) { c.rotation.layout.segments = 3; }),
      with_tables("rotary_width 16 at 1 does not fit q's head_dim 16", [](Attempt& c) { c.spec.q_rotary_offset = 1; }),
      with_tables("q has head_dim 8 and k 16, wanted the same, or a q_rotary_offset",
                  [](Attempt& c) {
                    c.inputs.q.shape[3] = 8;
                    c.outputs.q.parts[0].shape[5] = 8;
                  }),
      with_tables("cos overlaps the output of k", [](Attempt& c) { c.rotation.cos = view(c.memory.data() + 2000, {1, 3, 1, 8}); }),
      with_tables("sin overlaps the output of q", [](Attempt& c) { c.rotation.sin = view(c.memory.data() + 1000, {1, 3, 1, 8}); }),
  });
}

TEST(TabledInput, that_lies_under_gradients_is_refused) {
  std::vector<float> memory(1000, 0.5F);
  const auto heads = [&](std::ptrdiff_t first) { return view(memory.data() + first, {1, 3, 1, 16}); };
  PrepareRotation rotation;
  rotation.cos = view(memory.data() + 200, {1, 3, 1, 8});
  rotation.sin = view(memory.data() + 300, {1, 3, 1, 8});
  PrepareGradients gradients;
  gradients.q = {heads(50), heads(280), {}};
  EXPECT_EQ(prepare_attention_backward({heads(0), {}, {}, {}}, rotation, gradients).message(),
            "prepare_attention_backward: sin overlaps the output of q, wanted memory apart");
  PrepareSpec spec;
  spec.q_norm = {.kind = HeadNorm::Kind::rms, .weight = view(memory.data() + 400, {1, 1, 1, 16})};
  gradients.q = {heads(50), heads(100), view(memory.data() + 210, {1, 1, 1, 16})};
  EXPECT_EQ(prepare_attention_backward({heads(0), {}, {}, {}}, rotation, gradients, spec).message(),
            "prepare_attention_backward: by_weight of q overlaps cos, wanted memory apart");
}

}  // namespace
}  // namespace phasor::test
