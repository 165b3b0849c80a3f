# One Catch2 program per room, test_<room>, which links that room and those before it. Tests of the
# whole binary are in test/e2e and get its path in $BVTRAIN. Code shared by the tests of several
# rooms is in test/support.
add_library(bv_catch OBJECT ${CMAKE_SOURCE_DIR}/test/main.cc)
target_link_libraries(bv_catch PUBLIC bv::fmt_first)
# Compiling tests with less optimisation takes a third less time.
target_compile_options(bv_catch PRIVATE -O0)

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
target_compile_options(bv_test_support PRIVATE ${BV_TEST_OPTIMISATION})
# They define NDEBUG, but the precompiled header is compiled without it.
set_source_files_properties(${BV_WATCHERS} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)

# The example model in docs/extending.md is compiled and tested like the other models.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/docs/extending.md)
file(READ ${CMAKE_SOURCE_DIR}/docs/extending.md readme)
string(REGEX MATCH "```cpp\n([^`]*)```" found "${readme}")
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/readme_model.cc CONTENT "${CMAKE_MATCH_1}" @ONLY)

function(bv_test room last)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/test/${room}/*.cc)
  if(room STREQUAL "models")
    list(APPEND sources ${CMAKE_BINARY_DIR}/readme_model.cc)
  endif()
  if(NOT sources)
    return()
  endif()
  if(room MATCHES "^(train|cuda)$")
    list(APPEND sources ${BV_WATCHERS})
  endif()
  add_executable(test_${room} ${sources})
  target_include_directories(test_${room} PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_definitions(test_${room} PRIVATE BV_TEST_DIR="${CMAKE_SOURCE_DIR}/test"
                             BV_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  target_compile_options(test_${room} PRIVATE ${BV_TEST_OPTIMISATION})
  target_link_libraries(test_${room} PRIVATE bv_catch bv_test_support)
  bv_link_rooms(test_${room} ${last})
  if(NOT room MATCHES "^(util|config|report|compare)$")
    target_precompile_headers(test_${room} REUSE_FROM bv_pch_test)
  endif()
  add_test(NAME ${room} COMMAND test_${room})
  set_tests_properties(${room} PROPERTIES TIMEOUT 2400
    ENVIRONMENT "BVTRAIN=$<TARGET_FILE:bvtrain>")
endfunction()

foreach(room util config report device distributed ckpt compare input model models tasks evals train export predict
             init help bench)
  bv_test(${room} ${room})
endforeach()
bv_test(params train)  # the tests of params and optim train a small model
bv_test(optim train)
bv_test(cuda train)
# Kernels are compiled for three instruction sets (lib/device/cpu_isa.h). The tests above use the
# CPU's best one, these use the others.
foreach(capability avx2 default)
  foreach(room model models optim)
    add_test(NAME ${room}_${capability} COMMAND test_${room})
    set_tests_properties(${room}_${capability} PROPERTIES TIMEOUT 2400
      ENVIRONMENT "BVTRAIN=$<TARGET_FILE:bvtrain>;ATEN_CPU_CAPABILITY=${capability}")
  endforeach()
endforeach()
bv_test(fuzz input)  # every fuzz target with its corpus; cmake/Fuzz.cmake builds them for libFuzzer
if(TARGET test_cuda)
  # Mock CUDA headers, with which the CPU can run the kernels, come before the real ones.
  target_include_directories(test_cuda BEFORE PRIVATE ${CMAKE_SOURCE_DIR}/test/cuda/emulation)
endif()
if(TARGET test_cuda AND TARGET bvtrain_cuda)
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
add_library(bv_emulated_driver SHARED ${CMAKE_SOURCE_DIR}/cmake/empty.cc)
set_target_properties(bv_emulated_driver PROPERTIES OUTPUT_NAME cuda SOVERSION 1
                      LIBRARY_OUTPUT_DIRECTORY ${BV_EMULATED})
add_custom_target(bv_emulated_links ALL DEPENDS bv_emulated_cuda bv_emulated_driver
                  COMMAND ln -f $<TARGET_FILE:bvtrain> $<TARGET_FILE:test_cuda> ${BV_EMULATED}/)
add_dependencies(bv_emulated_links bvtrain test_cuda)
add_test(NAME emulated_cuda
         COMMAND ${BV_EMULATED}/test_cuda "[gpu],emulated*,every model*,a step that is not measured*")
set_tests_properties(emulated_cuda PROPERTIES TIMEOUT 2400
  ENVIRONMENT "LD_LIBRARY_PATH=${BV_EMULATED};BVTRAIN_REQUIRE_CUDA=1")
bv_test(e2e bench)
if(TARGET test_e2e)
  add_dependencies(test_e2e bvtrain bv_emulated_links)
endif()

# Measures a step without a loader; scripts/bench/gpu.sh packs it for machines with a GPU.
add_executable(step_bench ${CMAKE_SOURCE_DIR}/scripts/bench/gpu/step_bench.cc
               ${CMAKE_SOURCE_DIR}/scripts/bench/gpu/product_times.cc)
target_include_directories(step_bench PRIVATE ${CMAKE_SOURCE_DIR})
bv_link_rooms(step_bench train)
