# The libraries: twinbox (the core, with the SQL built in), one for each kind of database, and what stands on the core.
# twinbox::twinbox is the core and every database that is built.

file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/*.cpp")
list(FILTER sources EXCLUDE REGEX "/src/(driver|crypto|http|event|intake|webhook|transport)/")

file(GLOB_RECURSE sql_files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/sql/*.sql")
set(embedded_sql "${PROJECT_BINARY_DIR}/generated/embedded_sql.cpp")
# The list is a dependency of its own, so that a file that goes away is noticed too.
set(sql_list "${PROJECT_BINARY_DIR}/generated/sql_files.txt")
string(REPLACE ";" "\n" sql_lines "${sql_files}")
file(GENERATE OUTPUT "${sql_list}" CONTENT "${sql_lines}\n")
add_custom_command(
  OUTPUT "${embedded_sql}"
  COMMAND "${CMAKE_COMMAND}" "-DSQL_DIR=${PROJECT_SOURCE_DIR}/sql" "-DSQL_LIST=${sql_list}"
          "-DOUTPUT=${embedded_sql}" -P "${PROJECT_SOURCE_DIR}/tool/embed_sql.cmake"
  DEPENDS ${sql_files} "${sql_list}" "${PROJECT_SOURCE_DIR}/tool/embed_sql.cmake"
  COMMENT "Embedding sql/"
  VERBATIM)

# library_of_ours(<target> <name behind twinbox::> <sources>)
function(library_of_ours target name sources)
  add_library(${target} ${sources})
  add_library(twinbox::${name} ALIAS ${target})
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/src")
  set_target_properties(
    ${target}
    PROPERTIES EXPORT_NAME ${name}
               VERSION "${PROJECT_VERSION}"
               SOVERSION "${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}"
               POSITION_INDEPENDENT_CODE ON)
endfunction()

library_of_ours(twinbox core "${sources};${embedded_sql}")
target_compile_features(twinbox PUBLIC cxx_std_20)
target_include_directories(
  twinbox PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
                 "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
set_source_files_properties("${PROJECT_SOURCE_DIR}/src/dispatch/worker_heartbeat.cpp"
                            PROPERTIES COMPILE_DEFINITIONS "TWINBOX_VERSION=\"${PROJECT_VERSION}\"")
target_link_libraries(twinbox PUBLIC Threads::Threads)

add_library(twinbox_all INTERFACE)
add_library(twinbox::twinbox ALIAS twinbox_all)
set_target_properties(twinbox_all PROPERTIES EXPORT_NAME twinbox)
target_link_libraries(twinbox_all INTERFACE twinbox::core)

# add_database(<name> <client library>) → twinbox::<name>. The core refers to a driver weakly, so that a program which does
# not link it does without; whoever links its library asks for it by name.
function(add_database name client)
  string(TOUPPER "TWINBOX_${name}" switch)
  if(NOT ${switch})
    return()
  endif()
  file(GLOB driver_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/driver/${name}/*.cpp")
  library_of_ours(twinbox_${name} ${name} "${driver_sources}")
  target_link_libraries(twinbox_${name} PUBLIC twinbox::core PRIVATE ${client})
  if(BUILD_SHARED_LIBS)
    target_link_options(twinbox_${name} INTERFACE "LINKER:--no-as-needed")
  else()
    target_link_options(twinbox_${name} INTERFACE "LINKER:--undefined=twinbox_${name}_driver")
  endif()
  target_link_libraries(twinbox_all INTERFACE twinbox::${name})
endfunction()
add_database(sqlite PkgConfig::sqlite3)
add_database(postgres PkgConfig::libpq)
add_database(sqlserver PkgConfig::odbc)

# What stands on it, each with its own dependencies: add_part(<name> <sources>) → twinbox::<name>.
function(add_part name sources)
  library_of_ours(twinbox_${name} ${name} "${sources}")
  target_link_libraries(twinbox_${name} PUBLIC twinbox::core)
endfunction()

if(TWINBOX_EVENT)
  file(GLOB_RECURSE event_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/crypto/*.cpp"
       "${PROJECT_SOURCE_DIR}/src/http/*.cpp" "${PROJECT_SOURCE_DIR}/src/event/*.cpp"
       "${PROJECT_SOURCE_DIR}/src/intake/*.cpp" "${PROJECT_SOURCE_DIR}/src/webhook/*.cpp")
  # What every broker needs, whichever is switched on.
  file(GLOB shared_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/transport/*.cpp")
  list(APPEND event_sources ${shared_sources})
  add_part(event "${event_sources}")
  target_link_libraries(twinbox_event PRIVATE Boost::json OpenSSL::Crypto)
endif()

if(TWINBOX_HTTP)
  file(GLOB_RECURSE http_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/transport/http/*.cpp"
       "${PROJECT_SOURCE_DIR}/src/transport/local/*.cpp")
  if(http_sources)
    add_part(http "${http_sources}")
    target_link_libraries(twinbox_http PUBLIC twinbox::event PRIVATE PkgConfig::libcurl)
  endif()
endif()

if(TWINBOX_RABBITMQ)
  file(GLOB rabbitmq_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/transport/rabbitmq/*.cpp")
  add_part(rabbitmq "${rabbitmq_sources}")
  target_link_libraries(twinbox_rabbitmq PUBLIC twinbox::event PRIVATE PkgConfig::librabbitmq)
endif()

if(TWINBOX_NATS)
  file(GLOB nats_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/transport/nats/*.cpp")
  add_part(nats "${nats_sources}")
  target_link_libraries(twinbox_nats PUBLIC twinbox::event PRIVATE PkgConfig::libnats)
endif()

if(TWINBOX_KAFKA)
  file(GLOB kafka_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/transport/kafka/*.cpp")
  add_part(kafka "${kafka_sources}")
  target_link_libraries(twinbox_kafka PUBLIC twinbox::event PRIVATE PkgConfig::libkafka)
endif()
