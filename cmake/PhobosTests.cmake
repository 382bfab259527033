# How tests are declared. Labels: unit, golden, diag, run, integration, fuzz, bench, long.

# phobos_unit_test(name SOURCES a_test.c ... LIBS phobos_frontend ...): one libcheck executable.
function(phobos_unit_test name)
    cmake_parse_arguments(PARSE_ARGV 1 test "" "" "SOURCES;LIBS")
    add_executable(${name} ${test_SOURCES})
    target_link_libraries(${name} PRIVATE phobos_options ${test_LIBS} PkgConfig::CHECK Threads::Threads)
    add_test(NAME unit/${name} COMMAND ${name})
    set_tests_properties(unit/${name} PROPERTIES LABELS unit TIMEOUT 120)
endfunction()
