# SPDX-License-Identifier: Apache-2.0
# Toolchain: x86-64 by the distribution's cross compiler, run in qemu-user, which has AVX2 and no AVX-512.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CMAKE_CXX_COMPILER x86_64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-x86_64 -cpu max -L /usr/x86_64-linux-gnu)
