# The sanitizer lanes. `./run test --asan` builds the target lane_asan and runs the tests labelled asan; tsan likewise.
# A layer's tests join the lanes that name the layer here; tests elsewhere join by calling sluice_test_lanes.
set(SLUICE_ASAN_LAYERS base formats kernels cache sched engine serve)
set(SLUICE_TSAN_LAYERS base engine serve)

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
