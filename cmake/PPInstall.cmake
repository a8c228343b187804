# `cmake --install` and `cpack -G DEB`: tools, what programs are linked with, plugins, a CMake package, documentation.
#
#   bin/                      the tools                                         pp-mlir-tools
#   lib/libpp_runtime.so.0    what models that are libraries run on              pp-mlir-runtime
#   lib/libpp_compiler.so.0   what other programs plan and compile with          pp-mlir-tools
#   lib/pp-mlir/              libpprt.a, devices, pprt.link, pp_runtime.link     pp-mlir-dev
#   lib/                      libpp_cuda.so, libpp_mpi.so                        pp-mlir-plugins
#   include/pp_*.h            the interfaces of these libraries                  pp-mlir-dev
#   include/pprt/             what generated code and the runtime share          pp-mlir-dev
#   lib/cmake/pp-mlir/        find_package(pp-mlir)                              pp-mlir-dev
#   share/doc/pp-mlir/        the pages of docs                                  pp-mlir-tools
#   share/man/man1/           a page for each tool                               pp-mlir-tools
#   share/bash-completion/    completions                                        pp-mlir-tools
include(CMakePackageConfigHelpers)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/pp-mlir)
install(TARGETS pp-plan pp-compile pp-profile pp-opt RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
install(FILES README.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT tools)

# Made from what --help prints.
set(pages)
set(completions)
set(tools pp-plan pp-compile pp-profile pp-opt)
foreach(tool ${tools})
  list(APPEND pages ${CMAKE_BINARY_DIR}/installed/man/${tool}.1)
  list(APPEND completions ${CMAKE_BINARY_DIR}/installed/completions/${tool})
  list(APPEND files $<TARGET_FILE:${tool}>)
endforeach()
add_custom_command(OUTPUT ${pages} ${completions} DEPENDS ${tools} scripts/document-options
                   COMMAND scripts/document-options ${CMAKE_BINARY_DIR}/installed ${files} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} VERBATIM)
add_custom_target(pp-manual ALL DEPENDS ${pages} ${completions})
install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tools)
install(FILES ${completions} DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT tools)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT tools)
install(DIRECTORY lib/Planner/clusters DESTINATION ${CMAKE_INSTALL_DATADIR}/pp-mlir COMPONENT tools)

install(TARGETS pprt ARCHIVE DESTINATION ${PP_INSTALL_LIBRARIES} COMPONENT dev)
foreach(device ${PP_DEVICES})
  install(TARGETS pprt_${device} ARCHIVE DESTINATION ${PP_INSTALL_LIBRARIES} COMPONENT dev)
endforeach()
install(TARGETS pp_runtime LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT dev)
install(TARGETS pp_compiler LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT tools NAMELINK_COMPONENT dev)
install(FILES runtime/include/pp_runtime.h runtime/include/pp_runtime.hpp include/pp_compiler.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        COMPONENT dev)
install(FILES ${CMAKE_BINARY_DIR}/installed/pp_runtime.link DESTINATION ${PP_INSTALL_LIBRARIES} COMPONENT dev)
install(FILES ${CMAKE_BINARY_DIR}/lib/pprt.link DESTINATION ${PP_INSTALL_LIBRARIES} COMPONENT dev)
install(DIRECTORY runtime/include/pprt DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)
configure_package_config_file(cmake/pp-mlirConfig.cmake.in ${CMAKE_BINARY_DIR}/pp-mlirConfig.cmake INSTALL_DESTINATION ${package}
                              PATH_VARS CMAKE_INSTALL_BINDIR CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/pp-mlirConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/pp-mlirConfig.cmake ${CMAKE_BINARY_DIR}/pp-mlirConfigVersion.cmake DESTINATION ${package}
        COMPONENT dev)

# On the loader's path, where programs find them whatever folder they are in.
if(TARGET pp_cuda)
  install(TARGETS pp_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT plugins)
endif()
if(TARGET pp_mpi)
  install(FILES ${CMAKE_BINARY_DIR}/lib/libpp_mpi.so DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT plugins)
endif()

set(CPACK_PACKAGE_NAME pp-mlir)
set(CPACK_PACKAGE_CONTACT "maintainers of pp-mlir")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Compiler from ONNX models to pipeline-parallel programs")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL tools runtime dev plugins)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(version "${PROJECT_VERSION}")
set(CPACK_DEBIAN_TOOLS_PACKAGE_DEPENDS "pp-mlir-dev (= ${version})")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_BINARY_DIR}/lib)
# What pprt.link names, and a compiler that links.
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "pp-mlir-runtime (= ${version}), clang-22 | g++, libdnnl-dev, libfmt-dev, libsodium-dev, libzip-dev")
set(CPACK_DEBIAN_PLUGINS_PACKAGE_NAME pp-mlir-plugins)
# MPI and CUDA are opened when a program needs them.
set(CPACK_DEBIAN_PLUGINS_PACKAGE_SHLIBDEPS OFF)
include(CPack)
