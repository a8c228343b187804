//===- ModulePartsTest.cpp - Which functions are compiled together --------===//
#include "ModuleParts.h"

#include "llvm/AsmParser/Parser.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/MemoryBufferRef.h"
#include "llvm/Support/SourceMgr.h"

#include <gtest/gtest.h>

using namespace pp;

namespace {

/// `calls` calls of @kernel by each of two sequences, one before the kernel.
std::string sequencesOf(unsigned calls) {
  std::string body, text;
  for (unsigned i = 0; i < calls; ++i)
    body += "  call void @kernel()\n";
  body += "  ret void\n}\n";
  text += "define void @first() noinline optnone {\n" + body;
  text += "define internal void @kernel() {\n  ret void\n}\n";
  text += "define void @second() noinline optnone {\n" + body;
  return text;
}

/// Names of the functions that are defined in each part.
std::vector<std::vector<std::string>> partsOf(const std::string &text) {
  llvm::LLVMContext context;
  llvm::SMDiagnostic error;
  auto module = llvm::parseAssemblyString(text, error, context);
  EXPECT_TRUE(module) << error.getMessage().str();
  std::vector<std::vector<std::string>> names;
  for (const llvm::SmallVector<char, 0> &bitcode : cutModule(*module)) {
    auto part = llvm::parseBitcodeFile(
        {llvm::StringRef(bitcode.data(), bitcode.size()), "part"}, context);
    EXPECT_TRUE(bool(part));
    auto &defined = names.emplace_back();
    for (const llvm::Function &function : **part)
      if (!function.isDeclaration())
        defined.push_back(function.getName().str());
  }
  return names;
}

using Parts = std::vector<std::vector<std::string>>;

TEST(ModuleParts, LongSequencesAreApartFromWhatIsOptimised) {
  EXPECT_EQ(partsOf(sequencesOf(600)),
            (Parts{{"kernel"}, {"first", "second"}}));
  EXPECT_EQ(partsOf(sequencesOf(1200)),
            (Parts{{"kernel"}, {"first"}, {"second"}}));
}

TEST(ModuleParts, ShortSequencesStayWithTheirKernels) {
  EXPECT_EQ(partsOf(sequencesOf(3)), (Parts{{"first", "kernel", "second"}}));
}

TEST(ModuleParts, SequencesAloneLeaveNoEmptyPart) {
  std::string text =
      "declare void @kernel()\ndefine void @first() noinline optnone {\n";
  for (unsigned i = 0; i < 1100; ++i)
    text += "  call void @kernel()\n";
  EXPECT_EQ(partsOf(text + "  ret void\n}\n"), (Parts{{"first"}}));
}

} // namespace
