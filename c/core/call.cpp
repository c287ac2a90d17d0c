// SPDX-License-Identifier: Apache-2.0
// Errors, sizes of structs, and results that go to the caller's buffers.
#include "core/call.hpp"

namespace phasor::c {
namespace {

phasor_status status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::none:
      return PHASOR_OK;
    case ErrorKind::invalid:
      return PHASOR_INVALID;
    case ErrorKind::unsupported:
      return PHASOR_UNSUPPORTED;
    case ErrorKind::out_of_memory:
      return PHASOR_OUT_OF_MEMORY;
    case ErrorKind::not_found:
      return PHASOR_NOT_FOUND;
  }
  return PHASOR_INVALID;
}

/// As much of a text as fits, without half of a UTF-8 character at its end.
std::size_t fitting(std::string_view text, std::size_t room) {
  if (text.size() <= room) return text.size();
  std::size_t end = room;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) --end;
  return end;
}

/// Whether a result of so many elements fits; `count` is told in any case.
template <class Buffer>
void check_room(const char* where, const Buffer& buffer, std::size_t needed, const char* what) {
  if (buffer.capacity >= needed && (buffer.data != nullptr || needed == 0)) return;
  fail(std::string(where) + ": the buffer has room for " + std::to_string(buffer.data == nullptr ? 0 : buffer.capacity) + " " + what +
           ", wanted " + std::to_string(needed),
       PHASOR_TOO_SMALL);
}

}  // namespace

void fail(const Status& status) { throw Failure{status_of(status.kind()), status.message()}; }
void fail(std::string message, phasor_status status) { throw Failure{status, std::move(message)}; }

phasor_status failed(phasor_error* error, phasor_status status, std::string_view message) {
  if (error == nullptr) return status;
  const std::size_t length = fitting(message, sizeof(error->message) - 1);
  error->status = status;
  std::memcpy(error->message, message.data(), length);
  error->message[length] = '\0';
  return status;
}

void check_size(const char* where, const char* name, std::size_t size, std::size_t known) {
  if (size >= kLeastSize && size <= kMostSize && size % sizeof(void*) == 0) return;  // no version ends within a pointer
  fail(std::string(where) + ": the size of " + name + " is " + std::to_string(size) + ", wanted its sizeof, " + std::to_string(known) +
       " in this version");
}

void check_unknown(const char* where, const char* name, const void* given, std::size_t size, std::size_t known) {
  const auto* bytes = static_cast<const unsigned char*>(given);
  for (std::size_t i = known; i < size; ++i) {
    if (bytes[i] == 0) continue;
    fail(std::string(where) + ": " + name + " has something in byte " + std::to_string(i) + ", and this library knows " +
             std::to_string(known) + " bytes of it, wanted 0 or a newer library",
         PHASOR_UNSUPPORTED);
  }
}

void give(const char* where, std::string_view text, phasor_text* to) {
  need(where, "the text", to)->length = text.size();
  check_room(where, *to, text.size() + 1, "bytes");
  std::memcpy(to->data, text.data(), text.size());
  to->data[text.size()] = '\0';
}

void give(const char* where, const std::byte* data, std::size_t count, phasor_bytes* to) {
  need(where, "the bytes", to)->length = count;
  check_room(where, *to, count, "bytes");
  if (count > 0) std::memcpy(to->data, data, count);
}

void need_room(const char* where, std::size_t count, phasor_doubles* to) {
  need(where, "the list", to)->count = count;
  check_room(where, *to, count, "numbers");
}

void give(const char* where, const double* data, std::size_t count, phasor_doubles* to) {
  need_room(where, count, to);
  if (count > 0) std::memcpy(to->data, data, count * sizeof(double));
}

}  // namespace phasor::c
