// SPDX-License-Identifier: Apache-2.0
// What only a GPU can say of decoding. Of caches of 8 and of 16 bits: how many times 16 keys a warp takes at a time, how many stages it
// has, and how many blocks of few rows a multiprocessor has at least.
#pragma once

#ifndef PHASOR_DECODE_SPLIT
#define PHASOR_DECODE_SPLIT 512
#endif

#ifndef PHASOR_DECODE_GROUPS_8
#define PHASOR_DECODE_GROUPS_8 2
#endif
#ifndef PHASOR_DECODE_STAGES_8
#define PHASOR_DECODE_STAGES_8 2
#endif
#ifndef PHASOR_DECODE_BLOCKS_8
#define PHASOR_DECODE_BLOCKS_8 3
#endif
#ifndef PHASOR_DECODE_GROUPS_16
#define PHASOR_DECODE_GROUPS_16 1
#endif
#ifndef PHASOR_DECODE_STAGES_16
#define PHASOR_DECODE_STAGES_16 3
#endif
#ifndef PHASOR_DECODE_BLOCKS_16
#define PHASOR_DECODE_BLOCKS_16 2
#endif
#ifndef PHASOR_DECODE_PREFETCH
#define PHASOR_DECODE_PREFETCH 256
#endif
#ifndef PHASOR_DECODE_EVICT
#define PHASOR_DECODE_EVICT 0
#endif
#ifndef PHASOR_DECODE_EARLY
#define PHASOR_DECODE_EARLY 0
#endif
