# SPDX-License-Identifier: Apache-2.0
# Toolchain: the clang of zig, whose wrappers are in the folder ZIG_WRAPPERS (tools/python/wheels.sh), for the architecture ZIG_ARCH and an old glibc.
# Taken as a foreign machine even where it is this one: headers of this machine's C library must not be seen.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR $ENV{ZIG_ARCH})
set(CMAKE_C_COMPILER $ENV{ZIG_WRAPPERS}/cc)
set(CMAKE_CXX_COMPILER $ENV{ZIG_WRAPPERS}/c++)
set(CMAKE_AR $ENV{ZIG_WRAPPERS}/ar)
set(CMAKE_RANLIB $ENV{ZIG_WRAPPERS}/ranlib)
# Boost 1.74 derives from std::unary_function, which libc++ has only on demand.
set(CMAKE_CXX_FLAGS_INIT -D_LIBCPP_ENABLE_CXX17_REMOVED_UNARY_BINARY_FUNCTION)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL x86_64)  # else AVX-512 functions of a file for any processor do not compile by its clang 20; it turns nothing else on
  string(APPEND CMAKE_CXX_FLAGS_INIT " -mevex512")
endif()
