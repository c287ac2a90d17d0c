// SPDX-License-Identifier: Apache-2.0
// The kernel of decoding, its blocks run by the host with emulated instructions (tests/cuda/host/emulated).
#pragma once

#include <cstring>
#include <vector>

#include "cuda/attention/decode/kernel.cuh"
#include "cuda/attention/decode/merge.cuh"

namespace phasor::test {

using namespace cuda::decode;

/// Whole copies of the memory of a block, in the places of which its addresses count.
class BlockMemory {
 public:
  explicit BlockMemory(int bytes) : bytes_(static_cast<std::size_t>(bytes)), memory_(bytes_ + kAlignment) {}
  std::byte* anew() {
    unsigned char* const begin = memory_.data() + (kAlignment - reinterpret_cast<std::uintptr_t>(memory_.data()) % kAlignment) % kAlignment;
    std::memset(begin, 0xff, bytes_);  // NaN, where nothing is written
    cuda::attention::mma::shared_begin() = begin;
    return reinterpret_cast<std::byte*>(begin);
  }

 private:
  std::size_t bytes_;
  std::vector<unsigned char> memory_;
};

template <class S>
void run_shape(const DecodeWork& work) {
  BlockMemory memory(Room<S>::bytes(splits_queries(work), has_same_strides(work)));
  const auto chunks = static_cast<unsigned>(rows_of(work) + S::kRows - 1) / S::kRows;
  emulated::Block block;
  for (unsigned batch = 0; batch < static_cast<unsigned>(work.batch); ++batch) {
    for (unsigned x = 0; x < chunks * static_cast<unsigned>(work.splits * work.key_heads); ++x) {
      std::byte* const begin = memory.anew();
      block.run(kThreads, [&] { decode_block<S>(work, x, batch, begin); }, x % 2 == 0);
    }
  }
  for (int batch = 0; batch < work.batch; ++batch) {
    for (int n = 0; n < work.key_heads * rows_of(work); ++n) block.run(32, [&] { merge_row(work, n, batch); }, n % 2 == 0);
  }
}
template <Storage kStorage, int kWidth>
void run_rows(const DecodeWork& work) {
  const int rows = rows_of(work);
  if (rows <= 8) return run_shape<Shape<kStorage, kWidth, 1, 1>>(work);
  if (rows <= 16) return run_shape<Shape<kStorage, kWidth, 2, 1>>(work);
  if (rows <= 32) return run_shape<Shape<kStorage, kWidth, 2, 2>>(work);
  run_shape<Shape<kStorage, kWidth, 2, 4>>(work);
}
template <Storage kStorage>
void run_width(const DecodeWork& work) {
  if (work.width == 64) return run_rows<kStorage, 64>(work);
  if (work.width == 128) return run_rows<kStorage, 128>(work);
  run_rows<kStorage, 256>(work);
}
inline void run_on_host(const DecodeWork& work) {
  if (work.storage == Storage::bf16) return run_width<Storage::bf16>(work);
  if (work.storage == Storage::f16) return run_width<Storage::f16>(work);
  if (work.storage == Storage::f8_e4m3) return run_width<Storage::f8_e4m3>(work);
  run_width<Storage::f8_e5m2>(work);
}

}  // namespace phasor::test
