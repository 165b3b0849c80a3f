# cmake --install build/release --prefix P [--component C] installs
#   bvtrain   the executable, configs, pages, licence, man page and shell completion
#   cuda      the CUDA plug-in, if it was built
#   libtorch  the LibTorch libraries that the executable needs
#   system    the other libraries that it needs, except those that every Linux with glibc has. Only
#             if requested by --component; scripts/package.sh uses it.
# The executable looks for libraries in ../lib/bvtrain, so P can be moved.
set(BV_PRIVATE_LIBRARIES lib/bvtrain)

# Replaces the run path of the installed file, if it was built, as CMake's own install scripts do.
function(bv_set_run_path file run_path component)
  install(CODE "set(file \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${file}\")
    if(EXISTS \"\${file}\")
      file(RPATH_SET FILE \"\${file}\" NEW_RPATH \"${run_path}\")
    endif()" COMPONENT ${component})
endfunction()

install(TARGETS bvtrain DESTINATION bin COMPONENT bvtrain RUNTIME_DEPENDENCY_SET bv_needed)
bv_set_run_path(bin/bvtrain "\\$ORIGIN/../${BV_PRIVATE_LIBRARIES}" bvtrain)
install(DIRECTORY configs DESTINATION share/bvtrain COMPONENT bvtrain)
install(FILES LICENSE README.md DESTINATION share/doc/bvtrain COMPONENT bvtrain)
install(DIRECTORY docs DESTINATION share/doc/bvtrain COMPONENT bvtrain)

# The program writes its man page and shell completion scripts.
function(bv_install_output folder name)
  set(file ${CMAKE_BINARY_DIR}/help/${name})
  list(JOIN ARGN " " arguments)
  install(CODE "file(MAKE_DIRECTORY \"${CMAKE_BINARY_DIR}/help\")
    execute_process(COMMAND \"$<TARGET_FILE:bvtrain>\" ${arguments} OUTPUT_FILE \"${file}\"
                    COMMAND_ERROR_IS_FATAL ANY)" COMPONENT bvtrain)
  install(FILES ${file} DESTINATION ${folder} COMPONENT bvtrain)
endfunction()
bv_install_output(share/man/man1 bvtrain.1 help --man)
bv_install_output(share/bash-completion/completions bvtrain completion bash)
bv_install_output(share/zsh/vendor-completions _bvtrain completion zsh)
bv_install_output(share/fish/vendor_completions.d bvtrain.fish completion fish)

if(TARGET bvtrain_cuda)
  install(TARGETS bvtrain_cuda LIBRARY DESTINATION ${BV_PRIVATE_LIBRARIES} COMPONENT cuda OPTIONAL)
  bv_set_run_path(${BV_PRIVATE_LIBRARIES}/libbvtrain_cuda.so "\\$ORIGIN" cuda)
endif()

# The folders of LibTorch and CUDA's libraries, with links and ".." resolved.
get_filename_component(bv_torch_folder ${BVTRAIN_LIBTORCH}/lib REALPATH)
get_filename_component(bv_cuda_folder ${BV_CUDA_LIBRARIES} REALPATH)
set(bv_from_libtorch "^${BVTRAIN_LIBTORCH}/" "^${bv_torch_folder}/" "^${bv_cuda_folder}/")
string(REPLACE "+" "\\+" bv_from_libtorch "${bv_from_libtorch}")
install(RUNTIME_DEPENDENCY_SET bv_needed DESTINATION ${BV_PRIVATE_LIBRARIES} COMPONENT libtorch
        POST_INCLUDE_REGEXES ${bv_from_libtorch} POST_EXCLUDE_REGEXES ".*")
install(RUNTIME_DEPENDENCY_SET bv_needed DESTINATION ${BV_PRIVATE_LIBRARIES} COMPONENT system
        EXCLUDE_FROM_ALL
        PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|rt|util|pthread|z)\\.so"
        POST_EXCLUDE_REGEXES ${bv_from_libtorch})
