// SPDX-License-Identifier: Apache-2.0
// The GGUF container: header, keys, infos of tensors, and the data of the few rope tensors.
#include "spec/gguf/file.hpp"

#include <algorithm>
#include <utility>

#include "math/sincos.hpp"
#include "spec/format.hpp"

namespace phasor::spec {
namespace {

constexpr std::uint64_t metadata_budget = std::uint64_t{64} << 20;  // bytes of keys and infos
constexpr std::uint64_t longest_text = std::uint64_t{1} << 20;
constexpr std::uint64_t longest_kept_array = 4096;  // lists with one entry per layer are far shorter
constexpr std::uint64_t longest_rope_tensor = 2048;
constexpr std::uint64_t default_alignment = 32;

struct Block {
  std::uint64_t elements;
  std::uint64_t bytes;
};

/// Elements and bytes of a block of each ggml type, by its number; {0, 0}: no such type (any more).
constexpr Block blocks[] = {
    {1, 4},     {1, 2},     {32, 18},   {32, 20},   {0, 0},     {0, 0},    {32, 22},  {32, 24},  {32, 34},  {32, 40}, {256, 84},
    {256, 110}, {256, 144}, {256, 176}, {256, 210}, {256, 292}, {256, 66}, {256, 74}, {256, 98}, {256, 50}, {32, 18}, {256, 110},
    {256, 82},  {256, 136}, {1, 1},     {1, 2},     {1, 4},     {1, 8},    {1, 8},    {256, 56}, {1, 2},    {0, 0},   {0, 0},
    {0, 0},     {256, 54},  {256, 66},  {0, 0},     {0, 0},     {0, 0},    {32, 17},  {64, 36},  {128, 18},
};

double half_value(std::uint16_t bits) { return math::widen_f16(math::One<float>{}, math::u32{bits}); }

class Reader {
 public:
  explicit Reader(const GgufBytes& bytes) : bytes_(bytes), cursor_("gguf", bytes.head) {}

  GgufFile read() {
    read_magic();
    const std::uint64_t tensors = read_count("tensor count");
    const std::uint64_t keys = read_count("key count");
    cursor_.need_many(keys, smallest_key(), "key count");
    for (std::uint64_t i = 0; i < keys; ++i) read_key();
    cursor_.need_many(tensors, smallest_info(), "tensor count");
    for (std::uint64_t i = 0; i < tensors; ++i) read_info();
    place_tensors();
    read_rope_tensors();
    return std::move(file_);
  }

 private:
  // A length or count of version 1 has 32 bits.
  bool is_short() const { return file_.version == 1; }
  std::uint64_t read_count(std::string_view what) {
    return is_short() ? cursor_.number<std::uint32_t>(what) : cursor_.number<std::uint64_t>(what);
  }
  std::uint64_t smallest_text() const { return is_short() ? 4 : 8; }
  std::uint64_t smallest_key() const { return smallest_text() + 1 + 4 + 1; }
  std::uint64_t smallest_info() const { return smallest_text() + 4 + 4 + 8; }

  void read_magic() {
    if (bytes_.head.empty()) fail("gguf: byte 0: the file is empty, wanted a GGUF file");
    if (cursor_.text(4, "magic") != "GGUF") fail("gguf: byte 0: the magic is not GGUF");
    const auto version = cursor_.number<std::uint32_t>("version");
    file_.version = version;
    // Big-endian files came with version 3; the smallest byte is then where the largest should be.
    if (version == 0x03000000U) {
      file_.version = 3;
      cursor_.set_order(ByteOrder::big);
    } else if (version < 1 || version > 3) {
      fail(spec::format("gguf: byte 4: version is {}, wanted 1, 2 or 3", version));
    }
  }

  std::string_view read_text(std::string_view what) {
    const std::uint64_t length = read_count(what);
    if (length > longest_text) cursor_.wrong(spec::format("{} has {} bytes, wanted at most {}", what, length, longest_text));
    const std::string_view text = cursor_.text(length, what);
    check_budget();
    return text;
  }

  void check_budget() const {
    if (cursor_.offset() > metadata_budget) cursor_.wrong(spec::format("the metadata are longer than {} bytes", metadata_budget));
  }

  void read_key() {
    const std::uint64_t at = cursor_.offset();
    const std::string_view name = read_text("a key");
    if (name.empty()) fail(spec::format("gguf: byte {}: a key is empty, wanted a name", at));
    const GgufType type = read_type(name);
    GgufValue value{.type = type, .offset = cursor_.offset(), .content = std::int64_t{0}};
    if (type == GgufType::array) {
      read_array(name, value);
    } else {
      read_scalar(name, value);
    }
    check_budget();
    if (!file_.keys.emplace(name, std::move(value)).second) fail(spec::format("gguf: byte {}: key {} is given twice", at, name));
  }

  GgufType read_type(std::string_view name) {
    const auto type = cursor_.number<std::uint32_t>("a value type");
    if (type > static_cast<std::uint32_t>(GgufType::f64)) {
      cursor_.wrong(spec::format("the value type of {} is {}, wanted 0 to {}", name, type, static_cast<std::uint32_t>(GgufType::f64)));
    }
    return static_cast<GgufType>(type);
  }

  static std::uint64_t size_of(GgufType type) {
    switch (type) {
      case GgufType::u8:
      case GgufType::i8:
      case GgufType::boolean:
        return 1;
      case GgufType::u16:
      case GgufType::i16:
        return 2;
      case GgufType::u32:
      case GgufType::i32:
      case GgufType::f32:
        return 4;
      default:
        return 8;
    }
  }

  void read_scalar(std::string_view name, GgufValue& value) {
    switch (value.type) {
      case GgufType::u8:
        value.content = std::int64_t{cursor_.number<std::uint8_t>(name)};
        break;
      case GgufType::i8:
        value.content = std::int64_t{static_cast<std::int8_t>(cursor_.number<std::uint8_t>(name))};
        break;
      case GgufType::u16:
        value.content = std::int64_t{cursor_.number<std::uint16_t>(name)};
        break;
      case GgufType::i16:
        value.content = std::int64_t{static_cast<std::int16_t>(cursor_.number<std::uint16_t>(name))};
        break;
      case GgufType::u32:
        value.content = std::int64_t{cursor_.number<std::uint32_t>(name)};
        break;
      case GgufType::i32:
        value.content = std::int64_t{static_cast<std::int32_t>(cursor_.number<std::uint32_t>(name))};
        break;
      case GgufType::u64:
        value.content = cursor_.number<std::uint64_t>(name);
        break;
      case GgufType::i64:
        value.content = static_cast<std::int64_t>(cursor_.number<std::uint64_t>(name));
        break;
      case GgufType::f32:
        value.content = static_cast<double>(cursor_.float32(name));
        break;
      case GgufType::f64:
        value.content = cursor_.float64(name);
        break;
      case GgufType::boolean:
        value.content = read_bool(name);
        break;
      case GgufType::string:
      case GgufType::array:
        value.content = std::string(read_text(name));
        break;
    }
  }

  bool read_bool(std::string_view name) {
    const auto byte = cursor_.number<std::uint8_t>(name);
    if (byte > 1) cursor_.wrong(spec::format("{} is {}, wanted 0 or 1 for a bool", name, byte));
    return byte == 1;
  }

  void read_array(std::string_view name, GgufValue& value) {
    const GgufType element = read_type(name);
    if (element == GgufType::array) cursor_.wrong(spec::format("{} is an array of arrays, wanted one of numbers, bools or strings", name));
    value.count = read_count(name);
    if (element == GgufType::string) {
      cursor_.need_many(value.count, smallest_text(), name);
      for (std::uint64_t i = 0; i < value.count; ++i) read_text(name);
      value.content = std::vector<double>();
      return;
    }
    cursor_.need_many(value.count, size_of(element), name);
    if (value.count > longest_kept_array) {
      cursor_.take(value.count * size_of(element), name);
      value.content = std::vector<double>();
      return;
    }
    std::vector<double> list(static_cast<std::size_t>(value.count));
    for (double& entry : list) entry = read_number(name, element);
    value.content = std::move(list);
  }

  double read_number(std::string_view name, GgufType type) {
    GgufValue value{.type = type, .content = std::int64_t{0}};
    read_scalar(name, value);
    if (const auto* integer = std::get_if<std::int64_t>(&value.content)) return static_cast<double>(*integer);
    if (const auto* large = std::get_if<std::uint64_t>(&value.content)) return static_cast<double>(*large);
    if (const auto* flag = std::get_if<bool>(&value.content)) return *flag ? 1 : 0;
    return *std::get_if<double>(&value.content);
  }

  void read_info() {
    const std::uint64_t at = cursor_.offset();
    const std::string name(read_text("a tensor's name"));
    const auto axes = cursor_.number<std::uint32_t>(name);
    if (axes > 4) cursor_.wrong(spec::format("tensor {} has {} axes, wanted at most 4", name, axes));
    GgufTensor tensor;
    for (std::uint32_t i = 0; i < axes; ++i) tensor.shape.push_back(read_count(name));
    tensor.type = cursor_.number<std::uint32_t>(name);
    tensor.bytes = bytes_of(name, tensor);
    tensor.offset = cursor_.number<std::uint64_t>(name);
    check_budget();
    if (!file_.tensors.emplace(name, std::move(tensor)).second) fail(spec::format("gguf: byte {}: tensor {} is given twice", at, name));
  }

  std::uint64_t bytes_of(const std::string& name, const GgufTensor& tensor) const {
    if (tensor.type >= std::size(blocks) || blocks[tensor.type].elements == 0) {
      cursor_.wrong(spec::format("the type of tensor {} is {}, wanted a known one", name, tensor.type));
    }
    const Block block = blocks[tensor.type];
    const std::uint64_t row = tensor.shape.empty() ? 1 : tensor.shape[0];
    if (row % block.elements != 0) {
      cursor_.wrong(spec::format("tensor {} has rows of {} elements, wanted a multiple of {}", name, row, block.elements));
    }
    // The elements are counted even where an axis of 0 makes the product small: each partial product must fit.
    std::uint64_t elements = 1;
    for (const std::uint64_t axis : tensor.shape) {
      if (axis > (std::uint64_t{1} << 62)) cursor_.wrong(spec::format("tensor {} has an axis of {}, wanted at most 2^62", name, axis));
      elements = checked_multiply(elements, axis, "gguf: tensor " + name);
    }
    return checked_multiply(elements / block.elements, block.bytes, "gguf: tensor " + name);
  }

  std::uint64_t alignment() const {
    const auto found = file_.keys.find("general.alignment");
    if (found == file_.keys.end()) return default_alignment;
    const auto* value = std::get_if<std::int64_t>(&found->second.content);
    if (found->second.type != GgufType::u32 || value == nullptr || *value <= 0 || (*value & (*value - 1)) != 0) {
      fail(spec::format("gguf: byte {}: general.alignment is {}, wanted a power of two as a uint32", found->second.offset,
                        value == nullptr ? std::string("no integer") : std::to_string(*value)));
    }
    return static_cast<std::uint64_t>(*value);
  }

  /// Offsets become those of the file; none may leave it, be unaligned, or overlap another.
  void place_tensors() {
    const std::uint64_t align = alignment();
    const std::uint64_t start = checked_add(cursor_.offset(), align - 1, "gguf: the start of the data") / align * align;
    std::vector<std::pair<std::uint64_t, std::string_view>> order;
    for (auto& [name, tensor] : file_.tensors) {
      if (tensor.offset % align != 0) {
        fail(spec::format("gguf: tensor {} starts at {} of the data, wanted a multiple of the alignment, {}", name, tensor.offset, align));
      }
      tensor.offset = checked_add(start, tensor.offset, "gguf: tensor " + name);
      const std::uint64_t end = checked_add(tensor.offset, tensor.bytes, "gguf: tensor " + name);
      if (end > bytes_.size) {
        fail(spec::format("gguf: tensor {} lies at bytes {} to {}, the file has {}", name, tensor.offset, end, bytes_.size));
      }
      if (tensor.bytes > 0) order.emplace_back(tensor.offset, name);
    }
    std::sort(order.begin(), order.end());
    for (std::size_t i = 1; i < order.size(); ++i) {
      const GgufTensor& before = file_.tensors.find(order[i - 1].second)->second;
      if (before.offset + before.bytes > order[i].first) {
        fail(spec::format("gguf: tensor {} at byte {} overlaps tensor {}, which ends at byte {}", order[i].second, order[i].first,
                          order[i - 1].second, before.offset + before.bytes));
      }
    }
  }

  void read_rope_tensors() {
    for (const char* name : {"rope_freqs.weight", "rope_factors_short.weight", "rope_factors_long.weight"}) {
      const auto found = file_.tensors.find(name);
      if (found != file_.tensors.end()) file_.rope_tensors[name] = read_floats(name, found->second);
    }
  }

  std::vector<double> read_floats(std::string_view name, const GgufTensor& tensor) const {
    constexpr std::uint32_t f32 = 0;
    constexpr std::uint32_t f16 = 1;
    if (tensor.type != f32 && tensor.type != f16) {
      fail(spec::format("gguf: tensor {} has type {}, wanted float32 or float16", name, tensor.type));
    }
    const std::uint64_t count = tensor.bytes / blocks[tensor.type].bytes;
    if (count > longest_rope_tensor) {
      fail(spec::format("gguf: tensor {} has {} entries, wanted at most {}", name, count, longest_rope_tensor));
    }
    std::vector<std::byte> data(static_cast<std::size_t>(tensor.bytes));
    copy(tensor.offset, data, name);
    Cursor cursor("gguf", data);
    cursor.set_order(cursor_.order());
    std::vector<double> list(static_cast<std::size_t>(count));
    for (double& entry : list) entry = tensor.type == f32 ? cursor.float32(name) : half_value(cursor.number<std::uint16_t>(name));
    return list;
  }

  void copy(std::uint64_t offset, std::span<std::byte> to, std::string_view name) const {
    const std::uint64_t head = bytes_.head.size();
    if (offset <= head && to.size() <= head - offset) {
      std::copy_n(bytes_.head.begin() + static_cast<std::ptrdiff_t>(offset), to.size(), to.begin());
    } else if (!bytes_.fetch || !bytes_.fetch(offset, to)) {
      fail(spec::format("gguf: byte {}: tensor {} cannot be read", offset, name));
    }
  }

  const GgufBytes& bytes_;
  Cursor cursor_;
  GgufFile file_;
};

}  // namespace

GgufFile read_gguf_file(const GgufBytes& bytes) { return Reader(bytes).read(); }

}  // namespace phasor::spec
