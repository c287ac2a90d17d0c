// SPDX-License-Identifier: Apache-2.0
// The rope.scaling keys and rope tensors of a GGUF file as a Scaling: what llama.cpp does with them, and a warning where that is not what
// the file says.
#include "spec/gguf/scaling.hpp"

#include <algorithm>
#include <cmath>

#include "spec/format.hpp"

namespace phasor::spec {
namespace {

// Converters write 1e30 for a pair that does not turn (Gemma 4).
constexpr double not_turning = 1e29;

bool is_turning(double factor) { return factor < not_turning; }

/// Leading ones, then only pairs that do not turn: how many turn, or nothing.
std::optional<std::int64_t> leading_ones(const std::vector<double>& factors) {
  const auto end = std::find_if(factors.begin(), factors.end(), [](double f) { return f != 1; });
  if (end == factors.end() || std::any_of(end, factors.end(), is_turning)) return std::nullopt;
  return end - factors.begin();
}

/// The share whose floor(share * R / 2) is `turning`.
double share_of(std::int64_t turning, std::int64_t pairs) {
  const double share = static_cast<double>(turning) / static_cast<double>(pairs);
  const double turns = share * static_cast<double>(2 * pairs) / 2;
  return turns < static_cast<double>(turning) ? std::nextafter(share, 2) : share;
}

}  // namespace

GgufScaling::GgufScaling(const GgufKeys& keys, std::int64_t context_length, const ReadOptions& options) : keys_(keys), type_(read_type()) {
  read_factor();
  amplitude_ = keys.real("rope.scaling.attn_factor").value_or(1);
  alpha_ = keys.real("rope.scaling.alpha").value_or(0);
  original_length_ = keys.integer("rope.scaling.original_context_length").value_or(context_length);
  length_in_use_ = options.length > 0 ? options.length : original_length_;
  read_yarn();
}

GgufScaling::Type GgufScaling::read_type() const {
  const std::string type = keys_.text("rope.scaling.type").value_or("linear");
  if (type == "none") return Type::none;
  if (type == "linear") return Type::linear;
  if (type == "yarn") return Type::yarn;
  if (type == "longrope") return Type::longrope;
  keys_.wrong("rope.scaling.type", type, "none, linear, yarn or longrope");
}

void GgufScaling::read_factor() {
  const char* key = keys_.has("rope.scaling.factor") ? "rope.scaling.factor" : "rope.scale_linear";
  const double factor = keys_.real(key).value_or(0);
  if (factor < 0) keys_.wrong(key, spec::format("{}", factor), "a number above 0, or 0 for no scaling");
  if (factor == 0) return;
  if (type_ == Type::none) {
    if (factor != 1)
      warnings_.push_back(spec::format("{} is {}, but rope.scaling.type is none: nothing is scaled", keys_.full(key), factor));
    return;
  }
  factor_ = factor;
}

void GgufScaling::read_yarn() {
  const std::string& architecture = keys_.architecture();
  yarn_.factor = factor_;
  yarn_.original_length = original_length_;
  yarn_.beta_fast = keys_.real("rope.scaling.yarn_beta_fast").value_or(architecture == "grok" ? 8 : 32);
  yarn_.beta_slow = keys_.real("rope.scaling.yarn_beta_slow").value_or(1);
  // Latent attention scales its scores too; Mistral 3 only its amplitude.
  const bool latent = keys_.is_latent();
  yarn_.softmax = latent ? YarnSoftmax::mscale_all_dim_squared : YarnSoftmax::unchanged;
  extrapolation_ = keys_.real("rope.scaling.yarn_ext_factor").value_or(-1);
  if (extrapolation_ < 0) extrapolation_ = 1;
  if (const auto stored = keys_.real("rope.scaling.yarn_log_multiplier"); stored && *stored != 0) {
    // Where attention is latent a tenth of it is stored; undone in float32, so that 0.1 becomes 1 again.
    const double multiplier = latent ? static_cast<double>(static_cast<float>(*stored) / 0.1F) : *stored;
    yarn_.mscale_all_dim = multiplier;
    yarn_.mscale = architecture == "deepseek2" ? multiplier : 1;
  }
  if (type_ != Type::yarn) return;
  const bool reads_betas = architecture == "grok" || architecture == "mistral3";
  if (!reads_betas && (yarn_.beta_fast != 32 || yarn_.beta_slow != 1)) {
    warnings_.push_back(spec::format("yarn_beta_fast and yarn_beta_slow are {} and {}; llama.cpp takes 32 and 1 for {}", yarn_.beta_fast,
                                     yarn_.beta_slow, architecture));
  }
  const auto given = keys_.real("rope.scaling.yarn_attn_factor");
  if (given && architecture != "grok" && !yarn_.mscale_all_dim) {
    yarn_.attention_factor = given;
    warnings_.push_back(
        spec::format("yarn_attn_factor is {}: taken as the amplitude, as the model's config means it; llama.cpp overwrites it", *given));
  }
  if (given && architecture == "grok" && *given != 1)
    keys_.wrong("rope.scaling.yarn_attn_factor", spec::format("{}", *given), "1 for grok");
  if (architecture == "gpt-oss") {
    warnings_.push_back("GGUF cannot say that gpt-oss does not round the ends of YaRN's ramp: one pair differs from the model's config");
  }
}

Scaling GgufScaling::of(const GgufRotated& layer) const {
  if (!layer.scaled) return Unscaled{};
  const bool two_lists =
      keys_.file().rope_tensors.contains("rope_factors_long.weight") || keys_.file().rope_tensors.contains("rope_factors_short.weight");
  const bool one_list = layer.with_factors && keys_.file().rope_tensors.contains("rope_freqs.weight");
  const bool ramp = type_ == Type::yarn && extrapolation_ != 0;
  if (one_list) {
    if (ramp && factor_ != 1) fail("gguf: rope_freqs.weight and yarn together, wanted one of them");
    return by_factors(layer.width);
  }
  if (two_lists) return longrope(layer.width);
  if (ramp) return yarn();
  return linear(layer.width);
}

Scaling GgufScaling::linear(std::int64_t width) const {
  if (alpha_ > 0 && factor_ == 1 && amplitude_ == 1) return NtkScaling{.alpha = alpha_};
  if (alpha_ > 0) keys_.wrong("rope.scaling.alpha", spec::format("{}", alpha_), "it alone, without a factor or attn_factor");
  if (amplitude_ != 1) return GivenFactors{std::vector<double>(static_cast<std::size_t>(width / 2), factor_), amplitude_};
  if (factor_ != 1) return LinearScaling{.factor = factor_};
  return Unscaled{};
}

Scaling GgufScaling::yarn() const {
  if (extrapolation_ != 1) keys_.wrong("rope.scaling.yarn_ext_factor", spec::format("{}", extrapolation_), "0 or 1");
  if (amplitude_ != 1) keys_.wrong("rope.scaling.attn_factor", spec::format("{}", amplitude_), "1 with yarn");
  if (factor_ == 1 && !yarn_.attention_factor) return Unscaled{};
  return yarn_;
}

std::vector<double> GgufScaling::factors(std::string_view tensor, std::int64_t width) const {
  const auto found = keys_.file().rope_tensors.find(tensor);
  if (found == keys_.file().rope_tensors.end())
    fail(spec::format("gguf: tensor {} is missing, wanted the short and the long list", tensor));
  std::vector<double> list = found->second;
  const auto pairs = static_cast<std::size_t>(width / 2);
  // Layers of several widths share the tensor of the widest.
  const bool fits = keys_.has("rope.dimension_count_swa") || keys_.architecture() == "step35" ? list.size() >= pairs : list.size() == pairs;
  if (!fits) fail(spec::format("gguf: tensor {} has {} entries, wanted {}, half the rotary width", tensor, list.size(), pairs));
  list.resize(pairs);
  for (std::size_t i = 0; i < pairs; ++i) {
    if (!std::isfinite(list[i]) || list[i] <= 0)
      fail(spec::format("gguf: tensor {}[{}] is {}, wanted a finite number above 0", tensor, i, list[i]));
  }
  return list;
}

Scaling GgufScaling::by_factors(std::int64_t width) const {
  std::vector<double> list = factors("rope_freqs.weight", width);
  if (const auto turning = leading_ones(list); turning && amplitude_ == 1) {
    return ProportionalScaling{.factor = factor_, .share = share_of(*turning, width / 2)};
  }
  for (double& entry : list) entry *= factor_;
  return GivenFactors{.factors = std::move(list), .amplitude = amplitude_};
}

Scaling GgufScaling::longrope(std::int64_t width) const {
  LongRopeScaling scaling{.short_factors = factors("rope_factors_short.weight", width),
                          .long_factors = factors("rope_factors_long.weight", width),
                          .original_length = original_length_,
                          .attention_factor = amplitude_,
                          .length = length_in_use_};
  for (double& entry : scaling.short_factors) entry *= factor_;
  for (double& entry : scaling.long_factors) entry *= factor_;
  return scaling;
}

}  // namespace phasor::spec
