// SPDX-License-Identifier: Apache-2.0
// Targets: the instruction sets the CPU kernels exist for. All of them give the same bits.
#pragma once

#include <string_view>
#include <vector>

#include "phasor/result.hpp"
#include "phasor/tensor_view.hpp"

namespace phasor {

/// Names of the targets this machine can run, best first: "avx512", "avx2", "neon", "wasm_simd", always ending in "scalar".
std::vector<std::string_view> targets();

/// The target in use: the forced one, else the one the environment variable PHASOR_TARGET names, else the best.
/// An error when PHASOR_TARGET names a target this machine cannot run.
Result<std::string_view> active_target();

/// Uses `name` from now on in every thread; "" goes back to the default. An unknown name changes nothing.
Status force_target(std::string_view name);

/// Whether this build has kernels for memory on such a device; whether the machine has the device, the first call says.
bool has_backend(DeviceKind kind);

/// The version of the library, "0.1.0".
std::string_view version();

}  // namespace phasor
