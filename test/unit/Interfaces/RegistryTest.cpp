//===- RegistryTest.cpp - Every nn operation has the four interfaces ------===//
//
// A new operation without a cost, a derivative, a batch rule or a way to run
// would be found late, by the model that needs it. Here it is found at once.
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OperationSupport.h"
#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Driver/InitAll.h"
#include "gtest/gtest.h"

using namespace mlir;

namespace {

class Registry : public testing::Test {
protected:
  Registry() : context(makeRegistry()) {
    context.loadDialect<pp::nn::NNDialect>();
    for (RegisteredOperationName name : context.getRegisteredOperations())
      if (name.getDialectNamespace() == "nn" &&
          name.getStringRef() != pp::nn::YieldOp::getOperationName() &&
          !isMadeLate(name.getStringRef()))
        operations.push_back(name);
  }

  /// Made of others when derivatives are there and batches are what they are.
  static bool isMadeLate(llvm::StringRef name) {
    return name == pp::nn::ChannelMomentsOp::getOperationName() ||
           name == pp::nn::ChannelSumsOp::getOperationName();
  }

  static DialectRegistry makeRegistry() {
    DialectRegistry registry;
    pp::registerAllDialects(registry);
    return registry;
  }

  template <typename Interface> void expectAll(const char *what) {
    for (RegisteredOperationName name : operations)
      EXPECT_TRUE(name.hasInterface<Interface>())
          << name.getStringRef().str() << " lacks " << what;
  }

  MLIRContext context;
  std::vector<RegisteredOperationName> operations;
};

TEST_F(Registry, hasOperations) { EXPECT_GE(operations.size(), 50u); }

TEST_F(Registry, allHaveCosts) {
  expectAll<pp::CostOpInterface>("CostOpInterface");
}

/// A derivative, or none by definition; parts of derivatives have neither.
TEST_F(Registry, allHaveDerivatives) {
  for (RegisteredOperationName name : operations) {
    bool isDifferentiable = name.hasInterface<pp::DifferentiableOpInterface>();
    bool isLeaf = name.hasTrait<pp::NotDifferentiable>();
    bool isPart = name.getStringRef().ends_with("_backward");
    EXPECT_FALSE(isDifferentiable && isLeaf) << name.getStringRef().str();
    EXPECT_TRUE(isDifferentiable || isLeaf || isPart)
        << name.getStringRef().str();
  }
}

TEST_F(Registry, allHaveBatchRules) {
  expectAll<pp::BatchAxisOpInterface>("BatchAxisOpInterface");
}

TEST_F(Registry, allHaveKernels) {
  expectAll<pp::KernelOpInterface>("KernelOpInterface");
}

} // namespace
