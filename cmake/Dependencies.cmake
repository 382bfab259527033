# What the build needs from the system. phobosc itself uses the shared libLLVM; executables that it makes use libc alone, so everything the runtime stands on is
# taken as static archives and merged into libphobosrt.a (see MergeRuntime.cmake).

find_package(Threads REQUIRED)
find_package(LLVM 19.1 REQUIRED CONFIG)

find_package(PkgConfig REQUIRED)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson>=2.13)
pkg_check_modules(ZMQ REQUIRED IMPORTED_TARGET libzmq>=4.3.4)
pkg_check_modules(SODIUM REQUIRED IMPORTED_TARGET libsodium>=1.0.18)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash>=0.8)
pkg_check_modules(PNG REQUIRED IMPORTED_TARGET libpng>=1.6)
pkg_check_modules(CHECK REQUIRED IMPORTED_TARGET check>=0.15)

add_library(phobos_llvm INTERFACE)
target_include_directories(phobos_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
target_link_libraries(phobos_llvm INTERFACE LLVM)

find_library(ZMQ_ARCHIVE libzmq.a REQUIRED)
find_library(SODIUM_ARCHIVE libsodium.a REQUIRED)
find_library(JANSSON_ARCHIVE libjansson.a REQUIRED)

# The archives that come with the C compiler; libstdc++ is there for libzmq. clang finds those of gcc.
foreach(name stdc++ gcc_eh gcc)
    string(MAKE_C_IDENTIFIER "${name}_ARCHIVE" variable)
    string(TOUPPER "${variable}" variable)
    execute_process(COMMAND ${CMAKE_C_COMPILER} -print-file-name=lib${name}.a OUTPUT_VARIABLE ${variable} OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(NOT IS_ABSOLUTE "${${variable}}")
        message(FATAL_ERROR "${CMAKE_C_COMPILER} knows no lib${name}.a: install the static libstdc++ of gcc (Debian: libstdc++-12-dev)")
    endif()
endforeach()
