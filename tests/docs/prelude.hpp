// SPDX-License-Identifier: Apache-2.0
// What fragments of C++ in the documentation may use without saying so.
#pragma once

#include <phasor/phasor.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>
