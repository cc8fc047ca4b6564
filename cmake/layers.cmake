# sluice_layer(NAME DEPENDS ...): src/NAME becomes the static library sluice_NAME from every *.cc below it except tests,
# and its *_test.cc files, with the *_testing.cc that several of them share, become one test program NAME_test.
# A new file needs no line anywhere.

# sluice_group(RESULT NAME SOURCES...): the sources, all below src/ or cli/, in groups (SLUICE_UNITY): neighbours in the
# order of their paths are included by one generated file each, as a single translation unit, since headers and what the
# compiler makes of them are most of the cost of a file alone. Groups are small enough that a changed file costs seconds; larger in the
# sanitizer lanes, which are mostly built whole. A source stays alone if it is listed here.
# Unnamed namespaces in a group are one: a clash of names is mended by a better name, or by this list.
set(SLUICE_GROUP_BYTES 70000)
if(SLUICE_SANITIZE)
  set(SLUICE_GROUP_BYTES 140000)
endif()
set(SLUICE_ALONE
  base/fmt_compiled                        # {fmt} whole
  net/asio_compiled                       # Asio and Beast whole
  net/http_client                         # templates of Asio and Beast
  base/sha256                              # OpenSSL stays out of programs that hash nothing
  net/tls                                 # ... and speak no TLS
  text/chat/deepseek_v32_chat text/chat/deepseek_v4_chat config/gguf/gguf_deepseek2 config/gguf/gguf_deepseek4 config/gguf/gguf_llama
)                                          # families: the same functions by the same names
function(sluice_group RESULT NAME)
  set(sources ${ARGN})
  if(NOT SLUICE_UNITY)
    set(${RESULT} ${sources} PARENT_SCOPE)
    return()
  endif()
  list(SORT sources)
  set(units)
  set(group 0)
  set(bytes 0)
  set(last_folder "")
  foreach(source ${sources})
    get_filename_component(folder ${source} DIRECTORY)
    string(REGEX REPLACE "^${CMAKE_SOURCE_DIR}/(src/)?(.*)[.]cc$" "\\2" name ${source})
    if(name IN_LIST SLUICE_ALONE)
      list(APPEND units ${source})
      continue()
    endif()
    file(SIZE ${source} size)
    math(EXPR bytes "${bytes} + ${size}")
    # A folder begins a group of its own where the one before has filled half of one; and so do families, which have the
    # same functions by the same names.
    math(EXPR half "(${bytes} - ${size}) * 2")
    if(bytes GREATER SLUICE_GROUP_BYTES OR last_folder STREQUAL "" OR
       (NOT folder STREQUAL last_folder AND
        (half GREATER SLUICE_GROUP_BYTES OR folder MATCHES "/src/model/" OR folder MATCHES "/src/kernels/ref")))
      math(EXPR group "${group} + 1")
      set(bytes ${size})
      set(text_${group} "")
    endif()
    set(last_folder ${folder})
    string(APPEND text_${group} "#include \"${name}.cc\"\n")
  endforeach()
  while(group GREATER 0)
    set(unit ${CMAKE_BINARY_DIR}/groups/${NAME}_${group}.cc)
    file(CONFIGURE OUTPUT ${unit} CONTENT "${text_${group}}" @ONLY)
    list(APPEND units ${unit})
    math(EXPR group "${group} - 1")
  endwhile()
  set(${RESULT} ${units} PARENT_SCOPE)
endfunction()

# sluice_test_program(TARGET): what all programs of GoogleTest have in common.
function(sluice_test_program TARGET)
  target_link_libraries(${TARGET} PRIVATE test_paths GTest::gmock GTest::gtest_main)
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    target_compile_options(${TARGET} PRIVATE -O1)
  elseif(SLUICE_SANITIZE MATCHES undefined)
    # In a test's own code these find what the address sanitizer finds at the access.
    target_compile_options(${TARGET} PRIVATE -fno-sanitize=null,pointer-overflow)
  endif()
endfunction()

# sluice_layer(NAME DEPENDS library... [TEST_DATA]): with TEST_DATA its tests read cmake/test_data.cmake's.
function(sluice_layer NAME)
  cmake_parse_arguments(ARG "TEST_DATA" "" "DEPENDS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${NAME}/*.cc)
  list(FILTER sources EXCLUDE REGEX "/kernels/cuda/runtime/")  # cmake/cuda.cmake
  list(FILTER sources EXCLUDE REGEX "${SLUICE_ISA_SOURCES}")  # cmake/isa.cmake
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_(test|fuzz|testing)\\.cc$")
  list(FILTER tests INCLUDE REGEX "_(test|testing)\\.cc$")
  if(sources)
    sluice_group(units ${NAME} ${sources})
    add_library(sluice_${NAME} STATIC ${units})
    target_link_libraries(sluice_${NAME} PUBLIC ${ARG_DEPENDS})
  else()
    add_library(sluice_${NAME} INTERFACE)
    target_link_libraries(sluice_${NAME} INTERFACE ${ARG_DEPENDS})
  endif()
  if(SLUICE_BUILD_TESTS AND tests)
    sluice_group(units ${NAME}_test ${tests})
    add_executable(${NAME}_test ${units})
    sluice_test_program(${NAME}_test)
    target_link_libraries(${NAME}_test PRIVATE sluice_${NAME})
    if(ARG_TEST_DATA)
      add_dependencies(${NAME}_test test_data)
    endif()
    add_test(NAME ${NAME} COMMAND ${NAME}_test --gtest_brief=1)
    if(NOT SLUICE_SANITIZE)
      set_tests_properties(${NAME} PROPERTIES TIMEOUT 600)  # one that hangs; the lanes have CTest's 1500
    endif()
    foreach(lane asan tsan)
      string(TOUPPER SLUICE_${lane}_LAYERS layers)
      if(NAME IN_LIST ${layers})
        sluice_test_lanes(${NAME} LANES ${lane} TARGETS ${NAME}_test)
      endif()
    endforeach()
  endif()
endfunction()
