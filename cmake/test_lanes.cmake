# The sanitizer lanes. `./run test --asan` builds the target lane_asan and runs the tests labelled asan; tsan likewise.
# A layer's tests join the lanes that name the layer here; tests elsewhere join by calling sluice_test_lanes.
set(SLUICE_ASAN_LAYERS base files hub config jinja text grammar kernels cache sched engine verify serve)
set(SLUICE_TSAN_LAYERS base engine serve)  # the others have no threads of their own; of the laws the lane has laws_few

add_custom_target(lane_asan)
add_custom_target(lane_tsan)

# sluice_test_lanes(TEST LANES asan|tsan... [TARGETS target...]): the ctest test TEST, which needs TARGETS, joins the lanes.
function(sluice_test_lanes TEST)
  cmake_parse_arguments(ARG "" "" "LANES;TARGETS" ${ARGN})
  set_property(TEST ${TEST} APPEND PROPERTY LABELS ${ARG_LANES})
  foreach(lane ${ARG_LANES})
    foreach(target ${ARG_TARGETS})
      add_dependencies(lane_${lane} ${target})
    endforeach()
  endforeach()
endfunction()

# Tests that take long for what they find between two commits have the label `long`: `./run test --all` and .ci/run run
# them, and `./run test` does not. In the sanitizer lanes they are others: their code is what other tests of the lane run.
if(SLUICE_SANITIZE)
  set(SLUICE_LONG_TESTS cli synth printed_reports engine_later)
else()
  set(SLUICE_LONG_TESTS laws tokenizer_families tokenizer_agreement gguf_tokenizers evaluations known_models schedules
    verify_command engine_later soak_later mtp_acceptance synth clients
    ranks_every)
endif()

# sluice_label_long(): labels the tests above that the current folder has added.
function(sluice_label_long)
  foreach(test ${SLUICE_LONG_TESTS})
    if(TEST ${test})
      set_property(TEST ${test} APPEND PROPERTY LABELS long)
    endif()
  endforeach()
endfunction()

# sluice_sanitize(): everything is instrumented, but for libraries with the property SLUICE_AS_RELEASED; with the
# library's own bounds checks and SLUICE_DCHECK. -Og takes half of the time that -O1 takes to compile.
macro(sluice_sanitize)
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "${CMAKE_CXX_FLAGS_RELEASE}")
  string(JOIN ";" flags -fsanitize=${SLUICE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -Og -g1 -UNDEBUG
    -D_GLIBCXX_ASSERTIONS)
  add_compile_options("$<$<NOT:$<BOOL:$<TARGET_PROPERTY:SLUICE_AS_RELEASED>>>:${flags}>")
  add_link_options(-fsanitize=${SLUICE_SANITIZE})
endmacro()

# sluice_sanitize_kernels(TARGET WORD): how a sanitizer sees the objects of an instruction set (cmake/isa.cmake), which a
# machine has whose /proc/cpuinfo has WORD. In them everything is inlined, so they are most of what a lane costs.
#   - What this machine cannot run, and with the thread sanitizer all of them (threads meet in src/base and src/engine, not
#     in a kernel), is compiled as in the release build, whose objects ccache has.
#   - The others go without checks that make them take four times as long, and that find what the address sanitizer finds
#     at the access: of null pointers, of address arithmetic, of variables out of scope.
function(sluice_sanitize_kernels TARGET WORD)
  set(processor "")
  if(EXISTS /proc/cpuinfo)
    file(STRINGS /proc/cpuinfo processor LIMIT_COUNT 1 REGEX "^flags")
  endif()
  if(SLUICE_SANITIZE STREQUAL "thread" OR NOT "${processor} " MATCHES " ${WORD} ")
    set_target_properties(${TARGET} PROPERTIES SLUICE_AS_RELEASED ON)
    target_compile_options(${TARGET} PRIVATE -O3)
  else()
    target_compile_options(${TARGET} PRIVATE -O1 -fno-sanitize=null,pointer-overflow -fno-sanitize-address-use-after-scope)
  endif()
endfunction()
