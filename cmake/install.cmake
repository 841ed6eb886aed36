# `cmake --install` gives a CMake package and a pkg-config file.
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/twinbox")
install(TARGETS twinbox EXPORT twinbox_targets)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/twinbox" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        FILES_MATCHING PATTERN "*.hpp")
install(EXPORT twinbox_targets NAMESPACE twinbox:: DESTINATION "${package_dir}"
        FILE twinbox_targets.cmake)
# find_package(twinbox COMPONENTS event): who does not ask for a part needs none of its libraries.
foreach(part event http rabbitmq nats kafka)
  if(TARGET twinbox_${part})
    install(TARGETS twinbox_${part} EXPORT twinbox_${part}_targets)
    install(EXPORT twinbox_${part}_targets NAMESPACE twinbox:: DESTINATION "${package_dir}"
            FILE twinbox_${part}_targets.cmake)
  endif()
endforeach()

configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/twinbox-config.cmake.in"
  "${PROJECT_BINARY_DIR}/twinbox-config.cmake" INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/twinbox-config-version.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/twinbox-config.cmake"
              "${PROJECT_BINARY_DIR}/twinbox-config-version.cmake"
        DESTINATION "${package_dir}")

# A static library hands its clients on to the program; a shared one has them inside.
set(pc_requires "")
if(TWINBOX_SQLITE)
  list(APPEND pc_requires sqlite3)
endif()
if(TWINBOX_POSTGRES)
  list(APPEND pc_requires libpq)
endif()
if(TWINBOX_SQLSERVER)
  list(APPEND pc_requires odbc)
endif()
list(JOIN pc_requires ", " pc_requires)
if(BUILD_SHARED_LIBS)
  set(pc_requires_line "Requires.private: ${pc_requires}")
else()
  set(pc_requires_line "Requires: ${pc_requires}")
endif()
# Relative to the file itself, so that the installed tree can be moved.
file(RELATIVE_PATH pc_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
configure_file("${PROJECT_SOURCE_DIR}/cmake/twinbox.pc.in" "${PROJECT_BINARY_DIR}/twinbox.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/twinbox.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

if(TARGET twinbox_event)
  # Boost has no pkg-config files.
  if(BUILD_SHARED_LIBS)
    set(pc_event_requires_line "Requires: twinbox\nRequires.private: libcrypto")
    set(pc_event_libs "")
  else()
    set(pc_event_requires_line "Requires: twinbox, libcrypto")
    set(pc_event_libs " -lboost_json")
  endif()
  configure_file("${PROJECT_SOURCE_DIR}/cmake/twinbox-event.pc.in"
                 "${PROJECT_BINARY_DIR}/twinbox-event.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/twinbox-event.pc"
          DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endif()
