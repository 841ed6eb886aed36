# Sets dashboard_source: the generated file that holds the page, or one without a page.
#
# Vite wants node_modules next to the sources. They are copied into the build folder, so that the source folder stays
# clean; a package-lock.json that has not changed is not installed again.

option(TWINBOX_DASHBOARD "The page of the daemon (Node.js 18 or newer, npm)" ON)
set(dashboard_source "${CMAKE_CURRENT_BINARY_DIR}/dashboard_bundle.cpp")

set(with_dashboard ${TWINBOX_DASHBOARD})
if(TWINBOX_DASHBOARD)
  find_program(NODE NAMES node nodejs)
  find_program(NPM npm)
  if(NOT NODE OR NOT NPM)
    message(STATUS "node or npm is missing: the daemon is built without its dashboard")
    set(with_dashboard OFF)
  endif()
endif()

if(with_dashboard)
  set(web_source "${CMAKE_CURRENT_SOURCE_DIR}/dashboard/web")
  set(web_build "${CMAKE_CURRENT_BINARY_DIR}/web")
  file(GLOB_RECURSE web_files CONFIGURE_DEPENDS "${web_source}/*")
  list(FILTER web_files EXCLUDE REGEX "/(node_modules|dist)/")
  add_custom_command(
    OUTPUT "${dashboard_source}"
    COMMAND "${CMAKE_CURRENT_SOURCE_DIR}/dashboard/build" "${web_source}" "${web_build}" "${dashboard_source}"
    DEPENDS ${web_files} "${web_source}/.npmrc" "${CMAKE_CURRENT_SOURCE_DIR}/dashboard/build"
    COMMENT "Building the dashboard"
    VERBATIM)
else()
  file(CONFIGURE OUTPUT "${dashboard_source}" @ONLY
       CONTENT "#include \"dashboard/bundle.hpp\"
std::span<const twinbox::app::Asset> twinbox::app::dashboard_assets() { return {}; }
")
endif()
