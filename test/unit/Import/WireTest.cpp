//===- WireTest.cpp - Damage at every byte --------------------------------===//
//
// The reader may accept or reject these, but must come back. Under the
// sanitizers this is where memory errors would show.
//
//===----------------------------------------------------------------------===//
#include "TemporaryFolder.h"
#include "pp/Import/Onnx/Reader.h"
#include "llvm/Support/MemoryBuffer.h"
#include "gtest/gtest.h"
#include <random>

using namespace pp::onnx;

namespace {

std::string contents(const std::string &path) {
  return (*llvm::MemoryBuffer::getFile(path))->getBuffer().str();
}

/// True if the file was read.
bool read(const std::string &path) {
  auto model = readModel(path);
  if (!model) {
    EXPECT_FALSE(llvm::toString(model.takeError()).empty());
    return false;
  }
  for (const Tensor &tensor : (*model)->graph.initializers)
    (void)llvm::cantFail((*model)->bytes(tensor));
  return true;
}

TEST(Wire, truncatedAtEveryByte) {
  std::string whole = contents(PP_MODELS "/lenet/lenet.torchscript.onnx");
  TemporaryFolder folder;
  size_t step = 1;
  for (size_t size = 0; size < whole.size(); size += step) {
    // Every byte of the nodes at both ends, fewer inside the weights.
    step = size < 600 || size + 1500 > whole.size() ? 1 : 97;
    std::string path = folder.write("cut.onnx", whole.substr(0, size));
    EXPECT_FALSE(read(path)) << size;
  }
}

TEST(Wire, mutatedBytes) {
  for (const char *name :
       {PP_MODELS "/lenet/lenet.dynamo.onnx",
        PP_MODELS "/mlp/mlp.external.onnx", PP_BAD_MODELS "/B48-expansion.onnx",
        PP_BAD_MODELS "/B46-mutual-recursion.onnx"}) {
    std::string whole = contents(name);
    TemporaryFolder folder;
    folder.write("mlp.external.bin", std::string(104488, '\0'));
    std::mt19937 rng(1);
    // Mutations of the doubling functions may be legal, large and slow.
    bool expands = std::string(name).find("expansion") != std::string::npos;
    for (int i = 0, e = expands ? 100 : 1500; i < e; ++i) {
      std::string mutated = whole;
      for (int change = 0, e = 1 + i % 3; change < e; ++change) {
        // Names, tags and lengths rather than weights.
        size_t at = rng() % std::min<size_t>(mutated.size(), 1500);
        mutated[at] = static_cast<char>(rng());
      }
      read(folder.write("mutated.onnx", mutated));
    }
  }
}

TEST(Wire, randomBytes) {
  TemporaryFolder folder;
  std::mt19937 rng(2);
  for (int i = 0; i < 300; ++i) {
    std::string bytes(rng() % 300, '\0');
    for (char &byte : bytes)
      byte = static_cast<char>(rng());
    // A plausible start: ir_version 8, then a graph.
    read(folder.write("random.onnx", "\x08\x08\x3a" + bytes));
  }
}

} // namespace
