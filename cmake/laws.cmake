# The tests that prove each law of docs/guarantees.md, as ctest labels: `ctest -L row-law` runs those of one law.
set(SLUICE_LAW_TESTS
  "row-law: laws laws_few kernels model verify engine engine_later schedules ranks ranks_every evaluations verify_command"
  "sampling-law: kernels engine engine_later schedules server_sampling"
  "score-law: engine engine_later server_scores"
  "export-law: laws engine"
  "state-law: laws model cache"
  "conservation: laws cache engine soak soak_later"
  "progress: sched soak"
)

# sluice_label_laws(): labels the tests above that the current folder has added; `LAST` checks that every one is there.
function(sluice_label_laws)
  foreach(line ${SLUICE_LAW_TESTS})
    string(REGEX MATCH "^([a-z-]+): (.*)$" matched "${line}")
    set(law ${CMAKE_MATCH_1})
    string(REPLACE " " ";" tests "${CMAKE_MATCH_2}")
    foreach(test ${tests})
      if(TEST ${test})
        set_property(TEST ${test} APPEND PROPERTY LABELS ${law})
        set_property(GLOBAL APPEND PROPERTY SLUICE_LABELLED ${test})
      endif()
      get_property(labelled GLOBAL PROPERTY SLUICE_LABELLED)
      if("LAST" IN_LIST ARGN AND NOT test IN_LIST labelled)
        message(FATAL_ERROR "cmake/laws.cmake: ${law} names the test ${test}, which does not exist")
      endif()
    endforeach()
  endforeach()
endfunction()
