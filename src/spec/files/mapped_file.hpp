// SPDX-License-Identifier: Apache-2.0
// MappedFile: a file's bytes, mapped where the system can; and ways to read a part of one where it cannot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>

#include "phasor/result.hpp"

namespace phasor::spec {

/// About a call of the system that failed, by errno: not_found where a file or folder is not there, else invalid.
Status system_error(const std::string& path, const char* what);

/// A whole file, read only. A file that another process shortens meanwhile is the caller's trouble, as with every mapping.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  MappedFile(const std::byte* data, std::size_t size) : data_(data), size_(size) {}
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// A file read in parts: for systems where mapping means reading it whole (WebAssembly).
class PartialFile {
 public:
  static Result<PartialFile> open(const std::string& path);

  std::uint64_t size() const { return size_; }
  /// False when that many bytes are not there.
  bool read(std::uint64_t offset, std::span<std::byte> to) const;

 private:
  struct Close {
    void operator()(std::FILE* file) const { static_cast<void>(std::fclose(file)); }
  };
  std::unique_ptr<std::FILE, Close> file_;
  std::uint64_t size_ = 0;
};

}  // namespace phasor::spec
