// SPDX-License-Identifier: Apache-2.0
// M-RoPE ids of the Omni models: text, and blocks of image, video, audio, or video and audio at once, between start and end tokens.
#include <cmath>

#include "math/positions.hpp"
#include "ops/positions/mrope.hpp"

namespace phasor {
namespace {

using job::at;
using job::error;

constexpr const char* where = kMropeWhere;

enum class BlockKind : std::uint8_t { image, video, audio, video_with_audio };

/// A block of a row: where its start tokens begin, how many they are, and what it holds.
struct Block {
  BlockKind kind = BlockKind::audio;
  std::int64_t first = 0;   // its first start token
  std::int64_t starts = 1;  // start tokens, and as many end tokens
};

/// What is in a block: the frames of a video or image, and the tokens of an audio.
struct Content {
  MergedGrid grid;
  float seconds = 1;
  std::int64_t audio = 0;
};

class OmniWalk {
 public:
  OmniWalk(MropeRow& row, const MropeInput& input, MropeCursor& cursor) : row_(row), input_(input), cursor_(cursor) {}

  Status run() {
    count_blocks();
    for (std::int64_t left = blocks_; left > 0; --left) {
      Block block;
      if (Status s = find_block(block); !s) return s;
      Content content;
      if (Status s = take_content(block.kind, content); !s) return s;
      if (Status s = check_tokens(block, content); !s) return s;
      put_block(block, content);
    }
    row_.text(row_.size() - row_.given(), row_.after());
    return {};
  }

 private:
  bool is_qwen3() const { return input_.model == MropeModel::qwen3_omni; }

  /// The start tokens announce what is to come.
  void count_blocks() {
    std::int64_t videos_with_audio = 0;
    for (std::int64_t i = 0; i < row_.size(); ++i) {
      const std::int64_t id = row_.id(i);
      audios_ += id == input_.tokens.audio_start ? 1 : 0;
      if (id != input_.tokens.vision_start || i + 1 == row_.size()) continue;
      const std::int64_t next = row_.id(i + 1);
      images_ += next == input_.tokens.image ? 1 : 0;
      videos_ += next == input_.tokens.video ? 1 : 0;
      videos_with_audio += next == input_.tokens.audio_start ? 1 : 0;
    }
    if (input_.use_audio_in_video) videos_ = videos_with_audio;
    blocks_ = images_ + audios_ + (input_.use_audio_in_video ? 0 : videos_);
  }

  std::int64_t find(std::int64_t id, std::int64_t from) const {
    while (from < row_.size() && row_.id(from) != id) ++from;
    return from;
  }

  Status nothing_found() const {
    return error(where, "batch row {} has start tokens for {} more blocks from token {} on, but no tokens of them", row_.row(),
                 images_ + videos_ + audios_, row_.given() < row_.size() ? row_.token(row_.given()) : row_.size());
  }

  Status find_block(Block& block) const { return is_qwen3() ? find_by_start(block) : find_by_content(block); }

  /// Qwen2.5-Omni looks for the first token of a content; start tokens are before it.
  Status find_by_content(Block& block) const {
    const std::int64_t from = row_.given();
    const std::int64_t image = images_ > 0 ? find(input_.tokens.image, from) : row_.size();
    const std::int64_t video = videos_ > 0 ? find(input_.tokens.video, from) : row_.size();
    const std::int64_t audio = audios_ > 0 ? find(input_.tokens.audio, from) : row_.size();
    const std::int64_t first = std::min({image, video, audio});
    if (first >= row_.size()) return nothing_found();
    block.kind = first == audio ? BlockKind::audio : first == image ? BlockKind::image : BlockKind::video;
    if (block.kind == BlockKind::video && input_.use_audio_in_video) block.kind = BlockKind::video_with_audio;
    block.starts = block.kind == BlockKind::video_with_audio ? 2 : 1;
    block.first = first - block.starts;
    if (block.first >= from) return {};
    return error(where, "token {} of batch row {} begins a block without {} start token{} before it", row_.token(first), row_.row(),
                 block.starts, block.starts == 1 ? "" : "s");
  }

  /// Qwen3-Omni looks for start tokens and at what follows them.
  Status find_by_start(Block& block) const {
    const std::int64_t from = row_.given();
    const std::int64_t vision = images_ + videos_ > 0 ? find(input_.tokens.vision_start, from) : row_.size();
    const std::int64_t audio = audios_ > 0 ? find(input_.tokens.audio_start, from) : row_.size();
    block.first = std::min(vision, audio);
    if (block.first >= row_.size()) return nothing_found();
    block.kind = BlockKind::audio;
    if (block.first == audio) return {};
    const std::int64_t next = vision + 1 < row_.size() ? row_.id(vision + 1) : -1;
    block.starts = vision + 1 == audio ? 2 : 1;
    block.kind = vision + 1 == audio ? BlockKind::video_with_audio : next == input_.tokens.image ? BlockKind::image : BlockKind::video;
    if (block.kind != BlockKind::video || next == input_.tokens.video) return {};
    return error(where, "token {} of batch row {} starts a block of token {}, wanted an image, a video or an audio", row_.token(vision),
                 row_.row(), next);
  }

  Status take_content(BlockKind kind, Content& content) {
    if (kind == BlockKind::image) return take_image(content);
    if (kind != BlockKind::audio) {
      if (Status s = take_video(content); !s) return s;
    }
    return kind == BlockKind::video ? Status() : take_audio(content);
  }

  Status take_image(Content& content) {
    --images_;
    if (cursor_.image >= static_cast<std::int64_t>(input_.images.size())) {
      return error(where, "more images in the tokens than the {} grids given", input_.images.size());
    }
    const ImageGrid& grid = input_.images[static_cast<std::size_t>(cursor_.image)];
    return merge_grid("image", grid, cursor_.image++, input_.merge, content.grid);
  }

  Status take_video(Content& content) {
    --videos_;
    if (cursor_.video >= static_cast<std::int64_t>(input_.videos.size())) {
      return error(where, "more videos in the tokens than the {} grids given", input_.videos.size());
    }
    const auto index = static_cast<std::size_t>(cursor_.video);
    if (!input_.seconds_per_grid.empty()) content.seconds = input_.seconds_per_grid[index];
    return merge_grid("video", input_.videos[index], cursor_.video++, input_.merge, content.grid);
  }

  Status take_audio(Content& content) {
    --audios_;
    if (cursor_.audio >= input_.audio_lengths.size) {
      return error(where, "more audios in the tokens than the {} audio_lengths given", input_.audio_lengths.size);
    }
    const std::int64_t length = at(input_.audio_lengths, cursor_.audio++);
    if (length < 0 || length > std::int64_t{1} << 40) {
      return error(where, "audio_lengths[{}] is {}, wanted 0 to 2^40", cursor_.audio - 1, length);
    }
    content.audio = is_qwen3() ? math::qwen3_audio_tokens(length, input_.audio_window) : math::qwen2_5_audio_tokens(length);
    if (content.audio >= 1) return {};
    return error(where, "audio_lengths[{}] is {} and makes no token, wanted more", cursor_.audio - 1, length);
  }

  /// Whether the block's tokens are what its grid and length want.
  Status check_tokens(const Block& block, const Content& content) const {
    const bool vision = block.kind != BlockKind::audio;
    const bool audio = block.kind == BlockKind::audio || block.kind == BlockKind::video_with_audio;
    const std::int64_t wanted = (vision ? content.grid.tokens() : 0) + (audio ? content.audio : 0);
    const std::int64_t visual = block.kind == BlockKind::image ? input_.tokens.image : input_.tokens.video;
    const std::int64_t first = block.first + block.starts;
    std::int64_t end = first;
    while (end < row_.size() && ((vision && row_.id(end) == visual) || (audio && row_.id(end) == input_.tokens.audio))) ++end;
    if (end - first != wanted) {
      return error(where, "batch row {} has {} tokens of a block after token {}, its grid and length want {}", row_.row(), end - first,
                   row_.token(block.first), wanted);
    }
    if (row_.size() - end >= block.starts) return {};
    return error(where, "batch row {} ends within a block, wanted {} end token{}", row_.row(), block.starts, block.starts == 1 ? "" : "s");
  }

  void put_block(const Block& block, const Content& content) {
    row_.text(block.first - row_.given(), row_.after());
    put_ends(block.starts);
    start_ = row_.after();
    row_.begin();
    switch (block.kind) {
      case BlockKind::audio:
        row_.text(content.audio, start_);
        break;
      case BlockKind::image:
      case BlockKind::video:
        for (std::int64_t i = 0; i < content.grid.tokens(); ++i) put_visual(content, i);
        break;
      case BlockKind::video_with_audio:
        is_qwen3() ? put_merged(content) : put_chunks(content);
        break;
    }
    put_ends(block.starts);
  }

  /// Start or end tokens. Two of them share an id in Qwen2.5-Omni.
  void put_ends(std::int64_t n) {
    const double start = row_.after();
    if (is_qwen3()) return row_.text(n, start);
    for (std::int64_t i = 0; i < n; ++i) row_.text(1, start);
  }

  double frame_of(const Content& content, std::int64_t i) const {
    const std::int64_t frame = i / (content.grid.rows * content.grid.columns);
    const float id = math::frame_id(frame, content.seconds, static_cast<float>(input_.position_id_per_seconds));
    if (is_qwen3()) return static_cast<double>(static_cast<float>(start_ + static_cast<double>(id)));
    return start_ + std::trunc(static_cast<double>(id));
  }

  void put_visual(const Content& content, std::int64_t i) {
    const std::int64_t in_frame = i % (content.grid.rows * content.grid.columns);
    const std::int64_t row = in_frame / content.grid.columns;
    const std::int64_t column = in_frame % content.grid.columns;
    row_.put(frame_of(content, i), start_ + static_cast<double>(row), start_ + static_cast<double>(column));
  }

  void put_sound(std::int64_t i) {
    const double id = start_ + static_cast<double>(i);
    row_.put(id, id, id);
  }

  /// Qwen3-Omni: by time, the video first; what is left of one is a segment.
  void put_merged(const Content& content) {
    std::int64_t video = 0;
    std::int64_t audio = 0;
    while (video < content.grid.tokens() && audio < content.audio) {
      row_.begin();
      if (frame_of(content, video) <= static_cast<double>(static_cast<float>(start_ + static_cast<double>(audio)))) {
        put_visual(content, video++);
      } else {
        put_sound(audio++);
      }
    }
    row_.begin();
    while (video < content.grid.tokens()) put_visual(content, video++);
    while (audio < content.audio) put_sound(audio++);
  }

  /// Qwen2.5-Omni: a chunk of the video, a chunk of the audio, in turn.
  void put_chunks(const Content& content) {
    const double chunk = std::trunc(input_.position_id_per_seconds * input_.seconds_per_chunk);
    std::int64_t video = 0;
    std::int64_t audio = 0;
    for (std::int64_t j = 1; video < content.grid.tokens() || audio < content.audio; ++j) {
      const double end = static_cast<double>(j) * chunk;
      if (video < content.grid.tokens()) {
        row_.begin();
        // A chunk has at least one token: transformers goes on by one chunk per token where the frames leap over several.
        do put_visual(content, video++);
        while (video < content.grid.tokens() && frame_of(content, video) - start_ < end);
      }
      if (audio < content.audio) {
        row_.begin();
        do put_sound(audio++);
        while (audio < content.audio && static_cast<double>(audio) < end);
      }
    }
  }

  MropeRow& row_;
  const MropeInput& input_;
  MropeCursor& cursor_;
  std::int64_t images_ = 0;
  std::int64_t videos_ = 0;
  std::int64_t audios_ = 0;
  std::int64_t blocks_ = 0;
  double start_ = 0;
};

}  // namespace

Status walk_omni_row(MropeRow& row, const MropeInput& input, MropeCursor& cursor) { return OmniWalk(row, input, cursor).run(); }

}  // namespace phasor
