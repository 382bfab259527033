# find_package(Phobos) gives
#
#   phobos_add_executable(NAME KERNEL.phb [GPU TARGET...] [CPU LEVEL...] [OPTIONS OPTION...])
#
# an executable target NAME made of the kernels in KERNEL.phb, with the options of phobosc that `phobosc --help` lists. It is built again when the source, the
# compiler or the runtime changes. The project needs the language C or CXX, whose compiler links.
#
#   phobos_add_library(NAME KERNEL.phb [the same])
#
# a library target NAME to link C or C++ with: its sources include NAME.h, which says how to run the kernels.

get_filename_component(PHOBOS_PREFIX "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

foreach(file bin/phobosc lib/libphobosrt.a)
    if(NOT EXISTS "${PHOBOS_PREFIX}/${file}")
        set(Phobos_FOUND FALSE)
        set(Phobos_NOT_FOUND_MESSAGE "${PHOBOS_PREFIX}/${file} is not there")
        return()
    endif()
endforeach()

if(NOT TARGET Phobos::phobosc)
    add_executable(Phobos::phobosc IMPORTED)
    set_target_properties(Phobos::phobosc PROPERTIES IMPORTED_LOCATION "${PHOBOS_PREFIX}/bin/phobosc")
    add_library(Phobos::runtime STATIC IMPORTED)
    set_target_properties(Phobos::runtime PROPERTIES IMPORTED_LOCATION "${PHOBOS_PREFIX}/lib/libphobosrt.a")
endif()

# Compiles `kernel` for target `name` into `output`, as phobosc writes it with `kind`; `headers` are files that come with it. ARGN are GPU, CPU and OPTIONS.
function(_phobos_compile name kernel kind output headers)
    cmake_parse_arguments(PARSE_ARGV 5 arg "" "" "GPU;CPU;OPTIONS")
    if(arg_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "${name}: expected GPU, CPU or OPTIONS, found '${arg_UNPARSED_ARGUMENTS}'")
    endif()
    get_filename_component(source "${kernel}" ABSOLUTE)
    if(NOT EXISTS "${source}")
        message(FATAL_ERROR "${name}: there is no kernel source '${source}'")
    endif()
    set(options ${arg_OPTIONS})
    foreach(list GPU CPU)
        if(arg_${list})
            string(REPLACE ";" "," targets "${arg_${list}}")
            string(TOLOWER ${list} option)
            list(APPEND options "--${option}=${targets}")
        endif()
    endforeach()
    add_custom_command(
        OUTPUT "${output}" ${headers}
        COMMAND Phobos::phobosc ${options} --emit=${kind} "${source}" -o "${output}" -MD -MF "${output}.d"
        DEPENDS "${source}" "${PHOBOS_PREFIX}/bin/phobosc" "${PHOBOS_PREFIX}/lib/libphobosrt.a"
        DEPFILE "${output}.d"
        COMMENT "Compiling kernels of ${name}"
        VERBATIM
    )
endfunction()

# The language whose compiler links: kernels have none of their own.
function(_phobos_link target)
    get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
    if("C" IN_LIST languages)
        set_target_properties(${target} PROPERTIES LINKER_LANGUAGE C)
    elseif("CXX" IN_LIST languages)
        set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
    else()
        message(FATAL_ERROR "${target}: the project has neither C nor CXX, and a kernel is linked by one of their compilers")
    endif()
endfunction()

function(phobos_add_executable name kernel)
    set(object "${CMAKE_CURRENT_BINARY_DIR}/${name}.phb.o")
    _phobos_compile("${name}" "${kernel}" obj "${object}" "" ${ARGN})
    set_source_files_properties("${object}" PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
    add_executable(${name} "${object}")
    target_link_libraries(${name} PRIVATE Phobos::runtime)
    _phobos_link(${name})
endfunction()

function(phobos_add_library name kernel)
    string(MAKE_C_IDENTIFIER "${name}" identifier)
    if(NOT identifier STREQUAL name)
        message(FATAL_ERROR "${name}: the name of a library of kernels is part of names in C")
    endif()
    set(archive "${CMAKE_CURRENT_BINARY_DIR}/lib${name}.a")
    set(header "${CMAKE_CURRENT_BINARY_DIR}/${name}.h")
    _phobos_compile("${name}" "${kernel}" lib "${archive}" "${header}" ${ARGN})
    add_custom_target(${name}_kernels DEPENDS "${archive}" "${header}")
    add_library(${name} STATIC IMPORTED GLOBAL)
    set_target_properties(${name} PROPERTIES IMPORTED_LOCATION "${archive}" INTERFACE_INCLUDE_DIRECTORIES "${CMAKE_CURRENT_BINARY_DIR}")
    add_dependencies(${name} ${name}_kernels)
endfunction()
