# The two libraries that are installed, made from the rooms' objects.  Both show
# the names of include/weir and no others; tools/check-exports holds them to that.

set(objects)
foreach(room ${room_targets})
  list(APPEND objects $<TARGET_OBJECTS:${room}>)
endforeach()

add_library(weir_shared SHARED ${objects})
set_target_properties(weir_shared PROPERTIES OUTPUT_NAME weir VERSION ${PROJECT_VERSION}
                                             SOVERSION ${PROJECT_VERSION_MAJOR} LINKER_LANGUAGE C)
target_link_libraries(weir_shared PRIVATE ${libraries})

# An archive has no hidden symbols of its own: internal names would meet the
# user's.  So all objects become one, and what is hidden in it becomes local.
set(archive ${CMAKE_CURRENT_BINARY_DIR}/libweir.a)
add_custom_command(
  OUTPUT ${archive}
  COMMAND ${CMAKE_LINKER} -r -o weir.o ${objects}
  COMMAND ${CMAKE_OBJCOPY} --localize-hidden weir.o
  COMMAND ${CMAKE_COMMAND} -E rm -f ${archive}
  COMMAND ${CMAKE_AR} rcs ${archive} weir.o
  DEPENDS ${room_targets} ${objects}
  COMMAND_EXPAND_LISTS
  COMMENT "Linking libweir.a"
  VERBATIM)
add_custom_target(weir_static ALL DEPENDS ${archive})
