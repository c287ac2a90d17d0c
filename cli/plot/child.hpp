// SPDX-License-Identifier: Apache-2.0
// Programs of others as child processes, in a folder of their own.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace phasor::cli {

/// The end of a name that mkdtemp and mkstemp write an own one over.
inline const std::string kUnique(6, 'X');

/// A new folder for temporary files, gone with everything in it at the end.
class WorkFolder {
 public:
  WorkFolder();
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  ~WorkFolder();
  bool made() const { return !path_.empty(); }
  std::string file(const char* name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

/// Empty for a file that cannot be read.
std::string contents(const std::string& path);

bool write_plain(const std::string& path, const std::string& bytes);

/// How a child ended.
struct Ended {
  bool found = true;         // the program is there
  bool good = false;         // it said that it did what was wanted
  std::string message = {};  // the last line of what it said otherwise
};

/// Runs a program with its arguments and waits for it. Its words go to the file `words`, it reads nothing.
Ended run_child(const std::vector<std::string>& arguments, const std::string& words);

}  // namespace phasor::cli
