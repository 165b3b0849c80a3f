# Defines build_commit() (app/version.h). Every build looks up the commit, but writes commit.cc only
# if the commit has changed, so that a commit compiles one small source and links bvtrain.
set(BV_COMMIT_SOURCE ${CMAKE_BINARY_DIR}/commit.cc)
add_custom_target(bv_commit BYPRODUCTS ${BV_COMMIT_SOURCE} COMMENT ""
  COMMAND ${CMAKE_COMMAND} -D ROOT=${CMAKE_SOURCE_DIR} -D OUTPUT=${BV_COMMIT_SOURCE}
          -P ${CMAKE_SOURCE_DIR}/cmake/write_commit.cmake)
target_sources(bvtrain PRIVATE ${BV_COMMIT_SOURCE})
target_include_directories(bvtrain PRIVATE ${CMAKE_SOURCE_DIR})
set_source_files_properties(${BV_COMMIT_SOURCE} PROPERTIES
  SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON)
add_dependencies(bvtrain bv_commit)
