// SPDX-License-Identifier: Apache-2.0
// Which calls Hopper's own kernel can take, said in its words.
#pragma once

#include <optional>

#include "cuda/attention/hopper/backward/run.hpp"
#include "cuda/attention/hopper/run.hpp"
#include "cuda/attention/work.hpp"

namespace phasor::cuda::attention {

/// A call that has been laid out, as Hopper's kernel takes it; nullopt: it has what that kernel does not know. Whether it takes these
/// shapes on a device is hopper::takes's to say.
std::optional<hopper::Forward> hopper_forward(const AttentionWork& work);
/// The same of a backward; its gradients of rotated copies go to the caller's tensors, to be turned back there. Where the gradient of a
/// bias, of a table, or of what is added to queries is wanted, its place is not null, and yet to be laid out.
std::optional<hopper::Backward> hopper_backward(const AttentionWork& work, const job::AttentionBackwardJob& job);

}  // namespace phasor::cuda::attention
