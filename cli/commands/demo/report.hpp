// SPDX-License-Identifier: Apache-2.0
// What phasor demo found, and how it is written for people and for programs.
#pragma once

#include <string>
#include <vector>

#include "commands/demo/measure.hpp"

namespace phasor::cli {

struct DemoReport {
  RotarySpec spec;
  std::string target;
  unsigned hardware_threads = 0;  // 0: unknown
  std::int64_t tokens = 0;
  std::int64_t query_heads = 0;
  std::int64_t key_heads = 0;
  std::int64_t far = 0;
  std::vector<Distances> distances;
  std::vector<Accuracy> accuracies;
  bool same_bits = false;
  std::vector<Speed> speeds;
};

/// The first check that failed; ok when all held.
Status verdict(const DemoReport& report);

std::string to_text(const DemoReport& report);
std::string to_json(const DemoReport& report);

}  // namespace phasor::cli
