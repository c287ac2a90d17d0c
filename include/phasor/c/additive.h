/* SPDX-License-Identifier: Apache-2.0
 * Encodings that are added to tokens: sinusoids, learned tables, their gradients and properties. phasor/additive.hpp, learned.hpp and
 * additive_properties.hpp have the contracts. */
#pragma once

#include "phasor/c/base.h"
#include "phasor/c/specs.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Sinusoids: the spec. Fields of other ladders stay 0. ---- */

/* The frequencies of the P pairs of an axis, i from 0. */
typedef int32_t phasor_sinusoid_ladder;
enum {
  PHASOR_SINUSOID_LADDER_GEOMETRIC = 0,  /* base^(-i / (P - shift)): base, shift */
  PHASOR_SINUSOID_LADDER_LOG_SPACED = 1, /* fastest (slowest / fastest)^(i / (P - 1)): fastest, slowest */
  PHASOR_SINUSOID_LADDER_BANDS = 2,      /* pi times P numbers from 1 to highest / 2: highest, spacing */
  PHASOR_SINUSOID_LADDER_GIVEN = 3       /* frequencies, of several axes one after the other */
};
typedef int32_t phasor_band_spacing;
enum { PHASOR_BANDS_EVEN = 0, PHASOR_BANDS_RATIO = 1 };
/* Where the sines and cosines of an axis lie. */
typedef int32_t phasor_sinusoid_order;
enum { PHASOR_SINUSOID_ORDER_INTERLEAVED = 0, PHASOR_SINUSOID_ORDER_SIN_COS = 1, PHASOR_SINUSOID_ORDER_COS_SIN = 2 };
/* What the last channel of an odd width is: nothing, or half of a pair. */
typedef int32_t phasor_odd_channel;
enum { PHASOR_ODD_ZERO = 0, PHASOR_ODD_UNPAIRED = 1 };

typedef struct phasor_sinusoidal_spec {
  size_t size; /* sizeof(phasor_sinusoidal_spec) */
  int64_t width;
  phasor_sinusoid_ladder ladder;
  phasor_sinusoid_order order;
  phasor_odd_channel odd;
  phasor_frequency_unit unit;
  phasor_band_spacing spacing;
  int32_t has_zero_position;
  int64_t zero_position; /* whose encoding is 0 */
  double base;           /* 0: 10000 */
  double shift;
  double fastest; /* 0: 1 */
  double slowest; /* 0: 1e-4 */
  double highest; /* 0: 224 */
  const double* frequencies;
  size_t frequency_count;
  const int64_t* axis_widths; /* channels of each axis; NULL: one axis */
  size_t axis_width_count;
  double position_scale; /* on every position; 0: 1 */
  double amplitude;      /* on every value; 0: 1 */
} phasor_sinusoidal_spec;

/* ---- Sinusoids: a spec made ready ---- */

typedef struct phasor_sinusoidal phasor_sinusoidal;

PHASOR_API phasor_status phasor_sinusoidal_make(const phasor_sinusoidal_spec* spec, phasor_sinusoidal** sinusoidal, phasor_error* error);
/* From the serialised spec, JSON or CBOR (docs/spec-format.md). */
PHASOR_API phasor_status phasor_sinusoidal_from_json(const char* text, size_t length, phasor_sinusoidal** sinusoidal, phasor_error* error);
PHASOR_API phasor_status phasor_sinusoidal_from_cbor(const uint8_t* bytes, size_t count, phasor_sinusoidal** sinusoidal,
                                                     phasor_error* error);
PHASOR_API void phasor_sinusoidal_free(phasor_sinusoidal* sinusoidal);

PHASOR_API phasor_status phasor_sinusoidal_to_json(const phasor_sinusoidal* sinusoidal, phasor_text* text, phasor_error* error);
PHASOR_API phasor_status phasor_sinusoidal_to_cbor(const phasor_sinusoidal* sinusoidal, phasor_bytes* bytes, phasor_error* error);
/* Fills *spec, whose size is set. Its lists are the sinusoidal's and live as long as it. */
PHASOR_API phasor_status phasor_sinusoidal_get_spec(const phasor_sinusoidal* sinusoidal, phasor_sinusoidal_spec* spec, phasor_error* error);
PHASOR_API int64_t phasor_sinusoidal_axes(const phasor_sinusoidal* sinusoidal);
/* Radians per position, axis by axis; NULL and 0 for a NULL sinusoidal. */
PHASOR_API const double* phasor_sinusoidal_frequencies(const phasor_sinusoidal* sinusoidal, size_t* count);

/* Tensors are (B, T, 1, D), or (T, D). */
typedef struct phasor_sinusoidal_call {
  size_t size;              /* sizeof(phasor_sinusoidal_call) */
  const phasor_tensor* x;   /* what is added to; phasor_sinusoidal_fill: NULL */
  const phasor_tensor* out; /* NULL: in place; phasor_sinusoidal_fill: needed */
  phasor_positions positions;
  double amplitude; /* instead of the spec's: a scale that is being learned */
  int32_t has_amplitude;
  int32_t reserved;
  phasor_execution execution;
} phasor_sinusoidal_call;
/* Writes the encoding of every token to out. */
PHASOR_API phasor_status phasor_sinusoidal_fill(const phasor_sinusoidal* sinusoidal, const phasor_sinusoidal_call* call,
                                                phasor_error* error);
/* x + encoding in one pass. */
PHASOR_API phasor_status phasor_sinusoidal_add(const phasor_sinusoidal* sinusoidal, const phasor_sinusoidal_call* call,
                                               phasor_error* error);
/* The gradient by the amplitude: the sum of gradient (B, T, 1, D) times the encoding of amplitude 1. */
PHASOR_API phasor_status phasor_sinusoidal_amplitude_gradient(const phasor_sinusoidal* sinusoidal, const phasor_tensor* gradient,
                                                              phasor_positions positions, double* sum, phasor_error* error);

/* ---- Shift operators: what turns an encoding into the one some distance further on ---- */

typedef struct phasor_shift_pair {
  int64_t sin_channel;
  int64_t cos_channel;
  double cos; /* of distance * frequency */
  double sin;
} phasor_shift_pair;
typedef struct phasor_shift_operator {
  size_t size; /* sizeof(phasor_shift_operator) */
  int64_t width;
  phasor_shift_pair* pairs; /* the caller's memory */
  size_t capacity;          /* width / 2 are enough */
  size_t count;
} phasor_shift_operator;
/* One distance, or one for each axis. Fills *shift, whose size, pairs and capacity are set. */
PHASOR_API phasor_status phasor_sinusoidal_shift(const phasor_sinusoidal* sinusoidal, const double* distances, size_t count,
                                                 phasor_shift_operator* shift, phasor_error* error);
/* to = T from, `width` numbers each; in place too. */
PHASOR_API phasor_status phasor_apply_shift(const phasor_shift_operator* shift, const double* from, double* to, size_t width,
                                            phasor_error* error);
/* T as a dense (width, width) matrix, row by row. */
PHASOR_API phasor_status phasor_matrix_of(const phasor_shift_operator* shift, phasor_doubles* matrix, phasor_error* error);

/* ---- Learned tables: (1, N, 1, D), or (N, D) ---- */

/* x (B, T, 1, D) plus a row for each token, of one table, or of one for each axis of the positions, one after the other. */
typedef struct phasor_lookup {
  size_t size; /* sizeof(phasor_lookup) */
  const phasor_tensor* x;
  const phasor_tensor* out; /* NULL: in place */
  const phasor_tensor* const* tables;
  size_t table_count;
  phasor_positions positions; /* integers */
  int64_t offset;             /* added to every position */
  phasor_execution execution;
} phasor_lookup;
PHASOR_API phasor_status phasor_lookup_add(const phasor_lookup* lookup, phasor_error* error);

/* Every row of table_gradient gains the sum of the gradients of its tokens. */
typedef struct phasor_scatter {
  size_t size; /* sizeof(phasor_scatter) */
  const phasor_tensor* table_gradient;
  const phasor_tensor* gradient;
  phasor_positions positions;
  int64_t offset;
  int64_t padding_row; /* gets no gradient */
  int32_t has_padding_row;
  int32_t reserved;
  phasor_execution execution;
} phasor_scatter;
PHASOR_API phasor_status phasor_scatter_gradient(const phasor_scatter* scatter, phasor_error* error);

/* Up to n^2 rows from a table of n, of which the first n are the table's; alpha in (0, 1), not 1/2; 0: 0.4. */
PHASOR_API phasor_status phasor_fill_hierarchical(const phasor_tensor* out, const phasor_tensor* table, double alpha, phasor_error* error);

typedef int32_t phasor_resampling_kernel;
enum { PHASOR_RESAMPLING_CUBIC = 0, PHASOR_RESAMPLING_LINEAR = 1 };
typedef struct phasor_resampling {
  size_t size; /* sizeof(phasor_resampling) */
  phasor_resampling_kernel kernel;
  int32_t align_corners; /* 1: the first and last rows stay */
} phasor_resampling;
/* A table of a grid, (rows, columns, 1, D), to one of another size, or (N, D) to (M, D). resampling NULL: the defaults. */
PHASOR_API phasor_status phasor_resample_table(const phasor_tensor* out, const phasor_tensor* table, const phasor_resampling* resampling,
                                               phasor_error* error);

/* A table read from a file. */
typedef struct phasor_learned_table phasor_learned_table;
/* A tensor (N, D), or (1, ..., N, D), of a safetensors file by its name. PHASOR_NOT_FOUND: no such file. */
PHASOR_API phasor_status phasor_read_learned_table(const char* path, const char* tensor, phasor_learned_table** table, phasor_error* error);
PHASOR_API void phasor_learned_table_free(phasor_learned_table* table);
/* (N, D), to be read only; lives as long as the table. NULL for a NULL table. */
PHASOR_API const phasor_tensor* phasor_learned_table_tensor(const phasor_learned_table* table);

/* ---- Positions made for learned tables ---- */

/* Abacus: the n-th digit of a run of digits is at n + offset (n from 1), every other token at 0. */
typedef struct phasor_abacus_tokens {
  size_t size;                    /* sizeof(phasor_abacus_tokens) */
  const phasor_tensor* input_ids; /* (B, T) */
  const phasor_tensor* digits;    /* the token ids of the digits */
  int64_t offset;
} phasor_abacus_tokens;
PHASOR_API phasor_status phasor_fill_abacus(const phasor_tensor* out, const phasor_abacus_tokens* tokens, phasor_error* error);

/* DETR's pixels: row, then column (axes 2), counted from 1 over what is not padding. */
typedef struct phasor_detr_grid {
  size_t size; /* sizeof(phasor_detr_grid) */
  int64_t rows;
  int64_t columns;
  const phasor_tensor* mask; /* (B, rows, columns), 1 where there is an image; NULL: everywhere */
  int32_t normalised;        /* 1: divided by the last one + 1e-6 of its line; out is float64 */
  int32_t reserved;
} phasor_detr_grid;
PHASOR_API phasor_status phasor_fill_detr(const phasor_tensor* out, const phasor_detr_grid* grid, phasor_error* error);

/* ---- Properties of encodings, measured on their values ---- */

typedef int32_t phasor_encoding_kind;
enum {
  PHASOR_ENCODING_SINUSOIDAL = 0,   /* sinusoidal */
  PHASOR_ENCODING_LEARNED = 1,      /* table */
  PHASOR_ENCODING_RAW_INDEX = 2,    /* the position itself */
  PHASOR_ENCODING_SCALED_INDEX = 3, /* the position / (length - 1) */
  PHASOR_ENCODING_BINARY = 4,       /* width: its binary digits, the highest first */
  PHASOR_ENCODING_GIVEN = 5         /* width, row, context, name */
};
/* An encoding as a function: the row of `width` values of a position in a sequence of some length. */
typedef struct phasor_encoding_rows {
  size_t size; /* sizeof(phasor_encoding_rows) */
  phasor_encoding_kind kind;
  int32_t reserved;
  const phasor_sinusoidal* sinusoidal;
  const phasor_tensor* table;
  int64_t width;
  const char* name; /* NULL: "" */
  /* Fills `row`; another status than PHASOR_OK: there is no encoding there, and *error may say why. */
  phasor_status (*row)(void* context, int64_t position, int64_t length, double* row, phasor_error* error);
  void* context;
} phasor_encoding_rows;
PHASOR_API phasor_status phasor_encoding_name(const phasor_encoding_rows* encoding, phasor_text* name, phasor_error* error);
PHASOR_API phasor_status phasor_encoding_width(const phasor_encoding_rows* encoding, int64_t* width, phasor_error* error);
PHASOR_API phasor_status phasor_encoding_row(const phasor_encoding_rows* encoding, int64_t position, int64_t length, phasor_doubles* row,
                                             phasor_error* error);

typedef struct phasor_encoding_properties {
  size_t size;                   /* sizeof(phasor_encoding_properties) */
  double smallest_gap;           /* Euclidean distance of the two encodings that are nearest to each other */
  double largest;                /* magnitude of a value */
  double growth;                 /* of `largest` at positions up to 2^20 times as far, where there are encodings */
  double relative_defect;        /* largest change of <p_m, p_(m + distance)> with m, in parts of the largest <p_m, p_m> */
  int32_t unique;                /* smallest_gap is above 0 */
  int32_t independent_of_length; /* a sequence twice as long has the same rows, bit for bit */
  int32_t bounded;               /* growth is below 2 */
  int32_t relative;              /* there is no defect but rounding */
  int32_t defined_beyond;        /* positions beyond the trained length have encodings */
  int32_t reserved;
} phasor_encoding_properties;
typedef struct phasor_measure_call {
  size_t size; /* sizeof(phasor_measure_call) */
  const phasor_encoding_rows* encoding;
  int64_t length;         /* 2 to 4096 */
  int64_t trained_length; /* 0: length */
} phasor_measure_call;
/* Fills *properties, whose size is set, and alternations (NULL: not wanted), for each channel: crossings of the middle of its range per
 * position. */
PHASOR_API phasor_status phasor_measure_encoding(const phasor_measure_call* call, phasor_encoding_properties* properties,
                                                 phasor_doubles* alternations, phasor_error* error);

typedef struct phasor_adding_call {
  size_t size; /* sizeof(phasor_adding_call) */
  const double* x;
  const double* encoding;
  size_t width;          /* of both */
  const double* weights; /* W (width, outputs) */
  size_t weight_count;
} phasor_adding_call;
/* (x + p) W, and the concatenation of x and p times W stacked on itself: the same but for rounding. `extra_parameters` (NULL: not wanted):
 * those of a concatenation whose weights are not shared. */
PHASOR_API phasor_status phasor_compare_adding(const phasor_adding_call* call, phasor_doubles* added, phasor_doubles* concatenated,
                                               int64_t* extra_parameters, phasor_error* error);

#ifdef __cplusplus
}
#endif
