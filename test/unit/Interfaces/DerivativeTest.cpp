//===- DerivativeTest.cpp - Derivatives of nn beside differences ----------===//
//
// For each operation that says it has a derivative: its vector-Jacobian product
// and the operation itself are compiled and run, and each element of the
// product is compared with the central difference of what it is the derivative
// of. In double precision, but for the operations that only the library has,
// which know single precision alone.
//
//===----------------------------------------------------------------------===//

#include "CompiledFunction.h"
#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Driver/InitAll.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"
#include <random>

using namespace mlir;
using pp::CompiledFunction;
using Numbers = CompiledFunction::Numbers;

namespace {

struct Operand {
  /// Without `tensor<` and `>`.
  const char *type;
  /// Where its elements lie. They are all different, and not 0.
  double low = -1.4, high = 1.6;
};

struct Case {
  /// The operation, with operands %a, %b, ...
  const char *operation;
  std::vector<Operand> operands;
  /// Of which the first gets a cotangent.
  int results = 1;
};

const Case cases[] = {
    // Elementwise.
    {"nn.neg %a : tensor<2x3xf64>", {{"2x3xf64"}}},
    {"nn.copy %a : tensor<2x3xf64>", {{"2x3xf64"}}},
    {"nn.abs %a : tensor<2x3xf64>", {{"2x3xf64"}}},
    {"nn.sign %a : tensor<2x3xf64>", {{"2x3xf64"}}},
    {"nn.floor %a : tensor<2x3xf64>", {{"2x3xf64"}}},
    {"nn.ceil %a : tensor<2x3xf64>", {{"2x3xf64"}}},
    {"nn.exp %a : tensor<2x3xf64>", {{"2x3xf64"}}},
    {"nn.log %a : tensor<2x3xf64>", {{"2x3xf64", 0.3, 3}}},
    {"nn.round %a : tensor<2x3xf64>", {{"2x3xf64"}}},
    {"nn.expm1 %a : tensor<2x3xf64>", {{"2x3xf64"}}},
    {"nn.log1p %a : tensor<2x3xf64>", {{"2x3xf64", -0.6, 3}}},
    {"nn.atan %a : tensor<2x3xf64>", {{"2x3xf64"}}},
    {"nn.sqrt %a : tensor<2x3xf64>", {{"2x3xf64", 0.3, 3}}},
    {"nn.rsqrt %a : tensor<2x3xf64>", {{"2x3xf64", 0.3, 3}}},
    {"nn.sin %a : tensor<2x3xf64>", {{"2x3xf64"}}},
    {"nn.cos %a : tensor<2x3xf64>", {{"2x3xf64"}}},
    {"nn.tanh %a : tensor<2x3xf64>", {{"2x3xf64"}}},
    {"nn.logistic %a : tensor<2x3xf64>", {{"2x3xf64"}}},
    {"nn.softplus %a : tensor<2x3xf64>", {{"2x3xf64"}}},
    {"nn.erf %a : tensor<2x3xf64>", {{"2x3xf64"}}},
    {"nn.relu %a : tensor<2x3xf64>", {{"2x3xf64"}}},
    {"nn.gelu %a : tensor<2x3xf64>", {{"2x3xf64"}}},
    {"nn.gelu %a approximate : tensor<2x3xf64>", {{"2x3xf64"}}},
    {"nn.add %a, %b : tensor<2x3xf64>", {{"2x3xf64"}, {"2x3xf64"}}},
    {"nn.sub %a, %b : tensor<2x3xf64>", {{"2x3xf64"}, {"2x3xf64"}}},
    {"nn.mul %a, %b : tensor<2x3xf64>", {{"2x3xf64"}, {"2x3xf64"}}},
    {"nn.div %a, %b : tensor<2x3xf64>", {{"2x3xf64"}, {"2x3xf64", 0.5, 3}}},
    {"nn.rem %a, %b : tensor<2x3xf64>",
     {{"2x3xf64", -3, 3}, {"2x3xf64", 0.7, 1.2}}},
    {"nn.pow %a, %b : tensor<2x3xf64>", {{"2x3xf64", 0.4, 3}, {"2x3xf64"}}},
    {"nn.maximum %a, %b : tensor<2x3xf64>",
     {{"2x3xf64"}, {"2x3xf64", -1.3, 1.3}}},
    {"nn.minimum %a, %b : tensor<2x3xf64>",
     {{"2x3xf64"}, {"2x3xf64", -1.3, 1.3}}},
    {"nn.select %a, %b, %c : tensor<2x3xi1>, tensor<2x3xf64>",
     {{"2x3xi1"}, {"2x3xf64"}, {"2x3xf64"}}},
    {"nn.cast %a : tensor<2x3xf32> -> tensor<2x3xf64>", {{"2x3xf32"}}},
    // Moving elements.
    {"nn.reshape %a : tensor<2x3xf64> -> tensor<6xf64>", {{"2x3xf64"}}},
    {"nn.transpose %a [2, 0, 1] : tensor<2x3x4xf64> -> tensor<4x2x3xf64>",
     {{"2x3x4xf64"}}},
    {"nn.broadcast %a [1] : tensor<3xf64> -> tensor<2x3x2xf64>", {{"3xf64"}}},
    {"nn.slice %a starts [1, 0] limits [4, 5] strides [1, 2] : "
     "tensor<4x6xf64> -> tensor<3x3xf64>",
     {{"4x6xf64"}}},
    {"nn.pad %a low [1, 0] high [0, 2] interior [0, 1] : tensor<2x3xf64> -> "
     "tensor<3x7xf64>",
     {{"2x3xf64"}}},
    {"nn.reorder %a plain to channels_last : tensor<2x3x4xf32> -> "
     "tensor<2x4x3xf32>",
     {{"2x3x4xf32"}}},
    {"nn.concat %a, %b axis 1 : (tensor<2x3xf64>, tensor<2x1xf64>) -> "
     "tensor<2x4xf64>",
     {{"2x3xf64"}, {"2x1xf64"}}},
    {"nn.gather %a[%b] axis 1 : (tensor<2x4x3xf64>, tensor<5xi64>) -> "
     "tensor<2x5x3xf64>",
     {{"2x4x3xf64"}, {"5xi64", 0, 4}}},
    {"nn.scatter_add %a at [%b] axis 1 : (tensor<5xi64>, tensor<2x5x3xf64>) "
     "-> tensor<2x4x3xf64>",
     {{"2x5x3xf64"}, {"5xi64", 0, 4}}},
    {"nn.gather %a[%b] axis 2 shared 1 : (tensor<2x3x4xf64>, tensor<2x5xi64>) "
     "-> tensor<2x3x5xf64>",
     {{"2x3x4xf64"}, {"2x5xi64", 0, 4}}},
    {"nn.scatter_add %a at [%b] axis 1 shared 1 : (tensor<2xi64>, "
     "tensor<2x3xf64>) -> tensor<2x4x3xf64>",
     {{"2x3xf64"}, {"2xi64", 0, 4}}},
    {"nn.scatter %a into %b at [%c] axis 1 : (tensor<2x5x3xf64>, "
     "tensor<4xi64>, tensor<2x4x3xf64>) -> tensor<2x5x3xf64>",
     {{"2x4x3xf64"}, {"2x5x3xf64"}, {"4xi64", 0, 4}}},
    {"nn.scatter %a into %b at [%c] axis 0 combine sum : (tensor<3x2xf64>, "
     "tensor<4xi64>, tensor<4x2xf64>) -> tensor<3x2xf64>",
     {{"4x2xf64"}, {"3x2xf64"}, {"4xi64", 0, 3}}},
    {"nn.scatter %a into %b at [%c] axis 0 combine max : (tensor<3x2xf64>, "
     "tensor<4xi64>, tensor<4x2xf64>) -> tensor<3x2xf64>",
     {{"4x2xf64"}, {"3x2xf64"}, {"4xi64", 0, 3}}},
    {"nn.scatter %a into %b at [%c] axis 1 shared 1 combine min : "
     "(tensor<2x3xf64>, tensor<2x4xi64>, tensor<2x4xf64>) -> tensor<2x3xf64>",
     {{"2x4xf64"}, {"2x3xf64"}, {"2x4xi64", 0, 3}}},
    {"nn.scatter %a into %b at [%c] axis 0 combine product : "
     "(tensor<3x2xf64>, tensor<4xi64>, tensor<4x2xf64>) -> tensor<3x2xf64>",
     {{"4x2xf64"}, {"3x2xf64"}, {"4xi64", 0, 3}}},
    {"nn.cumsum %a axis 1 : tensor<2x4x3xf64>", {{"2x4x3xf64"}}},
    {"nn.cumsum %a axis 0 exclusive reverse : tensor<4x2xf64>", {{"4x2xf64"}}},
    {"nn.reduce product %a [0, 2] : tensor<2x3x2xf64> -> tensor<3xf64>",
     {{"2x3x2xf64"}}},
    {"nn.reduce sum %a [0, 2] : tensor<2x3x4xf64> -> tensor<3xf64>",
     {{"2x3x4xf64"}}},
    {"nn.reduce max %a [1] : tensor<3x4xf64> -> tensor<3xf64>", {{"3x4xf64"}}},
    {"nn.reduce min %a [0] : tensor<3x4xf64> -> tensor<4xf64>", {{"3x4xf64"}}},
    // Contractions.
    {"nn.dot_general %a, %b batch [] x [] contract [1] x [1] : "
     "(tensor<3x4xf64>, tensor<5x4xf64>) -> tensor<3x5xf64>",
     {{"3x4xf64"}, {"5x4xf64"}}},
    {"nn.dot_general %a, %b batch [1] x [0] contract [2, 0] x [1, 3] : "
     "(tensor<2x3x4xf64>, tensor<3x4x2x2xf64>) -> tensor<3x2xf64>",
     {{"2x3x4xf64"}, {"3x4x2x2xf64"}}},
    {"nn.dot_general %a, %b batch [] x [] contract [1] x [0] : "
     "(tensor<3x4xf32>, tensor<4x2xf32>) -> tensor<3x2xf32>",
     {{"3x4xf32"}, {"4x2xf32"}}},
    {"nn.conv %a, %b strides [2, 1] dilations [1, 2] pad [1, 0] x [0, 2] "
     "groups 2 : (tensor<2x4x4x5xf32>, tensor<6x2x3x2xf32>) -> "
     "tensor<2x6x2x5xf32>",
     {{"2x4x4x5xf32"}, {"6x2x3x2xf32"}}},
    {"nn.conv %a, %b strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] "
     "groups 1 layout channels_last : (tensor<1x3x4x2xf32>, "
     "tensor<3x2x3x3xf32>) -> tensor<1x3x4x3xf32>",
     {{"1x3x4x2xf32"}, {"3x2x3x3xf32"}}},
    {"nn.conv_backward_input %a, %b strides [2, 1] dilations [1, 2] "
     "pad [1, 0] x [0, 2] groups 2 : (tensor<2x6x2x5xf32>, "
     "tensor<6x2x3x2xf32>) -> tensor<2x4x4x5xf32>",
     {{"2x6x2x5xf32"}, {"6x2x3x2xf32"}}},
    {"nn.conv_backward_weight %a, %b strides [2, 1] dilations [1, 2] "
     "pad [1, 0] x [0, 2] groups 2 : (tensor<2x4x4x5xf32>, "
     "tensor<2x6x2x5xf32>) -> tensor<6x2x3x2xf32>",
     {{"2x4x4x5xf32"}, {"2x6x2x5xf32"}}},
    {"nn.attention %a [0, 1, 2, 3], %b [0, 1, 2, 3], %c [0, 1, 2, 3] "
     "scale 0.5 output [0, 1, 2, 3] : (tensor<1x2x3x4xf32>, "
     "tensor<1x2x5x4xf32>, tensor<1x2x5x2xf32>) -> (tensor<1x2x3x2xf32>, "
     "tensor<1x2x3xf32>)",
     {{"1x2x3x4xf32"}, {"1x2x5x4xf32"}, {"1x2x5x2xf32"}},
     2},
    {"nn.attention %a [0, 2, 1, 3], %b [0, 2, 1, 3], %c [0, 2, 1, 3] "
     "scale 0.7 causal output [0, 2, 1, 3] : (tensor<1x3x2x4xf32>, "
     "tensor<1x3x2x4xf32>, tensor<1x3x2x4xf32>) -> (tensor<1x3x2x4xf32>, "
     "tensor<1x2x3xf32>)",
     {{"1x3x2x4xf32"}, {"1x3x2x4xf32"}, {"1x3x2x4xf32"}},
     2},
    // Windows.
    {"nn.max_pool %a kernel [2, 2] strides [2, 1] dilations [1, 1] "
     "pad [1, 0] x [0, 1] : (tensor<1x2x3x4xf32>) -> tensor<1x2x2x4xf32>",
     {{"1x2x3x4xf32"}}},
    {"nn.avg_pool %a kernel [2, 2] strides [1, 2] dilations [1, 1] "
     "pad [1, 0] x [0, 0] : (tensor<1x2x3x4xf32>) -> tensor<1x2x3x2xf32>",
     {{"1x2x3x4xf32"}}},
    {"nn.avg_pool %a kernel [2, 2] strides [1, 2] dilations [1, 1] "
     "pad [1, 0] x [0, 0] include_pad : (tensor<1x2x3x4xf32>) -> "
     "tensor<1x2x3x2xf32>",
     {{"1x2x3x4xf32"}}},
    {"nn.avg_pool_backward %a kernel [2, 2] strides [1, 2] dilations [1, 1] "
     "pad [1, 0] x [0, 0] : (tensor<1x2x3x2xf32>) -> tensor<1x2x3x4xf32>",
     {{"1x2x3x2xf32"}}},
    // Normalisation and losses.
    {"nn.softmax %a : tensor<2x5xf64>", {{"2x5xf64"}}},
    {"nn.log_softmax %a : tensor<2x5xf64>", {{"2x5xf64"}}},
    {"nn.layer_norm %a, %b, %c epsilon 1.0e-3 : (tensor<2x3x4xf64>, "
     "tensor<4xf64>, tensor<4xf64>) -> (tensor<2x3x4xf64>, tensor<2x3xf64>, "
     "tensor<2x3xf64>)",
     {{"2x3x4xf64"}, {"4xf64"}, {"4xf64"}},
     3},
    {"nn.batch_norm %a, %b, %c epsilon 1.0e-2 : (tensor<3x2x4xf32>, "
     "tensor<2xf32>, tensor<2xf32>) -> (tensor<3x2x4xf32>, tensor<2xf32>, "
     "tensor<2xf32>)",
     {{"3x2x4xf32"}, {"2xf32"}, {"2xf32"}},
     3},
    {"nn.softmax_cross_entropy %a, %b : (tensor<4x3xf64>, tensor<4xi64>) -> "
     "(tensor<f64>, tensor<4xf64>)",
     {{"4x3xf64"}, {"4xi64", 0, 3}},
     2},
    {"nn.ctc_loss %a, %b blank 1 : (tensor<3x5x4xf64>, tensor<3x2xi64>) -> "
     "(tensor<3xf64>, tensor<3x5x5xf64>)",
     {{"3x5x4xf64"}, {"3x2xi64", -1, 4}},
     2},
    {"nn.ctc_loss %a, %b frames %c blank 0 : (tensor<3x6x4xf64>, "
     "tensor<3x2xi64>, tensor<3xi64>) -> (tensor<3xf64>, tensor<3x6x5xf64>)",
     {{"3x6x4xf64"}, {"3x2xi64", 1, 4}, {"3xi64", 3, 7}},
     2},
    {"nn.softmax_cross_entropy %a, %b {ignoreIndex = 1 : i64} : "
     "(tensor<4x3xf64>, tensor<4xi64>) -> (tensor<f64>, tensor<4xf64>)",
     {{"4x3xf64"}, {"4xi64", 0, 3}},
     2},
};

bool isFloat(Type type) {
  return isa<FloatType>(cast<RankedTensorType>(type).getElementType());
}

class Registered : public testing::Test {
protected:
  Registered() : context(makeRegistry()) { context.loadAllAvailableDialects(); }

  static DialectRegistry makeRegistry() {
    DialectRegistry registry;
    pp::registerAllDialects(registry);
    return registry;
  }

  MLIRContext context;
};

class Derivative : public Registered, public testing::WithParamInterface<Case> {
protected:
  /// @main with the operation alone.
  OwningOpRef<ModuleOp> parse(const Case &test) {
    std::string text = "func.func @main(";
    for (auto [index, operand] : llvm::enumerate(test.operands))
      text += (index ? ", %" : "%") + std::string(1, char('a' + index)) +
              ": tensor<" + operand.type + ">";
    text += ") {\n  %r:" + std::to_string(test.results) + " = " +
            test.operation + "\n  return\n}\n";
    return parseSourceString<ModuleOp>(text, &context);
  }
};

/// Different numbers of the operand's range, in random order, without the
/// bounds.
Numbers draw(const Operand &operand, RankedTensorType type,
             std::mt19937 &generator) {
  Numbers numbers;
  int64_t count = type.getNumElements();
  for (int64_t i = 0; i < count; ++i) {
    double at = operand.low + (operand.high - operand.low) *
                                  (static_cast<double>(i) + 0.5) /
                                  static_cast<double>(count);
    if (type.getElementType().isInteger(1))
      at = i % 2;
    else if (!isFloat(type))
      at = std::floor(at);
    numbers.push_back(at);
  }
  std::shuffle(numbers.begin(), numbers.end(), generator);
  return numbers;
}

/// Makes @main take the cotangent of the first result as last argument, and
/// return that result and the cotangents of the operands that have one.
/// `operands` gets the numbers of these.
void addProduct(func::FuncOp function, SmallVectorImpl<unsigned> &operands) {
  Block &body = function.getBody().front();
  Operation &op = body.front();
  Value result = op.getResult(0);
  (void)function.insertArgument(function.getNumArguments(), result.getType(),
                                {}, function.getLoc());
  SmallVector<Value> cotangents(op.getNumResults()), products;
  cotangents.front() = body.getArguments().back();
  SmallVector<bool> needed;
  for (Type type : op.getOperandTypes())
    needed.push_back(isFloat(type));
  OpBuilder builder(body.getTerminator());
  ASSERT_TRUE(succeeded(cast<pp::DifferentiableOpInterface>(op).buildVJP(
      builder, cotangents, needed, products)));
  ASSERT_EQ(products.size(), op.getNumOperands());
  SmallVector<Value> results = {result};
  for (auto [operand, product] : llvm::zip(op.getOperands(), products)) {
    if (!product || !isFloat(operand.getType()))
      continue;
    ASSERT_EQ(product.getType(), operand.getType());
    results.push_back(product);
    operands.push_back(cast<BlockArgument>(operand).getArgNumber());
  }
  body.getTerminator()->setOperands(results);
  function.setType(builder.getFunctionType(function.getArgumentTypes(),
                                           ValueRange(results).getTypes()));
}

TEST_P(Derivative, isWhatDifferencesAre) {
  OwningOpRef<ModuleOp> module = parse(GetParam());
  ASSERT_TRUE(module);
  auto function = module->lookupSymbol<func::FuncOp>("main");
  SmallVector<RankedTensorType> types;
  bool isDouble = true;
  for (Type type : function.getArgumentTypes()) {
    types.push_back(cast<RankedTensorType>(type));
    isDouble &= !types.back().getElementType().isF32();
  }
  types.push_back(cast<RankedTensorType>(
      function.getBody().front().front().getResult(0).getType()));
  SmallVector<unsigned> differentiated;
  addProduct(function, differentiated);
  if (HasFatalFailure())
    return;
  ASSERT_TRUE(succeeded(verify(*module)));
  auto compiled = CompiledFunction::create(*module);
  ASSERT_TRUE(bool(compiled)) << llvm::toString(compiled.takeError());

  // NOLINTNEXTLINE(bugprone-random-generator-seed): the same numbers each time.
  std::mt19937 generator(7);
  std::vector<Numbers> arguments;
  for (auto [operand, type] : llvm::zip(GetParam().operands, types))
    arguments.push_back(draw(operand, type, generator));
  arguments.push_back(draw({"", 0.5, 2}, types.back(), generator));
  std::vector<Numbers> products = compiled->run(arguments);
  auto weighted = [&] {
    std::vector<Numbers> results = compiled->run(arguments);
    double sum = 0;
    for (auto [y, weight] : llvm::zip_equal(results.front(), arguments.back()))
      sum += y * weight;
    return sum;
  };
  // Less than half of what lies between two elements.
  double step = isDouble ? 1e-3 : 1.0 / 64;
  double tolerance = isDouble ? 1e-8 : 1e-3;
  for (auto [index, operand] : llvm::enumerate(GetParam().operands)) {
    if (!isFloat(types[index]))
      continue;
    const auto *found = llvm::find(differentiated, index);
    // No cotangent stands for zero.
    Numbers product(arguments[index].size(), 0.0);
    if (found != differentiated.end())
      product = products[1 + (found - differentiated.begin())];
    double scale = 1;
    for (double number : product)
      scale = std::max(scale, std::abs(number));
    for (size_t i = 0; i < product.size(); ++i) {
      double &x = arguments[index][i], at = x;
      auto difference = [&](double h) {
        x = at + h;
        double above = weighted();
        x = at - h;
        double below = weighted();
        x = at;
        return (above - below) / (2 * h);
      };
      // Without the error of second order (Richardson).
      double expected = (4 * difference(step / 2) - difference(step)) / 3;
      EXPECT_NEAR(product[i], expected, tolerance * scale)
          << "operand " << index << ", element " << i;
    }
  }
}

/// "softmax_cross_entropy_1": the operation and which of its cases.
std::string nameOf(const testing::TestParamInfo<Case> &info) {
  auto mnemonic = [](const Case &test) {
    return llvm::StringRef(test.operation).split(' ').first.drop_front(3);
  };
  int number = 0;
  for (size_t i = 0; i < info.index; ++i)
    number += mnemonic(cases[i]) == mnemonic(info.param);
  return mnemonic(info.param).str() + "_" + std::to_string(number);
}

INSTANTIATE_TEST_SUITE_P(Nn, Derivative, testing::ValuesIn(cases), nameOf);

TEST_F(Registered, differentiableOperationsHaveACase) {
  std::set<std::string> differentiable, tested;
  for (RegisteredOperationName name : context.getRegisteredOperations())
    if (name.getDialectNamespace() == "nn" &&
        name.hasInterface<pp::DifferentiableOpInterface>())
      differentiable.insert(name.getStringRef().str());
  for (const Case &test : cases)
    tested.insert(llvm::StringRef(test.operation).split(' ').first.str());
  EXPECT_EQ(differentiable, tested);
}

} // namespace
