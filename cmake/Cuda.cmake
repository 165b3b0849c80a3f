# Builds libbvtrain_cuda.so, the CUDA plug-in (lib/cuda, docs/gpu.md), next to the executable, if nvcc
# and a LibTorch with CUDA are found. The plug-in links LibTorch's CUDA libraries. Their own
# dependencies (cuDNN, NCCL, ...) are needed only on the machine that runs it.
option(BVTRAIN_CUDA "build the CUDA plug-in where nvcc is found" ON)
find_program(BV_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
if(NOT BVTRAIN_CUDA OR NOT BV_NVCC OR NOT EXISTS ${BVTRAIN_LIBTORCH}/lib/libtorch_cuda.so
   OR NOT EXISTS ${BV_CUDA_LIBRARIES}/libcudart.so.13)
  message(STATUS "no CUDA plug-in (BVTRAIN_CUDA=${BVTRAIN_CUDA}, ${BV_NVCC}, LibTorch: ${BVTRAIN_LIBTORCH})")
  return()
endif()

# NCCL's header is not part of the CUDA toolkit. The one that LibTorch was compiled with comes with
# its libraries (PyPI's nvidia-nccl-cu13); lib/cuda/group_nccl.cc compares the versions.
find_path(BV_NCCL_INCLUDE nccl.h PATHS ${BVTRAIN_LIBTORCH}/../nvidia/nccl/include NO_DEFAULT_PATH)
find_path(BV_NCCL_INCLUDE nccl.h HINTS $ENV{CUDA_HOME}/include /usr/local/cuda/include)
if(NOT BV_NCCL_INCLUDE)
  message(STATUS "no CUDA plug-in: nccl.h is not found (Debian's libnccl-dev, or PyPI's nvidia-nccl-cu13)")
  return()
endif()

# Dense layers call cuBLASLt. The plug-in links LibTorch's cuBLASLt if present, otherwise the CUDA
# toolkit's. At run time it uses the one that libtorch_cuda loads.
get_filename_component(BV_CUDA_TOOLKIT ${BV_NVCC} REALPATH)
get_filename_component(BV_CUDA_TOOLKIT ${BV_CUDA_TOOLKIT}/../.. ABSOLUTE)
find_path(BV_CUBLASLT_INCLUDE cublasLt.h HINTS ${BV_CUDA_TOOLKIT}/include $ENV{CUDA_HOME}/include
          /usr/local/cuda/include ${BV_CUDA_LIBRARIES}/../include)
find_library(BV_CUBLASLT libcublasLt.so.13 PATHS ${BV_CUDA_LIBRARIES} NO_DEFAULT_PATH)
find_library(BV_CUBLASLT libcublasLt.so.13 HINTS ${BV_CUDA_TOOLKIT} $ENV{CUDA_HOME} /usr/local/cuda
             PATH_SUFFIXES lib64 lib targets/x86_64-linux/lib)
if(NOT BV_CUBLASLT_INCLUDE OR NOT BV_CUBLASLT)
  message(STATUS "no CUDA plug-in: cublasLt.h or libcublasLt.so.13 is not found (CUDA's libcublas-dev, or PyPI's "
                 "nvidia-cublas): header ${BV_CUBLASLT_INCLUDE}, library ${BV_CUBLASLT}")
  return()
endif()

set(CMAKE_CUDA_COMPILER ${BV_NVCC})
set(architectures 80 90 100 120)
if(DEFINED ENV{CUDAARCHS})
  set(architectures $ENV{CUDAARCHS})
endif()
set(CMAKE_CUDA_ARCHITECTURES ${architectures} CACHE STRING "real and virtual: newer ones compile at load")
set(CMAKE_CUDA_STANDARD_REQUIRED OFF)
enable_language(CUDA)

file(GLOB plugin_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/lib/cuda/*.cc ${CMAKE_SOURCE_DIR}/lib/cuda/*.cu)
add_library(bvtrain_cuda MODULE ${plugin_sources})
set_target_properties(bvtrain_cuda PROPERTIES LINKER_LANGUAGE CXX CUDA_RUNTIME_LIBRARY None
                      CUDA_RESOLVE_DEVICE_SYMBOLS OFF CXX_VISIBILITY_PRESET hidden)
target_include_directories(bvtrain_cuda PRIVATE ${CMAKE_SOURCE_DIR})
target_include_directories(bvtrain_cuda SYSTEM PRIVATE ${BV_NCCL_INCLUDE}
                           ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES} ${BV_CUBLASLT_INCLUDE})
target_compile_definitions(bvtrain_cuda PRIVATE BV_CUDA_VERSION="${PROJECT_VERSION}-${BV_CUDA_INTERFACE}"
                           USE_DISTRIBUTED USE_C10D_NCCL)
# The code in lib/optim/rules is shared with the CPU. It uses constexpr functions of std::array, which
# nvcc must be allowed to call, and GCC pragmas, which nvcc does not recognise.
target_compile_options(bvtrain_cuda PRIVATE
  $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20 --expt-relaxed-constexpr -Xcompiler=-fPIC -Xcompiler=-Wno-unknown-pragmas -diag-suppress=20011>)
target_precompile_headers(bvtrain_cuda REUSE_FROM bv_pch)
target_link_libraries(bvtrain_cuda PRIVATE
  ${BVTRAIN_LIBTORCH}/lib/libtorch_cuda.so ${BVTRAIN_LIBTORCH}/lib/libc10_cuda.so
  bv::torch ${BV_CUDA_LIBRARIES}/libcudart.so.13 ${BV_CUBLASLT})
# An RPATH, unlike a RUNPATH, takes precedence over LD_LIBRARY_PATH, as in libtorch_cuda. Otherwise the
# plug-in could load the cuBLASLt of another CUDA toolkit.
target_link_options(bvtrain_cuda PRIVATE -Wl,-z,defs -Wl,--allow-shlib-undefined -Wl,--disable-new-dtags)
