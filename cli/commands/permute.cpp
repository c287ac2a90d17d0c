// SPDX-License-Identifier: Apache-2.0
// phasor permute: q and k weights between pairings, and which pairing two files of a model have.
#include <fmt/core.h>

#include <memory>
#include <optional>

#include "command.hpp"
#include "figures/json.hpp"
#include "models.hpp"
#include "phasor/weights.hpp"

namespace phasor::cli {
namespace {

struct PermuteArguments {
  std::string in;
  std::string out;
  std::string from = "half";
  std::string to = "interleaved";
  std::optional<std::string> config;
  std::string prefix;
  std::optional<std::int64_t> heads;
  std::optional<std::int64_t> kv_heads;
  std::optional<std::int64_t> head_dim;
  std::optional<std::int64_t> rotary_width;
  std::optional<std::int64_t> rotary_offset;
  bool detect = false;
  bool json = false;
};

Pairing pairing_of(const std::string& name) { return name == "half" ? Pairing::half : Pairing::interleaved; }

/// Widths of the model's rotary layers, where they agree. The files hold the layers under names, so one shape must do for all.
Status take_shape(const std::string& path, PermuteOptions& options) {
  const auto model = find_model(path);
  if (!model.ok()) return model.status();
  const RotarySpec* first = nullptr;
  for (const LayerPositions& layer : model->layers) {
    if (!layer.rotary) continue;
    if (first == nullptr) first = &*layer.rotary;
    if (layer.rotary->head_dim != first->head_dim || layer.rotary->rotary_width != first->rotary_width ||
        layer.rotary->rotary_offset != first->rotary_offset) {
      return Status::unsupported(fmt::format("--config: the rotary layers of {} have different widths, wanted one for all", path));
    }
  }
  if (first == nullptr) return Status::invalid(fmt::format("--config: {} has no rotary layer, wanted one", path));
  options.head_dim = first->head_dim;
  options.rotary_width = first->rotary_width;
  options.rotary_offset = first->rotary_offset;
  return {};
}

/// What was typed wins over what the config says.
Result<PermuteOptions> options_of(const PermuteArguments& a) {
  PermuteOptions options{.from = pairing_of(a.from), .to = pairing_of(a.to), .prefix = a.prefix};
  if (a.config) {
    if (Status status = take_shape(*a.config, options); !status.ok()) return status;
  }
  options.heads = a.heads.value_or(options.heads);
  options.kv_heads = a.kv_heads.value_or(options.kv_heads);
  options.head_dim = a.head_dim.value_or(options.head_dim);
  options.rotary_width = a.rotary_width.value_or(options.rotary_width);
  options.rotary_offset = a.rotary_offset.value_or(options.rotary_offset);
  return options;
}

struct Relation {
  const char* name;
  const char* words;
};

Relation words_of(PairingRelation relation) {
  switch (relation) {
    case PairingRelation::same:
      return {"same", "the same weights: one pairing for both"};
    case PairingRelation::half_to_interleaved:
      return {"half_to_interleaved", "the second is the first permuted: half in the first, interleaved in the second"};
    case PairingRelation::interleaved_to_half:
      return {"interleaved_to_half", "the second is the first permuted: interleaved in the first, half in the second"};
    case PairingRelation::different:
      return {"different", "neither is the other permuted"};
  }
  return {"different", "neither is the other permuted"};
}

Status run_detect(const PermuteArguments& a, const PermuteOptions& options, std::string& out) {
  const auto relation = detect_pairing(a.in, a.out, options);
  if (!relation.ok()) return relation.status();
  const Relation words = words_of(*relation);
  out = a.json ? Json::object({{"relation", words.name}}).line() + "\n" : fmt::format("{}\n", words.words);
  return *relation == PairingRelation::different ? Status::invalid("") : Status();
}

Status run_permute(const PermuteArguments& a, std::string& out) {
  const auto options = options_of(a);
  if (!options.ok()) return options.status();
  if (a.detect) return run_detect(a, *options, out);
  const auto report = permute_safetensors(a.in, a.out, *options);
  if (!report.ok()) return report.status();
  if (a.json) {
    const Json json = Json::object({{"permuted", report->permuted}, {"copied", report->copied}});
    out = json.lines() + "\n";
    return {};
  }
  for (const std::string& name : report->permuted) out += fmt::format("permuted {}\n", name);
  out += fmt::format("{} permuted from {} to {}, {} copied, written to {}\n", report->permuted.size(), a.from, a.to, report->copied, a.out);
  return {};
}

void check_usage(const PermuteArguments& a) {
  if (!a.heads) throw UsageError("permute wants --heads");
  if (!a.detect && a.from == a.to) throw UsageError(fmt::format("--from and --to are both {}, wanted one of each", a.from));
}

}  // namespace

void add_permute(const Command& tool, Run& run) {
  const Command command = tool.subcommand("permute", "Rewrite q and k weights of a safetensors file for the other pairing");
  const auto a = std::make_shared<PermuteArguments>();
  const std::vector<std::string> pairings{"half", "interleaved"};
  command.option("in", a->in, "A safetensors file").required();
  command.option("out", a->out, "The file to write, a new one; with --detect the other file").required();
  command.option("--from", a->from, "The pairing it has: half, interleaved (half)").one_of(pairings);
  command.option("--to", a->to, "The pairing wanted: half, interleaved (interleaved)").one_of(pairings);
  command.option("--heads", a->heads, "Heads of q").positive();
  command.option("--kv-heads", a->kv_heads, "Heads of k (as many as of q)").positive();
  command.option("--head-dim", a->head_dim, "Channels of a head (rows / heads)").positive();
  command.option("--rotary-width", a->rotary_width, "Channels that are rotated (all)").positive();
  command.option("--rotary-offset", a->rotary_offset, "First channel that is rotated (0)").not_negative();
  command.option("--config", a->config, model_help("Take head-dim, rotary-width and rotary-offset from this model"));
  command.option("--prefix", a->prefix, "Only tensors whose names begin so, like model.language_model. (all)");
  command.flag("--detect", a->detect, "Write nothing: say how the weights of the two files are related (exit code 1: not at all)");
  command.flag("--json", a->json, "Print JSON");
  command.footer(
      "Examples:\n"
      "  phasor permute model.safetensors permuted.safetensors --from half --to interleaved --heads 32 --kv-heads 8\n"
      "  phasor permute --detect a.safetensors b.safetensors --heads 32 --kv-heads 8");
  command.chosen([a, &run] {
    check_usage(*a);
    run = [a](std::string& out) { return run_permute(*a, out); };
  });
}

}  // namespace phasor::cli
