/* SPDX-License-Identifier: Apache-2.0
 * Rotary encoding: a spec made ready, applied to q and k, moved in caches, differentiated. phasor/rotary.hpp has the contracts. */
#pragma once

#include "phasor/c/base.h"
#include "phasor/c/specs.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A spec made ready. */
typedef struct phasor_rotary phasor_rotary;

PHASOR_API phasor_status phasor_rotary_make(const phasor_rotary_spec* spec, phasor_rotary** rotary, phasor_error* error);
/* From the serialised spec, JSON or CBOR (docs/spec-format.md). */
PHASOR_API phasor_status phasor_rotary_from_json(const char* text, size_t length, phasor_rotary** rotary, phasor_error* error);
PHASOR_API phasor_status phasor_rotary_from_cbor(const uint8_t* bytes, size_t count, phasor_rotary** rotary, phasor_error* error);
PHASOR_API void phasor_rotary_free(phasor_rotary* rotary);

PHASOR_API phasor_status phasor_rotary_to_json(const phasor_rotary* rotary, phasor_text* text, phasor_error* error);
PHASOR_API phasor_status phasor_rotary_to_cbor(const phasor_rotary* rotary, phasor_bytes* bytes, phasor_error* error);
/* Fills *spec, whose size is set, and *scaling, which it then points to. Their lists are the rotary's and live as long as it. */
PHASOR_API phasor_status phasor_rotary_get_spec(const phasor_rotary* rotary, phasor_rotary_spec* spec, phasor_scaling* scaling,
                                                phasor_error* error);
/* Radians per position, rotary_width / 2 of them (directions: axes * heads times as many); NULL and 0 for a NULL rotary. */
PHASOR_API const double* phasor_rotary_frequencies(const phasor_rotary* rotary, size_t* count);
PHASOR_API double phasor_rotary_amplitude(const phasor_rotary* rotary);
PHASOR_API double phasor_rotary_softmax_scale(const phasor_rotary* rotary);
PHASOR_API int64_t phasor_rotary_width(const phasor_rotary* rotary);

/* ---- Applying ---- */

typedef int32_t phasor_direction;
enum { PHASOR_FORWARD = 0, PHASOR_INVERSE = 1, PHASOR_TRANSPOSE = 2 };

/* In place where an `out` is NULL; k may be NULL. */
typedef struct phasor_rotation {
  size_t size; /* sizeof(phasor_rotation) */
  const phasor_tensor* q;
  const phasor_tensor* k;
  const phasor_tensor* q_out;
  const phasor_tensor* k_out;
  phasor_positions positions;
  phasor_direction direction;
  int32_t reserved;
  phasor_execution execution;
} phasor_rotation;
PHASOR_API phasor_status phasor_rotary_apply(const phasor_rotary* rotary, const phasor_rotation* rotation, phasor_error* error);

/* Several specs in one call: spec_of (int32 or int64) has the index of a rotary for each batch row or each token. */
typedef struct phasor_rotary_list {
  const phasor_rotary* const* rotaries;
  size_t count;
  const phasor_tensor* spec_of;
} phasor_rotary_list;
PHASOR_API phasor_status phasor_apply_rotaries(const phasor_rotary_list* list, const phasor_rotation* rotation, phasor_error* error);

/* Fills cos and sin, (B or 1, T, 1, R/2), f32 or f64. */
typedef struct phasor_cos_sin_call {
  size_t size; /* sizeof(phasor_cos_sin_call) */
  const phasor_tensor* cos;
  const phasor_tensor* sin;
  phasor_positions positions;
  phasor_direction direction;
  int32_t reserved;
  phasor_execution execution;
} phasor_cos_sin_call;
PHASOR_API phasor_status phasor_rotary_cos_sin(const phasor_rotary* rotary, const phasor_cos_sin_call* call, phasor_error* error);

/* How given tables are applied. */
typedef struct phasor_table_layout {
  size_t size;          /* sizeof(phasor_table_layout) */
  int64_t rotary_width; /* 0: head_dim */
  int64_t rotary_offset;
  int64_t segments; /* 0: 1 */
  phasor_pairing pairing;
  phasor_pairing output_pairing;
  int32_t has_output_pairing;
  phasor_sense sense;
  phasor_numerics numerics;
  int32_t reserved;
} phasor_table_layout;
/* Rotates by the tables of the caller; positions of the rotation are not looked at. layout NULL: the defaults. */
PHASOR_API phasor_status phasor_apply_rotary(const phasor_tensor* cos, const phasor_tensor* sin, const phasor_table_layout* layout,
                                             const phasor_rotation* rotation, phasor_error* error);

/* ---- Keys that are already rotated ---- */

typedef struct phasor_rotated_at {
  const phasor_rotary* rotary;
  phasor_positions positions;
} phasor_rotated_at;
/* Keys (B, T, H, D), in place or to `out`; or with slots (int64) a paged cache (blocks, page_size, H, D), in place. */
typedef struct phasor_rerotation {
  size_t size; /* sizeof(phasor_rerotation) */
  const phasor_tensor* keys;
  const phasor_tensor* out;
  const phasor_tensor* slots;
  phasor_rotated_at from;
  phasor_rotated_at to;
  phasor_direction direction;
  int32_t reserved;
  phasor_execution execution;
} phasor_rerotation;
PHASOR_API phasor_status phasor_rerotate(const phasor_rerotation* rerotation, phasor_error* error);

/* ---- Gradients of learned rotations ---- */

typedef struct phasor_phase_gradient_call {
  size_t size; /* sizeof(phasor_phase_gradient_call) */
  const phasor_tensor* out;
  const phasor_tensor* rotated;
  const phasor_tensor* gradient;
  const phasor_table_layout* layout; /* NULL: the defaults */
  int32_t add;                       /* 0: what was in `out` is replaced */
  int32_t reserved;
  phasor_execution execution;
} phasor_phase_gradient_call;
PHASOR_API phasor_status phasor_phase_gradient(const phasor_phase_gradient_call* call, phasor_error* error);

typedef struct phasor_frequency_gradient_call {
  size_t size;              /* sizeof(phasor_frequency_gradient_call) */
  const phasor_tensor* sum; /* gains the gradient by each frequency */
  const phasor_tensor* phase_gradient;
  phasor_positions positions;
  phasor_execution execution;
} phasor_frequency_gradient_call;
PHASOR_API phasor_status phasor_rotary_frequency_gradient(const phasor_rotary* rotary, const phasor_frequency_gradient_call* call,
                                                          phasor_error* error);

typedef struct phasor_position_gradient_call {
  size_t size;              /* sizeof(phasor_position_gradient_call) */
  const phasor_tensor* out; /* f64, (axes or 1, B or 1, T): filled with the gradient by the positions */
  const phasor_tensor* phase_gradient;
  phasor_execution execution;
} phasor_position_gradient_call;
PHASOR_API phasor_status phasor_rotary_position_gradient(const phasor_rotary* rotary, const phasor_position_gradient_call* call,
                                                         phasor_error* error);

#ifdef __cplusplus
}
#endif
