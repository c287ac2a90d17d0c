// SPDX-License-Identifier: Apache-2.0
#include "attention/general/mma_machine.hpp"

#include <cstring>
#include <vector>

#include "cuda/attention/mma/backward/backward.cuh"
#include "cuda/attention/mma/call.hpp"
#include "cuda/attention/mma/cope/backward.cuh"

namespace phasor::test {
namespace {

namespace mma = cuda::attention::mma;

template <class Element, int kWidth, mma::backward::With kWith = mma::backward::With::nothing>
void run_blocks(const cuda::attention::AttentionWork& work) {
  using K = mma::backward::Kind<Element, kWidth, kWith>;
  using Room = typename K::Room;
  std::vector<unsigned char> memory(sizeof(Room) + 128);
  unsigned char* const begin = memory.data() + (128 - reinterpret_cast<std::uintptr_t>(memory.data()) % 128) % 128;
  mma::shared_begin() = begin;
  emulated::Block block;
  for (std::int64_t n = cuda::attention::backward_blocks(work) - 1; n >= 0; --n) {
    std::memset(begin, 0xff, sizeof(Room));  // NaN, where nothing is written
    block.run(
        mma::backward::kBackwardThreads, [&] { mma::backward::backward_block<K>(work, n, *reinterpret_cast<Room*>(begin)); }, n % 2 == 0);
  }
}
template <class Element, int kWidth>
void run_counted_blocks(const cuda::attention::AttentionWork& work) {
  const auto bytes = static_cast<std::size_t>(mma::cope::backward_bytes(kWidth, work.terms[0].cope.table.shape[1]));
  std::vector<unsigned char> memory(bytes + 128);
  unsigned char* const begin = memory.data() + (128 - reinterpret_cast<std::uintptr_t>(memory.data()) % 128) % 128;
  mma::shared_begin() = begin;
  emulated::Block block;
  for (std::int64_t n = cuda::attention::backward_blocks(work) - 1; n >= 0; --n) {
    std::memset(begin, 0xff, bytes);  // NaN, where nothing is written
    block.run(mma::kBlockThreads, [&] { mma::cope::backward_block<mma::cope::BackwardKind<Element, kWidth>>(work, n, begin); }, n % 2 == 0);
  }
}
template <class Element, int kWidth>
void run_kinds(const cuda::attention::AttentionWork& work) {
  if (mma::has_cope(work)) return run_counted_blocks<Element, kWidth>(work);
  if (mma::has_values(work)) return run_blocks<Element, kWidth, mma::backward::With::values>(work);
  if (mma::has_own_features(work)) return run_blocks<Element, kWidth, mma::backward::With::features>(work);
  run_blocks<Element, kWidth>(work);
}

}  // namespace

void run_mma_backward(const cuda::attention::AttentionWork& work) {
  const bool wide = mma::backward::width_of(work) > 64;
  if (work.q.dtype == DType::f16) {
    wide ? run_kinds<__half, 128>(work) : run_kinds<__half, 64>(work);
  } else {
    wide ? run_kinds<__nv_bfloat16, 128>(work) : run_kinds<__nv_bfloat16, 64>(work);
  }
}

}  // namespace phasor::test
