// SPDX-License-Identifier: Apache-2.0
// The table of models that do not rotate text: images, biases, learned and sinusoidal positions, or none.
#include <iterator>

#include "spec/hf/models.hpp"

namespace phasor::spec {
namespace {

constexpr Numerics in_float32 = Numerics::hf_float32;
constexpr Sizes qwen2_vision{1280, 16, 0, 32, 0};
constexpr Sizes qwen25_vision{3584, 16, 0, 32, 0};
constexpr Sizes qwen3_vision{1152, 16, 0, 27, 0};
constexpr Sizes bert{768, 12, 0, 12, 512};
constexpr Sizes t5{512, 8, 64, 6, 0};
constexpr Sizes vit{768, 12, 0, 12, 0};

constexpr Model rows[] = {
    // Images and video.
    {.type = "qwen2_vl_vision", .encoding = Encoding::axial, .sizes = qwen2_vision, .numerics = in_float32},
    {.type = "qwen2_5_vl_vision", .encoding = Encoding::axial, .sizes = qwen25_vision, .numerics = in_float32},
    {.type = "qwen2_5_omni_vision", .encoding = Encoding::axial, .sizes = qwen25_vision, .numerics = in_float32},
    {.type = "qwen3_vl_vision", .encoding = Encoding::axial, .sizes = qwen3_vision, .numerics = in_float32},
    {.type = "qwen3_vl_moe_vision", .encoding = Encoding::axial, .sizes = qwen3_vision, .numerics = in_float32},
    {.type = "qwen3_omni_moe_vision", .encoding = Encoding::axial, .sizes = qwen3_vision, .numerics = in_float32},
    {.type = "qwen3_5_vision", .encoding = Encoding::axial, .sizes = qwen3_vision, .numerics = in_float32},
    {.type = "qwen3_5_moe_vision", .encoding = Encoding::axial, .sizes = qwen3_vision, .numerics = in_float32},
    {.type = "glm4v_vision", .encoding = Encoding::axial, .sizes = {1536, 12, 0, 24, 0}, .numerics = in_float32},
    {.type = "glm4v_moe_vision", .encoding = Encoding::axial, .sizes = {1536, 12, 0, 24, 0}, .numerics = in_float32},
    {.type = "ernie4_5_vl_moe_vision", .encoding = Encoding::axial, .sizes = {1280, 16, 0, 32, 0}, .numerics = in_float32},
    {.type = "pixtral", .encoding = Encoding::pixtral, .sizes = {1024, 16, 0, 24, 0}},
    {.type = "llama4_vision", .encoding = Encoding::llama4_vision, .sizes = {768, 16, 0, 34, 0}, .numerics = in_float32},
    {.type = "gemma4_vision", .encoding = Encoding::gemma4_vision, .sizes = {768, 12, 64, 16, 0}, .base = 100},
    {.type = "sam2_video", .encoding = Encoding::sam2_memory, .sizes = {256, 1, 0, 4, 0}, .numerics = in_float32},
    {.type = "sam2", .encoding = Encoding::none, .sizes = {96, 1, 0, 12, 0}},
    {.type = "vjepa2", .encoding = Encoding::vjepa2, .sizes = {1024, 16, 0, 24, 0}},
    {.type = "dinov3_vit", .encoding = Encoding::dinov3, .sizes = {384, 6, 0, 12, 0}, .base = 100},
    {.type = "vit", .encoding = Encoding::learned, .sizes = vit},
    {.type = "dinov2", .encoding = Encoding::learned, .sizes = vit},
    {.type = "clip_vision", .encoding = Encoding::learned, .sizes = vit},
    {.type = "siglip_vision", .encoding = Encoding::learned, .sizes = vit},
    {.type = "phi4_multimodal_vision", .encoding = Encoding::learned, .sizes = {1152, 16, 0, 27, 0}},
    {.type = "mllama_vision", .encoding = Encoding::learned, .sizes = {1280, 16, 0, 32, 0}},
    {.type = "hunyuan_vl_vision", .encoding = Encoding::learned, .sizes = {1152, 16, 0, 27, 0}},
    {.type = "swin", .encoding = Encoding::swin, .sizes = {96, 3, 0, 12, 0}},
    // Sound.
    {.type = "whisper", .encoding = Encoding::whisper, .sizes = {384, 6, 0, 4, 448}},
    {.type = "qwen2_audio_encoder", .encoding = Encoding::sinusoidal, .sizes = {1280, 20, 0, 32, 1500}},
    {.type = "qwen2_audio_audio", .encoding = Encoding::sinusoidal, .sizes = {1280, 20, 0, 32, 1500}},
    {.type = "qwen2_5_omni_audio", .encoding = Encoding::sinusoidal, .sizes = {1280, 20, 0, 32, 1500}},
    {.type = "qwen3_omni_moe_audio", .encoding = Encoding::sinusoidal, .sizes = {1280, 20, 0, 32, 1500}},
    // Biases.
    {.type = "bloom", .encoding = Encoding::bloom, .sizes = {64, 8, 0, 2, 0}},
    {.type = "mpt", .encoding = Encoding::mpt, .sizes = {2048, 16, 0, 24, 2048}},
    {.type = "falcon", .encoding = Encoding::falcon, .sizes = {4544, 71, 0, 32, 2048}},
    {.type = "RefinedWeb", .encoding = Encoding::falcon, .sizes = {4544, 71, 0, 32, 2048}},
    {.type = "RefinedWebModel", .encoding = Encoding::falcon, .sizes = {4544, 71, 0, 32, 2048}},
    {.type = "t5", .encoding = Encoding::t5, .sizes = t5},
    {.type = "mt5", .encoding = Encoding::t5, .sizes = {512, 6, 64, 8, 0}},
    {.type = "umt5", .encoding = Encoding::t5, .sizes = {512, 6, 64, 8, 0}},
    {.type = "switch_transformers", .encoding = Encoding::t5, .sizes = {768, 12, 64, 12, 0}},
    {.type = "xlnet", .encoding = Encoding::xlnet, .sizes = {1024, 16, 0, 24, 0}},
    {.type = "deberta", .encoding = Encoding::deberta, .sizes = bert},
    {.type = "deberta-v2", .encoding = Encoding::deberta, .sizes = {1536, 24, 0, 24, 512}},
    // Learned.
    {.type = "bert", .encoding = Encoding::learned, .sizes = bert},
    {.type = "albert", .encoding = Encoding::learned, .sizes = {4096, 64, 0, 12, 512}},
    {.type = "electra", .encoding = Encoding::learned, .sizes = {256, 4, 0, 12, 512}},
    {.type = "distilbert", .encoding = Encoding::learned, .sizes = {768, 12, 0, 6, 512}},
    {.type = "gpt2", .encoding = Encoding::learned, .sizes = {768, 12, 0, 12, 1024}},
    {.type = "gpt_bigcode", .encoding = Encoding::learned, .sizes = {768, 12, 0, 12, 1024}},
    {.type = "gpt_neo", .encoding = Encoding::learned, .sizes = {2048, 16, 0, 24, 2048}, .scale = AttentionScale::one},
    {.type = "roberta", .encoding = Encoding::roberta, .sizes = bert},
    {.type = "xlm-roberta", .encoding = Encoding::roberta, .sizes = bert},
    {.type = "camembert", .encoding = Encoding::roberta, .sizes = bert},
    {.type = "mpnet", .encoding = Encoding::roberta, .sizes = bert},
    {.type = "opt", .encoding = Encoding::bart, .sizes = {768, 12, 0, 12, 2048}},
    {.type = "bart", .encoding = Encoding::bart, .sizes = {1024, 16, 0, 12, 1024}},
    {.type = "mbart", .encoding = Encoding::bart, .sizes = {1024, 16, 0, 12, 1024}},
    // None.
    {.type = "jamba", .encoding = Encoding::none, .sizes = {4096, 32, 0, 32, 262144}},
    {.type = "mamba", .encoding = Encoding::none, .sizes = {768, 1, 0, 32, 0}},
    {.type = "mamba2", .encoding = Encoding::none, .sizes = {4096, 1, 0, 64, 0}},
};

}  // namespace

std::span<const Model> other_models() { return rows; }

}  // namespace phasor::spec
