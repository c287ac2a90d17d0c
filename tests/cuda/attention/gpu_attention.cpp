// SPDX-License-Identifier: Apache-2.0
// The tests of attention with the kernels of a GPU in the place of the CPU's. All memory that the tests ask for is managed, so that what
// they hold is read and written there; calls end with a wait.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>

#include "attention/support/held.hpp"
#include "backend/replaced.hpp"
#include "cuda/attention/run.hpp"

namespace {

/// Powers of two from 256 bytes on, out of large blocks: tests ask for millions of small pieces, and CUDA's own functions are slow.
class Pool {
 public:
  void* take(std::size_t bytes) {
    const std::scoped_lock lock(mutex_);
    const int kind = std::bit_width((bytes + kHeader - 1) / kHeader * kHeader + kHeader - 1);
    if (free_[kind] == nullptr) add_block(kind);
    Piece* const piece = free_[kind];
    free_[kind] = piece->next;
    piece->kind = kind;
    return reinterpret_cast<std::byte*>(piece) + kHeader;
  }
  void give(void* memory) {
    if (memory == nullptr) return;
    const std::scoped_lock lock(mutex_);
    auto* const piece = reinterpret_cast<Piece*>(static_cast<std::byte*>(memory) - kHeader);
    piece->next = free_[piece->kind];
    free_[piece->kind] = piece;
  }

 private:
  struct Piece {
    Piece* next;
    int kind;
  };
  static constexpr std::size_t kHeader = 64;
  static constexpr std::size_t kBlock = std::size_t{16} << 20;

  void add_block(int kind) {
    const std::size_t size = std::size_t{1} << kind;
    const std::size_t count = size < kBlock ? kBlock / size : 1;
    void* memory = nullptr;
    if (cudaMallocManaged(&memory, count * size) != cudaSuccess) {
      std::fputs("gpu_attention: there is no managed memory\n", stderr);
      std::abort();
    }
    for (std::size_t n = 0; n < count; ++n) {
      auto* const piece = reinterpret_cast<Piece*>(static_cast<std::byte*>(memory) + n * size);
      piece->next = free_[kind];
      free_[kind] = piece;
    }
  }

  std::mutex mutex_;
  Piece* free_[48] = {};
};
Pool& pool() {
  alignas(Pool) static std::byte memory[sizeof(Pool)];
  static Pool* const made = ::new (static_cast<void*>(memory)) Pool;  // never destroyed: other statics give their memory back later
  return *made;
}

phasor::Status ended(phasor::Status status) {
  const cudaError_t error = cudaDeviceSynchronize();
  if (status.ok() && error != cudaSuccess) return phasor::Status::unsupported(cudaGetErrorString(error));
  return status;
}

}  // namespace

void* operator new(std::size_t bytes) { return pool().take(bytes); }
void* operator new(std::size_t bytes, std::align_val_t) { return pool().take(bytes); }  // pieces are aligned to 64 bytes
void operator delete(void* memory) noexcept { pool().give(memory); }
void operator delete(void* memory, std::size_t) noexcept { pool().give(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { pool().give(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { pool().give(memory); }

int main(int count, char** words) {
  testing::InitGoogleTest(&count, words);
  phasor::test::weights_are_rounded = true;
  phasor::test::gradients_are_turned_narrow = true;
  const phasor::test::ReplacedBackend gpu([](phasor::backend::Backend& backend) {
    backend.attention_workspace = phasor::cuda::attention_workspace;
    backend.attention = [](phasor::job::AttentionJob& job, const phasor::Workspace& workspace, const phasor::Execution&) {
      return ended(phasor::cuda::run_attention(job, workspace, {}));
    };
    backend.attention_backward_workspace = phasor::cuda::attention_backward_workspace;
    backend.attention_backward = [](phasor::job::AttentionBackwardJob& job, const phasor::Workspace& workspace, const phasor::Execution&) {
      return ended(phasor::cuda::run_attention_backward(job, workspace, {}));
    };
    backend.attention_weights_workspace = phasor::cuda::attention_weights_workspace;
    backend.attention_weights = [](phasor::job::AttentionWeightsJob& job, const phasor::Workspace& workspace, const phasor::Execution&) {
      return ended(phasor::cuda::run_attention_weights(job, workspace, {}));
    };
    backend.merge = [](phasor::job::MergeJob& job, const phasor::Execution&) { return ended(phasor::cuda::run_merge(job, {})); };
  });
  return RUN_ALL_TESTS();
}
