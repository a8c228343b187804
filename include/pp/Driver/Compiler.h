//===- Compiler.h - The phases of the compiler ------------------*- C++ -*-===//
//
// The one place that knows which passes make up a phase, and the options that
// all tools share.
//
//===----------------------------------------------------------------------===//

#ifndef PP_DRIVER_COMPILER_H
#define PP_DRIVER_COMPILER_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"
#include "pp/Import/OnnxImporter.h"
#include "pp/Planner/Plan.h"
#include "llvm/Support/raw_ostream.h"

namespace pp {

/// Where compilation can stop and start, in order.
enum class CompilePhase {
  Import,
  Graph,
  Differentiate,
  Kernels,
  Cost,
  Partition,
  Schedule,
  Lower,
  Binary,
};

/// "import", "graph", ...
llvm::StringRef getName(CompilePhase phase);

struct CompileOptions {
  ImportOptions import;
  /// Samples of a step; 0 takes the model's batch size.
  int64_t batch = 0;
  /// Of a step, over all replicas.
  int64_t microbatches = 1;
  /// Copies of the pipeline.
  int64_t replicas = 1;
  /// 0: as the model's hints say.
  int64_t stages = 0;
  /// "auto" or a name of planner::makeSchedule, except inference.
  std::string schedule = "1f1b";
  /// 0: as the schedule wants it; see pp-schedule.
  int64_t ranks = 0;
  /// For "auto"; see pp-schedule.
  int64_t memory = 0;
  std::string checkpoint = "never";
  std::string objective = "time";
  std::vector<std::string> cuts;
  bool ignoreHints = false;
  /// A file of pp-plan. It decides about batch, micro-batches, replicas,
  /// stages, schedule and checkpoint, which are set accordingly; the passes
  /// read the rest from it. It holds for one of the two programs; the other is
  /// cut into as many stages.
  std::string plan;
  /// Empty: only an inference program.
  std::string loss;
  std::string output;
  int64_t classAxis = -1;
  int64_t ignoreIndex = -100;
  std::string optimizer = "sgd";
  double learningRate = 0.01;
  double momentum = 0;
  double weightDecay = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  std::string costFile;
  /// Phases call pp_mark_kernel around each kernel; see pp-lower-stages.
  bool markKernels = false;
  std::string cpu = "native";
  /// Of products: "f32", "tf32", "bf16" or "f16".
  std::string precision = "f32";
  /// Whether nn-fuse-attention runs: "auto" (for GPUs, where products are of 16
  /// bits and the GPU's library has it), "always" or "never".
  std::string fuseAttention = "auto";
  /// "none", "dynamic" or a number; see nn-attach-optimizer.
  std::string lossScale = "none";
  /// "cpu", "mock" or "cuda:sm_90".
  std::string target = "cpu";
};

/// Sets what a plan decides about: batch, micro-batches, replicas, stages,
/// schedule and checkpoint.
void applyPlan(CompileOptions &options, const planner::Plan &plan);

/// The N of a target "cuda:sm_N"; none for other targets.
std::optional<unsigned> getGpuArchitecture(llvm::StringRef target);

/// Adds the passes of one phase for a training or an inference program.
void buildPhase(mlir::OpPassManager &pm, CompilePhase phase,
                const CompileOptions &options, bool training);

/// A module with a nested module per program, `@training` (if there is a loss)
/// and `@inference`: what --compile-to prints.
class Compilation {
public:
  Compilation(mlir::MLIRContext *context, CompileOptions options);

  /// Reads a model from ONNX, or what --compile-to printed from MLIR.
  llvm::Error readOnnx(llvm::StringRef path);
  llvm::Error readMlir(llvm::StringRef path);

  /// Runs the phases from `first` to `last` (without Import and Binary).
  /// `configure` sees each pass manager before it runs.
  llvm::Error run(CompilePhase first, CompilePhase last,
                  llvm::function_ref<void(mlir::PassManager &)> configure);

  /// Object code for what was lowered.
  llvm::Expected<std::string> emit();

  /// Where the importer's warnings go; null: nowhere. Default: llvm::errs().
  void setWarnings(llvm::raw_ostream *stream) { warnings = stream; }

  mlir::ModuleOp getModule() { return *module; }
  mlir::ModuleOp getProgram(bool training);
  /// What ptxas said about the kernels of emit(), those for training first.
  /// Empty for the processor and without ptxas.
  const std::string &getDeviceReport() const { return deviceReport; }

  /// Samples of a step; known once a model is read.
  int64_t getBatch() const { return options.batch; }

private:
  llvm::Error agreeOnTarget(mlir::ModuleOp program, llvm::StringRef path);

  mlir::MLIRContext *context;
  CompileOptions options;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  llvm::raw_ostream *warnings = &llvm::errs();
  std::string model;
  std::string deviceReport;
};

} // namespace pp

#endif // PP_DRIVER_COMPILER_H
