# Every third-party dependency is found here and nowhere else; docs/dependencies.md says why each is used.
set(Boost_USE_STATIC_LIBS ON)
set(Boost_NO_WARN_NEW_VERSIONS ON)
if(POLICY CMP0167)
  cmake_policy(SET CMP0167 NEW)  # newer CMakes leave the search to Boost's own configuration
endif()
find_package(Boost 1.81 REQUIRED COMPONENTS json)
# {fmt} by its headers alone: its targets would link a shared library, or compile {fmt} in every file
# (src/base/fmt_compiled.cc does it once).
find_path(FMT_INCLUDE fmt/format.h REQUIRED)
add_library(fmt_headers INTERFACE)
target_include_directories(fmt_headers SYSTEM INTERFACE ${FMT_INCLUDE})
find_package(CLI11 REQUIRED)
find_package(Threads REQUIRED)

find_library(PCRE2_STATIC libpcre2-8.a REQUIRED)
add_library(pcre2-8-static STATIC IMPORTED)
set_target_properties(pcre2-8-static PROPERTIES IMPORTED_LOCATION ${PCRE2_STATIC}
  INTERFACE_COMPILE_DEFINITIONS PCRE2_CODE_UNIT_WIDTH=8)

find_library(UTF8PROC_STATIC libutf8proc.a REQUIRED)
add_library(utf8proc-static STATIC IMPORTED)
set_target_properties(utf8proc-static PROPERTIES IMPORTED_LOCATION ${UTF8PROC_STATIC}
  INTERFACE_COMPILE_DEFINITIONS UTF8PROC_STATIC)

# zlib and zstd: the bodies of requests that clients compress.
find_library(ZLIB_STATIC libz.a REQUIRED)
add_library(zlib-static STATIC IMPORTED)
set_target_properties(zlib-static PROPERTIES IMPORTED_LOCATION ${ZLIB_STATIC})
find_library(ZSTD_STATIC libzstd.a REQUIRED)
add_library(zstd-static STATIC IMPORTED)
set_target_properties(zstd-static PROPERTIES IMPORTED_LOCATION ${ZSTD_STATIC})

# OpenSSL: libcrypto for SHA-256 of the keys of cached blocks, libssl for TLS. Some
# systems build it with zlib and zstd.
find_library(CRYPTO_STATIC libcrypto.a REQUIRED)
add_library(crypto-static STATIC IMPORTED)
set_target_properties(crypto-static PROPERTIES IMPORTED_LOCATION ${CRYPTO_STATIC}
  INTERFACE_LINK_LIBRARIES "zlib-static;zstd-static;Threads::Threads;${CMAKE_DL_LIBS}")

find_library(SSL_STATIC libssl.a REQUIRED)
add_library(ssl-static STATIC IMPORTED)
set_target_properties(ssl-static PROPERTIES IMPORTED_LOCATION ${SSL_STATIC} INTERFACE_LINK_LIBRARIES crypto-static)

# AUTO: the tests are built where GoogleTest is installed, so that the program alone needs none of it.
if(SLUICE_TESTS STREQUAL "AUTO")
  find_package(GTest QUIET)
  set(SLUICE_BUILD_TESTS ${GTest_FOUND})
elseif(SLUICE_TESTS)
  find_package(GTest REQUIRED)
  set(SLUICE_BUILD_TESTS ON)
else()
  set(SLUICE_BUILD_TESTS OFF)
endif()
