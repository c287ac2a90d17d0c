// SPDX-License-Identifier: Apache-2.0
// What a module of WebAssembly exports; API.md says how it is used.
#pragma once

#include <cstdint>

extern "C" {

void* phasor_web_allocate(std::uint32_t bytes);
void phasor_web_release(void* memory);
/// 0: a result; 1: an error.
std::int32_t phasor_web_call(const char* request, std::uint32_t request_bytes, const std::uint8_t* attached, std::uint32_t attached_bytes);
/// Of the last call: UTF-8 JSON, and its blocks of numbers.
const char* phasor_web_response();
std::uint32_t phasor_web_response_bytes();
std::uint32_t phasor_web_blocks();
const void* phasor_web_block(std::uint32_t i);
std::uint32_t phasor_web_block_bytes(std::uint32_t i);

}  // extern "C"
