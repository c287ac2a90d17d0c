/* SPDX-License-Identifier: Apache-2.0
 * What a model's files say about its positions, layer by layer; and weights between pairings. phasor/model.hpp, phasor/weights.hpp. */
#pragma once

#include "phasor/c/base.h"
#include "phasor/c/positions.h"
#include "phasor/c/rotary.h"
#include "phasor/c/specs.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- What a layer does with positions ---- */

/* What a model adds to its scores. */
typedef int32_t phasor_model_bias_kind;
enum {
  PHASOR_MODEL_BIAS_ALIBI = 0,
  PHASOR_MODEL_BIAS_T5_BUCKETS = 1,
  PHASOR_MODEL_BIAS_DEBERTA = 2,
  PHASOR_MODEL_BIAS_XLNET = 3,
  PHASOR_MODEL_BIAS_TRANSFORMER_XL = 4,
  PHASOR_MODEL_BIAS_SWIN = 5
};
typedef struct phasor_model_bias {
  size_t size; /* sizeof(phasor_model_bias) */
  phasor_model_bias_kind kind;
  int32_t bidirectional;
  int64_t heads;
  int64_t buckets;      /* t5_buckets; deberta: 0 for no log buckets */
  int64_t max_distance; /* t5_buckets, deberta */
  double max_alibi;     /* alibi: slopes from 2^(-max_alibi / heads) on; 0: 8 */
} phasor_model_bias;

/* What a model adds to its tokens. */
typedef int32_t phasor_model_additive_kind;
enum { PHASOR_MODEL_ADDITIVE_LEARNED = 0, PHASOR_MODEL_ADDITIVE_SINUSOIDAL = 1 };
typedef struct phasor_model_additive {
  size_t size; /* sizeof(phasor_model_additive) */
  phasor_model_additive_kind kind;
  int32_t reserved;
  int64_t length;         /* rows of the table; 0: none (sinusoidal), or the file does not say */
  int64_t width;          /* channels; 0: the file does not say */
  int64_t first_position; /* row of the first token: RoBERTa padding_idx + 1, OPT 2 */
} phasor_model_additive;

/* Dual chunk attention (Qwen2.5-1M): positions are mapped so that no distance exceeds chunk_size. */
typedef struct phasor_model_dual_chunk {
  size_t size; /* sizeof(phasor_model_dual_chunk) */
  int64_t chunk_size;
  int64_t local_size;
} phasor_model_dual_chunk;

/* A pointer that is NULL: the layer has none of it. */
typedef struct phasor_layer_positions {
  size_t size;                      /* sizeof(phasor_layer_positions) */
  const char* type;                 /* "full_attention", ..., as the file names it; empty when it names none */
  const phasor_rotary_spec* rotary; /* none of these three: the layer knows no positions */
  const phasor_model_bias* bias;
  const phasor_model_additive* additive; /* added once, before the first layer; every layer says so */
  const phasor_query_temperature* query_temperature;
  const phasor_model_dual_chunk* dual_chunk;
  double attention_scale;      /* factor on q k; phasor_rotary_softmax_scale comes on top */
  int32_t has_attention_scale; /* 0: 1 / sqrt(head_dim) */
  int32_t output_turned_back;  /* values are rotated too and the output by minus the query's position (DeepSeek-V4) */
  phasor_numerics numerics;    /* the profile that repeats the model's own rounding (rotary->numerics stays exact) */
  int32_t has_numerics;        /* 0: PHASOR_NUMERICS_HF */
  int64_t window;              /* sliding window, both sides together where attention looks both ways; 0: none */
  int64_t chunk;               /* attention stays inside chunks of so many positions (Llama 4); 0: no chunks */
  int64_t skipped_tokens;      /* prefix tokens that are not rotated (CLS, registers) */
  int64_t first_position;      /* of a rotary: where rows and columns of patches begin (Llama 4 vision: 1) */
} phasor_layer_positions;

/* ---- A model ---- */

/* A part of a model beside its text layers. Lists of structs are lists of pointers, so that structs can grow. */
typedef struct phasor_model_tower {
  size_t size;            /* sizeof(phasor_model_tower) */
  const char* name;       /* "vision", "audio", "encoder" */
  const char* model_type; /* as the file names it; empty when it does not */
  const phasor_layer_positions* const* layers;
  size_t layer_count;
} phasor_model_tower;

/* The whole of a model. */
typedef struct phasor_model_positions {
  size_t size;            /* sizeof(phasor_model_positions) */
  const char* dialect;    /* "huggingface", "gguf" */
  const char* model_type; /* "llama", as the file names it */
  const char* text_type;  /* of the text part, where the file names one of its own ("gemma3_text" in "gemma3"); else empty */
  const phasor_layer_positions* const* layers;
  size_t layer_count;
  const phasor_model_tower* const* towers;
  size_t tower_count;
  const char* const* warnings;
  size_t warning_count;
  int64_t trained_length; /* positions before any extension; 0: the file does not say */
  int64_t length;         /* positions the file allows */
} phasor_model_positions;

typedef struct phasor_model phasor_model;

typedef struct phasor_read_options {
  size_t size;    /* sizeof(phasor_read_options) */
  int64_t length; /* positions in use, for dynamic NTK and LongRoPE's choice; 0: as many as were trained */
} phasor_read_options;

/* A config.json, a folder that has one, or a GGUF file (mapped, not read whole). PHASOR_NOT_FOUND where there is none. options NULL: the
 * defaults. */
PHASOR_API phasor_status phasor_read_model(const char* path, const phasor_read_options* options, phasor_model** model, phasor_error* error);
/* The text of a Hugging Face config.json (v4 or v5) or its vLLM / SGLang kin. Unknown keys inside a rope dictionary are warnings. */
PHASOR_API phasor_status phasor_parse_hf_config(const char* json, size_t length, const phasor_read_options* options, phasor_model** model,
                                                phasor_error* error);
/* The bytes of a GGUF file: metadata and rope tensors; weights are not touched. Errors carry the byte offset. */
PHASOR_API phasor_status phasor_parse_gguf(const uint8_t* bytes, size_t count, const phasor_read_options* options, phasor_model** model,
                                           phasor_error* error);
/* A model by hand, to be explained, compared or written; NULL names are empty. Everything is copied. */
PHASOR_API phasor_status phasor_model_make(const phasor_model_positions* positions, phasor_model** model, phasor_error* error);
PHASOR_API void phasor_model_free(phasor_model* model);

/* What these fill points into the model and lives as long as it. `tower` -1: the text layers. */
PHASOR_API phasor_status phasor_model_get_positions(const phasor_model* model, phasor_model_positions* positions, phasor_error* error);
PHASOR_API phasor_status phasor_model_get_layer(const phasor_model* model, int64_t tower, size_t index, phasor_layer_positions* layer,
                                                phasor_error* error);
/* The rotary of a layer made ready; an error where it has none. own_numerics 0: as its spec says, exact; else with the layer's `numerics`.
 */
PHASOR_API phasor_status phasor_model_make_rotary(const phasor_model* model, int64_t tower, size_t index, int32_t own_numerics,
                                                  phasor_rotary** rotary, phasor_error* error);

/* ---- In words, and in the dialects ---- */

typedef struct phasor_explain_options {
  size_t size; /* sizeof(phasor_explain_options) */
  int64_t layer;
  int32_t has_layer; /* 0: all of the text layers, and the towers */
  int32_t reserved;
} phasor_explain_options;
/* One screen of plain words, and the same as JSON. options NULL: the defaults. */
PHASOR_API phasor_status phasor_explain(const phasor_model* model, const phasor_explain_options* options, phasor_text* text,
                                        phasor_error* error);
PHASOR_API phasor_status phasor_explain_json(const phasor_model* model, const phasor_explain_options* options, phasor_text* json,
                                             phasor_error* error);

/* The model's positions as a Hugging Face v5 config.json, or an error that says what that dialect cannot say. */
PHASOR_API phasor_status phasor_to_hf_config(const phasor_model* model, phasor_text* json, phasor_error* error);
/* The same as GGUF keys and tensors for an architecture ("llama"), as JSON: {"keys": {name: {"type", "value"}}, "tensors": {...}}. */
PHASOR_API phasor_status phasor_to_gguf_keys(const phasor_model* model, const char* architecture, phasor_text* json, phasor_error* error);

/* How two models differ. The texts are the list's and live as long as it. */
typedef struct phasor_difference {
  size_t size;       /* sizeof(phasor_difference) */
  const char* where; /* "layers 0-31: base" */
  const char* left;
  const char* right;
  const char* why; /* what it changes, with a number */
  int32_t matters;
  int32_t reserved;
} phasor_difference;
typedef struct phasor_differences phasor_differences;
PHASOR_API phasor_status phasor_diff(const phasor_model* left, const phasor_model* right, phasor_differences** differences,
                                     phasor_error* error);
PHASOR_API void phasor_differences_free(phasor_differences* differences);
PHASOR_API size_t phasor_differences_count(const phasor_differences* differences);
PHASOR_API phasor_status phasor_differences_get(const phasor_differences* differences, size_t index, phasor_difference* difference,
                                                phasor_error* error);

/* ---- Weights between pairings ---- */

typedef struct phasor_permute_options {
  size_t size; /* sizeof(phasor_permute_options) */
  phasor_pairing from;
  phasor_pairing to;
  int32_t has_to; /* 0: the pairing that `from` is not */
  int32_t reserved;
  int64_t heads;        /* of q */
  int64_t kv_heads;     /* of k; 0: heads */
  int64_t head_dim;     /* 0: rows / heads */
  int64_t rotary_width; /* 0: head_dim */
  int64_t rotary_offset;
  const char* prefix; /* only tensors whose names begin so ("model.language_model."); NULL: all */
} phasor_permute_options;

typedef struct phasor_permute_report phasor_permute_report;
/* Reads `from_path` and writes `to_path`, a new file, atomically: nothing is left when it fails. Permutes the q and k projections, their
 * biases, norms and scales (phasor/weights.hpp names them); header and metadata stay byte for byte. report NULL: not wanted. */
PHASOR_API phasor_status phasor_permute_safetensors(const char* from_path, const char* to_path, const phasor_permute_options* options,
                                                    phasor_permute_report** report, phasor_error* error);
PHASOR_API void phasor_permute_report_free(phasor_permute_report* report);
/* Tensors that were permuted; the name of one, NULL where there is no such. */
PHASOR_API size_t phasor_permute_report_permuted(const phasor_permute_report* report);
PHASOR_API const char* phasor_permute_report_name(const phasor_permute_report* report, size_t index);
/* Tensors that were copied as they are. */
PHASOR_API int64_t phasor_permute_report_copied(const phasor_permute_report* report);

typedef int32_t phasor_pairing_relation;
enum {
  PHASOR_RELATION_SAME = 0,
  PHASOR_RELATION_HALF_TO_INTERLEAVED = 1,
  PHASOR_RELATION_INTERLEAVED_TO_HALF = 2,
  PHASOR_RELATION_DIFFERENT = 3 /* neither is the other permuted */
};
/* How the q and k weights of two files of one model are related. `from` and `to` of the options are not looked at. */
PHASOR_API phasor_status phasor_detect_pairing(const char* left_path, const char* right_path, const phasor_permute_options* shape,
                                               phasor_pairing_relation* relation, phasor_error* error);

#ifdef __cplusplus
}
#endif
