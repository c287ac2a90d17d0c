// SPDX-License-Identifier: Apache-2.0
// A file's bytes by mmap, and parts of a file by the C library.
#include "spec/files/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "spec/format.hpp"

namespace phasor::spec {
namespace {

// Closes on every way out.
struct Descriptor {
  int number = -1;
  Descriptor(const std::string& path, int flags) : number(::open(path.c_str(), flags)) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

/// The size of a regular file.
Result<std::uint64_t> size_of(const std::string& path) {
  struct stat about{};
  if (::stat(path.c_str(), &about) != 0) return system_error(path, "cannot be found");
  if (!S_ISREG(about.st_mode)) return Status::invalid(spec::format("{}: is no regular file", path));
  return static_cast<std::uint64_t>(about.st_size);
}

}  // namespace

Status system_error(const std::string& path, const char* what) {
  const bool missing = errno == ENOENT || errno == ENOTDIR;
  std::string message = spec::format("{}: {}: {}", path, what, std::strerror(errno));
  return missing ? Status::not_found(std::move(message)) : Status::invalid(std::move(message));
}

Result<MappedFile> MappedFile::open(const std::string& path) {
  const Result<std::uint64_t> size = size_of(path);
  if (!size) return size.status();
  const Descriptor file(path, O_RDONLY | O_CLOEXEC);
  if (file.number < 0) return system_error(path, "cannot be opened");
  if (*size == 0) return MappedFile(nullptr, 0);
  if (*size > std::numeric_limits<std::size_t>::max() / 2)
    return Status::unsupported(spec::format("{}: is larger than this machine can map", path));
  const auto length = static_cast<std::size_t>(*size);
  void* data = ::mmap(nullptr, length, PROT_READ, MAP_PRIVATE, file.number, 0);
  if (data == MAP_FAILED) return system_error(path, "cannot be mapped");
  return MappedFile(static_cast<const std::byte*>(data), length);
}

MappedFile::MappedFile(MappedFile&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  // munmap takes what mmap gave, which was not const.
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

Result<PartialFile> PartialFile::open(const std::string& path) {
  const Result<std::uint64_t> size = size_of(path);
  if (!size) return size.status();
  PartialFile file;
  file.size_ = *size;
  file.file_.reset(std::fopen(path.c_str(), "rb"));
  if (!file.file_) return system_error(path, "cannot be opened");
  return file;
}

bool PartialFile::read(std::uint64_t offset, std::span<std::byte> to) const {
  if (offset > size_ || to.size() > size_ - offset) return false;
  if (::fseeko(file_.get(), static_cast<off_t>(offset), SEEK_SET) != 0) return false;
  return std::fread(to.data(), 1, to.size(), file_.get()) == to.size();
}

}  // namespace phasor::spec
