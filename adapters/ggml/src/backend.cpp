// SPDX-License-Identifier: Apache-2.0
// The backend as ggml sees it: one device beside the CPU, of the same memory, that takes rotations and nothing else.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <thread>

#include "ggml-backend-impl.h"
#include "rotate.hpp"

static_assert(GGML_BACKEND_API_VERSION == 2, "ggml's backend interface has another version than the one this was written for");

namespace phasor_ggml {
namespace {

constexpr const char* kName = "Phasor";

std::atomic<std::uint64_t> rotations{0};

/// By ggml's log, which belongs to the program.
void report(const std::string& message) {
  ggml_log_callback log = nullptr;
  void* user_data = nullptr;
  ggml_log_get(&log, &user_data);
  if (log != nullptr) log(GGML_LOG_LEVEL_ERROR, ("phasor: " + message + "\n").c_str(), user_data);
}

/// The numerics that PHASOR_GGML_NUMERICS names; false where it names none.
bool read_numerics(phasor_numerics& numerics) {
  const char* text = std::getenv("PHASOR_GGML_NUMERICS");
  const std::string name = text == nullptr ? "exact" : text;
  numerics = name == "ggml" ? PHASOR_NUMERICS_GGML : PHASOR_NUMERICS_EXACT;
  if (name == "ggml" || name == "exact") return true;
  report("PHASOR_GGML_NUMERICS is " + name + ", wanted exact or ggml");
  return false;
}

constexpr char kBuiltFor[] = "built for ggml " PHASOR_GGML_VERSION;

/// Structs of the interface change while its version number stays: only the ggml whose headers were compiled in fits.
bool is_known_version() {
  const char* built = kBuiltFor + sizeof "built for ggml " - 1;
  const char* is = ggml_version();
  const std::size_t length = sizeof PHASOR_GGML_VERSION - 1;
  if (std::strncmp(is, built, length) == 0 && (is[length] == '\0' || is[length] == '-')) return true;
  report(std::string(kBuiltFor) + ", loaded by ggml " + is + "; wanted the same version");
  return false;
}

Plans& plans_of(ggml_backend_dev_t device) { return *static_cast<Plans*>(device->context); }

bool is_view(ggml_op op) {
  return op == GGML_OP_NONE || op == GGML_OP_RESHAPE || op == GGML_OP_VIEW || op == GGML_OP_PERMUTE || op == GGML_OP_TRANSPOSE;
}

bool is_rotation(ggml_op op) { return op == GGML_OP_ROPE || op == GGML_OP_ROPE_BACK; }

// ---- A backend: a stream of graphs ----

struct Stream {
  int threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
};

const char* backend_name(ggml_backend_t /*backend*/) { return kName; }

void free_backend(ggml_backend_t backend) {
  delete static_cast<Stream*>(backend->context);
  delete backend;
}

void set_threads(ggml_backend_t backend, int threads) { static_cast<Stream*>(backend->context)->threads = std::max(1, threads); }

ggml_status compute_node(ggml_backend_t backend, const ggml_tensor& node) {
  phasor_error error = {};
  phasor_status status = PHASOR_UNSUPPORTED;
  if (is_rotation(node.op)) {
    status = rotate(node, plans_of(backend->device), static_cast<Stream*>(backend->context)->threads, error);
  } else {
    std::strncpy(error.message, "no rotation, and this backend has nothing else", sizeof error.message - 1);
  }
  if (status == PHASOR_OK) {
    rotations.fetch_add(1, std::memory_order_relaxed);
    return GGML_STATUS_SUCCESS;
  }
  report(std::string(ggml_op_desc(&node)) + " " + node.name + ": " + error.message);
  return status == PHASOR_OUT_OF_MEMORY ? GGML_STATUS_ALLOC_FAILED : GGML_STATUS_FAILED;
}

ggml_status compute_graph(ggml_backend_t backend, ggml_cgraph* graph) try {
  for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
    const ggml_tensor& node = *ggml_graph_node(graph, i);
    if ((node.flags & GGML_TENSOR_FLAG_COMPUTE) == 0 || is_view(node.op)) continue;
    if (const ggml_status status = compute_node(backend, node); status != GGML_STATUS_SUCCESS) return status;
  }
  return GGML_STATUS_SUCCESS;
} catch (const std::bad_alloc&) {
  return GGML_STATUS_ALLOC_FAILED;
}

ggml_guid_t guid() {
  static ggml_guid bytes = {0x70, 0x68, 0x61, 0x73, 0x6f, 0x72, 0x2d, 0x72, 0x6f, 0x74, 0x61, 0x74, 0x69, 0x6f, 0x6e, 0x73};
  return &bytes;
}

// ---- The device ----

const char* device_name(ggml_backend_dev_t /*device*/) { return kName; }
const char* device_description(ggml_backend_dev_t device) {
  return plans_of(device).numerics() == PHASOR_NUMERICS_GGML ? "rotations by Phasor, ggml's rounding" : "rotations by Phasor, exact angles";
}
void device_memory(ggml_backend_dev_t /*device*/, std::size_t* free, std::size_t* total) { *free = *total = 0; }
/// Used beside the CPU, in its memory: what BLAS is.
enum ggml_backend_dev_type device_type(ggml_backend_dev_t /*device*/) { return GGML_BACKEND_DEVICE_TYPE_ACCEL; }

/// What the CPU's memory can. Newer ones of ggml ask about mapped files, too.
template <class Capabilities>
Capabilities capabilities() {
  Capabilities made = {};
  made.buffer_from_host_ptr = true;
  if constexpr (requires { made.mmap_support; }) made.mmap_support = true;
  return made;
}

void device_properties(ggml_backend_dev_t device, ggml_backend_dev_props* properties) {
  properties->name = device_name(device);
  properties->description = device_description(device);
  properties->type = device_type(device);
  device_memory(device, &properties->memory_free, &properties->memory_total);
  properties->caps = capabilities<ggml_backend_dev_caps>();
}

ggml_backend_t init_backend(ggml_backend_dev_t device, const char* /*params*/) try {
  auto stream = std::make_unique<Stream>();
  auto backend = std::make_unique<ggml_backend>();
  backend->guid = guid();
  backend->iface.get_name = backend_name;
  backend->iface.free = free_backend;
  backend->iface.graph_compute = compute_graph;
  backend->device = device;
  backend->context = stream.release();
  return backend.release();
} catch (const std::bad_alloc&) {
  return nullptr;
}

ggml_backend_buffer_type_t buffer_type(ggml_backend_dev_t /*device*/) { return ggml_backend_cpu_buffer_type(); }
ggml_backend_buffer_t buffer_from(ggml_backend_dev_t /*device*/, void* memory, std::size_t size, std::size_t /*most*/) {
  return ggml_backend_cpu_buffer_from_ptr(memory, size);
}
bool supports_buffer(ggml_backend_dev_t /*device*/, ggml_backend_buffer_type_t type) { return ggml_backend_buft_is_host(type); }

/// The plan is made here: what it refuses goes to another backend. Factors are not known yet, and stand as 1.
bool supports_op(ggml_backend_dev_t device, const ggml_tensor* node) try {
  if (is_view(node->op)) return true;
  if (!is_rotation(node->op)) return false;
  const std::optional<Rope> rope = read_rope(*node);
  return rope && plans_of(device).get(*rope, nullptr)->rotary != nullptr;
} catch (const std::bad_alloc&) {
  return false;
}

ggml_backend_device make_device(ggml_backend_reg_t registry, Plans& plans) {
  ggml_backend_device device = {};
  device.iface.get_name = device_name;
  device.iface.get_description = device_description;
  device.iface.get_memory = device_memory;
  device.iface.get_type = device_type;
  device.iface.get_props = device_properties;
  device.iface.init_backend = init_backend;
  device.iface.get_buffer_type = buffer_type;
  device.iface.buffer_from_host_ptr = buffer_from;
  device.iface.supports_op = supports_op;
  device.iface.supports_buft = supports_buffer;
  device.reg = registry;
  device.context = &plans;
  return device;
}

// ---- What ggml is given ----

const char* registry_name(ggml_backend_reg_t /*registry*/) { return kName; }
std::size_t device_count(ggml_backend_reg_t /*registry*/) { return 1; }
ggml_backend_dev_t device_at(ggml_backend_reg_t registry, std::size_t /*index*/) {
  return static_cast<ggml_backend_dev_t>(registry->context);
}

std::uint64_t count_rotations() { return rotations.load(std::memory_order_relaxed); }

void* function_of(ggml_backend_reg_t /*registry*/, const char* name) {
  if (std::strcmp(name, "ggml_backend_set_n_threads") == 0) return reinterpret_cast<void*>(set_threads);
  if (std::strcmp(name, "phasor_ggml_rotations") == 0) return reinterpret_cast<void*>(count_rotations);
  return nullptr;
}

ggml_backend_reg make_registry() {
  ggml_backend_reg registry = {};
  registry.api_version = GGML_BACKEND_API_VERSION;
  registry.iface.get_name = registry_name;
  registry.iface.get_device_count = device_count;
  registry.iface.get_device = device_at;
  registry.iface.get_proc_address = function_of;
  return registry;
}

ggml_backend_reg_t registered(phasor_numerics numerics) {
  static ggml_backend_reg registry = make_registry();
  static Plans plans(numerics);
  static ggml_backend_device device = make_device(&registry, plans);
  registry.context = &device;
  return &registry;
}

}  // namespace
}  // namespace phasor_ggml

/// What ggml calls when it has loaded the library; NULL, with a line in its log, refuses to be used.
extern "C" __attribute__((visibility("default"))) ggml_backend_reg_t ggml_backend_init() try {
  phasor_numerics numerics = PHASOR_NUMERICS_EXACT;
  const bool fits = phasor_ggml::is_known_version() && phasor_ggml::read_numerics(numerics);
  return fits ? phasor_ggml::registered(numerics) : nullptr;
} catch (const std::bad_alloc&) {
  return nullptr;
}
