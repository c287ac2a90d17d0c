// SPDX-License-Identifier: Apache-2.0
// Layouts of engines' caches in C.
#include "phasor/c/cache.h"

#include <initializer_list>
#include <string>

#include "core/call.hpp"
#include "core/fields.hpp"
#include "core/tensor.hpp"
#include "phasor/cache.hpp"
#include "specs/cache.hpp"

namespace {

using namespace phasor;
using namespace phasor::c;

/// Which fields of the memory a layout has.
enum class Has { heads, slots, latent, latent_bytes };

/// Extents whose product, in elements, no view can leave: the layouts multiply without a check.
void check_extents(const char* where, std::initializer_list<std::int64_t> extents) {
  constexpr std::int64_t kMost = std::int64_t{1} << 56;
  std::int64_t product = 1;
  for (const std::int64_t extent : extents) {
    if (extent < 1) fail(std::string(where) + ": the memory has an extent of " + std::to_string(extent) + ", wanted 1 or more");
    if (__builtin_mul_overflow(product, extent, &product) || product > kMost) {
      fail(std::string(where) + ": the memory has more than 2^56 elements, wanted fewer");
    }
  }
}

phasor_cache_memory memory_of(const char* where, const phasor_cache_memory* memory, Has has) {
  phasor_cache_memory c = known(where, "the memory", need(where, "the memory", memory));
  need(where, "data", c.data);
  const Leftover unused(where, "this layout");
  if (has != Has::latent_bytes) unused("block_bytes", c.block_bytes);
  if (has == Has::slots && c.block == 0) c.block = 1;
  if (has == Has::slots && c.block != 1) fail(std::string(where) + ": block is " + std::to_string(c.block) + ", wanted 0 or 1");
  if (has == Has::latent || has == Has::latent_bytes) {
    unused("heads", c.heads);
    unused("head_dim", c.head_dim);
    unused("storage", c.storage);
    constexpr std::int64_t kLeastRow = 1024;  // more than the bytes of a token
    check_extents(where, {c.blocks, c.block, kLeastRow});
    if (c.block_bytes > 0) check_extents(where, {c.blocks, c.block_bytes});
  } else {
    check_extents(where, {c.blocks, c.block, c.heads, c.head_dim, 2});
  }
  choice_of<Storage>(where, "storage", c.storage, kStorages);
  return c;
}

Storage storage_of(const phasor_cache_memory& c) { return static_cast<Storage>(c.storage); }
CacheShape shape_of(const phasor_cache_memory& c) { return {c.blocks, c.block, c.heads, c.head_dim}; }

/// A view with the memory's device, to the caller's struct.
void give_view(const char* where, const char* name, CacheView view, Device device, phasor_cache_view* to) {
  view.device = device;
  give(where, name, c_cache_view_of(view), to);
}
/// A view and where it goes.
struct Target {
  const char* name;
  const CacheView* view;
  phasor_cache_view* to;
};
/// Both or none.
void give_views(const char* where, Device device, const Target& first, const Target& second) {
  check_given(where, second.name, second.to);
  for (const Target& one : {first, second}) give_view(where, one.name, *one.view, device, one.to);
}

using Layout = CacheView (*)(void* data, Storage storage, const CacheShape& shape);
phasor_status one_view(const char* where, Layout layout, const phasor_cache_memory* memory, phasor_cache_view* view, phasor_error* error) {
  return call(error, [&] {
    const phasor_cache_memory c = memory_of(where, memory, Has::heads);
    give_view(where, "the view", layout(c.data, storage_of(c), shape_of(c)), device_of(where, "the memory", c.device), view);
  });
}

}  // namespace

extern "C" {

int64_t phasor_storage_bytes(phasor_storage storage) {
  return storage < 0 || storage >= kStorages ? 0 : bytes_of(static_cast<Storage>(storage));
}
const char* phasor_storage_name(phasor_storage storage) {
  return storage < 0 || storage >= kStorages ? "unknown" : name_of(static_cast<Storage>(storage));
}

phasor_status phasor_tensor_cache(const phasor_tensor* tensor, phasor_cache_view* view, phasor_error* error) {
  constexpr const char* kWhere = "tensor_cache";
  return call(error, [&] {
    const TensorView of = tensor_of(kWhere, "the tensor", need(kWhere, "the tensor", tensor));
    if (of.dtype == DType::f64) fail("tensor_cache: the tensor is f64, wanted f32, f16 or bf16");
    give_view(kWhere, "the view", tensor_cache(of), of.device, view);
  });
}

phasor_status phasor_contiguous_cache(const phasor_cache_memory* memory, phasor_cache_view* view, phasor_error* error) {
  return one_view("contiguous_cache", contiguous_cache, memory, view, error);
}
phasor_status phasor_vllm_key_cache(const phasor_cache_memory* memory, phasor_cache_view* view, phasor_error* error) {
  constexpr const char* kWhere = "vllm_key_cache";
  return call(error, [&] {
    const phasor_cache_memory c = memory_of(kWhere, memory, Has::heads);
    const std::int64_t together = 16 / bytes_of(storage_of(c));
    if (c.head_dim % together != 0) {
      fail("vllm_key_cache: head_dim is " + std::to_string(c.head_dim) + ", wanted a multiple of " + std::to_string(together) +
           ", 16 bytes");
    }
    give_view(kWhere, "the view", vllm_key_cache(c.data, storage_of(c), shape_of(c)), device_of(kWhere, "the memory", c.device), view);
  });
}
phasor_status phasor_vllm_value_cache(const phasor_cache_memory* memory, phasor_cache_view* view, phasor_error* error) {
  return one_view("vllm_value_cache", vllm_value_cache, memory, view, error);
}

phasor_status phasor_vllm_flash_cache(const phasor_cache_memory* memory, phasor_cache_view* k, phasor_cache_view* v, phasor_error* error) {
  constexpr const char* kWhere = "vllm_flash_cache";
  return call(error, [&] {
    const phasor_cache_memory c = memory_of(kWhere, memory, Has::heads);
    const CachePair pair = vllm_flash_cache(c.data, storage_of(c), shape_of(c));
    give_views(kWhere, device_of(kWhere, "the memory", c.device), {"k", &pair.k, k}, {"v", &pair.v, v});
  });
}

phasor_status phasor_flashinfer_cache(const phasor_cache_memory* memory, phasor_head_order order, phasor_cache_view* k,
                                      phasor_cache_view* v, phasor_error* error) {
  constexpr const char* kWhere = "flashinfer_cache";
  return call(error, [&] {
    const phasor_cache_memory c = memory_of(kWhere, memory, Has::heads);
    const CachePair pair = flashinfer_cache(c.data, storage_of(c), shape_of(c), choice_of<HeadOrder>(kWhere, "order", order, 2));
    give_views(kWhere, device_of(kWhere, "the memory", c.device), {"k", &pair.k, k}, {"v", &pair.v, v});
  });
}

phasor_status phasor_sglang_cache(const phasor_cache_memory* memory, phasor_cache_view* view, phasor_error* error) {
  constexpr const char* kWhere = "sglang_cache";
  return call(error, [&] {
    const phasor_cache_memory c = memory_of(kWhere, memory, Has::slots);
    give_view(kWhere, "the view", sglang_cache(c.data, storage_of(c), c.blocks, c.heads, c.head_dim),
              device_of(kWhere, "the memory", c.device), view);
  });
}

phasor_status phasor_mla_656_cache(const phasor_cache_memory* memory, phasor_cache_view* latent, phasor_cache_view* rotated,
                                   phasor_error* error) {
  constexpr const char* kWhere = "mla_656_cache";
  return call(error, [&] {
    const phasor_cache_memory c = memory_of(kWhere, memory, Has::latent);
    const CacheParts parts = mla_656_cache(c.data, c.blocks, c.block);
    give_views(kWhere, device_of(kWhere, "the memory", c.device), {"latent", &parts.parts[0], latent},
               {"rotated", &parts.parts[1], rotated});
  });
}

phasor_status phasor_mla_584_cache(const phasor_cache_memory* memory, phasor_cache_view* latent, phasor_cache_view* rotated,
                                   phasor_error* error) {
  constexpr const char* kWhere = "mla_584_cache";
  return call(error, [&] {
    const phasor_cache_memory c = memory_of(kWhere, memory, Has::latent_bytes);
    const CacheParts parts = mla_584_cache(c.data, c.blocks, c.block, c.block_bytes);
    if (parts.parts[0].data == nullptr) {
      fail("mla_584_cache: block_bytes is " + std::to_string(c.block_bytes) + ", wanted 0 or an even number that holds the block's tokens");
    }
    give_views(kWhere, device_of(kWhere, "the memory", c.device), {"latent", &parts.parts[0], latent},
               {"rotated", &parts.parts[1], rotated});
  });
}

}  // extern "C"
