# The CPU's kernels for each instruction set (src/kernels/cpu/target.h). A target is a folder of src/kernels/cpu with flags
# of its own and becomes an object library, sluice_kernels_TARGET: the sources in its folder, and every *.isa.cc of
# src/kernels/cpu that begins with "// Compiled for A, B and C." and names it. Nothing else in the tree may use the
# instructions, and only sluice_kernels has these objects.
set(isa_flags_avx2 -mavx2 -mfma -mf16c -mbmi2)
set(isa_flags_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512cd -mfma -mf16c -mbmi2 -mprefer-vector-width=512)

# Name, the folder whose vectors it has, the words of /proc/cpuinfo by which a sanitizer knows that it runs here; flags
# beyond those of the vectors.
set(SLUICE_ISA_SOURCES "(/kernels/cpu/avx[^/]*/|[.]isa[.]cc$)")
set(SLUICE_ISAS
  "avx2 avx2 avx2"
  "avx2_vnni avx2 avx_vnni -mavxvnni"
  "avx512 avx512 avx512bw"
  "avx512_vnni avx512 avx512_vnni -mavx512vnni"
  "avx512vbmi avx512 avx512vbmi -mavx512vbmi"
  "avx512vbmi_vnni avx512 avx512vbmi -mavx512vbmi -mavx512vnni"
  "avx512_bf16 avx512 avx512_bf16 -mavx512vbmi -mavx512bf16"
  "avx512_amx avx512 amx_int8 -mavx512vbmi -mavx512vnni -mamx-tile -mamx-int8"
)

# sluice_isa_kernels(DEPENDS ...): the object libraries, as parts of sluice_kernels.
function(sluice_isa_kernels)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  file(GLOB shared CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/kernels/cpu/*.isa.cc
    ${CMAKE_SOURCE_DIR}/src/kernels/cpu/linear/*.isa.cc ${CMAKE_SOURCE_DIR}/src/kernels/cpu/attention/*.isa.cc)
  foreach(isa ${SLUICE_ISAS})
    separate_arguments(flags UNIX_COMMAND "${isa}")
    list(POP_FRONT flags isa vectors word)
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/kernels/cpu/${isa}/*.cc)
    foreach(source ${shared})
      file(STRINGS ${source} line LIMIT_COUNT 1)
      if(NOT line MATCHES "^// Compiled for ([a-z0-9_, ]+)[.]$")
        message(FATAL_ERROR "${source}: its first line names no instruction sets")
      endif()
      string(REGEX REPLACE ",? and |, " ";" isas "${CMAKE_MATCH_1}")
      if(isa IN_LIST isas)
        list(APPEND sources ${source})
      endif()
    endforeach()
    add_library(sluice_kernels_${isa} OBJECT ${sources})
    target_compile_options(sluice_kernels_${isa} PRIVATE ${isa_flags_${vectors}} ${flags})
    target_compile_definitions(sluice_kernels_${isa} PRIVATE SLUICE_ISA=${isa} SLUICE_VECTORS=${vectors})
    target_link_libraries(sluice_kernels_${isa} PRIVATE ${ARG_DEPENDS})
    if(SLUICE_SANITIZE)
      sluice_sanitize_kernels(sluice_kernels_${isa} ${word})
    elseif(CMAKE_BUILD_TYPE STREQUAL "Release")
      target_compile_options(sluice_kernels_${isa} PRIVATE -O3)
    endif()
    target_sources(sluice_kernels PRIVATE $<TARGET_OBJECTS:sluice_kernels_${isa}>)
  endforeach()
endfunction()
