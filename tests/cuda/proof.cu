// SPDX-License-Identifier: Apache-2.0
// The CUDA proof: src/math on a GPU gives the bits that the library's CPU kernels give. Prints what it compared; exits non-zero on a
// difference or a CUDA error. `cuda_proof --host` runs the kernel's body on the host instead, for machines without a GPU.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cpu/hash_job.hpp"
#include "cuda/cases.hpp"
#include "cuda/plain_rotary.hpp"
#include "golden/hash.hpp"
#include "phasor/phasor.hpp"

namespace proof {
namespace {

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::printf("FAIL: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(2);
}

void must(const phasor::Status& status) {
  if (status.ok()) return;
  std::printf("FAIL: %s\n", status.message().c_str());
  std::exit(2);
}

/// Device memory with a copy of the host's; plain host memory under --host.
class Memory {
 public:
  Memory(bool device, const void* from, std::size_t bytes) : device_(device), bytes_(bytes) {
    if (!device_) {
      data_ = std::malloc(bytes + 1);
      if (bytes != 0) std::memcpy(data_, from, bytes);
      return;
    }
    check(cudaMalloc(&data_, bytes + 1), "cudaMalloc");
    check(cudaMemcpy(data_, from, bytes, cudaMemcpyHostToDevice), "copy to the device");
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { device_ ? static_cast<void>(cudaFree(data_)) : std::free(data_); }

  template <class T = std::byte>
  T* as() const {
    return static_cast<T*>(data_);
  }
  void read(void* to) const {
    if (device_) return check(cudaMemcpy(to, data_, bytes_, cudaMemcpyDeviceToHost), "copy from the device");
    std::memcpy(to, data_, bytes_);
  }

 private:
  bool device_;
  std::size_t bytes_;
  void* data_ = nullptr;
};

template <class T>
Memory memory_of(bool device, const std::vector<T>& v) {
  return {device, v.data(), v.size() * sizeof(T)};
}

// ---- Rotations ----

template <DType dtype>
__global__ void rotate_kernel(const __grid_constant__ RotateJob job, int operand) {
  const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (thread < threads_of(job, operand)) rotate_thread<dtype>(job, operand, thread);
}

constexpr int kBlock = 256;
unsigned blocks_for(std::int64_t threads) { return static_cast<unsigned>((threads + kBlock - 1) / kBlock); }

template <DType dtype>
void rotate_as(bool device, const RotateJob& job, cudaStream_t stream) {
  for (int o = 0; o < job.operand_count; ++o) {
    const std::int64_t threads = threads_of(job, o);
    if (device) {
      rotate_kernel<dtype><<<blocks_for(threads), kBlock, 0, stream>>>(job, o);
      check(cudaGetLastError(), "launch");
    } else {
      for (std::int64_t i = 0; i < threads; ++i) rotate_thread<dtype>(job, o, i);
    }
  }
}

void rotate(bool device, const RotateJob& job, cudaStream_t stream = nullptr) {
  switch (job.dtype) {
    case DType::f32:
      return rotate_as<DType::f32>(device, job, stream);
    case DType::f64:
      return rotate_as<DType::f64>(device, job, stream);
    case DType::f16:
      return rotate_as<DType::f16>(device, job, stream);
    case DType::bf16:
      return rotate_as<DType::bf16>(device, job, stream);
  }
}

/// q or k inside the packed tensor.
phasor::TensorView packed_view(const Case& c, std::uint8_t* data, std::int64_t first_head, std::int64_t heads) {
  const std::int64_t d = c.spec.head_dim;
  const std::int64_t row = c.packed_heads() * d;
  return {data + first_head * d * phasor::bytes_of(c.dtype), c.dtype, {c.batch, c.tokens, heads, d}, {c.tokens * row, row, d, 1}};
}

/// One call of Rotary::apply: the same data goes to the library and to the kernel.
struct Call {
  const phasor::RotarySpec& spec;
  phasor::Direction direction;
  phasor::Positions positions;
  std::vector<phasor::InOut> operands;  // q, or q and k, inside `in` and `out`
};

/// The public function, on the active CPU target.
void rotate_by_library(const Call& call) {
  const phasor::Result<phasor::Rotary> rope = phasor::Rotary::make(call.spec);
  must(rope.status());
  const phasor::ApplyOptions options = {.direction = call.direction};
  const std::vector<phasor::InOut>& x = call.operands;
  must(x.size() == 1 ? rope->apply(x[0], call.positions, options) : rope->apply(x[0], x[1], call.positions, options));
}

std::size_t bytes_of(const phasor::Positions& p) {
  if (p.data == nullptr) return 0;
  return static_cast<std::size_t>(p.shape[1] * p.shape[2]) * (p.type == phasor::PositionType::i32 ? 4 : 8);
}

/// The library's own job, its pointers moved to the kernel's memory.
template <class Byte>
void rotate_by_kernel(bool device, const Call& call, const std::vector<Byte>& in, std::vector<Byte>& out) {
  const phasor::Result<phasor::plan::RotaryPlan> plan = phasor::plan::make_rotary_plan(call.spec);
  must(plan.status());
  const phasor::job::RotateOperands operands = {"proof", &call.operands[0], call.operands.size() == 1 ? nullptr : &call.operands[1]};
  phasor::Result<RotateJob> job = phasor::job::make_rotate_job(operands, *plan, call.positions, call.direction);
  must(job.status());
  const Memory from = memory_of(device, in);
  const Memory to = memory_of(device, out);
  const Memory steps = memory_of(device, plan->steps);
  const Memory positions(device, call.positions.data, bytes_of(call.positions));
  for (int o = 0; o < job->operand_count; ++o) {
    job->operands[o].in = from.as<>() + (job->operands[o].in - reinterpret_cast<const std::byte*>(in.data()));
    job->operands[o].out = to.as<>() + (job->operands[o].out - reinterpret_cast<const std::byte*>(out.data()));
  }
  job->rows.steps = steps.as<math::Step>();
  if (call.positions.data != nullptr) job->rows.positions.data = positions.as<>();
  rotate(device, *job);
  to.read(out.data());
}

bool report(const char* what, std::size_t differ, std::size_t of) {
  std::printf("%s: %s: %zu of %zu differ\n", differ == 0 ? "pass" : "FAIL", what, differ, of);
  return differ == 0;
}

/// Every spec, dtype, pairing, direction and kind of position, inside a packed tensor.
bool prove_rotations(bool device) {
  std::mt19937_64 random(2026);
  std::size_t differ = 0;
  const std::vector<Case> all = cases();
  for (const Case& c : all) {
    std::vector<std::uint8_t> in = make_input(c, random);
    const PositionData p = make_positions(c.positions, random);
    std::vector<std::uint8_t> expected(in.size(), 0x5a);
    std::vector<std::uint8_t> got = expected;
    const auto call_of = [&](std::vector<std::uint8_t>& out) {
      Call call = {c.spec, c.direction, p.view(), {}};
      call.operands.emplace_back(packed_view(c, in.data(), 0, c.query_heads), packed_view(c, out.data(), 0, c.query_heads));
      call.operands.emplace_back(packed_view(c, in.data(), c.query_heads, c.key_heads),
                                 packed_view(c, out.data(), c.query_heads, c.key_heads));
      return call;
    };
    rotate_by_library(call_of(expected));
    rotate_by_kernel(device, call_of(got), in, got);
    if (expected == got) continue;
    ++differ;
    if (differ <= 8)
      std::printf("  %s %s, direction %d, positions %d\n", c.name.c_str(), name_of(c.dtype), int(c.direction), int(c.positions));
  }
  return report("rotations, byte for byte", differ, all.size());
}

/// The hash that every target gives, by the kernel.
bool prove_hash(bool device) {
  namespace hash = phasor::hash;
  std::uint64_t got = 0;
  bool nan = false;
  for (const hash::Case& c : hash::cases()) {
    const std::vector<std::byte> in = hash::input_of(c);
    std::vector<std::byte> out(in.size());
    const phasor::Extents shape = hash::shape_of(c);
    const phasor::Extents strides = phasor::contiguous_strides(shape);
    const std::vector<std::int64_t> whole = hash::positions_of(c);
    const std::vector<double> fractions = hash::fractions_of(c);
    Call call = {c.spec, c.direction, phasor::positions(whole.data(), hash::kTokens), {}};
    if (c.positions == hash::PositionKind::fractional) call.positions = phasor::positions(fractions.data(), hash::kTokens);
    call.operands.emplace_back(phasor::ConstTensorView(in.data(), c.dtype, shape, strides),
                               phasor::TensorView{out.data(), c.dtype, shape, strides});
    rotate_by_kernel(device, call, in, out);
    got = hash::hash_of(c, out.data(), got, nan);
  }
  const bool ok = got == phasor::golden::kRotationHash && !nan;
  std::printf("%s: hash %016llx, wanted %016llx\n", ok ? "pass" : "FAIL", static_cast<unsigned long long>(got),
              static_cast<unsigned long long>(phasor::golden::kRotationHash));
  return ok;
}

// ---- Tables ----

template <class T, class Position>
PHASOR_HD inline void table_thread(const RowSource& rows, std::int64_t pairs, const Position* positions, math::Pair<T>* to,
                                   std::int64_t i) {
  to[i] = row_value<T>(rows, i % pairs, positions[i / pairs]);
}
template <class T, class Position>
__global__ void table_kernel(const __grid_constant__ RowSource rows, std::int64_t pairs, const Position* positions, math::Pair<T>* to,
                             std::int64_t n) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) table_thread(rows, pairs, positions, to, i);
}

template <class T, class Position>
std::vector<math::Pair<T>> table_by_kernel(bool device, const phasor::RotarySpec& spec, const std::vector<Position>& positions) {
  const phasor::Result<phasor::plan::RotaryPlan> plan = phasor::plan::make_rotary_plan(spec);
  must(plan.status());
  const std::int64_t pairs = static_cast<std::int64_t>(plan->steps.size());
  std::vector<math::Pair<T>> table(plan->steps.size() * positions.size());
  const std::int64_t n = static_cast<std::int64_t>(table.size());
  const Memory steps = memory_of(device, plan->steps);
  const Memory at = memory_of(device, positions);
  const Memory to = memory_of(device, table);
  RowSource rows;
  rows.steps = steps.as<math::Step>();
  rows.turning_pairs = plan->turning_pairs;
  rows.amplitude = plan->amplitude;
  if (device) {
    table_kernel<T><<<blocks_for(n), kBlock>>>(rows, pairs, at.as<Position>(), to.as<math::Pair<T>>(), n);
    check(cudaGetLastError(), "launch");
  } else {
    for (std::int64_t i = 0; i < n; ++i) table_thread(rows, pairs, at.as<Position>(), to.as<math::Pair<T>>(), i);
  }
  to.read(table.data());
  return table;
}

template <class T, class Position>
bool prove_table(bool device, const char* what, const phasor::RotarySpec& spec, const std::vector<Position>& positions) {
  const phasor::Result<phasor::Rotary> rope = phasor::Rotary::make(spec);
  must(rope.status());
  const std::int64_t tokens = static_cast<std::int64_t>(positions.size());
  const std::int64_t pairs = rope->rotary_width() / 2;
  std::vector<T> cos(positions.size() * static_cast<std::size_t>(pairs));
  std::vector<T> sin(cos.size());
  must(rope->cos_sin(phasor::positions(positions.data(), tokens), phasor::view(cos.data(), {1, tokens, 1, pairs}),
                     phasor::view(sin.data(), {1, tokens, 1, pairs})));
  const std::vector<math::Pair<T>> table = table_by_kernel<T>(device, spec, positions);
  std::size_t differ = 0;
  for (std::size_t i = 0; i < table.size(); ++i) {
    differ += std::memcmp(&table[i].x, &cos[i], sizeof(T)) != 0 || std::memcmp(&table[i].y, &sin[i], sizeof(T)) != 0 ? 1 : 0;
  }
  return report(what, differ, table.size());
}

bool prove_tables(bool device) {
  std::mt19937_64 random(5);
  std::vector<std::int64_t> integers(40000);
  for (std::int64_t& m : integers) m = static_cast<std::int64_t>(random()) >> (random() % 63);
  std::vector<double> fractions(20000);
  for (double& x : fractions)
    x = static_cast<double>(static_cast<std::int64_t>(random())) * std::ldexp(1.0, -static_cast<int>(random() % 100) - 1);
  const phasor::RotarySpec plain = {.head_dim = 128};
  const phasor::RotarySpec yarn = {.head_dim = 128, .base = 1e6, .scaling = phasor::YarnScaling{.factor = 4, .original_length = 32768}};
  bool ok = prove_table<float>(device, "float32 table, integer positions", plain, integers);
  ok &= prove_table<float>(device, "float32 table, amplitude", yarn, integers);
  ok &= prove_table<float>(device, "float32 table, fractional positions", yarn, fractions);
  ok &= prove_table<double>(device, "float64 table, integer positions", plain, integers);
  ok &= prove_table<double>(device, "float64 table, fractional positions, amplitude", yarn, fractions);
  return ok;
}

// ---- Time, for the record: nothing here is tuned ----

__global__ void copy_kernel(const uint4* from, uint4* to, std::int64_t n) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) to[i] = from[i];
}

template <class Launch>
double median_microseconds(const Launch& launch) {
  cudaEvent_t begin{};
  cudaEvent_t end{};
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  std::vector<float> times;
  for (int i = 0; i < 23; ++i) {
    check(cudaEventRecord(begin), "event");
    launch();
    check(cudaEventRecord(end), "event");
    check(cudaEventSynchronize(end), "timing");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin, end), "timing");
    if (i >= 3) times.push_back(milliseconds);
  }
  std::sort(times.begin(), times.end());
  return 1e3 * times[times.size() / 2];
}

void print_time(const char* what, double microseconds, double bytes) {
  std::printf("time: %s: %.1f us, %.0f GB/s\n", what, microseconds, bytes / microseconds * 1e-3);
}

void time_plain_kernel() {
  const std::int64_t tokens = 16384;
  const std::int64_t heads[2] = {32, 8};
  const phasor::RotarySpec spec = {.head_dim = 128, .base = 500000, .scaling = phasor::Llama3Scaling{.factor = 8}};
  const phasor::Result<phasor::plan::RotaryPlan> plan = phasor::plan::make_rotary_plan(spec);
  must(plan.status());
  const std::size_t bytes = static_cast<std::size_t>(tokens * (heads[0] + heads[1]) * 128 * 2);
  std::vector<std::uint16_t> data(bytes / 2, 0x3f00);
  const Memory in = memory_of(true, data);
  const Memory out = memory_of(true, data);
  const Memory steps = memory_of(true, plan->steps);
  std::vector<std::uint16_t> unused(data.size());
  const auto view_of = [&](std::vector<std::uint16_t>& v, int o) {
    auto* first = reinterpret_cast<phasor::BFloat16*>(v.data()) + (o == 0 ? 0 : tokens * heads[0] * 128);
    return phasor::view(first, {1, tokens, heads[o], 128});
  };
  const phasor::InOut q(view_of(data, 0), view_of(unused, 0));
  const phasor::InOut k(view_of(data, 1), view_of(unused, 1));
  phasor::Result<RotateJob> job =
      phasor::job::make_rotate_job({"proof", &q, &k}, *plan, phasor::positions_from(1000000), phasor::Direction::forward);
  must(job.status());
  job->rows.steps = steps.as<math::Step>();
  for (int o = 0; o < 2; ++o) {
    const std::int64_t skip = o == 0 ? 0 : tokens * heads[0] * 128 * 2;
    job->operands[o].in = in.as<>() + skip;
    job->operands[o].out = out.as<>() + skip;
  }
  const std::int64_t vectors = static_cast<std::int64_t>(bytes / sizeof(uint4));
  const double copy = median_microseconds([&] { copy_kernel<<<blocks_for(vectors), kBlock>>>(in.as<uint4>(), out.as<uint4>(), vectors); });
  const double plain = median_microseconds([&] { rotate(true, *job); });
  print_time("copy, 32 + 8 heads of 128 bf16, 16384 tokens", copy, 2.0 * static_cast<double>(bytes));
  print_time("plain kernel, the same", plain, 2.0 * static_cast<double>(bytes));
}

int run(bool device) {
  if (device) {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, 0), "no device");
    std::printf("device: %s, compute capability %d.%d\n", properties.name, properties.major, properties.minor);
  } else {
    std::printf("device: none, the kernel's body on the host\n");
  }
  const phasor::Result<std::string_view> target = phasor::active_target();
  must(target.status());
  std::printf("against the CPU target %.*s\n", static_cast<int>(target->size()), target->data());
  bool ok = prove_hash(device);
  ok &= prove_rotations(device);
  ok &= prove_tables(device);
  if (device) time_plain_kernel();
  std::printf("%s\n", ok ? "PASS: same bits" : "FAIL: bits differ");
  return ok ? 0 : 1;
}

}  // namespace
}  // namespace proof

int main(int count, char** arguments) { return proof::run(count < 2 || std::strcmp(arguments[1], "--host") != 0); }
