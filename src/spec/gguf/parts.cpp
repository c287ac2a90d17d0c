// SPDX-License-Identifier: Apache-2.0
// parse_gguf_parts: the reader on the parts of a file that are at hand; what it reaches for in vain is what is wanted.
#include <algorithm>

#include "phasor/gguf_head.hpp"
#include "spec/format.hpp"
#include "spec/gguf/gguf.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor {
namespace {

constexpr std::uint64_t first_head = std::uint64_t{64} << 10;
constexpr std::uint64_t longest_head = std::uint64_t{72} << 20;  // more than the metadata may have, as in read_model
constexpr std::uint64_t growth = 8;

Status check_parts(std::uint64_t size, std::span<const FilePart> parts) {
  for (const FilePart& part : parts) {
    if (part.offset > size || part.bytes.size() > size - part.offset) {
      return Status::invalid(spec::format("gguf: a part at byte {} has {} bytes, the file has {}", part.offset, part.bytes.size(), size));
    }
  }
  return {};
}

/// The longest part that begins where the file does.
std::span<const std::byte> head_of(std::span<const FilePart> parts) {
  std::span<const std::byte> head;
  for (const FilePart& part : parts) {
    if (part.offset == 0 && part.bytes.size() > head.size()) head = part.bytes;
  }
  return head;
}

bool copy_from(std::span<const FilePart> parts, std::uint64_t offset, std::span<std::byte> to) {
  for (const FilePart& part : parts) {
    if (offset < part.offset || offset - part.offset > part.bytes.size()) continue;
    const auto begin = static_cast<std::size_t>(offset - part.offset);
    if (part.bytes.size() - begin < to.size()) continue;
    std::copy_n(part.bytes.begin() + static_cast<std::ptrdiff_t>(begin), to.size(), to.begin());
    return true;
  }
  return false;
}

Result<GgufParts> read_parts(std::uint64_t size, std::span<const FilePart> parts, const ReadOptions& options) {
  if (Status status = check_parts(size, parts); !status) return status;
  const std::span<const std::byte> head = head_of(parts);
  const std::uint64_t most = std::min(size, longest_head);
  GgufParts found;
  // What is not at hand is read as zeros: the result is then thrown away, and the reader goes on to whatever else it wants.
  const auto fetch = [&](std::uint64_t offset, std::span<std::byte> to) {
    if (copy_from(parts, offset, to)) return true;
    found.missing.push_back({offset, to.size()});
    std::fill(to.begin(), to.end(), std::byte{0});
    return true;
  };
  bool needs_more = head.empty();
  Result<ModelPositions> model = Status::invalid("gguf: no part of the file is at hand");
  if (!needs_more) model = spec::parse_gguf_bytes({.head = head, .size = size, .fetch = fetch}, options, &needs_more);
  if (needs_more && head.size() < most) {
    const std::uint64_t wanted = std::max<std::uint64_t>(first_head, head.size() * growth);
    return GgufParts{std::nullopt, {{0, std::min(most, wanted)}}};
  }
  if (!found.missing.empty()) return found;
  if (!model) return model.status();
  found.model = *std::move(model);
  return found;
}

}  // namespace

Result<GgufParts> parse_gguf_parts(std::uint64_t size, std::span<const FilePart> parts, const ReadOptions& options) {
  return spec::without_exceptions("gguf", [&] { return read_parts(size, parts, options); });
}

}  // namespace phasor
