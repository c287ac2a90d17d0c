// SPDX-License-Identifier: Apache-2.0
#include "cuda/host/emulated/decode_on_host.hpp"

namespace phasor::test {

void run_decode(const DecodeWork& work) { run_on_host(work); }

}  // namespace phasor::test
