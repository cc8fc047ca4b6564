# Every third-party dependency is found here and nowhere else; docs/dependencies.md says why each is used.
set(Boost_USE_STATIC_LIBS ON)
find_package(Boost 1.81 EXACT REQUIRED COMPONENTS json)
find_package(fmt 9 REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(Threads REQUIRED)

find_library(PCRE2_STATIC libpcre2-8.a REQUIRED)
add_library(pcre2-8-static STATIC IMPORTED)
set_target_properties(pcre2-8-static PROPERTIES IMPORTED_LOCATION ${PCRE2_STATIC}
  INTERFACE_COMPILE_DEFINITIONS PCRE2_CODE_UNIT_WIDTH=8)

if(SLUICE_TESTS)
  find_package(GTest REQUIRED)
endif()
