// SPDX-License-Identifier: Apache-2.0
// What the benchmark of the other operations calls, on any device: what is added to tokens, biases, keys that move, and gradients.
// tests/prepare/bench_cases_test.cpp calls them without a GPU.
#pragma once

#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "memory.hpp"
#include "phasor/phasor.hpp"

namespace phasor::bench {

/// One call: what its buffers hold before, and how much it must move.
struct OperationCall {
  HostBuffers buffers;
  Moved moved;
  std::function<Status(const On&)> run;
};
struct Operation {
  const char* name;
  std::vector<std::int64_t> tokens;
  OperationCall (*make)(std::int64_t tokens);
};

inline constexpr std::int64_t kModelWidth = 4096;
inline constexpr std::int64_t kBenchHeads = 32;
inline constexpr std::int64_t kBenchDim = 128;

inline TensorView view_on(const On& on, std::size_t buffer, DType dtype, const Extents& shape) {
  return {on.memory[buffer], dtype, shape, contiguous_strides(shape), on.device};
}
inline Positions positions_on(const On& on, std::size_t buffer, std::int64_t tokens) {
  Positions at = positions(static_cast<const std::int64_t*>(on.memory[buffer]), tokens);
  at.device = on.device;
  return at;
}
/// first, first + 1, ... modulo `rows`.
inline std::vector<std::byte> counted(std::int64_t first, std::int64_t tokens, std::int64_t rows) {
  std::vector<std::int64_t> list(static_cast<std::size_t>(tokens));
  for (std::int64_t t = 0; t < tokens; ++t) list[static_cast<std::size_t>(t)] = (first + t) % rows;
  return as_bytes(list);
}
inline std::size_t bytes(std::int64_t count) { return static_cast<std::size_t>(count); }

inline OperationCall add_sinusoids(std::int64_t tokens) {
  const Sinusoidal sinusoidal = *Sinusoidal::make({.width = kModelWidth});
  return {{some_bf16(tokens * kModelWidth), counted(1000, tokens, 1 << 20)},
          {bytes(tokens * kModelWidth * 2), bytes(tokens * kModelWidth * 2)},
          [=](const On& on) {
            return sinusoidal.add(view_on(on, 0, DType::bf16, {1, tokens, 1, kModelWidth}), positions_on(on, 1, tokens),
                                  {.execution = on.execution});
          }};
}

/// Sines before cosines; f16.
inline OperationCall add_halves(std::int64_t tokens) {
  const Sinusoidal sinusoidal = *Sinusoidal::make({.width = kModelWidth, .order = SinusoidOrder::sin_cos});
  std::vector<std::uint16_t> ones(static_cast<std::size_t>(tokens * kModelWidth), 0x3c00);  // 1 of f16
  return {{as_bytes(ones), counted(1000, tokens, 1 << 20)},
          {bytes(tokens * kModelWidth * 2), bytes(tokens * kModelWidth * 2)},
          [=](const On& on) {
            return sinusoidal.add(view_on(on, 0, DType::f16, {1, tokens, 1, kModelWidth}), positions_on(on, 1, tokens),
                                  {.execution = on.execution});
          }};
}
inline OperationCall write_sinusoids(std::int64_t tokens) {
  const Sinusoidal sinusoidal = *Sinusoidal::make({.width = kModelWidth});
  return {{some_bf16(tokens * kModelWidth), counted(1000, tokens, 1 << 20)},
          {bytes(tokens * 8), bytes(tokens * kModelWidth * 2)},
          [=](const On& on) {
            return sinusoidal.fill(view_on(on, 0, DType::bf16, {1, tokens, 1, kModelWidth}), positions_on(on, 1, tokens),
                                   {.execution = on.execution});
          }};
}

inline OperationCall add_rows(std::int64_t tokens) {
  const std::int64_t rows = tokens + 100;
  return {{some_bf16(tokens * kModelWidth), some_bf16(rows * kModelWidth, 2), counted(77, tokens, rows)},
          {bytes(2 * tokens * kModelWidth * 2), bytes(tokens * kModelWidth * 2)},
          [=](const On& on) {
            return lookup_add(view_on(on, 0, DType::bf16, {1, tokens, 1, kModelWidth}),
                              ConstTensorView(view_on(on, 1, DType::bf16, {1, rows, 1, kModelWidth})), positions_on(on, 2, tokens),
                              {.execution = on.execution});
          }};
}

/// As BERT's table is trained.
inline OperationCall scatter(std::int64_t tokens) {
  constexpr std::int64_t kRowsOfTable = 512;
  constexpr std::int64_t kWidth = 768;
  const std::int64_t named = tokens < kRowsOfTable ? tokens : kRowsOfTable;
  return {{some_f32(kRowsOfTable * kWidth), some_bf16(tokens * kWidth), counted(0, tokens, kRowsOfTable)},
          {bytes(tokens * kWidth * 2 + named * kWidth * 4), bytes(named * kWidth * 4)},
          [=](const On& on) {
            return scatter_gradient(view_on(on, 0, DType::f32, {1, kRowsOfTable, 1, kWidth}),
                                    ConstTensorView(view_on(on, 1, DType::bf16, {1, tokens, 1, kWidth})), positions_on(on, 2, tokens),
                                    {.execution = on.execution});
          }};
}

inline OperationCall filled_bias(const BiasSpec& spec, std::int64_t tokens) {
  const Bias bias = *Bias::make(spec);
  const std::int64_t count = kBenchHeads * tokens * tokens;
  return {{std::vector<std::byte>(bytes(count * 2))}, {0, bytes(count * 2)}, [=](const On& on) {
            return bias.fill(view_on(on, 0, DType::bf16, {1, kBenchHeads, tokens, tokens}), positions_from(0), positions_from(0), 0,
                             on.execution);
          }};
}
inline OperationCall fill_alibi(std::int64_t tokens) { return filled_bias(Alibi{.heads = kBenchHeads}, tokens); }
inline OperationCall fill_t5(std::int64_t tokens) {
  std::vector<double> table(static_cast<std::size_t>(kBenchHeads * 32));
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<double>(i * 37 % 101) / 16 - 3;
  return filled_bias(T5Buckets{.heads = kBenchHeads, .table = table}, tokens);
}

/// Keys of a paged cache, moved to the positions from `to` on.
inline OperationCall move_keys(std::int64_t tokens, std::int64_t heads, std::int64_t width, std::vector<std::byte> to) {
  constexpr std::int64_t kBlock = 16;
  const Rotary rotary = *Rotary::make({.head_dim = width, .base = 500000, .scaling = Llama3Scaling{}});
  const Extents shape = {(tokens + kBlock - 1) / kBlock, kBlock, heads, width};
  return {{some_bf16(shape[0] * kBlock * heads * width), as_bytes(turned_slots(tokens, kBlock)), counted(1000000, tokens, 1 << 30),
           std::move(to)},
          {bytes(tokens * heads * width * 2), bytes(tokens * heads * width * 2)},
          [=](const On& on) {
            const std::span<const std::int64_t> slots(static_cast<const std::int64_t*>(on.memory[1]), static_cast<std::size_t>(tokens));
            return rerotate(view_on(on, 0, DType::bf16, shape), Slots(slots, on.device), {rotary, positions_on(on, 2, tokens)},
                            {rotary, positions_on(on, 3, tokens)}, {.execution = on.execution});
          }};
}
/// All 4096 positions towards the beginning, as a part of a prompt is moved.
inline OperationCall move_alike(std::int64_t tokens) { return move_keys(tokens, 8, kBenchDim, counted(1000000 - 4096, tokens, 1 << 30)); }
/// Each its own way: twice as far apart as they were.
inline OperationCall move_apart(std::int64_t tokens) {
  std::vector<std::int64_t> list(static_cast<std::size_t>(tokens));
  for (std::int64_t t = 0; t < tokens; ++t) list[static_cast<std::size_t>(t)] = 5000 + 2 * t;
  return move_keys(tokens, 8, kBenchDim, as_bytes(list));
}
/// The rotated part of MLA's keys.
inline OperationCall move_latent(std::int64_t tokens) { return move_keys(tokens, 1, 64, counted(1000000 - 4096, tokens, 1 << 30)); }

inline OperationCall by_phases(std::int64_t tokens) {
  const std::int64_t count = tokens * kBenchHeads * kBenchDim;
  return {{some_bf16(count), some_bf16(count, 2), std::vector<std::byte>(bytes(tokens * kBenchDim / 2 * 4))},
          {bytes(2 * count * 2), bytes(tokens * kBenchDim / 2 * 4)},
          [=](const On& on) {
            const Extents shape = {1, tokens, kBenchHeads, kBenchDim};
            return phase_gradient(view_on(on, 2, DType::f32, {1, tokens, 1, kBenchDim / 2}),
                                  ConstTensorView(view_on(on, 0, DType::bf16, shape)), ConstTensorView(view_on(on, 1, DType::bf16, shape)),
                                  {}, {.execution = on.execution});
          }};
}
inline OperationCall by_frequencies(std::int64_t tokens) {
  const Rotary rotary = *Rotary::make({.head_dim = kBenchDim});
  const std::int64_t count = tokens * kBenchDim / 2;
  return {{some_f32(count), std::vector<std::byte>(bytes(kBenchDim / 2 * 8)), counted(1000, tokens, 1 << 20)},
          {bytes(count * 4), bytes(kBenchDim / 2 * 8)},
          [=](const On& on) {
            return rotary.frequency_gradient(view_on(on, 1, DType::f64, {1, 1, 1, kBenchDim / 2}),
                                             ConstTensorView(view_on(on, 0, DType::f32, {1, tokens, 1, kBenchDim / 2})),
                                             positions_on(on, 2, tokens), on.execution);
          }};
}
inline OperationCall by_positions(std::int64_t tokens) {
  const Rotary rotary = *Rotary::make({.head_dim = kBenchDim});
  const std::int64_t count = tokens * kBenchDim / 2;
  return {{some_f32(count), std::vector<std::byte>(bytes(tokens * 8))}, {bytes(count * 4), bytes(tokens * 8)}, [=](const On& on) {
            PositionsView out = positions(static_cast<double*>(on.memory[1]), tokens);
            out.device = on.device;
            return rotary.position_gradient(out, ConstTensorView(view_on(on, 0, DType::f32, {1, tokens, 1, kBenchDim / 2})), on.execution);
          }};
}
inline OperationCall make_rows(std::int64_t tokens) {
  const Rotary rotary = *Rotary::make({.head_dim = kBenchDim});
  const std::int64_t count = tokens * kBenchDim / 2;
  return {{std::vector<std::byte>(bytes(count * 4)), std::vector<std::byte>(bytes(count * 4)), counted(1000, tokens, 1 << 20)},
          {0, bytes(2 * count * 4)},
          [=](const On& on) {
            const Extents shape = {1, tokens, 1, kBenchDim / 2};
            return rotary.cos_sin(positions_on(on, 2, tokens), view_on(on, 0, DType::f32, shape), view_on(on, 1, DType::f32, shape),
                                  {.execution = on.execution});
          }};
}

inline std::vector<Operation> operations() {
  const std::vector<std::int64_t> many = {1, 64, 1024, 16384};
  const std::vector<std::int64_t> squares = {64, 1024, 4096};  // a dense bias of 16384 tokens has 16 GiB
  return {{"sinusoids added, bf16, width 4096", many, add_sinusoids},
          {"sinusoids added by halves, f16, width 4096", many, add_halves},
          {"sinusoids written, bf16, width 4096", many, write_sinusoids},
          {"learned rows added, bf16, width 4096", many, add_rows},
          {"learned rows' gradient, 512 of 768", many, scatter},
          {"ALiBi filled, 32 heads, bf16", squares, fill_alibi},
          {"T5 filled, 32 heads, bf16", squares, fill_t5},
          {"paged keys moved, 8 heads, bf16", many, move_alike},
          {"paged keys moved each its own way", many, move_apart},
          {"paged keys of MLA moved, 64, bf16", many, move_latent},
          {"cosines and sines, 64 pairs, f32", many, make_rows},
          {"gradient by phases, 32 heads, bf16", many, by_phases},
          {"gradient by frequencies, 64 pairs", many, by_frequencies},
          {"gradient by positions, 64 pairs", many, by_positions}};
}

}  // namespace phasor::bench
