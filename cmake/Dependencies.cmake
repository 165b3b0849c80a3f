# Defines targets for LibTorch (the CPU part of the PyPI wheel, see docs/building.md) and for the
# libraries from Debian. The wheel's find_package(Torch) requires a CUDA toolkit, so it is not used.
set(BV_CACHE_HOME $ENV{XDG_CACHE_HOME})
if(NOT BV_CACHE_HOME)
  set(BV_CACHE_HOME $ENV{HOME}/.cache)
endif()
set(BVTRAIN_LIBTORCH ${BV_CACHE_HOME}/bvtrain/libtorch-2.11.0/torch CACHE PATH
    "LibTorch 2.11: the folder that holds lib/ and include/")
if(NOT EXISTS ${BVTRAIN_LIBTORCH}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "no LibTorch in ${BVTRAIN_LIBTORCH}: run scripts/bvtrain.sh once, it fetches it")
endif()
# Messages name files relative to the sources or to LibTorch, so that a binary does not contain the
# paths of the machine that built it.
foreach(folder ${CMAKE_SOURCE_DIR} ${BVTRAIN_LIBTORCH}/include)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fmacro-prefix-map=${folder}/=>
                      $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-fmacro-prefix-map=${folder}/=>)
endforeach()
# CUDA's libraries are next to torch/, where the PyPI wheels install them.
set(BV_CUDA_LIBRARIES ${BVTRAIN_LIBTORCH}/../nvidia/cu13/lib)

# The wheel contains headers of fmt 12, but Debian's spdlog is built on fmt 9. A folder with one link
# puts Debian's headers first on the include path.
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/fmt-first)
find_path(BV_FMT fmt/core.h REQUIRED)
file(CREATE_LINK ${BV_FMT}/fmt ${CMAKE_BINARY_DIR}/fmt-first/fmt SYMBOLIC)
add_library(bv_fmt_first INTERFACE)
target_include_directories(bv_fmt_first SYSTEM BEFORE INTERFACE ${CMAKE_BINARY_DIR}/fmt-first)
add_library(bv::fmt_first ALIAS bv_fmt_first)

add_library(bv_torch INTERFACE)
target_include_directories(bv_torch SYSTEM INTERFACE
  ${BVTRAIN_LIBTORCH}/include ${BVTRAIN_LIBTORCH}/include/torch/csrc/api/include)
target_link_libraries(bv_torch INTERFACE bv::fmt_first
  ${BVTRAIN_LIBTORCH}/lib/libtorch_cpu.so ${BVTRAIN_LIBTORCH}/lib/libc10.so)
target_link_options(bv_torch INTERFACE
  -Wl,-rpath,${BVTRAIN_LIBTORCH}/lib -Wl,-rpath,${BV_CUDA_LIBRARIES}
  -Wl,-rpath-link,${BV_CUDA_LIBRARIES})
# CMake's own run path of an installable build ends with a colon, which means the current folder. A
# bvtrain that is started there would load any libraries in it.
set(CMAKE_SKIP_RPATH ON)
# at::parallel_for is a template. It runs in parallel only in sources that are compiled with OpenMP.
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
bv_plain_library(zstd zstd)
bv_plain_library(xxhash xxhash)
# libwebp is linked statically if there is an archive: the executable then contains only its decoder.
find_library(BV_WEBP NAMES libwebp.a webp REQUIRED)
bv_plain_library(webp ${BV_WEBP})
bv_plain_library(json)   # header only
bv_plain_library(cli11)  # header only
