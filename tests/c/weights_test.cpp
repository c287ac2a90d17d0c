// SPDX-License-Identifier: Apache-2.0
// Weights between pairings in C: the bytes and reports of C++.
#include "c/owned.hpp"
#include "golden_file.hpp"
#include "phasor/phasor.hpp"
#include "spec/gguf/gguf_bytes.hpp"
#include "spec/safetensors_bytes.hpp"

namespace phasor::test {
namespace {

phasor_permute_options grouped() {
  auto options = sized<phasor_permute_options>();
  options.heads = 4;
  options.kv_heads = 2;
  options.head_dim = 8;
  return options;
}

TEST(CWeights, weights_are_permuted_there_and_back) {
  const Folder folder;
  const std::string half = golden_file("weights/grouped-half.safetensors");
  const std::string interleaved = golden_file("weights/grouped-interleaved.safetensors");
  phasor_permute_options options = grouped();
  const std::string there = folder.file("there");
  const auto report = owned<phasor_permute_report>([&](phasor_permute_report** to, phasor_error* error) {
    return phasor_permute_safetensors(half.c_str(), there.c_str(), &options, to, error);
  });
  EXPECT_TRUE(file_bytes(there) == file_bytes(interleaved));
  const PermuteReport want = *permute_safetensors(half, folder.file("same"), {.heads = 4, .kv_heads = 2, .head_dim = 8});
  ASSERT_EQ(phasor_permute_report_permuted(report.get()), want.permuted.size());
  for (std::size_t i = 0; i < want.permuted.size(); ++i) EXPECT_EQ(phasor_permute_report_name(report.get(), i), want.permuted[i]);
  EXPECT_EQ(phasor_permute_report_name(report.get(), want.permuted.size()), nullptr);
  EXPECT_EQ(phasor_permute_report_name(nullptr, 0), nullptr);
  EXPECT_EQ(phasor_permute_report_copied(report.get()), want.copied);

  options.from = PHASOR_PAIRING_INTERLEAVED;  // and `to` is the other one
  const std::string back = folder.file("back");
  succeeds([&](phasor_error* e) { return phasor_permute_safetensors(there.c_str(), back.c_str(), &options, nullptr, e); });
  EXPECT_TRUE(file_bytes(back) == file_bytes(half));
  options.to = PHASOR_PAIRING_INTERLEAVED;
  const std::string unchanged = folder.file("unchanged");
  EXPECT_EQ(failure(PHASOR_INVALID,
                    [&](phasor_error* e) { return phasor_permute_safetensors(there.c_str(), unchanged.c_str(), &options, nullptr, e); }),
            "permute_safetensors: to is given and has_to is 0, wanted 1");
  options.has_to = 1;
  EXPECT_EQ(failure(PHASOR_INVALID,
                    [&](phasor_error* e) { return phasor_permute_safetensors(there.c_str(), unchanged.c_str(), &options, nullptr, e); }),
            "permute: from and to are both interleaved, wanted one of each");
}

TEST(CWeights, options_of_a_permutation_reach_cpp) {
  const Folder folder;
  auto options = sized<phasor_permute_options>();
  options.heads = 3;
  options.kv_heads = 1;
  options.head_dim = 10;
  options.rotary_width = 6;
  options.rotary_offset = 2;
  const std::string half = golden_file("weights/partial-half.safetensors");
  const std::string interleaved = golden_file("weights/partial-interleaved.safetensors");
  const std::string out = folder.file("out");
  succeeds([&](phasor_error* e) { return phasor_permute_safetensors(half.c_str(), out.c_str(), &options, nullptr, e); });
  EXPECT_TRUE(file_bytes(out) == file_bytes(interleaved));
  EXPECT_EQ(
      failure(PHASOR_INVALID, [&](phasor_error* e) { return phasor_permute_safetensors(half.c_str(), out.c_str(), &options, nullptr, e); }),
      "permute: " + out + ": exists, wanted a new file");

  phasor_permute_options fused = grouped();
  fused.prefix = "model.layers.1.";
  const std::string whole = golden_file("weights/grouped-half.safetensors");
  const std::string part = folder.file("fused");
  const auto report = owned<phasor_permute_report>([&](phasor_permute_report** to, phasor_error* error) {
    return phasor_permute_safetensors(whole.c_str(), part.c_str(), &fused, to, error);
  });
  EXPECT_EQ(phasor_permute_report_permuted(report.get()), 1U);

  phasor_pairing_relation relation = -1;
  const auto detected = [&](const std::string& left, const std::string& right) {
    succeeds([&](phasor_error* e) { return phasor_detect_pairing(left.c_str(), right.c_str(), &options, &relation, e); });
    return relation;
  };
  EXPECT_EQ(detected(half, interleaved), PHASOR_RELATION_HALF_TO_INTERLEAVED);
  EXPECT_EQ(detected(interleaved, half), PHASOR_RELATION_INTERLEAVED_TO_HALF);
  EXPECT_EQ(detected(half, half), PHASOR_RELATION_SAME);
  options.rotary_width = 4;
  EXPECT_EQ(detected(half, interleaved), PHASOR_RELATION_DIFFERENT);
  EXPECT_EQ(phasor_detect_pairing(half.c_str(), half.c_str(), &options, nullptr, nullptr), PHASOR_INVALID);
  EXPECT_EQ(
      failure(PHASOR_NOT_FOUND, [&](phasor_error* e) { return phasor_detect_pairing("/nowhere", half.c_str(), &options, &relation, e); }),
      detect_pairing("/nowhere", half, {.heads = 3}).status().message());
  EXPECT_EQ(
      failure(PHASOR_INVALID, [&](phasor_error* e) { return phasor_permute_safetensors(nullptr, half.c_str(), &options, nullptr, e); }),
      "permute_safetensors: from_path is null, wanted one");
  phasor_permute_report_free(nullptr);
}

}  // namespace
}  // namespace phasor::test
