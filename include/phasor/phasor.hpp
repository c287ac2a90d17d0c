// SPDX-License-Identifier: Apache-2.0
// Everything a C++ user needs, in one include.
#pragma once

#include "phasor/additive.hpp"
#include "phasor/additive_properties.hpp"
#include "phasor/analysis.hpp"
#include "phasor/attention.hpp"
#include "phasor/bias.hpp"
#include "phasor/execution.hpp"
#include "phasor/fields.hpp"
#include "phasor/learned.hpp"
#include "phasor/model.hpp"
#include "phasor/position_builders.hpp"
#include "phasor/position_maps.hpp"
#include "phasor/positions.hpp"
#include "phasor/result.hpp"
#include "phasor/rotary.hpp"
#include "phasor/scheme.hpp"
#include "phasor/serialised.hpp"
#include "phasor/targets.hpp"
#include "phasor/tensor_view.hpp"
#include "phasor/weights.hpp"
