# The package of `./run package`: `cpack -G DEB` in the build folder puts what stands here into sluice_VERSION_ARCH.deb. The
# program needs libc alone, so it installs on Debian 12 and what came after.
set(manual ${CMAKE_BINARY_DIR}/manual)
set(commands serve run chat pull list rm logits eval score inspect verify kernels synth simulate bench man completion api)
set(pages ${manual}/man1/sluice.1.gz)
add_custom_command(OUTPUT ${manual}/man1/sluice.1.gz DEPENDS sluice VERBATIM
  COMMAND ${CMAKE_COMMAND} -E make_directory ${manual}/man1 ${manual}/completion
  COMMAND sh -c "$<TARGET_FILE:sluice> man | gzip -9n > ${manual}/man1/sluice.1.gz")
foreach(command ${commands})
  set(page ${manual}/man1/sluice-${command}.1.gz)
  list(APPEND pages ${page})
  add_custom_command(OUTPUT ${page} DEPENDS sluice ${manual}/man1/sluice.1.gz VERBATIM
    COMMAND sh -c "$<TARGET_FILE:sluice> man ${command} | gzip -9n > ${page}")
endforeach()
foreach(shell bash zsh fish)
  set(script ${manual}/completion/${shell})
  list(APPEND pages ${script})
  add_custom_command(OUTPUT ${script} DEPENDS sluice ${manual}/man1/sluice.1.gz VERBATIM
    COMMAND sh -c "$<TARGET_FILE:sluice> completion ${shell} > ${script}")
endforeach()
add_custom_target(manual ALL DEPENDS ${pages})

# The program looks for its default model beside its own folder: ../share/sluice/models, or ../models in a build tree.
set(CMAKE_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
install(TARGETS sluice RUNTIME DESTINATION bin)
install(DIRECTORY models/sluice-tiny-v4 DESTINATION share/sluice/models)
install(FILES LICENSE DESTINATION share/doc/sluice RENAME copyright)
install(FILES README.md CHANGELOG.md DESTINATION share/doc/sluice)
# The licences of what is linked in, as Debian has them.
string(REGEX MATCH "^[0-9]+" gcc "${CMAKE_CXX_COMPILER_VERSION}")
set(boost libboost${Boost_VERSION_MAJOR}.${Boost_VERSION_MINOR}-dev)
foreach(package ${boost} libfmt-dev libcli11-dev libpcre2-dev libutf8proc-dev libssl-dev zlib1g-dev libzstd-dev libstdc++-${gcc}-dev)
  if(EXISTS /usr/share/doc/${package}/copyright)
    install(FILES /usr/share/doc/${package}/copyright DESTINATION share/doc/sluice/third-party RENAME ${package})
  endif()
endforeach()
if(EXISTS ${CMAKE_SOURCE_DIR}/.cache/cuda/licences)
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/.cache/cuda/licences/ DESTINATION share/doc/sluice/third-party)
endif()
install(DIRECTORY ${manual}/man1 DESTINATION share/man)
install(FILES ${manual}/completion/bash DESTINATION share/bash-completion/completions RENAME sluice)
install(FILES ${manual}/completion/zsh DESTINATION share/zsh/vendor-completions RENAME _sluice)
install(FILES ${manual}/completion/fish DESTINATION share/fish/vendor_completions.d RENAME sluice.fish)
install(FILES packaging/sluice.service DESTINATION lib/systemd/system)
# For the package alone: `cmake --install` leaves /etc as it is.
install(CODE "if(DEFINED ENV{DESTDIR})
  file(INSTALL DESTINATION /etc/default TYPE FILE RENAME sluice FILES \"${CMAKE_SOURCE_DIR}/packaging/sluice.default\")
endif()")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "The Sluice authors <sluice@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "inference server for DeepSeek-family language models")
set(CPACK_PACKAGE_DESCRIPTION "Serves official checkpoints and GGUF files of DeepSeek V2, V3, V3.2 and V4 models, of Llama
and Qwen, over the OpenAI API, on CPUs and NVIDIA GPUs. What it answers does not
depend, bit by bit, on what else the server had to do. A small model is included.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_SET_DESTDIR ON)  # for /etc
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
  ${CMAKE_SOURCE_DIR}/packaging/conffiles ${CMAKE_SOURCE_DIR}/packaging/postinst ${CMAKE_SOURCE_DIR}/packaging/prerm)
set(CPACK_INSTALL_CMAKE_PROJECTS "${CMAKE_BINARY_DIR};sluice;Unspecified;/")  # without the library (cmake/library.cmake)
include(CPack)
