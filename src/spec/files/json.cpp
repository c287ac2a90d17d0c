// SPDX-License-Identifier: Apache-2.0
// JSON text to a value tree through the SAX interface of nlohmann-json: duplicates, depth and size are caught while reading.
#include "spec/files/json.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "spec/format.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor::spec {
namespace {

constexpr std::size_t deepest = 64;
constexpr std::string_view float_key = "__float__";

std::optional<double> named_number(std::string_view name) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (name == "Infinity") return infinity;
  if (name == "-Infinity") return -infinity;
  if (name == "NaN") return std::numeric_limits<double>::quiet_NaN();
  return std::nullopt;
}

// ---- Pre-pass: bare Infinity, -Infinity and NaN become {"__float__": "..."} ----

struct Prepared {
  std::string text;
  struct Longer {
    std::size_t from;  // byte of the prepared text
    std::size_t by;    // bytes added before it
  };
  std::vector<Longer> longer;

  std::size_t original(std::size_t byte) const {
    const auto after = std::upper_bound(longer.begin(), longer.end(), byte, [](std::size_t b, const Longer& l) { return b < l.from; });
    return after == longer.begin() ? byte : byte - std::min(byte, std::prev(after)->by);
  }
};

/// The bare name that begins at `at`, empty when none does.
std::string_view bare_name(std::string_view text, std::size_t at) {
  for (const std::string_view name : {std::string_view("Infinity"), std::string_view("-Infinity"), std::string_view("NaN")}) {
    if (text.substr(at, name.size()) == name) return name;
  }
  return {};
}

/// The end of the string that begins at `at`, or the end of the text.
std::size_t string_end(std::string_view text, std::size_t at) {
  for (std::size_t i = at + 1; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      return i + 1;
    }
  }
  return text.size();
}

Prepared prepare(std::string_view text) {
  Prepared prepared;
  prepared.text.reserve(text.size());
  std::size_t added = 0;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t next = i + 1;
    if (text[i] == '"') next = string_end(text, i);
    const bool may_begin = text[i] == 'I' || text[i] == 'N' || text[i] == '-';
    const std::string_view name = may_begin ? bare_name(text, i) : std::string_view();
    if (name.empty()) {
      prepared.text.append(text.substr(i, next - i));
    } else {
      const std::size_t before = prepared.text.size();
      prepared.text.append("{\"").append(float_key).append("\":\"").append(name).append("\"}");
      next = i + name.size();
      added += prepared.text.size() - before - name.size();
      prepared.longer.push_back({prepared.text.size(), added});
    }
    i = next;
  }
  return prepared;
}

// ---- The handler ----

/// Reads characters and says how far it came, for errors that the parser does not see.
class Cursor {
 public:
  using iterator_category = std::input_iterator_tag;  // NOLINT(readability-identifier-naming)
  using value_type = char;                            // NOLINT(readability-identifier-naming)
  using difference_type = std::ptrdiff_t;             // NOLINT(readability-identifier-naming)
  using pointer = const char*;                        // NOLINT(readability-identifier-naming)
  using reference = const char&;                      // NOLINT(readability-identifier-naming)

  Cursor(const char* at, std::size_t* read) : at_(at), read_(read) {}
  const char& operator*() const { return *at_; }
  Cursor& operator++() {
    ++at_;
    ++*read_;
    return *this;
  }
  Cursor operator++(int) {
    Cursor before = *this;
    ++*this;
    return before;
  }
  bool operator==(const Cursor& other) const { return at_ == other.at_; }
  bool operator!=(const Cursor& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  std::size_t* read_;
};

/// What stands behind the parser's own prefix; foreign bytes would make a message that is not ASCII.
std::string plain(std::string_view what) {
  for (const std::string_view mark : {std::string_view("syntax error "), std::string_view("number overflow")}) {
    if (const std::size_t at = what.find(mark); at != std::string_view::npos) what.remove_prefix(at);
  }
  std::string text(what.substr(0, 200));
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  return text;
}

using Base = nlohmann::ordered_json;  // as everywhere else: its code is in a program once

class Handler {
 public:
  explicit Handler(const std::size_t* read) : read_(read) {}

  bool null() { return add({}); }
  bool boolean(bool value) {
    Json json;
    json.kind = Json::Kind::boolean;
    json.boolean = value;
    return add(std::move(json));
  }
  bool number_integer(Base::number_integer_t value) { return add_number(static_cast<double>(value), value); }
  bool number_unsigned(Base::number_unsigned_t value) {
    const bool fits = value <= static_cast<Base::number_unsigned_t>(std::numeric_limits<std::int64_t>::max());
    return add_number(static_cast<double>(value), fits ? std::optional(static_cast<std::int64_t>(value)) : std::nullopt);
  }
  bool number_float(Base::number_float_t value, const Base::string_t&) {
    constexpr double exact = 0x1p53;
    const bool whole = std::fabs(value) <= exact && std::trunc(value) == value;
    return add_number(value, whole ? std::optional(static_cast<std::int64_t>(value)) : std::nullopt);
  }
  bool string(Base::string_t& value) {
    Json json;
    json.kind = Json::Kind::string;
    json.string = std::move(value);
    return add(std::move(json));
  }
  bool binary(Base::binary_t&) { return fail("binary data", "text"); }
  bool start_object(std::size_t) { return open(Json::Kind::object); }
  bool start_array(std::size_t) { return open(Json::Kind::array); }
  bool key(Base::string_t& value) {
    Level& level = open_.back();
    if (!level.keys.insert(value).second) return fail("the key " + json_string(value) + " a second time", "each key once");
    level.json.members.emplace_back(std::move(value), Json());
    return true;
  }
  bool end_object() {
    Json object = close();
    if (object.members.size() == 1 && object.members[0].first == float_key) {
      const Json& name = object.members[0].second;
      const std::optional<double> number = name.is(Json::Kind::string) ? named_number(name.string) : std::nullopt;
      if (!number) return fail(std::string(float_key) + " of " + name.describe(), "Infinity, -Infinity or NaN");
      object = Json();
      object.kind = Json::Kind::number;
      object.number = *number;
    }
    return place(std::move(object));
  }
  bool end_array() { return place(close()); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) {
    // The parser counts from 1, and its count is of characters taken.
    error_at_ = position == 0 ? 0 : position - 1;
    error_ = plain(error.what());
    if (error_.rfind("number overflow", 0) == 0) error_ += ", wanted a number of float64";
    return false;
  }

  Json take() { return std::move(root_); }
  const std::string& error() const { return error_; }
  std::size_t error_at() const { return error_at_; }

 private:
  struct Level {
    Json json;
    std::unordered_set<std::string> keys;
  };

  bool fail(const std::string& what, std::string_view wanted) {
    error_at_ = *read_ == 0 ? 0 : *read_ - 1;
    error_ = "has " + what + ", wanted " + std::string(wanted);
    return false;
  }
  bool count() {
    if (++values_ > most_json_values) return fail("more than " + std::to_string(most_json_values) + " values", "a model's config");
    return true;
  }
  bool add_number(double value, std::optional<std::int64_t> integer) {
    Json json;
    json.kind = Json::Kind::number;
    json.number = value;
    json.integer = integer;
    return add(std::move(json));
  }
  bool add(Json json) { return count() && place(std::move(json)); }
  bool place(Json json) {
    if (open_.empty()) {
      root_ = std::move(json);
    } else if (open_.back().json.is(Json::Kind::array)) {
      open_.back().json.items.push_back(std::move(json));
    } else {
      open_.back().json.members.back().second = std::move(json);
    }
    return true;
  }
  bool open(Json::Kind kind) {
    if (open_.size() == deepest) return fail("lists or objects more than " + std::to_string(deepest) + " deep", "fewer");
    open_.emplace_back();
    open_.back().json.kind = kind;
    return count();
  }
  Json close() {
    Json json = std::move(open_.back().json);
    open_.pop_back();
    return json;
  }

  const std::size_t* read_;
  std::vector<Level> open_;
  Json root_;
  std::size_t values_ = 0;
  std::string error_;
  std::size_t error_at_ = 0;
};

Status at_byte(std::string_view where, std::string_view text, std::size_t byte, const std::string& what) {
  byte = std::min(byte, text.size());
  const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(byte), '\n');
  return Status::invalid(spec::format("{}: line {}, byte {}: {}", where, line, byte, what));
}

Result<Json> parse(std::string_view text, std::string_view where) {
  if (text.size() > largest_json_text) {
    return Status::invalid(spec::format("{}: the text has {} bytes, wanted at most {}", where, text.size(), largest_json_text));
  }
  const Prepared prepared = prepare(text);
  std::size_t read = 0;
  Handler handler(&read);
  const char* begin = prepared.text.data();
  const char* end = begin + prepared.text.size();
  // Deliberately not sax_parse(text): only an iterator of our own knows where a duplicate key is.
  if (!Base::sax_parse(Cursor(begin, &read), Cursor(end, &read), &handler)) {
    return at_byte(where, text, prepared.original(handler.error_at()), handler.error());
  }
  return handler.take();
}

Result<Json> parse_binary(std::span<const std::byte> bytes, std::string_view where) {
  if (bytes.size() > largest_json_text) {
    return Status::invalid(spec::format("{}: there are {} bytes, wanted at most {}", where, bytes.size(), largest_json_text));
  }
  std::size_t read = 0;
  Handler handler(&read);
  const char* begin = reinterpret_cast<const char*>(bytes.data());
  if (!Base::sax_parse(Cursor(begin, &read), Cursor(begin + bytes.size(), &read), &handler, Base::input_format_t::cbor)) {
    return Status::invalid(spec::format("{}: byte {}: {}", where, std::min(handler.error_at(), bytes.size()), handler.error()));
  }
  return handler.take();
}

}  // namespace

const Json* Json::find(std::string_view key) const {
  for (const auto& [name, value] : members) {
    if (name == key) return &value;
  }
  return nullptr;
}

std::string Json::describe() const {
  switch (kind) {
    case Kind::null:
      return "null";
    case Kind::boolean:
      return boolean ? "true" : "false";
    case Kind::number:
      return std::isnan(number) ? "NaN" : integer ? std::to_string(*integer) : spec::format("{}", number);
    case Kind::string:
      return json_string(std::string_view(string).substr(0, 60));
    case Kind::array:
      return "a list of " + std::to_string(items.size());
    case Kind::object:
      return "an object";
  }
  return {};
}

Result<Json> parse_json(std::string_view text, std::string_view where) {
  return without_exceptions(where, [&] { return parse(text, where); });
}

Result<Json> parse_cbor(std::span<const std::byte> bytes, std::string_view where) {
  return without_exceptions(where, [&] { return parse_binary(bytes, where); });
}

std::vector<std::byte> cbor_of(std::string_view json) {
  const std::vector<std::uint8_t> bytes = nlohmann::ordered_json::to_cbor(nlohmann::ordered_json::parse(json));
  const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
  return {data, data + bytes.size()};
}

std::string json_string(std::string_view text) { return Base(std::string(text)).dump(-1, ' ', true, Base::error_handler_t::replace); }

std::string json_number(double value) {
  if (std::isnan(value)) return "{\"__float__\": \"NaN\"}";
  if (std::isinf(value)) return value > 0 ? "{\"__float__\": \"Infinity\"}" : "{\"__float__\": \"-Infinity\"}";
  return spec::format("{}", value);
}

}  // namespace phasor::spec
