// SPDX-License-Identifier: Apache-2.0
// Every check of a call that fills factors of queries.
#include "job/positions/temperature.hpp"

#include "job/check.hpp"
#include "job/overlap.hpp"

namespace phasor::job {

Status check_temperature(const char* where, const QueryTemperature& t) {
  const bool log_n = t.kind == QueryTemperature::Kind::log_n;
  if (!log_n && t.kind != QueryTemperature::Kind::floored_log) return error(where, "kind is unknown ({})", static_cast<int>(t.kind));
  if (t.length < (log_n ? 2 : 1)) return error(where, "length is {}, wanted at least {}", t.length, log_n ? 2 : 1);
  if (!log_n && !std::isfinite(t.scale)) return error(where, "scale is {}, wanted a number", t.scale);
  return {};
}

Result<TemperatureJob> make_temperature_job(const TensorView& out, const QueryTemperature& temperature, const Positions& positions) {
  constexpr const char* where = kFillTemperature;
  if (Status s = check_temperature(where, temperature); !s) return s;
  if (Status s = check_in_out(where, "out", out); !s) return s;
  if (out.dtype != DType::f32) return error(where, "out is {}, wanted f32", name_of(out.dtype));
  if (out.shape[2] != 1 || out.shape[3] != 1) {
    return error(where, "out has {} heads of {} channels, wanted one factor per token: (B, T, 1, 1)", out.shape[2], out.shape[3]);
  }
  if (Status s = check_positions(where, positions, {out.shape[0], out.shape[1], 1, out.device}); !s) return s;
  if (positions.data != nullptr && overlap(out, view_of(positions)) != Overlap::none) {
    return error(where, "positions lie in out, wanted them apart");
  }
  return TemperatureJob{out.device, out, temperature, source_of(positions, 1)};
}

}  // namespace phasor::job
