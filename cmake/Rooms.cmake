# bv_room(name LIBS ... [DIR folder]): the object library bv_<name> of all sources in lib/<name>
# (recursively; new files are found without editing a list). Object libraries, because a static
# archive would let the linker drop the plug-ins that only register themselves.
set(BV_ROOMS "" CACHE INTERNAL "rooms in order")

# Precompiled headers are as small as their users allow: loading a large one takes a second of every
# source. Rooms that compute with tensors have the operators too, tests all of ATen and Catch2.
function(bv_add_pch name header)
  add_library(${name} OBJECT ${CMAKE_SOURCE_DIR}/cmake/pch.cc)
  target_link_libraries(${name} PUBLIC bv::fmt_first bv::torch)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_precompile_headers(${name} PRIVATE ${CMAKE_SOURCE_DIR}/cmake/${header})
  target_compile_options(${name} PRIVATE ${ARGN})
endfunction()
bv_add_pch(bv_pch pch.h)
bv_add_pch(bv_pch_ops pch_ops.h)
set(BV_TEST_OPTIMISATION -O1)
bv_add_pch(bv_pch_test pch_test.h ${BV_TEST_OPTIMISATION})

function(bv_room name)
  cmake_parse_arguments(ROOM "" "DIR" "LIBS" ${ARGN})
  if(NOT ROOM_DIR)
    set(ROOM_DIR lib/${name})
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${ROOM_DIR}/*.cc)
  if(NOT sources)
    set(sources ${CMAKE_SOURCE_DIR}/cmake/empty.cc)
  endif()
  add_library(bv_${name} OBJECT ${sources})
  target_include_directories(bv_${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(bv_${name} PUBLIC bv::fmt_first bv::fmt Threads::Threads ${ROOM_LIBS})
  if(name MATCHES "^(model|models|evals)$")
    target_precompile_headers(bv_${name} REUSE_FROM bv_pch_ops)
  elseif(NOT name MATCHES "^(util|config|report|device|distributed)$")
    target_precompile_headers(bv_${name} REUSE_FROM bv_pch)
  endif()
  set(BV_ROOMS ${BV_ROOMS};${name} CACHE INTERNAL "rooms in order")
endfunction()

# Links the objects of every room up to and including `last`.
function(bv_link_rooms target last)
  foreach(room ${BV_ROOMS})
    target_link_libraries(${target} PRIVATE bv_${room})
    if(room STREQUAL last)
      break()
    endif()
  endforeach()
endfunction()

# Makes the files of `folder` available to `target` as symbols through .incbin.
function(bv_embed_data target folder)
  target_compile_definitions(${target} PRIVATE BV_EMBED_DIR="${folder}")
endfunction()
