/* SPDX-License-Identifier: Apache-2.0
 * An attention scheme: how scores use positions, as values alone, made ready once and used by any number of calls (attention.h).
 * phasor/scheme.hpp and attention.hpp have the formulas. */
#pragma once

#include "phasor/c/base.h"
#include "phasor/c/bias.h"
#include "phasor/c/positions.h"
#include "phasor/c/specs.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Terms: what positions add to a score; fields of other kinds stay 0. ---- */

typedef int32_t phasor_term_kind;
enum {
  PHASOR_TERM_BIAS = 0,       /* bias, first_head, gate, parameters: gate * bias(distance) */
  PHASOR_TERM_TABLE = 1,      /* side, rows (bias, or left, right, outside), features, shift, scale: Shaw, Transformer-XL, DeBERTa */
  PHASOR_TERM_SEGMENT = 2,    /* shift, scale: XLNet */
  PHASOR_TERM_GRID = 3,       /* window, class_token: Swin, BEiT */
  PHASOR_TERM_DECOMPOSED = 4, /* query_grid, key_grid, scale: SAM, MViTv2 */
  PHASOR_TERM_DENSE = 5,      /* a bias of its own for every score */
  PHASOR_TERM_COPE = 6        /* gate_scale, scale */
};
typedef int32_t phasor_table_side;
enum { PHASOR_TABLE_QUERY = 0, PHASOR_TABLE_KEY = 1, PHASOR_TABLE_VALUE = 2 };
typedef int32_t phasor_outside_rows;
enum { PHASOR_ROWS_CLAMP = 0, PHASOR_ROWS_ZERO = 1 }; /* distances outside of the table take its last row, or add nothing */
typedef int32_t phasor_class_token;
enum { PHASOR_CLASS_TOKEN_ABSENT = 0, PHASOR_CLASS_TOKEN_FIRST = 1 };

typedef struct phasor_term_scheme {
  size_t size; /* sizeof(phasor_term_scheme), the same in all of an array */
  phasor_term_kind kind;
  phasor_table_side side;
  phasor_outside_rows outside;
  phasor_class_token class_token;
  /* Flags: 1 if phasor_term_tensors has this tensor in each call (gate: as features; parameters: in the place of the spec's own). */
  int32_t gate;
  int32_t parameters;
  int32_t features;
  int32_t shift;
  int32_t has_scale;            /* 0: the attention's; of PHASOR_TERM_DECOMPOSED and PHASOR_TERM_COPE: 1 */
  int32_t has_gate_scale;       /* 0: 1 */
  const phasor_bias_spec* bias; /* of a table: which row a distance reads; NULL: row clamp(key - query, -left, right) + left */
  int64_t first_head;
  int64_t left;
  int64_t right;
  double scale;
  double gate_scale;
  phasor_window window;
  phasor_window query_grid;
  phasor_window key_grid;
} phasor_term_scheme;

/* ---- Content: how the q.k score is formed ---- */

typedef int32_t phasor_content_kind;
enum {
  PHASOR_CONTENT_PLAIN = 0,
  PHASOR_CONTENT_ROTARY = 1, /* rotary, keys, map */
  PHASOR_CONTENT_XPOS = 2    /* rotary, gamma, scale_base */
};
typedef int32_t phasor_key_state;
enum { PHASOR_KEYS_UNROTATED = 0, PHASOR_KEYS_ROTATED = 1 };

typedef struct phasor_content_scheme {
  size_t size; /* sizeof(phasor_content_scheme) */
  phasor_content_kind kind;
  phasor_key_state keys;
  const phasor_rotary_spec* rotary;
  const phasor_position_map* map; /* NULL: none */
  double gamma;                   /* 0: 0.4 */
  double scale_base;              /* 0: 512 */
} phasor_content_scheme;

/* ---- The scheme ---- */

typedef int32_t phasor_mask;
enum { PHASOR_MASK_FULL = 0, PHASOR_MASK_CAUSAL = 1 };
typedef int32_t phasor_tile_skip;
enum { PHASOR_SKIP_NONE = 0, PHASOR_SKIP_CERTIFIED = 1 }; /* key tiles that cannot change a float32 result are not visited */

typedef struct phasor_attention_scheme {
  size_t size;                          /* sizeof(phasor_attention_scheme) */
  const phasor_content_scheme* content; /* NULL: plain */
  const phasor_term_scheme* terms;
  size_t term_count;
  double scale;
  double softcap;        /* 0: none */
  double dropout;        /* probability */
  int64_t left;          /* keys at most so far behind their query are seen */
  int64_t right;         /* and at most so far ahead */
  int32_t has_scale;     /* 0: 1 / sqrt(D) */
  int32_t has_left;      /* 0: any */
  int32_t has_right;     /* 0: any */
  int32_t content_shift; /* 1: a tensor of that name comes with each call */
  int32_t sinks;         /* the same */
  phasor_mask mask;
  phasor_tile_skip skip;
  int32_t reserved;
} phasor_attention_scheme;

/* A scheme made ready: rotations and biases are planned once (Attention of C++). */
typedef struct phasor_scheme phasor_scheme;

PHASOR_API phasor_status phasor_scheme_make(const phasor_attention_scheme* spec, phasor_scheme** scheme, phasor_error* error);
/* From the serialised scheme, JSON or CBOR (docs/spec-format.md). */
PHASOR_API phasor_status phasor_scheme_from_json(const char* text, size_t length, phasor_scheme** scheme, phasor_error* error);
PHASOR_API phasor_status phasor_scheme_from_cbor(const uint8_t* bytes, size_t count, phasor_scheme** scheme, phasor_error* error);
PHASOR_API void phasor_scheme_free(phasor_scheme* scheme);

PHASOR_API phasor_status phasor_scheme_to_json(const phasor_scheme* scheme, phasor_text* text, phasor_error* error);
PHASOR_API phasor_status phasor_scheme_to_cbor(const phasor_scheme* scheme, phasor_bytes* bytes, phasor_error* error);
/* The same JSON, ending in a zero, as long as the scheme lives; NULL for a NULL scheme. */
PHASOR_API const char* phasor_scheme_serialised(const phasor_scheme* scheme);
/* 1 where both are there and their serialised forms are equal, else 0. */
PHASOR_API int32_t phasor_scheme_equal(const phasor_scheme* a, const phasor_scheme* b);

/* What a scheme is made of, into structs whose size is set. Their lists are the scheme's and live as long as it. */

/* All but content and terms, which stay NULL; term_count is set. */
PHASOR_API phasor_status phasor_scheme_get(const phasor_scheme* scheme, phasor_attention_scheme* spec, phasor_error* error);
/* Fills *term, and where it has a bias also *bias, which it then points to. */
PHASOR_API phasor_status phasor_scheme_get_term(const phasor_scheme* scheme, size_t index, phasor_term_scheme* term, phasor_bias_spec* bias,
                                                phasor_error* error);
/* Where the structs of a content go: those that it has are filled, and it then points to them. */
typedef struct phasor_content_parts {
  phasor_rotary_spec* rotary;
  phasor_scaling* scaling;
  phasor_position_map* map;
} phasor_content_parts;
PHASOR_API phasor_status phasor_scheme_get_content(const phasor_scheme* scheme, phasor_content_scheme* content,
                                                   const phasor_content_parts* parts, phasor_error* error);

#ifdef __cplusplus
}
#endif
