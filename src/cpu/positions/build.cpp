// SPDX-License-Identifier: Apache-2.0
// Positions and slots built on the CPU: a first walk checks every value, a second writes.
#include "cpu/run.hpp"
#include "job/positions/positions.hpp"

namespace phasor::cpu {
namespace {

using job::at;
using job::error;
using job::PositionSink;

Status fill_from_starts(const job::BuildJob& job) {
  const PositionsView& out = job.out;
  return job::fill(name_of(job.kind), out, [&](PositionSink& sink) {
    for (std::int64_t b = 0; b < out.shape[1]; ++b) {
      const std::int64_t start = job.kind == job::BuildJob::Kind::offset ? job.offset : at(job.offsets, b);
      for (std::int64_t t = 0; t < out.shape[2]; ++t) sink.put(b, t, start, t);
    }
    return Status();
  });
}

Status fill_ragged(const job::BuildJob& job) {
  return job::fill(name_of(job.kind), job.out, [&](PositionSink& sink) {
    for (std::int64_t s = 0; s + 1 < job.cu_seqlens.size; ++s) {
      const std::int64_t first = at(job.cu_seqlens, s);
      const std::int64_t offset = job.offsets.size == 0 ? 0 : at(job.offsets, s);
      for (std::int64_t t = first; t < at(job.cu_seqlens, s + 1); ++t) sink.put(0, t, offset, t - first);
    }
    return Status();
  });
}

struct PagedToken {
  std::int64_t position;
  std::int64_t sequence;
  std::int64_t t;
};

/// Its slot, or an error that names the token.
Status find_slot(const job::BuildJob& job, const PagedToken& token, std::int64_t& slot) {
  const char* const where = name_of(job.kind);
  const std::int64_t position = token.position;
  const std::int64_t pages = job.blocks.size / job.sequences;
  const std::int64_t page = position / job.page_size;
  const std::int64_t length = job.lengths.size == 0 ? position + 1 : at(job.lengths, token.sequence);
  if (page >= pages || position >= length) {
    return error(where, "token {} is at {}, sequence {} has {} pages of {} slots{}", token.t, position, token.sequence, pages,
                 job.page_size, position >= length ? " and ends before it" : "");
  }
  const std::int64_t block = at(job.blocks, token.sequence * pages + page);
  if (block < 0) return error(where, "token {} is at {}, but page {} of sequence {} has no block", token.t, position, page, token.sequence);
  if (__builtin_mul_overflow(block, job.page_size, &slot) || __builtin_add_overflow(slot, position % job.page_size, &slot)) {
    return error(where, "block {} of {} slots has slots beyond 2^63, wanted fewer", block, job.page_size);
  }
  return {};
}

std::int64_t position_of(const job::PositionSource& p, std::int64_t b, std::int64_t t) {
  if (p.data == nullptr) return static_cast<std::int64_t>(static_cast<std::uint64_t>(p.offset) + static_cast<std::uint64_t>(t));
  const std::int64_t i = b * p.batch_stride + t * p.token_stride;
  return p.type == PositionType::i32 ? static_cast<const std::int32_t*>(p.data)[i] : static_cast<const std::int64_t*>(p.data)[i];
}

Status fill_slots(const job::BuildJob& job) {
  const bool ragged = job.cu_seqlens.size != 0;
  return job::fill(name_of(job.kind), job.out, [&](PositionSink& sink) {
    for (std::int64_t b = 0; b < job.out.shape[1]; ++b) {
      std::int64_t sequence = ragged ? 0 : b;
      for (std::int64_t t = 0; t < job.out.shape[2]; ++t) {
        while (ragged && t >= at(job.cu_seqlens, sequence + 1)) ++sequence;
        const std::int64_t position = position_of(job.at, b, t);
        std::int64_t slot = -1;
        if (position >= 0) {
          if (Status s = find_slot(job, {position, sequence, t}, slot); !s) return s;
        }
        sink.put(b, t, slot);
      }
    }
    return Status();
  });
}

}  // namespace

Status run_build_positions(job::BuildJob& job, const Execution& /*execution*/) {
  if (job.kind == job::BuildJob::Kind::ragged) return fill_ragged(job);
  return job.kind == job::BuildJob::Kind::slots ? fill_slots(job) : fill_from_starts(job);
}

}  // namespace phasor::cpu
