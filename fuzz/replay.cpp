// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz harness over every file of the folders it is given: what libFuzzer found once is tested by every compiler ever after.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

bool replay(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
  // A copy of exactly that size, so that a sanitizer sees the first byte too many.
  const std::vector<std::uint8_t> input(bytes.begin(), bytes.end());
  return in.good() || in.eof() ? LLVMFuzzerTestOneInput(input.data(), input.size()) == 0 : false;
}

}  // namespace

int main(int count, char** folders) {
  int files = 0;
  for (int i = 1; i < count; ++i) {
    for (const auto& entry : std::filesystem::directory_iterator(folders[i])) {
      if (!replay(entry.path())) {
        std::fprintf(stderr, "cannot replay %s\n", entry.path().c_str());
        return 1;
      }
      ++files;
    }
  }
  std::printf("replayed %d files\n", files);
  return files > 0 ? 0 : 1;
}
