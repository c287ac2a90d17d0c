// SPDX-License-Identifier: Apache-2.0
// The rotary functions on a GPU: random calls give the bits of the CPU; a captured graph gives those of positions that changed since; wrong
// devices and streams are refused with words. `gpu_rotary [CALLS [FIRST]]` prints a table and exits non-zero where something differs.
#include <algorithm>
#include <cstring>

#include "cuda/on_device.cuh"
#include "cuda/random_calls.hpp"
#include "cuda/random_moves.hpp"

namespace phasor::test {
namespace {

/// One call of every kind of team: so many tokens, heads and pairs that groups, slices and the last of each are cut in every way.
void sizes() {
  int compared = 0;
  const auto check = [&](DType dtype, Pairing pairing, std::int64_t width, std::int64_t tokens, std::int64_t heads) {
    const std::int64_t head_dim = width + (heads % 2 != 0 ? 16 : 0);
    const Rotary rotary = *Rotary::make({.head_dim = head_dim, .rotary_width = width, .pairing = pairing});
    const Extents shape = {1, tokens, heads, head_dim};
    std::vector<std::vector<std::byte>> buffers(
        2, std::vector<std::byte>(static_cast<std::size_t>(tokens * heads * head_dim * bytes_of(dtype))));
    for (std::size_t i = 0; i + 2 <= buffers[0].size(); i += 2) {
      const auto bits = static_cast<std::uint16_t>(0x3c00U | (i * 2654435761U >> 13 & 0x83ffU));
      std::memcpy(buffers[0].data() + i, &bits, 2);
    }
    const OnDevice device(buffers);
    const auto apply = [&](const std::vector<std::byte*>& memory, Device where) {
      const TensorView in = {memory[0], dtype, shape, contiguous_strides(shape), where};
      const TensorView out = {memory[1], dtype, shape, contiguous_strides(shape), where};
      return rotary.apply(InOut(ConstTensorView(in), out), positions_from(1000000));
    };
    const std::string name = "dtype " + std::to_string(static_cast<int>(dtype)) + ", " + std::to_string(tokens) + " tokens, " +
                             std::to_string(heads) + " heads of " + std::to_string(width);
    expect(apply(pointers(buffers), {}).ok() && apply(device.memory, kGpu).ok(), name);
    must(cudaDeviceSynchronize(), name.c_str());
    expect(device.read(1, buffers[1].size()) == buffers[1], name + ": other bits");
    ++compared;
  };
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32, DType::f64}) {
    for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
      for (const std::int64_t tokens : {3, 513, 1101, 8193}) {
        for (const std::int64_t heads : {1, 7, 40}) check(dtype, pairing, 128, tokens, heads);
        check(dtype, pairing, 96, tokens, 5);
        check(dtype, pairing, 224, tokens, 6);
        check(dtype, pairing, 16, tokens, 64);
      }
    }
  }
  std::printf("     %d sizes\n", compared);
}

/// Keys that move: a few tokens, then so many that a block has several of them; and a graph whose slots and positions change.
void moves(const Seeds& seeds) {
  compare_random_calls(seeds, [](std::uint64_t seed) { return random_move(seed, 0); });
}
void long_moves() {
  compare_random_calls({12}, [](std::uint64_t seed) { return random_move(1000 + seed, seed % 2 == 0 ? 9000 : 17000); });
}
void moves_in_a_graph() {
  const Rotary rotary = *Rotary::make({.head_dim = 128});
  const Extents shape = {4, 16, 8, 128};
  std::vector<std::byte> cache(4 * 16 * 8 * 128 * 2);
  for (std::size_t i = 0; i + 2 <= cache.size(); i += 2) {
    const auto bits = static_cast<std::uint16_t>(0x3c00U | (i * 2654435761U >> 13 & 0x83ffU));
    std::memcpy(cache.data() + i, &bits, 2);
  }
  const OnDevice device({cache, std::vector<std::byte>(24), std::vector<std::byte>(24), std::vector<std::byte>(24)});
  const auto move = [&](const std::vector<std::byte*>& memory, const Execution& execution, Device where) {
    const auto list = [&](std::size_t n) { return reinterpret_cast<const std::int64_t*>(memory[n]); };
    Positions from = positions(list(2), 1, 1, 3);
    Positions to = positions(list(3), 1, 1, 3);
    from.device = to.device = where;
    const TensorView keys = {memory[0], DType::bf16, shape, contiguous_strides(shape), where};
    return rerotate(keys, Slots({list(1), 3}, where), {rotary, from}, {rotary, to}, {.execution = execution});
  };
  Captured graph;
  const Status status = move(device.memory, {.stream = graph.stream}, kGpu);
  graph.end();
  expect(status.ok(), "capture of keys that move: " + status.message());
  const std::int64_t steps[3][9] = {{3, 60, -1, 5, 9, 0, 4, 1000, 0},  // one slot is nobody's
                                    {0, 17, 33, 7, 8, 9, 7, 8, 9},     // all rest
                                    {63, 2, 5, 4096, 1, 2, 0, 77, 1 << 30}};
  std::vector<std::vector<std::byte>> host = {cache, std::vector<std::byte>(24), std::vector<std::byte>(24), std::vector<std::byte>(24)};
  for (const auto& step : steps) {
    for (std::size_t n = 1; n < 4; ++n) {
      std::memcpy(host[n].data(), step + 3 * (n - 1), 24);
      must(cudaMemcpy(device.memory[n], host[n].data(), 24, cudaMemcpyHostToDevice), "lists");
    }
    graph.replay();
    expect(move(pointers(host), {}, {}).ok(), "the CPU");
    expect(device.read(0, cache.size()) == host[0], "keys that move in a graph: other bits");
  }
  std::printf("     3 replays of a graph of keys that move\n");
}

/// One decoded token: captured once, replayed with another position in device memory.
void graph() {
  const Rotary rotary = *Rotary::make({.head_dim = 128});
  std::vector<float> q(32 * 128);
  for (std::size_t i = 0; i < q.size(); ++i) q[i] = static_cast<float>(i % 17) - 8;
  std::vector<std::vector<std::byte>> buffers(3);
  buffers[0].resize(q.size() * 4);
  std::memcpy(buffers[0].data(), q.data(), buffers[0].size());
  buffers[1] = buffers[0];
  buffers[2].resize(8);
  const OnDevice device(buffers);
  const Extents shape = {1, 1, 32, 128};
  const ConstTensorView in = {device.memory[0], DType::f32, shape, contiguous_strides(shape), kGpu};
  const TensorView out = {device.memory[1], DType::f32, shape, contiguous_strides(shape), kGpu};
  Positions at = positions(reinterpret_cast<const std::int64_t*>(device.memory[2]), 1, 1, 1);
  at.device = kGpu;
  cudaStream_t stream = nullptr;
  cudaGraph_t captured = nullptr;
  cudaGraphExec_t program = nullptr;
  must(cudaStreamCreate(&stream), "cudaStreamCreate");
  must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
  const Status status = rotary.apply(InOut(in, out), at, {.execution = {.stream = stream}});
  must(cudaStreamEndCapture(stream, &captured), "end of capture");
  expect(status.ok(), "capture: " + status.message());
  must(cudaGraphInstantiate(&program, captured, 0), "cudaGraphInstantiate");
  for (const std::int64_t position : {std::int64_t{0}, std::int64_t{7}, std::int64_t{1} << 40, std::int64_t{-3}}) {
    must(cudaMemcpy(device.memory[2], &position, 8, cudaMemcpyHostToDevice), "position");
    must(cudaGraphLaunch(program, stream), "cudaGraphLaunch");
    must(cudaStreamSynchronize(stream), "graph");
    std::vector<float> want = q;
    expect(rotary.apply(view(want.data(), shape), positions(&position, 1, 1, 1)).ok(), "the CPU");
    expect(std::memcmp(device.read(1, q.size() * 4).data(), want.data(), q.size() * 4) == 0, "graph at " + std::to_string(position));
  }
  std::printf("     4 replays of a graph\n");
}

/// An index that no rotary has is the caller's fault: such a row is left alone, and the others are right.
void wrong_specs() {
  const std::vector<Rotary> rotaries = {*Rotary::make({.head_dim = 8}), *Rotary::make({.head_dim = 8, .base = 100})};
  const std::vector<std::int64_t> spec_of = {1, 2, -1, 0};
  std::vector<std::byte> list(32);
  std::memcpy(list.data(), spec_of.data(), 32);
  std::vector<float> q(4 * 8, 1.5F);
  std::vector<std::byte> bytes(q.size() * 4);
  std::memcpy(bytes.data(), q.data(), bytes.size());
  const OnDevice device({bytes, list});
  const Extents shape = {4, 1, 1, 8};
  const TensorView x = {device.memory[0], DType::f32, shape, contiguous_strides(shape), kGpu};
  const Status status = apply_rotaries({rotaries, {device.memory[1], PositionType::i64, 4, kGpu}}, x, positions_from(9));
  expect(status.ok(), "wrong specs: " + status.message());
  for (const std::int64_t row : {0, 3}) {
    const Rotary& rotary = rotaries[static_cast<std::size_t>(spec_of[static_cast<std::size_t>(row)])];
    expect(rotary.apply(view(q.data() + row * 8, {1, 1, 1, 8}), positions_from(9)).ok(), "the CPU");
  }
  must(cudaDeviceSynchronize(), "wrong specs");
  expect(std::memcmp(device.read(0, bytes.size()).data(), q.data(), bytes.size()) == 0, "rows of wrong specs are left alone");
  std::printf("     4 rows, two of them of no spec\n");
}

void bad_input() {
  const Rotary rotary = *Rotary::make({.head_dim = 8});
  const Extents shape = {1, 1, 1, 8};
  const OnDevice device({std::vector<std::byte>(64)});
  const TensorView q = {device.memory[0], DType::f32, shape, contiguous_strides(shape), kGpu};
  std::vector<float> host(8);
  const auto message = [&](const TensorView& x, const Positions& at) { return rotary.apply(x, at).message(); };
  const std::int64_t position = 1;
  expect(message(q, positions(&position, 1, 1, 1)).find("positions are on cpu, wanted cuda:0") != std::string::npos, "host positions");
  TensorView elsewhere = q;
  elsewhere.device.index = 99;
  expect(message(elsewhere, positions_from(1)).find("CUDA says cudaErrorInvalidDevice") != std::string::npos, "a device that is not there");
  // An error that is pending before a call is not consumed by it.
  expect(cudaSetDevice(98) == cudaErrorInvalidDevice, "no such device");
  expect(rotary.apply(q, positions_from(1)).ok(), "a call beside a pending error");
  expect(cudaGetLastError() == cudaErrorInvalidDevice, "the pending error is still there");
  must(cudaDeviceSynchronize(), "bad input");
  std::printf("     4 bad calls\n");
}

/// What CUDA refuses is in the Status, and not left pending for the caller's next cudaGetLastError; an error of the caller's stays.
void pending_errors() {
  const Rotary rotary = *Rotary::make({.head_dim = 8});
  const Extents shape = {1, 1, 1, 8};
  const OnDevice device({std::vector<std::byte>(64)});
  const TensorView q = {device.memory[0], DType::f32, shape, contiguous_strides(shape), kGpu};
  TensorView elsewhere = q;
  elsewhere.device.index = 99;
  must(cudaGetLastError(), "before");
  expect(!rotary.apply(elsewhere, positions_from(1)).ok(), "a device that is not there is refused");
  expect(cudaGetLastError() == cudaSuccess, "the error of a device that is not there is consumed");

  // A launch that fails: CUDA's default stream may not be used while another stream is captured in global mode.
  cudaStream_t stream = nullptr;
  cudaStream_t other = nullptr;
  must(cudaStreamCreate(&stream), "cudaStreamCreate");
  must(cudaStreamCreate(&other), "cudaStreamCreate");
  must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
  const Status refused = rotary.apply(q, positions_from(1));
  expect(refused.message().find("apply_rotary: CUDA says cudaErrorStreamCapture") == 0, "a failed launch says '" + refused.message() + "'");
  expect(cudaGetLastError() == cudaSuccess, "the error of a failed launch is consumed");
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(stream, &graph);  // it was made invalid by that launch, or not: either way it ends
  if (graph != nullptr) cudaGraphDestroy(graph);
  (void)cudaGetLastError();
  expect(rotary.apply(q, positions_from(1), {.execution = {.stream = other}}).ok(), "the next call is as if nothing had been");

  // With an error of the caller's pending, a call that is refused leaves one pending.
  expect(cudaSetDevice(98) == cudaErrorInvalidDevice, "no such device");
  expect(!rotary.apply(elsewhere, positions_from(1)).ok(), "refused beside a pending error");
  expect(cudaGetLastError() != cudaSuccess, "an error is still pending");
  expect(cudaGetLastError() == cudaSuccess, "and no more than one");
  must(cudaDeviceSynchronize(), "pending errors");
  must(cudaStreamDestroy(stream), "cudaStreamDestroy");
  must(cudaStreamDestroy(other), "cudaStreamDestroy");
  std::printf("     4 errors that are pending, or not\n");
}

/// Tensors on two devices, and a stream of another device than the memory's: refused, and nothing is written.
void two_devices() {
  int count = 0;
  must(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  if (count < 2) return not_run("two devices");
  const Rotary rotary = *Rotary::make({.head_dim = 8});
  const Extents shape = {1, 1, 1, 8};
  std::vector<std::vector<std::byte>> ones(1, std::vector<std::byte>(32, std::byte{0x3f}));
  const OnDevice first(ones);
  must(cudaSetDevice(1), "the second device");
  const OnDevice second(ones);
  cudaStream_t of_second = nullptr;
  must(cudaStreamCreate(&of_second), "a stream of the second device");
  must(cudaSetDevice(0), "the first device");
  const TensorView q = {first.memory[0], DType::f32, shape, contiguous_strides(shape), kGpu};
  const TensorView k = {second.memory[0], DType::f32, shape, contiguous_strides(shape), {DeviceKind::cuda, 1}};
  const auto untouched = [&] { return first.read(0, 32) == ones[0] && second.read(0, 32) == ones[0]; };
  expect(rotary.apply(q, k, positions_from(1)).message() == "apply_rotary: k is on cuda:1, wanted cuda:0, where the call's first tensor is",
         "tensors on two devices");
  const Status foreign = rotary.apply(q, positions_from(1), {.execution = {.stream = of_second}});
  expect(foreign.message().find("apply_rotary: CUDA says cudaError") == 0, "a stream of another device says '" + foreign.message() + "'");
  expect(cudaGetLastError() == cudaSuccess, "its error is consumed");
  must(cudaDeviceSynchronize(), "two devices");
  expect(untouched(), "refused calls write nothing");
  // The second device's memory while the first is current: the bits of the CPU, and the first is current still.
  expect(rotary.apply(k, positions_from(1), {.execution = {.stream = of_second}}).ok(), "a call on the second device");
  must(cudaStreamSynchronize(of_second), "the second device");
  const TensorView host = {ones[0].data(), DType::f32, shape, contiguous_strides(shape), {}};
  expect(rotary.apply(host, positions_from(1)).ok() && second.read(0, 32) == ones[0], "the second device has other bits");
  int current = -1;
  expect(cudaGetDevice(&current) == cudaSuccess && current == 0, "the device that was current is so again");
  must(cudaStreamDestroy(of_second), "cudaStreamDestroy");
  std::printf("     3 calls of two devices\n");
}

/// A kernel of this program, which is built for the devices that the library is built for.
__global__ void of_this_build() {}

/// Whether the current device can run what this program was built for.
bool has_code() {
  cudaFuncAttributes attributes = {};
  const cudaError_t error = cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(&of_this_build));
  (void)cudaGetLastError();
  return error == cudaSuccess;
}

/// A device that the build has no code for: refused in words, and nothing is written. On an H200 a build for CUDA_ARCH=100 alone shows it.
void without_code() {
  int count = 0, without = -1;
  must(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  for (int i = 0; i < count && without < 0; ++i) {
    must(cudaSetDevice(i), "cudaSetDevice");
    if (!has_code()) without = i;
  }
  must(cudaSetDevice(std::max(without, 0)), "cudaSetDevice");
  if (without < 0) return not_run("a device without code");
  const Rotary rotary = *Rotary::make({.head_dim = 8});
  const Extents shape = {1, 1, 1, 8};
  const std::vector<std::vector<std::byte>> ones(1, std::vector<std::byte>(32, std::byte{0x3f}));
  const OnDevice device(ones);
  const TensorView q = {device.memory[0], DType::f32, shape, contiguous_strides(shape), {DeviceKind::cuda, without}};
  const Status refused = rotary.apply(q, positions_from(1));
  expect(refused.message().find("apply_rotary: CUDA says cudaErrorNoKernelImageForDevice") == 0 ||
             refused.message().find("apply_rotary: CUDA says cudaErrorUnsupportedPtxVersion") == 0,
         "a device without code says '" + refused.message() + "'");
  expect(cudaGetLastError() == cudaSuccess, "its error is consumed");
  expect(device.read(0, 32) == ones[0], "a call without code writes nothing");
  must(cudaSetDevice(0), "cudaSetDevice");
  std::printf("     1 call of a device without code\n");
}

}  // namespace
}  // namespace phasor::test

int main(int argc, char** argv) {
  using namespace phasor::test;
  const Seeds seeds = seeds_of(argc, argv, 20000);
  if (seeds.has_first()) without_code();
  if (!has_code()) {  // nothing else can be
    std::printf("gpu_rotary: %s (nothing but the refusal: the first device has no code in this build)\n", failures == 0 ? "PASS" : "FAIL");
    return failures == 0 ? 0 : 1;
  }
  compare_random_calls(seeds, random_call);
  moves({seeds.calls / 4, seeds.first});
  if (seeds.has_first()) {
    long_moves();
    moves_in_a_graph();
    sizes();
    graph();
    wrong_specs();
    bad_input();
    pending_errors();
    two_devices();
  }
  // The last line is what the table of tools/gpu_test.sh shows.
  std::printf("gpu_rotary: %s%s\n", failures == 0 ? "PASS" : "FAIL", words_of_not_run().c_str());
  return failures == 0 ? 0 : 1;
}
