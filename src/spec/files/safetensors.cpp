// SPDX-License-Identifier: Apache-2.0
// The header of a safetensors file: a length, then JSON that nlohmann's SAX interface reads and this file's handler judges.
#include "spec/files/safetensors.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "spec/format.hpp"

namespace phasor::spec {
namespace {

constexpr std::uint64_t longest_header = 100'000'000;  // the format's own limit
constexpr std::size_t most_axes = 64;

struct Dtype {
  std::string_view name;
  std::uint64_t bits;
};

constexpr std::array<Dtype, 22> dtypes = {
    {{"BOOL", 8},    {"F4", 4},          {"F6_E2M3", 6},     {"F6_E3M2", 6}, {"U8", 8},   {"I8", 8},   {"F8_E5M2", 8}, {"F8_E4M3", 8},
     {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16}, {"F16", 16}, {"BF16", 16},   {"I32", 32},
     {"U32", 32},    {"F32", 32},        {"C64", 64},        {"F64", 64},    {"I64", 64}, {"U64", 64}}};

/// What the JSON must be: {name: {"dtype": text, "shape": [n...], "data_offsets": [n, n]}, "__metadata__": {text: text}}.
class Handler final : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::map<std::string, SafetensorsTensor, std::less<>> tensors;

  bool null() override { wrong("null"); }
  bool boolean(bool /*value*/) override { wrong("a bool"); }
  bool number_integer(number_integer_t /*value*/) override { wrong("a negative number"); }
  bool number_float(number_float_t /*value*/, const string_t& text) override { wrong(text); }
  bool binary(binary_t& /*value*/) override { wrong("binary"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::list) wrong(std::to_string(value));
    std::vector<std::uint64_t>& list = field_ == "shape" ? tensor_.shape : offsets_;
    if (list.size() == (field_ == "shape" ? most_axes : 2)) fail(spec::format("safetensors: {} of {} is too long", field_, name_));
    list.push_back(value);
    return true;
  }
  bool string(string_t& value) override {
    if (place_ == Place::metadata) return true;
    if (place_ != Place::tensor || field_ != "dtype") wrong("\"" + value.substr(0, 40) + "\"");
    tensor_.dtype = value;
    return true;
  }
  bool start_object(std::size_t /*elements*/) override {
    if (place_ == Place::outside) {
      place_ = Place::header;
    } else if (place_ == Place::header) {
      place_ = name_ == "__metadata__" ? Place::metadata : Place::tensor;
      fields_.clear();
      offsets_.clear();
      tensor_ = {};
    } else {
      wrong("an object");
    }
    return true;
  }
  bool key(string_t& value) override {
    if (place_ == Place::header) {
      name_ = value;
      if (!names_.insert(value).second) fail(spec::format("safetensors: tensor {} is given twice", shortened(value)));
      return true;
    }
    field_ = value;
    if (!fields_.insert(value).second) fail(spec::format("safetensors: {} of {} is given twice", shortened(value), name_));
    const bool known = value == "dtype" || value == "shape" || value == "data_offsets";
    if (place_ == Place::tensor && !known) {
      fail(spec::format("safetensors: {} of {} is not known, wanted dtype, shape and data_offsets", shortened(value), name_));
    }
    return true;
  }
  bool end_object() override {
    if (place_ == Place::tensor) {
      add_tensor();
      place_ = Place::header;
    } else if (place_ == Place::metadata) {
      place_ = Place::header;
    } else {
      place_ = Place::outside;
    }
    return true;
  }
  bool start_array(std::size_t /*elements*/) override {
    if (place_ != Place::tensor || field_ == "dtype") wrong("a list");
    place_ = Place::list;
    return true;
  }
  bool end_array() override {
    place_ = Place::tensor;
    return true;
  }
  bool parse_error(std::size_t position, const std::string& /*token*/, const nlohmann::detail::exception& error) override {
    fail(spec::format("safetensors: byte {}: {}", position + 8, shortened(error.what())));
  }

 private:
  enum class Place : std::uint8_t { outside, header, metadata, tensor, list };

  static std::string shortened(const std::string& text) { return text.substr(0, 200); }

  [[noreturn]] void wrong(std::string_view is) const {
    fail(
        spec::format("safetensors: {} {} is {}, wanted what the format has there", shortened(name_), shortened(field_), is.substr(0, 200)));
  }

  void add_tensor() {
    const auto dtype = std::find_if(dtypes.begin(), dtypes.end(), [&](const Dtype& d) { return d.name == tensor_.dtype; });
    if (dtype == dtypes.end()) fail(spec::format("safetensors: dtype of {} is {}, wanted a known one", name_, shortened(tensor_.dtype)));
    if (!fields_.contains("shape")) fail(spec::format("safetensors: {} has no shape", name_));
    if (offsets_.size() != 2 || offsets_[0] > offsets_[1])
      fail(spec::format("safetensors: data_offsets of {}, wanted two in order", name_));
    tensor_.bits = dtype->bits;
    tensor_.begin = offsets_[0];
    tensor_.end = offsets_[1];
    std::uint64_t bits = tensor_.bits;
    for (const std::uint64_t axis : tensor_.shape) bits = checked_multiply(bits, axis, "safetensors: the size of " + name_);
    if (bits % 8 != 0 || bits / 8 != tensor_.end - tensor_.begin) {
      fail(spec::format("safetensors: {} has {} bytes of data, wanted {} bits for its shape", name_, tensor_.end - tensor_.begin, bits));
    }
    tensors.emplace(name_, std::move(tensor_));
  }

  Place place_ = Place::outside;
  std::string name_;
  std::string field_;
  std::set<std::string, std::less<>> names_;
  std::set<std::string, std::less<>> fields_;
  SafetensorsTensor tensor_;
  std::vector<std::uint64_t> offsets_;
};

/// The tensors lie one after the other, from the first byte of the data to the last of the file.
void place_tensors(SafetensorsFile& file, std::uint64_t size) {
  std::vector<std::pair<std::uint64_t, std::string_view>> order;
  for (auto& [name, tensor] : file.tensors) {
    if (tensor.end > size - file.data_begin) {
      fail(spec::format("safetensors: {} ends at byte {} of the data, which have {}", name, tensor.end, size - file.data_begin));
    }
    tensor.begin += file.data_begin;
    tensor.end += file.data_begin;
    order.emplace_back(tensor.begin, name);
  }
  // Empty tensors share their place with others.
  std::sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    return std::pair(a.first, file.tensors.find(a.second)->second.end) < std::pair(b.first, file.tensors.find(b.second)->second.end);
  });
  std::uint64_t at = file.data_begin;
  for (const auto& [begin, name] : order) {
    if (begin != at) fail(spec::format("safetensors: {} begins at byte {}, wanted {}, where the one before ends", name, begin, at));
    at = file.tensors.find(name)->second.end;
  }
  if (at != size) fail(spec::format("safetensors: the tensors end at byte {}, the file at {}", at, size));
}

}  // namespace

SafetensorsFile read_safetensors(std::span<const std::byte> file) {
  Cursor cursor("safetensors", file);
  const auto length = cursor.number<std::uint64_t>("header length");
  if (length > longest_header) fail(spec::format("safetensors: byte 0: header length is {}, wanted at most {}", length, longest_header));
  const std::string_view header = cursor.text(length, "header");
  if (header.empty() || header.front() != '{') fail("safetensors: byte 8: the header does not begin with {");
  Handler handler;
  nlohmann::json::sax_parse(header.begin(), header.end(), &handler);
  SafetensorsFile result{.data_begin = cursor.offset(), .tensors = std::move(handler.tensors)};
  place_tensors(result, file.size());
  return result;
}

}  // namespace phasor::spec
