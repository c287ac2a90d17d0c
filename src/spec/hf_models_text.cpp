// SPDX-License-Identifier: Apache-2.0
// The table of models that rotate text: class defaults and rules of transformers, by model_type.
#include <iterator>

#include "spec/hf_models.hpp"

namespace phasor::spec {
namespace {

using Pattern = LayerPattern::Kind;
constexpr Pairing half = Pairing::half;
constexpr Pairing interleaved = Pairing::interleaved;
// Tables in float32, rotated in float32; tables in the tensor's dtype, rotated in float32.
constexpr Numerics in_float32 = Numerics::hf_float32;
constexpr Numerics upcast = Numerics::vllm;

// MLA: reads pairs (2i, 2i + 1), writes halves, and multiplies the softmax scale.
constexpr std::uint32_t deepseek = quirk_interleave_key | quirk_softmax_mscale;

// clang-format off
constexpr Model rows[] = {
    // Llama and what follows it: half pairing, all of the head.
    {.type = "llama"},
    {.type = "code_llama"},
    {.type = "llama4", .sizes = {5120, 40, 128, 48, 131072}, .base = 500000, .pattern = {Pattern::chunked}, .pairing = interleaved, .numerics = in_float32, .unrotated = Unrotated::by_interval, .quirks = quirk_temperature},
    {.type = "mllama", .sizes = {4096, 32, 0, 40, 131072}, .base = 500000},
    {.type = "mistral", .sizes = {4096, 32, 0, 32, 131072}, .window = 4096, .quirks = quirk_window_all},
    {.type = "ministral", .sizes = {4096, 32, 0, 32, 131072}, .window = 4096, .pattern = {Pattern::sliding}},
    {.type = "ministral3", .sizes = {4096, 32, 128, 34, 262144}, .quirks = quirk_window_all},
    {.type = "mistral4", .sizes = {4096, 32, 0, 36, 1048576}, .place = Place::after_nope, .mla = {64, 64}, .quirks = deepseek},
    {.type = "mixtral", .sizes = {4096, 32, 0, 32, 131072}, .base = 1e6, .quirks = quirk_window_all},
    {.type = "qwen", .sizes = {4096, 32, 0, 32, 8192}, .quirks = quirk_log_n},
    {.type = "qwen2", .sizes = {4096, 32, 0, 32, 32768}, .window = 4096, .pattern = {Pattern::windowed, 28}},
    {.type = "qwen2_moe", .sizes = {2048, 16, 0, 24, 32768}, .window = 4096, .pattern = {Pattern::windowed, 28}},
    {.type = "qwen3", .sizes = {4096, 32, 128, 32, 32768}, .window = 4096, .pattern = {Pattern::windowed, 28}},
    {.type = "qwen3_moe", .sizes = {2048, 32, 0, 24, 32768}, .window = 4096, .pattern = {Pattern::windowed, 28}},
    {.type = "qwen3_next", .sizes = {2048, 16, 256, 48, 32768}, .share = 0.25, .pattern = {Pattern::linear, 4}},
    {.type = "qwen2_vl", .sizes = {8192, 64, 0, 80, 32768}, .base = 1e6, .window = 4096, .pattern = {Pattern::windowed, 80}, .axes = {{16, 24, 24}}},
    {.type = "qwen2_5_vl", .sizes = {8192, 64, 0, 80, 32768}, .base = 1e6, .window = 4096, .pattern = {Pattern::windowed, 80}, .axes = {{16, 24, 24}}},
    {.type = "qwen2_5_omni", .sizes = {3584, 28, 0, 28, 32768}, .base = 1e6, .window = 32768, .pattern = {Pattern::windowed, 28}, .axes = {{16, 24, 24}}},
    {.type = "qwen3_vl", .sizes = {4096, 32, 128, 32, 128000}, .base = 500000, .axes = {{24, 20, 20}, AxisOrder::interleaved}},
    {.type = "qwen3_vl_moe", .sizes = {2048, 16, 0, 24, 128000}, .base = 500000, .axes = {{24, 20, 20}, AxisOrder::interleaved}},
    {.type = "qwen3_omni_moe", .sizes = {2048, 28, 0, 28, 32768}, .base = 1e6, .axes = {{24, 20, 20}, AxisOrder::interleaved}},
    {.type = "qwen3_5", .sizes = {4096, 16, 256, 32, 32768}, .share = 0.25, .pattern = {Pattern::linear, 4}, .axes = {{11, 11, 10}, AxisOrder::interleaved}},
    {.type = "qwen3_5_moe", .sizes = {2048, 16, 256, 40, 32768}, .share = 0.25, .pattern = {Pattern::linear, 4}, .axes = {{11, 11, 10}, AxisOrder::interleaved}},
    {.type = "gemma", .sizes = {3072, 16, 256, 28, 8192}},
    {.type = "gemma2", .sizes = {2304, 8, 256, 26, 8192}, .window = 4096, .pattern = {Pattern::full_last, 2}, .scale = AttentionScale::query_pre_attn_scalar, .scale_default = 256},
    {.type = "gemma3", .sizes = {2304, 8, 256, 26, 131072}, .base = 1e6, .local_base = 1e4, .window = 4096, .pattern = {Pattern::full_last, 6}, .scale = AttentionScale::query_pre_attn_scalar, .scale_default = 256, .quirks = quirk_scaling_is_full},
    {.type = "gemma3n", .sizes = {2048, 8, 256, 35, 32768}, .base = 1e6, .local_base = 1e4, .window = 512, .pattern = {Pattern::full_last, 5}, .scale = AttentionScale::one, .quirks = quirk_scaling_is_full},
    {.type = "gemma4", .sizes = {2304, 8, 256, 30, 131072}, .base = 1e6, .local_base = 1e4, .window = 512, .pattern = {Pattern::full_last, 6}, .scale = AttentionScale::one, .quirks = quirk_global_head_dim | quirk_proportional_full | quirk_scaling_is_full},
    {.type = "vaultgemma", .sizes = {2304, 8, 256, 26, 8192}, .window = 4096, .pattern = {Pattern::full_last, 2}, .scale = AttentionScale::query_pre_attn_scalar, .scale_default = 256},
    {.type = "gpt_oss", .sizes = {2880, 64, 64, 36, 131072}, .base = 150000, .window = 128, .pattern = {Pattern::full_last, 2}},
    {.type = "olmo"},
    {.type = "olmo2"},
    {.type = "olmoe", .sizes = {2048, 16, 0, 16, 4096}},
    {.type = "olmo3", .base = 500000, .window = 4096, .pattern = {Pattern::full_last, 4}, .quirks = quirk_scaling_is_full},
    {.type = "granite", .scale = AttentionScale::attention_multiplier, .scale_default = 1},
    {.type = "granitemoe", .scale = AttentionScale::attention_multiplier, .scale_default = 1},
    {.type = "granite_swa", .sizes = {2560, 20, 0, 24, 8192}, .window = 128, .pattern = {Pattern::full_first, 4}, .scale = AttentionScale::attention_multiplier, .scale_default = 1},
    {.type = "smollm3", .sizes = {2048, 16, 0, 36, 32768}, .base = 2e6, .unrotated = Unrotated::by_interval},
    {.type = "seed_oss", .sizes = {4096, 80, 128, 64, 524288}},
    {.type = "apertus", .sizes = {4096, 32, 0, 32, 65536}, .base = 12e6},
    {.type = "arcee", .sizes = {2560, 32, 0, 32, 4096}},
    {.type = "bitnet", .sizes = {2560, 20, 0, 30, 2048}, .base = 500000},
    {.type = "starcoder2", .sizes = {3072, 24, 0, 30, 4096}, .quirks = quirk_window_all},
    {.type = "dbrx", .sizes = {2048, 16, 0, 24, 2048}},
    {.type = "exaone4", .window = 4096, .pattern = {Pattern::full_last, 4}, .unrotated = Unrotated::full_layers_if_window},
    {.type = "falcon_h1", .sizes = {4096, 32, 0, 32, 8192}},
    {.type = "lfm2", .sizes = {2560, 32, 0, 32, 128000}, .base = 1e6},
    {.type = "phimoe", .sizes = {4096, 32, 0, 32, 131072}, .base = 1e6, .quirks = quirk_su_is_longrope},
    {.type = "phi3", .sizes = {3072, 32, 0, 32, 4096}, .quirks = quirk_su_is_longrope | quirk_window_all},
    {.type = "phi4_multimodal", .sizes = {3072, 32, 0, 32, 131072}, .quirks = quirk_su_is_longrope | quirk_window_all},
    {.type = "hunyuan_v1_dense"},
    {.type = "hunyuan_v1_moe"},
    {.type = "hunyuan_vl", .axes = {{16, 16, 16, 16}}},
    {.type = "nanochat", .sizes = {768, 6, 0, 12, 2048}, .sense = Sense::clockwise},
    // A part of the head.
    {.type = "gpt_neox", .sizes = {6144, 64, 0, 44, 2048}, .share = 0.25},
    {.type = "gpt_neox_japanese", .sizes = {2560, 32, 0, 32, 2048}},
    {.type = "phi", .sizes = {2048, 32, 0, 24, 2048}, .share = 0.5},
    {.type = "stablelm", .sizes = {2560, 32, 0, 32, 4096}, .share = 0.25},
    {.type = "persimmon", .sizes = {4096, 64, 0, 36, 16384}, .share = 0.5},
    {.type = "fuyu", .sizes = {4096, 64, 0, 36, 16384}, .base = 25000, .share = 0.5},
    {.type = "nemotron", .sizes = {6144, 48, 0, 32, 4096}, .share = 0.5},
    {.type = "bamba", .sizes = {4096, 32, 0, 32, 262144}, .share = 0.5},
    {.type = "glm4_moe", .sizes = {4096, 96, 0, 46, 131072}, .share = 0.5},
    {.type = "glm4v_moe", .sizes = {4096, 96, 0, 46, 65536}, .axes = {{8, 12, 12}}},
    {.type = "mimo_v2_flash", .sizes = {4096, 64, 192, 48, 131072}, .base = 5e6, .local_base = 1e4, .share = 0.334, .window = 129, .pattern = {Pattern::mimo, 6}},
    {.type = "laguna", .sizes = {2048, 48, 128, 40, 131072}, .base = 500000, .local_base = 1e4, .share = 0.5, .local_share = 1, .window = 512},
    {.type = "zaya", .sizes = {2048, 8, 128, 40, 131072}, .base = 5e6, .local_base = 1e4, .share = 0.5},
    {.type = "minimax", .sizes = {4096, 32, 0, 32, 131072}, .base = 1e6, .pattern = {Pattern::alternating}, .quirks = quirk_window_all},
    {.type = "minimax_m2", .sizes = {3072, 48, 128, 62, 196608}, .base = 5e6},
    // Neighbouring channels.
    {.type = "gptj", .sizes = {4096, 16, 0, 28, 2048}, .rotary_width = 64, .pairing = interleaved, .numerics = in_float32},
    {.type = "codegen", .sizes = {4096, 16, 0, 28, 2048}, .rotary_width = 64, .pairing = interleaved, .numerics = in_float32},
    {.type = "cohere", .sizes = {8192, 64, 0, 40, 8192}, .base = 500000, .pairing = interleaved, .numerics = upcast},
    {.type = "cohere2", .sizes = {8192, 64, 0, 40, 8192}, .window = 4096, .pattern = {Pattern::full_last, 4}, .pairing = interleaved, .numerics = upcast, .unrotated = Unrotated::full_layers},
    {.type = "glm", .sizes = {4096, 32, 128, 40, 131072}, .share = 0.5, .pairing = interleaved},
    {.type = "glm4", .sizes = {4096, 32, 128, 40, 131072}, .share = 0.5, .pairing = interleaved},
    {.type = "chatglm", .sizes = {4096, 32, 128, 40, 131072}, .share = 0.5, .pairing = interleaved},
    {.type = "glm4v", .sizes = {4096, 32, 0, 40, 32768}, .pairing = interleaved, .axes = {{8, 12, 12}}},
    {.type = "ernie4_5", .sizes = {1024, 16, 128, 18, 131072}, .base = 500000, .pairing = interleaved, .numerics = in_float32},
    {.type = "ernie4_5_moe", .sizes = {2560, 20, 0, 28, 131072}, .base = 500000, .pairing = interleaved, .numerics = in_float32},
    {.type = "ernie4_5_vl_moe", .sizes = {2560, 20, 0, 28, 131072}, .base = 500000, .pairing = interleaved, .axes = {{22, 22, 20}, AxisOrder::alternating}, .numerics = in_float32, .quirks = quirk_sections_hwt},
    {.type = "roformer", .sizes = {768, 12, 0, 12, 1536}, .pairing = interleaved},
    {.type = "helium", .sizes = {2560, 20, 128, 24, 4096}, .base = 100000, .pairing = interleaved},
    // Latent attention: the rotated channels stand behind the others.
    {.type = "deepseek_v2", .pairing = interleaved, .place = Place::after_nope, .mla = {128, 64}, .numerics = in_float32, .quirks = quirk_softmax_mscale},
    {.type = "deepseek_v3", .sizes = {7168, 128, 0, 61, 4096}, .place = Place::after_nope, .mla = {128, 64}, .quirks = deepseek},
    {.type = "deepseek_v32", .sizes = {7168, 128, 0, 61, 163840}, .pairing = interleaved, .output_pairing = half, .place = Place::after_nope, .mla = {128, 64}, .quirks = quirk_softmax_mscale},
    {.type = "kimi_k2", .sizes = {7168, 64, 0, 61, 131072}, .base = 50000, .place = Place::after_nope, .mla = {128, 64}, .quirks = deepseek},
    {.type = "glm_moe_dsa", .sizes = {6144, 64, 0, 78, 202752}, .pairing = interleaved, .output_pairing = half, .place = Place::after_nope, .mla = {192, 64}, .quirks = quirk_softmax_mscale},
    {.type = "glm4_moe_lite", .sizes = {2048, 20, 0, 47, 202752}, .place = Place::after_nope, .mla = {192, 64}, .quirks = deepseek},
    {.type = "longcat_flash", .sizes = {6144, 64, 0, 28, 131072}, .base = 1e7, .pairing = interleaved, .output_pairing = half, .place = Place::after_nope, .mla = {128, 64}, .quirks = quirk_softmax_mscale},
    {.type = "youtu", .sizes = {2048, 16, 0, 32, 131072}, .place = Place::after_nope, .mla = {128, 64}, .quirks = deepseek},
    {.type = "minicpm3", .sizes = {2560, 40, 0, 62, 32768}, .place = Place::after_nope, .mla = {64, 32}, .quirks = quirk_softmax_mscale},
    {.type = "deepseek_v4", .sizes = {4096, 64, 512, 43, 1048576}, .base = 160000, .local_base = 10000, .share = 0.125, .window = 128, .pattern = {Pattern::deepseek_v4}, .pairing = interleaved, .place = Place::trailing, .numerics = upcast, .quirks = quirk_turned_back | quirk_compress_labels},
    // Encoders.
    {.type = "modernbert", .sizes = {768, 12, 0, 22, 8192}, .base = 160000, .local_base = 10000, .window = 128, .pattern = {Pattern::full_first, 3}, .numerics = upcast, .quirks = quirk_half_window},
    {.type = "modernbert-decoder", .sizes = {768, 12, 0, 22, 8192}, .base = 160000, .local_base = 10000, .window = 128, .pattern = {Pattern::full_first, 3}, .numerics = upcast, .quirks = quirk_half_window},
    {.type = "eurobert", .sizes = {768, 12, 0, 12, 8192}},
    {.type = "nomic_bert", .sizes = {768, 12, 0, 12, 2048}, .base = 1000},
};
// clang-format on

}  // namespace

std::span<const Model> text_models() { return rows; }

}  // namespace phasor::spec
