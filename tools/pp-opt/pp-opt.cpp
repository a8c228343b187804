#include "mlir/InitAllDialects.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Dialect/NN/Transforms/Passes.h"
#include "pp/Dialect/PP/IR/PP.h"
int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllPasses();
  pp::nn::registerNNPasses();
  registry.insert<pp::nn::NNDialect, pp::pipeline::PPDialect>();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "pp-opt\n", registry));
}
