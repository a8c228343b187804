//===- ToyBinary.cpp - The toy as an emitted binary -----------------------===//
//
// Defines the table and nothing else: `main` has to come from the library, or
// of a shared object, from who opens it.
//
//===----------------------------------------------------------------------===//
#include "ToyProgram.h"

#ifndef TOY_LOSS_SCALE
#define TOY_LOSS_SCALE 0
#endif

static const toy::Binary binary(toy::Options{
    {0, 1, 2}, true, false, 0, TOY_LOSS_SCALE});
extern "C" const pp_binary pp_binary_table = binary.table;
