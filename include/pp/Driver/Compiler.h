//===- Compiler.h - The phases of the compiler ------------------*- C++ -*-===//
//
// The one place that knows which passes make up a phase.
//
//===----------------------------------------------------------------------===//

#ifndef PP_DRIVER_COMPILER_H
#define PP_DRIVER_COMPILER_H

#include "plan/Plan.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"
#include "pp/Driver/CompileOptions.h"
#include "pp/Driver/CompilePhase.h"
#include "pp/Driver/ModelImport.h"
#include "pp/Planner/PipelinePlan.h"
#include "pp/Target/ObjectEmitter.h"
#include "llvm/Support/raw_ostream.h"

namespace pp {

/// Lets the passes follow a plan, and sets what it decides about: batch,
/// micro-batches, replicas, stages, schedule and checkpoint.
void applyPlan(CompileOptions &options, const pipeline::GivenPlan &plan);

/// Adds the passes of one phase for a training or an inference program.
void buildPhase(mlir::OpPassManager &pm, CompilePhase phase,
                const CompileOptions &options, bool training);

/// A module with a nested module per program, `@training` (if there is a loss)
/// and `@inference`: what --compile-to prints.
class Compilation {
public:
  Compilation(mlir::MLIRContext *context, CompileOptions options);

  /// Takes the programs of a model, which was read for a training program if
  /// the options have one.
  llvm::Error readOnnx(ModelImport &import);
  /// Reads a model from ONNX, or what --compile-to printed from MLIR.
  llvm::Error readOnnx(llvm::StringRef path);
  llvm::Error readMlir(llvm::StringRef path);

  /// Runs the phases from `first` to `last` (without Import and Binary).
  /// `configure` sees each pass manager before it runs.
  llvm::Error run(CompilePhase first, CompilePhase last,
                  llvm::function_ref<void(mlir::PassManager &)> configure);

  /// What was lowered, with its plans. Points into this object.
  llvm::Expected<ProgramPair> makePrograms();

  mlir::ModuleOp getModule() { return *module; }
  mlir::ModuleOp getProgram(bool training);
  /// What ptxas said about the kernels of emit(), those for training first.
  /// Empty for the processor and without ptxas.
  const std::string &getDeviceReport() const { return deviceReport; }

  /// That of the options, or of the module that was read.
  const Target &getTarget() const { return options.target; }

  const CompileOptions &getOptions() const { return options; }

  /// Samples of a step; known once a model is read.
  int64_t getBatch() const { return options.batch; }

private:
  /// Which of several sizes of a dimension it is for.
  std::optional<runtime::PlanBucket> getBucket() const;
  llvm::Error agreeOnTarget(mlir::ModuleOp program, llvm::StringRef path);

  mlir::MLIRContext *context;
  CompileOptions options;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::string model;
  std::string deviceReport;
};

/// Objects to link for what was lowered: of one compilation, or of one for each
/// of several sizes of a dimension, smallest first. These must differ in that
/// size alone.
llvm::Expected<std::vector<std::string>>
emit(llvm::ArrayRef<Compilation *> buckets);

} // namespace pp

#endif // PP_DRIVER_COMPILER_H
