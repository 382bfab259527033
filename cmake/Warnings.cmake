# Every target of ours links phobos_options: the warnings that the code is clean under, and the sanitizers of this build.
add_library(phobos_options INTERFACE)
target_compile_options(phobos_options INTERFACE -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes)
target_include_directories(phobos_options INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})

option(PHOBOS_WERROR "treat warnings as errors" OFF)
if(PHOBOS_WERROR)
    target_compile_options(phobos_options INTERFACE -Werror)
endif()

set(PHOBOS_LINK_FLAGS "")
if(PHOBOS_SANITIZE)
    set(PHOBOS_LINK_FLAGS "-fsanitize=${PHOBOS_SANITIZE}")
    target_compile_options(phobos_options INTERFACE ${PHOBOS_LINK_FLAGS} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(phobos_options INTERFACE ${PHOBOS_LINK_FLAGS})
endif()
