# `cmake --install` gives a CMake package and a pkg-config file.
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/twinbox")
install(TARGETS twinbox EXPORT twinbox_targets)
install(TARGETS twinbox_all EXPORT twinbox_all_targets)
install(EXPORT twinbox_all_targets NAMESPACE twinbox:: DESTINATION "${package_dir}"
        FILE twinbox_all_targets.cmake)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/twinbox" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        FILES_MATCHING PATTERN "*.hpp")
install(EXPORT twinbox_targets NAMESPACE twinbox:: DESTINATION "${package_dir}"
        FILE twinbox_targets.cmake)
# find_package(twinbox COMPONENTS event): who does not ask for a part needs none of its libraries.
foreach(part sqlite postgres sqlserver event http rabbitmq nats kafka)
  if(TARGET twinbox_${part})
    install(TARGETS twinbox_${part} EXPORT twinbox_${part}_targets)
    install(EXPORT twinbox_${part}_targets NAMESPACE twinbox:: DESTINATION "${package_dir}"
            FILE twinbox_${part}_targets.cmake)
  endif()
endforeach()

set(twinbox_databases "")
foreach(database sqlite postgres sqlserver)
  if(TARGET twinbox_${database})
    list(APPEND twinbox_databases ${database})
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

# A static library hands its clients on to the program; a shared one has them inside. Prefixes are relative to the file
# itself, so that the installed tree can be moved.
file(RELATIVE_PATH pc_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
# pc_file(<name> <description> <lines that require> <libraries>)
function(pc_file pc_name pc_description pc_requires pc_libs)
  configure_file("${PROJECT_SOURCE_DIR}/cmake/library.pc.in" "${PROJECT_BINARY_DIR}/${pc_name}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/${pc_name}.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endfunction()

pc_file(twinbox-core "${PROJECT_DESCRIPTION}, without a database" "" "-ltwinbox -pthread")
set(pc_databases "")
foreach(database "sqlite|sqlite3|SQLite" "postgres|libpq|PostgreSQL" "sqlserver|odbc|SQL Server")
  string(REPLACE "|" ";" database "${database}")
  list(GET database 0 name)
  list(GET database 1 client)
  list(GET database 2 title)
  if(TARGET twinbox_${name})
    if(BUILD_SHARED_LIBS)
      set(requires "Requires: twinbox-core\nRequires.private: ${client}")
      set(libs "-Wl,--push-state,--no-as-needed -ltwinbox_${name} -Wl,--pop-state")
    else()
      set(requires "Requires: twinbox-core, ${client}")
      set(libs "-Wl,--undefined=twinbox_${name}_driver -ltwinbox_${name}")
    endif()
    pc_file(twinbox-${name} "Twinbox on ${title}" "${requires}" "${libs}")
    list(APPEND pc_databases twinbox-${name})
  endif()
endforeach()
list(JOIN pc_databases ", " pc_databases)
pc_file(twinbox "${PROJECT_DESCRIPTION}" "Requires: ${pc_databases}" "")

if(TARGET twinbox_event)
  # Boost has no pkg-config files.
  if(BUILD_SHARED_LIBS)
    pc_file(twinbox-event "CloudEvents, the event bus and intake of Twinbox"
            "Requires: twinbox-core\nRequires.private: libcrypto" "-ltwinbox_event")
  else()
    pc_file(twinbox-event "CloudEvents, the event bus and intake of Twinbox" "Requires: twinbox-core, libcrypto"
            "-ltwinbox_event -lboost_json")
  endif()
endif()
