// SPDX-License-Identifier: Apache-2.0
// Which pointers of a job are host tables: a plan's numbers, on the host whatever the device of the call, only read, and alive until the
// call returns. All other pointers of a job are memory of its device. table(pointer, count) is called for each that is not null; a device
// copies `count` elements and puts the pointer to its own into the job that it was given.
#pragma once

#include "job/additive.hpp"
#include "job/attention/cached_job.hpp"
#include "job/attention/job.hpp"
#include "job/bias.hpp"
#include "job/learned.hpp"
#include "job/phase_gradient.hpp"
#include "job/positions/build.hpp"
#include "job/prepare/backward.hpp"
#include "job/prepare/job.hpp"
#include "job/rerotate.hpp"
#include "job/rotary.hpp"
#include "job/specs/job.hpp"

namespace phasor::backend {

template <class Table, class T>
void give_table(const Table& table, T*& pointer, std::int64_t count) {
  if (pointer != nullptr) table(pointer, count);
}

template <class Table>
void each_host_table(job::RowSource& rows, const Table& table) {
  give_table(table, rows.steps, rows.step_count);
  give_table(table, rows.turn_cos, rows.step_count);
  give_table(table, rows.turn_sin, rows.step_count);
  give_table(table, rows.axis_of_pair, rows.step_count);
  give_table(table, rows.profile.frequencies, rows.profile.count);
  give_table(table, rows.profile.running, rows.profile.count);
}

template <class Table>
void each_host_table(job::LadderSource& ladder, const Table& table) {
  give_table(table, ladder.frequencies, ladder.count);
  give_table(table, ladder.axis_of_pair, ladder.count);  // then there is a frequency for each pair
}

template <class Table>
void each_host_table(plan::BiasSource& bias, const Table& table) {
  give_table(table, bias.slopes, bias.heads);
  give_table(table, bias.table, bias.heads * bias.rows);
  give_table(table, bias.row.thresholds, bias.row.threshold_count);
  give_table(table, bias.r1, bias.heads);
  give_table(table, bias.r2, bias.heads);
  give_table(table, bias.steps, bias.step_count);
  give_table(table, bias.mlp.widths, bias.mlp.width_count);
  give_table(table, bias.mlp.parameters, bias.mlp.parameter_count);
}

template <class Table>
void each_host_table(job::RotateJob& job, const Table& table) {
  each_host_table(job.rows, table);
}
template <class Table>
void each_host_table(job::RerotateJob& job, const Table& table) {
  each_host_table(job.rotate, table);
  each_host_table(job.from, table);
}
template <class Table>
void each_host_table(job::RowsJob& job, const Table& table) {
  each_host_table(job.rows, table);
}
template <class Table>
void each_host_table(job::AddJob& job, const Table& table) {
  each_host_table(job.rows, table);
  give_table(table, job.parts, job.part_count);
}
template <class Table>
void each_host_table(job::LookupJob& /*job*/, const Table& /*table*/) {}
template <class Table>
void each_host_table(job::ScatterJob& /*job*/, const Table& /*table*/) {}
template <class Table>
void each_host_table(job::PhaseGradientJob& /*job*/, const Table& /*table*/) {}
template <class Table>
void each_host_table(job::FrequencyGradientJob& job, const Table& table) {
  each_host_table(job.ladder, table);
}
template <class Table>
void each_host_table(job::PositionGradientJob& job, const Table& table) {
  each_host_table(job.ladder, table);
}
template <class Table>
void each_host_table(job::DiagonalJob& job, const Table& table) {
  each_host_table(job.bias, table);
}
template <class Table>
void each_host_table(job::DiagonalGradientJob& job, const Table& table) {
  each_host_table(job.bias, table);
}
template <class Table>
void each_host_table(job::BlockJob& job, const Table& table) {
  each_host_table(job.bias, table);
}

/// The tables of each spec come before the list of specs, which then points to the device's.
template <class Table>
void each_host_table(job::SpecList& specs, const Table& table) {
  for (std::int64_t i = 0; i < specs.count; ++i) each_host_table(specs.rows[i], table);
  give_table(table, specs.rows, specs.count);
}
template <class Table>
void each_host_table(job::RotateSpecsJob& job, const Table& table) {
  each_host_table(job.rotate, table);
  each_host_table(job.specs, table);
}
template <class Table>
void each_host_table(job::PrepareJob& job, const Table& table) {
  each_host_table(job.turn.rows, table);
  each_host_table(job.specs, table);
}

template <class Table>
void each_host_table(job::PrepareBackwardJob& job, const Table& table) {
  each_host_table(job.step, table);
}

template <class Table>
void each_host_table(job::BuildJob& /*job*/, const Table& /*table*/) {}
template <class Table>
void each_host_table(job::TemperatureJob& /*job*/, const Table& /*table*/) {}

template <class Table>
void each_host_table(job::AttentionTermJob& term, const Table& table) {
  each_host_table(term.bias.bias, table);
  give_table(table, term.table.rows.buckets.thresholds, term.table.rows.buckets.threshold_count);
}
/// The tables of the terms come before the list of terms, which then points to the device's.
template <class Table>
void each_host_table(job::AttentionJob& job, const Table& table) {
  for (job::RotateJob* rotation : {&job.content.queries, &job.content.queries_back, &job.content.keys, &job.content.keys_back}) {
    each_host_table(*rotation, table);
  }
  for (std::int64_t t = 0; t < job.term_count; ++t) each_host_table(job.terms[t], table);
  give_table(table, job.terms, job.term_count);
}
template <class Table>
void each_host_table(job::AttentionBackwardJob& job, const Table& table) {
  each_host_table(job.forward, table);
}
template <class Table>
void each_host_table(job::AttentionWeightsJob& job, const Table& table) {
  each_host_table(job.forward, table);
}
template <class Table>
void each_host_table(job::CachedAttentionJob& job, const Table& table) {
  each_host_table(job.attention, table);
}
template <class Table>
void each_host_table(job::MergeJob& job, const Table& table) {
  give_table(table, job.parts, job.part_count);
}

}  // namespace phasor::backend
