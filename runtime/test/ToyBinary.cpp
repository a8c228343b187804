//===- ToyBinary.cpp - The toy as an emitted binary -----------------------===//
//
// Defines the table and nothing else: `main` has to come from the library.
//
//===----------------------------------------------------------------------===//
#include "ToyProgram.h"

static const toy::Binary binary(toy::Options{{0, 1, 2}, true, false, 0});
extern "C" const pp_binary pp_binary_table = binary.table;
