// SPDX-License-Identifier: Apache-2.0
// What the opaque types of the C API hold.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "model/positions.hpp"
#include "phasor/additive.hpp"
#include "phasor/analysis.hpp"
#include "phasor/bias.hpp"
#include "phasor/c/additive.h"
#include "phasor/c/analysis.h"
#include "phasor/c/bias.h"
#include "phasor/c/model.h"
#include "phasor/c/rotary.h"
#include "phasor/c/scheme.h"
#include "phasor/learned.hpp"
#include "phasor/model.hpp"
#include "phasor/rotary.hpp"
#include "phasor/scheme.hpp"
#include "phasor/weights.hpp"

struct phasor_rotary {
  phasor::Rotary value;
};

struct phasor_bias {
  phasor::Bias value;
};

struct phasor_sinusoidal {
  phasor::Sinusoidal value;
};

struct phasor_learned_table {
  phasor::LearnedTable value;
  std::int64_t shape[2];
  phasor_tensor tensor;  // of `value` and `shape`
};

struct phasor_model {
  explicit phasor_model(phasor::ModelPositions model) : value(std::move(model)), structs(value) {}
  phasor_model(const phasor_model&) = delete;  // the structs point into the value
  phasor_model& operator=(const phasor_model&) = delete;
  const phasor::ModelPositions value;
  const phasor::c::ModelStructs structs;
};
struct phasor_differences {
  std::vector<phasor::Difference> value;
};
struct phasor_permute_report {
  phasor::PermuteReport value;
};

struct phasor_planned_scalings {
  explicit phasor_planned_scalings(std::vector<phasor::PlannedScaling> plan);
  phasor_planned_scalings(const phasor_planned_scalings&) = delete;  // the scalings point into the value
  phasor_planned_scalings& operator=(const phasor_planned_scalings&) = delete;
  const std::vector<phasor::PlannedScaling> value;
  std::vector<phasor_scaling> scalings;
};

struct phasor_scheme {
  phasor::Attention value;
};
