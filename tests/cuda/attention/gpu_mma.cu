// SPDX-License-Identifier: Apache-2.0
// Attention forward by mma.sync, launched directly: random problems against a naive reference in double, with scores in registers and by
// way of shared memory, with terms, masks, positions, dropout and parts, and what must be the same bits. `gpu_mma [PROBLEMS [FIRST]]` exits
// non-zero where something differs.
#include <cstring>
#include <memory>
#include <mutex>

#include "cuda/attention/forward.hpp"
#include "cuda/attention/hopper_reference.hpp"
#include "cuda/attention/mma/call.hpp"
#include "cuda/attention/mma_terms.hpp"
#include "cuda/on_device.cuh"

namespace phasor::test {
namespace {

using cuda::attention::mma::ScoresIn;

template <class T>
std::vector<std::byte> bytes_of_list(const std::vector<T>& list) {
  std::vector<std::byte> bytes(list.size() * sizeof(T));
  std::memcpy(bytes.data(), list.data(), bytes.size());
  return bytes;
}

struct Outcome {
  std::vector<std::uint16_t> out;
  std::vector<float> lse;  // (B, H, Tq)
  bool operator==(const Outcome& other) const {
    return out == other.out && std::memcmp(lse.data(), other.lse.data(), lse.size() * sizeof(float)) == 0;
  }
};

/// A bias by distance as the layout makes it: of every distance that tokens have, and one row for each head.
std::vector<float> whole_diagonal(const HopperProblem& p) {
  const std::int64_t low = -(p.q.shape[1] + p.k.shape[1]), high = p.k.shape[1];
  std::vector<float> values;
  for (std::int64_t h = 0; !p.diagonal.empty() && h < p.q.shape[2]; ++h) {
    for (std::int64_t r = low; r <= high; ++r) {
      const std::int64_t at = std::clamp(r, p.first_distance, p.first_distance + p.distances - 1) - p.first_distance;
      values.push_back(p.diagonal[h * p.diagonal_stride + at]);
    }
  }
  return values;
}

Outcome run_on_gpu(const HopperProblem& p, ScoresIn scores) {
  const auto rows = static_cast<std::size_t>(p.q.shape[0] * p.q.shape[1] * p.q.shape[2]);
  const OnDevice device({bytes_of_list(p.q.memory), bytes_of_list(p.k.memory), bytes_of_list(p.v.memory), bytes_of_list(p.out.memory),
                         std::vector<std::byte>(rows * sizeof(float), std::byte{0xff}), bytes_of_list(whole_diagonal(p))});
  const auto view = [&](const Tensor16& x, int n) { return TensorView{device.memory[n] + 2 * x.begin, p.dtype, x.shape, x.strides, kGpu}; };
  const auto held = std::make_unique<AttentionWork>();
  AttentionWork& work = *held;
  work.shape = {p.q.shape[0], p.q.shape[1], p.k.shape[1], p.q.shape[2], p.k.shape[2], p.q.shape[3], p.v.shape[3]};
  work.sequences = p.q.shape[0];
  work.see.causal = p.causal;
  work.see.left = p.left;
  work.see.right = p.right;
  work.q = view(p.q, 0);
  work.k = view(p.k, 1);
  work.v = view(p.v, 2);
  work.contents[0] = {work.q, work.k};
  work.outputs.out = view(p.out, 3);
  work.outputs.lse = {
      device.memory[4], DType::f32, {p.q.shape[0], p.q.shape[1], p.q.shape[2], 1}, {p.q.shape[1] * p.q.shape[2], 1, p.q.shape[1], 1}, kGpu};
  work.scale = p.scale;
  work.softcap = p.softcap;
  if (!p.diagonal.empty()) {
    cuda::attention::TermWork& term = work.terms[work.term_count++];
    term.use = cuda::attention::TermUse::bias;
    term.bias.diagonal = device.memory[5];
    term.bias.first_distance = -(p.q.shape[1] + p.k.shape[1]);
    term.bias.distances = p.q.shape[1] + 2 * p.k.shape[1] + 1;
  }
  if (scores == ScoresIn::shared) {  // the positions that tokens have anyway
    work.has_positions[0] = work.has_positions[1] = true;
    work.positions[0].offset = p.k.shape[1] - p.q.shape[1];
  }
  const char* const why_not = cuda::attention::mma::why_not(work);
  expect(why_not == nullptr && (cuda::attention::mma::cut_of(work).scores == ScoresIn::shared) == (scores == ScoresIn::shared),
         p.text() + ": is not taken");
  const Status s = cuda::attention::mma::run("gpu_mma", work, nullptr);
  expect(s.ok(), p.text() + ": " + s.message());
  must(cudaDeviceSynchronize(), p.text().c_str());
  Outcome result = {p.out.memory, std::vector<float>(rows)};
  const auto out = device.read(3, result.out.size() * 2), lse = device.read(4, rows * sizeof(float));
  std::memcpy(result.out.data(), out.data(), out.size());
  std::memcpy(result.lse.data(), lse.data(), lse.size());
  return result;
}

/// The largest share of a bound that was used.
double compare(const HopperProblem& p, const Outcome& is, const std::string& how) {
  const auto& shape = p.out.shape;
  std::vector<char> written(is.out.size(), 0);
  std::mutex mutex;
  double worst = 0;
  each_row(shape, [&](std::int64_t b, std::int64_t i, std::int64_t h) {
    const ExpectedRow want = expected_row(p, b, i, h);
    const double lse = is.lse[(b * shape[2] + h) * shape[1] + i];
    const bool nothing = want.lse == -INFINITY;
    double share = nothing ? (lse == -INFINITY ? 0 : 9) : std::abs(lse - want.lse) / want.lse_bound;
    if (!(share <= 1)) share = 9;  // NaN, too
    for (std::int64_t c = 0; c < shape[3]; ++c) {
      const double out = value_of(p.dtype, is.out[p.out.at(b, i, h, c)]);
      const double off = nothing ? (out == 0 ? 0 : 9) : std::abs(out - want.out[c]) / want.out_bound[c];
      share = off <= 1 ? std::max(share, off) : 9;
      written[p.out.at(b, i, h, c)] = 1;
    }
    const std::lock_guard lock(mutex);
    if (share > 1) {
      expect(false, how + p.text() + ": row " + std::to_string(b) + " " + std::to_string(i) + " " + std::to_string(h) + ", lse " +
                        std::to_string(lse) + " wanted " + std::to_string(want.lse) + ", out " +
                        std::to_string(value_of(p.dtype, is.out[p.out.at(b, i, h, 0)])) + " wanted " + std::to_string(want.out[0]));
    }
    worst = std::max(worst, share);
  });
  for (std::size_t x = 0; x < is.out.size(); ++x) {
    if (written[x] == 0 && is.out[x] != p.out.memory[x]) return expect(false, how + p.text() + ": writes outside of its tensor"), 9;
  }
  return worst;
}

/// A row has the same bits in a batch of one, and with other queries beside it.
void same_bits(const HopperProblem& p, const Outcome& is, ScoresIn scores, std::uint64_t seed) {
  HopperProblem other = p;
  const std::int64_t b = static_cast<std::int64_t>(seed) % p.q.shape[0], i = static_cast<std::int64_t>(seed) % p.q.shape[1];
  for (Tensor16* const x : {&other.q, &other.k, &other.v, &other.out}) x->shape[0] = 1, x->begin += b * x->strides[0];
  RandomHopper random(seed);
  std::vector<std::uint16_t> q = random.numbers(p.dtype, other.q.memory.size());
  for (std::int64_t h = 0; h < p.q.shape[2]; ++h) {
    for (std::int64_t c = 0; c < p.q.shape[3]; ++c) q[other.q.at(0, i, h, c)] = p.q.memory[other.q.at(0, i, h, c)];
  }
  other.q.memory = q;
  const Outcome alone = run_on_gpu(other, scores);
  bool same = true;
  for (std::int64_t h = 0; h < p.q.shape[2]; ++h) {
    same = same && std::bit_cast<std::uint32_t>(alone.lse[h * p.q.shape[1] + i]) ==
                       std::bit_cast<std::uint32_t>(is.lse[(b * p.q.shape[2] + h) * p.q.shape[1] + i]);
    for (std::int64_t c = 0; c < p.out.shape[3]; ++c) same = same && alone.out[p.out.at(b, i, h, c)] == is.out[p.out.at(b, i, h, c)];
  }
  expect(same, p.text() + ": a row depends on others");
}

/// A call with terms; parts are merged by the host.
double compare_terms(std::uint64_t seed) {
  TermsProblem p(seed);
  AttentionWork& work = p.work();
  const std::string text = "seed " + std::to_string(seed) + ": " + p.text();
  const char* const why_not = cuda::attention::mma::why_not(work);
  expect(why_not == nullptr, text + ": is not taken: " + (why_not == nullptr ? "" : why_not));
  const Status s = cuda::attention::mma::run("gpu_mma", work, nullptr);
  expect(s.ok(), text + ": " + s.message());
  must(cudaDeviceSynchronize(), text.c_str());
  const std::int64_t rows = work.shape.batch * work.shape.queries * work.shape.heads;
  for (std::int64_t n = 0; work.partial.splits > 1 && n < rows * work.shape.value_width; ++n) {
    cuda::attention::merge_splits<float>(work, n);
  }
  std::mutex mutex;
  double worst = 0;
  each_row(work.outputs.out.shape, [&](std::int64_t b, std::int64_t i, std::int64_t h) {
    const ExpectedRow want = p.expected(b, i, h);
    const bool nothing = want.lse == -INFINITY;
    const double lse = number(work.outputs.lse, b, i, h, 0);
    double share = nothing ? (lse == -INFINITY ? 0 : 9) : std::abs(lse - want.lse) / want.lse_bound;
    if (!(share <= 1)) share = 9;  // NaN, too
    for (std::int64_t c = 0; c < work.shape.value_width; ++c) {
      const double out = number(work.outputs.out, b, i, h, c);
      const double off = want.out_bound[c] == 0 ? (out == 0 ? 0 : 9) : std::abs(out - want.out[c]) / want.out_bound[c];
      share = off <= 1 ? std::max(share, off) : 9;
    }
    const std::lock_guard lock(mutex);
    if (share > 1) {
      expect(false, text + ": row " + std::to_string(b) + " " + std::to_string(i) + " " + std::to_string(h) + ", lse " +
                        std::to_string(lse) + " wanted " + std::to_string(want.lse) + ", out " +
                        std::to_string(number(work.outputs.out, b, i, h, 0)) + " wanted " + std::to_string(want.out[0]));
    }
    worst = std::max(worst, share);
  });
  return worst;
}

}  // namespace
}  // namespace phasor::test

int main(int argc, char** argv) {
  using namespace phasor::test;
  const Seeds seeds = seeds_of(argc, argv, 500);
  double worst = 0;
  for (std::uint64_t seed = seeds.first; seed < seeds.end() && failures < 20; ++seed) {
    HopperProblem problem = RandomHopper(seed).make();
    problem.table.memory.clear(), problem.features.memory.clear();  // tables are terms: below
    problem.table_shift.clear(), problem.content_shift.clear();
    problem.widen();
    for (const ScoresIn scores : {ScoresIn::registers, ScoresIn::shared}) {
      const Outcome is = run_on_gpu(problem, scores);
      worst = std::max(worst, compare(problem, is, scores == ScoresIn::shared ? "shared: " : "registers: "));
      expect(is == run_on_gpu(problem, scores), problem.text() + ": not the same twice");
      same_bits(problem, is, scores, seed);
    }
  }
  for (std::uint64_t seed = 4 * seeds.first - 3; seed <= 4 * (seeds.end() - 1) && failures < 20; ++seed) {
    worst = std::max(worst, compare_terms(seed));
  }
  std::printf("%6llu problems, at most %.2f of a bound\n", static_cast<unsigned long long>(seeds.calls), worst);
  std::printf("gpu_mma: %s\n", failures == 0 ? "PASS" : "FAIL");
  return failures == 0 ? 0 : 1;
}
