# Sets the compiler cache, the linker, warnings, and the options of sanitizer builds (asan, tsan and fuzz
# in CMakePresets.json).
find_program(BV_CCACHE ccache)
if(BV_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${BV_CCACHE})
endif()

# Not mold: Debian 12's version (1.10) may hang, and may write programs that the loader rejects.
find_program(BV_LLD ld.lld)
if(BV_LLD)
  add_link_options(-fuse-ld=lld)
endif()

# -fPIC for executables too: all sources share precompiled headers, and must be compiled with the
# same options.
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fPIC;-Wall;-Wextra;-Wno-unused-parameter;-fno-math-errno>")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
endif()

set(BVTRAIN_SANITIZE "" CACHE STRING "address or thread: builds with that sanitizer")
if(BVTRAIN_SANITIZE)
  # With -O2 -g, these builds take almost twice as long.
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")
endif()
if(BVTRAIN_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(BVTRAIN_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
endif()

option(BV_FUZZ "builds the fuzz targets of test/fuzz (cmake/Fuzz.cmake)" OFF)
if(BV_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang" OR CMAKE_CXX_COMPILER_VERSION VERSION_LESS 16)
    message(FATAL_ERROR "BV_FUZZ needs clang 16 or newer: scripts/dev.sh fuzz finds one")
  endif()
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")
  if(CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 18)
    add_compile_options(-fclang-abi-compat=17)  # template names as in LibTorch, which GCC compiled
  endif()
  # All sources are instrumented. vptr and function check types of LibTorch, which is not.
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize=vptr,function
                      -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
endif()
