# Whether the CUDA module is built: LS_CUDA_FOUND. AUTO builds it when nvcc and cuBLASLt are there and a GPU's driver answers,
# ON demands the first two. nvcc is driven by custom commands instead of CMake's CUDA language: configuring stays quick,
# and neither a second compiler's checks nor its flags (sanitizers, clang) get in the way of the C build.
set(LS_CUDA_ARCHS "" CACHE STRING "GPU architectures: NN-real, NN-virtual or NN; empty: this machine's, else 90-real and 75-virtual")
execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
  OUTPUT_VARIABLE caps RESULT_VARIABLE no_driver ERROR_QUIET)
set(LS_CUDA_FOUND OFF)
set(why "")
if(LS_CUDA STREQUAL "OFF")
  set(why "LS_CUDA is OFF")
elseif(LS_SANITIZE AND NOT LS_CUDA STREQUAL "ON")
  set(why "not built with sanitizers")
else()
  find_package(CUDAToolkit QUIET)
  find_program(LS_CUDA_HOST_COMPILER NAMES g++ DOC "Host C++ compiler for nvcc")
  if(NOT CUDAToolkit_FOUND)
    set(why "nvcc was not found")
  elseif(CUDAToolkit_VERSION VERSION_LESS 12.0)
    set(why "CUDA ${CUDAToolkit_VERSION} is older than 12.0")
  elseif(NOT TARGET CUDA::cudart_static OR NOT TARGET CUDA::cublasLt)
    set(why "the static CUDA runtime or cuBLASLt was not found")
  elseif(NOT LS_CUDA_HOST_COMPILER)
    set(why "nvcc needs g++, which was not found")
  elseif(no_driver AND NOT LS_CUDA STREQUAL "ON")
    set(why "no GPU's driver answers nvidia-smi; make cuda builds it nevertheless")
  else()
    set(LS_CUDA_FOUND ON)
  endif()
endif()
if(LS_CUDA STREQUAL "ON" AND NOT LS_CUDA_FOUND)
  message(FATAL_ERROR "LS_CUDA=ON, but ${why}")
endif()

set(archs ${LS_CUDA_ARCHS})
if(LS_CUDA_FOUND AND NOT archs)
  # An nvcc that is older than the GPU knows no code for it: the driver translates.
  execute_process(COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} --list-gpu-code OUTPUT_VARIABLE known ERROR_QUIET)
  string(REGEX MATCHALL "[0-9]+\\.[0-9]+" caps "${caps}")
  foreach(cap ${caps})
    string(REPLACE "." "" cap ${cap})
    if(known MATCHES "sm_${cap}[^0-9a-z]")
      list(APPEND archs ${cap}-real)
    else()
      list(APPEND archs 75-virtual)
    endif()
  endforeach()
  list(REMOVE_DUPLICATES archs)
  if(NOT archs)
    set(archs 90-real 75-virtual)
  endif()
endif()

if(LS_CUDA_FOUND)
  # NCCL is optional: without it the module drives one GPU. Distributions put it among the system libraries.
  find_path(LS_NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} $ENV{NCCL_HOME}/include)
  find_library(LS_NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR} $ENV{NCCL_HOME}/lib)
  set(LS_NCCL_FOUND OFF)
  if(LS_NCCL_INCLUDE_DIR AND LS_NCCL_LIBRARY)
    set(LS_NCCL_FOUND ON)
  endif()
  # So is cuDNN: without its headers our own kernels convolve.
  find_path(LS_CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS} $ENV{CUDNN_HOME}/include)
  set(LS_CUDNN_FOUND OFF)
  if(LS_CUDNN_INCLUDE_DIR)
    set(LS_CUDNN_FOUND ON)
  endif()
  message(STATUS "CUDA module: yes (CUDA ${CUDAToolkit_VERSION}, ${archs}, NCCL ${LS_NCCL_FOUND}, "
    "cuDNN ${LS_CUDNN_FOUND})")
else()
  message(STATUS "CUDA module: no (${why})")
endif()

set(LS_CUDA_GENCODE "")
foreach(arch ${archs})
  if(arch MATCHES "^([0-9]+a?)-real$")
    list(APPEND LS_CUDA_GENCODE "-gencode=arch=compute_${CMAKE_MATCH_1},code=sm_${CMAKE_MATCH_1}")
  elseif(arch MATCHES "^([0-9]+)-virtual$")
    list(APPEND LS_CUDA_GENCODE "-gencode=arch=compute_${CMAKE_MATCH_1},code=compute_${CMAKE_MATCH_1}")
  elseif(arch MATCHES "^([0-9]+)$")
    list(APPEND LS_CUDA_GENCODE "-gencode=arch=compute_${arch},code=[sm_${arch},compute_${arch}]")
  else()
    message(FATAL_ERROR "LS_CUDA_ARCHS: ${arch} is not NN, NN-real or NN-virtual")
  endif()
endforeach()

# ls_cuda_objects(OUT file.cu ...): compiles each to an object, with position-independent hidden code. Compressed, the module is a
# fifth as large.
function(ls_cuda_objects out)
  set(objects "")
  foreach(source ${ARGN})
    get_filename_component(name ${source} NAME_WE)
    set(input ${CMAKE_CURRENT_SOURCE_DIR}/${source})
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.cu.o)
    add_custom_command(
      OUTPUT ${object}
      COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} -ccbin ${LS_CUDA_HOST_COMPILER} -std=c++17 -O3
              ${LS_CUDA_GENCODE}
              -Xcompiler=-fPIC,-fvisibility=hidden,-fno-exceptions,-Wall,-Wextra,-Wno-missing-field-initializers $<$<BOOL:${LS_WERROR}>:-Werror=all-warnings> -lineinfo -Xfatbin=-compress-all
              -I ${PROJECT_SOURCE_DIR}/src/core -I ${PROJECT_SOURCE_DIR}/include -MD -MF ${object}.d -MT ${object} -c ${input} -o ${object}
      DEPENDS ${input}
      DEPFILE ${object}.d
      COMMENT "nvcc ${name}.cu"
      VERBATIM COMMAND_EXPAND_LISTS)
    list(APPEND objects ${object})
  endforeach()
  set(${out} ${objects} PARENT_SCOPE)
endfunction()
