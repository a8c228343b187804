//===- Compiler.cpp - The phases of the compiler --------------------------===//

#include "pp/Driver/Compiler.h"
#include "ModelHash.h"
#include "cpu/Processor.h"
#include "cpu/TiledProduct.h"
#include "plan/BucketAxes.h"
#include "plan/PlanJson.h"
#include "pp/Conversion/Passes.h"
#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Dialect/NN/Transforms/Passes.h"
#include "pp/Dialect/PP/IR/PP.h"
#include "pp/Dialect/PP/Transforms/Passes.h"
#include "pp/Driver/Errors.h"
#include "pp/Planner/Schedule/Rolling.h"
#include "pp/Target/MakePlan.h"
#include "pp/Target/ObjectEmitter.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MLProgram/IR/MLProgram.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/Path.h"

#include <limits>

using namespace mlir;
using namespace pp;

void pp::applyPlan(CompileOptions &options, const pipeline::GivenPlan &plan) {
  options.plan = plan;
  options.batch = plan->batch;
  options.microbatches = plan->microbatches();
  options.replicas = plan->replicas;
  std::vector<int> counts = plan->stageReplicas();
  options.stageReplicas.assign(counts.begin(), counts.end());
  options.schedule.threads = plan->threads;
  options.partition.stages = plan->schedule.parts();
  options.schedule.schedule = plan->scheduleName;
  options.checkpoint.mode = plan->checkpoint;
}

/// What the libraries of GPUs have is attention of 16 bits, from sm_80 on. On a
/// processor it takes less time than its parts where there are tiles for its
/// products, whether of bf16 or f32 (docs/rationale.md).
static bool fusesAttention(const CompileOptions &options) {
  if (options.fuseAttention != AttentionFusion::Auto)
    return options.fuseAttention == AttentionFusion::Always;
  if (options.target.isCpu())
    return (options.precision == nn::Precision::F32 ||
            options.precision == nn::Precision::BF16) &&
           runtime::TiledProduct::isPossible();
  return (options.precision == nn::Precision::BF16 ||
          options.precision == nn::Precision::F16) &&
         options.target.getArchitecture().value_or(80) >= 80;
}

/// From so many rows of the key on, a mask that the program makes becomes a
/// part of attention.
static constexpr int64_t leastMaskedColumns = 128;

/// Whether the plan is for this program.
static bool isPlanned(const CompileOptions &options, bool training) {
  return options.plan && training == options.hasTraining;
}

void pp::buildPhase(OpPassManager &pm, CompilePhase phase,
                    const CompileOptions &options, bool training) {
  switch (phase) {
  case CompilePhase::Import:
  case CompilePhase::Binary:
    return;
  case CompilePhase::Graph: {
    pm.addPass(createCanonicalizerPass());
    pm.addPass(createCSEPass());
    // A virtual worker commits statistics after each micro-batch.
    bool hasWorkers = planner::weightRuleOf(options.schedule.schedule) ==
                      planner::WeightRule::Waves;
    int64_t microbatches = options.microbatchesOf(training);
    nn::RebatchOptions rebatch;
    rebatch.batch = options.batch / microbatches;
    rebatch.microbatches = hasWorkers ? 1 : microbatches;
    rebatch.averagesMeans = options.averagesMeans;
    rebatch.countsSamples = training && options.target.isCpu() &&
                            options.norms == NormKernels::Generated;
    if (training && options.loss.loss == nn::Loss::Output)
      rebatch.loss = options.loss.output;
    // What the last axis of up to three is to a loss stays that. A class axis
    // that is given is one of the model's output.
    constexpr int64_t any = std::numeric_limits<int64_t>::max();
    bool hasAxis =
        options.loss.classAxis >= 0 || options.loss.loss == nn::Loss::Output;
    rebatch.mostSeparateAxes = !training ? any : hasAxis ? 0 : 3;
    pm.addPass(nn::createRebatch(rebatch));
    if (options.target.isCpu()) {
      pm.addPass(nn::createUnfoldPatches());
      pm.addPass(nn::createRepeatChannels());
      pm.addPass(nn::createExpandDoubles());
    }
    if (fusesAttention(options)) {
      // With fewer columns, the matrix of scores is small and products with it
      // are as fast (measured: with 128, steps of a GPT-2 and a BERT took 523
      // and 524 ms with a mask as an operand, 544 and 540 without).
      const bool isForced = options.fuseAttention == AttentionFusion::Always;
      pm.addPass(nn::createFuseAttention(
          {options.target.isGpu(), isForced ? 0 : leastMaskedColumns}));
    }
    pm.addPass(nn::createInferIndexRanges());
    return;
  }
  case CompilePhase::Differentiate: {
    if (!training)
      return;
    nn::AttachLossOptions loss = options.loss;
    loss.microbatches = options.microbatches;
    pm.addPass(nn::createAttachLoss(loss));
    // Without a flush, each micro-batch has a gradient and weights of its own.
    // Of stages with other numbers of replicas, no two replicas are a pair.
    bool hasParts = !planner::weightRuleOf(options.schedule.schedule) &&
                    options.stageReplicas.empty();
    pm.addPass(nn::createDifferentiate(
        {options.optimizer.lossScale != "none", hasParts}));
    pm.addPass(nn::createAttachOptimizer(options.optimizer));
    pm.addPass(createCanonicalizerPass());
    pm.addPass(createCSEPass());
    pm.addPass(pipeline::createVerifyStep());
    return;
  }
  case CompilePhase::Kernels: {
    // An inference program prepares once.
    int64_t weightUses = training ? options.microbatches : 0;
    pm.addPass(nn::createJoinProducts());
    pm.addPass(nn::createArrangeProducts());
    if (options.precision != nn::Precision::F32)
      pm.addPass(nn::createMixedPrecision(
          {options.precision, /*norms=*/options.target.isCpu()}));
    // Kernels that are generated for GPUs, and cuDNN as it is called, are
    // plain.
    if (options.target.isCpu()) {
      nn::ChooseConvolutionsOptions convolutions = options.convolutions;
      nn::AssignLayoutsOptions layouts = options.layouts;
      if (options.packWeights.mode != nn::PackWeightsMode::Never)
        convolutions.uses = layouts.uses = weightUses;
      convolutions.shortRate = !runtime::hasFastBFloat16() ? 1
                               : runtime::hasMatrixTiles() ? 8
                                                           : 2;
      if (runtime::shortTiles() && !runtime::hasMatrixTiles())
        convolutions.pairRate = 2;
      // Measured on a Zen 5, of ResNets and a U-Net (docs/rationale.md).
      if (runtime::isZen5()) {
        convolutions.gflops = 250;
        convolutions.tileBytes = 52;
        convolutions.weightBytes = 25;
        convolutions.tileMoves = 1.0;
        convolutions.libraryGradients = 1.5;
      }
      // Without AVX-512, measured on Zen 3 (docs/rationale.md).
      if (!runtime::hasAvx512()) {
        convolutions.libraryWinograd = false;
        convolutions.gflops = 85;
        convolutions.tileBytes = 6.8;
        convolutions.weightBytes = 4.5;
        convolutions.tileMoves = 1.0;
      }
      // Measured on Cascade Lake (docs/rationale.md).
      if (runtime::isSkylakeServer()) {
        convolutions.gflops = 100;
        convolutions.tileBytes = 11.5;
        convolutions.weightBytes = 6.5;
        convolutions.tileMoves = 0.6;
        convolutions.libraryGradients = 0.75;
      }
      convolutions.tuningFile = layouts.tuningFile = options.tuningFile;
      layouts.bandwidth = options.cost.bandwidth;
      pm.addPass(nn::createChooseConvolutions(convolutions));
      pm.addPass(nn::createAssignLayouts(layouts));
      if (options.norms == NormKernels::Generated)
        pm.addPass(nn::createExpandNorms());
    }
    pm.addPass(nn::createHoistPreparation());
    if (options.target.isCpu()) {
      nn::PackWeightsOptions pack = options.packWeights;
      pack.uses = weightUses;
      pack.tuningFile = options.tuningFile;
      pm.addPass(nn::createPackWeights(pack));
    }
    // Generated code adds the bias of a product for nothing on the processor,
    // with an activation that the library has not. Behind a convolution, whose
    // backward phase reads what lies between, only inference has no such
    // reader.
    pm.addPass(nn::createFormKernels(
        {/*epilogues=*/options.target.isGpu(),
         /*convolutionEpilogues=*/options.target.isCpu() && !training,
         /*accumulate=*/false,
         /*accumulateFast=*/options.target.isCpu()}));
    if (training && options.target.isCpu() &&
        !planner::weightRuleOf(options.schedule.schedule))
      pm.addPass(nn::createPrepareInUpdate());
    if (training)
      pm.addPass(nn::createRematerialize(
          {/*weightsChange=*/planner::weightRuleOf(options.schedule.schedule) ==
           planner::WeightRule::Latest}));
    pm.addPass(pipeline::createVerifyStep());
    return;
  }
  case CompilePhase::Cost: {
    pipeline::AnnotateCostsOptions cost = options.cost;
    if (training && options.target.isCpu())
      cost.microbatches = options.microbatches / options.replicas;
    cost.threads = options.schedule.threads;
    pm.addPass(pipeline::createAnnotateCosts(cost));
    return;
  }
  case CompilePhase::Partition: {
    pipeline::PartitionOptions partition = options.partition;
    partition.microbatches = options.microbatches / options.replicas;
    partition.ignoreHints |= bool(options.plan);
    if (isPlanned(options, training))
      partition.plan = options.plan;
    pm.addPass(pipeline::createPartition(partition));
    pm.addPass(pipeline::createInsertPortals());
    pm.addPass(pipeline::createPlaceCheckpoints(
        training ? options.checkpoint : pipeline::PlaceCheckpointsOptions()));
    pm.addPass(pipeline::createOutlineStages());
    pm.addPass(pipeline::createVerifyStages());
    return;
  }
  case CompilePhase::Schedule: {
    pipeline::ScheduleOptions schedule;
    if (training)
      schedule = options.schedule;
    else
      schedule.schedule = "inference";
    if (isPlanned(options, training))
      schedule.plan = options.plan;
    schedule.microbatches = options.microbatchesOf(training);
    schedule.replicas = options.replicas;
    schedule.stageReplicas = options.stageReplicas;
    schedule.threads = options.schedule.threads;
    pm.addPass(pipeline::createSchedule(schedule));
    pm.addPass(pipeline::createInsertTransfers());
    pm.addPass(pipeline::createVerifySchedule());
    return;
  }
  case CompilePhase::Lower: {
    // A GPU's threads share a row.
    pm.addPass(
        createLowerKernels({/*lanes=*/options.target.isCpu() ? 16u : 1u}));
    if (options.target.isGpu())
      pm.addPass(createMakeLaunches());
    pm.addPass(pipeline::createPlanMemory());
    if (options.target.isMock())
      pm.addPass(createLowerToMock());
    else if (options.target.isGpu())
      buildDevicePipeline(pm);
    else {
      pm.nest<ModuleOp>().addPass(createTileTransposes());
      pm.nest<ModuleOp>().addPass(createSplitKernels());
    }
    buildKernelPipeline(pm.nest<ModuleOp>());
    pm.addPass(createLowerStages(options.lower));
    pm.addPass(pipeline::createVerifyMemory());
    return;
  }
  }
}

//===----------------------------------------------------------------------===//
// Compilation
//===----------------------------------------------------------------------===//

Compilation::Compilation(MLIRContext *context, CompileOptions options)
    : context(context), options(std::move(options)) {}

ModuleOp Compilation::getProgram(bool training) {
  return module->lookupSymbol<ModuleOp>(training ? "training" : "inference");
}

static int64_t batchOf(ModuleOp program) {
  auto function = program.lookupSymbol<func::FuncOp>(nn::mainFunctionName);
  return function ? step::getBatchSize(function).value_or(0) : 0;
}

llvm::Error Compilation::readOnnx(llvm::StringRef path) {
  auto import =
      ModelImport::read(context, path, options.import, options.hasTraining);
  return import ? readOnnx(*import) : import.takeError();
}

/// Kernels of GPUs that run once in a step are those of f32.
static llvm::Error checkTrainedTypes(ModuleOp program, const Target &target) {
  for (auto global : program.getOps<ml_program::GlobalOp>())
    if (target.isGpu() && global->hasAttr(nn::trainedAttrName) &&
        getElementTypeOrSelf(global.getType()).isF64())
      return makeError(exitInvalid,
                       "'" + global.getSymName() +
                           "' is a parameter of f64, and " + target.str() +
                           " trains f32 alone; train it on the processor, or "
                           "convert the model");
  return llvm::Error::success();
}

/// Whether the model has a loss of its own that has no axis of samples.
static bool hasLossOfBatch(ModuleOp program,
                           const nn::AttachLossOptions &loss) {
  auto function = program.lookupSymbol<func::FuncOp>(nn::mainFunctionName);
  if (!function || loss.loss != nn::Loss::Output)
    return false;
  for (auto [index, type] : llvm::enumerate(function.getResultTypes())) {
    auto name =
        function.getResultAttrOfType<StringAttr>(index, step::fetchAttrName);
    if (name && name.getValue() == loss.output)
      return cast<RankedTensorType>(type).getNumElements() == 1;
  }
  return false;
}

llvm::Error Compilation::readOnnx(ModelImport &import) {
  llvm::StringRef path = import.getPath();
  model = llvm::sys::path::stem(path).str();
  if (options.microbatches < 1)
    return makeError(exitUsage,
                     "--microbatches=" + llvm::Twine(options.microbatches) +
                         ": must be 1 or more");
  OpBuilder builder(context);
  module = ModuleOp::create(NameLoc::get(builder.getStringAttr(path)), model);
  builder.setInsertionPointToEnd(module->getBody());
  int64_t batch = options.batch == 0 ? options.microbatches : options.batch;
  for (bool training : {true, false}) {
    if (training && !options.hasTraining)
      continue;
    auto program = import.getProgram(training, batch,
                                     /*isBatchMissing=*/options.hasTraining &&
                                         options.batch == 0);
    if (!program)
      return program.takeError();
    (*program)->setName(training ? "training" : "inference");
    if (llvm::Error error = checkTrainedTypes(**program, options.target))
      return error;
    if (training)
      (*program)->getOperation()->setAttr(
          pipeline::modelHashAttrName,
          builder.getStringAttr(hashModel(**program, options)));
    if (!options.target.isCpu())
      (*program)->getOperation()->setAttr(
          pipeline::targetAttrName,
          builder.getStringAttr(options.target.str()));
    module->push_back(program->release());
  }
  if (options.batch == 0)
    options.batch = batchOf(getProgram(false));
  options.hasWholeInference = options.hasTraining && options.microbatches > 1 &&
                              hasLossOfBatch(getProgram(false), options.loss);
  if (options.hasWholeInference && options.replicas > 1)
    return makeError(exitUsage,
                     "--replicas=" + llvm::Twine(options.replicas) +
                         ": the output '" + options.loss.output +
                         "', which is the loss, is one number for a "
                         "mini-batch, which the replicas of an inference "
                         "program would have to share; use --replicas=1");
  if (options.batch % options.microbatches != 0)
    return makeError(exitUsage, "a batch of " + llvm::Twine(options.batch) +
                                    " cannot be split into " +
                                    llvm::Twine(options.microbatches) +
                                    " equal micro-batches; change --batch or "
                                    "--microbatches");
  if (options.microbatches % options.replicas != 0)
    return makeError(exitUsage,
                     llvm::Twine(options.microbatches) +
                         " micro-batches cannot be dealt out equally to " +
                         llvm::Twine(options.replicas) +
                         " replicas; change --microbatches or --replicas");
  return llvm::Error::success();
}

/// A program that was printed says what it is for, unless that is the
/// processor.
llvm::Error Compilation::agreeOnTarget(ModuleOp program, llvm::StringRef path) {
  Target target = pipeline::getTarget(program);
  bool isOpen = !program->hasAttr(pipeline::targetAttrName) &&
                !program.lookupSymbol(codeModuleName);
  if (isOpen && !options.target.isCpu())
    program->setAttr(pipeline::targetAttrName,
                     StringAttr::get(context, options.target.str()));
  else if (options.target.isCpu())
    options.target = target;
  else if (options.target != target)
    return makeError(exitUsage, "--target=" + options.target.str() + ": '" +
                                    path + "' was made for " + target.str());
  return llvm::Error::success();
}

llvm::Error Compilation::readMlir(llvm::StringRef path) {
  ParserConfig config(context);
  module = parseSourceFile<ModuleOp>(path, config);
  if (!module)
    return makeError(exitInvalid, "cannot read '" + path + "'");
  if (!getProgram(true) && !getProgram(false))
    return makeError(exitInvalid,
                     "'" + path +
                         "' has neither a module @training nor @inference; "
                         "--compile-to writes such files");
  for (bool training : {true, false})
    if (ModuleOp program = getProgram(training))
      if (llvm::Error error = agreeOnTarget(program, path))
        return error;
  model = module->getName().value_or("model").str();
  if (options.batch == 0)
    for (bool training : {true, false})
      if (ModuleOp program = getProgram(training))
        options.batch = batchOf(program);
  return llvm::Error::success();
}

llvm::Error
Compilation::run(CompilePhase first, CompilePhase last,
                 llvm::function_ref<void(PassManager &)> configure) {
  for (bool training : {true, false}) {
    ModuleOp program = getProgram(training);
    if (!program)
      continue;
    PassManager pm(context, ModuleOp::getOperationName());
    for (int phase = static_cast<int>(first); phase <= static_cast<int>(last);
         ++phase)
      buildPhase(pm, static_cast<CompilePhase>(phase), options, training);
    configure(pm);
    if (failed(pm.run(program)))
      return makeError(exitInvalid, "compilation of '" + model + "' failed");
  }
  return llvm::Error::success();
}

std::optional<runtime::PlanBucket> Compilation::getBucket() const {
  const ImportOptions::Buckets &buckets = options.import.buckets;
  if (buckets.dim.empty())
    return std::nullopt;
  return runtime::PlanBucket{buckets.dim,
                             options.import.dims.lookup(buckets.dim)};
}

llvm::Expected<ProgramPair> Compilation::makePrograms() {
  ProgramPair pair;
  for (bool training : {true, false}) {
    ModuleOp program = getProgram(training);
    if (!program)
      continue;
    auto plan = makePlan(program, model, getBucket());
    if (failed(plan))
      return makeError(exitInvalid, "compilation of '" + model + "' failed");
    if (auto fault = runtime::findFault(*plan))
      return makeError(exitInternal, "the plan of '" + model +
                                         "' is not one that runs: " + *fault);
    ProgramSource &source = training ? pair.training : pair.inference;
    source.module = program;
    source.plan = runtime::toJson(*plan);
    Target target = pipeline::getTarget(program);
    if (!target.getArchitecture())
      continue;
    auto code = emitDeviceCode(program, target.getChip());
    if (!code)
      return code.takeError();
    deviceReport += code->report;
    source.device = std::move(*code);
  }
  if (!pair.inference.module)
    return makeError(exitInvalid, "there is no inference program to emit");
  return pair;
}

llvm::Expected<std::vector<std::string>>
pp::emit(llvm::ArrayRef<Compilation *> buckets) {
  std::vector<ProgramPair> pairs;
  std::vector<std::string> plans[2]; // for training, for inference
  for (Compilation *bucket : buckets) {
    auto pair = bucket->makePrograms();
    if (!pair)
      return pair.takeError();
    for (auto [source, list] : {std::pair(&pair->training, &plans[0]),
                                std::pair(&pair->inference, &plans[1])})
      if (source->module)
        list->push_back(source->plan);
    pairs.push_back(std::move(*pair));
  }
  if (buckets.size() > 1)
    for (const std::vector<std::string> &list : plans)
      if (!list.empty())
        if (auto fault = runtime::BucketAxes::findFault(list))
          return makeError(exitInvalid, "--dim: " + *fault);
  return emitObjects(pairs, {buckets.front()->getOptions().cpu});
}
