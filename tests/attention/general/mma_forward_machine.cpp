// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <vector>

#include "attention/general/mma_machine.hpp"
#include "cuda/attention/mma/forward.cuh"

namespace phasor::test {
namespace {

namespace mma = cuda::attention::mma;
using mma::ScoresIn;

template <class Element, int kWidth, ScoresIn kScores>
void run_blocks(const cuda::attention::AttentionWork& work) {
  using K = mma::Kind<Element, kWidth, kScores>;
  const std::size_t bytes = mma::shared_bytes_of(work, K::kSharedBytes, K::kTableBytes);
  std::vector<unsigned char> memory(bytes + 128);
  unsigned char* const begin = memory.data() + (128 - reinterpret_cast<std::uintptr_t>(memory.data()) % 128) % 128;
  mma::shared_begin() = begin;
  emulated::Block block;
  for (std::int64_t n = mma::block_count(work, mma::cut_of(work)) - 1; n >= 0; --n) {
    std::memset(begin, 0xff, bytes);  // NaN, where nothing is written
    block.run(mma::kBlockThreads, [&] { mma::forward_block<K>(work, n, begin); }, n % 2 == 0);
  }
}
template <class Element, int kWidth>
void run_scores(const cuda::attention::AttentionWork& work, ScoresIn scores) {
  switch (scores) {
    case ScoresIn::registers:
      return run_blocks<Element, kWidth, ScoresIn::registers>(work);
    case ScoresIn::changed_in_registers:
      return run_blocks<Element, kWidth, ScoresIn::changed_in_registers>(work);
    case ScoresIn::shared:
      return run_blocks<Element, kWidth, ScoresIn::shared>(work);
    case ScoresIn::shared_with_values:
      return run_blocks<Element, kWidth, ScoresIn::shared_with_values>(work);
    case ScoresIn::counted:
      return run_blocks<Element, kWidth, ScoresIn::counted>(work);
    case ScoresIn::tabled:
      if constexpr (kWidth <= mma::kMostTabledWidth) return run_blocks<Element, kWidth, ScoresIn::tabled>(work);
  }
}
template <class Element>
void run_width(const cuda::attention::AttentionWork& work) {
  const mma::Cut cut = mma::cut_of(work);
  if (cut.width == 64) return run_scores<Element, 64>(work, cut.scores);
  if (cut.width == 128) return run_scores<Element, 128>(work, cut.scores);
  run_scores<Element, 256>(work, cut.scores);
}

}  // namespace

void run_mma_forward(const cuda::attention::AttentionWork& work) {
  work.q.dtype == DType::f16 ? run_width<__half>(work) : run_width<__nv_bfloat16>(work);
}

}  // namespace phasor::test
