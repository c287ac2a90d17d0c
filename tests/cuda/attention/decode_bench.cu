// SPDX-License-Identifier: Apache-2.0
// Decoding over pages beside a kernel that reads as many bytes: 64 sequences, one query each, heads of 128 that share 8 or 4 key heads.
//   decode_bench [JSON [NAME [KEYS]]]
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "../../../bench/gpu/timing.cuh"
#include "cuda/attention/decode/run.hpp"

namespace phasor::bench {
namespace {

using cuda::decode::DecodeWork;

struct Case {
  const char* name;
  Storage storage;
  int key_heads;
  int batch;
  int page;
  bool t5;
  bool rotated;
};

void time_case(const Case& c, std::int64_t keys, cudaStream_t stream, Table& table) {
  constexpr int kHeads = 32, kWidth = 128;
  DecodeWork w;
  w.storage = c.storage, w.width = kWidth, w.batch = c.batch, w.queries = 1, w.heads = kHeads, w.key_heads = c.key_heads;
  w.group = kHeads / c.key_heads, w.page_size = c.page, w.page_shift = __builtin_ctz(static_cast<unsigned>(c.page)),
  w.pages = keys / c.page, w.room = keys;
  w.splits = static_cast<int>((keys + cuda::decode::kSplit - 1) / cuda::decode::kSplit);
  w.scale = 0.088388F, w.right = 0;
  const std::int64_t size = bytes_of(c.storage), row = kWidth * size, block = c.page * c.key_heads * row, blocks = c.batch * w.pages;
  std::vector<void*> all;
  const auto take = [&](std::int64_t bytes) {
    void* data = nullptr;
    must(cudaMalloc(&data, static_cast<std::size_t>(bytes) + 16), "cudaMalloc");
    must(cudaMemset(data, 0x21, static_cast<std::size_t>(bytes)), "cudaMemset");
    all.push_back(data);
    return static_cast<std::byte*>(data);
  };
  for (auto* const side : {&w.k, &w.v}) {
    side->data = take(blocks * block);
    side->strides[0] = block, side->strides[1] = c.key_heads * row, side->strides[2] = row;
  }
  const Extents shape = {c.batch, 1, kHeads, kWidth};
  const DType q_dtype = c.rotated ? DType::f32 : c.storage == Storage::f16 ? DType::f16 : DType::bf16;
  w.q = {take(c.batch * kHeads * kWidth * 4), q_dtype, shape, contiguous_strides(shape), kGpu};
  w.outputs.out = {take(c.batch * kHeads * kWidth * 4), DType::bf16, shape, contiguous_strides(shape), kGpu};
  std::vector<std::int32_t> lengths(static_cast<std::size_t>(c.batch), static_cast<std::int32_t>(keys)),
      pages(static_cast<std::size_t>(blocks));
  for (std::size_t n = 0; n < pages.size(); ++n) pages[n] = static_cast<std::int32_t>(n * 7919 % pages.size());
  auto* const lengths_at = reinterpret_cast<std::int32_t*>(take(c.batch * 4));
  auto* const pages_at = reinterpret_cast<std::int32_t*>(take(blocks * 4));
  must(cudaMemcpy(lengths_at, lengths.data(), lengths.size() * 4, cudaMemcpyHostToDevice), "lengths");
  must(cudaMemcpy(pages_at, pages.data(), pages.size() * 4, cudaMemcpyHostToDevice), "pages");
  w.lengths = Integers(lengths_at, lengths.size(), kGpu);
  w.blocks = Integers(pages_at, pages.size(), kGpu);
  if (c.t5) {
    w.first_distance = -(keys + 1), w.distances = 2 * keys + 2, w.far_left = 91;
    w.diagonal = reinterpret_cast<const float*>(take(kHeads * w.distances * 4));
    w.diagonal_strides[2] = w.distances;
  }
  const std::int64_t numbers = cuda::decode::partial_numbers(w);
  w.partial_out = reinterpret_cast<float*>(take(numbers * 4));
  w.partial_sum = w.partial_out + numbers / (kWidth + 2) * kWidth;
  const double ours = microseconds(stream, [&] { must(cuda::decode::run("decode_bench", w, stream)); });
  const Moved moved = {static_cast<std::size_t>(2 * blocks * block), static_cast<std::size_t>(c.batch * kHeads * kWidth * 2)};
  const double copy = Ceiling(moved).microseconds(stream, moved);
  table.add({c.name, c.batch * keys, ours, copy});
  for (void* const data : all) cudaFree(data);
}

}  // namespace
}  // namespace phasor::bench

int main(int argc, char** argv) {
  using namespace phasor::bench;
  using phasor::Storage;
  const std::string only = argc > 2 ? argv[2] : "";
  const long long only_keys = argc > 3 ? std::strtoll(argv[3], nullptr, 10) : 0;
  const Case cases[] = {{"decode bf16, 8 key heads", Storage::bf16, 8, 64, 16, false, false},
                        {"decode bf16, 4 key heads", Storage::bf16, 4, 64, 16, false, false},
                        {"decode bf16, 4 key heads, T5", Storage::bf16, 4, 64, 16, true, false},
                        {"decode bf16, 4 key heads, float32 q", Storage::bf16, 4, 64, 16, false, true},
                        {"decode bf16, 8 key heads, one sequence", Storage::bf16, 8, 1, 16, false, false},
                        {"decode f16, 4 key heads", Storage::f16, 4, 64, 64, false, false},
                        {"decode e4m3, 8 key heads", Storage::f8_e4m3, 8, 64, 16, false, false},
                        {"decode e5m2, 4 key heads", Storage::f8_e5m2, 4, 64, 64, false, false}};
  const cudaStream_t stream = make_stream();
  Table table("decoding, 32 heads of 128", false);
  for (const Case& c : cases) {
    if (std::string(c.name).find(only) == std::string::npos) continue;
    for (const std::int64_t keys : {1024, 8192}) {
      if (only_keys == 0 || keys == only_keys) time_case(c, keys, stream, table);
    }
  }
  return table.write(argc > 1 ? argv[1] : nullptr);
}
