// SPDX-License-Identifier: Apache-2.0
// The forward call laid out, as `attention` runs it and `explain_attention` describes it.
#pragma once

#include "cpu/attention/host/prepare.hpp"

namespace phasor::attend {

/// prepare, and what the forward needs beside: partial results of decoding, scratch.
Status lay_out_forward(const Call& call, Arena& arena, Prepared& out);

}  // namespace phasor::attend
