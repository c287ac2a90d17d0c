// SPDX-License-Identifier: Apache-2.0
// read_model: a config.json, a folder that has one, or a GGUF file.
#include "spec/read_model.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "spec/files/mapped_file.hpp"
#include "spec/format.hpp"
#include "spec/gguf/gguf.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor::spec {
namespace {

constexpr std::uint64_t largest_config = std::uint64_t{64} << 20;
constexpr std::uint64_t longest_head = std::uint64_t{72} << 20;  // more than the metadata may have

/// The message with the file's name in front.
Result<ModelPositions> named(const std::string& path, Result<ModelPositions> result) {
  const Status status = result.status();
  if (status.ok() || status.kind() == ErrorKind::out_of_memory) return result;
  std::string message = spec::format("{}: {}", path, status.message());
  return status.kind() == ErrorKind::unsupported ? Status::unsupported(std::move(message)) : Status::invalid(std::move(message));
}

Result<ModelPositions> read_config(const std::string& path, const PartialFile& file, const ReadOptions& options) {
  if (file.size() > largest_config) {
    return Status::invalid(spec::format("{}: is neither a GGUF file nor a config.json, which has at most {} bytes", path, largest_config));
  }
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  if (!file.read(0, std::as_writable_bytes(std::span(text)))) return Status::invalid(spec::format("{}: cannot be read", path));
  return named(path, parse_hf_config(text, options));
}

Result<ModelPositions> read_gguf(const std::string& path, const PartialFile& file, const ReadOptions& options, FileAccess access) {
  if (access == FileAccess::in_parts) return named(path, read_gguf_in_parts(file, options));
  const Result<MappedFile> mapped = MappedFile::open(path);
  if (!mapped) return mapped.status();
  return named(path, parse_gguf(mapped->bytes(), options));
}

std::string config_of(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored) ? (std::filesystem::path(path) / "config.json").string() : path;
}

/// About a folder; `kind` says whether the file is not there or cannot be read.
Status no_config(const std::string& folder, ErrorKind kind) {
  std::string message = spec::format("{}: is a folder without a readable config.json", folder);
  return kind == ErrorKind::not_found ? Status::not_found(std::move(message)) : Status::invalid(std::move(message));
}

}  // namespace

Result<ModelPositions> read_gguf_in_parts(const PartialFile& file, const ReadOptions& options) {
  const auto fetch = [&](std::uint64_t offset, std::span<std::byte> to) { return file.read(offset, to); };
  std::vector<std::byte> head;
  for (std::uint64_t part = std::uint64_t{1} << 20;; part *= 8) {
    head.resize(static_cast<std::size_t>(std::min({part, file.size(), longest_head})));
    if (!file.read(0, head)) return Status::invalid("cannot be read");
    bool needs_more = false;
    Result<ModelPositions> result = parse_gguf_bytes({.head = head, .size = file.size(), .fetch = fetch}, options, &needs_more);
    if (!needs_more || head.size() == std::min(file.size(), longest_head)) return result;
  }
}

Result<ModelPositions> read_model_by(const std::string& path, const ReadOptions& options, FileAccess access) {
  return without_exceptions("read_model", [&]() -> Result<ModelPositions> {
    const std::string file_path = config_of(path);
    const Result<PartialFile> file = PartialFile::open(file_path);
    if (!file && file_path != path) return no_config(path, file.status().kind());
    if (!file) return file.status();
    if (file->size() == 0) return Status::invalid(spec::format("{}: is empty, wanted a config.json or a GGUF file", file_path));
    std::array<std::byte, 4> magic{};
    const bool is_gguf = file->read(0, magic) && std::string_view(reinterpret_cast<const char*>(magic.data()), magic.size()) == "GGUF";
    return is_gguf ? read_gguf(file_path, *file, options, access) : read_config(file_path, *file, options);
  });
}

}  // namespace phasor::spec

namespace phasor {

Result<ModelPositions> read_model(const std::string& path, const ReadOptions& options) {
#ifdef __EMSCRIPTEN__  // a mapping there is a copy of the whole file
  return spec::read_model_by(path, options, spec::FileAccess::in_parts);
#else
  return spec::read_model_by(path, options, spec::FileAccess::mapped);
#endif
}

}  // namespace phasor
