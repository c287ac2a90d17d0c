// SPDX-License-Identifier: Apache-2.0
// Every check of a call on a Bias, once: views of diagonals, blocks, positions, heads.
#pragma once

#include <vector>

#include "job/plain.hpp"
#include "phasor/bias.hpp"
#include "plan/bias/bias.hpp"

namespace phasor::plan {
PHASOR_MEMBERS(RowRule, kind, both, cut, buckets, max_distance, mid, rising, thresholds, threshold_count, left, right, rows)
PHASOR_MEMBERS(MlpSource, widths, width_count, parameters, parameter_count, activation)
PHASOR_MEMBERS(FireCurve, c, length, epsilon)
PHASOR_MEMBERS(BiasSource, scheme, heads, rows, form, rounding, slopes, table, row, kerple, r1, r2, steps, step_count, mlp, fire, scale,
               window, trained, copies)
}  // namespace phasor::plan

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

/// Where the gradient of the parameters goes, from that of a diagonal that has passed: (1, 1, 1, parameters), memory of its own.
Status check_parameter_sum(const DiagonalCall& call, const plan::BiasPlan& plan, const TensorView& sum, const ConstTensorView& diagonal);

/// A diagonal to be written.
struct DiagonalJob {
  Device device;
  plan::BiasSource bias;
  TensorView out;
  std::int64_t first_distance;
  BiasPart part;
};
/// The gradient by a diagonal, to be added to that of the parameters, in float64, rounded once.
struct DiagonalGradientJob {
  Device device;
  plan::BiasSource bias;
  ConstTensorView diagonal;
  std::int64_t first_distance;
  BiasPart part;
  TensorView sum;
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
  plan::BiasSource bias;
  BlockCall call;
};

/// The positions of one batch row; each within 2^61, and a place of the window where there is one (0 x 0: none). The only check of calls
/// on a Bias that reads values: the CPU does it, for another device it is the caller's word.
Status read_positions(const char* where, const Window& window, const Positions& p, std::int64_t batch, std::vector<std::int64_t>& to);
Status read_positions(const char* where, const plan::BiasPlan& plan, const Positions& p, std::int64_t batch, std::vector<std::int64_t>& to);

/// Rows (B, T, 1, width) of Transformer-XL, and whole distances for them.
Status check_xl_sinusoids(const char* where, const TensorView& out, const XlSinusoids& spec, const Positions& distances);

/// The window of a scheme that has one, else null.
const Window* window_of(const BiasSpec& spec);

PHASOR_MEMBERS(DiagonalJob, device, bias, out, first_distance, part)
PHASOR_MEMBERS(DiagonalGradientJob, device, bias, diagonal, first_distance, part, sum)
PHASOR_MEMBERS(BlockCall, out, queries, keys, first_head)
PHASOR_MEMBERS(BlockJob, device, bias, call)

}  // namespace phasor::job
