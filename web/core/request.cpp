// SPDX-License-Identifier: Apache-2.0
// Reads requests by nlohmann-json.
#include "web/core/request.hpp"

#include <fmt/core.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "figures/joined.hpp"

namespace phasor::web {
namespace {

using Value = nlohmann::ordered_json;

constexpr std::size_t kLargestText = std::size_t{64} << 20;
constexpr int kDeepest = 64;
constexpr std::size_t kMostPositions = 65536;
constexpr double kLargestWhole = 9007199254740992;  // 2^53

Status invalid(const std::string& message) { return Status::invalid(message); }

std::string described(const Value& value) {
  if (value.is_string()) {
    const std::string text = value.get<std::string>();
    return text.size() > 40 ? "a text" : value.dump(-1, ' ', true, Value::error_handler_t::replace);
  }
  if (value.is_array()) return fmt::format("a list of {}", value.size());
  if (value.is_object()) return "an object";
  return value.dump();
}

/// A whole number, also as 8.0; none where it is not, or is so large that a page could not have meant it.
std::optional<std::int64_t> whole(const Value& value) {
  if (!value.is_number()) return std::nullopt;
  const double number = value.get<double>();
  if (!(std::abs(number) <= kLargestWhole) || number != std::floor(number)) return std::nullopt;
  return value.is_number_integer() ? value.get<std::int64_t>() : static_cast<std::int64_t>(number);
}

Value parsed(std::string_view text) {
  if (text.size() > kLargestText)
    throw RequestError{invalid(fmt::format("the request has {} bytes, wanted at most 64 MiB", text.size())), ""};
  bool deep = false;
  const Value::parser_callback_t shallow = [&](int depth, Value::parse_event_t /*event*/, Value& /*value*/) {
    deep = deep || depth > kDeepest;
    return !deep;
  };
  Value value = Value::parse(text.data(), text.data() + text.size(), shallow, false);
  if (deep) throw RequestError{invalid("the request is nested deeper than 64 levels"), ""};
  if (value.is_discarded()) throw RequestError{invalid("the request is no JSON"), ""};
  if (!value.is_object()) throw RequestError{invalid(fmt::format("the request is {}, wanted an object", described(value))), ""};
  return value;
}

}  // namespace

void fail(Status status, const char* where) { throw RequestError{std::move(status), where}; }
void fail(Status status, const std::string& where) { throw RequestError{std::move(status), where}; }
void refuse(const char* where, const std::string& message) { throw RequestError{Status::invalid(message), where}; }

struct Request::Tree {
  Value value;
  std::set<std::string, std::less<>> asked = {};

  /// Null where it is absent or null.
  const Value* find(const char* name) {
    asked.insert(name);
    const auto found = value.find(name);
    return found == value.end() || found->is_null() ? nullptr : &*found;
  }
};
struct Request::Member {
  Value value;
};

Request::Request(std::unique_ptr<Tree> tree, std::string path, std::span<const std::byte> attached)
    : tree_(std::move(tree)), path_(std::move(path)), attached_(attached) {}
Request::Request(Request&& other) noexcept = default;
Request& Request::operator=(Request&& other) noexcept = default;
Request::~Request() = default;

Request Request::parse(std::string_view text, std::span<const std::byte> attached) {
  return {std::make_unique<Tree>(Tree{parsed(text)}), "", attached};
}

Request Request::make(Member member, std::string path) const {
  return {std::make_unique<Tree>(Tree{std::move(member.value)}), std::move(path), attached_};
}

void Request::wrong(const char* name, const std::string& wanted) const {
  throw RequestError{invalid(fmt::format("{} is {}, wanted {}", where(name), described(tree_->value.at(name)), wanted)), where(name)};
}

bool Request::has(const char* name) const { return tree_->find(name) != nullptr; }

std::int64_t Request::integer(const char* name, std::int64_t otherwise, const Range& range) {
  const Value* value = tree_->find(name);
  const auto number = value == nullptr ? otherwise : whole(*value);
  if (!number || *number < range.least || *number > range.most)
    wrong(name, fmt::format("a whole number, {} to {}", range.least, range.most));
  return *number;
}

double Request::number(const char* name, double otherwise) {
  const Value* value = tree_->find(name);
  if (value != nullptr && !value->is_number()) wrong(name, "a number");
  return value == nullptr ? otherwise : value->get<double>();
}

bool Request::flag(const char* name, bool otherwise) {
  const Value* value = tree_->find(name);
  if (value != nullptr && !value->is_boolean()) wrong(name, "true or false");
  return value == nullptr ? otherwise : value->get<bool>();
}

std::string Request::text(const char* name, const std::string& otherwise) {
  const Value* value = tree_->find(name);
  if (value != nullptr && !value->is_string()) wrong(name, "a text");
  return value == nullptr ? otherwise : value->get<std::string>();
}

std::string Request::choice(const char* name, const std::vector<std::string>& choices) {
  const std::string is = text(name, choices.front());
  for (const std::string& one : choices) {
    if (one == is) return is;
  }
  wrong(name, figures::listed(choices));
}

std::vector<double> Request::numbers(const char* name, const std::vector<double>& otherwise) {
  const Value* value = tree_->find(name);
  if (value == nullptr) return otherwise;
  if (!value->is_array()) wrong(name, "a list of numbers");
  std::vector<double> list;
  for (const Value& one : *value) {
    if (!one.is_number()) wrong(name, "a list of numbers");
    list.push_back(one.get<double>());
  }
  return list;
}

std::vector<std::string> Request::texts(const char* name, const std::vector<std::string>& otherwise) {
  const Value* value = tree_->find(name);
  if (value == nullptr) return otherwise;
  if (!value->is_array()) wrong(name, "a list of texts");
  std::vector<std::string> list;
  for (const Value& one : *value) {
    if (!one.is_string()) wrong(name, "a list of texts");
    list.push_back(one.get<std::string>());
  }
  return list;
}

figures::Numbers Request::positions(const char* name, const std::string& otherwise) {
  const Value* value = tree_->find(name);
  figures::Numbers list;
  if (value == nullptr || value->is_string()) {
    list = value_of(figures::read_numbers(where(name), value == nullptr ? otherwise : value->get<std::string>()), where(name));
  } else if (value->is_object()) {
    Request spread = object(name);
    const Range points{2, static_cast<std::int64_t>(kMostPositions)};
    const figures::Spread wanted{.first = spread.integer("first", 0),
                                 .last = spread.integer("last", 0),
                                 .points = spread.integer("points", 128, points),
                                 .log = spread.flag("log", false)};
    spread.finish();
    list = value_of(figures::spread_numbers(where(name), wanted), where(name));
  } else {
    if (!value->is_array()) wrong(name, "a list of whole numbers, a text like 0:100:10, or first, last and points");
    for (const Value& one : *value) {
      const auto number = whole(one);
      if (!number) wrong(name, "a list of whole numbers");
      list.push_back(*number);
    }
  }
  if (list.size() > kMostPositions) {
    throw RequestError{invalid(fmt::format("{} has {} numbers, wanted at most {}", where(name), list.size(), kMostPositions)), where(name)};
  }
  return list;
}

Request Request::object(const char* name) {
  const Value* value = tree_->find(name);
  if (value != nullptr && !value->is_object()) wrong(name, "an object");
  return make({value == nullptr ? Value::object() : *value}, where(name) + ".");
}

std::vector<Request> Request::objects(const char* name) {
  std::vector<Request> list;
  const Value* value = tree_->find(name);
  if (value == nullptr) return list;
  if (!value->is_array()) wrong(name, "a list of objects");
  for (std::size_t i = 0; i < value->size(); ++i) {
    if (!(*value)[i].is_object()) wrong(name, "a list of objects");
    list.push_back(make({(*value)[i]}, fmt::format("{}[{}].", where(name), i)));
  }
  return list;
}

std::string Request::spec_text(const char* name, const char* otherwise, const char* type) {
  const Value* value = tree_->find(name);
  Value spec = value == nullptr ? parsed(otherwise) : *value;
  if (!spec.is_object()) wrong(name, "a spec as an object");
  if (!spec.contains("phasor")) spec["phasor"] = spec_version;
  if (type != nullptr && !spec.contains("type")) spec["type"] = type;
  return spec.dump(-1, ' ', true, Value::error_handler_t::replace);
}

RotarySpec Request::rotary_spec(const char* name, const char* otherwise) {
  return value_of(rotary_spec_from_json(spec_text(name, otherwise, "RotarySpec")), where(name));
}
SinusoidalSpec Request::sinusoidal_spec(const char* name) {
  return value_of(sinusoidal_spec_from_json(spec_text(name, R"({"width": 128})", "SinusoidalSpec")), where(name));
}
BiasSpec Request::bias_spec(const char* name, const char* otherwise) {
  return value_of(bias_spec_from_json(spec_text(name, otherwise, nullptr)), where(name));
}
AttentionScheme Request::scheme(const char* name) {
  return value_of(attention_scheme_from_json(spec_text(name, R"({"mask": "causal"})", "AttentionScheme")), where(name));
}

figures::NamedSpec Request::named_spec() {
  RotarySpec spec = rotary_spec();
  std::string name = text("name", figures::label_of(spec));
  return {std::move(name), std::move(spec)};
}

std::vector<figures::NamedSpec> Request::named_specs() {
  std::vector<figures::NamedSpec> list;
  if (!has("specs")) {
    list.push_back(object("specs").named_spec());
    return list;
  }
  for (Request& one : objects("specs")) {
    list.push_back(one.named_spec());
    one.finish();
  }
  if (list.empty() || list.size() > 16) wrong("specs", "1 to 16 specs");
  return list;
}

void Request::finish() const {
  for (const auto& [name, value] : tree_->value.items()) {
    if (!tree_->asked.contains(name)) {
      throw RequestError{invalid(fmt::format("{}{} is no member of this request", path_, name)), path_ + name};
    }
  }
}

}  // namespace phasor::web
