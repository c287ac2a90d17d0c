// SPDX-License-Identifier: Apache-2.0
// The step before attention: check, choose, run.
#include "phasor/prepare.hpp"

#include <vector>

#include "job/prepare/backward.hpp"
#include "job/prepare/job.hpp"
#include "ops/run.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor {

PrepareInputs unpack_qkv(const ConstTensorView& packed, const PackedHeads& heads) {
  // Bounds one by one, so that nothing overflows. What does not fit gives nothing, which prepare_attention refuses; nor does a row of
  // several heads, or of channels apart.
  const std::int64_t channels = packed.shape[3];
  const bool row = packed.shape[2] == 1 && (channels <= 1 || packed.strides[3] == 1);
  const bool sound = row && heads.first >= 0 && heads.q_heads >= 0 && heads.k_heads >= 0 && heads.head_dim > 0 && heads.first <= channels &&
                     heads.q_heads <= channels && heads.k_heads <= channels && heads.head_dim <= channels;
  if (!sound || (heads.q_heads + 2 * heads.k_heads) > (channels - heads.first) / heads.head_dim) return {};
  const auto part = [&](std::int64_t first, std::int64_t count) {
    const std::int64_t skip = (heads.first + first * heads.head_dim) * bytes_of(packed.dtype);
    return ConstTensorView(static_cast<const std::byte*>(packed.data) + skip, packed.dtype,
                           {packed.shape[0], packed.shape[1], count, heads.head_dim},
                           {packed.strides[0], packed.strides[1], heads.head_dim, 1}, packed.device);
  };
  return {part(0, heads.q_heads), part(heads.q_heads, heads.k_heads), part(heads.q_heads + heads.k_heads, heads.k_heads), {}};
}

Status prepare_attention(const PrepareInputs& inputs, const PrepareRotation& rotation, const PrepareOutputs& outputs,
                         const PrepareSpec& spec, const Execution& execution) {
  const job::PrepareCall call = {inputs, rotation, outputs, spec};
  if (rotation.rotaries.size() <= 1) {
    job::RowSource one;
    return ops::run(job::make_prepare_job(call, {&one, 1}), &backend::Backend::prepare, execution);
  }
  return spec::without_exceptions([&] {
    std::vector<job::RowSource> rows(rotation.rotaries.size());
    return ops::run(job::make_prepare_job(call, rows), &backend::Backend::prepare, execution);
  });
}

Result<std::int64_t> prepare_attention_backward_workspace(const PrepareInputs& inputs, const PrepareGradients& gradients,
                                                          const PrepareSpec& spec) {
  return job::backward_workspace(inputs, gradients, spec);
}

Status prepare_attention_backward(const PrepareInputs& inputs, const PrepareRotation& rotation, const PrepareGradients& gradients,
                                  const PrepareSpec& spec, const Execution& execution) {
  const job::PrepareBackwardCall call = {inputs, rotation, gradients, spec};
  if (rotation.rotaries.size() <= 1) {
    job::RowSource one;
    return ops::run(job::make_prepare_backward_job(call, {&one, 1}), &backend::Backend::prepare_backward, execution);
  }
  return spec::without_exceptions([&] {
    std::vector<job::RowSource> rows(rotation.rotaries.size());
    return ops::run(job::make_prepare_backward_job(call, rows), &backend::Backend::prepare_backward, execution);
  });
}

}  // namespace phasor
