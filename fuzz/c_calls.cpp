// SPDX-License-Identifier: Apache-2.0
// Fuzzing the C API with malformed descriptors: structs of any size and version, tensors of any shape, dtype and device, lists that are not
// there. Whatever comes, a call answers; one that fails has a message and has written nothing; memory behind a struct is never read.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <vector>

#include "../tests/valid_utf8.hpp"
#include "phasor/phasor.h"

namespace {

[[noreturn]] void found(const char* what) {
  std::fprintf(stderr, "c_calls: %s\n", what);
  std::abort();
}

/// The input, read from its front; zeros behind its end.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  std::uint8_t byte() { return size_ == 0 ? 0 : (--size_, *data_++); }
  bool one_in(int n) { return byte() % n == 0; }
  std::int32_t choice(int most) { return byte() % (most + 1) - (one_in(16) ? 1 : 0); }  // now and then -1, or one that there is not
  /// Small as a rule, any number now and then.
  std::int64_t number() {
    const std::uint8_t first = byte();
    if (first < 224) return first % 17;
    std::int64_t value = 0;
    for (int i = 0; i < 8; ++i) value = static_cast<std::int64_t>(static_cast<std::uint64_t>(value) << 8 | byte());
    return value;
  }
  double real() {
    const std::uint8_t first = byte();
    if (first < 200) return first / 8.0;
    const std::int64_t bits = number();
    double value = 0;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
};

/// Memory of one input: blocks of exactly the bytes that were asked for, so that a sanitizer sees the first byte too many.
class Memory {
 public:
  ~Memory() {
    for (void* block : blocks_) std::free(block);
  }
  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  template <class T>
  T* block(std::size_t count) {
    blocks_.push_back(std::calloc(count > 0 ? count : 1, sizeof(T)));
    return static_cast<T*>(blocks_.back());
  }

 private:
  std::vector<void*> blocks_;
};

constexpr std::int64_t kBytes = 2048;  // of every tensor's memory

class Maker {
 public:
  Maker(const std::uint8_t* data, std::size_t size) : in(data, size) {}

  /// The struct in a block of its own size, which may be another version's, or none at all.
  template <class T>
  const T* sized(T value) {
    if (in.one_in(24)) return nullptr;
    std::size_t size = sizeof(T);
    if (in.one_in(8)) size = static_cast<std::size_t>(in.byte()) * 2;
    const std::size_t room = std::max(size, sizeof(std::size_t));
    auto* block = memory.block<std::uint8_t>(room);
    std::memcpy(block, &value, std::min(room, sizeof(T)));
    if (room > sizeof(T) && in.one_in(2)) block[room - 1] = in.byte();
    std::memcpy(block, &size, sizeof size);
    return reinterpret_cast<const T*>(block);
  }

  const double* reals(std::size_t& count) {
    count = in.one_in(3) ? static_cast<std::size_t>(in.byte() % 20) : 0;
    if (in.one_in(12)) return nullptr;
    auto* list = memory.block<double>(count);
    for (std::size_t i = 0; i < count; ++i) list[i] = in.real();
    return count == 0 ? nullptr : list;
  }

  /// A descriptor; its memory holds what it describes, or there is none.
  const phasor_tensor* tensor(bool integers = false) {
    if (in.one_in(12)) return nullptr;
    phasor_tensor& t = tensors.emplace_back();
    t = {};
    t.ndim = in.one_in(16) ? in.number() % 9 - 2 : in.byte() % 4 + 1;
    const auto axes = static_cast<std::size_t>(std::max(t.ndim, 0));
    t.dtype = dtype(integers);
    t.device.device_type = in.one_in(16) ? in.byte() : in.choice(1);
    if (in.one_in(20)) return &t;  // without a shape
    t.shape = memory.block<std::int64_t>(axes);
    for (std::size_t i = 0; i < axes; ++i) t.shape[i] = in.one_in(24) ? in.number() : in.byte() % 9;
    if (in.one_in(4)) {
      t.strides = memory.block<std::int64_t>(axes);
      for (std::size_t i = 0; i < axes; ++i) t.strides[i] = in.one_in(16) ? in.number() : in.byte() % 40;
      if (axes > 0 && !in.one_in(4)) t.strides[axes - 1] = 1;
    }
    if (in.one_in(12)) t.byte_offset = static_cast<std::uint64_t>(in.byte() % 64) * 8;
    if (fits(t)) {
      auto* data = memory.block<std::uint8_t>(kBytes);
      for (std::int64_t i = 0; i < kBytes; ++i) data[i] = static_cast<std::uint8_t>(i * 7 + 1) & (integers ? 3U : 0x3bU);
      t.data = data;
      watched.push_back(data);
    }
    return &t;
  }
  phasor_positions positions() {
    if (in.one_in(2)) return {nullptr, in.number()};
    return {tensor(true), in.one_in(16) ? 1 : 0};
  }

  Input in;
  Memory memory;
  std::deque<phasor_tensor> tensors;
  std::vector<const std::uint8_t*> watched;

 private:
  phasor_dtype dtype(bool integers) {
    if (in.one_in(24)) return {in.byte(), in.byte(), in.byte()};
    if (integers) return {0, static_cast<std::uint8_t>(in.one_in(2) ? 32 : 64), 1};
    constexpr phasor_dtype kFloats[] = {{2, 32, 1}, {2, 64, 1}, {2, 16, 1}, {4, 16, 1}};
    return kFloats[in.one_in(4) ? in.byte() % 4 : 0];
  }
  static bool fits(const phasor_tensor& t) {
    double last = 0;
    double dense = 1;
    for (int i = t.ndim - 1; i >= 0; --i) {
      if (t.shape[i] < 0) return false;
      if (t.shape[i] == 0) return true;
      const double stride = t.strides == nullptr ? dense : static_cast<double>(t.strides[i]);
      if (stride < 0) return false;
      last += static_cast<double>(t.shape[i] - 1) * stride;
      dense *= static_cast<double>(t.shape[i]);
      if (last > kBytes || dense > kBytes) return false;
    }
    return (last + 1) * 8 + static_cast<double>(t.byte_offset) <= kBytes;  // no element is longer
  }
};

/// Runs a call and holds it to its word.
template <class Call>
phasor_status checked(const Maker& make, const Call& call) {
  std::vector<std::vector<std::uint8_t>> before;
  before.reserve(make.watched.size());
  for (const std::uint8_t* data : make.watched) before.emplace_back(data, data + kBytes);
  phasor_error error = {};
  const phasor_status status = call(&error);
  if (status < PHASOR_OK || status > PHASOR_TOO_SMALL) found("a status that there is not");
  if (status == PHASOR_OK) return status;
  if (error.status != status || error.message[0] == '\0') found("an error without a message");
  if (!phasor::test::is_message(error.message)) found("a message that is no UTF-8");
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (std::memcmp(before[i].data(), make.watched[i], kBytes) != 0) found("a call that failed has written");
  }
  return status;
}

phasor_rotary* rotary_of(Maker& make) {
  Input& in = make.in;
  phasor_scaling scaling = {};
  scaling.kind = in.choice(11);
  for (double* field : {&scaling.factor, &scaling.alpha, &scaling.attention_factor, &scaling.mscale, &scaling.beta_fast, &scaling.share,
                        &scaling.low_freq_factor, &scaling.high_freq_factor, &scaling.amplitude, &scaling.mixed_exponent}) {
    if (in.one_in(6)) *field = in.real();
  }
  for (std::int32_t* flag : {&scaling.has_attention_factor, &scaling.has_mscale, &scaling.has_share, &scaling.ramp, &scaling.choice}) {
    if (in.one_in(8)) *flag = in.choice(2);
  }
  for (std::int64_t* field : {&scaling.original_length, &scaling.trained_length, &scaling.length, &scaling.axes, &scaling.heads}) {
    if (in.one_in(4)) *field = in.number();
  }
  scaling.values = make.reals(scaling.value_count);
  scaling.short_factors = make.reals(scaling.short_factor_count);
  phasor_rotary_spec spec = {};
  spec.head_dim = in.one_in(8) ? in.number() : 8;
  if (in.one_in(4)) spec.rotary_width = in.number();
  if (in.one_in(8)) spec.base = in.real();
  for (std::int32_t* field : {&spec.pairing, &spec.output_pairing, &spec.has_output_pairing, &spec.sense, &spec.lanes, &spec.numerics}) {
    if (in.one_in(6)) *field = in.choice(5);
  }
  spec.scaling = in.one_in(2) ? make.sized(scaling) : nullptr;
  const phasor_rotary_spec* given = make.sized(spec);
  phasor_rotary* rotary = nullptr;
  if (checked(make, [&](phasor_error* error) { return phasor_rotary_make(given, &rotary, error); }) != PHASOR_OK && rotary != nullptr) {
    found("a handle of a call that failed");
  }
  return rotary;
}

void rotate(Maker& make, const phasor_rotary* rotary) {
  phasor_rotation c = {};
  c.q = make.tensor();
  if (make.in.one_in(3)) c.k = make.tensor();
  if (make.in.one_in(3)) c.q_out = make.tensor();
  c.positions = make.positions();
  c.direction = make.in.choice(2);
  const phasor_rotation* rotation = make.sized(c);
  checked(make, [&](phasor_error* error) { return phasor_rotary_apply(rotary, rotation, error); });
  phasor_rerotation moved = {};
  moved.keys = c.q;
  moved.slots = make.in.one_in(2) ? make.tensor(true) : nullptr;
  moved.from = {rotary, make.positions()};
  moved.to = {rotary, c.positions};
  const phasor_rerotation* rerotation = make.sized(moved);
  checked(make, [&](phasor_error* error) { return phasor_rerotate(rerotation, error); });
}

/// A scheme of up to two terms, and one call of it.
void attend(Maker& make) {
  Input& in = make.in;
  phasor_bias_spec bias = {};
  bias.size = sizeof bias;
  bias.kind = in.choice(9);
  bias.heads = in.byte() % 4;
  if (in.one_in(3)) bias.left = in.byte() % 8;
  bias.slopes = make.reals(bias.slope_count);
  const std::size_t count = in.byte() % 3;
  auto* terms = make.memory.block<phasor_term_scheme>(count);
  auto* tensors = make.memory.block<phasor_term_tensors>(count);
  for (std::size_t i = 0; i < count; ++i) {
    terms[i].size = in.one_in(16) ? in.byte() % sizeof(phasor_term_scheme) : sizeof(phasor_term_scheme);  // never more than there is
    terms[i].kind = in.choice(6);
    terms[i].side = in.choice(2);
    terms[i].left = in.byte() % 4;
    if (in.one_in(2)) terms[i].bias = &bias;
    tensors[i].size = sizeof(phasor_term_tensors);
    if (in.one_in(2)) tensors[i].table = make.tensor();
  }
  phasor_attention_scheme c = {};
  c.terms = count == 0 ? nullptr : terms;
  c.term_count = count;
  c.mask = in.choice(1);
  c.left = in.byte() % 4;
  c.has_left = in.choice(1);
  phasor_scheme* scheme = nullptr;
  const phasor_attention_scheme* spec = make.sized(c);
  checked(make, [&](phasor_error* error) { return phasor_scheme_make(spec, &scheme, error); });
  phasor_attention_tensors with = {};
  with.terms = count == 0 ? nullptr : tensors;
  with.term_count = count;
  if (in.one_in(4)) with.key_mask = make.tensor(true);
  if (in.one_in(4)) with.query_starts = make.tensor(true);
  phasor_attention_inputs of = {};
  of.q = make.tensor();
  of.k = make.tensor();
  of.v = in.one_in(2) ? of.k : make.tensor();
  of.tensors = in.one_in(2) ? make.sized(with) : nullptr;
  phasor_attention_outputs to = {};
  to.out = make.tensor();
  const phasor_attention_inputs* inputs = make.sized(of);
  const phasor_attention_outputs* outputs = make.sized(to);
  std::int64_t bytes = 0;
  if (checked(make, [&](phasor_error* error) { return phasor_attention_workspace(scheme, inputs, &bytes, error); }) == PHASOR_OK &&
      bytes < (1 << 24)) {
    const phasor_workspace workspace = {make.memory.block<std::uint8_t>(static_cast<std::size_t>(bytes)), static_cast<std::size_t>(bytes),
                                        nullptr, nullptr};
    checked(make, [&](phasor_error* error) { return phasor_attention(scheme, inputs, outputs, &workspace, error); });
  }
  phasor_scheme_free(scheme);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Maker make(data, size);
  phasor_rotary* rotary = rotary_of(make);
  rotate(make, rotary);
  phasor_rotary_free(rotary);
  attend(make);
  return 0;
}
