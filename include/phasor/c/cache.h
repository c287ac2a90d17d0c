/* SPDX-License-Identifier: Apache-2.0
 * Where keys and values (or queries made ready) are stored, in whatever layout, dtype and scaling an engine has. phasor/cache.hpp has the
 * contracts. */
#pragma once

#include "phasor/c/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Storage ---- */

/* What numbers are stored as. */
typedef int32_t phasor_storage;
enum {
  PHASOR_STORAGE_F32 = 0,
  PHASOR_STORAGE_F16 = 1,
  PHASOR_STORAGE_BF16 = 2,
  PHASOR_STORAGE_F8_E4M3 = 3,
  PHASOR_STORAGE_F8_E5M2 = 4,
  PHASOR_STORAGE_I8 = 5
};
/* Bytes of a number, and the name that messages have; 0 and "unknown" for what is not listed. */
PHASOR_API int64_t phasor_storage_bytes(phasor_storage storage);
PHASOR_API const char* phasor_storage_name(phasor_storage storage);

typedef int32_t phasor_scales_kind;
enum {
  PHASOR_SCALES_NONE = 0,
  PHASOR_SCALES_GIVEN = 1, /* use, and `value` or `data` (float32) with strides[2]: 0 or one scale per head */
  PHASOR_SCALES_MADE = 2   /* use, encoding, data, strides, group, least: written for every token, head and group of channels */
};
typedef int32_t phasor_scales_use;
enum { PHASOR_SCALES_USE_DIVIDE = 0, PHASOR_SCALES_USE_MULTIPLY = 1 };
typedef int32_t phasor_scales_encoding;
enum { PHASOR_SCALES_ENCODING_F32 = 0, PHASOR_SCALES_ENCODING_UE8M0 = 1 };

/* Scales of what is stored; fields of other kinds stay 0. A part of phasor_cache_view: what is new goes to the end of that. */
typedef struct phasor_cache_scales {
  void* data;
  int64_t strides[4]; /* block, token, head, group, in elements of the encoding */
  int64_t group;      /* channels that share a made scale; 0: all of the view's */
  phasor_scales_kind kind;
  phasor_scales_use use;
  phasor_scales_encoding encoding;
  float value; /* 0: 1 */
  float least; /* made ones are not smaller; 0: 2^-126 */
  int32_t reserved;
} phasor_cache_scales;

/* ---- Views ---- */

/* What an axis of a cache counts: indices of shape and strides. Channel c of a head lies at (outer, inner) = (c / x, c % x), x the extent
 * of `inner`. */
typedef int32_t phasor_cache_axis;
enum {
  PHASOR_CACHE_LAYER = 0,
  PHASOR_CACHE_BLOCK = 1,
  PHASOR_CACHE_TOKEN = 2,
  PHASOR_CACHE_HEAD = 3,
  PHASOR_CACHE_OUTER = 4,
  PHASOR_CACHE_INNER = 5
};

/* Memory of a cache, by what each axis means: the order in memory is the strides'. In elements of `storage`. */
typedef struct phasor_cache_view {
  size_t size; /* sizeof(phasor_cache_view) */
  void* data;
  phasor_device device;
  phasor_storage storage;
  int32_t reserved;
  int64_t shape[6];
  int64_t strides[6];
  int64_t layer;         /* which one is written */
  int64_t first_channel; /* of the heads: they are stored from this one on */
  phasor_cache_scales scales;
} phasor_cache_view;

/* What a head becomes: one view of all its channels, or two of some each. `first` NULL: none. */
typedef struct phasor_cache_parts {
  const phasor_cache_view* first;
  const phasor_cache_view* second;
} phasor_cache_parts;

/* ---- Layouts of engines. Each fills views whose size is set; nothing of the memory is read. ---- */

/* Blocks (pages) of `block` tokens with `heads` heads of `head_dim` channels. */
typedef struct phasor_cache_memory {
  size_t size; /* sizeof(phasor_cache_memory) */
  void* data;
  int64_t blocks;
  int64_t block;
  int64_t heads;
  int64_t head_dim;
  int64_t block_bytes; /* from block to block, for phasor_mla_584_cache alone; 0: 584 for each token */
  phasor_device device;
  phasor_storage storage;
  int32_t reserved;
} phasor_cache_memory;

/* A (B, T, H, D) tensor of float32, float16 or bfloat16: a block for each batch row. */
PHASOR_API phasor_status phasor_tensor_cache(const phasor_tensor* tensor, phasor_cache_view* view, phasor_error* error);
/* (blocks, block, H, D), contiguous. */
PHASOR_API phasor_status phasor_contiguous_cache(const phasor_cache_memory* memory, phasor_cache_view* view, phasor_error* error);
/* vLLM's older layout: keys (blocks, H, D / x, block, x), values (blocks, H, D, block), each an allocation of its own. x is 16 bytes;
 * head_dim must be a multiple of it. */
PHASOR_API phasor_status phasor_vllm_key_cache(const phasor_cache_memory* memory, phasor_cache_view* view, phasor_error* error);
PHASOR_API phasor_status phasor_vllm_value_cache(const phasor_cache_memory* memory, phasor_cache_view* view, phasor_error* error);
/* vLLM's flash layout: (2, blocks, block, H, D). */
PHASOR_API phasor_status phasor_vllm_flash_cache(const phasor_cache_memory* memory, phasor_cache_view* k, phasor_cache_view* v,
                                                 phasor_error* error);
typedef int32_t phasor_head_order;
enum { PHASOR_HEAD_ORDER_NHD = 0, PHASOR_HEAD_ORDER_HND = 1 };
/* FlashInfer: (pages, 2, page, H, D) or, with heads first, (pages, 2, H, page, D). */
PHASOR_API phasor_status phasor_flashinfer_cache(const phasor_cache_memory* memory, phasor_head_order order, phasor_cache_view* k,
                                                 phasor_cache_view* v, phasor_error* error);
/* SGLang's slots of tokens: (slots, H, D). `blocks` is the slots, `block` 0 or 1. */
PHASOR_API phasor_status phasor_sglang_cache(const phasor_cache_memory* memory, phasor_cache_view* view, phasor_error* error);
/* MLA, one head; heads, head_dim and storage of the memory stay 0. 656 bytes per token: 512 e4m3, four float32 scales, 64 bf16. */
PHASOR_API phasor_status phasor_mla_656_cache(const phasor_cache_memory* memory, phasor_cache_view* latent, phasor_cache_view* rotated,
                                              phasor_error* error);
/* 584 bytes per token: in each block 448 e4m3 and 64 bf16 for every token, then seven ue8m0 scales and a byte for every token. */
PHASOR_API phasor_status phasor_mla_584_cache(const phasor_cache_memory* memory, phasor_cache_view* latent, phasor_cache_view* rotated,
                                              phasor_error* error);

/* ---- Where tokens lie ---- */

typedef int32_t phasor_places_kind;
enum {
  PHASOR_PLACES_IN_ORDER = 0, /* starts: token t of batch row b goes to block b, token starts[b] + t (without starts: t) */
  PHASOR_PLACES_SLOTS = 1,    /* slots: block slots[i] / block size, token slots[i] % block size; negative ones are skipped */
  /* indptr or pages_per_request, indices, requests, places (FlashInfer): token i goes to block indices[indptr[r] + p / page_size], token
   * p % page_size; r = requests[i], p = places[i] */
  PHASOR_PLACES_PAGES = 2
};
typedef int32_t phasor_places_on_gpu;
enum { PHASOR_PLACES_TRUSTED = 0, PHASOR_PLACES_CHECKED = 1 };

/* Which block and which of its tokens a token goes to. Lists are int32 or int64; those of other kinds stay NULL. */
typedef struct phasor_token_places {
  size_t size; /* sizeof(phasor_token_places) */
  phasor_places_kind kind;
  phasor_places_on_gpu on_gpu; /* checked: a place outside of the cache is an error there, too, and the call waits for its stream */
  const phasor_tensor* starts;
  const phasor_tensor* slots;
  const phasor_tensor* indptr;
  const phasor_tensor* indices;
  const phasor_tensor* requests; /* NULL: the batch row */
  const phasor_tensor* places;   /* of each token: its index in its request */
  int64_t pages_per_request;     /* without indptr: `indices` is a page table with this many columns; indptr[r] is r times it */
} phasor_token_places;

#ifdef __cplusplus
}
#endif
