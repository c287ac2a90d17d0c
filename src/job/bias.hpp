// SPDX-License-Identifier: Apache-2.0
// Every check of a call on a Bias, once: views of diagonals, blocks, positions, heads.
#pragma once

#include <span>
#include <vector>

#include "phasor/bias.hpp"
#include "plan/bias/bias.hpp"

namespace phasor::job {

/// What is asked of a diagonal.
struct DiagonalCall {
  const char* where;
  std::int64_t first_distance;
  BiasPart part;
};
/// (1, heads, 1, N): heads of the spec, distances within 2^62 and inside a window where there is one.
Status check_diagonal(const DiagonalCall& call, const plan::BiasPlan& plan, const ConstTensorView& v);
/// The same, of something that is written.
Status check_written_diagonal(const DiagonalCall& call, const plan::BiasPlan& plan, const TensorView& v);

/// A diagonal to be written.
struct DiagonalJob {
  Device device;
  const plan::BiasPlan* plan;
  TensorView out;
  DiagonalCall call;
};
/// The gradient by a diagonal, to be added to that of the parameters.
struct DiagonalGradientJob {
  Device device;
  const plan::BiasPlan* plan;
  ConstTensorView diagonal;
  DiagonalCall call;
  std::span<double> sum;
};

/// (B, heads, Tq, Tk) and its positions.
struct BlockCall {
  TensorView out;
  Positions queries;
  Positions keys;
  std::int64_t first_head;
};
Status check_block(const BlockCall& call, const plan::BiasPlan& plan);
struct BlockJob {
  Device device;
  const plan::BiasPlan* plan;
  BlockCall call;
};

/// The positions of one batch row; each within 2^61, and a place of the window where there is one.
Status read_positions(const char* where, const plan::BiasPlan& plan, const Positions& p, std::int64_t batch, std::vector<std::int64_t>& to);

/// Rows (B, T, 1, width) of Transformer-XL, and whole distances for them.
Status check_xl_sinusoids(const char* where, const TensorView& out, const XlSinusoids& spec, const Positions& distances);

/// The window of a scheme that has one, else null.
const Window* window_of(const BiasSpec& spec);

}  // namespace phasor::job
