// SPDX-License-Identifier: Apache-2.0
// Causal attention with ALiBi and a Shaw table at once, forward and backward, in memory that the caller gives.
#include <cstdio>
#include <phasor/phasor.hpp>
#include <vector>

int main() {
  const std::int64_t tokens = 300, heads = 4, width = 64, clip = 16;
  const phasor::Extents shape{1, tokens, heads, width};  // (B, T, H, D)
  std::vector<float> x(tokens * heads * width), out(x.size()), lse(tokens * heads), gradient(x.size()), table((2 * clip + 1) * width, 0.1F);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 2654435761U % 1000) / 1000.0F - 0.5F;
  const phasor::ConstTensorView view = phasor::view(x.data(), shape);
  const phasor::AttentionInputs inputs{view, view, view};

  const auto alibi = phasor::Bias::make(phasor::Alibi{.heads = heads});
  if (!alibi.ok()) return std::puts(alibi.status().message().c_str()), 1;
  phasor::AttentionSpec spec{.visibility = {.mask = phasor::Mask::causal}};
  spec.terms.emplace_back(phasor::BiasTerm{.bias = *alibi});
  spec.terms.emplace_back(phasor::TableTerm{.table = phasor::view(table.data(), {1, 2 * clip + 1, 1, width}),
                                            .rows = phasor::ClipRows{.left = clip, .right = clip}});

  const auto bytes = phasor::attention_workspace(inputs, spec);
  if (!bytes.ok()) return std::puts(bytes.status().message().c_str()), 1;
  std::vector<std::byte> workspace(static_cast<std::size_t>(*bytes));
  const phasor::AttentionOutputs outputs{phasor::view(out.data(), shape), phasor::view(lse.data(), {1, tokens, heads, 1})};
  phasor::Status status = phasor::attention(inputs, spec, outputs, workspace);
  if (!status.ok()) return std::puts(status.message().c_str()), 1;

  std::vector<float> by_table(table.size());  // gradients of terms are added: begin with zeros
  const phasor::AttentionGradients wanted{.q = phasor::view(gradient.data(), shape),
                                          .terms = {{}, {.table = phasor::view(by_table.data(), {1, 2 * clip + 1, 1, width})}}};
  const auto backward_bytes = phasor::attention_backward_workspace(inputs, spec, wanted);
  if (!backward_bytes.ok()) return std::puts(backward_bytes.status().message().c_str()), 1;
  workspace.resize(static_cast<std::size_t>(*backward_bytes));
  status =
      phasor::attention_backward(inputs, spec, {.out = outputs.out, .lse = outputs.lse, .out_gradient = outputs.out}, wanted, workspace);
  if (!status.ok()) return std::puts(status.message().c_str()), 1;

  const auto report = phasor::explain_attention(inputs, spec);
  if (!report.ok()) return std::puts(report.status().message().c_str()), 1;
  std::printf("last number of out %.6f, d table[0] %.6f\n%s\n", out.back(), by_table[0], report->words.c_str());
}
