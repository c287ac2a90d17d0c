// SPDX-License-Identifier: Apache-2.0
// The step before attention for Python: what phasor/_prepare.py is made of. Caches come as addresses with shapes and strides by axis, since
// they may have more axes, and dtypes, than DLPack's arrays here.
#include "phasor/prepare.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <vector>

#include "arrays/arguments.hpp"
#include "bindings.hpp"
#include "threads/threads.hpp"

namespace phasor::python {

namespace {

/// An array that may be None, as a view.
class OptionalTensor {
 public:
  OptionalTensor(nb::handle object, const char* name) {
    if (object.is_none()) return;
    array_ = array_of(object, name, Access::read);
    view_ = tensor_of(*array_, name);
  }
  const TensorView& get() const { return view_; }
  Place place() const { return array_ ? array_->place : Place{}; }

 private:
  std::optional<Array> array_;
  TensorView view_{};
};

/// A list of integers that may be None.
class OptionalIntegers {
 public:
  OptionalIntegers(nb::handle object, const char* name) {
    if (object.is_none()) return;
    array_ = array_of(object, name, Access::read);
    const bool narrow = array_->dtype == nb::dtype<std::int32_t>();
    if (array_->ndim != 1 || (!narrow && array_->dtype != nb::dtype<std::int64_t>()) || (array_->strides[0] != 1 && array_->shape[0] > 1)) {
      raise(PyExc_TypeError, std::string(name) + ": wanted a contiguous list of int32 or int64");
    }
    list_ = {array_->data, narrow ? PositionType::i32 : PositionType::i64, array_->shape[0], array_->place.device};
  }
  const IntegerList& get() const { return list_; }

 private:
  std::optional<Array> array_;
  IntegerList list_{};
};

using Numbers = std::vector<std::int64_t>;

template <std::size_t count>
void copy_numbers(const Numbers& from, std::array<std::int64_t, count>& to) {
  for (std::size_t i = 0; i < count; ++i) to[i] = from.at(i);
}

/// address, storage, shape (6), strides (6), layer, first channel.
CacheView cache_of(const Numbers& numbers) {
  CacheView cache;
  cache.data = reinterpret_cast<void*>(numbers.at(0));  // NOLINT(performance-no-int-to-ptr)
  cache.storage = static_cast<Storage>(numbers.at(1));
  copy_numbers(Numbers(numbers.begin() + 2, numbers.begin() + 8), cache.shape);
  copy_numbers(Numbers(numbers.begin() + 8, numbers.begin() + 14), cache.strides);
  cache.layer = numbers.at(14);
  cache.first_channel = numbers.at(15);
  return cache;
}

/// kind, use, encoding, address, strides (4), group.
void read_scales(const Numbers& numbers, double value, double least, CacheScales& scales) {
  scales.kind = static_cast<CacheScales::Kind>(numbers.at(0));
  scales.use = static_cast<CacheScales::Use>(numbers.at(1));
  scales.encoding = static_cast<CacheScales::Encoding>(numbers.at(2));
  scales.data = reinterpret_cast<void*>(numbers.at(3));  // NOLINT(performance-no-int-to-ptr)
  copy_numbers(Numbers(numbers.begin() + 4, numbers.begin() + 8), scales.strides);
  scales.group = numbers.at(8);
  scales.value = static_cast<float>(value);
  scales.least = static_cast<float>(least);
}

/// Parts of a cache: (numbers, scales or None) each; scales are (numbers, value, least).
CacheParts parts_of(nb::list list) {
  CacheParts parts;
  for (nb::handle entry : list) {
    const auto part = nb::cast<nb::tuple>(entry);
    if (parts.count == 2) raise(PyExc_ValueError, "prepare_attention: a cache has more than two parts");
    CacheView& view = parts.parts[static_cast<std::size_t>(parts.count++)];
    view = cache_of(nb::cast<Numbers>(part[0]));
    if (part[1].is_none()) continue;
    const auto scales = nb::cast<nb::tuple>(part[1]);
    read_scales(nb::cast<Numbers>(scales[0]), nb::cast<double>(scales[1]), nb::cast<double>(scales[2]), view.scales);
  }
  return parts;
}

/// (kind, over, weight_as, cast, width), epsilon, weight (heads or 1, width) or None.
class NormArgument {
 public:
  explicit NormArgument(nb::handle object) {
    if (object.is_none()) return;
    const auto entries = nb::cast<nb::tuple>(object);
    const auto numbers = nb::cast<Numbers>(entries[0]);
    norm_.kind = static_cast<HeadNorm::Kind>(numbers.at(0));
    norm_.over = static_cast<HeadNorm::Over>(numbers.at(1));
    norm_.weight_as = static_cast<HeadNorm::Weight>(numbers.at(2));
    norm_.cast = static_cast<HeadNorm::Cast>(numbers.at(3));
    norm_.width = numbers.at(4);
    norm_.epsilon = static_cast<float>(nb::cast<double>(entries[1]));
    if (entries[2].is_none()) return;
    weight_ = array_of(entries[2], "weight", Access::read);
    const TensorView view = tensor_of(*weight_, "weight");  // (1, heads, 1, width)
    norm_.weight =
        ConstTensorView(view.data, view.dtype, {1, 1, view.shape[1], view.shape[3]}, {0, 0, view.strides[1], view.strides[3]}, view.device);
  }
  const HeadNorm& get() const { return norm_; }

 private:
  std::optional<Array> weight_;
  HeadNorm norm_{};
};

/// What a call reads, by name.
struct Arguments {
  nb::dict given;
  nb::object operator[](const char* name) const { return nb::borrow(given[name]); }
};

void prepare(nb::dict given) {
  const Arguments a{std::move(given)};
  const OptionalTensor q(a["q"], "q");
  const OptionalTensor k(a["k"], "k");
  const OptionalTensor v(a["v"], "v");
  const OptionalTensor factors(a["query_factors"], "query_factors");
  const PositionsArgument positions(a["positions"]);
  const OptionalIntegers spec_of(a["spec_of"], "spec_of");
  const OptionalIntegers starts(a["starts"], "starts");
  const OptionalIntegers slots(a["slots"], "slots");
  const OptionalIntegers indptr(a["kv_indptr"], "kv_indptr");
  const OptionalIntegers indices(a["kv_indices"], "kv_indices");
  const OptionalIntegers requests(a["requests"], "requests");
  const OptionalIntegers places(a["places"], "places");
  const NormArgument norms[] = {NormArgument(a["q_norm"]), NormArgument(a["k_norm"]), NormArgument(a["v_norm"])};
  std::vector<Rotary> rotaries;
  for (nb::handle rotary : nb::cast<nb::list>(a["rotaries"])) rotaries.push_back(nb::cast<Rotary&>(rotary));
  const PrepareInputs inputs = {q.get(), k.get(), v.get(), factors.get()};
  PrepareOutputs outputs = {
      parts_of(nb::cast<nb::list>(a["q_out"])), parts_of(nb::cast<nb::list>(a["k_cache"])), parts_of(nb::cast<nb::list>(a["v_cache"])), {}};
  outputs.places = {static_cast<TokenPlaces::Kind>(nb::cast<int>(a["place_kind"])),
                    starts.get(),
                    slots.get(),
                    indptr.get(),
                    indices.get(),
                    requests.get(),
                    places.get(),
                    nb::cast<std::int64_t>(a["pages_per_request"])};
  PrepareSpec spec;
  spec.q_norm = norms[0].get();
  spec.k_norm = norms[1].get();
  spec.v_norm = norms[2].get();
  spec.order = static_cast<PrepareSpec::Order>(nb::cast<int>(a["order"]));
  spec.between = static_cast<PrepareSpec::Between>(nb::cast<int>(a["between"]));
  spec.query_scale = static_cast<float>(nb::cast<double>(a["query_scale"]));
  spec.q_rotary_offset = nb::cast<std::optional<std::int64_t>>(a["q_rotary_offset"]);
  const PrepareRotation rotation = {rotaries, positions.get(), spec_of.get()};
  run_unlocked(common_place({q.place(), k.place(), v.place(), positions.place()}),
               elements_of(q.get()) + elements_of(k.get()) + elements_of(v.get()),
               [&](const Execution& execution) { return prepare_attention(inputs, rotation, outputs, spec, execution); });
}

}  // namespace

void bind_prepare(nb::module_& m) {
  m.def("prepare_attention", &prepare, nb::arg("call"),
        "Makes heads ready for attention; every argument by name, as phasor/_prepare.py has them.");
}

}  // namespace phasor::python
