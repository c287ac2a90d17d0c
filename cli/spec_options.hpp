// SPDX-License-Identifier: Apache-2.0
// Options that describe a rotary spec, shared by the commands that take one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "figures/spec_words.hpp"
#include "parser.hpp"
#include "phasor/rotary.hpp"
#include "uses.hpp"

namespace phasor::cli {

/// As typed; what was not given keeps the default of the library.
struct SpecOptions {
  std::optional<std::string> model;      // a model to take the encoding from
  std::optional<std::string> config;     // the same under another name
  std::optional<std::int64_t> layer;     // of that model (the first that rotates)
  std::optional<std::string> pairing;    // half, or what the model says
  std::optional<std::int64_t> head_dim;  // 128
  std::optional<std::int64_t> rotary_width;
  std::optional<double> base;
  std::optional<std::string> scaling;  // unscaled
  std::optional<double> factor;
  std::optional<double> alpha;
  std::optional<double> low_freq_factor;
  std::optional<double> high_freq_factor;
  std::optional<double> beta_fast;
  std::optional<double> beta_slow;
  std::optional<double> attention_factor;
  std::optional<std::int64_t> original_length;
  std::optional<std::int64_t> length;
  std::optional<double> mscale;
  std::optional<double> mscale_all_dim;
  std::optional<std::string> ramp;  // truncated
  std::optional<double> mixed_exponent;
  std::optional<double> share;
  std::optional<double> amplitude;
  std::vector<double> factors;  // lists: empty when not given
  std::vector<double> frequencies;
  std::vector<double> short_factors;
  std::vector<double> long_factors;
  std::optional<std::int64_t> rotary_offset;
  std::vector<std::int64_t> sections;
  std::optional<std::string> axis_order;   // chunked
  std::optional<std::string> axis_ladder;  // shared
  std::optional<std::int64_t> segments;    // 1
  std::optional<std::string> sense;        // counterclockwise
  std::string numerics = "exact";
};

/// `options` must outlive the parsing.
void add_spec_options(const Command& command, SpecOptions& options);

/// Throws UsageError (used wrongly) for an option that the chosen model or scaling does not take or misses, and
/// std::runtime_error for a model that cannot be read.
RotarySpec spec_of(const SpecOptions& options);

}  // namespace phasor::cli
