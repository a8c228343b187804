//===- CompileOptions.h - How a model is compiled ---------------*- C++ -*-===//
//
// The options of the passes, phase by phase, with the defaults that their .td
// files state. The flags of the tools are bound to these fields
// (CompileFlags.cpp), and the phases hand them on as they are (Compiler.cpp).
//
//===----------------------------------------------------------------------===//

#ifndef PP_DRIVER_COMPILEOPTIONS_H
#define PP_DRIVER_COMPILEOPTIONS_H

#include "pp/Conversion/Passes.h"
#include "pp/Dialect/NN/Transforms/Passes.h"
#include "pp/Dialect/PP/Transforms/Passes.h"
#include "pp/Import/OnnxImporter.h"
#include "pp/Support/Target.h"

#include <string>

namespace pp {

/// What runs batch norms on the processor.
enum class NormKernels { Generated, Library };
template <> struct EnumNames<NormKernels> {
  static constexpr NamedValue<NormKernels> values[] = {
      {NormKernels::Generated, "generated",
       "fused with what follows, shared by threads, precise"},
      {NormKernels::Library, "library", ""}};
};

/// When attention becomes one kernel.
enum class AttentionFusion {
  /// For GPUs, where products are of 16 bits and the GPU's library has it, and
  /// processors with products of bf16, where products are that.
  Auto,
  Always,
  Never
};

template <> struct EnumNames<AttentionFusion> {
  static constexpr NamedValue<AttentionFusion> values[] = {
      {AttentionFusion::Auto, "auto",
       "where the device has it for --precision=bf16 or f16"},
      {AttentionFusion::Always, "always", ""},
      {AttentionFusion::Never, "never", ""}};
};

struct CompileOptions {
  Target target;
  /// The processor to compile for; "native" is this one.
  std::string cpu = "native";

  // What all phases agree on; the passes' own fields of these names are set
  // from here.
  /// Samples of a step; 0 takes the model's batch size.
  int64_t batch = 0;
  /// Of a step, over all replicas.
  int64_t microbatches = 1;
  /// Whether the inference program has one micro-batch: an own loss of the
  /// model is one number for the mini-batch.
  bool hasWholeInference = false;
  int64_t microbatchesOf(bool training) const {
    return training || !hasWholeInference ? microbatches : 1;
  }
  /// Copies of the pipeline.
  int64_t replicas = 1;
  /// Of each stage, where they are not equal; `replicas` is 1 then.
  llvm::SmallVector<int64_t> stageReplicas;
  /// Whether there is a training program, with `loss` and `optimizer`.
  bool hasTraining = false;
  /// It decides about batch, micro-batches, replicas, stages, schedule and
  /// checkpoint; see applyPlan. It holds for one of the two programs; the other
  /// is cut into as many stages.
  pipeline::GivenPlan plan;

  // Import
  ImportOptions import;
  // Graph
  AttentionFusion fuseAttention = AttentionFusion::Auto;
  // Differentiate
  nn::AttachLossOptions loss;
  /// See nn-rebatch.
  bool averagesMeans = false;
  nn::AttachOptimizerOptions optimizer;
  // Kernels
  nn::Precision precision = nn::Precision::F32;
  nn::ChooseConvolutionsOptions convolutions;
  nn::AssignLayoutsOptions layouts;
  NormKernels norms = NormKernels::Generated;
  nn::PackWeightsOptions packWeights;
  // Cost
  pipeline::AnnotateCostsOptions cost;
  /// Of measured times, for the passes that choose among kernels.
  std::string tuningFile;
  // Partition; 0 stages: as the model's hints say
  pipeline::PartitionOptions partition;
  pipeline::PlaceCheckpointsOptions checkpoint;
  // Schedule
  pipeline::ScheduleOptions schedule;
  // Lower
  LowerStagesOptions lower;

  CompileOptions() { partition.stages = 0; }

  bool hasCostFile() const { return !cost.costFile.empty(); }
};

} // namespace pp

#endif // PP_DRIVER_COMPILEOPTIONS_H
