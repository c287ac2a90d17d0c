// SPDX-License-Identifier: Apache-2.0
// The rotation. No guard and no namespace: included once in phasor::math for one lane and CUDA, once in each Highway target's namespace.

template <class V>
struct Pair {
  V x;
  V y;
};

/// What happens to each product before the sum: nothing. (A numerics profile may round it to the tensor's dtype, as eager PyTorch does.)
struct KeepProduct {
  template <class V>
  PHASOR_HD V operator()(V product) const {
    return product;
  }
};

/// (x, y) turned, each lane by its own cosine and sine (they differ only in tables that say so). A multiply, a multiply and an add, never
/// fused: this is where "the same bits everywhere" is decided, so no MulAdd here.
template <class V, class Product = KeepProduct>
PHASOR_HD inline Pair<V> rotate(Pair<V> p, Pair<V> cos, Pair<V> sin, Product of = {}) {
  return {Sub(of(Mul(p.x, cos.x)), of(Mul(p.y, sin.x))), Add(of(Mul(p.y, cos.y)), of(Mul(p.x, sin.y)))};
}

/// The same for channels that lie next to each other: `swapped` has the two of each pair exchanged, the first sine of each pair is negated.
/// x cos + y (-sin) is x cos - y sin to the bit.
template <class V, class Product = KeepProduct>
PHASOR_HD inline V rotate_swapped(V v, V swapped, V cos, V sin, Product of = {}) {
  return Add(of(Mul(v, cos)), of(Mul(swapped, sin)));
}
