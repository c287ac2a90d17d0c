// SPDX-License-Identifier: Apache-2.0
// What the walks of M-RoPE ids share: a batch row of kept tokens that takes one id triple after the other.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "job/positions/positions.hpp"
#include "phasor/position_builders.hpp"

namespace phasor {

/// Which image, video and audio comes next; they go on from row to row.
struct MropeCursor {
  std::int64_t image = 0;
  std::int64_t video = 0;
  std::int64_t frame = 0;  // of the video, where each frame stands for itself
  std::int64_t audio = 0;
};

/// The kept tokens of one batch row, and the ids they are given, from the first on.
class MropeRow {
 public:
  MropeRow(const MropeInput& input, job::PositionSink& sink, std::int64_t b, std::int64_t tokens);

  std::int64_t size() const { return static_cast<std::int64_t>(kept_.size()); }
  /// Token id and type of the i-th kept token.
  std::int64_t id(std::int64_t i) const { return job::at(input_.input_ids, b_ * tokens_ + kept_[static_cast<std::size_t>(i)]); }
  std::int64_t type(std::int64_t i) const { return job::at(input_.token_types, b_ * tokens_ + kept_[static_cast<std::size_t>(i)]); }
  std::int64_t row() const { return b_; }
  /// Index in the row of the i-th kept token, for messages.
  std::int64_t token(std::int64_t i) const { return kept_[static_cast<std::size_t>(i)]; }

  /// The next token's ids. Qwen3-Omni's are float32.
  void put(double frame, double row, double column);
  /// n tokens from `start` on, on every axis alike.
  void text(std::int64_t n, double start);
  /// Begins a segment: `after` looks at the last one only, as transformers does.
  void begin() { last_ = -1; }
  /// One past the largest id of the last segment; 0 before any.
  double after() const { return last_ + 1; }
  /// Largest id so far, -1 before any.
  double largest() const { return largest_; }
  std::int64_t given() const { return next_; }
  /// Masked tokens of the row are at `id`; whether there are any.
  bool put_masked(double id);

 private:
  const MropeInput& input_;
  job::PositionSink& sink_;
  std::int64_t b_;
  std::int64_t tokens_;
  bool float32_;
  std::vector<std::int64_t> kept_;
  std::int64_t next_ = 0;
  double last_ = -1;
  double largest_ = -1;
};

/// Extents after merging, or an error that names the grid.
struct MergedGrid {
  std::int64_t frames = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t tokens() const { return frames * rows * columns; }
};
Status merge_grid(const char* kind, const ImageGrid& grid, std::int64_t index, std::int64_t merge, MergedGrid& merged);

/// Qwen-VL, GLM-4V, Ernie: groups of tokens of one type.
Status walk_vision_row(MropeRow& row, const MropeInput& input, MropeCursor& cursor);
/// Omni: blocks between start and end tokens.
Status walk_omni_row(MropeRow& row, const MropeInput& input, MropeCursor& cursor);

inline constexpr const char* kMropeWhere = "fill_mrope";

}  // namespace phasor
