//===- Target.cpp - What code is made for ---------------------------------===//

#include "pp/Support/Target.h"

using namespace pp;

std::optional<Target> Target::parse(llvm::StringRef name) {
  Target target;
  if (name == "cpu")
    return target;
  if (name == "mock") {
    target.kind = Kind::Mock;
    return target;
  }
  llvm::StringRef chip = name == "cuda" ? "cuda:sm_90" : name;
  if (!chip.consume_front("cuda:"))
    return std::nullopt;
  target.kind = Kind::Cuda;
  target.chip = chip.str();
  // The least that the libraries of CUDA 13 know; `a` is for what only this
  // architecture has.
  if (!chip.consume_front("sm_") ||
      chip.consumeInteger(10, target.architecture) ||
      target.architecture < 70 || (!chip.empty() && chip != "a"))
    return std::nullopt;
  return target;
}

std::string Target::str() const {
  switch (kind) {
  case Kind::Cpu:
    return "cpu";
  case Kind::Mock:
    return "mock";
  case Kind::Cuda:
    break;
  }
  return "cuda:" + chip;
}
