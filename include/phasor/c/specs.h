/* SPDX-License-Identifier: Apache-2.0
 * What a rotary encoding is, as values: phasor/rotary.hpp has the formulas. Lists are (pointer, count), the caller's memory. */
#pragma once

#include "phasor/c/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Scaling: one kind per published method; fields of other kinds stay 0. ---- */

typedef int32_t phasor_scaling_kind;
enum {
  PHASOR_SCALING_NONE = 0,
  PHASOR_SCALING_LINEAR = 1,             /* factor */
  PHASOR_SCALING_NTK = 2,                /* alpha */
  PHASOR_SCALING_NTK_MIXED = 3,          /* factor, mixed_exponent */
  PHASOR_SCALING_DYNAMIC_NTK = 4,        /* factor, trained_length, length */
  PHASOR_SCALING_YARN = 5,               /* factor, original_length, beta_*, ramp, attention_factor, mscale, mscale_all_dim, softmax */
  PHASOR_SCALING_LONG_ROPE = 6,          /* short_factors, long_factors, original_length, factor, attention_factor, choice, length */
  PHASOR_SCALING_LLAMA3 = 7,             /* factor, low_freq_factor, high_freq_factor, original_length */
  PHASOR_SCALING_PROPORTIONAL = 8,       /* factor, share */
  PHASOR_SCALING_GIVEN_FACTORS = 9,      /* values, amplitude */
  PHASOR_SCALING_GIVEN_FREQUENCIES = 10, /* values, amplitude */
  PHASOR_SCALING_GIVEN_DIRECTIONS = 11   /* axes, heads, values: (axes, heads, R/2) */
};
typedef int32_t phasor_yarn_ramp;
enum { PHASOR_RAMP_TRUNCATED = 0, PHASOR_RAMP_EXACT = 1 };
typedef int32_t phasor_yarn_softmax;
enum { PHASOR_SOFTMAX_MSCALE_ALL_DIM_SQUARED = 0, PHASOR_SOFTMAX_UNCHANGED = 1 };
typedef int32_t phasor_long_rope_choice;
enum { PHASOR_FACTORS_BY_LENGTH = 0, PHASOR_FACTORS_SHORT = 1, PHASOR_FACTORS_LONG = 2 };

typedef struct phasor_scaling {
  size_t size; /* sizeof(phasor_scaling) */
  phasor_scaling_kind kind;
  phasor_yarn_ramp ramp;
  phasor_yarn_softmax softmax;
  phasor_long_rope_choice choice;
  double factor; /* 0: 1; Llama 3: 8 */
  double alpha;  /* 0: 1 */
  double mixed_exponent;
  int32_t has_mixed_exponent; /* 0: the first of Su's two corrections */
  int32_t has_attention_factor;
  int32_t has_mscale;
  int32_t has_mscale_all_dim;
  double attention_factor;
  double mscale;
  double mscale_all_dim;
  double beta_fast;        /* 0: 32 */
  double beta_slow;        /* 0: 1 */
  double low_freq_factor;  /* 0: 1 */
  double high_freq_factor; /* 0: 4 */
  int64_t original_length; /* 0: 8192 for Llama 3, else needed */
  int64_t trained_length;  /* needed */
  int64_t length;          /* 0: trained_length (dynamic NTK); LongRoPE by length: needed */
  double share;
  int32_t has_share; /* 0: 1 */
  int32_t reserved;
  double amplitude; /* 0: 1 */
  const double* short_factors;
  size_t short_factor_count;
  const double* long_factors;
  size_t long_factor_count;
  const double* values;
  size_t value_count;
  int64_t axes;  /* 0: 2 */
  int64_t heads; /* 0: 1 */
} phasor_scaling;

/* ---- Axes of a multi-dimensional position ---- */

typedef int32_t phasor_axis_order;
enum { PHASOR_AXES_CHUNKED = 0, PHASOR_AXES_INTERLEAVED = 1, PHASOR_AXES_ALTERNATING = 2, PHASOR_AXES_GIVEN = 3 };
typedef int32_t phasor_axis_ladder;
enum { PHASOR_LADDER_SHARED = 0, PHASOR_LADDER_OWN = 1, PHASOR_LADDER_DEALT = 2 };

typedef struct phasor_axes {
  const int64_t* sections; /* pairs of each axis; NULL: one axis */
  size_t section_count;
  const uint8_t* axis_of_pair; /* for PHASOR_AXES_GIVEN */
  size_t axis_of_pair_count;
  phasor_axis_order order;
  phasor_axis_ladder ladder;
} phasor_axes;

/* ---- Rotary ---- */

typedef int32_t phasor_pairing;
enum { PHASOR_PAIRING_HALF = 0, PHASOR_PAIRING_INTERLEAVED = 1 };
typedef int32_t phasor_sense;
enum { PHASOR_COUNTERCLOCKWISE = 0, PHASOR_CLOCKWISE = 1 };
typedef int32_t phasor_lanes;
enum { PHASOR_LANES_ALIKE = 0, PHASOR_LANES_PER_CHANNEL_FREQUENCIES = 1 };
typedef int32_t phasor_frequency_unit;
enum { PHASOR_RADIANS = 0, PHASOR_TURNS = 1 };
typedef int32_t phasor_numerics;
enum {
  PHASOR_NUMERICS_EXACT = 0,
  PHASOR_NUMERICS_HF = 1,
  PHASOR_NUMERICS_HF_FLOAT32 = 2,
  PHASOR_NUMERICS_VLLM = 3,
  PHASOR_NUMERICS_GGML = 4
};

typedef struct phasor_rotary_spec {
  size_t size; /* sizeof(phasor_rotary_spec) */
  int64_t head_dim;
  int64_t rotary_width;  /* 0: head_dim */
  int64_t rotary_offset; /* first rotated channel */
  double base;           /* 0: 10000 */
  phasor_pairing pairing;
  phasor_pairing output_pairing;
  int32_t has_output_pairing; /* 0: as `pairing` */
  phasor_sense sense;
  int64_t segments; /* 0: 1 */
  phasor_lanes lanes;
  phasor_frequency_unit unit;
  phasor_numerics numerics;
  int32_t reserved;
  phasor_axes axes;
  const phasor_scaling* scaling; /* NULL: unscaled */
} phasor_rotary_spec;

#ifdef __cplusplus
}
#endif
