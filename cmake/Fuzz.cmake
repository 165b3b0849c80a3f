# With BV_FUZZ: one libFuzzer program for each fuzz target, fuzz_<name> from test/fuzz/<name>.cc, and
# fuzz_all for all of them. Without it, the same sources form test_fuzz (cmake/Tests.cmake).
if(NOT BV_FUZZ)
  return()
endif()

# LibTorch brings GCC's OpenMP, and clang would also link its own. Without the option,
# at::parallel_for computes in one thread, which is preferable for fuzzing anyway.
set_property(TARGET bv_torch PROPERTY INTERFACE_COMPILE_OPTIONS)
get_target_property(link_options bv_torch INTERFACE_LINK_OPTIONS)
list(REMOVE_ITEM link_options -fopenmp)
set_property(TARGET bv_torch PROPERTY INTERFACE_LINK_OPTIONS ${link_options})
# The two calls of omp_*() go to GCC's library. clang cannot use its omp.h.
execute_process(COMMAND gcc -print-file-name=libgomp.so OUTPUT_VARIABLE gcc_openmp OUTPUT_STRIP_TRAILING_WHITESPACE)
file(WRITE ${CMAKE_BINARY_DIR}/openmp/omp.h
     "#pragma once\nextern \"C\" {\nint omp_get_num_procs();\nvoid omp_set_num_threads(int);\n}\n")
target_include_directories(bv_torch SYSTEM INTERFACE ${CMAKE_BINARY_DIR}/openmp)
target_link_libraries(bv_torch INTERFACE ${gcc_openmp})

add_custom_target(fuzz_all)
file(GLOB fuzz_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/test/fuzz/*.cc)
list(FILTER fuzz_sources EXCLUDE REGEX "/(fuzz|corpus_test)\\.cc$")
foreach(source ${fuzz_sources})
  cmake_path(GET source STEM name)
  add_executable(fuzz_${name} EXCLUDE_FROM_ALL ${source} ${CMAKE_SOURCE_DIR}/test/fuzz/fuzz.cc)
  target_include_directories(fuzz_${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_definitions(fuzz_${name} PRIVATE BV_FUZZING)
  target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  bv_link_modules(fuzz_${name} input)
  add_dependencies(fuzz_all fuzz_${name})
endforeach()
