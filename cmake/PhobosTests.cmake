# How tests are declared. Labels: unit, golden, diag, run, integration, fuzz, sim, maths, foreign, bench; long for what `build.sh test` leaves out without --long; threads
# for what also runs under ThreadSanitizer.

# phobos_unit_test(name [THREADS] SOURCES a_test.c ... LIBS phobos_frontend ...): one libcheck executable; THREADS where what it tests has some.
function(phobos_unit_test name)
    cmake_parse_arguments(PARSE_ARGV 1 test "THREADS" "" "SOURCES;LIBS")
    add_executable(${name} ${test_SOURCES})
    target_link_libraries(${name} PRIVATE phobos_options ${test_LIBS} PkgConfig::CHECK Threads::Threads)
    add_test(NAME unit/${name} COMMAND ${name})
    set(labels unit)
    if(test_THREADS)
        list(APPEND labels threads)
        set_property(GLOBAL APPEND PROPERTY PHOBOS_THREAD_TESTS ${name})
    endif()
    set_tests_properties(unit/${name} PROPERTIES LABELS "${labels}" TIMEOUT 600)
endfunction()

# phobos_fuzz_test(name SOURCES name_fuzz.c ... [MUTATOR file.c] LIBS ...): the sources define LLVMFuzzerTestOneInput. The test replays
# tests/fuzz/corpus/<name> and small changes of its files. Where the build is one for fuzzing, <name>_libfuzzer or <name>_afl is the fuzzer itself; the
# former changes inputs as MUTATOR does.
function(phobos_fuzz_test name)
    cmake_parse_arguments(PARSE_ARGV 1 test "" "MUTATOR" "SOURCES;LIBS")
    add_executable(${name} ${test_SOURCES} ${PROJECT_SOURCE_DIR}/tests/fuzz/replay_main.c)
    target_link_libraries(${name} PRIVATE phobos_options ${test_LIBS} Threads::Threads)
    add_test(NAME fuzz/${name} COMMAND ${name} ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name})
    set_tests_properties(fuzz/${name} PROPERTIES LABELS fuzz TIMEOUT 120)
    if(PHOBOS_FUZZ)
        add_executable(${name}_${PHOBOS_FUZZ} ${test_SOURCES})
        if(PHOBOS_FUZZ STREQUAL libfuzzer)
            target_sources(${name}_${PHOBOS_FUZZ} PRIVATE ${test_MUTATOR})
        endif()
        target_link_options(${name}_${PHOBOS_FUZZ} PRIVATE -fsanitize=fuzzer)
        target_link_libraries(${name}_${PHOBOS_FUZZ} PRIVATE phobos_options ${test_LIBS} Threads::Threads)
        add_dependencies(fuzzers ${name}_${PHOBOS_FUZZ})
    endif()
endfunction()

# phobos_script_test(name [THREADS target...] LABEL label COMMAND ...): a script or program that fails by its exit code; 77 means that something it needs is
# absent. THREADS: it also runs under ThreadSanitizer, with these targets built.
function(phobos_script_test name)
    cmake_parse_arguments(PARSE_ARGV 1 test "" "LABEL;TIMEOUT" "COMMAND;THREADS")
    if(NOT test_TIMEOUT)
        set(test_TIMEOUT 300)
    endif()
    add_test(NAME ${test_LABEL}/${name} COMMAND ${test_COMMAND})
    set(labels ${test_LABEL})
    if(test_THREADS)
        list(APPEND labels threads)
        set_property(GLOBAL APPEND PROPERTY PHOBOS_THREAD_TESTS ${test_THREADS})
    endif()
    set_tests_properties(${test_LABEL}/${name} PROPERTIES LABELS "${labels}" TIMEOUT ${test_TIMEOUT} SKIP_RETURN_CODE 77)
endfunction()

# phobos_run_test(name [THREADS] KERNEL a.phb ORACLE oracle.c JOBS a.json ... [ARGS "--pods=1" "--pods=3" ...]): compiles the kernel and runs each job with each of the
# argument lists on inputs that the oracle makes; the oracle then compares every output bit by bit.
function(phobos_run_test name)
    cmake_parse_arguments(PARSE_ARGV 1 test "THREADS" "KERNEL;ORACLE" "JOBS;ARGS")
    add_executable(oracle_${name} ${test_ORACLE})
    target_link_libraries(oracle_${name} PRIVATE phobos_oracle)
    set(jobs "")
    foreach(job ${test_JOBS})
        cmake_path(ABSOLUTE_PATH job BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE)
        list(APPEND jobs ${job})
    endforeach()
    cmake_path(ABSOLUTE_PATH test_KERNEL BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE)
    list(JOIN test_ARGS "\n" args)
    add_test(NAME run/${name} COMMAND ${PROJECT_SOURCE_DIR}/tests/run_kernel.sh
        ${PHOBOSC} $<TARGET_FILE:oracle_${name}> ${test_KERNEL} "${args}" ${jobs})
    set(labels run)
    if(test_THREADS)
        list(APPEND labels threads)
        set_property(GLOBAL APPEND PROPERTY PHOBOS_THREAD_TESTS phobosc oracle_${name})
    endif()
    set_tests_properties(run/${name} PROPERTIES LABELS "${labels}" TIMEOUT 300)
endfunction()
