# Installation: program, libraries, headers, pkg-config file, CMake package.
include(CMakePackageConfigHelpers)

# What a program that links liblockstep.a needs as well; the shared library carries its own dependencies.
set(LS_PKG_REQUIRES_PRIVATE "yaml-0.1 jansson libxxhash libpcre2-8 zlib")
set(LS_PKG_LIBS_PRIVATE "-lm -ldl -lpthread")
if(LS_HAVE_PICTURES)
  string(APPEND LS_PKG_REQUIRES_PRIVATE " libpng libjpeg")
endif()
if(LS_HAVE_UTF8PROC)
  string(APPEND LS_PKG_REQUIRES_PRIVATE " libutf8proc")
endif()
if(OPENBLAS_FOUND)
  string(APPEND LS_PKG_REQUIRES_PRIVATE " openblas")
endif()
if(MICROHTTPD_FOUND) # the shared one: its own static needs (GnuTLS and below) are not lockstep's
  string(APPEND LS_PKG_LIBS_PRIVATE " -lmicrohttpd")
endif()
if(LS_HAVE_DNNL)
  string(APPEND LS_PKG_LIBS_PRIVATE " -ldnnl -fopenmp")
endif()
pkg_check_modules(OMPI_C QUIET ompi-c)
if(OMPI_C_FOUND)
  string(APPEND LS_PKG_REQUIRES_PRIVATE " ompi-c")
else()
  foreach(lib ${MPI_C_LIBRARIES})
    string(APPEND LS_PKG_LIBS_PRIVATE " ${lib}")
  endforeach()
endif()
file(RELATIVE_PATH LS_PKG_UP /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(${PROJECT_SOURCE_DIR}/cmake/lockstep.pc.in ${PROJECT_BINARY_DIR}/lockstep.pc @ONLY)

install(TARGETS lockstep_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS lockstep_shared EXPORT lockstepTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES $<TARGET_FILE:lockstep_static> DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/lockstep DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")
install(FILES ${PROJECT_BINARY_DIR}/include/lockstep/version.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/lockstep)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/machines DESTINATION ${CMAKE_INSTALL_DATADIR}/lockstep
        FILES_MATCHING PATTERN "*.yaml")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples/workloads DESTINATION ${CMAKE_INSTALL_DATADIR}/lockstep
        FILES_MATCHING PATTERN "*.yaml")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/share/presets ${PROJECT_SOURCE_DIR}/share/templates
        DESTINATION ${CMAKE_INSTALL_DATADIR}/lockstep)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/deploy DESTINATION ${CMAKE_INSTALL_DATADIR}/lockstep)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/tools DESTINATION ${CMAKE_INSTALL_DATADIR}/lockstep
        PATTERN __pycache__ EXCLUDE)
# PREFIX/share/lockstep/python is a path for PYTHONPATH; the package finds the library below the same PREFIX.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/python DESTINATION ${CMAKE_INSTALL_DATADIR}/lockstep
        FILES_MATCHING PATTERN "*.py" PATTERN __pycache__ EXCLUDE)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DATADIR}/lockstep
        PATTERN workloads EXCLUDE)
# A program that is not installed finds the same below its build folder.
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/share/lockstep)
foreach(folder machines examples/workloads tools share/presets share/templates)
  get_filename_component(kind ${folder} NAME)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${folder} ${PROJECT_BINARY_DIR}/share/lockstep/${kind} SYMBOLIC)
endforeach()
install(FILES ${PROJECT_BINARY_DIR}/lockstep.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(EXPORT lockstepTargets NAMESPACE lockstep:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/lockstepConfig.cmake.in
  ${PROJECT_BINARY_DIR}/lockstepConfig.cmake INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/lockstepConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/lockstepConfig.cmake ${PROJECT_BINARY_DIR}/lockstepConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep)

# Completion for shells and manual pages, printed by the program.
find_program(LS_SCDOC scdoc)
if(LS_SCDOC)
  message(STATUS "Manual pages: ${LS_SCDOC}")
else()
  message(STATUS "Manual pages: none (scdoc is not installed)")
endif()
set(LS_PAGES ${PROJECT_BINARY_DIR}/pages)
add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/pages.stamp
  COMMAND sh ${PROJECT_SOURCE_DIR}/scripts/pages.sh $<TARGET_FILE:lockstep_cli> ${LS_PAGES} $<$<BOOL:${LS_SCDOC}>:${LS_SCDOC}>
  COMMAND ${CMAKE_COMMAND} -E touch ${PROJECT_BINARY_DIR}/pages.stamp
  DEPENDS lockstep_cli ${PROJECT_SOURCE_DIR}/scripts/pages.sh
  COMMENT "Completion and manual pages" VERBATIM COMMAND_EXPAND_LISTS)
add_custom_target(pages ALL DEPENDS ${PROJECT_BINARY_DIR}/pages.stamp)
install(DIRECTORY ${LS_PAGES}/ DESTINATION ${CMAKE_INSTALL_DATADIR})
# Below /usr, Debian's zsh does not look into site-functions.
install(FILES ${LS_PAGES}/zsh/site-functions/_lockstep DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)

# A systemd unit; and the Debian package: cpack --config BUILD/CPackConfig.cmake -G DEB
install(FILES ${PROJECT_SOURCE_DIR}/deploy/lockstep@.service DESTINATION lib/systemd/system)
set(CPACK_PACKAGE_CONTACT "lockstep <lockstep@localhost>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR})
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS python3)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "curl, default-mta | mail-transport-agent, elfutils | gdb, openssh-client, openmpi-bin")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_VERBATIM_VARIABLES ON)
include(CPack)
