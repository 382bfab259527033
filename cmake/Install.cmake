# What `cmake --install` and CPack lay out. The tree may be moved: phobosc finds its runtime, and the CMake package phobosc, by where they themselves are.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(package_folder share/cmake/Phobos)
install(TARGETS phobosc phobos-tensor RUNTIME DESTINATION bin)
install(FILES $<TARGET_PROPERTY:phobosrt,ARCHIVE_PATH> DESTINATION lib)

write_basic_package_version_file(${PROJECT_BINARY_DIR}/PhobosConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_SOURCE_DIR}/cmake/PhobosConfig.cmake ${PROJECT_BINARY_DIR}/PhobosConfigVersion.cmake DESTINATION ${package_folder})

configure_file(${PROJECT_SOURCE_DIR}/cmake/phobos.pc.in ${PROJECT_BINARY_DIR}/phobos.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/phobos.pc DESTINATION share/pkgconfig)

install(FILES ${PROJECT_BINARY_DIR}/man/phobosc.1 DESTINATION share/man/man1)
install(FILES ${PROJECT_BINARY_DIR}/man/phobos-job.5 DESTINATION share/man/man5)
install(FILES runtime/completion/phobosc.bash DESTINATION share/bash-completion/completions RENAME phobosc)
install(FILES runtime/completion/_phobosc DESTINATION share/zsh/vendor-completions)
install(FILES runtime/completion/phobosc.fish DESTINATION share/fish/vendor_completions.d)
install(FILES runtime/python/phobos.py DESTINATION share/phobos/python)
install(FILES editors/phobos.tmLanguage.json DESTINATION share/phobos/editors)
# Pages link to one another, to pictures and to samples: they lie there as they do here.
install(FILES README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs samples DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING
    PATTERN docs/man EXCLUDE PATTERN build EXCLUDE
    PATTERN *.md PATTERN *.png PATTERN *.svg PATTERN *.phb PATTERN *.json PATTERN *.c
    PATTERN CMakeLists.txt PATTERN Makefile PATTERN meson.build PATTERN build.ninja PATTERN *.sbatch PATTERN *.service)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME phobos)
set(CPACK_PACKAGE_VENDOR Phobos)
set(CPACK_PACKAGE_CONTACT "the Phobos developers <phobos@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES FALSE) # the archive's local names are all that its debugger has
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "gcc | c-compiler") # links what phobosc compiles
include(CPack)
