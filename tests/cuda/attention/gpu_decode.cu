// SPDX-License-Identifier: Apache-2.0
// Decoding over pages on a GPU: random problems against a naive reference in double, the same bits in a batch of one, and a captured graph
// that is right for other lengths. `gpu_decode [PROBLEMS [FIRST]]` exits non-zero where something differs.
#include <cstring>
#include <mutex>

#include "cuda/attention/decode_memory.hpp"
#include "cuda/attention/hopper_reference.hpp"
#include "cuda/on_device.cuh"

namespace phasor::test {
namespace {

/// Memory that host and device read.
class Shared {
 public:
  ~Shared() {
    for (void* const data : all_) cudaFree(data);
  }
  std::byte* take(std::size_t bytes) {
    void* data = nullptr;
    must(cudaMallocManaged(&data, bytes + 16), "cudaMallocManaged");
    all_.push_back(data);
    return static_cast<std::byte*>(data);
  }
  template <class T>
  T* copy(const std::vector<T>& list) {
    auto* const to = reinterpret_cast<T*>(take(list.size() * sizeof(T)));
    if (!list.empty()) std::memcpy(to, list.data(), list.size() * sizeof(T));
    return to;
  }

 private:
  std::vector<void*> all_;
};

using OnGpu = DecodeMemory<Shared>;

void run(const DecodeWork& work, cudaStream_t stream, const std::string& text) {
  const Status s = cuda::decode::run("gpu_decode", work, stream);
  expect(s.ok(), text + ": " + s.message());
}

double compare(const OnGpu& on) {
  const DecodeWork& w = on.p.work;
  std::mutex mutex;
  double worst = 0;
  each_row({w.batch, w.queries, w.heads, w.width}, [&](std::int64_t b, std::int64_t i, std::int64_t h) {
    std::string text;
    const double share = share_of_bound(on, b, i, h, text);
    const std::lock_guard lock(mutex);
    if (share > 1) expect(false, text);
    worst = std::max(worst, share);
  });
  return worst;
}

/// A batch row by itself has the bits that it has among others.
void same_bits(OnGpu& on, std::uint64_t seed) {
  const std::vector<std::byte> before(on.out, on.out + on.out_bytes());
  DecodeWork one = on.p.work;
  const auto b = static_cast<int64_t>(seed) % one.batch;
  one.batch = 1;
  one.q.data = static_cast<const std::byte*>(one.q.data) + b * one.q.strides[0] * bytes_of(one.q.dtype);
  one.outputs.out.data = on.out + b * one.outputs.out.strides[0] * bytes_of(on.out_dtype);
  one.outputs.lse.data = on.lse + b * one.outputs.lse.strides[0];
  one.lengths.data = static_cast<const std::int32_t*>(one.lengths.data) + b;
  one.blocks.data = static_cast<const std::int32_t*>(one.blocks.data) + b * one.pages;
  if (one.mask.data != nullptr) one.mask.data += b * one.mask.strides[0];
  if (one.diagonal != nullptr) one.diagonal += b * one.diagonal_strides[0];
  on.place_partials(one);
  run(one, nullptr, on.p.text);
  must(cudaDeviceSynchronize(), on.p.text.c_str());
  expect(std::memcmp(before.data(), on.out, before.size()) == 0, on.p.text + ": a sequence depends on others");
}

void captured(std::uint64_t seed) {
  OnGpu on(seed);
  Captured graph;
  run(on.p.work, graph.stream, on.p.text);
  graph.end();
  std::mt19937_64 random(seed);
  for (int twice = 0; twice < 2; ++twice) {
    auto* const lengths = const_cast<std::int32_t*>(static_cast<const std::int32_t*>(on.p.work.lengths.data));
    for (std::size_t b = 0; b < on.p.lengths.size(); ++b) {
      lengths[b] = on.p.lengths[b] = static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(on.p.work.room + 1));
    }
    graph.replay();
    compare(on);
  }
}

}  // namespace
}  // namespace phasor::test

int main(int argc, char** argv) {
  using namespace phasor::test;
  const Seeds seeds = seeds_of(argc, argv, 400);
  double worst = 0;
  for (std::uint64_t seed = seeds.first; seed < seeds.end() && failures < 20; ++seed) {
    OnGpu on(seed);
    run(on.p.work, nullptr, on.p.text);
    must(cudaDeviceSynchronize(), on.p.text.c_str());
    worst = std::max(worst, compare(on));
    same_bits(on, seed);
  }
  for (std::uint64_t graph = 1; graph <= 3 && seeds.has_first(); ++graph) captured(graph * 1001);
  std::printf("%6llu problems, at most %.2f of a bound\n", static_cast<unsigned long long>(seeds.calls), worst);
  std::printf("gpu_decode: %s\n", failures == 0 ? "PASS" : "FAIL");
  return failures == 0 ? 0 : 1;
}
