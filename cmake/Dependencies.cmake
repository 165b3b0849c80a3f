# Imported targets for LibTorch (the CPU half of the PyPI wheel, see docs/building.md) and the
# libraries from Debian. find_package(Torch) of that wheel insists on a CUDA toolkit, so the
# targets are written out here.
set(BV_CACHE_HOME $ENV{XDG_CACHE_HOME})
if(NOT BV_CACHE_HOME)
  set(BV_CACHE_HOME $ENV{HOME}/.cache)
endif()
set(BVTRAIN_LIBTORCH ${BV_CACHE_HOME}/bvtrain/libtorch-2.11.0 CACHE PATH
    "folder with the unpacked wheel: torch/ and nvidia/")
if(NOT EXISTS ${BVTRAIN_LIBTORCH}/torch/lib/libtorch_cpu.so)
  message(FATAL_ERROR "no LibTorch in ${BVTRAIN_LIBTORCH}: run scripts/bvtrain.sh once, it fetches it")
endif()

# The wheel ships fmt 12 headers, Debian's spdlog is built on fmt 9: a folder with one link puts
# Debian's first.
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/fmt-first)
file(CREATE_LINK /usr/include/fmt ${CMAKE_BINARY_DIR}/fmt-first/fmt SYMBOLIC)
add_library(bv_fmt_first INTERFACE)
target_include_directories(bv_fmt_first SYSTEM BEFORE INTERFACE ${CMAKE_BINARY_DIR}/fmt-first)
add_library(bv::fmt_first ALIAS bv_fmt_first)

add_library(bv_torch INTERFACE)
target_include_directories(bv_torch SYSTEM INTERFACE
  ${BVTRAIN_LIBTORCH}/torch/include ${BVTRAIN_LIBTORCH}/torch/include/torch/csrc/api/include)
target_link_libraries(bv_torch INTERFACE bv::fmt_first
  ${BVTRAIN_LIBTORCH}/torch/lib/libtorch_cpu.so ${BVTRAIN_LIBTORCH}/torch/lib/libc10.so)
target_link_options(bv_torch INTERFACE
  -Wl,-rpath,${BVTRAIN_LIBTORCH}/torch/lib -Wl,-rpath,${BVTRAIN_LIBTORCH}/nvidia/cu13/lib
  -Wl,-rpath-link,${BVTRAIN_LIBTORCH}/nvidia/cu13/lib)
# at::parallel_for is a template that runs in parallel only where OpenMP is on.
target_compile_options(bv_torch INTERFACE -fopenmp)
target_link_options(bv_torch INTERFACE -fopenmp)
add_library(bv::torch ALIAS bv_torch)

find_package(yaml-cpp REQUIRED)
find_package(Threads REQUIRED)

add_library(bv_spdlog INTERFACE)
target_compile_definitions(bv_spdlog INTERFACE SPDLOG_COMPILED_LIB SPDLOG_FMT_EXTERNAL SPDLOG_SHARED_LIB)
target_link_libraries(bv_spdlog INTERFACE bv::fmt_first spdlog)
add_library(bv::spdlog ALIAS bv_spdlog)

function(bv_plain_library alias)
  add_library(bv_lib_${alias} INTERFACE)
  target_link_libraries(bv_lib_${alias} INTERFACE ${ARGN})
  add_library(bv::${alias} ALIAS bv_lib_${alias})
endfunction()
bv_plain_library(fmt fmt)
bv_plain_library(spng spng)
bv_plain_library(jpeg jpeg)
bv_plain_library(deflate deflate)
bv_plain_library(xxhash xxhash)
bv_plain_library(json)   # header only
bv_plain_library(cli11)  # header only
