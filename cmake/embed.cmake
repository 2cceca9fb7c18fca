# Writes a C file that holds files byte for byte (src/serve/web_files.h), with the media type of
# their names and a tag of their content:
#
#   cmake -D "DIRECTORY=..." -D "NAMES=index.html,style.css" -D "OUTPUT=..." -P cmake/embed.cmake
#
# It needs nothing but CMake, and the same files give the same output on every machine.
set(media_html "text/html; charset=utf-8")
set(media_css "text/css; charset=utf-8")
set(media_js "text/javascript; charset=utf-8")
set(media_svg "image/svg+xml")

string(REPLACE "," ";" names "${NAMES}")
set(arrays "")
set(rows "")
set(i 0)
foreach(name ${names})
  string(REGEX REPLACE ".*\\." "" kind "${name}")
  if(NOT DEFINED media_${kind})
    message(FATAL_ERROR "${name}: expected a file whose media type is known, found .${kind}")
  endif()
  file(READ "${DIRECTORY}/${name}" bytes HEX)
  file(SHA256 "${DIRECTORY}/${name}" hash)
  string(LENGTH "${bytes}" digits)
  if(digits EQUAL 0)
    message(FATAL_ERROR "${name}: expected content, found none")
  endif()
  math(EXPR size "${digits} / 2")
  string(SUBSTRING "${hash}" 0 32 tag)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(APPEND arrays "static const unsigned char file_${i}[${size}] = {${bytes}};\n")
  string(APPEND rows "    {\"${name}\", \"${media_${kind}}\", \"\\\"${tag}\\\"\", file_${i}, ${size}},\n")
  math(EXPR i "${i} + 1")
endforeach()
file(WRITE "${OUTPUT}"
  "/* Made by cmake/embed.cmake. */\n#include \"serve/web_files.h\"\n\n${arrays}\n"
  "const web_file web_files[] = {\n${rows}};\nconst size_t   n_web_files = ${i};\n")
