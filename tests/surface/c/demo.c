/* SPDX-License-Identifier: Apache-2.0
 * A user's program in C: what a model's config.json says about positions, one query rotated by it, and how exact that is.
 *   demo config.json   (demo_config.json: heads of 128 channels, base 10000; the checks below know it) */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "phasor/phasor.h"

enum { HEAD_DIM = 128, POSITION = 1000000 };

static int failed(const char* what, const char* message) {
  fprintf(stderr, "demo: %s: %s\n", what, message);
  return 1;
}

/* The text in plain words: a first call tells how long it is. */
static int print_explanation(const phasor_model* model) {
  phasor_error error;
  phasor_text text = {NULL, 0, 0};
  int named = 0;
  if (phasor_explain(model, NULL, &text, &error) != PHASOR_TOO_SMALL) return failed("explain", "a text without room for it");
  text.capacity = text.length + 1;
  text.data = malloc(text.capacity);
  if (text.data == NULL) return failed("explain", "no memory");
  if (phasor_explain(model, NULL, &text, &error) == PHASOR_OK) {
    printf("%s\n", text.data);
    named = strstr(text.data, "llama") != NULL;
  }
  free(text.data);
  return named ? 0 : failed("explain", "the text does not name the model");
}

static int check_layer(const phasor_model* model) {
  phasor_error error;
  phasor_model_positions positions = {.size = sizeof positions};
  phasor_layer_positions layer = {.size = sizeof layer};
  if (phasor_model_get_positions(model, &positions, &error) != PHASOR_OK) return failed("positions", error.message);
  if (phasor_model_get_layer(model, -1, 0, &layer, &error) != PHASOR_OK) return failed("layer", error.message);
  printf("%s: %d layers, %d channels a head, base %g\n", positions.model_type, (int)positions.layer_count, (int)layer.rotary->head_dim,
         layer.rotary->base);
  if (positions.layer_count != 3 || layer.rotary->head_dim != HEAD_DIM || layer.rotary->base != 10000 || layer.bias != NULL) {
    return failed("layer", "it is not the file's");
  }
  return 0;
}

/* Rotates the unit vector of the first pair, which turns by a radian a position. */
static int rotate(const phasor_rotary* rotary) {
  phasor_error error;
  float q[HEAD_DIM] = {1};
  int64_t shape[2] = {1, HEAD_DIM};
  phasor_tensor tensor = phasor_tensor_of(q, PHASOR_F32, shape, 2);
  phasor_rotation rotation = {.size = sizeof rotation, .q = &tensor, .positions = {NULL, POSITION}};
  if (phasor_rotary_apply(rotary, &rotation, &error) != PHASOR_OK) return failed("apply", error.message);
  printf("(1, 0) at %d: (%.8f, %.8f)\n", (int)POSITION, q[0], q[HEAD_DIM / 2]);
  if (q[0] != (float)cos(POSITION) || q[HEAD_DIM / 2] != (float)sin(POSITION)) return failed("apply", "not the nearest values");
  return 0;
}

static int print_angle_error(const phasor_rotary* rotary) {
  phasor_error error;
  phasor_angle_error_result result = {.size = sizeof result};
  if (phasor_angle_error(rotary, POSITION, &result, &error) != PHASOR_OK) return failed("angle_error", error.message);
  printf("largest error of cos and sin at %d: %.2g, by float32 angles %.2g\n", (int)POSITION, result.exact, result.float32);
  if (!(result.exact > 0 && result.exact < 6e-8 && result.float32 > 1e-3)) return failed("angle_error", "not of this spec");
  return 0;
}

/* A query of six channels does not fit; it stays as it is. */
static int print_error(const phasor_rotary* rotary) {
  phasor_error error;
  float q[6] = {1, 2, 3, 4, 5, 6};
  int64_t shape[2] = {1, 6};
  phasor_tensor tensor = phasor_tensor_of(q, PHASOR_F32, shape, 2);
  phasor_rotation rotation = {.size = sizeof rotation, .q = &tensor};
  if (phasor_rotary_apply(rotary, &rotation, &error) != PHASOR_INVALID) return failed("apply", "six channels were taken");
  printf("on purpose: %s\n", error.message);
  if (strcmp(error.message, "apply_rotary: q has head_dim 6, the spec wants 128") != 0 || q[0] != 1) return failed("apply", "the error");
  return 0;
}

int main(int argc, char** argv) {
  phasor_error error;
  phasor_model* model = NULL;
  phasor_rotary* rotary = NULL;
  int status = 1;
  if (argc != 2) return failed("usage", "demo config.json");
  if (phasor_read_model(argv[1], NULL, &model, &error) != PHASOR_OK) return failed("read_model", error.message);
  if (phasor_model_make_rotary(model, -1, 0, 0, &rotary, &error) == PHASOR_OK) {
    status = print_explanation(model) | check_layer(model) | rotate(rotary) | print_angle_error(rotary) | print_error(rotary);
  } else {
    failed("model_make_rotary", error.message);
  }
  phasor_rotary_free(rotary);
  phasor_model_free(model);
  return status;
}
