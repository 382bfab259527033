# find_package(Phobos) gives
#
#   phobos_add_executable(NAME KERNEL.phb [GPU TARGET...] [CPU LEVEL...] [OPTIONS OPTION...])
#
# an executable target NAME made of the kernels in KERNEL.phb, with the options of phobosc that `phobosc --help` lists. It is built again when the source, the
# compiler or the runtime changes. The project needs the language C or CXX, whose compiler links.

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

# Compiles `kernel` for target `name` into an object, whose path goes to `object`; ARGN are GPU, CPU and OPTIONS.
function(_phobos_compile name kernel object)
    cmake_parse_arguments(PARSE_ARGV 3 arg "" "" "GPU;CPU;OPTIONS")
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
    set(output "${CMAKE_CURRENT_BINARY_DIR}/${name}.phb.o")
    add_custom_command(
        OUTPUT "${output}"
        COMMAND Phobos::phobosc ${options} -c "${source}" -o "${output}" -MD -MF "${output}.d"
        DEPENDS "${source}" "${PHOBOS_PREFIX}/bin/phobosc"
        DEPFILE "${output}.d"
        COMMENT "Compiling kernels of ${name}"
        VERBATIM
    )
    set_source_files_properties("${output}" PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
    set(${object} "${output}" PARENT_SCOPE)
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
    _phobos_compile("${name}" "${kernel}" object ${ARGN})
    add_executable(${name} "${object}")
    target_link_libraries(${name} PRIVATE Phobos::runtime)
    _phobos_link(${name})
endfunction()
