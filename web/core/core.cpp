// SPDX-License-Identifier: Apache-2.0
// Finds the method of a request, and makes a response of whatever it gives or throws.
#include "web/core/core.hpp"

#include <fmt/core.h>

#include <exception>
#include <new>
#include <stdexcept>
#include <utility>

#include "phasor/targets.hpp"
#include "web/core/methods.hpp"

namespace phasor::web {
namespace {

Json version_of(Request& request, Blocks& blocks);

struct Named {
  const char* name;
  Method method;
};

constexpr Named kMethods[] = {
    {"version", version_of},
    {"presets", presets},
    {"model.read", model_read},
    {"model.diff", model_diff},
    {"model.export", model_export},
    {"spec.scaled", spec_scaled},
    {"spec.export", spec_export},
    {"pairs", pairs},
    {"pairs.cos_sin", pairs_cos_sin},
    {"pairs.forms", pairs_forms},
    {"pairs.matrix", pairs_matrix},
    {"plan", plan},
    {"decay", decay_of_specs},
    {"score_terms", terms_of_scores},
    {"precision", precision},
    {"precision.report", precision_reports},
    {"precision.pairs", precision_pairs},
    {"precision.distance", precision_distance},
    {"attention.schemes", attention_schemes},
    {"attention.weights", attention_map},
    {"attention.explain", attention_report},
    {"bias", bias_map},
    {"distances", distance_map},
    {"image.specs", image_specs},
    {"image.positions", image_positions},
    {"image.scores", image_scores},
    {"sinusoid", sinusoid},
    {"sinusoid.similarity", sinusoid_similarity},
    {"sinusoid.measure", sinusoid_measure},
    {"sinusoid.shift", sinusoid_shift},
    {"sinusoid.hierarchical", sinusoid_hierarchical},
    {"cache.shift", cache_shift},
    {"cache.dynamic", cache_dynamic},
    {"cache.longrope", cache_longrope},
    {"figure.decay", figure_decay},
    {"figure.scaling", figure_scaling},
    {"figure.error", figure_error},
    {"figure.bias", figure_bias},
};

Json version_of(Request& /*request*/, Blocks& /*blocks*/) {
  Json methods = Json::array();
  for (const Named& one : kMethods) methods.push_back(one.name);
  Json targets = Json::array();
  for (const std::string_view name : phasor::targets()) targets.push_back(name);
  return Json::object().with("version", version()).with("spec_version", spec_version).with("targets", targets).with("methods", methods);
}

Method find_method(const std::string& name) {
  for (const Named& one : kMethods) {
    if (name == one.name) return one.method;
  }
  throw RequestError{Status::invalid(fmt::format("method is \"{}\", which there is not; version lists all", name.substr(0, 40))), "method"};
}

const char* name_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::unsupported:
      return "unsupported";
    case ErrorKind::out_of_memory:
      return "out_of_memory";
    case ErrorKind::not_found:
      return "not_found";
    case ErrorKind::none:
    case ErrorKind::invalid:
      break;
  }
  return "invalid";
}

/// Figures name what is wrong as the tool's option: "--pairs: pair is 99". Here that is the member of the request.
RequestError without_option(RequestError error) {
  const std::string& message = error.status.message();
  const std::size_t colon = message.find(": ");
  if (message.rfind("--", 0) != 0 || colon == std::string::npos) return error;
  return {Status::invalid(message.substr(colon + 2)), message.substr(2, colon - 2)};
}

Response failed(const RequestError& thrown) {
  const RequestError error = without_option(thrown);
  const Json words =
      Json::object().with("message", error.status.message()).with("where", error.where).with("kind", name_of(error.status.kind()));
  return {.ok = false, .text = Json::object().with("error", words).line()};
}

Response answered(std::string_view text, std::span<const std::byte> attached) {
  Request request = Request::parse(text, attached);
  const Method method = find_method(request.text("method", ""));
  Response response;
  const Json result = method(request, response.blocks);
  request.finish();
  response.text = Json::object().with("result", result).line();
  return response;
}

}  // namespace

Response answer(std::string_view request, std::span<const std::byte> attached) {
  try {
    return answered(request, attached);
  } catch (const RequestError& error) {
    return failed(error);
  } catch (const std::bad_alloc&) {
    return failed({Status::out_of_memory(), ""});
  } catch (const std::length_error&) {
    return failed({Status::out_of_memory(), ""});
  } catch (const std::exception& error) {
    return failed({Status::invalid(error.what()), ""});
  }
}

}  // namespace phasor::web
