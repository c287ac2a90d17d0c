// SPDX-License-Identifier: Apache-2.0
// What every scheme of the reference is copied by.
#include "attention/reference/schemes.hpp"

#include <utility>

namespace phasor::attend::reference {

template <class S>
  requires requires(const S& s, const Problem& p) { s.check(p); }
Scheme::Scheme(S s) : AnyScheme(std::move(s)) {}

template Scheme::Scheme(Alibi);
template Scheme::Scheme(T5);
template Scheme::Scheme(WavLm);
template Scheme::Scheme(Kerple);
template Scheme::Scheme(Sandwich);
template Scheme::Scheme(LearnedDiagonal);
template Scheme::Scheme(Fire);
template Scheme::Scheme(Dense);
template Scheme::Scheme(Swin);
template Scheme::Scheme(Sam);
template Scheme::Scheme(Shaw);
template Scheme::Scheme(TransformerXl);
template Scheme::Scheme(Xlnet);
template Scheme::Scheme(Deberta);
template Scheme::Scheme(Inkling);
template Scheme::Scheme(Cope);
template Scheme::Scheme(Rope);
template Scheme::Scheme(Xpos);
template Scheme::Scheme(MappedRope);

Scheme::Scheme(const Scheme& other) = default;
Scheme::Scheme(Scheme&& other) noexcept = default;
Scheme& Scheme::operator=(const Scheme& other) = default;
Scheme& Scheme::operator=(Scheme&& other) noexcept = default;
Scheme::~Scheme() = default;

}  // namespace phasor::attend::reference
