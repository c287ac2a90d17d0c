// SPDX-License-Identifier: Apache-2.0
// Builders of positions and position maps for phasor.positions.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include "arrays/arguments.hpp"
#include "bindings.hpp"
#include "fields/position_fields.hpp"
#include "phasor/bias.hpp"
#include "phasor/learned.hpp"
#include "phasor/position_builders.hpp"
#include "phasor/position_maps.hpp"
#include "threads/threads.hpp"

namespace phasor::python {

namespace {

using nb::literals::operator""_a;

/// What a decode loop builds, on any device: `work(out, execution)` on the stream of the arrays, without the GIL.
template <class Work>
void fill_there(const PositionsOut& out, std::initializer_list<Place> lists, const Work& work) {
  const Place places[] = {out.place(), common_place(lists)};
  run_unlocked(common_place(places), 0, [&](const Execution& execution) { return work(out.get(), execution); });
}

void fill_consecutive(nb::handle out, std::int64_t offset) {
  fill_there(PositionsOut(out), {},
             [&](const PositionsView& to, const Execution& execution) { return fill_from_offset(to, offset, execution); });
}

void fill_rows(nb::handle out, nb::handle offsets) {
  const IntegersArgument firsts(offsets, "offsets");
  fill_there(PositionsOut(out), {firsts.place()},
             [&](const PositionsView& to, const Execution& execution) { return fill_from_offsets(to, firsts.get(), execution); });
}

void fill_ragged(nb::handle out, nb::handle cu_seqlens, nb::handle offsets) {
  const IntegersArgument ends(cu_seqlens, "cu_seqlens");
  const IntegersArgument firsts(offsets, "offsets");
  fill_there(PositionsOut(out), {ends.place(), firsts.place()}, [&](const PositionsView& to, const Execution& execution) {
    return fill_from_cu_seqlens(to, {.cu_seqlens = ends.get(), .offsets = firsts.get()}, execution);
  });
}

void fill_mask(nb::handle out, nb::handle values, std::optional<std::int64_t> pad, std::int64_t past, nb::handle rule) {
  const IntegersArgument mask(values, "mask");
  const AttentionMask attention{.values = mask.get(), .pad = pad, .past = past};
  check(fill_from_mask(PositionsOut(out).get(), attention, read<MaskRule>(rule, "MaskRule")));
}

void fill_pages(nb::handle out, nb::handle blocks, nb::handle lengths, std::int64_t page_size, std::int64_t empty) {
  const IntegersArgument pages(blocks, "blocks");
  const IntegersArgument tokens(lengths, "lengths");
  check(fill_from_pages(PositionsOut(out).get(), {.blocks = pages.get(), .lengths = tokens.get(), .page_size = page_size}, empty));
}

void fill_slots_at(nb::handle out, nb::handle at, std::int64_t page_size, const nb::tuple& lists) {
  const IntegersArgument pages(lists[0], "blocks");
  const IntegersArgument tokens(lists[1], "lengths");
  const IntegersArgument ends(lists[2], "cu_seqlens");
  const PositionsArgument positions(at, "at");
  const PageTable table{.blocks = pages.get(), .lengths = tokens.get(), .page_size = page_size};
  fill_there(
      PositionsOut(out), {pages.place(), tokens.place(), ends.place(), positions.place()},
      [&](const PositionsView& to, const Execution& execution) { return fill_slots(to, table, positions.get(), ends.get(), execution); });
}

void fill_factors(nb::handle out, nb::handle temperature, nb::handle at) {
  const PositionsArgument positions(at);
  const Array factors = array_of(out, "out", Access::write);
  const TensorView to = factors_of(factors, "out");
  const auto by = read<QueryTemperature>(temperature, "QueryTemperature");
  const Place places[] = {factors.place, positions.place()};
  run_unlocked(common_place(places), 0, [&](const Execution& execution) { return fill_temperature(to, by, positions.get(), execution); });
}

void fill_tree(nb::handle out, nb::handle parents, nb::handle offsets) {
  const IntegersArgument above(parents, "parents");
  const IntegersArgument firsts(offsets, "offsets");
  check(fill_from_tree(PositionsOut(out).get(), {.parents = above.get(), .offsets = firsts.get()}));
}

/// The span of axes needs a home beside the layout.
struct LayoutArgument {
  std::vector<GridAxis> axes;
  GridLayout layout;
  explicit LayoutArgument(nb::handle object)
      : axes(read<std::vector<GridAxis>>(object.attr("axes"), "GridLayout.axes")), layout(read<GridLayout>(object, "GridLayout")) {
    layout.axes = axes;
  }
};

void fill_grids(nb::handle out, nb::handle grids, nb::handle layout) {
  const auto list = read<std::vector<ImageGrid>>(grids, "grids");
  check(fill_from_grids(PositionsOut(out).get(), list, LayoutArgument(layout).layout));
}

void fill_patches(nb::handle out, nb::handle patches, nb::handle grid, nb::handle layout) {
  const IntegersArgument indices(patches, "patches");
  check(fill_from_patches(PositionsOut(out).get(), indices.get(), read<ImageGrid>(grid, "grid"), LayoutArgument(layout).layout));
}

std::vector<double> fill_mrope_ids(nb::handle out, nb::handle input) {
  const auto list = [&](const char* name) { return IntegersArgument(input.attr(name), name); };
  const auto ids = list("input_ids");
  const auto types = list("token_types");
  const auto mask = list("attention_mask");
  const auto audio = list("audio_lengths");
  const auto images = read<std::vector<ImageGrid>>(input.attr("images"), "MropeInput.images");
  const auto videos = read<std::vector<ImageGrid>>(input.attr("videos"), "MropeInput.videos");
  const auto wide_seconds = read<std::vector<double>>(input.attr("seconds_per_grid"), "MropeInput.seconds_per_grid");
  const std::vector<float> seconds(wide_seconds.begin(), wide_seconds.end());
  MropeInput in = read<MropeInput>(input, "MropeInput");
  in.input_ids = ids.get();
  in.token_types = types.get();
  in.attention_mask = mask.get();
  in.audio_lengths = audio.get();
  in.images = images;
  in.videos = videos;
  in.seconds_per_grid = seconds;
  const PositionsOut to(out);
  std::vector<double> deltas(static_cast<std::size_t>(to.get().shape[1]));
  check(fill_mrope(to.get(), deltas, in));
  return deltas;
}

using ShardFunction = Status (*)(const PositionsView&, const Shard&);
void fill_shards(ShardFunction fill, nb::handle out, nb::handle shard) {
  const IntegersArgument ends(shard.attr("cu_seqlens"), "cu_seqlens");
  const IntegersArgument firsts(shard.attr("offsets"), "offsets");
  const IntegersArgument permutation(shard.attr("permutation"), "permutation");
  Shard in = read<Shard>(shard, "Shard");
  in.whole = {.cu_seqlens = ends.get(), .offsets = firsts.get()};
  in.permutation = permutation.get();
  check(fill(PositionsOut(out).get(), in));
}

void bind_builders(nb::module_& m) {
  m.def("fill_from_offset", fill_consecutive, "out"_a, "offset"_a);
  m.def("fill_from_offsets", fill_rows, "out"_a, "offsets"_a);
  m.def("fill_from_cu_seqlens", fill_ragged, "out"_a, "cu_seqlens"_a, "offsets"_a.none());
  m.def("fill_from_mask", fill_mask, "out"_a, "mask"_a, "pad"_a.none(), "past"_a, "rule"_a);
  m.def("fill_from_pages", fill_pages, "out"_a, "blocks"_a, "lengths"_a.none(), "page_size"_a, "empty"_a);
  m.def("fill_slots", fill_slots_at);
  m.def("fill_from_tree", fill_tree, "out"_a, "parents"_a, "offsets"_a.none());
  m.def("fill_from_grids", fill_grids);
  m.def("fill_from_patches", fill_patches);
  m.def("fill_mrope", fill_mrope_ids);
  m.def("fill_shard", [](nb::handle out, nb::handle shard) { fill_shards(fill_shard, out, shard); });
  m.def("fill_shard_tokens", [](nb::handle out, nb::handle shard) { fill_shards(fill_shard_tokens, out, shard); });
  m.def("fill_random", [](nb::handle out, std::int64_t length, std::uint64_t seed) {
    check(fill_random(PositionsOut(out).get(), {.length = length, .seed = seed}));
  });
}

void bind_learned_positions(nb::module_& m) {
  m.def("fill_abacus", [](nb::handle out, nb::handle input_ids, nb::handle digits, std::int64_t offset) {
    const IntegersArgument ids(input_ids, "input_ids");
    const IntegersArgument numbers(digits, "digits");
    check(fill_abacus(PositionsOut(out).get(), {.input_ids = ids.get(), .digits = numbers.get(), .offset = offset}));
  });
  m.def(
      "fill_detr",
      [](nb::handle out, const std::pair<std::int64_t, std::int64_t>& size, nb::handle mask, bool normalised) {
        const IntegersArgument pixels(mask, "mask");
        check(fill_detr(PositionsOut(out).get(),
                        {.rows = size.first, .columns = size.second, .mask = pixels.get(), .normalised = normalised}));
      },
      "out"_a, "size"_a, "mask"_a.none(), "normalised"_a);
  m.def("fill_window",
        [](nb::handle out, nb::handle window) { check(fill_window(PositionsOut(out).get(), read<Window>(window, "Window"))); });
}

void bind_maps(nb::module_& m) {
  m.def("mapped_distance",
        [](nb::handle map, std::int64_t query, std::int64_t key) { return mapped_distance(read<PositionMap>(map, "map"), query, key); });
  m.def("passes_of", [](nb::handle map) { return passes_of(read<PositionMap>(map, "map")); });
  m.def("keys_of_pass", [](nb::handle map, int pass, std::int64_t query) {
    const KeyRange keys = keys_of_pass(read<PositionMap>(map, "map"), pass, query);
    return std::pair(keys.first, keys.end);
  });
  m.def("fill_pass_positions", [](nb::handle out, nb::handle map, int pass, nb::handle side, nb::handle at) {
    const PositionsArgument positions(at, "at");
    const MapPass which{.pass = pass, .side = read<MapSide>(side, "side")};
    check(fill_pass_positions(PositionsOut(out).get(), read<PositionMap>(map, "map"), which, positions.get()));
  });
  m.def("query_temperature", [](nb::handle temperature, std::int64_t position) {
    return query_temperature(read<QueryTemperature>(temperature, "QueryTemperature"), position);
  });
  m.def("fill_temperature", fill_factors);
}

}  // namespace

void bind_positions(nb::module_& m) {
  bind_builders(m);
  bind_learned_positions(m);
  bind_maps(m);
}

}  // namespace phasor::python
