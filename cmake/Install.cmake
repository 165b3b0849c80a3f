# cmake --install build/release --prefix P [--component C] installs
#   bvtrain   the executable, configs, pages, licence, and man page and completions if they exist
#   cuda      the CUDA plug-in, if it was built
#   libtorch  the libraries of LibTorch that the executable needs
#   system    the other libraries that it needs, except those that every Linux with glibc has. Only if
#             asked for by --component; scripts/package.sh uses it.
# The executable looks for libraries in ../lib/bvtrain, so P can be moved.
set(BV_PRIVATE_LIBRARIES lib/bvtrain)
set_target_properties(bvtrain PROPERTIES INSTALL_RPATH "$ORIGIN/../${BV_PRIVATE_LIBRARIES}")

install(TARGETS bvtrain DESTINATION bin COMPONENT bvtrain
        RUNTIME_DEPENDENCY_SET bv_needed)
install(DIRECTORY configs DESTINATION share/bvtrain COMPONENT bvtrain)
install(FILES LICENSE README.md DESTINATION share/doc/bvtrain COMPONENT bvtrain)
install(DIRECTORY docs DESTINATION share/doc/bvtrain COMPONENT bvtrain)

# Installs `file` as FOLDER/NAME if it exists.
function(bv_install_if_there file folder name)
  file(GLOB found CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${file})
  if(found)
    install(FILES ${found} DESTINATION ${folder} RENAME ${name} COMPONENT bvtrain)
  endif()
endfunction()
bv_install_if_there(man/bvtrain.1 share/man/man1 bvtrain.1)
bv_install_if_there(completions/bvtrain.bash share/bash-completion/completions bvtrain)
bv_install_if_there(completions/_bvtrain share/zsh/vendor-completions _bvtrain)
bv_install_if_there(completions/bvtrain.fish share/fish/vendor_completions.d bvtrain.fish)

if(TARGET bvtrain_cuda)
  set_target_properties(bvtrain_cuda PROPERTIES INSTALL_RPATH "$ORIGIN")
  install(TARGETS bvtrain_cuda LIBRARY DESTINATION ${BV_PRIVATE_LIBRARIES} COMPONENT cuda OPTIONAL)
endif()

# The folder of LibTorch, and that of CUDA's libraries with links and ".." resolved.
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
