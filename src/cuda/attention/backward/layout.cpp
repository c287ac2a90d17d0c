// SPDX-License-Identifier: Apache-2.0
#include "cuda/attention/backward/layout.hpp"

#include <algorithm>
#include <string>

#include "cuda/attention/backward/layout_terms.hpp"
#include "cuda/attention/mma/backward/call.hpp"
#include "cuda/attention/mma/call.hpp"
#include "spec/format.hpp"

namespace phasor::cuda::attention {
namespace {

/// Of the general kernels: enough blocks for any device, and bytes that sums kept apart for them may take. Of the call's shape alone: bits
/// do not depend on the device.
constexpr int64_t kEnoughBlocks = 512;
constexpr int64_t kMostBytes = int64_t{256} << 20;

int64_t quotient_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// What is kept for every part of the queries of the call.
int64_t part_size(const job::AttentionBackwardJob& job, const TermNeeds& needs, const AttentionWork& work) {
  const job::AttentionShape& s = work.shape;
  const bool own_raw = needs.raw_k && job.forward.content.kind != job::ContentKind::plain && !job.forward.content.keys_rotated;
  int64_t width = is_asked(job.v) ? s.value_width : 0;
  if (is_asked(job.k)) width += s.width * ((work.rule == ContentRule::window ? 2 : 1) + (own_raw ? 1 : 0));
  int64_t size = s.batch * s.keys * s.key_heads * width;
  for (int t = 0; t < work.term_count; ++t) {
    const TermWork& term = work.terms[t];
    if (term.use == TermUse::table && term.table.use == RowUse::key && is_asked(term.table.features_gradient)) {
      size += s.batch * s.keys * s.key_heads * term.table.table.shape[3];
    }
    if (term.use == TermUse::dense && term.dense_gradient.shape[1] == 1) size += element_count(term.dense_gradient.shape);
  }
  return size;
}

/// What a block has for itself; where it begins is known when all blocks are.
void lay_out_slots(const job::AttentionBackwardJob& job, int64_t bytes, AttentionWork& work) {
  SumPlaces slot;
  lay_out_slot(work, bytes, slot);
  work.backward.content_shift = slot.take(slot_extent(work, work.content_shift.shape), is_asked(job.content_shift));
  work.backward.slot_size = slot.used();
}

/// What kernels ask of the cut.
struct CutRules {
  int64_t most_bytes;
  int64_t blocks;
  bool at_most;        // no more blocks than those, if possible: all run at once; else no less
  int64_t queries;     // of a tile
  int64_t least_keys;  // of a chunk; 0: all are one
};
CutRules rules_of(const BackwardLayout& out) {
  if (!out.by_mma_backward) return {kMostBytes, kEnoughBlocks, false, kTile, 0};
  // CoPE's queries pass all keys; where the sequences of a ragged batch begin is known on the device alone.
  const bool all_keys = mma::has_cope(out.work) || is_varlen(out.work);
  return {out.limits.most_bytes, mma::backward::kBlocks, true, mma::backward::queries_of(out.work), all_keys ? 0 : out.limits.least_keys};
}

/// What a part keeps apart: slots of its blocks, and rows of all keys.
struct PartSize {
  int64_t slots;
  int64_t rows;
};
/// Where memory has too few parts: more of them, as many as there are wanted if slots allow it, and keys by as few chunks as these need.
void cut_keys(const PartSize& part, const CutRules& rules, int64_t most_sums, int64_t wanted, AttentionWork& work) {
  BackwardWork& b = work.backward;
  const int64_t keys = work.shape.keys;
  if (b.parts >= wanted || rules.least_keys == 0 || rules.least_keys >= keys || part.rows == 0) return;
  const int64_t of_key = part.rows / keys;
  const int64_t room = std::max(most_sums - part.rows, most_sums / 2);  // beside the first part's rows, which are those of the call
  const int64_t least = rules.least_keys * of_key;
  const int64_t parts = std::min(wanted, (room + least) / (part.slots + least));
  if (4 * parts < 5 * b.parts) return;  // a launch more, at whose end blocks wait, is for more than that
  const auto whole_tiles = [](int64_t n) { return n / mma::backward::kKeys * mma::backward::kKeys; };
  const int64_t chunks = quotient_up(keys, whole_tiles((room - parts * part.slots) / ((parts - 1) * of_key)));
  b.parts = parts;
  b.chunk.keys = std::min(keys, whole_tiles(quotient_up(keys, chunks) + mma::backward::kKeys - 1));
}

/// How the call is cut: more blocks while what they keep apart is within bounds.
void cut(const job::AttentionBackwardJob& job, const TermNeeds& needs, const CutRules& rules, int64_t bytes, AttentionWork& work) {
  BackwardWork& b = work.backward;
  const int64_t most_sums = rules.most_bytes / bytes;
  const int64_t sequences = work.shape.heads == 0 ? 0 : work.sequences;
  b.chunk = {0, work.shape.keys};
  b.key_groups = needs.one_key_group ? 1 : work.shape.key_heads;
  b.groups = std::min<int64_t>(sequences, needs.by_batch && !needs.one_group ? sequences : 1);
  lay_out_slots(job, bytes, work);
  if (b.groups == 0) return;
  const int64_t slots = std::max<int64_t>(1, b.key_groups * b.slot_size);  // of a group
  if (!needs.one_group && !needs.by_batch) {
    b.groups = std::clamp<int64_t>(std::min(quotient_up(rules.blocks, b.key_groups), most_sums / slots), 1, sequences);
  }
  const PartSize part = {b.groups * slots, part_size(job, needs, work)};
  const int64_t others = b.groups * b.key_groups;
  const int64_t enough = rules.at_most ? rules.blocks / others : quotient_up(rules.blocks, others);
  const int64_t wanted = std::min(enough, tiles_of(work.shape.queries, rules.queries));
  b.parts = std::max<int64_t>(1, std::min(wanted, most_sums / (part.slots + part.rows)));
  cut_keys(part, rules, most_sums, wanted, work);
}

void take_operands(const job::AttentionBackwardJob& job, const TermNeeds& needs, SumPlaces& sums, AttentionWork& work) {
  const job::AttentionShape& s = work.shape;
  BackwardWork& b = work.backward;
  const int64_t q = s.batch * s.queries * s.heads * s.width;
  const int64_t k = key_rows(work) * s.key_heads * s.width;
  const bool plain = job.forward.content.kind == job::ContentKind::plain;
  const bool keys_as_given = plain || job.forward.content.keys_rotated;
  b.q_raw = sums.take(q, is_asked(job.q) && (plain || needs.raw_q));
  b.k_raw = sums.take(k, is_asked(job.k) && (keys_as_given || needs.raw_k));
  for (int c = 0; c < work.content_count; ++c) {
    b.q[c] = plain ? b.q_raw : sums.take(q, is_asked(job.q));
    const bool shared = c > 0 && work.rule == ContentRule::chunk;  // a dual chunk has its keys at one place for every pass
    b.k[c] = keys_as_given ? b.k_raw : shared ? b.k[0] : sums.take(k, is_asked(job.k));
  }
  b.v = sums.take(key_rows(work) * s.key_heads * s.value_width, is_asked(job.v));
}

/// The different ones among sums of contents and of what is given.
SumWork different_sums(const int64_t (&of_contents)[3], int64_t raw) {
  SumWork sum = {};
  sum.count = 0;
  const auto add = [&](int64_t at) {
    if (at >= 0 && std::find(sum.at, sum.at + sum.count, at) == sum.at + sum.count) sum.at[sum.count++] = at;
  };
  for (const int64_t at : of_contents) add(at);
  add(raw);
  return sum;
}

/// Sums of an operand: their parts added up, chunk by chunk, then all of them stored.
void end_operand(SumWork sums, const TensorView& to, int64_t parts, BackwardLayout& out) {
  if (!is_asked(to)) return;
  for (int n = 0; n < sums.count && parts > 1; ++n) {
    SumWork one = {};
    one.at[0] = sums.at[n];
    one.parts = parts;
    one.shape = to.shape;
    const int64_t tokens = to.shape[0] * out.work.backward.chunk.keys;
    out.parts.push_back(item_of(ItemKind::add_parts, tokens * to.shape[2] * to.shape[3], one));
  }
  sums.to = to;
  out.finish.push_back(item_of(ItemKind::store, element_count(to.shape), sums));
}

void end_operands(const job::AttentionBackwardJob& job, BackwardLayout& out) {
  const BackwardWork& b = out.work.backward;
  end_operand(different_sums(b.q, b.q_raw), job.q, 1, out);
  end_operand(different_sums(b.k, b.k_raw), job.k, b.parts, out);
  const int64_t none[3] = {-1, -1, -1};
  end_operand(different_sums(none, b.v), job.v, b.parts, out);
  for (const RotatedCopy& copy : out.copies) {
    const int64_t at = copy.side == MapSide::queries ? b.q[copy.content] : b.k[copy.content];
    if (at < 0 || b.sums == nullptr) continue;
    const TensorView view = {static_cast<std::byte*>(b.sums) + at * bytes_of(out.arithmetic), out.arithmetic, copy.from.shape,
                             contiguous_strides(copy.from.shape), copy.from.device};
    out.turned.push_back({copy.back, view, copy.at});
  }
  if (b.content_shift >= 0) {
    SumWork shift = {};
    shift.at[0] = b.content_shift;
    shift.to = job.content_shift;
    out.finish.push_back(item_of(ItemKind::add_slots, element_count(shift.to.shape), shift));
  }
}

void lay_out_sinks(const job::AttentionBackwardJob& job, SumPlaces& sums, BackwardLayout& out) {
  if (!is_asked(job.sinks)) return;
  const job::AttentionShape& s = out.work.shape;
  SumWork sum = {};
  sum.parts = quotient_up(s.batch * s.queries, kSinkRows);
  sum.shape = {1, 1, s.heads, 1};
  sum.at[0] = sums.take(sum.parts * s.heads);
  sum.to = job.sinks;
  out.before.push_back(item_of(ItemKind::sink_rows, sum.parts * s.heads, sum));
  out.finish.push_back(item_of(ItemKind::add_sums, element_count(sum.to.shape), sum));
}

/// Everything that says where in the sums, and how many there are.
void lay_out_sums(const job::AttentionBackwardJob& job, BackwardLayout& out, int64_t& count) {
  AttentionWork& work = out.work;
  SumPlaces sums;
  const TermNeeds needs = begin_terms(job, work);
  cut(job, needs, rules_of(out), bytes_of(out.arithmetic), work);
  BackwardWork& b = work.backward;
  b.wants_scores = is_asked(job.q) || is_asked(job.k) || is_asked(job.content_shift) || needs.any;
  take_operands(job, needs, sums, work);
  b.slots = sums.take(backward_blocks(work) * b.slot_size);
  lay_out_term_sums(work, sums);
  const job::AttentionShape& s = work.shape;
  b.delta = sums.take(s.batch * s.queries * s.heads);
  out.before.push_back(item_of(ItemKind::delta, s.batch * s.queries * s.heads, {}));
  lay_out_sinks(job, sums, out);
  end_operands(job, out);
  lay_out_term_ends(job, sums, out);
  count = sums.used();
  out.before.insert(out.before.begin(), item_of(ItemKind::clear, count, {}));
}

/// Gradients that Hopper's kernels write whole, and that are added to the caller's.
struct WholeGradients {
  float* tables[kMostTerms] = {};
  float* shifts[kMostTerms] = {};
  float* content_shift = nullptr;
};
/// What follows Hopper's kernels: parameters of a bias from the gradient by distance, or gradients of tables and of what is added to
/// queries.
void lay_out_after_hopper(const job::AttentionBackwardJob& job, BackwardLayout& out, int64_t& count, WholeGradients& whole) {
  SumPlaces sums;
  lay_out_term_ends(job, sums, out);
  out.finish.clear();  // slots of the general kernels
  const auto end = [&](const TensorView& gradient) { return static_cast<float*>(lay_out_whole_end(gradient, sums, out).data); };
  for (int t = 0; t < out.work.term_count; ++t) {
    const TermWork& term = out.work.terms[t];
    if (term.use != TermUse::table) continue;
    whole.tables[t] = end(term.table.gradient);
    whole.shifts[t] = end(term.table.shift_gradient);
  }
  whole.content_shift = end(job.content_shift);
  count = sums.used();
  out.before = {item_of(ItemKind::clear, count, {})};
}
void lay_out_hopper(const job::AttentionBackwardJob& job, const hopper::Backward& fast, attend::Arena& arena, BackwardLayout& out) {
  BackwardLayout measured = out;
  int64_t count = 0;
  WholeGradients whole;
  lay_out_after_hopper(job, measured, count, whole);
  out.work.backward.sums = arena.take_bytes(count * bytes_of(out.arithmetic));
  lay_out_after_hopper(job, out, count, whole);
  out.hopper_backward = fast;
  hopper::Backward& b = *out.hopper_backward;
  if (!out.parameters.empty()) b.diagonal = static_cast<float*>(const_cast<void*>(out.parameters[0].job.diagonal.data));
  if (fast.table != nullptr) b.table = whole.tables[0];
  for (int t = 0; t < out.work.term_count; ++t) {
    const bool of_keys = out.work.terms[t].table.use == RowUse::key;
    float*& table = b.tables[of_keys ? 1 : 0].gradient;
    if (table != nullptr) table = whole.tables[t];
    if (!of_keys && b.shifts[hopper::kOfRows].gradient != nullptr) b.shifts[hopper::kOfRows].gradient = whole.shifts[t];
  }
  if (b.shifts[hopper::kOfContent].gradient != nullptr) b.shifts[hopper::kOfContent].gradient = whole.content_shift;
  out.hopper_workspace = arena.take_bytes(hopper::workspace_bytes(fast));
  for (const RotatedCopy& copy : out.copies) {
    const TensorView& to = copy.side == MapSide::queries ? job.q : job.k;
    if (is_asked(to)) out.turned.push_back({copy.back, to, copy.at});
  }
}

/// Places come first, their memory then.
void lay_out_with_memory(const job::AttentionBackwardJob& job, attend::Arena& arena, BackwardLayout& out) {
  BackwardLayout measured = out;
  int64_t count = 0;
  lay_out_sums(job, measured, count);
  out.work.backward.sums = arena.take_bytes(count * bytes_of(out.arithmetic));
  lay_out_sums(job, out, count);
}

}  // namespace

Status lay_out_backward(const job::AttentionBackwardJob& job, int compute_major, attend::Arena& arena, BackwardLayout& out) {
  if (Status s = lay_out(job.forward, "attention_backward", arena, out); !s) return s;
  out.work.backward.saved = job.saved;
  const std::optional<hopper::Backward> fast = hopper_backward(out.work, job);
  if (fast && hopper::takes(*fast, compute_major)) {
    lay_out_hopper(job, *fast, arena, out);
    return {};
  }
  out.by_mma_backward = compute_major >= mma::kComputeMajor && mma::backward::why_not(out.work, job) == nullptr;
  out.work.backward.rounds_out_gradient = out.by_mma_backward && job.saved.out_gradient.dtype != job.forward.q.dtype;
  lay_out_with_memory(job, arena, out);
  return {};
}

namespace {

alignas(16) std::byte somewhere[16];  // as a tensor map wants it

/// Where what is measured has no memory yet.
void put_somewhere(AttentionWork& work) {
  for (ConstTensorView* const view : {&work.contents[0].q, &work.contents[0].k}) {
    if (view->data == nullptr) view->data = somewhere;
  }
  for (int t = 0; t < work.term_count; ++t) work.terms[t].bias.diagonal = somewhere;
}

/// Whatever the forward will have saved: what is measured does not know it yet.
job::AttentionBackwardJob with_some_saved(job::AttentionBackwardJob job) {
  const job::AttentionShape s = job::shape_of(job.forward);
  const Extents shape = {s.batch, s.queries, s.heads, s.value_width};
  job.saved.out = job.saved.out_gradient = {somewhere, job.forward.q.dtype, shape, contiguous_strides(shape), job.forward.device};
  job.saved.lse = {somewhere, DType::f32, {s.batch, s.queries, s.heads, 1}, {}, job.forward.device};
  return job;
}

Result<int64_t> hopper_workspace(const job::AttentionBackwardJob& job) {
  attend::Arena measure;
  BackwardLayout layout;
  if (Status status = lay_out(job.forward, "attention_backward", measure, layout); !status) return status;
  put_somewhere(layout.work);
  const std::optional<hopper::Backward> fast = hopper_backward(layout.work, job);
  if (!fast || !hopper::takes(*fast, hopper::kComputeMajor)) return 0;
  lay_out_hopper(job, *fast, measure, layout);
  return measure.needed();
}

Result<int64_t> mma_workspace(const job::AttentionBackwardJob& job) {
  attend::Arena measure;
  BackwardLayout layout;
  if (Status status = lay_out(job.forward, "attention_backward", measure, layout); !status) return status;
  layout.by_mma_backward = mma::backward::why_not(layout.work, job) == nullptr;
  if (!layout.by_mma_backward) return 0;
  lay_out_with_memory(job, measure, layout);
  return measure.needed();
}

}  // namespace

Result<int64_t> backward_workspace(const job::AttentionBackwardJob& job) {
  attend::Arena measure;
  BackwardLayout layout;
  if (Status s = lay_out_backward(job, 0, measure, layout); !s) return s;
  const Result<int64_t> by_hopper = hopper_workspace(with_some_saved(job));
  if (!by_hopper.ok()) return by_hopper.status();
  const Result<int64_t> by_mma = mma_workspace(with_some_saved(job));
  if (!by_mma.ok()) return by_mma.status();
  return std::max({measure.needed(), *by_hopper, *by_mma});
}

namespace {

/// By which kernels a call goes that has been laid out, with whatever its forward will have saved.
std::string kernels_in_words(const job::AttentionBackwardJob& job, int compute_major, AttentionWork& work) {
  work.backward.saved = job.saved;
  const std::optional<hopper::Backward> fast = hopper_backward(work, job);
  if (fast && hopper::takes(*fast, compute_major)) return "by kernels for Hopper";
  const char* const why_not = mma::backward::why_not(work, job);
  if (why_not == nullptr) return compute_major >= mma::kComputeMajor ? "by mma.sync" : "by general kernels";
  return spec::format("by general kernels: tensor cores do not take {}", why_not);
}

}  // namespace

std::string gradients_in_words(const job::AttentionJob& forward, int compute_major) {
  const auto wanted = [](const ConstTensorView& view) { return TensorView{somewhere, view.dtype, view.shape, view.strides, view.device}; };
  job::AttentionBackwardJob job = with_some_saved({forward, {}, {}, {}, {}, {}, {}});
  job.q = wanted(forward.q);
  job.k = wanted(forward.k);
  job.v = wanted(forward.v);
  attend::Arena measure;
  BackwardLayout layout;
  if (Status s = lay_out(forward, "attention_backward", measure, layout); !s) return "refused: " + s.message();
  put_somewhere(layout.work);
  std::string words = kernels_in_words(job, compute_major, layout.work);
  if (bytes_of(forward.q.dtype) != 2) return words;
  job.saved.out.dtype = job.saved.out_gradient.dtype = DType::f32;  // nobody has said what outputs will be
  const std::string of_wide = kernels_in_words(job, compute_major, layout.work);
  return of_wide == words ? words : spec::format("{}, where outputs are float32 {}", words, of_wide);
}

}  // namespace phasor::cuda::attention
