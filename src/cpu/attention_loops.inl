// SPDX-License-Identifier: Apache-2.0
// What the forward and the backward loops of attention share, of one target: parts, tiles, terms, sight, contents.
// clang-format off
#include "cpu/attention_body.inl"
#include "cpu/attention_tile.inl"
#include "cpu/attention_query_table.inl"
#include "cpu/attention_value_table.inl"
#include "cpu/attention_sight.inl"
#include "cpu/attention_content.inl"
#include "cpu/attention_cope.inl"
#include "cpu/attention_dense.inl"
#include "cpu/attention_grid.inl"
#include "cpu/attention_grid_decomposed.inl"
#include "cpu/attention_key_table.inl"
#include "cpu/attention_segment.inl"
#include "cpu/attention_strips.inl"
#include "cpu/attention_bias.inl"
// clang-format on
