// SPDX-License-Identifier: Apache-2.0
// Every check of shapes of the builders that run on any device.
#include "job/positions/build.hpp"

#include <cstdint>
#include <limits>

#include "job/check.hpp"
#include "job/positions/positions.hpp"

namespace phasor::job {
namespace {

BuildJob job_of(BuildJob::Kind kind, const PositionsView& out) {
  BuildJob job;
  job.device = out.device;
  job.kind = kind;
  job.out = out;
  return job;
}

}  // namespace

Status check_table(const char* where, const PageTable& table, std::int64_t sequences, const PositionsView& out) {
  if (table.page_size < 1 || table.page_size > std::int64_t{1} << 40) {
    return error(where, "page_size is {}, wanted 1 to 2^40", table.page_size);
  }
  if (Status s = check_list(where, "blocks", table.blocks, out); !s) return s;
  if (sequences == 0 ? table.blocks.size != 0 : table.blocks.size % sequences != 0) {
    return error(where, "blocks has {} elements, wanted as many for each of {} sequences", table.blocks.size, sequences);
  }
  return check_list(where, "lengths", table.lengths, out);
}

Result<BuildJob> make_offset_job(const PositionsView& out, std::int64_t offset) {
  BuildJob job = job_of(BuildJob::Kind::offset, out);
  if (Status s = check_written_positions(name_of(job.kind), out); !s) return s;
  // On a CPU what is written is looked at as it is; a device's kernels trust.
  const bool narrow = out.type == PositionType::i32;
  const std::int64_t most = narrow ? std::numeric_limits<std::int32_t>::max() : std::numeric_limits<std::int64_t>::max();
  const std::int64_t least = narrow ? std::numeric_limits<std::int32_t>::min() : std::numeric_limits<std::int64_t>::min();
  const std::int64_t tokens = out.shape[2];
  if (out.device.kind != DeviceKind::cpu && tokens > 0 && (offset < least || offset > most - (tokens - 1))) {
    return error(name_of(job.kind), "{} positions from {} on do not fit in {} bits", tokens, offset, narrow ? 32 : 64);
  }
  job.offset = offset;
  return job;
}

Result<BuildJob> make_offsets_job(const PositionsView& out, const Integers& offsets) {
  BuildJob job = job_of(BuildJob::Kind::offsets, out);
  if (Status s = check_written_positions(name_of(job.kind), out); !s) return s;
  if (Status s = check_list_of(name_of(job.kind), "offsets", offsets, out, out.shape[1]); !s) return s;
  job.offsets = offsets;
  return job;
}

Result<BuildJob> make_ragged_job(const PositionsView& out, const Ragged& ragged) {
  BuildJob job = job_of(BuildJob::Kind::ragged, out);
  if (Status s = check_written_positions(name_of(job.kind), out); !s) return s;
  if (Status s = check_ragged(name_of(job.kind), ragged, out, out.shape[2]); !s) return s;
  if (Status s = check_extents(name_of(job.kind), out, 1, out.shape[2]); !s) return s;
  job.offsets = ragged.offsets;
  job.cu_seqlens = ragged.cu_seqlens;
  return job;
}

Result<BuildJob> make_slots_job(const PositionsView& out, const PageTable& table, const Positions& at, const Integers& cu_seqlens) {
  BuildJob job = job_of(BuildJob::Kind::slots, out);
  const char* const where = name_of(job.kind);
  if (Status s = check_written_positions(where, out); !s) return s;
  const bool ragged = cu_seqlens.size != 0;
  if (ragged) {
    if (Status s = check_ragged(where, {.cu_seqlens = cu_seqlens}, out, out.shape[2]); !s) return s;
    if (Status s = check_extents(where, out, 1, out.shape[2]); !s) return s;
  }
  job.sequences = ragged ? cu_seqlens.size - 1 : out.shape[1];
  if (Status s = check_table(where, table, job.sequences, out); !s) return s;
  if (table.lengths.size != 0 && table.lengths.size != job.sequences) {
    return error(where, "lengths has {} elements, wanted {}", table.lengths.size, job.sequences);
  }
  if (Status s = check_source(where, at, out); !s) return s;
  job.cu_seqlens = cu_seqlens;
  job.blocks = table.blocks;
  job.lengths = table.lengths;
  job.page_size = table.page_size;
  job.at = source_of(at, 1);
  return job;
}

}  // namespace phasor::job
