// SPDX-License-Identifier: Apache-2.0
// A bias plan as pointers and numbers: what jobs hold and formulas read, whatever the device. Pointers are host tables of the plan.
#pragma once

#include <cstdint>

#include "math/phase/phase.hpp"
#include "phasor/bias.hpp"
#include "plan/device_copies.hpp"

namespace phasor::plan {

struct BiasPlan;

/// Which row of a table a distance reads.
struct RowRule {
  enum class Kind : std::uint8_t { none, t5, deberta, deberta_clip, shaw, window };
  Kind kind = Kind::none;
  bool both = false;                         // T5: keys ahead have buckets of their own
  bool cut = false;                          // DeBERTa: distances are first cut to max_distance - 1 (Microsoft's reading)
  std::int64_t buckets = 0;                  // of T5: of one side
  std::int64_t max_distance = 0;             // DeBERTa
  std::int64_t mid = 0;                      // DeBERTa: up to here a distance is its own bucket
  bool rising = true;                        // DeBERTa: buckets beyond mid rise with the distance
  const std::int64_t* thresholds = nullptr;  // T5, DeBERTa: where buckets begin (buckets.hpp)
  std::int64_t threshold_count = 0;
  std::int64_t left = 0;  // Shaw
  std::int64_t right = 0;
  std::int64_t rows = 0;  // of a window
};

struct MlpSource {
  const std::int64_t* widths = nullptr;
  std::int64_t width_count = 0;
  const double* parameters = nullptr;
  std::int64_t parameter_count = 0;
  Activation activation = Activation::relu;
};

/// FIRE's psi and what divides it.
struct FireCurve {
  double c = 0;
  double length = 0;
  double epsilon = 0;
};
inline FireCurve curve_of(const Fire& fire) { return {fire.c, fire.length, fire.epsilon}; }

struct BiasSource {
  /// Of the specs; those with a table of rows are one.
  enum class Scheme : std::uint8_t { alibi, table, kerple, sandwich, fire, dynamic_mlp, swin_v2 };
  Scheme scheme = Scheme::alibi;
  std::int64_t heads = 0;
  std::int64_t rows = 0;
  AlibiForm form = AlibiForm::symmetric;
  SlopeRounding rounding = SlopeRounding::float64;  // Alibi: of slopes that come with a call
  const double* slopes = nullptr;                   // Alibi: (heads)
  const double* table = nullptr;                    // (heads, rows); null: zeros
  RowRule row;                                      // of a table
  KerpleKind kerple = KerpleKind::logarithmic;
  const double* r1 = nullptr;  // Kerple: (heads), and so is r2
  const double* r2 = nullptr;
  const math::Step* steps = nullptr;  // Sandwich
  std::int64_t step_count = 0;
  MlpSource mlp;
  FireCurve fire;
  DistanceScale scale = DistanceScale::linear;  // DynamicMlp
  Window window;                                // 0 x 0: none
  Window trained;                               // SwinV2
  const DeviceCopies* copies = nullptr;         // where devices keep the tables; null: they are not a plan's
};

/// The plan must outlive what comes out.
BiasSource source_of(const BiasPlan& plan);

}  // namespace phasor::plan
