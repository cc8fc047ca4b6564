# NVIDIA GPUs, where they are asked for. SLUICE_CUDA: OFF, ON, or AUTO: ON where an nvcc of SLUICE_CUDA_LEAST is found, in
# .cache/cuda, where `./run build --cuda` puts one, on the PATH, or where NVIDIA's packages install it. Without it the
# program is the same but for --device cuda; builds with sanitizers are without it, too.
#
# The library sluice_cuda is the device and its ops; everything above src/kernels may use it.
set(SLUICE_CUDA "OFF" CACHE STRING "Support NVIDIA GPUs: OFF, ON or AUTO (where nvcc is found)")
set(SLUICE_CUDA_LEAST 12.8)

# sluice_find_nvcc(RESULT): its path, or nothing and the reason in SLUICE_NO_NVCC.
function(sluice_find_nvcc RESULT)
  find_program(SLUICE_NVCC nvcc HINTS ${CMAKE_SOURCE_DIR}/.cache/cuda/bin PATHS /usr/local/cuda/bin)
  set(SLUICE_NO_NVCC "no nvcc was found" PARENT_SCOPE)
  set(${RESULT} "" PARENT_SCOPE)
  if(SLUICE_NVCC)
    execute_process(COMMAND ${SLUICE_NVCC} --version OUTPUT_VARIABLE text ERROR_QUIET)
    string(REGEX MATCH "release ([0-9.]+)" found "${text}")
    if(CMAKE_MATCH_1 AND NOT CMAKE_MATCH_1 VERSION_LESS SLUICE_CUDA_LEAST)
      set(${RESULT} ${SLUICE_NVCC} PARENT_SCOPE)
    else()
      set(SLUICE_NO_NVCC "${SLUICE_NVCC} is version '${CMAKE_MATCH_1}', not ${SLUICE_CUDA_LEAST} or later" PARENT_SCOPE)
    endif()
  endif()
endfunction()

set(SLUICE_HAS_CUDA OFF)
if(SLUICE_CUDA AND NOT SLUICE_SANITIZE)
  sluice_find_nvcc(nvcc)
  if(nvcc)
    set(SLUICE_HAS_CUDA ON)
  elseif(NOT SLUICE_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "SLUICE_CUDA=ON: ${SLUICE_NO_NVCC}. `./run build --cuda` brings one into .cache/cuda.")
  endif()
endif()

if(SLUICE_HAS_CUDA)
  set(CMAKE_CUDA_COMPILER ${nvcc})
  set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
  set(CMAKE_CUDA_RUNTIME_LIBRARY None)  # linked below, by its path
  set(CMAKE_CUDA_ARCHITECTURES OFF)  # SLUICE_CUDA_FLAGS
  enable_language(CUDA)
  set(CMAKE_CUDA_FLAGS_RELEASE "-O3 -DNDEBUG")
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)  # CMake 3.25 knows of none
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  find_library(SLUICE_CUDART cudart_static HINTS ${CMAKE_CUDA_IMPLICIT_LINK_DIRECTORIES} REQUIRED)
  add_library(cudart-static STATIC IMPORTED)
  set_target_properties(cudart-static PROPERTIES IMPORTED_LOCATION ${SLUICE_CUDART}
    INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS};rt")
  target_include_directories(cudart-static SYSTEM INTERFACE ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
endif()

# Machine code for these, and for what comes after them PTX, which the driver compiles when it first loads it: a pass of
# the compiler for 8.x, one for 9.0 and later, which have kernels that start early (src/kernels/cuda/launch.h). Each
# rounding is part of the result, so that it is the CPU's.
set(SLUICE_CUDA_CODE "sm_80;sm_90;sm_100;compute_90" CACHE STRING "What kernels are compiled to; sm_90 alone is quicker")
set(SLUICE_CUDA_FLAGS)
string(REPLACE "," ";" new "${SLUICE_CUDA_CODE}")
set(old ${new})
list(FILTER old INCLUDE REGEX "_8[0-9]$")
list(FILTER new EXCLUDE REGEX "_8[0-9]$")
foreach(pass old new)
  string(REPLACE ";" "," codes "${${pass}}")
  set(least 90)
  if(pass STREQUAL "old")
    set(least 80)
  endif()
  if(codes)
    list(APPEND SLUICE_CUDA_FLAGS "SHELL:-gencode arch=compute_${least},code=[${codes}]")
  endif()
endforeach()
set(SLUICE_HOPPER_FLAGS "SHELL:-gencode arch=compute_90a,code=sm_90a")
set(same "SHELL:-Xfatbin -compress-all"
  -fmad=false -ftz=true -prec-div=true -prec-sqrt=true --expt-relaxed-constexpr
  -Xcompiler=-Wall,-Wextra,-ffp-contract=off,-fno-math-errno)
list(APPEND SLUICE_CUDA_FLAGS ${same})
list(APPEND SLUICE_HOPPER_FLAGS ${same})

# After sluice_layer(kernels), which has what does not need CUDA's headers: how weights are packed, and the tests of the
# kernels, compiled by the C++ compiler (src/kernels/cuda/launch.h).
function(sluice_cuda_library)
  set(folder ${CMAKE_SOURCE_DIR}/src/kernels/cuda)
  if(SLUICE_HAS_CUDA)
    file(GLOB sources CONFIGURE_DEPENDS ${folder}/runtime/*.cc ${folder}/runtime/*.cu ${folder}/shared/*.cu)
    list(FILTER sources EXCLUDE REGEX "/absent\\.cc$")
    add_library(sluice_cuda STATIC ${sources})
    target_compile_options(sluice_cuda PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:${SLUICE_CUDA_FLAGS}>")
    # The kernels of Hopper alone.
    file(GLOB hopper CONFIGURE_DEPENDS ${folder}/sm90/*.cu)
    add_library(sluice_cuda_sm90 OBJECT ${hopper})
    target_compile_options(sluice_cuda_sm90 PRIVATE ${SLUICE_HOPPER_FLAGS})
    target_link_libraries(sluice_cuda_sm90 PRIVATE sluice_kernels)
    target_sources(sluice_cuda PRIVATE $<TARGET_OBJECTS:sluice_cuda_sm90>)
    target_link_libraries(sluice_cuda PUBLIC sluice_kernels PRIVATE cudart-static)
  else()
    add_library(sluice_cuda STATIC ${folder}/runtime/absent.cc ${folder}/runtime/backend.cc)
    target_link_libraries(sluice_cuda PUBLIC sluice_kernels)
  endif()
endfunction()
