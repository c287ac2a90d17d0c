// SPDX-License-Identifier: Apache-2.0
// Phasor's attention by mma.sync as bench/gpu/attention_bench.py calls it: C functions of a shared library.
#include <cstdint>
#include <cstdio>
#include <memory>

#include "cuda/attention/bench_call.hpp"
#include "cuda/attention/mma/call.hpp"
#include "phasor/attention.hpp"

namespace {

using phasor::cuda::attention::AttentionWork;

constexpr phasor::Device kGpu = {phasor::DeviceKind::cuda, 0};

/// (heads, table_rows, width).
phasor::TensorView table_of(const BenchCall& c, void* data, phasor::DType dtype) {
  const std::int64_t size = c.table_rows * c.width;
  return {data, dtype, {1, c.table_rows, c.heads, c.width}, {c.heads * size, c.width, size, 1}, kGpu};
}
void add_table(phasor::cuda::attention::RowUse use, void* data, const BenchCall& c, AttentionWork& work) {
  phasor::cuda::attention::TermWork& term = work.terms[work.term_count++];
  term.use = phasor::cuda::attention::TermUse::table;
  term.table.use = use;
  term.table.table = table_of(c, data, phasor::DType::bf16);
  term.table.features = work.q;
  term.table.scale = use == phasor::cuda::attention::RowUse::query ? c.scale : 1;
  term.table.map.left = term.table.map.right = c.table_rows / 2;
}

/// A bias is given between its ends, or for every distance; here it is for every distance that tokens have.
bool fill_work(const BenchCall& c, AttentionWork& work) {
  using namespace phasor;
  const auto view = [&](void* data, std::int64_t heads) {
    return TensorView{
        data, DType::bf16, {c.batch, c.tokens, heads, c.width}, {heads * c.tokens * c.width, c.width, c.tokens * c.width, 1}, kGpu};
  };
  work.shape = {c.batch, c.tokens, c.tokens, c.heads, c.key_heads, c.width, c.width};
  work.sequences = c.batch;
  work.see.causal = c.causal != 0;
  work.q = view(c.q, c.heads);
  work.k = view(c.k, c.key_heads);
  work.v = view(c.v, c.key_heads);
  work.contents[0] = {work.q, work.k};
  work.outputs.out = view(c.out, c.heads);
  work.outputs.lse = {c.lse, DType::f32, {c.batch, c.tokens, c.heads, 1}, {c.heads * c.tokens, 1, c.tokens, 1}, kGpu};
  work.scale = c.scale;
  if (c.table != nullptr) add_table(cuda::attention::RowUse::query, c.table, c, work);
  if (c.value_table != nullptr) add_table(cuda::attention::RowUse::value, c.value_table, c, work);
  if (c.diagonal == nullptr) return true;
  if (c.first_distance > 1 - c.tokens || c.distances < 2 * c.tokens - 1) return false;
  cuda::attention::TermWork& term = work.terms[work.term_count++];
  term.use = cuda::attention::TermUse::bias;
  term.bias.diagonal = const_cast<float*>(c.diagonal);
  term.bias.first_distance = c.first_distance;
  term.bias.distances = c.distances;
  return true;
}

/// Queries and keys that the library rotates inside of the call: frequencies of base 10000, exact.
struct RotatedCall {
  phasor::AttentionInputs inputs;
  phasor::AttentionSpec spec;
  phasor::AttentionOutputs outputs;
};
RotatedCall rotated_of(const BenchCall& c) {
  using namespace phasor;
  const auto work = std::make_unique<AttentionWork>();
  fill_work(c, *work);
  RotatedCall r = {.inputs = {work->q, work->k, work->v}, .outputs = {work->outputs.out, work->outputs.lse}};
  r.spec.content = RotaryContent{*Rotary::make({.head_dim = c.width})};
  r.spec.scale = c.scale;
  if (c.causal != 0) r.spec.visibility.mask = Mask::causal;
  r.spec.execution.stream = c.stream;
  return r;
}

/// The gradients of a call with tables, as the library has them: on Hopper, too, its kernels of mma.sync take those.
struct BackwardCall {
  phasor::AttentionInputs inputs;
  phasor::AttentionSpec spec;
  phasor::AttentionSaved saved;
  phasor::AttentionGradients gradients;
};
BackwardCall backward_of(const BenchCall& c) {
  using namespace phasor;
  const auto work = std::make_unique<AttentionWork>();
  fill_work(c, *work);
  BackwardCall b;
  b.inputs = {work->q, work->k, work->v};
  b.spec.scale = c.scale;
  if (c.causal != 0) b.spec.visibility.mask = Mask::causal;
  b.spec.execution.stream = c.stream;
  const auto like = [](void* data, ConstTensorView view) { return TensorView{data, view.dtype, view.shape, view.strides, view.device}; };
  b.saved = {.out = work->outputs.out, .lse = work->outputs.lse, .out_gradient = like(c.out_gradient, work->q)};
  b.gradients.q = like(c.dq, work->q), b.gradients.k = like(c.dk, work->k), b.gradients.v = like(c.dv, work->v);
  b.gradients.deterministic = c.deterministic != 0;
  const auto add = [&](TableSide side, void* table, float* gradient) {
    if (table == nullptr) return;
    const ClipRows rows{c.table_rows / 2, c.table_rows / 2};
    b.spec.terms.emplace_back(TableTerm{.side = side, .table = table_of(c, table, DType::bf16), .rows = rows});
    b.gradients.terms.push_back({.table = table_of(c, gradient, DType::f32)});
  };
  add(TableSide::query, c.table, c.table_gradient);
  add(TableSide::value, c.value_table, c.value_table_gradient);
  return b;
}

}  // namespace

extern "C" std::int64_t mma_workspace_bytes(const BenchCall*) { return 1; }

/// 0, or 1 where it is refused, which is said.
extern "C" int mma_forward(const BenchCall* call) {
  const auto work = std::make_unique<AttentionWork>();
  if (!fill_work(*call, *work)) return std::fputs("mma_forward: the bias lacks distances\n", stderr), 1;
  if (const char* const why = phasor::cuda::attention::mma::why_not(*work)) return std::fprintf(stderr, "mma_forward: %s\n", why), 1;
  const phasor::Status s = phasor::cuda::attention::mma::run("mma_forward", *work, call->stream);
  if (!s.ok()) std::fprintf(stderr, "%s\n", s.message().c_str());
  return s.ok() ? 0 : 1;
}

/// -1 where it is refused, which is said.
extern "C" std::int64_t rotated_workspace_bytes(const BenchCall* call) {
  const RotatedCall r = rotated_of(*call);
  const phasor::Result<std::int64_t> bytes = phasor::attention_workspace(r.inputs, r.spec);
  if (!bytes.ok()) return std::fprintf(stderr, "%s\n", bytes.status().message().c_str()), -1;
  return *bytes;
}
extern "C" int rotated_forward(const BenchCall* call) {
  const RotatedCall r = rotated_of(*call);
  const phasor::Workspace workspace(static_cast<std::byte*>(call->workspace), static_cast<std::size_t>(call->workspace_bytes));
  const phasor::Status s = phasor::attention(r.inputs, r.spec, r.outputs, workspace);
  if (!s.ok()) std::fprintf(stderr, "%s\n", s.message().c_str());
  return s.ok() ? 0 : 1;
}

/// -1 where it is refused, which is said.
extern "C" std::int64_t mma_backward_workspace_bytes(const BenchCall* call) {
  const BackwardCall b = backward_of(*call);
  const phasor::Result<std::int64_t> bytes = phasor::attention_backward_workspace(b.inputs, b.spec, b.gradients);
  if (!bytes.ok()) return std::fprintf(stderr, "%s\n", bytes.status().message().c_str()), -1;
  return *bytes;
}
extern "C" int mma_backward(const BenchCall* call) {
  const BackwardCall b = backward_of(*call);
  const phasor::Workspace workspace(static_cast<std::byte*>(call->workspace), static_cast<std::size_t>(call->workspace_bytes));
  const phasor::Status s = phasor::attention_backward(b.inputs, b.spec, b.saved, b.gradients, workspace);
  if (!s.ok()) std::fprintf(stderr, "%s\n", s.message().c_str());
  return s.ok() ? 0 : 1;
}
