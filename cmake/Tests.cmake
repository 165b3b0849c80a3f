# One Catch2 program per room, test_<room>, linking that room and those before it. Tests of the
# whole binary live in test/e2e and get its path in $BVTRAIN.
add_library(bv_catch OBJECT ${CMAKE_SOURCE_DIR}/test/main.cc)
target_link_libraries(bv_catch PUBLIC bv::fmt_first)
# The tests themselves are compiled with less optimisation: a third less time to build.
target_compile_options(bv_catch PRIVATE -O0)

# The README's example of a model is compiled, and tested like the others.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/README.md)
file(READ ${CMAKE_SOURCE_DIR}/README.md readme)
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
  add_executable(test_${room} ${sources})
  target_include_directories(test_${room} PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_definitions(test_${room} PRIVATE BV_TEST_DIR="${CMAKE_SOURCE_DIR}/test"
                             BV_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  target_compile_options(test_${room} PRIVATE ${BV_TEST_OPTIMISATION})
  target_link_libraries(test_${room} PRIVATE bv_catch)
  bv_link_rooms(test_${room} ${last})
  if(NOT room MATCHES "^(util|config|report)$")
    target_precompile_headers(test_${room} REUSE_FROM bv_pch_test)
  endif()
  add_test(NAME ${room} COMMAND test_${room})
  set_tests_properties(${room} PROPERTIES TIMEOUT 900
    ENVIRONMENT "BVTRAIN=$<TARGET_FILE:bvtrain>")
endfunction()

foreach(room util config report device distributed ckpt input model models tasks evals train export predict
             bench)
  bv_test(${room} ${room})
endforeach()
bv_test(params train)  # their tests step a small model
bv_test(optim train)
bv_test(cuda train)
if(TARGET test_cuda)
  # A little of CUDA for the CPU, in front of the real one.
  target_include_directories(test_cuda BEFORE PRIVATE ${CMAKE_SOURCE_DIR}/test/cuda/emulation)
endif()
if(TARGET test_cuda AND TARGET bvtrain_cuda)
  add_dependencies(test_cuda bvtrain_cuda)
endif()
bv_test(e2e bench)
if(TARGET test_e2e)
  add_dependencies(test_e2e bvtrain)
endif()
