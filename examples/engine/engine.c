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

/* Of the host. */
static void* memory_of(size_t bytes) {
  void* memory = calloc(bytes > 0 ? bytes : 1, 1);
  if (memory == NULL) {
    fputs("engine: out of memory\n", stderr);
    exit(1);
  }
  return memory;
}

/* One sequence: its pages are the same in every layer. Tokens, positions and numbers are in the device's memory. */
typedef struct engine {
  const engine_model* model;
  const engine_device* device;
  phasor_rotary** rotaries; /* one per layer */
  phasor_scheme* scheme;
  float** keys; /* of each layer, (blocks, page, heads, channels) */
  float** values;
  int64_t blocks;
  int32_t* table; /* block of each page of the sequence: the host's */
  int64_t pages;
  int32_t* free; /* a stack, so that pages lie anywhere */
  int64_t free_count;
  int64_t length; /* tokens in the cache */
  int32_t* device_table;
  int64_t* device_length;
  void* workspace;
  int64_t workspace_bytes;
} engine;

static float* floats(const engine* e, int64_t count) { return e->device->take((size_t)count * sizeof(float)); }
static phasor_device where(const engine* e) {
  const phasor_device device = {e->device->is_cuda ? 2 : 1, 0}; /* DLPack's numbers */
  return device;
}
static phasor_execution on(const engine* e) {
  const phasor_execution execution = {.stream = e->device->stream};
  return execution;
}
static phasor_tensor tensor_of(const engine* e, void* data, phasor_element element, int64_t* shape, int32_t axes) {
  phasor_tensor tensor = phasor_tensor_of(data, element, shape, axes);
  tensor.device = where(e);
  return tensor;
}

static engine make_engine(const engine_model* model, const char* folder, int64_t context) {
  engine e = {0};
  phasor_model* positions = NULL;
  phasor_attention_scheme causal = {.size = sizeof causal, .mask = PHASOR_MASK_CAUSAL};
  e.model = model;
  e.device = model->device;
  e.blocks = (context + PAGE - 1) / PAGE;
  e.table = memory_of((size_t)e.blocks * sizeof *e.table);
  e.free = memory_of((size_t)e.blocks * sizeof *e.free);
  for (; e.free_count < e.blocks; ++e.free_count) e.free[e.free_count] = (int32_t)e.free_count;
  e.rotaries = memory_of((size_t)model->layers * sizeof *e.rotaries);
  e.keys = memory_of((size_t)model->layers * sizeof *e.keys);
  e.values = memory_of((size_t)model->layers * sizeof *e.values);
  must(phasor_read_model(folder, NULL, &positions, &error));
  e.device_table = e.device->take((size_t)e.blocks * sizeof *e.device_table);
  e.device_length = e.device->take(sizeof *e.device_length);
  for (int64_t i = 0; i < model->layers; ++i) {
    must(phasor_model_make_rotary(positions, -1, (size_t)i, 0, &e.rotaries[i], &error));
    e.keys[i] = floats(&e, e.blocks * PAGE * model->kv_heads * model->head_dim);
    e.values[i] = floats(&e, e.blocks * PAGE * model->kv_heads * model->head_dim);
  }
  phasor_model_free(positions);
  must(phasor_scheme_make(&causal, &e.scheme, &error));
  return e;
}

static void free_engine(engine* e) {
  for (int64_t i = 0; i < e->model->layers; ++i) {
    phasor_rotary_free(e->rotaries[i]);
    e->device->give_back(e->keys[i]);
    e->device->give_back(e->values[i]);
  }
  phasor_scheme_free(e->scheme);
  free(e->rotaries);
  free(e->keys);
  free(e->values);
  free(e->table);
  free(e->free);
  e->device->give_back(e->device_table);
  e->device->give_back(e->device_length);
  if (e->workspace != NULL) e->device->give_back(e->workspace);
}

/* The device gets what was decided about pages. */
static void write_pages(const engine* e) {
  e->device->copy(e->device_table, e->table, (size_t)e->pages * sizeof *e->table);
  e->device->copy(e->device_length, &e->length, sizeof e->length);
}

/* Positions of some tokens one after the other, and where they lie. */
typedef struct places {
  int64_t count;
  int64_t* positions;
  int64_t* slots;
} places;

static places places_of(const engine* e, int64_t first, int64_t count) {
  const size_t bytes = (size_t)count * sizeof(int64_t);
  const places made = {count, e->device->take(bytes), e->device->take(bytes)};
  int64_t shape[1] = {count}, table_shape[2] = {1, e->pages};
  const phasor_tensor slots = tensor_of(e, made.slots, PHASOR_I64, shape, 1);
  const phasor_tensor positions = tensor_of(e, made.positions, PHASOR_I64, shape, 1);
  const phasor_tensor table = tensor_of(e, e->device_table, PHASOR_I32, table_shape, 2);
  const phasor_execution execution = on(e);
  const phasor_slots_call call = {.size = sizeof call,
                                  .out = &slots,
                                  .table = {.blocks = &table, .page_size = PAGE},
                                  .at = {.tensor = &positions},
                                  .execution = execution};
  must(phasor_fill_from_offset(&positions, first, &execution, &error));
  must(phasor_fill_slots(&call, &error));
  return made;
}
static void free_places(const engine* e, places p) {
  e->device->give_back(p.positions);
  e->device->give_back(p.slots);
}

static phasor_cache_view cache_of(const engine* e, float* data) {
  phasor_cache_view view = {.size = sizeof view};
  const phasor_cache_memory memory = {.size = sizeof memory,
                                      .data = data,
                                      .blocks = e->blocks,
                                      .block = PAGE,
                                      .heads = e->model->kv_heads,
                                      .head_dim = e->model->head_dim,
                                      .device = where(e)};
  must(phasor_contiguous_cache(&memory, &view, &error));
  return view;
}

/* q, k and v of the new tokens, (1, rows, heads, channels) each, and what attention makes of them. */
typedef struct heads {
  float *q, *k, *v, *out;
} heads;

/* q and k are rotated, k and v written to their pages. */
static void prepare_heads(engine* e, int64_t layer, const heads* h, places at) {
  const engine_model* m = e->model;
  int64_t q_shape[4] = {1, at.count, m->heads, m->head_dim}, kv_shape[4] = {1, at.count, m->kv_heads, m->head_dim};
  int64_t count[1] = {at.count};
  const phasor_tensor q = tensor_of(e, h->q, PHASOR_F32, q_shape, 4);
  const phasor_tensor k = tensor_of(e, h->k, PHASOR_F32, kv_shape, 4);
  const phasor_tensor v = tensor_of(e, h->v, PHASOR_F32, kv_shape, 4);
  const phasor_tensor slots = tensor_of(e, at.slots, PHASOR_I64, count, 1);
  const phasor_tensor positions = tensor_of(e, at.positions, PHASOR_I64, count, 1);
  const phasor_cache_view keys = cache_of(e, e->keys[layer]), values = cache_of(e, e->values[layer]);
  const phasor_rotary* rotary = e->rotaries[layer];
  phasor_cache_view in_place = {.size = sizeof in_place};
  const phasor_prepare_inputs from = {.size = sizeof from, .q = &q, .k = &k, .v = &v, .execution = on(e)};
  const phasor_prepare_rotation rotation = {
      .size = sizeof rotation, .list = {.rotaries = &rotary, .count = 1}, .positions = {.tensor = &positions}};
  const phasor_token_places to_slots = {.size = sizeof to_slots, .kind = PHASOR_PLACES_SLOTS, .slots = &slots};
  const phasor_prepare_outputs to = {
      .size = sizeof to, .q = {.first = &in_place}, .k = {.first = &keys}, .v = {.first = &values}, .places = &to_slots};
  must(phasor_tensor_cache(&q, &in_place, &error));
  must(phasor_prepare_attention(&from, &rotation, &to, NULL, &error));
}

/* Attention goes over the pages. */
static void attend_heads(engine* e, int64_t layer, const heads* h, int64_t rows) {
  const engine_model* m = e->model;
  int64_t q_shape[4] = {1, rows, m->heads, m->head_dim}, table_shape[2] = {1, e->pages}, one[1] = {1};
  const phasor_tensor q = tensor_of(e, h->q, PHASOR_F32, q_shape, 4);
  const phasor_tensor out = tensor_of(e, h->out, PHASOR_F32, q_shape, 4);
  const phasor_tensor table = tensor_of(e, e->device_table, PHASOR_I32, table_shape, 2);
  const phasor_tensor length = tensor_of(e, e->device_length, PHASOR_I64, one, 1);
  const phasor_cache_view keys = cache_of(e, e->keys[layer]), values = cache_of(e, e->values[layer]);
  const phasor_attention_tensors tensors = {.size = sizeof tensors, .execution = on(e)};
  const phasor_cached_inputs cached = {.size = sizeof cached,
                                       .q = &q,
                                       .k = &keys,
                                       .v = &values,
                                       .pages = {.blocks = &table, .lengths = &length, .page_size = PAGE},
                                       .tensors = &tensors};
  const phasor_attention_outputs outputs = {.size = sizeof outputs, .out = &out};
  phasor_workspace workspace = {0};
  int64_t bytes = 0;

  must(phasor_cached_attention_workspace(e->scheme, &cached, &bytes, &error));
  if (e->workspace == NULL || bytes > e->workspace_bytes) {
    if (e->workspace != NULL) e->device->give_back(e->workspace);
    e->workspace = e->device->take((size_t)bytes);
    e->workspace_bytes = bytes;
  }
  workspace.memory = e->workspace;
  workspace.bytes = (size_t)e->workspace_bytes;
  must(phasor_cached_attention(e->scheme, &cached, &outputs, &workspace, &error));
}

/* x += o(attention(q, k, v)). */
static void attend(engine* e, int64_t layer, float* x, places at) {
  const engine_layer* w = &e->model->layer[layer];
  const engine_device* d = e->device;
  const int64_t rows = at.count, hidden = rows * e->model->hidden;
  float* h = floats(e, hidden);
  const heads of = {floats(e, rows * w->q.out), floats(e, rows * w->k.out), floats(e, rows * w->v.out), floats(e, rows * w->q.out)};
  d->norm(h, x, rows, w->input_norm);
  d->linear(of.q, h, rows, w->q);
  d->linear(of.k, h, rows, w->k);
  d->linear(of.v, h, rows, w->v);
  prepare_heads(e, layer, &of, at);
  attend_heads(e, layer, &of, rows);
  d->linear(h, of.out, rows, w->o);
  d->add(x, h, hidden);
  d->give_back(of.q);
  d->give_back(of.k);
  d->give_back(of.v);
  d->give_back(of.out);
  d->give_back(h);
}

/* The likeliest token after `tokens`, which are added to the cache. */
static int64_t step(engine* e, const int64_t* tokens, int64_t rows) {
  const engine_model* m = e->model;
  float* x = floats(e, rows * m->hidden);
  float* logits = memory_of((size_t)m->vocabulary * sizeof *logits);
  places at;
  int64_t next;
  while (e->pages * PAGE < e->length + rows) e->table[e->pages++] = e->free[--e->free_count];
  e->length += rows;
  write_pages(e);
  at = places_of(e, e->length - rows, rows);
  engine_embed(x, tokens, rows, m);
  for (int64_t layer = 0; layer < m->layers; ++layer) {
    attend(e, layer, x, at);
    engine_feed_forward(x, rows, m, &m->layer[layer]);
  }
  engine_logits(logits, x + (rows - 1) * m->hidden, m);
  next = engine_likeliest(logits, m);
  free_places(e, at);
  free(logits);
  e->device->give_back(x);
  return next;
}

/* Drops `count` tokens behind the first `keep`, both whole pages, and turns the keys behind them to their new positions. */
static void shift(engine* e, int64_t keep, int64_t count) {
  const engine_model* m = e->model;
  const int64_t first = keep / PAGE, dropped = count / PAGE;
  int64_t shape[4] = {e->blocks, PAGE, m->kv_heads, m->head_dim}, moving[1] = {e->length - count - keep};
  places to;
  memcpy(e->free + e->free_count, e->table + first, (size_t)dropped * sizeof *e->table);
  e->free_count += dropped;
  memmove(e->table + first, e->table + first + dropped, (size_t)(e->pages - first - dropped) * sizeof *e->table);
  e->pages -= dropped;
  e->length -= count;
  write_pages(e);
  to = places_of(e, keep, e->length - keep);
  for (int64_t layer = 0; layer < m->layers; ++layer) {
    const phasor_tensor cache = tensor_of(e, e->keys[layer], PHASOR_F32, shape, 4);
    const phasor_tensor slots = tensor_of(e, to.slots, PHASOR_I64, moving, 1);
    const phasor_tensor positions = tensor_of(e, to.positions, PHASOR_I64, moving, 1);
    const phasor_rerotation moved = {.size = sizeof moved,
                                     .keys = &cache,
                                     .slots = &slots,
                                     .from = {.rotary = e->rotaries[layer], .positions = {.offset = keep + count}},
                                     .to = {.rotary = e->rotaries[layer], .positions = {.tensor = &positions}},
                                     .execution = on(e)};
    must(phasor_rerotate(&moved, &error));
  }
  free_places(e, to);
}

static int stop(const char* why) {
  fprintf(stderr, "engine: %s\n", why);
  return 1;
}

int main(int argc, char** argv) {
  char message[256];
  const engine_device* device;
  const engine_model* model;
  engine e;
  int64_t made, context, keep, rows, *tokens;
  const char* name = "cpu";
  if (argc > 2 && strcmp(argv[1], "--device") == 0) {
    name = argv[2];
    argc -= 2;
    argv += 2;
  }
  if (argc < 6) return fputs("usage: engine [--device cpu|cuda] FOLDER NEW_TOKENS CONTEXT KEEP TOKEN...\n", stderr), 2;
  device = engine_device_of(name, message, sizeof message);
  if (device == NULL) return stop(message);
  model = engine_load(argv[1], device, message, sizeof message);
  if (model == NULL) return stop(message);
  context = atoll(argv[3]) / PAGE * PAGE;
  keep = atoll(argv[4]) / PAGE * PAGE;
  rows = argc - 5;
  if (rows > context) return stop("the tokens are more than the context has room for");
  tokens = memory_of((size_t)rows * sizeof *tokens);
  for (int64_t i = 0; i < rows; ++i) {
    tokens[i] = atoll(argv[5 + i]);
    if (tokens[i] < 0 || tokens[i] >= model->vocabulary) return stop("a token is not of the vocabulary");
  }

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
