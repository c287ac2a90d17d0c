// SPDX-License-Identifier: Apache-2.0
// Phasor's attention by mma.sync as bench/gpu/attention_bench.py calls it: C functions of a shared library.
#include <cstdint>
#include <cstdio>
#include <memory>

#include "cuda/attention/bench_call.hpp"
#include "cuda/attention/mma/call.hpp"

namespace {

using phasor::cuda::attention::AttentionWork;

/// A bias is given between its ends, or for every distance; here it is for every distance that tokens have.
bool fill_work(const BenchCall& c, AttentionWork& work) {
  using namespace phasor;
  constexpr Device kGpu = {DeviceKind::cuda, 0};
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
  if (c.diagonal == nullptr) return true;
  if (c.first_distance > 1 - c.tokens || c.distances < 2 * c.tokens - 1) return false;
  cuda::attention::TermWork& term = work.terms[work.term_count++];
  term.use = cuda::attention::TermUse::bias;
  term.bias.diagonal = const_cast<float*>(c.diagonal);
  term.bias.first_distance = c.first_distance;
  term.bias.distances = c.distances;
  return true;
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
