//===- Main.cpp - Entry point of emitted binaries -------------------------===//
//
// A file of its own: programs with another `main` (tests) do not pull it in.
//
//===----------------------------------------------------------------------===//
#include "cli/CommandLine.h"

int main(int argc, char **argv) {
  return pp::runtime::runCommandLine(argc, argv, pp_binary_table);
}
