// SPDX-License-Identifier: Apache-2.0
// What the forward and the backward loops of attention share, of one target: parts, tiles, terms, mask, contents.
// clang-format off
#include "cpu/attention/body.inl"
#include "cpu/attention/tile/tile.inl"
#include "cpu/attention/terms/query_table.inl"
#include "cpu/attention/terms/value_table.inl"
#include "cpu/attention/mask.inl"
#include "cpu/attention/tile/content.inl"
#include "cpu/attention/terms/cope.inl"
#include "cpu/attention/terms/dense.inl"
#include "cpu/attention/terms/grid.inl"
#include "cpu/attention/terms/grid_decomposed.inl"
#include "cpu/attention/terms/key_table.inl"
#include "cpu/attention/terms/segment.inl"
#include "cpu/attention/strips.inl"
#include "cpu/attention/terms/bias.inl"
// clang-format on
