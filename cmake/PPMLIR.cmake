# MLIR 22 from Debian: shared libraries, one precompiled header, tablegen.
find_package(MLIR 22.1 REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/mlir)
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
# Where add_mlir_doc writes: build/<preset>/docs.
set(MLIR_BINARY_DIR ${CMAKE_BINARY_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)
find_package(Protobuf REQUIRED)

# Everything that includes an MLIR header compiles with these.
add_library(pp_mlir_flags INTERFACE)
target_include_directories(pp_mlir_flags SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
target_include_directories(pp_mlir_flags INTERFACE ${CMAKE_SOURCE_DIR}/include ${CMAKE_BINARY_DIR}/include
                           ${CMAKE_SOURCE_DIR}/runtime ${CMAKE_SOURCE_DIR}/runtime/include)
# libstdc++ 12 warns of its own temporary buffer in std::stable_sort.
target_compile_options(pp_mlir_flags INTERFACE -fno-exceptions -Wno-deprecated-declarations)
# The shared libraries only: a static MLIRFoo next to them would be a second copy of MLIR.
target_link_libraries(pp_mlir_flags INTERFACE MLIR LLVM)

# One precompiled header for all libraries that use MLIR.
file(WRITE ${CMAKE_BINARY_DIR}/pp_pch.cpp "// Owns the precompiled header.\n")
add_library(pp_pch STATIC ${CMAKE_BINARY_DIR}/pp_pch.cpp)
target_link_libraries(pp_pch PRIVATE pp_mlir_flags)
target_precompile_headers(pp_pch PRIVATE ${CMAKE_SOURCE_DIR}/cmake/PrecompiledHeader.h)

# pp_add_library(<name> SOURCES <files...> [DEPENDS <tablegen targets...>] [LINK <libraries...>])
function(pp_add_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC pp_mlir_flags ${ARG_LINK})
  target_precompile_headers(${name} REUSE_FROM pp_pch)
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
endfunction()
