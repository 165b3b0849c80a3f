# bv_module(name LIBS ... [DIR folder]): adds the object library bv_<name> of all sources in lib/<name>
# or DIR and their subfolders. New files are found without editing a list. Modules are object
# libraries, because the linker would drop sources that only register a class from a static archive.
set(BV_MODULES "" CACHE INTERNAL "modules in order")

# Adds a precompiled header: pch.h for the modules that use LibTorch, and pch_test.h with all of ATen
# and Catch2 for tests.
function(bv_add_pch name header)
  add_library(${name} OBJECT ${CMAKE_SOURCE_DIR}/cmake/pch.cc)
  target_link_libraries(${name} PUBLIC bv::fmt_first bv::torch)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_precompile_headers(${name} PRIVATE ${CMAKE_SOURCE_DIR}/cmake/${header})
  target_compile_options(${name} PRIVATE ${ARGN})
endfunction()
bv_add_pch(bv_pch pch.h)
set(BV_TEST_OPTIMISATION -O0)
bv_add_pch(bv_pch_test pch_test.h ${BV_TEST_OPTIMISATION})

# Compiling many sources of a module as one takes about a quarter of the time, because headers are
# read, and templates compiled, only once. Names in anonymous namespaces must then differ between the
# sources of a module, which scripts/lint_names.py checks. Without it, a change to one source compiles
# only that source.
option(BV_UNITY "compile 24 sources of a module or test program together" ON)
function(bv_unity target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${BV_UNITY} UNITY_BUILD_BATCH_SIZE 24)
endfunction()

function(bv_module name)
  cmake_parse_arguments(MODULE "" "DIR" "LIBS" ${ARGN})
  if(NOT MODULE_DIR)
    set(MODULE_DIR lib/${name})
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${MODULE_DIR}/*.cc)
  if(NOT sources)
    set(sources ${CMAKE_SOURCE_DIR}/cmake/empty.cc)
  endif()
  if(name STREQUAL util AND BVTRAIN_SANITIZE STREQUAL "thread")
    list(APPEND sources ${CMAKE_SOURCE_DIR}/cmake/tsan_openmp.cc)  # all programs link this module
  endif()
  add_library(bv_${name} OBJECT ${sources})
  target_include_directories(bv_${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(bv_${name} PUBLIC bv::fmt_first bv::fmt Threads::Threads ${MODULE_LIBS})
  if(bv::torch IN_LIST MODULE_LIBS)
    target_precompile_headers(bv_${name} REUSE_FROM bv_pch)
  endif()
  bv_unity(bv_${name})
  set(BV_MODULES ${BV_MODULES};${name} CACHE INTERNAL "modules in order")
endfunction()

# Links the objects of every module up to and including `last`.
function(bv_link_modules target last)
  foreach(module ${BV_MODULES})
    target_link_libraries(${target} PRIVATE bv_${module})
    if(module STREQUAL last)
      break()
    endif()
  endforeach()
endfunction()

# Defines BV_EMBED_DIR for `target`: the folder whose files its sources embed with .incbin.
function(bv_embed_data target folder)
  target_compile_definitions(${target} PRIVATE BV_EMBED_DIR="${folder}")
endfunction()
