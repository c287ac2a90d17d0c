// SPDX-License-Identifier: Apache-2.0
// The methods of the core: each reads its members of the request and gives the result as JSON, long lists as blocks. API.md says what.
#pragma once

#include "web/core/blocks.hpp"
#include "web/core/request.hpp"

namespace phasor::web {

using Method = Json (*)(Request& request, Blocks& blocks);

/// A block of zeros and more, so that a method cannot be made to fill the memory.
inline constexpr std::int64_t kMostTokens = 4096;
inline constexpr std::int64_t kMostCells = 512;  // of a map, each way

// methods/models.cpp
Json presets(Request& request, Blocks& blocks);
Json model_read(Request& request, Blocks& blocks);
Json model_diff(Request& request, Blocks& blocks);
Json model_export(Request& request, Blocks& blocks);
// methods/specs.cpp
Json spec_scaled(Request& request, Blocks& blocks);
Json spec_export(Request& request, Blocks& blocks);
// methods/pairs.cpp
Json pairs(Request& request, Blocks& blocks);
Json pairs_cos_sin(Request& request, Blocks& blocks);
Json pairs_forms(Request& request, Blocks& blocks);
Json pairs_matrix(Request& request, Blocks& blocks);
// methods/scores.cpp
Json plan(Request& request, Blocks& blocks);
Json decay_of_specs(Request& request, Blocks& blocks);
Json terms_of_scores(Request& request, Blocks& blocks);
// methods/precision.cpp
Json precision(Request& request, Blocks& blocks);
Json precision_reports(Request& request, Blocks& blocks);
Json precision_pairs(Request& request, Blocks& blocks);
Json precision_distance(Request& request, Blocks& blocks);
// methods/schemes.cpp
Json attention_schemes(Request& request, Blocks& blocks);
// methods/attention.cpp
Json attention_map(Request& request, Blocks& blocks);
Json attention_report(Request& request, Blocks& blocks);
// methods/maps.cpp
Json bias_map(Request& request, Blocks& blocks);
Json distance_map(Request& request, Blocks& blocks);
// methods/images.cpp
Json image_specs(Request& request, Blocks& blocks);
Json image_positions(Request& request, Blocks& blocks);
Json image_scores(Request& request, Blocks& blocks);
// methods/sinusoids.cpp
Json sinusoid(Request& request, Blocks& blocks);
Json sinusoid_similarity(Request& request, Blocks& blocks);
Json sinusoid_measure(Request& request, Blocks& blocks);
Json sinusoid_shift(Request& request, Blocks& blocks);
Json sinusoid_hierarchical(Request& request, Blocks& blocks);
// methods/cache.cpp
Json cache_shift(Request& request, Blocks& blocks);
Json cache_dynamic(Request& request, Blocks& blocks);
Json cache_longrope(Request& request, Blocks& blocks);
// methods/figures.cpp
Json figure_decay(Request& request, Blocks& blocks);
Json figure_scaling(Request& request, Blocks& blocks);
Json figure_error(Request& request, Blocks& blocks);
Json figure_bias(Request& request, Blocks& blocks);

}  // namespace phasor::web
