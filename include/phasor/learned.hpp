// SPDX-License-Identifier: Apache-2.0
// Learned encodings: rows of a table added to tokens, their gradient, longer and resized tables, and positions made for such tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phasor/position_builders.hpp"
#include "phasor/positions.hpp"
#include "phasor/result.hpp"
#include "phasor/rotary.hpp"
#include "phasor/tensor_view.hpp"

namespace phasor {

// A table of N rows is (1, N, 1, D). Positions are integers; which row a token has is for position_builders.hpp to say (RoBERTa, OPT,
// Bloom: fill_from_mask; randomised: fill_random). A position outside the table is an error that names the table's length.

struct LookupOptions {
  std::int64_t offset = 0;  // added to every position (OPT: 2)
  Execution execution{};
};
/// x (B, T, 1, D) plus a row of the table for each token: one addition in float32 (f64: float64), one rounding to the dtype of x. Tables
/// may be f32, f16 or bf16, for f64 tensors f64 too. Aliasing as in Rotary::apply. On an error nothing is written.
Status lookup_add(const InOut& x, const ConstTensorView& table, const Positions& positions, const LookupOptions& options = {});
/// One table for each axis of the positions, their rows one after the other: DETR's learned form is column, then row.
Status lookup_add(const InOut& x, std::span<const ConstTensorView> tables, const Positions& positions, const LookupOptions& options = {});

struct ScatterOptions {
  std::int64_t offset = 0;
  std::optional<std::int64_t> padding_row = std::nullopt;  // gets no gradient (PyTorch's padding_idx)
  Execution execution{};
};
/// The gradient of lookup_add by one table: every row of table_gradient (1, N, 1, D) gains the sum of the gradients (B, T, 1, D) of its
/// tokens, summed in float64 in the order of the tokens, whatever the threads, and rounded once. Allocates one word per token and per row.
Status scatter_gradient(const TensorView& table_gradient, const ConstTensorView& gradient, const Positions& positions,
                        const ScatterOptions& options = {});

/// Su's hierarchical decomposition: out (1, M, 1, D), M <= n^2, from a table of n rows p: row i n + j is alpha u_i + (1 - alpha) u_j,
/// u_i = (p_i - alpha p_0) / (1 - alpha). The first n rows are the table's, bit for bit. alpha in (0, 1), not 1/2.
Status fill_hierarchical(const TensorView& out, const ConstTensorView& table, double alpha = 0.4);

/// PyTorch's interpolate: bilinear, or bicubic with a = -0.75.
struct Resampling {
  enum class Kernel : std::uint8_t { linear, cubic };
  Kernel kernel = Kernel::cubic;
  bool align_corners = false;  // true: the first and last rows stay (Qwen3-VL's linspace)
};
/// A table of a grid, (rows, columns, 1, D), to one of another size; (1, N, 1, D) to (1, M, 1, D) is a 1-D table. In float64, rounded once.
Status resample_table(const TensorView& out, const ConstTensorView& table, const Resampling& resampling = {});

/// A table read from a file: f32, f64, f16 or bf16, as it is there.
struct LearnedTable {
  std::vector<std::byte> bytes = {};
  DType dtype = DType::f32;
  std::int64_t rows = 0;
  std::int64_t width = 0;
  ConstTensorView view() const { return {bytes.data(), dtype, {1, rows, 1, width}, {rows * width, width, width, 1}}; }
};
/// A tensor (N, D), or (1, ..., N, D), of a safetensors file by its name; an error names what is there instead; not_found: no such file.
Result<LearnedTable> read_learned_table(const std::string& path, std::string_view tensor);

/// Abacus: the n-th digit of a run of digits is at n + offset (n from 1), every other token at 0.
struct AbacusTokens {
  Integers input_ids = {};  // (B, T)
  Integers digits = {};     // the token ids of the digits
  std::int64_t offset = 0;  // drawn anew for each batch in training, 0 or above
};
Status fill_abacus(const PositionsView& out, const AbacusTokens& tokens);

/// DETR's pixels: row, then column (axes 2), counted from 1 over what is not padding. With `normalised`, divided by the last one + 1e-6 of
/// its line: then out is f64, and the spec's unit is turns.
struct DetrGrid {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  Integers mask = {};  // (B, rows, columns), 1 where there is an image; empty: everywhere
  bool normalised = false;
};
Status fill_detr(const PositionsView& out, const DetrGrid& grid);

}  // namespace phasor
