// SPDX-License-Identifier: Apache-2.0
// Text from files as valid UTF-8: names in a GGUF file, paths and cut strings may hold any bytes, and a message with them would be no text.
// spec::format does it with every message.
#pragma once

#include <string>

namespace phasor::spec {

/// The text itself where it is UTF-8 (RFC 3629: no surrogates, nothing longer than needed) without control characters but tabs and line
/// ends; every other byte as \xNN, so that no terminal obeys it and every language can read it.
std::string printable_utf8(std::string text);

}  // namespace phasor::spec
