// SPDX-License-Identifier: Apache-2.0
// The public functions of learned tables: lookup, gradient, longer and resized tables, and reading one.
#include "phasor/learned.hpp"

#include <cstring>

#include "job/check.hpp"
#include "job/element.hpp"
#include "job/learned.hpp"
#include "math/learned.hpp"
#include "ops/run.hpp"
#include "spec/files/mapped_file.hpp"
#include "spec/files/safetensors.hpp"
#include "spec/format.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor {
namespace {

math::Neighbours neighbours(const Resampling& resampling, const math::ResizedAxis& axis, std::int64_t i) {
  return resampling.kernel == Resampling::Kernel::linear ? math::linear_neighbours(axis, i) : math::cubic_neighbours(axis, i);
}

/// One place of the new grid, every channel: rows first, then columns, as PyTorch sums.
void resample_place(const TensorView& out, const ConstTensorView& table, const math::Neighbours& row, const math::Neighbours& column,
                    std::int64_t index) {
  for (std::int64_t c = 0; c < out.shape[3]; ++c) {
    double sum = 0;
    for (int i = 0; i < 4; ++i) {
      double line = 0;
      for (int j = 0; j < 4; ++j) {
        if (column.weight[j] != 0) line += column.weight[j] * job::value_at(table, row.index[i], column.index[j], c);
      }
      if (row.weight[i] != 0) sum += row.weight[i] * line;
    }
    job::store_element(out.data, out.dtype, index + c, sum);
  }
}

Result<LearnedTable> table_of(const std::string& path, std::string_view name) {
  const Result<spec::MappedFile> file = spec::MappedFile::open(path);
  if (!file.ok()) return file.status();
  const spec::SafetensorsFile header = spec::read_safetensors(file->bytes());
  const auto found = header.tensors.find(name);
  if (found == header.tensors.end()) {
    return Status::invalid(spec::format("read_learned_table: there is no tensor {} among the {} of the file", name, header.tensors.size()));
  }
  const spec::SafetensorsTensor& tensor = found->second;
  LearnedTable table;
  const std::string_view dtype = tensor.dtype;
  if (dtype != "F32" && dtype != "F64" && dtype != "F16" && dtype != "BF16") {
    return Status::invalid(spec::format("read_learned_table: {} is {}, wanted F32, F64, F16 or BF16", name, dtype));
  }
  table.dtype = dtype == "F32" ? DType::f32 : dtype == "F64" ? DType::f64 : dtype == "F16" ? DType::f16 : DType::bf16;
  const std::size_t axes = tensor.shape.size();
  bool fits = axes >= 2;
  for (std::size_t i = 0; i + 2 < axes; ++i) fits = fits && tensor.shape[i] == 1;
  if (!fits) {
    std::string shape;
    for (const auto length : tensor.shape) shape += (shape.empty() ? "" : ", ") + std::to_string(length);
    return Status::invalid(spec::format("read_learned_table: {} has shape ({}), wanted (rows, channels)", name, shape));
  }
  table.rows = static_cast<std::int64_t>(tensor.shape[axes - 2]);
  table.width = static_cast<std::int64_t>(tensor.shape[axes - 1]);
  const auto bytes = file->bytes().subspan(tensor.begin, tensor.end - tensor.begin);
  table.bytes.assign(bytes.begin(), bytes.end());
  return table;
}

}  // namespace

Status lookup_add(const InOut& x, const ConstTensorView& table, const Positions& positions, const LookupOptions& options) {
  return lookup_add(x, std::span<const ConstTensorView>(&table, 1), positions, options);
}

Status lookup_add(const InOut& x, std::span<const ConstTensorView> tables, const Positions& positions, const LookupOptions& options) {
  return ops::run(job::make_lookup_job(x, tables, positions, options.offset), &backend::Backend::lookup, options.execution);
}

Status scatter_gradient(const TensorView& table_gradient, const ConstTensorView& gradient, const Positions& positions,
                        const ScatterOptions& options) {
  return ops::run(job::make_scatter_job(table_gradient, gradient, positions, options), &backend::Backend::scatter, options.execution);
}

Status fill_hierarchical(const TensorView& out, const ConstTensorView& table, double alpha) {
  const char* where = "fill_hierarchical";
  if (Status s = job::check_learned_table(where, "table", table); !s) return s;
  if (Status s = job::check_learned_table(where, "out", out); !s) return s;
  if (Status s = job::check_written_table(where, {"out", out}, {"the table", table}); !s) return s;
  if (Status s = job::check_on_cpu(where, "table", table.device); !s) return s;
  if (out.dtype != table.dtype)
    return job::error(where, "out is {}, the table is {}, wanted one dtype", name_of(out.dtype), name_of(table.dtype));
  if (!(alpha > 0 && alpha < 1) || alpha == 0.5) return job::error(where, "alpha is {}, wanted between 0 and 1, not 0.5", alpha);
  const std::int64_t n = table.shape[1];
  const std::int64_t rows = out.shape[1];
  if (rows > 0 && (n == 0 || (rows - 1) / n >= n)) return job::error(where, "out has {} rows, wanted at most {} x {}", rows, n, n);
  const auto size = static_cast<std::size_t>(bytes_of(table.dtype));
  for (std::int64_t i = 0; i < rows * out.shape[3]; ++i) {
    const std::int64_t p = i / out.shape[3];
    const std::int64_t c = i % out.shape[3];
    const std::int64_t at = job::index_of(out, 0, p, c);
    if (p < n) {  // bit for bit, without arithmetic
      std::memcpy(static_cast<std::byte*>(out.data) + static_cast<std::size_t>(at) * size,
                  static_cast<const std::byte*>(table.data) + static_cast<std::size_t>(job::index_of(table, 0, p, c)) * size, size);
      continue;
    }
    const double value =
        math::hierarchical(job::value_at(table, 0, p / n, c), job::value_at(table, 0, p % n, c), job::value_at(table, 0, 0, c), alpha);
    job::store_element(out.data, out.dtype, at, value);
  }
  return {};
}

Status resample_table(const TensorView& out, const ConstTensorView& table, const Resampling& resampling) {
  const char* where = "resample_table";
  if (Status s = job::check_view(where, "table", table); !s) return s;
  if (table.shape[2] != 1) return job::error(where, "table has {} heads, wanted 1", table.shape[2]);
  if (Status s = job::check_written_table(where, {"out", out}, {"the table", table}); !s) return s;
  if (Status s = job::check_on_cpu(where, "table", table.device); !s) return s;
  if (resampling.kernel > Resampling::Kernel::cubic)
    return job::error(where, "kernel is {}, wanted linear or cubic", static_cast<int>(resampling.kernel));
  if (job::is_empty(out)) return {};
  if (job::is_empty(table)) return job::error(where, "table is empty, wanted at least one row and column");
  const math::ResizedAxis rows = {table.shape[0], out.shape[0], resampling.align_corners};
  const math::ResizedAxis columns = {table.shape[1], out.shape[1], resampling.align_corners};
  for (std::int64_t r = 0; r < out.shape[0]; ++r) {
    const math::Neighbours row = neighbours(resampling, rows, r);
    for (std::int64_t c = 0; c < out.shape[1]; ++c) {
      resample_place(out, table, row, neighbours(resampling, columns, c), job::index_of(out, r, c, 0));
    }
  }
  return {};
}

Result<LearnedTable> read_learned_table(const std::string& path, std::string_view tensor) {
  return spec::without_exceptions([&]() -> Result<LearnedTable> {
    try {
      return table_of(path, tensor);
    } catch (const spec::ReadError& error) {
      return error.status;
    }
  });
}

}  // namespace phasor
