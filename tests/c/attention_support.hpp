// SPDX-License-Identifier: Apache-2.0
// Problems of attention for tests of the C API: a scheme in C against the same spec in C++.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "c/call_support.hpp"
#include "phasor/phasor.h"
#include "phasor/phasor.hpp"

namespace phasor::test {

struct FreeScheme {
  void operator()(phasor_scheme* scheme) const { phasor_scheme_free(scheme); }
};
using SchemePointer = std::unique_ptr<phasor_scheme, FreeScheme>;

inline SchemePointer made(const phasor_attention_scheme& spec) {
  phasor_scheme* scheme = nullptr;
  succeeds([&](phasor_error* error) { return phasor_scheme_make(&spec, &scheme, error); });
  return SchemePointer(scheme);
}

/// The scheme of some terms; they must live as long as it.
inline phasor_attention_scheme scheme_of_terms(const std::vector<phasor_term_scheme>& terms, phasor_mask mask = PHASOR_MASK_FULL) {
  auto scheme = sized<phasor_attention_scheme>();
  scheme.terms = terms.data();
  scheme.term_count = terms.size();
  scheme.mask = mask;
  return scheme;
}
inline phasor_term_scheme term_of(phasor_term_kind kind) {
  auto term = sized<phasor_term_scheme>();
  term.kind = kind;
  return term;
}
inline phasor_attention_tensors tensors_of_terms(const std::vector<phasor_term_tensors>& terms) {
  auto tensors = sized<phasor_attention_tensors>();
  tensors.terms = terms.data();
  tensors.term_count = terms.size();
  return tensors;
}

struct Sizes {
  std::int64_t batch = 2, queries = 5, keys = 7, heads = 6, key_heads = 2, head_dim = 10, value_dim = 7;
};
inline std::size_t count_of(const Extents& shape) { return static_cast<std::size_t>(shape[0] * shape[1] * shape[2] * shape[3]); }

/// A tensor of four axes filled with numbers, in C and in C++.
struct Numbered {
  Extents shape;
  CTensor<float> tensor;
  Numbered(const Extents& of, std::uint32_t seed)
      : shape(of), tensor({of.begin(), of.end()}, count_of(of) == 0 ? std::vector<float>() : sample(count_of(of), seed)) {}
  const phasor_tensor* get() const { return tensor.get(); }
  TensorView view() const { return view_of(tensor, shape); }
};

/// q, k and v of a call.
struct Problem {
  Sizes sizes;
  Numbered q, k, v;
  explicit Problem(const Sizes& s = {})
      : sizes(s),
        q({s.batch, s.queries, s.heads, s.head_dim}, 1),
        k({s.batch, s.keys, s.key_heads, s.head_dim}, 2),
        v({s.batch, s.keys, s.key_heads, s.value_dim}, 3) {}

  AttentionInputs same() const { return {q.view(), k.view(), v.view()}; }
  phasor_attention_inputs inputs(const phasor_attention_tensors* tensors = nullptr) const {
    auto c = sized<phasor_attention_inputs>();
    c.q = q.get();
    c.k = k.get();
    c.v = v.get();
    c.tensors = tensors;
    return c;
  }
  Extents out_shape() const { return {sizes.batch, sizes.queries, sizes.heads, sizes.value_dim}; }
  Extents lse_shape() const { return {sizes.batch, sizes.queries, sizes.heads, 1}; }
};

struct Forward {
  std::vector<float> out;
  std::vector<float> lse;
};

inline Forward forward_of(const Problem& problem, const AttentionSpec& spec) {
  Forward made{std::vector<float>(count_of(problem.out_shape())), std::vector<float>(count_of(problem.lse_shape()))};
  std::vector<std::byte> workspace(static_cast<std::size_t>(*attention_workspace(problem.same(), spec)));
  const Status status =
      attention(problem.same(), spec, {view(made.out.data(), problem.out_shape()), view(made.lse.data(), problem.lse_shape())}, workspace);
  EXPECT_TRUE(status.ok()) << status.message();
  return made;
}

inline Forward forward_of(const Problem& problem, const phasor_attention_scheme& spec, const phasor_attention_tensors* tensors) {
  const SchemePointer scheme = made(spec);
  const Numbered out(problem.out_shape(), 77), lse(problem.lse_shape(), 78);
  const phasor_attention_inputs inputs = problem.inputs(tensors);
  auto outputs = sized<phasor_attention_outputs>();
  outputs.out = out.get();
  outputs.lse = lse.get();
  std::int64_t bytes = -1;
  succeeds([&](phasor_error* error) { return phasor_attention_workspace(scheme.get(), &inputs, &bytes, error); });
  std::vector<std::byte> memory(static_cast<std::size_t>(std::max<std::int64_t>(bytes, 0)));
  const phasor_workspace workspace = {memory.data(), memory.size(), nullptr, nullptr};
  succeeds([&](phasor_error* error) { return phasor_attention(scheme.get(), &inputs, &outputs, &workspace, error); });
  return {out.tensor.values, lse.tensor.values};
}

/// EXPECTs bits of C++ from C, and that the scheme is what makes them: plain attention gives others.
inline void expect_same(const Problem& problem, const phasor_attention_scheme& scheme, const phasor_attention_tensors* tensors,
                        const AttentionSpec& spec) {
  const Forward want = forward_of(problem, spec);
  const Forward is = forward_of(problem, scheme, tensors);
  EXPECT_TRUE(equal_bits(is.out, want.out));
  EXPECT_TRUE(equal_bits(is.lse, want.lse));
  EXPECT_FALSE(equal_bits(want.out, forward_of(problem, AttentionSpec{}).out));
}

}  // namespace phasor::test
