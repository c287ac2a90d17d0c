// SPDX-License-Identifier: Apache-2.0
// Rows of sines on a GPU, at sizes at which each of their kernels is taken: sinusoids of 16 bits and of float32, in every order, aligned
// and not, at positions near and far; cos_sin by float64, and as on devices without a fast one. The CPU's bits, in a chain of calls on one
// stream and in a graph whose positions change. `gpu_rows` prints what it compared and exits non-zero where something differs.
#include <cstring>

#include "backend/backend.hpp"
#include "cuda/on_device.cuh"
#include "cuda/run.hpp"
#include "phasor/phasor.hpp"

namespace phasor::test {
namespace {

using Bytes = std::vector<std::byte>;

int compared = 0;

Bytes some_numbers(std::size_t bytes, DType dtype) {
  Bytes buffer(bytes);
  std::uint32_t state = 12345;
  const auto next = [&] { return state = state * 1664525U + 1013904223U; };
  if (dtype == DType::f32) {
    for (std::size_t i = 0; i + 4 <= bytes; i += 4) {
      const float x = static_cast<float>(static_cast<std::int32_t>(next())) * 0x1p-29F;
      std::memcpy(&buffer[i], &x, 4);
    }
    return buffer;
  }
  for (std::size_t i = 0; i + 2 <= bytes; i += 2) {  // from 2^-6 to 4, both signs
    const std::uint32_t bits = next() >> 8;
    const std::uint32_t exponent = dtype == DType::f16 ? (9 + bits % 8) << 10 : (121 + bits % 8) << 7;
    auto x = static_cast<std::uint16_t>((bits & 0x8000U) | exponent | (bits >> 16 & (dtype == DType::f16 ? 0x3ffU : 0x7fU)));
    if (i % 32 == 0) x = static_cast<std::uint16_t>(bits & 0x8001U);  // a zero, or the least number
    if (i % 1024 == 2) x = static_cast<std::uint16_t>((bits & 0x8000U) | (dtype == DType::f16 ? 0x7c00U : 0x7f80U));  // an infinity
    std::memcpy(&buffer[i], &x, 2);
  }
  return buffer;
}
Bytes list_of(std::int64_t tokens, std::int64_t first, std::int64_t apart) {
  std::vector<std::int64_t> list(static_cast<std::size_t>(tokens));
  for (std::size_t t = 0; t < list.size(); ++t) list[t] = first + static_cast<std::int64_t>(t) * apart;
  if (tokens > 7) list[7] = -3;  // a walk that is none
  Bytes bytes(list.size() * 8);
  std::memcpy(bytes.data(), list.data(), bytes.size());
  return bytes;
}
Positions at(const std::byte* memory, std::int64_t tokens, Device device) {
  Positions positions = phasor::positions(reinterpret_cast<const std::int64_t*>(memory), tokens);
  positions.device = device;
  return positions;
}
void expect_same(const OnDevice& device, std::size_t n, const Bytes& want, DType dtype, const std::string& what) {
  ++compared;
  const std::string difference = first_difference(device.read(n, want.size()), want, dtype);
  expect(difference.empty(), what + ": " + difference);
}

struct Sinusoids {
  DType dtype;
  SinusoidOrder order;
  std::int64_t width;
  std::int64_t batch;
  std::int64_t tokens;
  std::int64_t first;     // element of the tensor, in its buffer
  std::int64_t position;  // first
  double amplitude = 1;
};
/// Added twice and written once, one after the other on one stream.
void sinusoids(const Sinusoids& c) {
  const std::string what = "sinusoids of " + std::to_string(c.batch) + " x " + std::to_string(c.tokens) + " x " + std::to_string(c.width) +
                           ", dtype " + std::to_string(static_cast<int>(c.dtype)) + ", order " + std::to_string(static_cast<int>(c.order)) +
                           ", from element " + std::to_string(c.first) + ", position " + std::to_string(c.position);
  const Result<Sinusoidal> made = Sinusoidal::make({.width = c.width, .order = c.order, .amplitude = c.amplitude, .zero_position = 1003});
  if (!made) return expect(false, what + ": " + made.status().message());
  const auto size = static_cast<std::size_t>((c.batch * c.tokens * c.width + c.first) * bytes_of(c.dtype));
  std::vector<Bytes> host = {some_numbers(size, c.dtype), some_numbers(size, c.dtype), list_of(c.tokens, c.position, 1)};
  const OnDevice device(host);
  const auto run = [&](const std::vector<std::byte*>& memory, Device on, const Execution& execution) {
    const Extents shape = {c.batch, c.tokens, 1, c.width};
    const auto view = [&](std::size_t n) {
      return TensorView{memory[n] + c.first * bytes_of(c.dtype), c.dtype, shape, contiguous_strides(shape), on};
    };
    const Positions positions = at(memory[2], c.tokens, on);
    const AddOptions options = {.execution = execution};
    for (const Status& s : {made->add(view(0), positions, options), made->add({ConstTensorView(view(0)), view(1)}, positions, options),
                            made->fill(view(0), positions, options), made->add(view(0), positions, options)}) {
      expect(s.ok(), what + ": " + s.message());
    }
  };
  run(pointers(host), {}, {});
  run(device.memory, kGpu, {});
  must(cudaDeviceSynchronize(), what.c_str());
  for (std::size_t n = 0; n < 2; ++n) expect_same(device, n, host[n], c.dtype, what);
}

void all_sinusoids() {
  constexpr SinusoidOrder kOrders[] = {SinusoidOrder::interleaved, SinusoidOrder::sin_cos, SinusoidOrder::cos_sin};
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
    for (const SinusoidOrder order : kOrders) {
      for (const std::int64_t tokens : {1, 65, 1027}) sinusoids({dtype, order, 4096, 1, tokens, 0, 1000});
      sinusoids({dtype, order, 4096, 1, 65, 1, 1000});                            // pairs one by one
      sinusoids({dtype, order, 512, 3, 65, 0, 1000, -2.5});                       // tables in the parameter
      sinusoids({dtype, order, 510, 2, 65, 0, 0});                                // no vectors
      sinusoids({dtype, order, 512, 1, 65, 0, (std::int64_t{1} << 31) - 30});     // near, then far
      sinusoids({dtype, order, 512, 1, 65, 0, -(std::int64_t{1} << 31) - 30});    // far, then near
      sinusoids({dtype, order, 64, 1, 65, 0, (std::int64_t{1} << 62) - 7, 0.3});  // far
    }
    sinusoids({dtype, SinusoidOrder::interleaved, 4096, 1, 8197, 0, 1000});  // 16 tokens a thread
    sinusoids({dtype, SinusoidOrder::sin_cos, 1024, 4, 8197, 0, -5000, -0.3});
    sinusoids({dtype, SinusoidOrder::interleaved, 4096, 1, 2051, 1, 1000});
  }
}

/// cos_sin of a head of `pairs` pairs.
void rows(std::int64_t pairs, std::int64_t tokens, std::int64_t position, const char* how) {
  const std::string what = std::string("cos_sin by ") + how + " of " + std::to_string(pairs) + " pairs, " + std::to_string(tokens) +
                           " tokens, position " + std::to_string(position);
  const Result<Rotary> rotary = Rotary::make({.head_dim = 2 * pairs});
  if (!rotary) return expect(false, what + ": " + rotary.status().message());
  const Bytes none(static_cast<std::size_t>(tokens * pairs * 4));
  std::vector<Bytes> host = {none, none, list_of(tokens, position, 1)};
  const OnDevice device(host);
  const Extents shape = {1, tokens, 1, pairs};
  const auto run = [&](const std::vector<std::byte*>& memory, Device on) {
    const auto view = [&](std::size_t n) { return TensorView{memory[n], DType::f32, shape, contiguous_strides(shape), on}; };
    const Status status = rotary->cos_sin(at(memory[2], tokens, on), view(0), view(1));
    expect(status.ok(), what + ": " + status.message());
  };
  run(pointers(host), {});
  run(device.memory, kGpu);
  must(cudaDeviceSynchronize(), what.c_str());
  for (std::size_t n = 0; n < 2; ++n) expect_same(device, n, host[n], DType::f32, what);
}
void all_rows(const char* how) {
  for (const std::int64_t tokens : {1, 66, 1027, 16387}) rows(64, tokens, 1000, how);
  rows(48, 131, 0, how);
  rows(1, 300, 5, how);
  rows(600, 70, 77, how);  // in the parameter
  rows(900, 70, 77, how);  // too many for it
  rows(64, 200, (std::int64_t{1} << 32) - 100, how);
  rows(64, 200, -100, how);
  rows(64, 200, (std::int64_t{1} << 62) - 201, how);
}

/// The kernels of devices whose float64 is slow.
void all_rows_by_pairs() {
  const backend::Backend* const own = *backend::choose(kGpu);
  backend::Backend other = *own;
  other.rows = cuda::run_rows_by_pairs;
  const backend::Backend* const before = backend::replace(DeviceKind::cuda, &other);
  all_rows("pairs of float32");
  backend::replace(DeviceKind::cuda, before);
}

void graph() {
  constexpr std::int64_t kTokens = 300;
  constexpr std::int64_t kWidth = 256;
  const Sinusoidal sinusoidal = *Sinusoidal::make({.width = kWidth});
  const Bytes x = some_numbers(kTokens * kWidth * 2, DType::bf16);
  const OnDevice device({x, list_of(kTokens, 0, 1)});
  const Extents shape = {1, kTokens, 1, kWidth};
  const auto view = [&](std::byte* memory, Device on) { return TensorView{memory, DType::bf16, shape, contiguous_strides(shape), on}; };
  Captured captured;
  for (int i = 0; i < 3; ++i) {
    const Status status =
        sinusoidal.add(view(device.memory[0], kGpu), at(device.memory[1], kTokens, kGpu), {.execution = {.stream = captured.stream}});
    expect(status.ok(), "captured sinusoids: " + status.message());
  }
  captured.end();
  Bytes want = x;
  for (const std::int64_t first : {0, 5000, -700}) {
    Bytes list = list_of(kTokens, first, 3);
    must(cudaMemcpy(device.memory[1], list.data(), list.size(), cudaMemcpyHostToDevice), "positions");
    captured.replay();
    for (int i = 0; i < 3; ++i) expect(sinusoidal.add(view(want.data(), {}), at(list.data(), kTokens, {})).ok(), "the CPU");
    expect_same(device, 0, want, DType::bf16, "three sinusoids in a graph, from " + std::to_string(first));
  }
}

}  // namespace
}  // namespace phasor::test

int main() {
  using namespace phasor::test;
  all_sinusoids();
  all_rows("what the device is fast with");
  all_rows_by_pairs();
  graph();
  std::printf("     %d tensors of sinusoids and rows have the CPU's bits\ngpu_rows: %s\n", compared - failures,
              failures == 0 ? "PASS" : "FAIL");
  return failures == 0 ? 0 : 1;
}
