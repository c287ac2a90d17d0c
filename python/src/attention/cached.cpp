// SPDX-License-Identifier: Apache-2.0
// Attention over caches for Python: what phasor/_attention/cached.py is made of.
#include "phasor/cached_attention.hpp"

#include <nanobind/stl/vector.h>

#include <vector>

#include "attention/run.hpp"
#include "bindings.hpp"
#include "prepare/call.hpp"

namespace phasor::python {

namespace {

using nb::literals::operator""_a;

constexpr const char* kWhere = "cached_attention";
constexpr auto kToken = static_cast<std::size_t>(CacheAxis::token);

/// The caches of a call and their pages.
struct Caches {
  CallArrays arrays;
  CacheView k;
  CacheView v;
  IntegersArgument lengths;
  IntegersArgument blocks;

  /// caches: arrays that are read, integers and reals, as phasor/_prepare/call.py writes them, keys first. pages: lengths, blocks or None.
  Caches(const nb::tuple& caches, const nb::tuple& pages)
      : arrays(nb::cast<nb::list>(caches[0]), nb::list(), kWhere), lengths(pages[0], "lengths"), blocks(pages[1], "blocks") {
    CallNumbers numbers(nb::cast<std::vector<std::int64_t>>(caches[1]), nb::cast<std::vector<double>>(caches[2]), kWhere);
    k = read_cache(numbers, arrays, "k_cache", Access::read);
    v = read_cache(numbers, arrays, "v_cache", Access::read);
    numbers.finish();
  }
  /// Keys that a sequence has room for.
  std::int64_t room() const {
    const std::int64_t sequences = lengths.get().size;
    const std::int64_t pages = blocks.get().size == 0 || sequences == 0 ? 1 : blocks.get().size / sequences;
    return pages * k.shape[kToken];
  }
  CachedInputs inputs(const ConstTensorView& q) const { return {q, k, v, {blocks.get(), lengths.get(), k.shape[kToken]}}; }
  Place place() const { return common_place({arrays.place(), lengths.place(), blocks.place()}); }
};

void cached(nb::handle q, const nb::tuple& caches, const nb::tuple& pages, const Attention& plan, const nb::dict& given, nb::handle out,
            nb::handle lse, nb::handle workspace) {
  AttentionCall call(plan, given);
  Tensors tensors;
  const Caches held(caches, pages);
  const CachedInputs inputs = held.inputs(tensors.read(q, "q"));
  call.check_mask(inputs.q.shape[0], held.room(), kWhere);
  const AttentionOutputs outputs = {tensors.write(out, "out"), tensors.write(lse, "lse")};
  const std::int64_t scores = inputs.q.shape[0] * inputs.q.shape[1] * inputs.q.shape[2] * held.room();
  run_call(call, common_place({tensors.place(), held.place()}), scores, workspace,
           [&](const Workspace& memory) { return cached_attention(inputs, call.spec, outputs, memory); });
}

}  // namespace

void bind_cached_attention(nb::module_& m) {
  m.def(kWhere, &cached, "q"_a, "caches"_a, "pages"_a, "plan"_a, "tensors"_a, "out"_a, "lse"_a, "workspace"_a.none() = nb::none(),
        "Writes out (B, Tq, H, Dv) and lse (B, Tq, H, 1) of attention over caches: arrays, integers and reals of keys and values, in the "
        "order of phasor/_prepare/call.py; pages are (lengths, blocks or None).");
}

}  // namespace phasor::python
