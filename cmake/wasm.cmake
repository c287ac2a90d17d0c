# SPDX-License-Identifier: Apache-2.0
# Toolchain: WebAssembly with SIMD by the distribution's Emscripten, run in Node.
include(/usr/share/emscripten/cmake/Modules/Platform/Emscripten.cmake)
# The plan uses exceptions inside; in Emscripten they must be asked for.
set(CMAKE_CXX_FLAGS_INIT "-msimd128 -fexceptions")
# NODERAWFS: tests read golden files from the real file system. No asynchronous compilation: this Emscripten would take the fetch
# of newer Node versions for a browser's and fail on a file name.
set(CMAKE_EXE_LINKER_FLAGS_INIT "-fexceptions -sALLOW_MEMORY_GROWTH=1 -sEXIT_RUNTIME=1 -sNODERAWFS=1 -sWASM_ASYNC_COMPILATION=0")
