# Reference data of the tests is kept compressed, and unpacked into the build folder. SLUICE_TEST_DATA is where; the target
# test_data makes it.
set(SLUICE_TEST_DATA ${CMAKE_BINARY_DIR}/test-data)
set(stamps)

# sluice_unpack(KIND ARCHIVE [ARGUMENTS]): tests/KIND/ARCHIVE there; the arguments are further ones of the rule.
function(sluice_unpack KIND ARCHIVE)
  get_filename_component(name ${ARCHIVE} NAME)
  set(stamp ${SLUICE_TEST_DATA}/${KIND}/${name}.unpacked)
  add_custom_command(OUTPUT ${stamp}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${SLUICE_TEST_DATA}/${KIND}
    COMMAND ${CMAKE_COMMAND} -E chdir ${SLUICE_TEST_DATA}/${KIND} ${CMAKE_COMMAND} -E tar xf ${ARCHIVE}
    ${ARGN}
    COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
    DEPENDS ${ARCHIVE} VERBATIM)
  set(stamps ${stamps} ${stamp} PARENT_SCOPE)
endfunction()

file(GLOB archives CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/goldens/*.tar.xz)
foreach(archive ${archives})
  sluice_unpack(goldens ${archive})
endforeach()
file(GLOB archives CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/evals/*.tar.xz)
foreach(archive ${archives})
  sluice_unpack(evals ${archive})
endforeach()

# The weights of an oracle are not kept: tests/synth_oracle.cc makes them, beside what its archive has.
file(GLOB archives CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/oracles/*.tar.xz)
foreach(archive ${archives})
  get_filename_component(name ${archive} NAME)
  string(REPLACE .tar.xz "" name ${name})
  sluice_unpack(oracles ${archive} COMMAND synth_oracle ${SLUICE_TEST_DATA}/oracles/${name} DEPENDS synth_oracle)
endforeach()
add_custom_target(test_data DEPENDS ${stamps})
