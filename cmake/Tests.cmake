# One Catch2 program per module, test_<module>, which links that module and those before it. Tests
# of the whole binary are in test/e2e and get its path in $BVTRAIN. Code shared by the tests of several
# modules is in test/support.
add_library(bv_catch OBJECT ${CMAKE_SOURCE_DIR}/test/main.cc)
target_link_libraries(bv_catch PUBLIC bv::fmt_first)
target_compile_options(bv_catch PRIVATE ${BV_TEST_OPTIMISATION})

# The sources of test/support are linked into every test program, because they need no library. Those
# that watch operators need LibTorch: only the programs that use them compile them.
set(BV_WATCHERS ${CMAKE_SOURCE_DIR}/test/support/host_reads.cc
    ${CMAKE_SOURCE_DIR}/test/support/operator_trace.cc)
file(GLOB support_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/test/support/*.cc)
list(REMOVE_ITEM support_sources ${BV_WATCHERS})
add_library(bv_test_support OBJECT ${support_sources})
target_include_directories(bv_test_support PRIVATE ${CMAKE_SOURCE_DIR})
target_compile_definitions(bv_test_support PRIVATE BV_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
target_link_libraries(bv_test_support PUBLIC bv::fmt_first)
# Preloaded into the bvtrain of most tests of the whole binary (test/support/prestarted.h).
add_library(bv_prestart SHARED ${CMAKE_SOURCE_DIR}/test/prestart/prestart.cc)
target_link_libraries(bv_prestart PRIVATE ${CMAKE_DL_LIBS})
target_compile_definitions(bv_test_support PRIVATE BV_PRESTART_LIBRARY="$<TARGET_FILE:bv_prestart>")
target_compile_options(bv_test_support PRIVATE ${BV_TEST_OPTIMISATION})
bv_unity(bv_test_support)
# They define NDEBUG, but the precompiled header is compiled without it.
set_source_files_properties(${BV_WATCHERS} PROPERTIES SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON)

# The example model in docs/extending.md is compiled and tested like the other models.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/docs/extending.md)
file(READ ${CMAKE_SOURCE_DIR}/docs/extending.md readme)
string(REGEX MATCH "```cpp\n([^`]*)```" found "${readme}")
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/readme_model.cc CONTENT "${CMAKE_MATCH_1}" @ONLY)

function(bv_test_program module last)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/test/${module}/*.cc)
  if(module STREQUAL "models")
    list(APPEND sources ${CMAKE_BINARY_DIR}/readme_model.cc)
  endif()
  if(module MATCHES "^(train|cuda)$")
    list(APPEND sources ${BV_WATCHERS})
  endif()
  add_executable(test_${module} ${sources})
  target_include_directories(test_${module} PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_definitions(test_${module} PRIVATE BV_TEST_DIR="${CMAKE_SOURCE_DIR}/test"
                             BV_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  target_compile_options(test_${module} PRIVATE ${BV_TEST_OPTIMISATION})
  if(NOT module STREQUAL "cuda")  # its sources include those of the CUDA kernels
    bv_unity(test_${module})
  endif()
  target_link_libraries(test_${module} PRIVATE bv_catch bv_test_support)
  bv_link_modules(test_${module} ${last})
  if(NOT module MATCHES "^(util|config|report|compare)$")
    target_precompile_headers(test_${module} REUSE_FROM bv_pch_test)
  endif()
endfunction()

# Adds the test `name`, which runs test_<module> with the given arguments. With `ctest -j3` it has the
# machine to itself, because most tests compute with two threads.
function(bv_add_test name module)
  add_test(NAME ${name} COMMAND test_${module} ${ARGN})
  set_tests_properties(${name} PROPERTIES TIMEOUT 2400 PROCESSORS 3
    ENVIRONMENT "BVTRAIN=$<TARGET_FILE:bvtrain>")
endfunction()

function(bv_test module last)
  bv_test_program(${module} ${last})
  bv_add_test(${module} ${module})
endfunction()

# Adds a test <module>_<source> for each source of test_<module>. These tests often wait for processes,
# so `ctest -j3` runs three at a time on two cores.
function(bv_tests_by_source module)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/test/${module}/*_test.cc)
  foreach(source ${sources})
    cmake_path(GET source STEM file)
    string(REGEX REPLACE "_test$" "" name ${module}_${file})
    bv_add_test(${name} ${module} --filenames-as-tags "[#${file}]~[.]")  # without hidden tests
    set_tests_properties(${name} PROPERTIES PROCESSORS 1)
  endforeach()
endfunction()

foreach(module util config report device ckpt compare input model models tasks evals train export predict
             init help bench)
  bv_test(${module} ${module})
endforeach()
bv_test_program(distributed distributed)
bv_tests_by_source(distributed)
# Those that take long start early.
set_tests_properties(distributed_group distributed_launcher PROPERTIES COST 900)
bv_test(params train)  # the tests of params and optim train a small model
bv_test(optim train)
bv_test(cuda train)
# Kernels are compiled for three instruction sets (lib/device/cpu_isa.h). The tests above use the
# CPU's best one, these use the others.
foreach(capability avx2 default)
  foreach(module model models optim)
    bv_add_test(${module}_${capability} ${module})
    set_property(TEST ${module}_${capability} APPEND PROPERTY
                 ENVIRONMENT "ATEN_CPU_CAPABILITY=${capability}")
  endforeach()
endforeach()
bv_test(fuzz input)  # every fuzz target with its corpus; cmake/Fuzz.cmake builds them for libFuzzer
# Mock CUDA headers, with which the CPU can run the kernels, come before the real ones.
target_include_directories(test_cuda BEFORE PRIVATE ${CMAKE_SOURCE_DIR}/test/cuda/emulation)
if(TARGET bvtrain_cuda)
  add_dependencies(test_cuda bvtrain_cuda)
endif()

# An emulated GPU: a CUDA plug-in whose device is part of this host's memory (test/emulated_cuda), a
# mock driver, and links to the programs, which look for the plug-in in their own folder.
set(BV_EMULATED ${CMAKE_BINARY_DIR}/emulated_cuda)
file(GLOB emulated_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/test/emulated_cuda/*.cc)
add_library(bv_emulated_cuda MODULE ${emulated_sources})
set_target_properties(bv_emulated_cuda PROPERTIES OUTPUT_NAME bvtrain_cuda PREFIX lib
                      LIBRARY_OUTPUT_DIRECTORY ${BV_EMULATED} CXX_VISIBILITY_PRESET hidden)
target_include_directories(bv_emulated_cuda PRIVATE
  ${CMAKE_SOURCE_DIR}/test/emulated_cuda ${CMAKE_SOURCE_DIR}/test/cuda/emulation ${CMAKE_SOURCE_DIR})
target_compile_definitions(bv_emulated_cuda PRIVATE BV_CUDA_VERSION="${PROJECT_VERSION}-${BV_CUDA_INTERFACE}"
                           USE_DISTRIBUTED USE_C10D_GLOO)
target_link_libraries(bv_emulated_cuda PRIVATE bv::torch)
target_precompile_headers(bv_emulated_cuda REUSE_FROM bv_pch)
add_library(bv_emulated_driver SHARED ${CMAKE_SOURCE_DIR}/cmake/empty.cc)
set_target_properties(bv_emulated_driver PROPERTIES OUTPUT_NAME cuda SOVERSION 1
                      LIBRARY_OUTPUT_DIRECTORY ${BV_EMULATED})
add_custom_target(bv_emulated_links ALL DEPENDS bv_emulated_cuda bv_emulated_driver
                  COMMAND ln -f $<TARGET_FILE:bvtrain> $<TARGET_FILE:test_cuda> ${BV_EMULATED}/)
add_dependencies(bv_emulated_links bvtrain test_cuda)
add_test(NAME emulated_cuda
         COMMAND ${BV_EMULATED}/test_cuda "[gpu],emulated*,every model*,a step that is not measured*")
# One thread emulates the kernels.
set_tests_properties(emulated_cuda PROPERTIES TIMEOUT 2400 PROCESSORS 1 COST 500
  ENVIRONMENT "LD_LIBRARY_PATH=${BV_EMULATED};BVTRAIN_REQUIRE_CUDA=1")

# Tests of the whole binary.
bv_test_program(e2e bench)
add_dependencies(test_e2e bvtrain bv_prestart bv_emulated_links)
bv_tests_by_source(e2e)
set_tests_properties(e2e_faults PROPERTIES COST 1000)  # takes longest, so it starts first

# Measures a step without a loader; scripts/bench/gpu.sh packs it for machines with a GPU.
add_executable(step_bench ${CMAKE_SOURCE_DIR}/scripts/bench/gpu/step_bench.cc
               ${CMAKE_SOURCE_DIR}/scripts/bench/gpu/product_times.cc)
target_include_directories(step_bench PRIVATE ${CMAKE_SOURCE_DIR})
bv_link_modules(step_bench train)
target_precompile_headers(step_bench REUSE_FROM bv_pch)
