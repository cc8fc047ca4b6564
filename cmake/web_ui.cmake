# sluice_web_ui(TARGET): adds to the library the files of src/web_ui/files as bytes, plain and gzip'ed, with their names, types
# and tags (src/web_ui/web_ui.h). As a script it writes that source: OUTPUT from the files in FOLDER.
if(CMAKE_SCRIPT_MODE_FILE)
  cmake_minimum_required(VERSION 3.25)
  file(GLOB files RELATIVE ${FOLDER} ${FOLDER}/*)
  list(SORT files)
  set(arrays "")
  set(table "")
  set(count 0)
  foreach(file ${files})
    execute_process(COMMAND gzip -9nc ${FOLDER}/${file} OUTPUT_FILE ${OUTPUT}.gz COMMAND_ERROR_IS_FATAL ANY)
    foreach(form plain gzip)
      if(form STREQUAL plain)
        file(READ ${FOLDER}/${file} bytes HEX)
      else()
        file(READ ${OUTPUT}.gz bytes HEX)
      endif()
      string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
      string(APPEND arrays "constexpr unsigned char ${form}_${count}[] = {${bytes}};\n")
    endforeach()
    file(SHA256 ${FOLDER}/${file} tag)
    string(SUBSTRING ${tag} 0 16 tag)
    string(APPEND table "    {\"${file}\", \"${tag}\", bytes_of(plain_${count}), bytes_of(gzip_${count})},\n")
    math(EXPR count "${count} + 1")
  endforeach()
  file(REMOVE ${OUTPUT}.gz)
  file(WRITE ${OUTPUT} "// Written by cmake/web_ui.cmake.
#include \"web_ui/web_ui.h\"

namespace sluice {
namespace {

template <std::size_t N>
std::string_view bytes_of(const unsigned char (&bytes)[N]) {
  return {reinterpret_cast<const char*>(bytes), N};
}

${arrays}
}  // namespace

std::span<const PageFile> page_files() {
  static const PageFile files[] = {
${table}  };
  return files;
}

}  // namespace sluice
")
  return()
endif()

function(sluice_web_ui TARGET)
  set(folder ${CMAKE_SOURCE_DIR}/src/web_ui/files)
  set(output ${CMAKE_BINARY_DIR}/generated/page_files.cc)
  file(GLOB files CONFIGURE_DEPENDS ${folder}/*)
  add_custom_command(OUTPUT ${output} DEPENDS ${files} ${CMAKE_SOURCE_DIR}/cmake/web_ui.cmake VERBATIM
    COMMENT "Packing the page"
    COMMAND ${CMAKE_COMMAND} -D FOLDER=${folder} -D OUTPUT=${output} -P ${CMAKE_SOURCE_DIR}/cmake/web_ui.cmake)
  target_sources(${TARGET} PRIVATE ${output})
  add_custom_target(page_files DEPENDS ${output})
  add_dependencies(generated_sources page_files)
endfunction()
