// SPDX-License-Identifier: Apache-2.0
// Weights between pairings: against the converters' expressions, there and back, and scores that stay what they were.
#include <gtest/gtest.h>

#include <cmath>

#include "../spec/gguf/gguf_bytes.hpp"
#include "../spec/safetensors_bytes.hpp"
#include "../tensor.hpp"
#include "golden_file.hpp"
#include "phasor/rotary.hpp"
#include "phasor/weights.hpp"
#include "spec/files/safetensors.hpp"
#include "spec/format.hpp"

namespace phasor::test {
namespace {

const std::string golden = golden_file("weights/");

PermuteOptions grouped() { return {.heads = 4, .kv_heads = 2, .head_dim = 8}; }
PermuteOptions partial() { return {.heads = 3, .kv_heads = 1, .head_dim = 10, .rotary_width = 6, .rotary_offset = 2}; }

PermuteOptions back(PermuteOptions options) {
  std::swap(options.from, options.to);
  return options;
}

std::string message_of(const std::string& bytes, const PermuteOptions& options) {
  const Folder folder;
  const std::string in = folder.file("in.safetensors", bytes);
  const std::string message = permute_safetensors(in, folder.file("out.safetensors"), options).status().message();
  EXPECT_EQ(folder.count(), message.empty() ? 2U : 1U) << "what failed leaves nothing";
  return message;
}

/// A file with one tensor of bytes.
std::string one(std::string_view name, std::int64_t rows, std::int64_t columns = 1) {
  const std::string header =
      spec::format(R"({{"{}":{{"dtype":"U8","shape":[{},{}],"data_offsets":[0,{}]}}}})", name, rows, columns, rows * columns);
  return safetensors_bytes(header, std::string(static_cast<std::size_t>(rows * columns), 'x'));
}

TEST(Permute, files_become_those_of_the_converters_byte_for_byte_and_return) {
  const std::pair<const char*, PermuteOptions> cases[] = {{"grouped", grouped()}, {"partial", partial()}};
  for (const auto& [name, options] : cases) {
    SCOPED_TRACE(name);
    const Folder folder;
    const std::string half = golden + name + "-half.safetensors";
    const std::string interleaved = golden + name + "-interleaved.safetensors";
    ASSERT_EQ(permute_safetensors(half, folder.file("there"), options).status().message(), "");
    EXPECT_TRUE(file_bytes(folder.file("there")) == file_bytes(interleaved));
    ASSERT_EQ(permute_safetensors(folder.file("there"), folder.file("back"), back(options)).status().message(), "");
    EXPECT_TRUE(file_bytes(folder.file("back")) == file_bytes(half));
    EXPECT_EQ(*detect_pairing(half, interleaved, options), PairingRelation::half_to_interleaved);
    EXPECT_EQ(*detect_pairing(interleaved, half, options), PairingRelation::interleaved_to_half);
    EXPECT_EQ(*detect_pairing(half, half, options), PairingRelation::same);
  }
}

TEST(Permute, the_report_names_what_was_permuted) {
  const Folder folder;
  const Result<PermuteReport> report = permute_safetensors(golden + "grouped-half.safetensors", folder.file("out"), grouped());
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->permuted.size(), 8U);
  EXPECT_EQ(report->copied, 3);
  PermuteOptions only_fused = grouped();
  only_fused.prefix = "model.layers.1.";
  EXPECT_EQ(permute_safetensors(golden + "grouped-half.safetensors", folder.file("fused"), only_fused)->permuted,
            (std::vector<std::string>{"model.layers.1.self_attn.qkv_proj.weight"}));
}

/// Channels of a projection: rows of a float32 weight times an input.
std::vector<float> project(const std::string& file, std::string_view name, std::int64_t rows, std::int64_t columns) {
  const spec::SafetensorsTensor tensor = spec::read_safetensors(as_bytes(file)).tensors.at(std::string(name));
  std::vector<float> weight(static_cast<std::size_t>(rows * columns));
  std::memcpy(weight.data(), file.data() + tensor.begin, weight.size() * sizeof(float));
  std::vector<float> channels(static_cast<std::size_t>(rows));
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      channels[static_cast<std::size_t>(r)] += weight[static_cast<std::size_t>(r * columns + c)] * (0.25F + static_cast<float>(c));
    }
  }
  return channels;
}

/// Scores of 3 rotated query heads against the rotated key, at positions 1000 and 77. The order of a sum is that of the pairs, whatever
/// the pairing, so that equal products give equal bits.
std::vector<float> scores(const std::string& file, Pairing pairing) {
  RotarySpec spec{.head_dim = 10, .rotary_width = 6, .rotary_offset = 2, .base = 500};
  spec.pairing = pairing;
  const Result<Rotary> rotary = Rotary::make(spec);
  EXPECT_TRUE(rotary.ok());
  std::vector<float> q = project(file, "layers.0.attn.q_proj.weight", 30, 3);
  std::vector<float> k = project(file, "layers.0.attn.k_proj.weight", 10, 3);
  const TensorView queries = view(q.data(), {1, 1, 3, 10});
  const TensorView keys = view(k.data(), {1, 1, 1, 10});
  EXPECT_TRUE(rotary->apply(queries, positions_from(1000)).ok());
  EXPECT_TRUE(rotary->apply(keys, positions_from(77)).ok());
  std::vector<std::size_t> order = {0, 1, 8, 9};
  for (std::size_t pair = 0; pair < 3; ++pair) {
    order.push_back(2 + (pairing == Pairing::half ? pair : 2 * pair));
    order.push_back(2 + (pairing == Pairing::half ? pair + 3 : 2 * pair + 1));
  }
  std::vector<float> result(3);
  for (std::size_t head = 0; head < 3; ++head) {
    for (const std::size_t channel : order) result[head] += q[head * 10 + channel] * k[channel];
  }
  return result;
}

TEST(Permute, permuted_weights_with_the_other_pairing_give_the_same_scores_bit_for_bit) {
  const Folder folder;
  const std::string half = golden + "partial-half.safetensors";
  ASSERT_TRUE(permute_safetensors(half, folder.file("out"), partial()).ok());
  const std::vector<float> before = scores(file_bytes(half), Pairing::half);
  EXPECT_EQ(scores(file_bytes(folder.file("out")), Pairing::interleaved), before);
  EXPECT_NE(scores(file_bytes(half), Pairing::interleaved), before);
}

TEST(Permute, latent_attention_permutes_the_tail_of_its_shared_key) {
  const PermuteOptions latent{.heads = 2, .head_dim = 6, .rotary_width = 4, .rotary_offset = 2};
  const Folder folder;
  const std::string header = R"({"l.kv_a_proj_with_mqa.weight":{"dtype":"U8","shape":[7,1],"data_offsets":[0,7]},)"
                             R"("l.q_b_proj.weight":{"dtype":"U8","shape":[12,1],"data_offsets":[7,19]}})";
  const std::string in = folder.file("in", safetensors_bytes(header, "abcdefgABCDEFGHIJKL"));
  ASSERT_EQ(permute_safetensors(in, folder.file("out"), latent).status().message(), "");
  EXPECT_EQ(file_bytes(folder.file("out")), safetensors_bytes(header, "abcdfegABCEDFGHIKJL"));
}

TEST(Permute, scales_of_blocks_follow_where_they_can) {
  const PermuteOptions two_heads{.heads = 2, .head_dim = 8};
  const std::string weight = R"("q_proj.weight":{"dtype":"U8","shape":[16],"data_offsets":[0,16]})";
  const auto with_scale = [&](std::int64_t rows) {
    const std::string scale =
        spec::format(R"("q_proj.weight_scale_inv":{{"dtype":"U8","shape":[{}],"data_offsets":[16,{}]}})", rows, 16 + rows);
    return safetensors_bytes("{" + weight + "," + scale + "}", std::string(static_cast<std::size_t>(16 + rows), 'x'));
  };
  EXPECT_EQ(message_of(with_scale(16), two_heads), "");
  EXPECT_EQ(message_of(with_scale(2), two_heads), "");
  EXPECT_EQ(message_of(with_scale(1), two_heads), "");
  EXPECT_EQ(message_of(with_scale(4), two_heads), "permute: q_proj.weight_scale_inv has 4 rows, wanted 2 heads of 8");
}

TEST(Permute, what_cannot_be_permuted_is_an_error_and_leaves_no_file) {
  const PermuteOptions options{.heads = 2, .head_dim = 8};
  EXPECT_NE(message_of(one("h.0.attn.c_attn.weight", 48), options).find("not supported"), std::string::npos);
  EXPECT_NE(message_of(one("l.query_key_value.weight", 48), options).find("not supported"), std::string::npos);
  EXPECT_NE(message_of(one("l.q_proj.qweight", 16), options).find("packs its rows"), std::string::npos);
  EXPECT_EQ(message_of(one("l.q_proj.weight", 15), options), "permute: l.q_proj.weight has 15 rows, wanted a multiple of 2 heads");
  EXPECT_EQ(message_of(one("l.q_proj.weight", 24), options), "permute: l.q_proj.weight has 24 rows, wanted 2 heads of 8");
  EXPECT_EQ(message_of(one("l.q_norm.weight", 7), options),
            "permute: l.q_norm.weight has 7 entries, wanted head_dim, 8, or that for each head");
  EXPECT_NE(message_of(one("l.mlp.weight", 16), options).find("has no q or k weights"), std::string::npos);
  EXPECT_NE(message_of(one("l.q_proj.weight", 16), {.heads = 0}).find("heads is 0"), std::string::npos);
  EXPECT_NE(message_of(one("l.q_proj.weight", 16), {.heads = 2, .rotary_width = 3}).find("an even number"), std::string::npos);
  EXPECT_NE(message_of(one("l.q_proj.weight", 16), {.heads = 2, .rotary_width = 6, .rotary_offset = 4}).find("that fits"),
            std::string::npos);
  EXPECT_EQ(message_of(one("l.q_proj.weight", 16), {.from = Pairing::half, .to = Pairing::half, .heads = 2}),
            "permute: from and to are both half, wanted one of each");
  EXPECT_EQ(message_of(one("l.q_proj.weight", 16), {.from = Pairing::interleaved, .to = Pairing::interleaved, .heads = 2}),
            "permute: from and to are both interleaved, wanted one of each");
  EXPECT_NE(message_of("no safetensors", options), "");
}

TEST(Permute, neither_the_input_nor_another_file_is_overwritten) {
  const Folder folder;
  const std::string in = folder.file("in", one("l.q_proj.weight", 16));
  const std::string other = folder.file("other", "precious");
  const PermuteOptions options{.heads = 2};
  EXPECT_NE(permute_safetensors(in, in, options).status().message().find("exists"), std::string::npos);
  EXPECT_NE(permute_safetensors(in, other, options).status().message().find("exists"), std::string::npos);
  EXPECT_EQ(file_bytes(other), "precious");
  EXPECT_EQ(file_bytes(in), one("l.q_proj.weight", 16));
  EXPECT_EQ(permute_safetensors(in, folder.file("no/such/folder"), options).status().kind(), ErrorKind::not_found);
  EXPECT_EQ(permute_safetensors(folder.file("nothing"), folder.file("out"), options).status().kind(), ErrorKind::not_found);
  EXPECT_EQ(detect_pairing(in, folder.file("nothing"), options).status().kind(), ErrorKind::not_found);
  EXPECT_FALSE(permute_safetensors(folder.path(), folder.file("out"), options).ok());
  EXPECT_EQ(folder.count(), 2U);
}

TEST(Permute, unrelated_weights_are_different_and_unlike_files_an_error) {
  const Folder folder;
  std::string bytes = file_bytes(golden + "partial-half.safetensors");
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  const std::string changed = folder.file("changed", bytes);
  EXPECT_EQ(*detect_pairing(golden + "partial-half.safetensors", changed, partial()), PairingRelation::different);
  EXPECT_FALSE(detect_pairing(golden + "partial-half.safetensors", golden + "grouped-half.safetensors", partial()).ok());
}

}  // namespace
}  // namespace phasor::test
