// SPDX-License-Identifier: Apache-2.0
// permute_safetensors and detect_pairing: files in, a new file out, whole or not at all.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "ops/permute.hpp"
#include "spec/files/mapped_file.hpp"
#include "spec/format.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor {
namespace {

using ops::PermutedRows;
using spec::fail;
using spec::SafetensorsFile;
using spec::SafetensorsTensor;

[[noreturn]] void trouble(const std::string& path, const char* what) {
  throw spec::ReadError{spec::system_error("permute: " + path, what)};
}

/// A temporary beside its target, which is removed unless it was kept. mkstemp writes over its last six letters.
class NewFile {
 public:
  explicit NewFile(std::string path) : path_(std::move(path)), temporary_(path_ + "." + std::string(6, 'X')) {
    struct stat about{};
    if (::lstat(path_.c_str(), &about) == 0) fail("permute: " + path_ + ": exists, wanted a new file");
    descriptor_ = ::mkstemp(temporary_.data());
    if (descriptor_ < 0) trouble(path_, "no file can be made beside it");
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (!kept_) ::unlink(temporary_.c_str());
  }

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(descriptor_, bytes.data(), std::min<std::size_t>(bytes.size(), std::size_t{1} << 30));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) trouble(path_, "cannot be written");
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
  }

  /// On the disk before it has its name; never in the place of another file.
  void keep() {
    static_cast<void>(::fchmod(descriptor_, 0644));  // mkstemp's 0600 does no harm
    if (::fsync(descriptor_) != 0) trouble(path_, "cannot be written");
    if (::close(std::exchange(descriptor_, -1)) != 0) trouble(path_, "cannot be written");
    if (::link(temporary_.c_str(), path_.c_str()) == 0) {
      ::unlink(temporary_.c_str());
    } else if (errno == EEXIST || ::rename(temporary_.c_str(), path_.c_str()) != 0) {  // rename: file systems without links
      trouble(path_, "cannot be named");
    }
    kept_ = true;
    sync_folder();
  }

 private:
  void sync_folder() const {
    const std::size_t slash = path_.find_last_of('/');
    const std::string folder = slash == std::string::npos ? "." : path_.substr(0, slash + 1);
    const int descriptor = ::open(folder.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return;  // the file is there; only a crash could still lose its name
    static_cast<void>(::fsync(descriptor));
    ::close(descriptor);
  }

  std::string path_;
  std::string temporary_;
  int descriptor_ = -1;
  bool kept_ = false;
};

spec::MappedFile open_file(const std::string& path) {
  Result<spec::MappedFile> file = spec::MappedFile::open(path);
  if (!file) {
    std::string message = "permute: " + file.status().message();
    if (file.status().kind() == ErrorKind::not_found) throw spec::ReadError{Status::not_found(std::move(message))};
    fail(std::move(message));
  }
  return std::move(*file);
}

std::span<const std::byte> bytes_of(const spec::MappedFile& file, const SafetensorsTensor& tensor) {
  return file.bytes().subspan(static_cast<std::size_t>(tensor.begin), static_cast<std::size_t>(tensor.end - tensor.begin));
}

struct Part {
  std::string_view name;
  const SafetensorsTensor* tensor;
  std::optional<PermutedRows> rows;
};

/// The tensors in the order of their bytes.
std::vector<Part> parts_of(const SafetensorsFile& file, const PermuteOptions& options) {
  std::vector<Part> parts;
  parts.reserve(file.tensors.size());
  for (const auto& [name, tensor] : file.tensors) parts.push_back({name, &tensor, ops::permuted_rows(name, tensor, options)});
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
    return std::pair(a.tensor->begin, a.tensor->end) < std::pair(b.tensor->begin, b.tensor->end);
  });
  return parts;
}

PermuteReport permute(const std::string& from_path, const std::string& to_path, const PermuteOptions& options) {
  ops::check_shape(options);
  if (options.from == options.to) {
    fail(spec::format("permute: from and to are both {}, wanted one of each", options.from == Pairing::half ? "half" : "interleaved"));
  }
  const spec::MappedFile file = open_file(from_path);
  const SafetensorsFile header = spec::read_safetensors(file.bytes());
  const std::vector<Part> parts = parts_of(header, options);
  NewFile out(to_path);
  out.write(file.bytes().first(static_cast<std::size_t>(header.data_begin)));
  PermuteReport report;
  std::vector<std::byte> permuted;
  for (const Part& part : parts) {
    const std::span<const std::byte> bytes = bytes_of(file, *part.tensor);
    if (!part.rows) {
      out.write(bytes);
      ++report.copied;
      continue;
    }
    permuted.resize(bytes.size());
    ops::permute_rows(bytes, permuted, *part.rows, options);
    out.write(permuted);
    report.permuted.emplace_back(part.name);
  }
  if (report.permuted.empty()) fail("permute: " + from_path + ": has no q or k weights by the names that are known");
  out.keep();
  return report;
}

// ---- Detecting ----

/// Which relations the tensors seen so far allow.
struct Possible {
  bool same = true;
  bool half_to_interleaved = true;
  bool interleaved_to_half = true;
};

bool is_permuted(std::span<const std::byte> left, std::span<const std::byte> right, const PermutedRows& rows, PermuteOptions options,
                 Pairing from) {
  options.from = from;
  options.to = from == Pairing::half ? Pairing::interleaved : Pairing::half;
  std::vector<std::byte> permuted(left.size());
  ops::permute_rows(left, permuted, rows, options);
  return std::equal(permuted.begin(), permuted.end(), right.begin(), right.end());
}

void narrow(Possible& possible, std::span<const std::byte> left, std::span<const std::byte> right, const PermutedRows& rows,
            const PermuteOptions& shape) {
  possible.same = possible.same && std::equal(left.begin(), left.end(), right.begin(), right.end());
  possible.half_to_interleaved = possible.half_to_interleaved && is_permuted(left, right, rows, shape, Pairing::half);
  possible.interleaved_to_half = possible.interleaved_to_half && is_permuted(left, right, rows, shape, Pairing::interleaved);
}

PairingRelation detect(const std::string& left_path, const std::string& right_path, const PermuteOptions& shape) {
  ops::check_shape(shape);
  const spec::MappedFile left = open_file(left_path);
  const spec::MappedFile right = open_file(right_path);
  const SafetensorsFile left_header = spec::read_safetensors(left.bytes());
  const SafetensorsFile right_header = spec::read_safetensors(right.bytes());
  Possible possible;
  std::int64_t compared = 0;
  for (const Part& part : parts_of(left_header, shape)) {
    if (!part.rows) continue;
    const auto other = right_header.tensors.find(part.name);
    if (other == right_header.tensors.end()) fail(spec::format("permute: {} has no tensor {}", right_path, part.name));
    if (other->second.dtype != part.tensor->dtype || other->second.shape != part.tensor->shape) {
      fail(spec::format("permute: {} has another dtype or shape in {} and {}", part.name, left_path, right_path));
    }
    narrow(possible, bytes_of(left, *part.tensor), bytes_of(right, other->second), *part.rows, shape);
    ++compared;
  }
  if (compared == 0) fail("permute: " + left_path + ": has no q or k weights by the names that are known");
  if (possible.same) return PairingRelation::same;
  if (possible.half_to_interleaved) return PairingRelation::half_to_interleaved;
  return possible.interleaved_to_half ? PairingRelation::interleaved_to_half : PairingRelation::different;
}

/// Runs it, with whatever it throws as a Status.
template <class T, class F>
Result<T> guarded(F run) {
  return spec::without_exceptions("permute", [&]() -> Result<T> {
    try {
      return run();
    } catch (const spec::ReadError& error) {
      return error.status;
    }
  });
}

}  // namespace

Result<PermuteReport> permute_safetensors(const std::string& from_path, const std::string& to_path, const PermuteOptions& options) {
  return guarded<PermuteReport>([&] { return permute(from_path, to_path, options); });
}

Result<PairingRelation> detect_pairing(const std::string& left_path, const std::string& right_path, const PermuteOptions& shape) {
  return guarded<PairingRelation>([&] { return detect(left_path, right_path, shape); });
}

}  // namespace phasor
