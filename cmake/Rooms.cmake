# bv_room(name LIBS ... [DIR folder]): the object library bv_<name> of all sources in lib/<name>
# (recursively; new files are found without editing a list). Object libraries, because a static
# archive would let the linker drop the plug-ins that only register themselves.
set(BV_ROOMS "" CACHE INTERNAL "rooms in order")

# Two precompiled headers: loading the large one takes seconds, so rooms that only handle tensors use
# the small one.
foreach(pch bv_pch bv_pch_tensor)
  add_library(${pch} OBJECT ${CMAKE_SOURCE_DIR}/cmake/pch.cc)
  target_link_libraries(${pch} PUBLIC bv::torch)
  target_include_directories(${pch} PRIVATE ${CMAKE_SOURCE_DIR})
endforeach()
target_precompile_headers(bv_pch PRIVATE ${CMAKE_SOURCE_DIR}/cmake/pch.h)
target_precompile_headers(bv_pch_tensor PRIVATE ${CMAKE_SOURCE_DIR}/cmake/pch_tensor.h)

function(bv_use_pch target room)
  if(room MATCHES "^(ckpt|input)$")
    target_precompile_headers(${target} REUSE_FROM bv_pch_tensor)
  elseif(NOT room MATCHES "^(util|config|report)$")
    target_precompile_headers(${target} REUSE_FROM bv_pch)
  endif()
endfunction()

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
  bv_use_pch(bv_${name} ${name})
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
