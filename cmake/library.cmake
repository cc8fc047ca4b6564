# The library for other programs: the headers of include/sluice, one archive of the layers that the engine needs, and what
# find_package(sluice) reads. `cmake --install` has them as the component "development"; the Debian package does not.
set(library ${CMAKE_BINARY_DIR}/libsluice.a)
set(layers sluice_base sluice_files sluice_config sluice_kernels sluice_model sluice_cache sluice_sched sluice_engine sluice_cuda)
set(script "CREATE ${library}\n")
foreach(layer ${layers})
  string(APPEND script "ADDLIB $<TARGET_FILE:${layer}>\n")
endforeach()
file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/libsluice.mri CONTENT "${script}SAVE\nEND\n")
add_custom_command(OUTPUT ${library} DEPENDS ${layers} VERBATIM COMMENT "Joining ${library}"
  COMMAND sh -c "rm -f ${library} && ${CMAKE_AR} -M < ${CMAKE_BINARY_DIR}/libsluice.mri")
add_custom_target(library ALL DEPENDS ${library})

set(SLUICE_CONFIG_LIBRARIES "Threads::Threads;Boost::json;OpenSSL::Crypto;${CMAKE_DL_LIBS}")
if(SLUICE_HAS_CUDA)
  list(APPEND SLUICE_CONFIG_LIBRARIES ${SLUICE_CUDART} rt)
endif()
include(CMakePackageConfigHelpers)
set(package lib/cmake/sluice)
configure_package_config_file(cmake/sluice-config.cmake.in ${CMAKE_BINARY_DIR}/sluice-config.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/sluice-config-version.cmake COMPATIBILITY SameMinorVersion)
install(DIRECTORY include/sluice DESTINATION include COMPONENT development)
install(FILES ${CMAKE_BINARY_DIR}/sluice-config.cmake ${CMAKE_BINARY_DIR}/sluice-config-version.cmake
  DESTINATION ${package} COMPONENT development)
install(FILES ${library} DESTINATION lib COMPONENT development OPTIONAL)  # where only the program was built there is none
