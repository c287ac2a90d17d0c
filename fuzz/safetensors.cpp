// SPDX-License-Identifier: Apache-2.0
// Any bytes as a safetensors file: read, and what can be permuted permuted there and back.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <utility>
#include <vector>

#include "../tests/valid_utf8.hpp"
#include "ops/permute.hpp"
#include "spec/files/safetensors.hpp"

namespace {

void there_and_back(std::span<const std::byte> bytes, const phasor::ops::PermutedRows& rows, phasor::PermuteOptions options) {
  std::vector<std::byte> there(bytes.size());
  std::vector<std::byte> back(bytes.size());
  phasor::ops::permute_rows(bytes, there, rows, options);
  std::swap(options.from, options.to);
  phasor::ops::permute_rows(there, back, rows, options);
  if (!std::equal(back.begin(), back.end(), bytes.begin())) std::abort();
}

void permute(std::span<const std::byte> file, const phasor::spec::SafetensorsFile& header, const phasor::PermuteOptions& options) {
  for (const auto& [name, tensor] : header.tensors) {
    try {
      const auto rows = phasor::ops::permuted_rows(name, tensor, options);
      if (rows) there_and_back(file.subspan(tensor.begin, tensor.end - tensor.begin), *rows, options);
    } catch (const phasor::spec::ReadError& error) {
      if (error.status.ok() || !phasor::test::is_message(error.status.message())) std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> file = std::as_bytes(std::span(data, size));
  try {
    const phasor::spec::SafetensorsFile header = phasor::spec::read_safetensors(file);
    permute(file, header, {.heads = 1});
    permute(file, header, {.heads = 4, .kv_heads = 2, .head_dim = 8});
    permute(file, header, {.heads = 3, .kv_heads = 1, .head_dim = 10, .rotary_width = 6, .rotary_offset = 2});
  } catch (const phasor::spec::ReadError& error) {
    if (error.status.ok() || !phasor::test::is_message(error.status.message())) std::abort();
  }
  return 0;
}
