# sluice_version_header(): the target sluice_version writes generated/sluice_version.h in the build tree with the strings
# SLUICE_VERSION and SLUICE_COMMIT (unknown outside a git checkout; "+" after it: the tree had changes). It looks at every
# build and touches the header only when it differs, so that a commit recompiles only the one file that includes it.
if(CMAKE_SCRIPT_MODE_FILE)
  cmake_minimum_required(VERSION 3.25)
  set(commit unknown)
  if(EXISTS ${SOURCE_DIR}/.git)
    execute_process(COMMAND git -C ${SOURCE_DIR} describe --always --abbrev=12 --exclude=* --dirty=+
      OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
    if(NOT failed)
      set(commit ${described})
    elseif(EXISTS ${SOURCE_DIR}/.git/HEAD)  # no git here: the commit without a look at the tree
      file(STRINGS ${SOURCE_DIR}/.git/HEAD head LIMIT_COUNT 1)
      if(head MATCHES "^ref: (.*)" AND EXISTS ${SOURCE_DIR}/.git/${CMAKE_MATCH_1})
        file(STRINGS ${SOURCE_DIR}/.git/${CMAKE_MATCH_1} head LIMIT_COUNT 1)
      endif()
      if(head MATCHES "^[0-9a-f]+$")
        string(SUBSTRING ${head} 0 12 commit)
      endif()
    endif()
  endif()
  file(CONFIGURE OUTPUT ${HEADER} @ONLY CONTENT [=[
// Written by cmake/version.cmake.
#pragma once

#define SLUICE_VERSION "@VERSION@"
#define SLUICE_COMMIT "@commit@"
]=])
  return()
endif()

function(sluice_version_header)
  set(header ${CMAKE_BINARY_DIR}/generated/sluice_version.h)
  add_custom_target(sluice_version BYPRODUCTS ${header} COMMENT "" VERBATIM
    COMMAND ${CMAKE_COMMAND} -D SOURCE_DIR=${CMAKE_SOURCE_DIR} -D VERSION=${PROJECT_VERSION} -D HEADER=${header}
      -P ${CMAKE_SOURCE_DIR}/cmake/version.cmake)
endfunction()
