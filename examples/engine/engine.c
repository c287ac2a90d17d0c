/* SPDX-License-Identifier: Apache-2.0
 * The decoder of engine.cpp with its loop in C: the same arguments, the same tokens. Everything about positions is phasor.h's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"
#include "phasor/phasor.h"

enum { PAGE = 4 }; /* tokens of a page */

static phasor_error error;

static void must(phasor_status status) {
  if (status == PHASOR_OK) return;
  fprintf(stderr, "engine: %s\n", error.message);
  exit(1);
}

static void* memory_of(size_t bytes) {
  void* memory = calloc(bytes > 0 ? bytes : 1, 1);
  if (memory == NULL) {
    fputs("engine: out of memory\n", stderr);
    exit(1);
  }
  return memory;
}
static float* floats(int64_t count) { return memory_of((size_t)count * sizeof(float)); }

/* One sequence: its pages are the same in every layer. */
typedef struct engine {
  const engine_model* model;
  phasor_rotary** rotaries; /* one per layer */
  phasor_scheme* scheme;
  float** keys; /* of each layer, (blocks, page, heads, channels) */
  float** values;
  int64_t blocks;
  int32_t* table; /* block of each page of the sequence */
  int64_t pages;
  int32_t* free; /* a stack, so that pages lie anywhere */
  int64_t free_count;
  int64_t length; /* tokens in the cache */
  void* workspace;
  int64_t workspace_bytes;
} engine;

static engine make_engine(const engine_model* model, const char* folder, int64_t context) {
  engine e = {0};
  phasor_model* positions = NULL;
  phasor_attention_scheme causal = {.size = sizeof causal, .mask = PHASOR_MASK_CAUSAL};
  e.model = model;
  e.blocks = (context + PAGE - 1) / PAGE;
  e.table = memory_of((size_t)e.blocks * sizeof *e.table);
  e.free = memory_of((size_t)e.blocks * sizeof *e.free);
  for (; e.free_count < e.blocks; ++e.free_count) e.free[e.free_count] = (int32_t)e.free_count;
  e.rotaries = memory_of((size_t)model->layers * sizeof *e.rotaries);
  e.keys = memory_of((size_t)model->layers * sizeof *e.keys);
  e.values = memory_of((size_t)model->layers * sizeof *e.values);
  must(phasor_read_model(folder, NULL, &positions, &error));
  for (int64_t i = 0; i < model->layers; ++i) {
    must(phasor_model_make_rotary(positions, -1, (size_t)i, 0, &e.rotaries[i], &error));
    e.keys[i] = floats(e.blocks * PAGE * model->kv_heads * model->head_dim);
    e.values[i] = floats(e.blocks * PAGE * model->kv_heads * model->head_dim);
  }
  phasor_model_free(positions);
  must(phasor_scheme_make(&causal, &e.scheme, &error));
  return e;
}

static void free_engine(engine* e) {
  for (int64_t i = 0; i < e->model->layers; ++i) {
    phasor_rotary_free(e->rotaries[i]);
    free(e->keys[i]);
    free(e->values[i]);
  }
  phasor_scheme_free(e->scheme);
  free(e->rotaries);
  free(e->keys);
  free(e->values);
  free(e->table);
  free(e->free);
  free(e->workspace);
}

/* Where the tokens from `first` on lie; the caller frees it. */
static int64_t* slots_of(const engine* e, int64_t first, int64_t count) {
  int64_t* at = memory_of((size_t)count * sizeof *at);
  int64_t* slots = memory_of((size_t)count * sizeof *slots);
  int64_t shape[1] = {count}, table_shape[2] = {1, e->pages};
  const phasor_tensor to = phasor_tensor_of(slots, PHASOR_I64, shape, 1);
  const phasor_tensor from = phasor_tensor_of(at, PHASOR_I64, shape, 1);
  const phasor_tensor table = phasor_tensor_of(e->table, PHASOR_I32, table_shape, 2);
  phasor_slots_call call = {.size = sizeof call, .out = &to, .table = {.blocks = &table, .page_size = PAGE}, .at = {.tensor = &from}};
  for (int64_t i = 0; i < count; ++i) at[i] = first + i;
  must(phasor_fill_slots(&call, &error));
  free(at);
  return slots;
}

static phasor_cache_view cache_of(const engine* e, float* data) {
  phasor_cache_view view = {.size = sizeof view};
  const phasor_cache_memory memory = {
      .size = sizeof memory, .data = data, .blocks = e->blocks, .block = PAGE, .heads = e->model->kv_heads, .head_dim = e->model->head_dim};
  must(phasor_contiguous_cache(&memory, &view, &error));
  return view;
}

/* q, k and v of the new tokens, (1, rows, heads, channels) each, and what attention makes of them. */
typedef struct heads {
  int64_t rows;
  float *q, *k, *v, *out;
} heads;

/* q and k are rotated, k and v written to their pages; then attention goes over the pages. */
static void attend_heads(engine* e, int64_t layer, const heads* h, int64_t* slots) {
  const engine_model* m = e->model;
  int64_t q_shape[4] = {1, h->rows, m->heads, m->head_dim}, kv_shape[4] = {1, h->rows, m->kv_heads, m->head_dim};
  int64_t rows_shape[1] = {h->rows}, table_shape[2] = {1, e->pages}, one[1] = {1};
  const phasor_tensor q = phasor_tensor_of(h->q, PHASOR_F32, q_shape, 4);
  const phasor_tensor k = phasor_tensor_of(h->k, PHASOR_F32, kv_shape, 4);
  const phasor_tensor v = phasor_tensor_of(h->v, PHASOR_F32, kv_shape, 4);
  const phasor_tensor out = phasor_tensor_of(h->out, PHASOR_F32, q_shape, 4);
  const phasor_tensor slot_list = phasor_tensor_of(slots, PHASOR_I64, rows_shape, 1);
  const phasor_tensor table = phasor_tensor_of(e->table, PHASOR_I32, table_shape, 2);
  const phasor_tensor length = phasor_tensor_of(&e->length, PHASOR_I64, one, 1);
  const phasor_cache_view keys = cache_of(e, e->keys[layer]), values = cache_of(e, e->values[layer]);
  const phasor_rotary* rotary = e->rotaries[layer];
  phasor_cache_view in_place = {.size = sizeof in_place};
  const phasor_prepare_inputs from = {.size = sizeof from, .q = &q, .k = &k, .v = &v};
  const phasor_prepare_rotation rotation = {
      .size = sizeof rotation, .list = {.rotaries = &rotary, .count = 1}, .positions = {.offset = e->length - h->rows}};
  const phasor_token_places places = {.size = sizeof places, .kind = PHASOR_PLACES_SLOTS, .slots = &slot_list};
  const phasor_prepare_outputs to = {
      .size = sizeof to, .q = {.first = &in_place}, .k = {.first = &keys}, .v = {.first = &values}, .places = &places};
  const phasor_cached_inputs cached = {
      .size = sizeof cached, .q = &q, .k = &keys, .v = &values, .pages = {.blocks = &table, .lengths = &length, .page_size = PAGE}};
  const phasor_attention_outputs outputs = {.size = sizeof outputs, .out = &out};
  phasor_workspace workspace = {0};
  int64_t bytes = 0;

  must(phasor_tensor_cache(&q, &in_place, &error));
  must(phasor_prepare_attention(&from, &rotation, &to, NULL, &error));
  must(phasor_cached_attention_workspace(e->scheme, &cached, &bytes, &error));
  if (bytes > e->workspace_bytes) {
    free(e->workspace);
    e->workspace = memory_of((size_t)bytes);
    e->workspace_bytes = bytes;
  }
  workspace.memory = e->workspace;
  workspace.bytes = (size_t)e->workspace_bytes;
  must(phasor_cached_attention(e->scheme, &cached, &outputs, &workspace, &error));
}

/* x += o(attention(q, k, v)). */
static void attend(engine* e, int64_t layer, float* x, int64_t rows, int64_t* slots) {
  const engine_layer* w = &e->model->layer[layer];
  float* h = floats(rows * e->model->hidden);
  const heads of = {rows, floats(rows * w->q.out), floats(rows * w->k.out), floats(rows * w->v.out), floats(rows * w->q.out)};
  engine_rms_norm(h, x, rows, e->model, w->input_norm);
  engine_linear(of.q, h, rows, w->q);
  engine_linear(of.k, h, rows, w->k);
  engine_linear(of.v, h, rows, w->v);
  attend_heads(e, layer, &of, slots);
  engine_linear(h, of.out, rows, w->o);
  for (int64_t i = 0; i < rows * e->model->hidden; ++i) x[i] += h[i];
  free(of.q);
  free(of.k);
  free(of.v);
  free(of.out);
  free(h);
}

/* The likeliest token after `tokens`, which are added to the cache. */
static int64_t step(engine* e, const int64_t* tokens, int64_t rows) {
  const int64_t hidden = e->model->hidden;
  float* x = floats(rows * hidden);
  int64_t* slots;
  int64_t next;
  while (e->pages * PAGE < e->length + rows) e->table[e->pages++] = e->free[--e->free_count];
  slots = slots_of(e, e->length, rows);
  e->length += rows;
  for (int64_t i = 0; i < rows; ++i) {
    memcpy(x + i * hidden, e->model->embedding.values + tokens[i] * hidden, (size_t)hidden * sizeof(float));
  }
  for (int64_t layer = 0; layer < e->model->layers; ++layer) {
    attend(e, layer, x, rows, slots);
    engine_feed_forward(x, rows, e->model, &e->model->layer[layer]);
  }
  next = engine_next_token(x + (rows - 1) * hidden, e->model);
  free(slots);
  free(x);
  return next;
}

/* Drops `count` tokens behind the first `keep`, both whole pages, and turns the keys behind them to their new positions. */
static void shift(engine* e, int64_t keep, int64_t count) {
  const engine_model* m = e->model;
  const int64_t first = keep / PAGE, dropped = count / PAGE;
  int64_t shape[4] = {e->blocks, PAGE, m->kv_heads, m->head_dim}, slots_shape[1] = {e->length - count - keep};
  int64_t* slots;
  memcpy(e->free + e->free_count, e->table + first, (size_t)dropped * sizeof *e->table);
  e->free_count += dropped;
  memmove(e->table + first, e->table + first + dropped, (size_t)(e->pages - first - dropped) * sizeof *e->table);
  e->pages -= dropped;
  e->length -= count;
  slots = slots_of(e, keep, e->length - keep);
  for (int64_t layer = 0; layer < m->layers; ++layer) {
    const phasor_tensor cache = phasor_tensor_of(e->keys[layer], PHASOR_F32, shape, 4);
    const phasor_tensor list = phasor_tensor_of(slots, PHASOR_I64, slots_shape, 1);
    const phasor_rerotation moved = {.size = sizeof moved,
                                     .keys = &cache,
                                     .slots = &list,
                                     .from = {.rotary = e->rotaries[layer], .positions = {.offset = keep + count}},
                                     .to = {.rotary = e->rotaries[layer], .positions = {.offset = keep}}};
    must(phasor_rerotate(&moved, &error));
  }
  free(slots);
}

int main(int argc, char** argv) {
  char message[256];
  const engine_model* model;
  engine e;
  int64_t made, context, keep, rows, *tokens;
  if (argc < 6) return fputs("usage: engine FOLDER NEW_TOKENS CONTEXT KEEP TOKEN...\n", stderr), 2;
  model = engine_load(argv[1], message, sizeof message);
  if (model == NULL) return fprintf(stderr, "engine: %s\n", message), 1;
  context = atoll(argv[3]) / PAGE * PAGE;
  keep = atoll(argv[4]) / PAGE * PAGE;
  rows = argc - 5;
  if (rows > context) return fputs("engine: the tokens are more than the context has room for\n", stderr), 1;
  tokens = memory_of((size_t)rows * sizeof *tokens);
  for (int64_t i = 0; i < rows; ++i) tokens[i] = atoll(argv[5 + i]);

  e = make_engine(model, argv[1], context);
  for (made = atoll(argv[2]); made > 0; --made) {
    if (e.length + rows > context) shift(&e, keep, (context - keep) / 2 / PAGE * PAGE);
    tokens[0] = step(&e, tokens, rows);
    rows = 1;
    printf("%lld%c", (long long)tokens[0], made > 1 ? ' ' : '\n');
  }
  free_engine(&e);
  free(tokens);
  engine_unload(model);
  return 0;
}
