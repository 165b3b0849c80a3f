# cmake -D ROOT=DIR -D OUTPUT=FILE -P write_commit.cmake: writes the source that contains the commit of
# the repository in DIR. "-dirty" marks changes to the program's sources. The commit is "unknown" if
# DIR is not the top of a repository, such as an export of the sources.
set(sources CMakeLists.txt cmake app lib models)

function(git out)
  execute_process(COMMAND git --no-optional-locks -C ${ROOT} ${ARGN} OUTPUT_VARIABLE text
                  RESULT_VARIABLE code ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT code EQUAL 0)
    set(text "failed")
  endif()
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

set(commit "unknown")
git(folder rev-parse --show-prefix)  # empty at the top of a repository
git(head rev-parse --short=12 HEAD)
if("${folder}" STREQUAL "" AND NOT head STREQUAL "failed")
  set(commit ${head})
  git(changes status --porcelain --untracked-files=normal -- ${sources})
  if(NOT "${changes}" STREQUAL "")
    string(APPEND commit "-dirty")
  endif()
endif()

set(text "#include \"app/version.h\"\n\nnamespace bv {\n
const char* build_commit() { return \"${commit}\"; }\n
}  // namespace bv\n")
set(old "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} old)
endif()
if(NOT text STREQUAL old)
  file(WRITE ${OUTPUT} "${text}")
endif()
