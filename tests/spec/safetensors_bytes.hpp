// SPDX-License-Identifier: Apache-2.0
// safetensors files built in memory and on disk.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace phasor::test {

/// A header of this text and so many bytes of data.
inline std::string safetensors_bytes(std::string_view header, std::string_view data = {}) {
  std::string bytes(8, '\0');
  const auto length = static_cast<std::uint64_t>(header.size());
  std::memcpy(bytes.data(), &length, sizeof(length));
  return bytes.append(header).append(data);
}

/// A folder of its own, gone with the test.
class Folder {
 public:
  Folder()
      : path_((std::filesystem::temp_directory_path() / ("phasor_test_" + std::to_string(::getpid()) + "_" + std::to_string(next()++)))
                  .string()) {
    std::filesystem::create_directories(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }
  std::string file(std::string_view name, std::string_view bytes) const {
    std::ofstream(file(name), std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return file(name);
  }
  const std::string& path() const { return path_; }
  std::size_t count() const { return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path_), {})); }

 private:
  static int& next() {
    static int number = 0;
    return number;
  }
  std::string path_;
};

}  // namespace phasor::test
