// SPDX-License-Identifier: Apache-2.0
// Attention that rotates queries and keys itself, on a GPU: bit for bit what rotating before gives, by Hopper's kernels and by those of
// mma.sync, and so are Hopper's gradients. Then, if asked, both beside each other, and decoding with keys that were rotated and with keys
// that were not.
//   gpu_rotated [times | few]
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "cuda/on_device.cuh"
#include "job/element.hpp"
#include "phasor/phasor.hpp"

namespace phasor::test {
namespace {

__global__ void fill_numbers(std::uint16_t* to, std::int64_t count, std::uint32_t seed, bool bf16) {
  const std::int64_t n = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (n >= count) return;
  std::uint32_t x = static_cast<std::uint32_t>(n) * 2654435761U + seed * 40503U;
  x ^= x >> 15, x *= 2246822519U, x ^= x >> 13, x *= 3266489917U, x ^= x >> 16;
  const double value = (static_cast<double>(x) * 0x1p-32 - 0.5) * 3;
  job::store_element(to, bf16 ? DType::bf16 : DType::f16, n, value);
}

/// A tensor of 16 bits, or of float32, of its own.
class Held {
 public:
  Held(DType dtype, const Extents& shape, std::uint32_t seed = 0) : view{nullptr, dtype, shape, contiguous_strides(shape), kGpu} {
    count_ = shape[0] * shape[1] * shape[2] * shape[3];
    must(cudaMalloc(&view.data, static_cast<std::size_t>(count_ * bytes_of(dtype) + 16)), "cudaMalloc");
    must(cudaMemset(view.data, 0xff, static_cast<std::size_t>(count_ * bytes_of(dtype))), "cudaMemset");
    if (seed == 0) return;
    const auto blocks = static_cast<unsigned>((count_ + 255) / 256);
    fill_numbers<<<blocks, 256>>>(static_cast<std::uint16_t*>(view.data), count_, seed, dtype == DType::bf16);
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() { cudaFree(view.data); }
  std::vector<std::byte> bytes() const {
    std::vector<std::byte> all(static_cast<std::size_t>(count_ * bytes_of(view.dtype)));
    must(cudaMemcpy(all.data(), view.data, all.size(), cudaMemcpyDeviceToHost), "a result");
    return all;
  }
  std::vector<double> numbers() const {
    const std::vector<std::byte> all = bytes();
    std::vector<double> list(static_cast<std::size_t>(count_));
    for (std::int64_t n = 0; n < count_; ++n) list[static_cast<std::size_t>(n)] = job::load_element(all.data(), view.dtype, n);
    return list;
  }
  TensorView view;

 private:
  std::int64_t count_ = 0;
};

/// A workspace that grows.
class Room {
 public:
  ~Room() { cudaFree(data_); }
  Workspace of(const Result<std::int64_t>& bytes) {
    expect(bytes.ok(), bytes.ok() ? "" : bytes.status().message());
    if (*bytes > size_) {
      cudaFree(data_);
      must(cudaMalloc(&data_, static_cast<std::size_t>(*bytes)), "workspace");
      size_ = *bytes;
    }
    return Workspace(static_cast<std::byte*>(data_), static_cast<std::size_t>(*bytes));
  }

 private:
  void* data_ = nullptr;
  std::int64_t size_ = 0;
};

void must_be_ok(const Status& status, const std::string& what) { expect(status.ok(), status.ok() ? "" : what + ": " + status.message()); }

struct Shape {
  std::int64_t batch, queries, keys, heads, key_heads, width;
};
/// Tensors of a call, forward and back.
struct Call {
  Call(const Shape& s, DType dtype)
      : q(dtype, {s.batch, s.queries, s.heads, s.width}, 1),
        k(dtype, {s.batch, s.keys, s.key_heads, s.width}, 2),
        v(dtype, {s.batch, s.keys, s.key_heads, s.width}, 3),
        out(dtype, q.view.shape),
        lse(DType::f32, {s.batch, s.queries, s.heads, 1}),
        out_gradient(dtype, q.view.shape, 4),
        dq(dtype, q.view.shape),
        dk(dtype, k.view.shape),
        dv(dtype, k.view.shape) {
    lse.view.strides = {s.heads * s.queries, 1, s.queries, 1};
  }
  void forward(const AttentionSpec& spec) { forward(spec, q.view, k.view); }
  void forward(const AttentionSpec& spec, const TensorView& of_q, const TensorView& of_k) {
    const AttentionInputs in = {of_q, of_k, v.view};
    must_be_ok(attention(in, spec, {out.view, lse.view}, room.of(attention_workspace(in, spec))), "attention");
  }
  void backward(const AttentionSpec& spec) { backward(spec, q.view, k.view); }
  void backward(const AttentionSpec& spec, const TensorView& of_q, const TensorView& of_k) {
    const AttentionInputs in = {of_q, of_k, v.view};
    AttentionGradients gradients;
    gradients.q = dq.view, gradients.k = dk.view, gradients.v = dv.view;
    const AttentionSaved saved = {.out = out.view, .lse = lse.view, .out_gradient = out_gradient.view};
    must_be_ok(attention_backward(in, spec, saved, gradients, room_back.of(attention_backward_workspace(in, spec, gradients))), "backward");
  }
  Held q, k, v, out, lse, out_gradient, dq, dk, dv;
  Room room, room_back;
};

/// The norm of a difference over that of a tensor.
double apart(const Held& is, const Held& wanted) {
  const std::vector<double> a = is.numbers(), b = wanted.numbers();
  double off = 0, all = 0;
  for (std::size_t n = 0; n < a.size(); ++n) off += (a[n] - b[n]) * (a[n] - b[n]), all += b[n] * b[n];
  return std::sqrt(off / all);
}

struct Rotated {
  std::string name;
  Shape shape;
  DType dtype;
  RotarySpec rotary;
  AttentionSpec spec;
  bool keys_before = false;
};

void check(const Rotated& of) {
  const Rotary rotary = *Rotary::make(of.rotary);
  Call inside(of.shape, of.dtype), before(of.shape, of.dtype);
  AttentionSpec rotating = of.spec;
  rotating.content = RotaryContent{rotary, of.keys_before ? KeyState::rotated : KeyState::unrotated};
  const Positions of_q = positions_from(of.shape.keys - of.shape.queries), of_k = positions_from(0);
  must_be_ok(rotary.apply(before.q.view, of_q), "apply");
  must_be_ok(rotary.apply(before.k.view, of_k), "apply");
  if (of.keys_before) must_be_ok(rotary.apply(inside.k.view, of_k), "apply");
  const std::string words = explain_attention({inside.q.view, inside.k.view, inside.v.view}, rotating)->words;
  const bool by_hopper = words.find("kernel for Hopper") != std::string::npos;
  const bool back_by_hopper = words.find("gradients by kernels for Hopper") != std::string::npos;
  expect(by_hopper || words.find("kernel of mma.sync") != std::string::npos, of.name + ": " + words);
  expect(back_by_hopper || words.find("gradients by mma.sync") != std::string::npos, of.name + ": " + words);
  inside.forward(rotating), inside.backward(rotating);
  before.forward(of.spec), before.backward(of.spec);
  must(cudaDeviceSynchronize(), of.name.c_str());
  const bool same = inside.out.bytes() == before.out.bytes() && inside.lse.bytes() == before.lse.bytes();
  expect(same, of.name + ": outputs are not those of rotating before");
  const ApplyOptions back = {.direction = Direction::transpose};
  must_be_ok(rotary.apply(before.dq.view, of_q, back), "apply");
  if (!of.keys_before) must_be_ok(rotary.apply(before.dk.view, of_k, back), "apply");
  must(cudaDeviceSynchronize(), "transpose");
  const bool same_back = inside.dq.bytes() == before.dq.bytes() && inside.dk.bytes() == before.dk.bytes();
  expect(inside.dv.bytes() == before.dv.bytes(), of.name + ": the gradient of values is another");
  const double off_q = apart(inside.dq, before.dq), off_k = apart(inside.dk, before.dk);
  const double off = std::isnan(off_k) ? off_k : std::max(off_q, off_k);  // whichever is not a number
  const double most = of.dtype == DType::bf16 ? 0x1p-7 : 0x1p-10;
  expect(back_by_hopper ? same_back : off <= most, of.name + ": gradients are not those of rotating before");
  std::printf("%-44s %-8s %-8s gradients %s, %.1e apart\n", of.name.c_str(), by_hopper ? "Hopper" : "mma.sync", same ? "the same" : "OTHER",
              back_by_hopper ? "Hopper" : "mma.sync", off);
}

void check_all(bool few) {
  const Held sinks(DType::f32, {1, 1, 4, 1});
  must(cudaMemset(sinks.view.data, 0, 16), "sinks");
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const std::int64_t width : {64, 128, 72}) {
      if (few && width != (dtype == DType::bf16 ? 72 : 128)) continue;
      const std::string name = std::string(name_of(dtype)) + " D" + std::to_string(width);
      const Shape s = {2, 300, 517, 4, 2, width};
      const RotarySpec all = {.head_dim = width};
      const RotarySpec part = {.head_dim = width, .rotary_width = 32, .rotary_offset = 8, .pairing = Pairing::interleaved};
      const RotarySpec yarn = {.head_dim = width, .scaling = YarnScaling{.factor = 4, .original_length = 64}};
      const RotarySpec hf = {.head_dim = width, .numerics = Numerics::hf};  // beside sinks by mma.sync: turned back in float32
      check({name + " full", s, dtype, all, {}});
      check({name + " causal, keys rotated", s, dtype, yarn, {.visibility = {.mask = Mask::causal}}, true});
      check({name + " causal, part", {2, 517, 517, 4, 4, width}, dtype, part, {.visibility = {.mask = Mask::causal}}});
      check({name + " window, hf", s, dtype, hf, {.visibility = {.left = 100, .right = 9}}});
      check({name + " sinks, hf", s, dtype, hf, {.sinks = sinks.view, .visibility = {.mask = Mask::causal}}});
      check({name + " sinks, yarn", s, dtype, yarn, {.sinks = sinks.view, .visibility = {.mask = Mask::causal}}});
      check({name + " capped, part", s, dtype, part, {.softcap = 5}});
    }
  }
}

// ---- Times ----

/// Medians of every job by turns: what ran before decides how fast a chip is that its power limits.
std::vector<double> milliseconds(const std::vector<std::function<void()>>& jobs) {
  cudaEvent_t begin, end;
  cudaEventCreate(&begin), cudaEventCreate(&end);
  std::vector<std::vector<double>> times(jobs.size());
  for (std::size_t turn = 0; turn < 15 * jobs.size(); ++turn) {
    const std::size_t job = turn * (turn / jobs.size() % 2 == 0 ? 1 : jobs.size() - 1) % jobs.size();  // there and back
    jobs[job]();
    cudaEventRecord(begin);
    for (int n = 0; n < 3; ++n) jobs[job]();
    cudaEventRecord(end);
    cudaEventSynchronize(end);
    float ms = 0;
    cudaEventElapsedTime(&ms, begin, end);
    if (turn >= jobs.size()) times[job].push_back(ms / 3);
  }
  cudaEventDestroy(begin), cudaEventDestroy(end);
  std::vector<double> medians;
  for (std::vector<double>& list : times) {
    std::sort(list.begin(), list.end());
    medians.push_back(list[list.size() / 2]);
  }
  return medians;
}

void time_calls(std::int64_t width, bool causal) {
  const Shape s = {4, 4096, 4096, 32, 32, width};
  const Rotary rotary = *Rotary::make({.head_dim = width});
  Call call(s, DType::bf16);
  Held turned_q(DType::bf16, call.q.view.shape), turned_k(DType::bf16, call.k.view.shape);
  AttentionSpec plain;
  if (causal) plain.visibility.mask = Mask::causal;
  AttentionSpec rotating = plain;
  rotating.content = RotaryContent{rotary};
  const ApplyOptions back = {.direction = Direction::transpose};
  const auto rotate = [&] {
    must_be_ok(rotary.apply(InOut(call.q.view, turned_q.view), InOut(call.k.view, turned_k.view), positions_from(0)), "apply");
  };
  const auto before = [&] { rotate(), call.forward(plain, turned_q.view, turned_k.view); };
  const std::vector<double> ms = milliseconds({rotate, [&] { call.forward(plain); }, before, [&] { call.forward(rotating); },
                                               [&] {
                                                 before(), call.backward(plain, turned_q.view, turned_k.view);
                                                 must_be_ok(rotary.apply(call.dq.view, call.dk.view, positions_from(0), back), "apply");
                                               },
                                               [&] { call.forward(rotating), call.backward(rotating); }});
  std::printf(
      "D%-3lld %-6s rotation %.3f plain %.3f before %.3f inside %.3f: %.3f    forward and backward before %.3f inside %.3f: %.3f ms\n",
      static_cast<long long>(width), causal ? "causal" : "full", ms[0], ms[1], ms[2], ms[3], ms[3] / ms[2], ms[4], ms[5], ms[5] / ms[4]);
}

/// 64 sequences of 4096 keys, a query each, 32 heads of 128 that share 8; pages of 16.
void time_decoding() {
  constexpr std::int64_t kBatch = 64, kKeys = 4096, kHeads = 32, kKeyHeads = 8, kWidth = 128, kPage = 16;
  const std::int64_t blocks = kBatch * kKeys / kPage;
  const Held q(DType::bf16, {kBatch, 1, kHeads, kWidth}, 1), out(DType::bf16, {kBatch, 1, kHeads, kWidth});
  const Held k(DType::bf16, {blocks, kPage, kKeyHeads, kWidth}, 2), v(DType::bf16, {blocks, kPage, kKeyHeads, kWidth}, 3);
  std::vector<std::vector<std::byte>> lists(2);
  std::vector<std::int32_t> pages(static_cast<std::size_t>(blocks)), lengths(kBatch, kKeys);
  for (std::size_t n = 0; n < pages.size(); ++n) pages[n] = static_cast<std::int32_t>(n * 7919 % pages.size());
  for (const auto& [list, to] : {std::pair{&pages, &lists[0]}, {&lengths, &lists[1]}}) {
    to->resize(list->size() * 4);
    std::memcpy(to->data(), list->data(), to->size());
  }
  const OnDevice there(lists);
  CachedInputs in;
  in.q = q.view;
  in.k = contiguous_cache(k.view.data, Storage::bf16, {blocks, kPage, kKeyHeads, kWidth});
  in.v = contiguous_cache(v.view.data, Storage::bf16, {blocks, kPage, kKeyHeads, kWidth});
  in.k.device = in.v.device = kGpu;
  in.pages.blocks = Integers(reinterpret_cast<const std::int32_t*>(there.memory[0]), pages.size(), kGpu);
  in.pages.lengths = Integers(reinterpret_cast<const std::int32_t*>(there.memory[1]), lengths.size(), kGpu);
  in.pages.page_size = kPage;
  const Rotary rotary = *Rotary::make({.head_dim = kWidth});
  const Visibility see = {.mask = Mask::causal};
  Room room;
  const auto decode = [&](const AttentionSpec& spec) {
    return [&, spec] { must_be_ok(cached_attention(in, spec, {out.view}, room.of(cached_attention_workspace(in, spec))), "cached"); };
  };
  const std::vector<double> ms =
      milliseconds({decode({.visibility = see}), decode({.content = RotaryContent{rotary, KeyState::rotated}, .visibility = see}),
                    decode({.content = RotaryContent{rotary}, .visibility = see})});
  std::printf("decoding: plain %.4f, keys rotated %.4f, keys unrotated %.4f ms\n", ms[0], ms[1], ms[2]);
}

}  // namespace
}  // namespace phasor::test

int main(int argc, char** argv) {
  using namespace phasor::test;
  const std::string how = argc > 1 ? argv[1] : "";
  check_all(how == "few");
  if (how == "times") {
    for (const std::int64_t width : {128, 64}) {
      for (const bool causal : {false, true}) time_calls(width, causal);
    }
    time_decoding();
  }
  std::printf("gpu_rotated: %s\n", failures == 0 ? "PASS" : "FAIL");
  return failures == 0 ? 0 : 1;
}
