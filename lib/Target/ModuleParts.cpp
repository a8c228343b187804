//===- ModuleParts.cpp - A module as several that compile side by side ----===//

#include "ModuleParts.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Transforms/Utils/Cloning.h"

using namespace pp;

/// A part of fewer instructions is not worth the passes that are set up for it;
/// more parts would only wait for cores.
static constexpr uint64_t minInstructions = 1000, maxParts = 64;

using PartNumbers = llvm::DenseMap<const llvm::GlobalValue *, unsigned>;

/// Sequences of calls, which gain nothing from being optimised.
static bool isSequence(const llvm::Function &function) {
  return function.hasOptNone();
}

/// Numbers the part of each function with a body; returns how many there are.
static unsigned assignParts(const llvm::Module &module, PartNumbers &parts) {
  uint64_t total = 0, ofSequences = 0;
  for (const llvm::Function &function : module) {
    total += function.getInstructionCount();
    if (isSequence(function))
      ofSequences += function.getInstructionCount();
  }
  uint64_t wanted = std::max(minInstructions, total / maxParts), inPart = 0;
  unsigned part = 0;
  auto assign = [&](auto isWanted) {
    for (const llvm::Function &function : module) {
      if (function.isDeclaration() || !isWanted(function))
        continue;
      if (inPart >= wanted) {
        inPart = 0;
        ++part;
      }
      parts[&function] = part;
      inPart += function.getInstructionCount();
    }
  };
  if (ofSequences < minInstructions) {
    assign([](const llvm::Function &) { return true; });
    return part + 1;
  }
  assign([](const llvm::Function &function) { return !isSequence(function); });
  inPart = inPart ? wanted : 0;
  assign(isSequence);
  return part + 1;
}

/// Other objects refer to it, and nobody outside of the binary does.
static void makeVisibleToParts(llvm::GlobalValue &value) {
  if (!value.hasLocalLinkage())
    return;
  if (!value.hasName())
    value.setName("part_value");
  value.setLinkage(llvm::GlobalValue::ExternalLinkage);
  value.setVisibility(llvm::GlobalValue::HiddenVisibility);
}

static void eraseUnusedDeclarations(llvm::Module &module) {
  for (llvm::Function &function : llvm::make_early_inc_range(module))
    if (function.isDeclaration() && function.use_empty())
      function.eraseFromParent();
  for (llvm::GlobalVariable &variable :
       llvm::make_early_inc_range(module.globals()))
    if (variable.isDeclaration() && variable.use_empty())
      variable.eraseFromParent();
}

std::vector<llvm::SmallVector<char, 0>> pp::cutModule(llvm::Module &module) {
  PartNumbers numbers;
  unsigned count = assignParts(module, numbers);
  if (count > 1)
    for (llvm::GlobalValue &value : module.global_values())
      makeVisibleToParts(value);
  std::vector<llvm::SmallVector<char, 0>> parts(count);
  for (unsigned part = 0; part < count; ++part) {
    llvm::raw_svector_ostream os(parts[part]);
    if (count == 1) {
      llvm::WriteBitcodeToFile(module, os);
      break;
    }
    llvm::ValueToValueMapTy copies;
    std::unique_ptr<llvm::Module> copy =
        llvm::CloneModule(module, copies, [&](const llvm::GlobalValue *value) {
          // Variables have no number, and are of the first part.
          return numbers.lookup(value) == part;
        });
    eraseUnusedDeclarations(*copy);
    llvm::WriteBitcodeToFile(*copy, os);
  }
  return parts;
}
