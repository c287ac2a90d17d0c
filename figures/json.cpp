// SPDX-License-Identifier: Apache-2.0
// JSON by nlohmann-json, whose numbers (the shortest that read back the same) users already compare with.
#include "figures/json.hpp"

#include <nlohmann/json.hpp>
#include <utility>

namespace phasor::figures {

struct Json::Tree {
  nlohmann::ordered_json value;
};

Json::Json(std::nullptr_t) : tree_(new Tree{nullptr}) {}
Json::Json(bool value) : tree_(new Tree{value}) {}
Json::Json(std::int64_t value) : tree_(new Tree{value}) {}
Json::Json(double value) : tree_(new Tree{value}) {}
Json::Json(const char* text) : tree_(new Tree{text}) {}
Json::Json(std::string_view text) : tree_(new Tree{text}) {}
Json::Json(const std::string& text) : tree_(new Tree{text}) {}
Json::Json(const std::vector<double>& list) : tree_(new Tree{list}) {}
Json::Json(const std::vector<std::int64_t>& list) : tree_(new Tree{list}) {}
Json::Json(const std::vector<std::string>& list) : tree_(new Tree{list}) {}
Json::Json(const Json& other) : tree_(new Tree(*other.tree_)) {}
Json::Json(Json&& other) noexcept = default;
Json& Json::operator=(Json other) noexcept {
  tree_ = std::move(other.tree_);
  return *this;
}
Json::~Json() = default;

Json Json::array() {
  Json json;
  json.tree_->value = nlohmann::ordered_json::array();
  return json;
}

Json Json::object() {
  Json json;
  json.tree_->value = nlohmann::ordered_json::object();
  return json;
}

Json Json::object(std::initializer_list<Field> fields) {
  Json json = object();
  for (const Field& field : fields) json.add(field.key, field.value);
  return json;
}

Json Json::parse(const std::string& text) {
  Json json;
  json.tree_->value = nlohmann::ordered_json::parse(text.data(), text.data() + text.size());  // as the playground's requests: one parser
  return json;
}

void Json::push_back(Json value) { tree_->value.push_back(std::move(value.tree_->value)); }
void Json::add(const char* key, Json value) { tree_->value[key] = std::move(value.tree_->value); }

Json&& Json::with(const char* key, Json value) && {
  add(key, std::move(value));
  return std::move(*this);
}
Json&& Json::with(const char* key, bool value) && { return std::move(*this).with(key, Json(value)); }
Json&& Json::with(const char* key, std::int64_t value) && { return std::move(*this).with(key, Json(value)); }
Json&& Json::with(const char* key, double value) && { return std::move(*this).with(key, Json(value)); }
Json&& Json::with(const char* key, const char* text) && { return std::move(*this).with(key, Json(text)); }
Json&& Json::with(const char* key, std::string_view text) && { return std::move(*this).with(key, Json(text)); }

std::string Json::line() const { return tree_->value.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace); }
std::string Json::lines() const { return tree_->value.dump(1, ' ', true, nlohmann::ordered_json::error_handler_t::replace); }

}  // namespace phasor::figures
