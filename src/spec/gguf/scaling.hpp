// SPDX-License-Identifier: Apache-2.0
// The rope.scaling keys and rope tensors of a GGUF file as a Scaling.
#pragma once

#include <string>
#include <vector>

#include "phasor/model.hpp"
#include "spec/gguf/keys.hpp"

namespace phasor::spec {

struct GgufRotated {
  std::int64_t width = 0;
  bool scaled = true;        // else the sliding layers of an architecture that scales only the full ones
  bool with_factors = true;  // whether the rope tensors hold for this layer
};

/// Reads the keys once; `of` gives the scaling of a layer. Throws ReadError.
class GgufScaling {
 public:
  GgufScaling(const GgufKeys& keys, std::int64_t context_length, const ReadOptions& options);

  Scaling of(const GgufRotated& layer) const;
  std::int64_t trained_length() const { return original_length_; }
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  enum class Type : std::uint8_t { none, linear, yarn, longrope };

  Type read_type() const;
  void read_factor();
  void read_yarn();
  Scaling linear(std::int64_t width) const;
  Scaling yarn() const;
  Scaling by_factors(std::int64_t width) const;
  Scaling longrope(std::int64_t width) const;
  std::vector<double> factors(std::string_view tensor, std::int64_t width) const;

  const GgufKeys& keys_;
  Type type_;
  double factor_ = 1;
  double amplitude_ = 1;  // scaling.attn_factor, LongRoPE's A
  double alpha_ = 0;
  std::int64_t original_length_ = 0;
  std::int64_t length_in_use_ = 0;
  YarnScaling yarn_;
  double extrapolation_ = 1;
  std::vector<std::string> warnings_;
};

}  // namespace phasor::spec
