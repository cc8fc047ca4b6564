# Reference data of the tests is kept compressed (the tracked files stay under 50 MB) and unpacked into the build folder.
# SLUICE_TEST_DATA is where; the target test_data makes it.
set(SLUICE_TEST_DATA ${CMAKE_BINARY_DIR}/test-data)
set(stamps)
foreach(kind oracles goldens evals)
  file(GLOB archives CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/${kind}/*.tar.xz)
  foreach(archive ${archives})
    get_filename_component(name ${archive} NAME)
    set(stamp ${SLUICE_TEST_DATA}/${kind}/${name}.unpacked)
    add_custom_command(OUTPUT ${stamp}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${SLUICE_TEST_DATA}/${kind}
      COMMAND ${CMAKE_COMMAND} -E chdir ${SLUICE_TEST_DATA}/${kind} ${CMAKE_COMMAND} -E tar xf ${archive}
      COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
      DEPENDS ${archive} VERBATIM)
    list(APPEND stamps ${stamp})
  endforeach()
endforeach()
add_custom_target(test_data DEPENDS ${stamps})
