# Precompiled headers of what uses no MLIR: the runtime, the planner and their tests. (PPMLIR.cmake has that of MLIR,
# and pp_kernels one that nothing else uses.)
#
#   pp_reuse_header(<target> <owner>)    owner: pp_std_pch, pp_test_pch or pp_pch
#   pp_test_options(<target>)            for whatever uses pp_test_pch
#   pp_optimize_instrumented(<target>)   for sources that tests run for long
#   pp_optimize_tests(<files...>)        all the same, of those that compute for long
#
# Without the time of the header's making in it, ccache can keep what uses it.
add_compile_options("SHELL:-Xclang -fno-pch-timestamp")

find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)

# pp_add_header_owner(<name> <header> <libraries...>)
function(pp_add_header_owner name header)
  file(WRITE ${CMAKE_BINARY_DIR}/${name}.cpp "// Owns the precompiled header.\n")
  add_library(${name} STATIC EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/${name}.cpp)
  target_link_libraries(${name} PRIVATE ${ARGN})
  target_precompile_headers(${name} PRIVATE ${CMAKE_SOURCE_DIR}/cmake/${header})
endfunction()

pp_add_header_owner(pp_std_pch PrecompiledStd.h fmt::fmt nlohmann_json::nlohmann_json)
# Tests are compiled more often than their own code runs.
function(pp_test_options target)
  target_compile_options(${target} PRIVATE -O0)
endfunction()
# A build for AddressSanitizer is compiled without optimization, and so are its headers; only macros differ.
function(pp_optimize_instrumented target)
  if(PP_SANITIZE STREQUAL "address")
    target_compile_options(${target} PRIVATE -O1 "SHELL:-Xclang -fno-validate-pch")
  endif()
endfunction()
# The same of the tests' headers.
function(pp_optimize_tests)
  set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS -O2 -Xclang -fno-validate-pch)
endfunction()
if(PP_BUILD_TESTS)
  find_package(GTest REQUIRED)
  pp_add_header_owner(pp_test_pch PrecompiledTest.h fmt::fmt nlohmann_json::nlohmann_json GTest::gtest)
  pp_test_options(pp_test_pch)
endif()

function(pp_reuse_header target owner)
  # A header of a library fits no other position-dependence.
  target_compile_options(${target} PRIVATE -fPIC)
  # fmt changes macros for all who link it.
  if(NOT owner STREQUAL "pp_pch")
    target_link_libraries(${target} PRIVATE fmt::fmt nlohmann_json::nlohmann_json)
  endif()
  if(owner STREQUAL "pp_test_pch")
    pp_test_options(${target})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${owner})
endfunction()
