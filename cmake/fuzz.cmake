# One libFuzzer program for each fuzz/*_fuzz.cc, run for a few seconds by ctest. It links the rooms
# that read what strangers wrote.
# SPDX-License-Identifier: Apache-2.0
set(RIDGE_FUZZ_SECONDS 5 CACHE STRING "how long each fuzz target runs under ctest")
enable_testing()
add_custom_target(fuzzers)
file(GLOB fuzz_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/fuzz/*_fuzz.cc)
foreach(source ${fuzz_sources})
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE ridge_program ridge_text)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  add_dependencies(fuzzers ${name})
  set(found ${CMAKE_BINARY_DIR}/${name}_found)
  file(MAKE_DIRECTORY ${found})
  add_test(NAME fuzz.${name}
    COMMAND ${name} -max_total_time=${RIDGE_FUZZ_SECONDS} -timeout=10 -rss_limit_mb=2048
            -print_final_stats=1 ${found})
  set_tests_properties(fuzz.${name} PROPERTIES LABELS fuzz)
endforeach()
