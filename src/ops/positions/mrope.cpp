// SPDX-License-Identifier: Apache-2.0
// M-RoPE ids: the checks, the rows, and the models whose tokens say what they are.
#include "ops/positions/mrope.hpp"

#include <cmath>

#include "math/positions.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor {
namespace {

using job::at;
using job::error;

constexpr std::int64_t kLargest = std::int64_t{1} << 40;  // an extent of a grid, patches of it, a length
constexpr const char* where = kMropeWhere;

bool is_omni(MropeModel model) { return model == MropeModel::qwen2_5_omni || model == MropeModel::qwen3_omni; }
bool frames_stand_alone(MropeModel model) { return model == MropeModel::qwen3_vl || model == MropeModel::glm4v; }

}  // namespace

// ---- Rows ----

MropeRow::MropeRow(const MropeInput& input, job::PositionSink& sink, std::int64_t b, std::int64_t tokens)
    : input_(input), sink_(sink), b_(b), tokens_(tokens), float32_(input.model == MropeModel::qwen3_omni) {
  for (std::int64_t t = 0; t < tokens; ++t) {
    if (input.attention_mask.size == 0 || at(input.attention_mask, b * tokens + t) == 1) kept_.push_back(t);
  }
}

void MropeRow::put(double frame, double row, double column) {
  const double ids[3] = {frame, row, column};
  for (std::int64_t axis = 0; axis < 3; ++axis) {
    const double value = float32_ ? static_cast<double>(static_cast<float>(ids[axis])) : ids[axis];
    if (next_ < size()) sink_.put_fraction({axis, b_, kept_[static_cast<std::size_t>(next_)]}, value);
    last_ = std::max(last_, value);
  }
  largest_ = std::max(largest_, last_);
  ++next_;
}

void MropeRow::text(std::int64_t n, double start) {
  if (n == 0) return;
  begin();
  for (std::int64_t i = 0; i < n; ++i) {
    const double id = start + static_cast<double>(i);
    put(id, id, id);
  }
}

bool MropeRow::put_masked(double id) {
  std::size_t i = 0;
  for (std::int64_t t = 0; t < tokens_; ++t) {
    if (i < kept_.size() && kept_[i] == t) {
      ++i;
      continue;
    }
    for (std::int64_t axis = 0; axis < 3; ++axis) sink_.put_fraction({axis, b_, t}, id);
  }
  return size() < tokens_;
}

Status merge_grid(const char* kind, const ImageGrid& grid, std::int64_t index, std::int64_t merge, MergedGrid& merged) {
  if (grid.frames < 1 || grid.rows < 1 || grid.columns < 1 || grid.frames > kLargest / grid.rows ||
      grid.frames * grid.rows > kLargest / grid.columns) {
    return error(where, "{} {} is {} x {} x {} patches, wanted at least 1 and at most 2^40", kind, index, grid.frames, grid.rows,
                 grid.columns);
  }
  if (grid.rows % merge != 0 || grid.columns % merge != 0) {
    return error(where, "{} {} has {} rows and {} columns, wanted multiples of merge {}", kind, index, grid.rows, grid.columns, merge);
  }
  merged = {grid.frames, grid.rows / merge, grid.columns / merge};
  return {};
}

// ---- Models whose tokens say what they are ----

namespace {

enum TokenType : std::uint8_t { text_token = 0, image_token = 1, video_token = 2 };

/// Types of a row's kept tokens, given or told by the ids.
Status find_types(const MropeRow& row, const MropeInput& input, std::vector<std::uint8_t>& types) {
  std::int64_t opened = 0;  // videos of GLM-4V
  for (std::int64_t i = 0; i < row.size(); ++i) {
    if (input.token_types.size != 0) {
      const std::int64_t type = row.type(i);
      if (type < 0 || type > 2)
        return error(where, "token {} of batch row {} has type {}, wanted 0, 1 or 2", row.token(i), row.row(), type);
      types.push_back(static_cast<std::uint8_t>(type));
      continue;
    }
    const std::int64_t id = row.id(i);
    const MropeTokens& special = input.tokens;
    if (input.model == MropeModel::glm4v) {
      opened += (id == special.video_start ? 1 : 0) - (id == special.video_end ? 1 : 0);
      types.push_back(id != special.image ? text_token : opened > 0 ? video_token : image_token);
    } else {
      types.push_back(id == special.image ? image_token : id == special.video ? video_token : text_token);
    }
  }
  return {};
}

/// The grid that the next group of image or video tokens is made of, merged.
struct NextGrid {
  MergedGrid grid;
  double interval = 1;   // ids a frame
  bool float32 = false;  // whose product transformers takes in float32
};

Status take_image(const MropeInput& input, MropeCursor& cursor, NextGrid& next) {
  const auto count = static_cast<std::int64_t>(input.images.size());
  if (cursor.image >= count) return error(where, "more images in the tokens than the {} grids given", count);
  const ImageGrid& grid = input.images[static_cast<std::size_t>(cursor.image)];
  return merge_grid("image", grid, cursor.image++, input.merge, next.grid);
}

Status take_video(const MropeInput& input, MropeCursor& cursor, NextGrid& next) {
  const auto count = static_cast<std::int64_t>(input.videos.size());
  if (cursor.video >= count) return error(where, "more videos in the tokens than the {} grids given", count);
  const auto index = static_cast<std::size_t>(cursor.video);
  const ImageGrid& grid = input.videos[index];
  if (Status s = merge_grid("video", grid, cursor.video, input.merge, next.grid); !s) return s;
  if (frames_stand_alone(input.model)) {
    next.grid.frames = 1;
    if (++cursor.frame < grid.frames) return {};
    cursor.frame = 0;
  } else if (input.model == MropeModel::ernie4_5_vl) {
    if (grid.frames % input.temporal_merge != 0) {
      return error(where, "video {} has {} frames, wanted a multiple of temporal_merge {}", cursor.video, grid.frames,
                   input.temporal_merge);
    }
    next.grid.frames /= input.temporal_merge;
  } else if (input.model == MropeModel::qwen2_5_vl) {
    next.float32 = !input.seconds_per_grid.empty();
    next.interval = next.float32 ? static_cast<float>(input.tokens_per_second) * input.seconds_per_grid[index] : input.tokens_per_second;
  }
  ++cursor.video;
  return {};
}

void put_vision(MropeRow& row, const NextGrid& next, double start) {
  for (std::int64_t f = 0; f < next.grid.frames; ++f) {
    const double product =
        next.float32 ? static_cast<double>(math::frame_id(f, static_cast<float>(next.interval))) : static_cast<double>(f) * next.interval;
    const double frame = start + std::trunc(product);
    for (std::int64_t r = 0; r < next.grid.rows; ++r) {
      for (std::int64_t c = 0; c < next.grid.columns; ++c) row.put(frame, start + static_cast<double>(r), start + static_cast<double>(c));
    }
  }
}

}  // namespace

Status walk_vision_row(MropeRow& row, const MropeInput& input, MropeCursor& cursor) {
  std::vector<std::uint8_t> types;
  if (Status s = find_types(row, input, types); !s) return s;
  double start = 0;
  for (std::int64_t i = 0; i < row.size();) {
    const std::uint8_t type = types[static_cast<std::size_t>(i)];
    std::int64_t end = i;
    while (end < row.size() && types[static_cast<std::size_t>(end)] == type) ++end;
    if (type == text_token) {
      row.text(end - i, start);
      start += static_cast<double>(end - i);
    } else {
      NextGrid next;
      const bool image = type == image_token;
      if (Status s = image ? take_image(input, cursor, next) : take_video(input, cursor, next); !s) return s;
      if (end - i != next.grid.tokens()) {
        return error(where, "batch row {} has {} {} tokens from token {} on, the grid wants {}", row.row(), end - i,
                     image ? "image" : "video", row.token(i), next.grid.tokens());
      }
      put_vision(row, next, start);
      start += static_cast<double>(std::max(next.grid.rows, next.grid.columns));
    }
    i = end;
  }
  return {};
}

// ---- The builder ----

namespace {

Status check_numbers(const MropeInput& in) {
  if (in.model > MropeModel::qwen3_omni) return error(where, "model is unknown ({})", static_cast<int>(in.model));
  if (in.merge < 1 || in.merge > kLargest) return error(where, "merge is {}, wanted at least 1", in.merge);
  if (in.temporal_merge < 1 || in.temporal_merge > kLargest)
    return error(where, "temporal_merge is {}, wanted at least 1", in.temporal_merge);
  if (in.audio_window < 1 || in.audio_window > kLargest) return error(where, "audio_window is {}, wanted at least 1", in.audio_window);
  const std::pair<const char*, double> rates[] = {{"tokens_per_second", in.tokens_per_second},
                                                  {"position_id_per_seconds", in.position_id_per_seconds},
                                                  {"seconds_per_chunk", in.seconds_per_chunk}};
  for (const auto& [name, value] : rates) {
    if (!(value > 0 && value < 0x1p30)) return error(where, "{} is {}, wanted above 0 and below 2^30", name, value);
  }
  if (is_omni(in.model) && in.position_id_per_seconds * in.seconds_per_chunk < 1)
    return error(where, "a chunk has less than one id, wanted 1 or more");
  if (!in.seconds_per_grid.empty() && in.seconds_per_grid.size() != in.videos.size()) {
    return error(where, "seconds_per_grid has {} elements, wanted {} for the videos", in.seconds_per_grid.size(), in.videos.size());
  }
  for (std::size_t i = 0; i < in.seconds_per_grid.size(); ++i) {
    const float s = in.seconds_per_grid[i];
    if (!(s >= 0 && s < 0x1p30F)) return error(where, "seconds_per_grid[{}] is {}, wanted at least 0 and below 2^30", i, s);
  }
  return {};
}

Status check_lists(const PositionsView& out, const MropeInput& in) {
  const std::int64_t n = out.shape[1] * out.shape[2];
  const bool typed = in.token_types.size != 0;
  if (typed && is_omni(in.model)) return error(where, "token_types given, Omni models want input_ids");
  if (typed || in.input_ids.size == 0) {
    if (Status s =
            job::check_list_of(where, is_omni(in.model) ? "input_ids" : "token_types", typed ? in.token_types : in.input_ids, out, n);
        !s)
      return s;
  } else if (Status s = job::check_list_of(where, "input_ids", in.input_ids, out, n); !s) {
    return s;
  }
  if (Status s = job::check_list(where, "audio_lengths", in.audio_lengths, out); !s) return s;
  if (in.attention_mask.size == 0) return {};
  if (Status s = job::check_list_of(where, "attention_mask", in.attention_mask, out, n); !s) return s;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t value = at(in.attention_mask, i);
    if (value != 0 && value != 1) {
      return error(where, "attention_mask of token {} of batch row {} is {}, wanted 0 or 1", i % out.shape[2], i / out.shape[2], value);
    }
  }
  return {};
}

/// Memory that is not a list of integers, as one: only where it lies matters.
Integers bytes_at(const void* data, std::size_t words) { return {static_cast<const std::int64_t*>(data), words}; }

Status check_memory(const PositionsView& out, std::span<double> deltas, const MropeInput& in) {
  if (!deltas.empty() && static_cast<std::int64_t>(deltas.size()) != out.shape[1]) {
    return error(where, "deltas has {} elements, wanted {} or none", deltas.size(), out.shape[1]);
  }
  if (Status s = job::check_list(where, "deltas", bytes_at(deltas.data(), deltas.size()), out); !s) return s;
  if (Status s = job::check_list(where, "images", bytes_at(in.images.data(), 3 * in.images.size()), out); !s) return s;
  return job::check_list(where, "videos", bytes_at(in.videos.data(), 3 * in.videos.size()), out);
}

Status walk_row(MropeRow& row, const MropeInput& in, MropeCursor& cursor, double& delta) {
  const bool omni = is_omni(in.model);
  const bool plain = omni && in.images.empty() && in.videos.empty();  // then transformers counts the mask
  if (plain) {
    row.text(row.size(), 0);
  } else if (Status s = omni ? walk_omni_row(row, in, cursor) : walk_vision_row(row, in, cursor); !s) {
    return s;
  }
  const double masked = plain || in.model == MropeModel::qwen2_5_omni ? 1 : 0;
  const bool some_masked = row.put_masked(masked);
  const double largest = plain && some_masked ? std::max(row.largest(), masked) : row.largest();  // transformers counts them in there
  delta = largest + 1 - static_cast<double>(row.size());
  return {};
}

Status fill_rows(const PositionsView& out, std::span<double> deltas, const MropeInput& in) {
  bool writing = false;
  return job::fill(where, out, [&](job::PositionSink& sink) {
    MropeCursor cursor;
    for (std::int64_t b = 0; b < out.shape[1]; ++b) {
      MropeRow row(in, sink, b, out.shape[2]);
      double delta = 0;
      if (Status s = walk_row(row, in, cursor, delta); !s) return s;
      if (writing && !deltas.empty()) deltas[static_cast<std::size_t>(b)] = delta;
    }
    if (cursor.image != static_cast<std::int64_t>(in.images.size()) || cursor.video != static_cast<std::int64_t>(in.videos.size())) {
      return error(where, "tokens hold {} images and {} videos, {} and {} grids were given", cursor.image, cursor.video, in.images.size(),
                   in.videos.size());
    }
    writing = true;
    return Status();
  });
}

}  // namespace

Status fill_mrope(const PositionsView& out, std::span<double> deltas, const MropeInput& input) {
  if (Status s = job::check_output(where, out); !s) return s;
  if (out.shape[0] != 3) return error(where, "out has {} axes, wanted 3", out.shape[0]);
  if (Status s = check_numbers(input); !s) return s;
  if (Status s = check_lists(out, input); !s) return s;
  if (Status s = check_memory(out, deltas, input); !s) return s;
  if (out.shape[2] == 0) std::fill(deltas.begin(), deltas.end(), 0.0);
  return spec::without_exceptions([&] { return fill_rows(out, deltas, input); });
}

}  // namespace phasor
