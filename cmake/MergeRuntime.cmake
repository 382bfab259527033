# libphobosrt.a, what phobosc links into executables. Member phobosrt.o is our runtime with libzmq, libsodium, jansson and the C++ runtime merged in, all names
# but phb_* local, so that it needs libc alone and gets on with a program that brings its own libzmq. Member main.o holds main().

add_library(phobos_zmq_stubs OBJECT zmq_stubs.c)
target_link_libraries(phobos_zmq_stubs PRIVATE phobos_options)
target_compile_options(phobos_zmq_stubs PRIVATE -ffunction-sections -fPIC)

add_library(phobos_main OBJECT main.c)
target_link_libraries(phobos_main PRIVATE phobos_options)
target_compile_options(phobos_main PRIVATE -fPIC)

# What the code of threads calls stays as well.
file(STRINGS ${CMAKE_CURRENT_SOURCE_DIR}/hooks.def hooks REGEX "^HOOK\\(")
list(TRANSFORM hooks REPLACE "^HOOK\\(([a-z_]+),.*" "-u;\\1")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS hooks.def)

# What programs call: phobos.h.
file(STRINGS ${CMAKE_CURRENT_SOURCE_DIR}/phobos.h functions REGEX "^[A-Za-z].*phb_[a-z_]+\\(")
list(TRANSFORM functions REPLACE ".*(phb_[a-z_]+)\\(.*" "-u;\\1")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS phobos.h)

# Debian's archives are made for executables alone: they reach data of libc by addresses that a shared library must not hold. Copies of them reach data of
# ours instead, of zmq_stubs.c.
set(libraries "")
foreach(library ZMQ SODIUM JANSSON STDC__)
    set(copy ${CMAKE_CURRENT_BINARY_DIR}/${library}.a)
    list(APPEND libraries ${copy})
    add_custom_command(
        OUTPUT ${copy}
        COMMAND ${CMAKE_OBJCOPY} --redefine-sym stderr=own_stderr --redefine-sym stdin=own_stdin --redefine-sym in6addr_any=own_in6addr_any
                --redefine-sym __libc_single_threaded=own_single_threaded ${${library}_ARCHIVE} ${copy}
        DEPENDS ${${library}_ARCHIVE}
        VERBATIM
    )
endforeach()

set(archive ${PROJECT_BINARY_DIR}/lib/libphobosrt.a)
set(merged ${CMAKE_CURRENT_BINARY_DIR}/phobosrt.o)
set(main_object ${CMAKE_CURRENT_BINARY_DIR}/main.o)
# ld drops the sections that phb_main does not reach, but keeps their references to libitm, which is not there. objcopy leaves unique symbols of libstdc++
# global unless they were made weak before.
add_custom_command(
    OUTPUT ${archive}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/lib
    COMMAND ${CMAKE_LINKER} -r -o ${merged} --force-group-allocation --gc-sections -e phb_main ${hooks} ${functions}
            --whole-archive $<TARGET_FILE:phobos_runtime> --no-whole-archive $<TARGET_OBJECTS:phobos_zmq_stubs>
            --start-group ${libraries} ${GCC_EH_ARCHIVE} ${GCC_ARCHIVE} --end-group
    COMMAND ${CMAKE_OBJCOPY} --wildcard --weaken-symbol=_Z* ${merged}
    COMMAND ${CMAKE_OBJCOPY} --wildcard --keep-global-symbol=phb_* --strip-unneeded-symbol=_ITM_* --strip-unneeded-symbol=_ZGTt* ${merged}
    COMMAND ${CMAKE_COMMAND} -E copy $<TARGET_OBJECTS:phobos_main> ${main_object}
    COMMAND ${CMAKE_COMMAND} -E rm -f ${archive}
    COMMAND ${CMAKE_AR} rcsD ${archive} ${merged} ${main_object}
    DEPENDS ${libraries} phobos_runtime $<TARGET_FILE:phobos_runtime> phobos_zmq_stubs $<TARGET_OBJECTS:phobos_zmq_stubs> phobos_main $<TARGET_OBJECTS:phobos_main>
    COMMENT "Merging libphobosrt.a"
    COMMAND_EXPAND_LISTS
    VERBATIM
)
add_custom_target(phobosrt DEPENDS ${archive})
set_target_properties(phobosrt PROPERTIES ARCHIVE_PATH ${archive})
