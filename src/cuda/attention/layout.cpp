// SPDX-License-Identifier: Apache-2.0
// Contents, positions and the numbers of a call, laid out for the general kernels.
#include "cuda/attention/layout.hpp"

#include <algorithm>

#include "cuda/attention/backward/layout.hpp"
#include "cuda/attention/backward/layout_terms.hpp"
#include "cuda/attention/hopper/work.hpp"
#include "cuda/attention/layout_terms.hpp"
#include "cuda/attention/mma/call.hpp"
#include "math/philox.hpp"
#include "spec/format.hpp"

namespace phasor::cuda::attention {
namespace {

struct Side {
  MapSide side;
  int pass;
  const job::SidePositions* given;
  int64_t tokens;
};

/// Where a side is rotated: at the caller's positions, at those of tokens that follow each other, or at what a kernel writes.
Positions rotary_positions(const job::AttentionJob& job, const Side& side, const AttentionWork& work, attend::Arena& arena,
                           ItemWork& item) {
  const job::MapJob& map = job.content.map;
  if (map.kind == job::MapKind::none && side.given->given) return side.given->at;
  const bool queries = side.side == MapSide::queries;
  if (map.kind == job::MapKind::none && !is_varlen(work)) return positions_from(queries ? work.shape.keys - work.shape.queries : 0);
  const bool shared = !side.given->given || side.given->at.data == nullptr || side.given->at.strides[1] == 0;
  const int64_t batch = shared ? 1 : work.shape.batch;
  const bool fractions = map.kind == job::MapKind::leaky_rerope && side.pass == 1;
  item = {.kind = ItemKind::positions,
          .count = batch * side.tokens,
          .side = side.side,
          .pass = side.pass,
          .map = map,
          .to = {.data = arena.take<int64_t>(batch * side.tokens),
                 .type = fractions ? PositionType::f64 : PositionType::i64,
                 .shape = {1, batch, side.tokens},
                 .strides = {0, shared ? 0 : side.tokens, 1},
                 .device = job.device}};
  return item.to;
}

ConstTensorView add_copy(const job::AttentionJob& job, const Side& side, attend::Arena& arena, Layout& out) {
  const job::ContentJob& content = job.content;
  const bool queries = side.side == MapSide::queries;
  RotatedCopy copy = {.side = side.side,
                      .content = side.pass,
                      .rotation = queries ? &content.queries : &content.keys,
                      .back = queries ? &content.queries_back : &content.keys_back,
                      .from = queries ? job.q : job.k,
                      .to = {},
                      .dtype = content.dtype,
                      .at = {},
                      .positions = {}};
  const Extents& s = copy.from.shape;
  const DType dtype = copy.from.dtype == content.dtype ? content.dtype : DType::f32;
  copy.at = rotary_positions(job, side, out.work, arena, copy.positions);
  copy.to = {arena.take_bytes(element_count(s) * bytes_of(dtype)), dtype, s, contiguous_strides(s), job.device};
  if (!job::is_empty(copy.from)) out.copies.push_back(copy);
  return copy.to;
}

void lay_out_contents(const job::AttentionJob& job, attend::Arena& arena, Layout& out) {
  const job::ContentJob& content = job.content;
  AttentionWork& work = out.work;
  work.contents[0] = {job.q, job.k};
  if (content.kind == job::ContentKind::plain) return;
  const bool chunks = content.map.kind == job::MapKind::dual_chunk;
  if (content.map.kind != job::MapKind::none) {
    work.content_count = chunks ? 3 : 2;
    work.rule = chunks ? ContentRule::chunk : ContentRule::window;
    work.rule_size = chunks ? content.map.chunk - content.map.local : content.map.window;
  }
  for (int c = 0; c < work.content_count; ++c) {
    work.contents[c] = {job.q, job.k};
    work.contents[c].q = add_copy(job, {MapSide::queries, c, &job.query_positions, work.shape.queries}, arena, out);
    if (content.keys_rotated) continue;
    if (chunks && c > 0) {
      work.contents[c].k = work.contents[0].k;  // a dual chunk has its keys at one place for every pass
    } else {
      work.contents[c].k = add_copy(job, {MapSide::keys, c, &job.key_positions, job.k.shape[1]}, arena, out);
    }
  }
  if (content.kind != job::ContentKind::xpos) return;
  const job::RotateJob& rotation = content.queries;
  work.decay = {true, content.gamma, content.scale_base, rotation.pairs, rotation.offset, rotation.write == Pairing::interleaved};
}

DropoutWork dropout_of(const Dropout& dropout) {
  return {.present = dropout.probability > 0,
          .threshold = math::dropout_threshold(dropout.probability),
          .factor = math::dropout_factor(dropout.probability),
          .seed = dropout.seed,
          .offset = dropout.offset,
          .first_head = static_cast<math::u32>(dropout.first_head),
          .first_sequence = static_cast<math::u32>(dropout.first_sequence)};
}

/// Whether anything does but rotations.
bool goes_by_positions(const AttentionWork& work) {
  const job::VisibilityJob& see = work.see;
  return see.causal || see.left != INT64_MAX || see.right != INT64_MAX || work.term_count > 0 || work.decay.present || work.dropout.present;
}

/// Per score: a row's product counts twice where a tile makes products with a window of rows.
double operations_of_terms(const AttentionWork& work) {
  double sum = 0;
  for (int t = 0; t < work.term_count; ++t) {
    const TermWork& term = work.terms[t];
    const auto width = static_cast<double>(term.table.table.shape[3]);
    if (term.use == TermUse::cope) sum += 6 * static_cast<double>(work.shape.width);
    sum += term.use == TermUse::table && term.table.use != RowUse::number ? 4 * width : 1;
  }
  return sum;
}

}  // namespace

Status lay_out(const job::AttentionJob& job, const char* where, attend::Arena& arena, Layout& out) {
  AttentionWork& work = out.work;
  out.arithmetic = job.q.dtype == DType::f64 ? DType::f64 : DType::f32;
  work.shape = job::shape_of(job);
  if (out.most_keys > 0) work.shape.keys = out.most_keys;
  work.see = job.visibility;
  work.sequences = is_varlen(work) ? work.see.query_starts.size - 1 : work.shape.batch;
  for (int side = 0; side < 2; ++side) {
    const job::SidePositions& given = side == 0 ? job.query_positions : job.key_positions;
    work.has_positions[side] = given.given;
    if (given.given) work.positions[side] = job::source_of(given.at, 1);
  }
  work.q = job.q;
  work.k = job.k;
  work.v = job.v;
  work.content_shift = job.content_shift;
  work.sinks = job.sinks;
  work.scale = job.scale;
  work.softcap = job.softcap;
  work.certified_skip = job.certified_skip;
  work.dropout = dropout_of(job.dropout);
  work.outputs = job.outputs;
  lay_out_contents(job, arena, out);
  if (Status s = lay_out_terms(job, where, arena, out); !s) return s;
  if (!goes_by_positions(work)) work.has_positions[0] = work.has_positions[1] = false;
  return {};
}

namespace {

/// Few blocks: keys are cut into parts. Of the call alone, not of the device: the same bits everywhere. `blocks` without that, tiles of
/// keys.
void lay_out_splits(attend::Arena& arena, int64_t blocks, int64_t tiles, Layout& out) {
  constexpr int64_t kBlocks = 512;  // that keep a large GPU busy
  constexpr int64_t kTilesAtLeast = 2;
  AttentionWork& work = out.work;
  if (blocks == 0 || blocks * 2 > kBlocks || mma::has_cope(work)) return;
  work.partial.splits = std::max<int64_t>(1, std::min(kBlocks / blocks, tiles / kTilesAtLeast));
  if (work.partial.splits == 1) return;
  const int64_t rows = work.partial.splits * work.shape.batch * work.shape.queries * work.shape.heads;
  const int64_t bytes = bytes_of(out.arithmetic);
  work.partial.out = arena.take_bytes(rows * work.shape.value_width * bytes);
  work.partial.max = arena.take_bytes(rows * bytes);
  work.partial.sum = arena.take_bytes(rows * bytes);
}

}  // namespace

void lay_out_forward(attend::Arena& arena, int compute_major, Layout& out) {
  AttentionWork& work = out.work;
  const std::optional<hopper::Forward> fast = hopper_forward(work);
  if (fast && hopper::takes(*fast, compute_major)) {
    out.hopper = fast;
    out.hopper_workspace = arena.take_bytes(hopper::workspace_bytes(*fast));
    return;
  }
  if (compute_major >= mma::kComputeMajor && mma::why_not(work) == nullptr) {
    out.by_mma = true;
    const mma::Cut cut = mma::cut_of(work);
    lay_out_splits(arena, mma::block_count(work, cut), tiles_of(work.shape.keys, cut.keys), out);
    return;
  }
  const bool wide = out.arithmetic == DType::f64;
  lay_out_splits(arena, wide ? forward_blocks<double>(work) : forward_blocks<float>(work), tiles_of(work.shape.keys), out);
}

namespace {

/// What is measured does not know the outputs yet: some that every kernel takes.
TensorView some_outputs(const job::AttentionJob& job) {
  alignas(16) static std::byte somewhere[16];  // as a tensor map wants it
  return {somewhere, job.q.dtype, job.q.shape, job.q.strides, job.device};
}

/// A call that is measured has neither outputs nor workspace: what Hopper's kernel would be asked with some memory in their places.
std::optional<hopper::Forward> hopper_measured(const job::AttentionJob& job, AttentionWork work) {
  work.outputs.out = some_outputs(job);
  void* const somewhere = work.outputs.out.data;
  for (ConstTensorView* const view : {&work.contents[0].q, &work.contents[0].k}) {
    if (view->data == nullptr) view->data = somewhere;
  }
  for (int t = 0; t < work.term_count; ++t) work.terms[t].bias.diagonal = somewhere;
  const std::optional<hopper::Forward> fast = hopper_forward(work);
  return fast && hopper::takes(*fast, hopper::kComputeMajor) ? fast : std::nullopt;
}
/// What it works in, besides all else.
int64_t hopper_bytes(const job::AttentionJob& job, const AttentionWork& work) {
  const std::optional<hopper::Forward> fast = hopper_measured(job, work);
  return fast ? hopper::workspace_bytes(*fast) + 64 : 0;
}

}  // namespace

Result<int64_t> forward_workspace(const job::AttentionJob& job) { return forward_workspace(job, 0); }
Result<int64_t> forward_workspace(const job::AttentionJob& job, int64_t most_keys) {
  attend::Arena measure;
  Layout layout;
  layout.most_keys = most_keys;
  if (Status s = lay_out(job, "attention", measure, layout); !s) return s;
  layout.work.outputs.out = some_outputs(job);
  attend::Arena by_mma = measure;
  Layout other = layout;
  lay_out_forward(by_mma, mma::kComputeMajor, other);
  lay_out_forward(measure, 0, layout);
  return std::max(measure.needed(), by_mma.needed()) + hopper_bytes(job, layout.work);
}

Result<int64_t> weights_workspace(const job::AttentionWeightsJob& job) {
  attend::Arena measure;
  Layout layout;
  if (Status s = lay_out(job.forward, "attention_weights", measure, layout); !s) return s;
  return measure.needed();
}

namespace {

/// Of the report's sizes. Lists in memory of the device are not read: then as many tiles as there may be.
void count_tiles(const AttentionWork& work, AttentionReport& report) {
  const int64_t of_queries = most_query_tiles(work, report.query_tile);
  const int64_t of_keys = tiles_of(work.shape.keys, report.key_tile);
  if (is_varlen(work) || work.see.prefix.size > 0) {
    report.band_tiles = of_queries * of_keys;
  } else {
    for (int64_t t = 0; t < of_queries; ++t) {
      const KeySpan seen = seen_keys(work, query_tile_at(work, t, report.query_tile));
      const int64_t tiles = tiles_of(seen.end, report.key_tile) - seen.first / report.key_tile;
      report.band_tiles += tiles;
      report.unseen_tiles += of_keys - tiles;
    }
  }
  report.band_tiles *= work.shape.heads;
  report.unseen_tiles *= work.shape.heads;
}
void count_tiles(const hopper::Tiles& tiles, AttentionReport& report) {
  report.query_tile = tiles.block_queries;
  report.key_tile = tiles.tile_keys;
  for (int row = 0; row < tiles.queries; row += tiles.block_queries) {
    const hopper::TileSpan span = hopper::tiles_of(tiles, row);
    report.band_tiles += span.end - span.first;
    report.unseen_tiles += (tiles.keys + tiles.tile_keys - 1) / tiles.tile_keys - (span.end - span.first);
  }
  report.band_tiles *= int64_t{tiles.heads} * tiles.batch;
  report.unseen_tiles *= int64_t{tiles.heads} * tiles.batch;
}

}  // namespace

Result<AttentionReport> explain(const job::AttentionJob& job, int compute_major) {
  attend::Arena measure;
  Layout layout;
  if (Status s = lay_out(job, "explain_attention", measure, layout); !s) return s;
  const AttentionWork& work = layout.work;
  layout.work.outputs.out = some_outputs(job);
  std::optional<hopper::Forward> fast = hopper_measured(job, work);
  if (compute_major != hopper::kComputeMajor) fast.reset();
  const char* const why_not = mma::why_not(work);
  const bool by_mma = !fast && compute_major >= mma::kComputeMajor && why_not == nullptr;
  lay_out_forward(measure, by_mma ? mma::kComputeMajor : 0, layout);
  const mma::Cut cut = by_mma ? mma::cut_of(work) : mma::Cut{.queries = kTile, .keys = kTile};
  AttentionReport report = {.query_tile = cut.queries, .key_tile = cut.keys, .workspace = *forward_workspace(job)};
  if (fast) count_tiles(hopper::tiles_of(*fast), report);
  if (!fast) count_tiles(work, report);
  const double scores = static_cast<double>(report.band_tiles) * static_cast<double>(report.query_tile * report.key_tile);
  report.plain_operations = scores * 2 * static_cast<double>(work.shape.width + work.shape.value_width);
  report.operations = report.plain_operations + scores * operations_of_terms(work);
  for (const ConstTensorView& view : {job.q, job.k, job.v}) {
    const Extents& s = view.shape;
    report.bytes += static_cast<double>(s[0] * s[1] * s[2] * s[3] * bytes_of(view.dtype));
  }
  report.bytes +=
      static_cast<double>(work.shape.batch * work.shape.queries * work.shape.heads * work.shape.value_width * bytes_of(job.q.dtype));
  const std::string kernel = fast     ? "kernel for Hopper, on tensor cores"
                             : by_mma ? "kernel of mma.sync, on tensor cores"
                                      : "general kernel";
  // Hopper's own write the dtype of queries alone, and nobody has said here what outputs will be.
  const std::string others = fast     ? spec::format("; {} where outputs are float32", why_not == nullptr ? "by mma.sync" : "general")
                             : by_mma ? std::string()
                             : why_not == nullptr ? "; tensor cores of compute capability 8 and newer take it"
                                                  : spec::format("; tensor cores do not take {}", why_not);
  report.words = spec::format(
      "CUDA's {}, in {}: {} tiles of {} x {} scores, {} of them unseen; {} terms; keys in {} parts; {} bytes of workspace{}; gradients {}",
      kernel, layout.arithmetic == DType::f64 ? "float64" : "float32", report.band_tiles + report.unseen_tiles, report.query_tile,
      report.key_tile, report.unseen_tiles, work.term_count, fast ? 1 : work.partial.splits, report.workspace, others,
      gradients_in_words(job, compute_major));
  return report;
}

}  // namespace phasor::cuda::attention
