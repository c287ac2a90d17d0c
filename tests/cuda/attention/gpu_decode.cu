// SPDX-License-Identifier: Apache-2.0
// Decoding over pages on a GPU: random problems against a naive reference in double, the same bits in a batch of one, and a captured graph
// that is right for other lengths. `gpu_decode [PROBLEMS [FIRST]]` exits non-zero where something differs.
#include <cstring>
#include <mutex>

#include "cuda/attention/decode_problem.hpp"
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

void fill(Storage storage, std::byte* to, int64_t count, std::mt19937_64& random) {
  for (int64_t n = 0; n < count; ++n) {
    if (storage > Storage::bf16) {
      auto bits = static_cast<unsigned>(random() & 0xff);
      if ((bits & 0x7f) >= (storage == Storage::f8_e4m3 ? 0x70U : 0x58U)) bits &= 0x8f;  // no NaN, and not too far apart
      to[n] = static_cast<std::byte>(bits);
    } else {
      job::store_element(to, storage == Storage::f16 ? DType::f16 : DType::bf16, n, static_cast<double>(random() % 4001) / 1000 - 2);
    }
  }
}

/// A problem's memory.
struct OnGpu {
  DecodeProblem p;
  Shared memory;
  float* lse;
  std::byte* out;
  DType out_dtype;

  OnGpu(std::uint64_t seed) : p(random_decode(seed)) {
    std::mt19937_64 random(seed * 77 + 1);
    DecodeWork& w = p.work;
    const int64_t size = bytes_of(w.storage), row = w.width * size, heads = w.key_heads;
    const int64_t block = w.page_size * heads * row;
    std::byte* const cache = memory.take(static_cast<std::size_t>(2 * p.cache_blocks * block));
    fill(w.storage, cache, 2 * p.cache_blocks * block / size, random);
    for (auto* const side : {&w.k, &w.v}) {
      side->data = cache + (side == &w.v ? block : 0);  // k and v are views of one tensor
      side->strides[0] = 2 * block;
      side->strides[1] = p.heads_first ? row : heads * row;
      side->strides[2] = p.heads_first ? w.page_size * row : row;
    }
    const Extents shape = {w.batch, w.queries, w.heads, w.width};
    const int64_t count = shape[0] * shape[1] * shape[2] * shape[3];
    auto* const q = memory.take(static_cast<std::size_t>(count * 4));
    for (int64_t n = 0; n < count; ++n) job::store_element(q, w.q.dtype, n, static_cast<double>(random() % 4001) / 1000 - 2);
    w.q = {q, w.q.dtype, shape, contiguous_strides(shape), kGpu};
    out_dtype = random() % 3 == 0 ? DType::f32 : w.storage == Storage::f16 ? DType::f16 : DType::bf16;
    out = memory.take(static_cast<std::size_t>(count * 4));
    std::memset(out, 0xff, static_cast<std::size_t>(count * 4));
    lse = reinterpret_cast<float*>(memory.take(static_cast<std::size_t>(count / w.width * 4)));
    w.outputs.out = {out, out_dtype, shape, contiguous_strides(shape), kGpu};
    const Extents rows = {w.batch, w.queries, w.heads, 1};
    w.outputs.lse = {lse, DType::f32, rows, contiguous_strides(rows), kGpu};
    w.lengths = Integers(memory.copy(p.lengths), p.lengths.size(), kGpu);
    w.blocks = Integers(memory.copy(p.blocks), p.blocks.size(), kGpu);
    if (p.has_mask) w.mask = {memory.copy(p.mask), {w.room, 1}, kGpu};
    if (!p.diagonal.empty()) w.diagonal = memory.copy(p.diagonal);
    if (!p.sinks.empty()) w.sinks = {memory.copy(p.sinks), DType::f32, {1, 1, w.heads, 1}, {0, 0, 1, 1}, kGpu};
    if (!p.scales.empty()) {
      const float* const scales = memory.copy(p.scales);
      w.k.scales = scales, w.v.scales = scales + w.key_heads;
      w.k.scale_stride = w.v.scale_stride = 1;
    }
    place_partials(w);
  }
  void place_partials(DecodeWork& w) {
    const int64_t numbers = cuda::decode::partial_numbers(w);
    auto* const room = reinterpret_cast<float*>(memory.take(static_cast<std::size_t>(numbers * 4)));
    std::memset(room, 0xff, static_cast<std::size_t>(numbers * 4));
    w.partial_out = room;
    w.partial_sum = room + numbers / (w.width + 2) * w.width;
  }
  std::size_t out_bytes() const {
    return static_cast<std::size_t>(p.work.batch * p.work.queries * p.work.heads * p.work.width * bytes_of(out_dtype));
  }
};

void run(const DecodeWork& work, cudaStream_t stream, const std::string& text) {
  const Status s = cuda::decode::run("gpu_decode", work, stream);
  expect(s.ok(), text + ": " + s.message());
}

double compare(const OnGpu& on) {
  const DecodeProblem& p = on.p;
  const DecodeWork& w = p.work;
  std::mutex mutex;
  double worst = 0;
  each_row({w.batch, w.queries, w.heads, w.width}, [&](std::int64_t b, std::int64_t i, std::int64_t h) {
    const DecodedRow want = expected_decode(p, static_cast<int>(b), static_cast<int>(i), static_cast<int>(h), on.out_dtype);
    const int64_t row = (b * w.queries + i) * w.heads + h;
    const double lse = on.lse[row];
    double share = want.lse == -INFINITY ? (lse == -INFINITY ? 0 : 9) : std::abs(lse - want.lse) / want.lse_bound;
    if (!(share <= 1)) share = 9;
    int at = 0;
    for (int c = 0; c < w.width; ++c) {
      const double out = job::load_element(on.out, on.out_dtype, row * w.width + c);
      const double off =
          std::abs(out - want.out[static_cast<std::size_t>(c)]) / std::max(want.out_bound[static_cast<std::size_t>(c)], 1e-30);
      if (!(off <= 1) && share <= 1) at = c;
      share = off <= 1 ? std::max(share, off) : 9;
    }
    const std::lock_guard lock(mutex);
    if (share > 1) {
      expect(false, p.text + ": row " + std::to_string(b) + " " + std::to_string(i) + " " + std::to_string(h) + ", length " +
                        std::to_string(p.lengths[static_cast<std::size_t>(b)]) + ", lse " + std::to_string(lse) + " wanted " +
                        std::to_string(want.lse) + ", out[" + std::to_string(at) + "] " +
                        std::to_string(job::load_element(on.out, on.out_dtype, row * w.width + at)) + " wanted " +
                        std::to_string(want.out[static_cast<std::size_t>(at)]));
    }
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
