// SPDX-License-Identifier: Apache-2.0
// A scaling as JSON, by the same list of fields as the serialised form of a spec.
#include "web/core/spec_json.hpp"

#include "phasor/fields.hpp"

namespace phasor::web {
namespace {

struct Visit {
  Json& json;
  template <class T>
  void operator()(const char* name, const T& value) {
    if constexpr (std::is_enum_v<T>) {
      json.add(name, Json(values_of(std::type_identity<T>())[static_cast<std::size_t>(value)]));
    } else {
      json.add(name, Json(value));
    }
  }
  void operator()(const char* name, const std::optional<double>& value) { json.add(name, value ? Json(*value) : Json()); }
};

}  // namespace

Json scaling_json(const Scaling& scaling) {
  return std::visit(
      [](const auto& one) {
        Json json = Json::object().with("type", name_of(std::type_identity<std::remove_cvref_t<decltype(one)>>()));
        Visit visit{json};
        fields(visit, one);
        return json;
      },
      scaling);
}

}  // namespace phasor::web
