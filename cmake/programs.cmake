# Examples (one program per file) and the benchmark.

if(TWINBOX_BUILD_EXAMPLES)
  add_custom_target(examples)
  file(GLOB example_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/example/*.cpp")
  foreach(source IN LISTS example_sources)
    cmake_path(GET source STEM name)
    # Those about events and intake need their library.
    file(STRINGS "${source}" about_events
         REGEX "twinbox/(event|event_bus|http|intake|webhook)\\.hpp")
    if(about_events AND NOT TARGET twinbox_event)
      continue()
    endif()
    # Those about sinks need the libraries of all of them.
    file(STRINGS "${source}" about_sinks REGEX "twinbox/(sink|rabbitmq|nats|kafka)\\.hpp")
    if(about_sinks AND NOT (TARGET twinbox_http AND TARGET twinbox_rabbitmq AND TARGET twinbox_nats
                            AND TARGET twinbox_kafka))
      continue()
    endif()
    # Two show a JSON library of the caller's own.
    file(STRINGS "${source}" about_nlohmann REGEX "twinbox/nlohmann_json\\.hpp")
    find_path(NLOHMANN_JSON nlohmann/json.hpp)
    file(STRINGS "${source}" about_boost REGEX "twinbox/boost_json\\.hpp")
    # One shows a logger of the caller's own.
    file(STRINGS "${source}" about_spdlog REGEX "twinbox/spdlog\\.hpp")
    find_package(spdlog QUIET)
    if((about_nlohmann AND NOT NLOHMANN_JSON) OR (about_boost AND NOT TARGET Boost::json)
       OR (about_spdlog AND NOT spdlog_FOUND))
      continue()
    endif()
    add_executable(${name} "${source}")
    if(about_boost)
      target_link_libraries(${name} PRIVATE Boost::json)
    endif()
    if(about_spdlog)
      target_link_libraries(${name} PRIVATE spdlog::spdlog)
    endif()
    if(about_events)
      target_link_libraries(${name} PRIVATE twinbox::event)
    endif()
    if(about_sinks)
      target_link_libraries(${name} PRIVATE twinbox::http twinbox::rabbitmq twinbox::nats
                                            twinbox::kafka)
    endif()
    target_link_libraries(${name} PRIVATE twinbox::twinbox)
    # An example may show a caller's own connection.
    target_link_libraries(${name} PRIVATE $<$<BOOL:${TWINBOX_SQLITE}>:PkgConfig::sqlite3>
                                          $<$<BOOL:${TWINBOX_POSTGRES}>:PkgConfig::libpq>)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${TWINBOX_PROGRAM_DIR}")
    add_dependencies(examples ${name})
  endforeach()
endif()

file(GLOB_RECURSE bench_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/*.cpp")
foreach(broker rabbitmq nats kafka)
  if(NOT TARGET twinbox_${broker})
    list(FILTER bench_sources EXCLUDE REGEX "/broker_${broker}[^/]*$")
  endif()
endforeach()
if(TWINBOX_BUILD_BENCH AND bench_sources)
  add_executable(twinbox_bench ${bench_sources})
  target_include_directories(twinbox_bench PRIVATE "${PROJECT_SOURCE_DIR}/src"
                                                   "${PROJECT_SOURCE_DIR}/bench")
  target_link_libraries(twinbox_bench PRIVATE twinbox::twinbox PkgConfig::sqlite3 PkgConfig::libpq
                                              PkgConfig::libcurl)
  foreach(broker rabbitmq nats kafka)
    string(TOUPPER "TWINBOX_${broker}" switch)
    target_compile_definitions(twinbox_bench PRIVATE "${switch}=$<BOOL:${${switch}}>")
    if(TARGET twinbox_${broker})
      target_link_libraries(twinbox_bench PRIVATE twinbox::${broker} PkgConfig::lib${broker})
    endif()
  endforeach()
  set_target_properties(twinbox_bench PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${TWINBOX_PROGRAM_DIR}")
endif()
