// SPDX-License-Identifier: Apache-2.0
// What a call of the step before attention is made of.
#include "prepare/call.hpp"

#include <array>
#include <string>

#include "status.hpp"

namespace phasor::python {

namespace {

constexpr const char* kScaleAxes[] = {"block", "token", "head", "group"};

[[noreturn]] void refuse(const std::string& message) { raise(PyExc_ValueError, "prepare_attention: " + message); }

/// Extents and strides by the meaning of axes; one that is not there has extent 1 and stride 0.
template <std::size_t count>
struct ByAxis {
  std::array<std::int64_t, count> shape{};
  std::array<std::int64_t, count> strides{};
};
template <std::size_t count>
ByAxis<count> read_axes(CallNumbers& numbers, const Array& array, const char* name) {
  ByAxis<count> by;
  by.shape.fill(1);
  std::array<bool, count> seen{};
  const std::int64_t axes = numbers.up_to(kMostAxes);
  if (axes != array.ndim)
    numbers.refuse(std::string(name) + " has " + std::to_string(array.ndim) + " axes and names for " + std::to_string(axes));
  for (std::int64_t i = 0; i < axes; ++i) {
    const auto axis = static_cast<std::size_t>(numbers.up_to(count - 1));
    if (seen[axis]) numbers.refuse(std::string(name) + " has two axes of one meaning, wanted each once");
    seen[axis] = true;
    by.shape[axis] = array.shape[static_cast<std::size_t>(i)];
    by.strides[axis] = array.strides[static_cast<std::size_t>(i)];
  }
  return by;
}

bool is_float32(const Array& array) { return array.dtype == nb::dtype<float>(); }
bool is_byte(const Array& array) { return array.dtype == nb::dtype<std::uint8_t>(); }

/// An array of bytes as one of elements of so many: its last axis holds their bytes. Slices of one array of bytes stay views of it to
/// whoever follows them, which views of another dtype do not (PyTorch's compiler loses what lies around those).
Array as_elements(const CallNumbers& numbers, Array array, std::int64_t bytes, const nb::dlpack::dtype& dtype, const char* name) {
  const auto last = static_cast<std::size_t>(array.ndim - 1);
  if (array.ndim == 0 || array.strides[last] != 1 || array.shape[last] % bytes != 0) {
    numbers.refuse(std::string(name) + " is of uint8, wanted a last axis whose bytes follow each other, a multiple of " +
                   std::to_string(bytes));
  }
  bool aligned = reinterpret_cast<std::uintptr_t>(array.data) % static_cast<std::uintptr_t>(bytes) == 0;
  for (std::size_t a = 0; a < last; ++a) {
    aligned = aligned && (array.shape[a] < 2 || array.strides[a] % bytes == 0);
    array.strides[a] /= bytes;
  }
  if (!aligned)
    numbers.refuse(std::string(name) + " is of uint8, wanted rows that begin at multiples of " + std::to_string(bytes) + " bytes");
  array.shape[last] /= bytes;
  array.dtype = dtype;
  return array;
}

void check_scale_extents(const CallNumbers& numbers, const CacheView& cache, const std::array<std::int64_t, 4>& shape) {
  const bool made = cache.scales.kind == CacheScales::Kind::made;
  const auto& [layers, blocks, block, heads, outer, inner] = cache.shape;
  const std::int64_t group = cache.scales.group;
  const std::int64_t groups = group > 0 ? (outer * inner + group - 1) / group : 1;
  const std::int64_t wanted[] = {made ? blocks : 1, made ? block : 1, heads, made ? groups : 1};
  for (std::size_t a = 0; a < shape.size(); ++a) {
    const bool shared = !made && a == 2;
    if (shape[a] == wanted[a] || (shared && shape[a] == 1)) continue;
    numbers.refuse(std::string(made ? "made" : "given") + " scales have " + std::to_string(shape[a]) + " on the axis '" + kScaleAxes[a] +
                   "', wanted " + (shared ? "1 or " : "") + std::to_string(wanted[a]));
  }
}

/// The array of scales, of which messages speak as "scales".
void read_scale_array(CallNumbers& numbers, CallArrays& arrays, CacheView& cache, std::int64_t index, Access access) {
  CacheScales& scales = cache.scales;
  const bool made = scales.kind == CacheScales::Kind::made;
  Array array = arrays.get(index, "scales", made ? access : Access::read);
  if (numbers.up_to(1) == 1 && is_byte(array)) array = as_elements(numbers, array, sizeof(float), nb::dtype<float>(), "scales");
  if (!is_float32(array) && !(made && is_byte(array))) {
    numbers.refuse("dtype of scales is '" + text_of_dtype(array.dtype) + "', wanted 'float32'" + (made ? " or 'uint8'" : ""));
  }
  if (array.place.device != cache.device) numbers.refuse("scales are on another device than their cache, wanted one device");
  scales.encoding = is_byte(array) ? CacheScales::Encoding::ue8m0 : CacheScales::Encoding::f32;
  scales.data = array.data;
  const ByAxis<4> by = read_axes<4>(numbers, array, "scales");
  scales.strides = by.strides;
  scales.group = numbers.integer();
  check_scale_extents(numbers, cache, by.shape);
}

void read_scales(CallNumbers& numbers, CallArrays& arrays, CacheView& cache, Access access) {
  CacheScales& scales = cache.scales;
  scales.kind = numbers.choice(CacheScales::Kind::made);
  if (scales.kind == CacheScales::Kind::none) return;
  scales.use = numbers.choice(CacheScales::Use::multiply);
  scales.value = numbers.real();
  scales.least = numbers.real();
  if (const std::int64_t index = numbers.integer(); index >= 0) read_scale_array(numbers, arrays, cache, index, access);
}

CacheParts read_parts(CallNumbers& numbers, CallArrays& arrays, const char* name) {
  CacheParts parts;
  parts.count = static_cast<int>(numbers.up_to(static_cast<std::int64_t>(parts.parts.size())));
  for (int i = 0; i < parts.count; ++i) parts.parts[static_cast<std::size_t>(i)] = read_cache(numbers, arrays, name, Access::write);
  return parts;
}

HeadNorm read_norm(CallNumbers& numbers, CallArrays& arrays) {
  HeadNorm norm;
  norm.kind = numbers.choice(HeadNorm::Kind::l2);
  if (norm.kind == HeadNorm::Kind::none) return norm;
  norm.over = numbers.choice(HeadNorm::Over::all_heads);
  norm.weight_as = numbers.choice(HeadNorm::Weight::one_plus);
  norm.cast = numbers.choice(HeadNorm::Cast::before_weight);
  norm.width = numbers.integer();
  norm.epsilon = numbers.real();
  if (const std::int64_t index = numbers.integer(); index >= 0) norm.weight = weight_of(arrays.get(index, "weight", Access::read));
  return norm;
}

}  // namespace

CacheView read_cache(CallNumbers& numbers, CallArrays& arrays, const char* name, Access access) {
  Array array = arrays.get(numbers.integer(), name, access, kMostAxes);
  CacheView cache;
  cache.data = array.data;
  cache.storage = numbers.choice(Storage::i8);
  const std::int64_t bytes = bytes_of(cache.storage);
  if (bytes > 1 && is_byte(array)) {
    array = as_elements(numbers, array, bytes, {array.dtype.code, static_cast<std::uint8_t>(8 * bytes), 1}, name);
  }
  cache.device = array.place.device;
  if (array.dtype.lanes != 1 || array.dtype.bits != 8 * bytes) {
    numbers.refuse(std::string(name) + " is of " + text_of_dtype(array.dtype) + ", wanted elements of " + std::to_string(bytes) +
                   " bytes for " + name_of(cache.storage));
  }
  const ByAxis<kCacheAxes> by = read_axes<kCacheAxes>(numbers, array, name);
  cache.shape = by.shape;
  cache.strides = by.strides;
  cache.layer = numbers.integer();
  cache.first_channel = numbers.integer();
  read_scales(numbers, arrays, cache, access);
  return cache;
}

ConstTensorView weight_of(Array array) {
  if (array.ndim != 1 && array.ndim != 2) refuse("a norm's weight has " + std::to_string(array.ndim) + " axes, wanted 1 or 2");
  if (array.ndim == 1) {
    array.shape = {1, array.shape[0]};
    array.strides = {0, array.strides[0]};
    array.ndim = 2;
  }
  const TensorView view = tensor_of(array, "weight");  // (1, heads, 1, width)
  return {view.data, view.dtype, {1, 1, view.shape[1], view.shape[3]}, {0, 0, view.strides[1], view.strides[3]}, view.device};
}

void CallNumbers::refuse(const std::string& message) const { raise(PyExc_ValueError, std::string(where_) + ": " + message); }

std::int64_t CallNumbers::integer() {
  if (at_ == integers_.size()) refuse("there are " + std::to_string(at_) + " numbers, wanted those that phasor." + where_ + " makes");
  return integers_[at_++];
}

float CallNumbers::real() {
  if (real_at_ == reals_.size()) refuse("there are " + std::to_string(real_at_) + " reals, wanted those that phasor." + where_ + " makes");
  return static_cast<float>(reals_[real_at_++]);
}

std::int64_t CallNumbers::up_to(std::int64_t last) {
  const std::int64_t value = integer();
  if (value < 0 || value > last) {
    refuse("number " + std::to_string(at_ - 1) + " is " + std::to_string(value) + ", wanted 0 to " + std::to_string(last));
  }
  return value;
}

void CallNumbers::finish() const {
  if (at_ != integers_.size() || real_at_ != reals_.size()) refuse("there are more numbers than the call has a use for");
}

const Array& CallArrays::take(nb::handle object, const char* name, Access access, int most_axes) {
  kept_.push_back(array_of(object, name, access, Sign::to_be_asked, most_axes));
  places_.push_back(kept_.back().place);
  return kept_.back();
}

const Array& CallArrays::get(std::int64_t index, const char* name, Access access, int most_axes) {
  const nb::list& list = access == Access::write ? written_ : read_;
  if (index < 0 || index >= static_cast<std::int64_t>(list.size())) {
    raise(PyExc_ValueError,
          std::string(where_) + ": " + name + " is array " + std::to_string(index) + " of " + std::to_string(list.size()));
  }
  return take(list[static_cast<std::size_t>(index)], name, access, most_axes);
}

TensorView CallArrays::heads(nb::handle object, const char* name, Access access) {
  return object.is_none() ? TensorView{} : tensor_of(take(object, name, access), name);
}

PrepareSpec read_spec(CallNumbers& numbers, CallArrays& arrays) {
  PrepareSpec spec;
  spec.order = numbers.choice(PrepareSpec::Order::rotation_first);
  spec.between = numbers.choice(PrepareSpec::Between::kept);
  if (numbers.flag()) spec.q_rotary_offset = numbers.integer();
  spec.query_scale = numbers.real();
  spec.q_norm = read_norm(numbers, arrays);
  spec.k_norm = read_norm(numbers, arrays);
  spec.v_norm = read_norm(numbers, arrays);
  return spec;
}

IntegerList read_list(CallNumbers& numbers, CallArrays& arrays, const char* name) {
  const std::int64_t index = numbers.integer();
  if (index < 0) return {};
  const Array& array = arrays.get(index, name, Access::read);
  const bool narrow = array.dtype == nb::dtype<std::int32_t>();
  if (array.ndim != 1 || (!narrow && array.dtype != nb::dtype<std::int64_t>()) || (array.strides[0] != 1 && array.shape[0] > 1)) {
    raise(PyExc_TypeError, std::string(name) + ": wanted a contiguous list of int32 or int64");
  }
  return {array.data, narrow ? PositionType::i32 : PositionType::i64, array.shape[0], array.place.device};
}

void read_tables(CallNumbers& numbers, CallArrays& arrays, PrepareRotation& rotation) {
  const std::int64_t cos = numbers.integer();
  if (cos < 0) return;
  rotation.cos = table_of(arrays.get(cos, "cos", Access::read), "cos");
  rotation.sin = table_of(arrays.get(numbers.integer(), "sin", Access::read), "sin");
  TableLayout& layout = rotation.layout;
  layout.rotary_width = numbers.integer();
  layout.rotary_offset = numbers.integer();
  layout.pairing = numbers.choice(Pairing::interleaved);
  if (numbers.flag()) layout.output_pairing = numbers.choice(Pairing::interleaved);
  layout.sense = numbers.choice(Sense::clockwise);
  layout.numerics = numbers.choice(Numerics::ggml);
  layout.segments = numbers.integer();
}

ConstTensorView read_factors(CallNumbers& numbers, CallArrays& arrays) {
  const std::int64_t index = numbers.integer();
  if (index < 0) return {};
  return factors_of(arrays.get(index, "query_factors", Access::read), "prepare_attention: query_factors");
}

PrepareOutputs read_outputs(CallNumbers& numbers, CallArrays& arrays) {
  PrepareOutputs outputs;
  outputs.places.kind = numbers.choice(TokenPlaces::Kind::pages);
  outputs.places.on_gpu = numbers.choice(TokenPlaces::OnGpu::checked);
  outputs.places.pages_per_request = numbers.integer();
  outputs.places.starts = read_list(numbers, arrays, "starts");
  outputs.places.slots = read_list(numbers, arrays, "slots");
  outputs.places.indptr = read_list(numbers, arrays, "kv_indptr");
  outputs.places.indices = read_list(numbers, arrays, "kv_indices");
  outputs.places.requests = read_list(numbers, arrays, "requests");
  outputs.places.places = read_list(numbers, arrays, "places");
  outputs.q = read_parts(numbers, arrays, "q_out");
  outputs.k = read_parts(numbers, arrays, "k_cache");
  outputs.v = read_parts(numbers, arrays, "v_cache");
  return outputs;
}

}  // namespace phasor::python
