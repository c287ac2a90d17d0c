/* SPDX-License-Identifier: Apache-2.0
 * Biases on attention scores: a spec per published scheme, made ready, filled, indexed, differentiated. phasor/bias.hpp has the formulas.
 */
#pragma once

#include "phasor/c/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Spec: one kind per published scheme; fields of other kinds stay 0. Tables are (heads, rows), row by row. ---- */

typedef int32_t phasor_bias_kind;
enum {
  PHASOR_BIAS_ALIBI = 0,       /* heads, slopes, max_bias, form, rounding */
  PHASOR_BIAS_T5 = 1,          /* heads, buckets, max_distance, sides, table */
  PHASOR_BIAS_DEBERTA = 2,     /* heads, buckets, max_distance, reading, table */
  PHASOR_BIAS_SHAW_CLIP = 3,   /* heads, left, right, table */
  PHASOR_BIAS_KERPLE = 4,      /* kerple, r1, r2 */
  PHASOR_BIAS_SANDWICH = 5,    /* heads, width, base */
  PHASOR_BIAS_FIRE = 6,        /* mlp, c, length, epsilon */
  PHASOR_BIAS_DYNAMIC_MLP = 7, /* mlp, scale */
  PHASOR_BIAS_SWIN = 8,        /* heads, window, table */
  PHASOR_BIAS_SWIN_V2 = 9      /* window, trained, mlp */
};
typedef int32_t phasor_alibi_form;
enum { PHASOR_ALIBI_SYMMETRIC = 0, PHASOR_ALIBI_CAUSAL = 1, PHASOR_ALIBI_KEY_POSITION = 2 };
typedef int32_t phasor_slope_rounding;
enum { PHASOR_SLOPES_FLOAT64 = 0, PHASOR_SLOPES_BF16 = 1 };
typedef int32_t phasor_bucket_sides;
enum { PHASOR_BUCKETS_BOTH = 0, PHASOR_BUCKETS_BEHIND = 1 };
typedef int32_t phasor_deberta_reading;
enum { PHASOR_DEBERTA_HF = 0, PHASOR_DEBERTA_MICROSOFT = 1, PHASOR_DEBERTA_HF_SWAPPED = 2 };
typedef int32_t phasor_kerple_kind;
enum { PHASOR_KERPLE_LOGARITHMIC = 0, PHASOR_KERPLE_POWER = 1 };
typedef int32_t phasor_distance_scale;
enum { PHASOR_DISTANCES_LINEAR = 0, PHASOR_DISTANCES_LOGARITHMIC = 1 };
typedef int32_t phasor_activation;
enum { PHASOR_RELU = 0, PHASOR_SILU = 1 };

/* A perceptron: widths of the input, each hidden layer, and the heads; layer by layer W (out, in), then b (out). */
typedef struct phasor_mlp {
  const int64_t* widths;
  size_t width_count;
  const double* parameters;
  size_t parameter_count;
  phasor_activation activation;
  int32_t reserved;
} phasor_mlp;

/* A window of tokens: the one at (y, x) has position y (2 width - 1) + x. */
typedef struct phasor_window {
  int64_t height;
  int64_t width;
} phasor_window;

typedef struct phasor_bias_spec {
  size_t size; /* sizeof(phasor_bias_spec) */
  phasor_bias_kind kind;
  phasor_alibi_form form;
  phasor_slope_rounding rounding;
  phasor_bucket_sides sides;
  phasor_deberta_reading reading;
  phasor_kerple_kind kerple;
  phasor_distance_scale scale;
  int32_t has_buckets; /* 0: 32 (T5), 256 (DeBERTa) */
  int64_t buckets;     /* of DeBERTa 0: v1 */
  int64_t heads;
  int64_t max_distance; /* 0: 128 (T5), 512 (DeBERTa) */
  int64_t left;
  int64_t right;
  int64_t width;        /* 0: 128 */
  double base;          /* 0: 10000 */
  double max_bias;      /* 0: 8 */
  double c;             /* 0: 0.1 */
  double length;        /* 0: 512 */
  double epsilon;       /* added to FIRE's denominator */
  const double* slopes; /* given, one for each head; NULL: by the formula */
  size_t slope_count;
  const double* table; /* NULL: zeros */
  size_t table_count;
  const double* r1; /* one for each head, above 0 */
  size_t r1_count;
  const double* r2;
  size_t r2_count;
  phasor_mlp mlp;
  phasor_window window;
  phasor_window trained; /* 0 x 0: window */
} phasor_bias_spec;

/* ---- A spec made ready ---- */

typedef struct phasor_bias phasor_bias;

PHASOR_API phasor_status phasor_bias_make(const phasor_bias_spec* spec, phasor_bias** bias, phasor_error* error);
/* From the serialised spec, JSON or CBOR (docs/spec-format.md). */
PHASOR_API phasor_status phasor_bias_from_json(const char* text, size_t length, phasor_bias** bias, phasor_error* error);
PHASOR_API phasor_status phasor_bias_from_cbor(const uint8_t* bytes, size_t count, phasor_bias** bias, phasor_error* error);
/* The same scheme with other parameters, as many as phasor_bias_parameter_count: cheap enough for every training step. */
PHASOR_API phasor_status phasor_bias_with_parameters(const phasor_bias* bias, const double* parameters, size_t count, phasor_bias** made,
                                                     phasor_error* error);
PHASOR_API void phasor_bias_free(phasor_bias* bias);

PHASOR_API phasor_status phasor_bias_to_json(const phasor_bias* bias, phasor_text* text, phasor_error* error);
PHASOR_API phasor_status phasor_bias_to_cbor(const phasor_bias* bias, phasor_bytes* bytes, phasor_error* error);
/* Fills *spec, whose size is set. Its lists are the bias's and live as long as it. */
PHASOR_API phasor_status phasor_bias_get_spec(const phasor_bias* bias, phasor_bias_spec* spec, phasor_error* error);
PHASOR_API int64_t phasor_bias_heads(const phasor_bias* bias);
/* ALiBi: slopes (H); tables: (H, rows); KERPLE: r1 (H), r2 (H); mlp: its parameters; FIRE: those, c, length; Sandwich: none. */
PHASOR_API int64_t phasor_bias_parameter_count(const phasor_bias* bias);
/* Slopes in use; 0 of them but for ALiBi. */
PHASOR_API const double* phasor_bias_slopes(const phasor_bias* bias, size_t* count);
/* Rows of a table; 0 for schemes without one. */
PHASOR_API int64_t phasor_bias_rows(const phasor_bias* bias);
/* The row of the table that a distance reads; -1 for schemes without one, outside a window, and for a NULL bias. */
PHASOR_API int64_t phasor_bias_row(const phasor_bias* bias, int64_t distance);

/* ---- Values. Heads of a tensor are first_head, first_head + 1, ... of the spec (tensor parallelism). ---- */

/* Fills out (1, heads, 1, N), or (heads, N), with the biases at first_distance, first_distance + 1, ...; distance is query - key. */
typedef struct phasor_bias_diagonal_call {
  size_t size; /* sizeof(phasor_bias_diagonal_call) */
  const phasor_tensor* out;
  int64_t first_distance;
  int64_t first_head;
  int64_t query_position; /* FIRE: whose diagonal; every query up to `length` has the same */
  phasor_execution execution;
} phasor_bias_diagonal_call;
PHASOR_API phasor_status phasor_bias_diagonal(const phasor_bias* bias, const phasor_bias_diagonal_call* call, phasor_error* error);

/* Fills out (B, heads, Tq, Tk), a whole or a tile, from the positions of its queries and keys. */
typedef struct phasor_bias_fill_call {
  size_t size; /* sizeof(phasor_bias_fill_call) */
  const phasor_tensor* out;
  phasor_positions queries;
  phasor_positions keys;
  int64_t first_head;
  phasor_execution execution;
} phasor_bias_fill_call;
PHASOR_API phasor_status phasor_bias_fill(const phasor_bias* bias, const phasor_bias_fill_call* call, phasor_error* error);

/* Adds the gradient of the parameters to `sum`, one number for each, f32 or f64, from that of the diagonal, (1, heads, 1, N). */
typedef struct phasor_bias_gradient_call {
  size_t size; /* sizeof(phasor_bias_gradient_call) */
  const phasor_tensor* sum;
  const phasor_tensor* diagonal;
  int64_t first_distance;
  int64_t first_head;
  int64_t query_position;
  phasor_execution execution;
} phasor_bias_gradient_call;
PHASOR_API phasor_status phasor_bias_gradient(const phasor_bias* bias, const phasor_bias_gradient_call* call, phasor_error* error);

/* ---- Inputs of such schemes ---- */

/* Fills out (height width) with the positions of a window's tokens, row by row. */
PHASOR_API phasor_status phasor_fill_window(const phasor_tensor* out, const phasor_window* window, phasor_error* error);

typedef int32_t phasor_xl_order;
enum { PHASOR_XL_HALVES = 0, PHASOR_XL_INTERLEAVED = 1 };
typedef struct phasor_xl_sinusoids {
  size_t size; /* sizeof(phasor_xl_sinusoids) */
  int64_t width;
  double base;   /* 0: 10000 */
  int64_t clamp; /* distances are cut to -clamp ... clamp; 0: not */
  phasor_xl_order order;
  int32_t reserved;
} phasor_xl_sinusoids;
/* Fills out (B, N, 1, width), or (N, width), with the row of each distance, in any order: what Transformer-XL and XLNet project. */
PHASOR_API phasor_status phasor_fill_xl_sinusoids(const phasor_tensor* out, const phasor_xl_sinusoids* spec, phasor_positions distances,
                                                  phasor_error* error);

#ifdef __cplusplus
}
#endif
