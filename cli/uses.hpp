// SPDX-License-Identifier: Apache-2.0
// The tool speaks in figures and words of the layer that it shares with the playground: under their own names.
#pragma once

namespace phasor::figures {}

namespace phasor::cli {
using namespace figures;  // NOLINT(google-build-using-namespace)
}  // namespace phasor::cli
