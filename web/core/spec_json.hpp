// SPDX-License-Identifier: Apache-2.0
// Specs and texts as members of responses.
#pragma once

#include <string>

#include "web/core/blocks.hpp"
#include "web/core/request.hpp"

namespace phasor::web {

/// As serialised: what is as by default is not there. A spec that came out of the library is valid, and has a text.
template <class Spec>
Json spec_json(const Spec& spec) {
  return Json::parse(value_of(spec_to_json(spec), "spec"));
}

/// A scaling alone, as a spec has it: {"type": "LinearScaling", "factor": 4}.
Json scaling_json(const Scaling& scaling);

/// {"text"}, or {"error"} with the library's words.
inline Json text_or_error(const Result<std::string>& text) {
  return text.ok() ? Json::object().with("text", *text) : Json::object().with("error", text.status().message());
}

}  // namespace phasor::web
