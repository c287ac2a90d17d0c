/* SPDX-License-Identifier: Apache-2.0
 * What fragments of C in the documentation may use without saying so. */
#pragma once

#include <phasor/phasor.h>

static phasor_error error;
static phasor_rotary* rotary;
static int64_t shape[4] = {1, 1, 1, 128};
static float channels[128];
static phasor_tensor q;
static phasor_rotation rotation = {sizeof rotation, &q, NULL, NULL, NULL, {NULL, 0}, 0, 0, {{NULL, NULL}, NULL}};
