//===- Compiler.cpp - The phases of the compiler --------------------------===//

#include "pp/Driver/Compiler.h"
#include "ModelHash.h"
#include "plan/PlanJson.h"
#include "pp/Conversion/Passes.h"
#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Dialect/NN/Transforms/Passes.h"
#include "pp/Dialect/PP/IR/PP.h"
#include "pp/Dialect/PP/Transforms/Passes.h"
#include "pp/Driver/Errors.h"
#include "pp/Target/MakePlan.h"
#include "pp/Target/ObjectEmitter.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace pp;

static constexpr llvm::StringLiteral phaseNames[] = {
    "import",    "graph",    "differentiate", "kernels", "cost",
    "partition", "schedule", "lower",         "binary"};

llvm::StringRef pp::getName(CompilePhase phase) {
  return phaseNames[static_cast<int>(phase)];
}

void pp::applyPlan(CompileOptions &options, const planner::Plan &plan) {
  options.batch = plan.batch;
  options.microbatches = plan.microbatches();
  options.replicas = plan.replicas;
  options.stages = plan.schedule.stages;
  options.schedule = plan.scheduleName;
  options.checkpoint = nameOf(plan.checkpoint);
}

std::optional<unsigned> pp::getGpuArchitecture(llvm::StringRef target) {
  unsigned number = 0;
  if (!target.consume_front("cuda:sm_") || target.consumeInteger(10, number))
    return std::nullopt;
  return number;
}

/// What the libraries of GPUs have is attention of 16 bits, from sm_80 on.
static bool fusesAttention(const CompileOptions &options) {
  if (options.fuseAttention != "auto")
    return options.fuseAttention == "always";
  return options.target != "cpu" &&
         (options.precision == "bf16" || options.precision == "f16") &&
         getGpuArchitecture(options.target).value_or(80) >= 80;
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
    nn::RebatchOptions rebatch;
    rebatch.batch = options.batch / options.microbatches;
    rebatch.microbatches = options.microbatches;
    pm.addPass(nn::createRebatch(rebatch));
    if (fusesAttention(options))
      pm.addPass(nn::createFuseAttention({options.target != "cpu"}));
    pm.addPass(nn::createInferIndexRanges());
    return;
  }
  case CompilePhase::Differentiate: {
    if (!training)
      return;
    nn::AttachLossOptions loss;
    loss.loss = options.loss;
    loss.output = options.output;
    loss.classAxis = options.classAxis;
    loss.ignoreIndex = options.ignoreIndex;
    loss.microbatches = options.microbatches;
    pm.addPass(nn::createAttachLoss(loss));
    pm.addPass(nn::createDifferentiate({options.lossScale != "none"}));
    nn::AttachOptimizerOptions optimizer;
    optimizer.optimizer = options.optimizer;
    optimizer.learningRate = options.learningRate;
    optimizer.momentum = options.momentum;
    optimizer.weightDecay = options.weightDecay;
    optimizer.beta1 = options.beta1;
    optimizer.beta2 = options.beta2;
    optimizer.epsilon = options.epsilon;
    optimizer.lossScale = options.lossScale;
    pm.addPass(nn::createAttachOptimizer(optimizer));
    pm.addPass(createCanonicalizerPass());
    pm.addPass(createCSEPass());
    pm.addPass(pipeline::createVerifyStep());
    return;
  }
  case CompilePhase::Kernels:
    if (options.precision != "f32")
      pm.addPass(nn::createMixedPrecision({options.precision}));
    // oneDNN would do it too, but the processor keeps its arithmetic.
    pm.addPass(nn::createFormKernels({options.target != "cpu"}));
    pm.addPass(pipeline::createVerifyStep());
    return;
  case CompilePhase::Cost: {
    pipeline::AnnotateCostsOptions cost;
    if (!options.costFile.empty()) {
      cost.provider = "measured";
      cost.costFile = options.costFile;
    }
    pm.addPass(pipeline::createAnnotateCosts(cost));
    return;
  }
  case CompilePhase::Partition: {
    pipeline::PartitionOptions partition;
    partition.stages = options.stages;
    partition.objective = options.objective;
    partition.microbatches = options.microbatches / options.replicas;
    partition.cuts.assign(options.cuts.begin(), options.cuts.end());
    partition.ignoreHints = options.ignoreHints || !options.plan.empty();
    // A training plan goes with a loss.
    bool isPlanned = !options.plan.empty() && training == !options.loss.empty();
    if (isPlanned)
      partition.plan = options.plan;
    pm.addPass(pipeline::createPartition(partition));
    pm.addPass(pipeline::createInsertPortals());
    pipeline::PlaceCheckpointsOptions checkpoints;
    checkpoints.mode = training ? options.checkpoint : "never";
    pm.addPass(pipeline::createPlaceCheckpoints(checkpoints));
    pm.addPass(pipeline::createOutlineStages());
    pm.addPass(pipeline::createVerifyStages());
    return;
  }
  case CompilePhase::Schedule: {
    pipeline::ScheduleOptions schedule;
    if (!options.plan.empty() && training == !options.loss.empty())
      schedule.plan = options.plan;
    schedule.schedule = training ? options.schedule : "inference";
    schedule.microbatches = options.microbatches;
    schedule.replicas = options.replicas;
    schedule.ranks = training ? options.ranks : 0;
    schedule.memory = training ? options.memory : 0;
    pm.addPass(pipeline::createSchedule(schedule));
    pm.addPass(pipeline::createInsertTransfers());
    pm.addPass(pipeline::createVerifySchedule());
    return;
  }
  case CompilePhase::Lower: {
    pm.addPass(createLowerKernels());
    bool isGpu = options.target != "cpu";
    if (isGpu)
      pm.addPass(createMakeLaunches());
    pm.addPass(pipeline::createPlanMemory());
    if (options.target == "mock")
      pm.addPass(createEmulateDevice());
    else if (isGpu)
      buildDevicePipeline(pm);
    buildKernelPipeline(pm.nest<ModuleOp>());
    pm.addPass(createLowerStages({options.markKernels}));
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
  model = llvm::sys::path::stem(path).str();
  if (options.microbatches < 1)
    return makeError(exitUsage,
                     "--microbatches=" + llvm::Twine(options.microbatches) +
                         ": must be 1 or more");
  OpBuilder builder(context);
  module = ModuleOp::create(NameLoc::get(builder.getStringAttr(path)), model);
  builder.setInsertionPointToEnd(module->getBody());
  ImportOptions import = options.import;
  import.batch = options.batch == 0 ? options.microbatches : options.batch;
  import.isBatchMissing = !options.loss.empty() && options.batch == 0;
  for (bool training : {true, false}) {
    if (training && options.loss.empty())
      continue;
    import.training = training;
    auto program =
        importOnnx(context, path, import,
                   training || options.loss.empty() ? warnings : nullptr);
    if (!program)
      return program.takeError();
    (*program)->setName(training ? "training" : "inference");
    if (training)
      (*program)->getOperation()->setAttr(
          pipeline::modelHashAttrName,
          builder.getStringAttr(hashModel(**program, options)));
    if (options.target != "cpu")
      (*program)->getOperation()->setAttr(
          pipeline::targetAttrName, builder.getStringAttr(options.target));
    module->push_back(program->release());
  }
  if (options.batch == 0)
    options.batch = batchOf(getProgram(false));
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
  llvm::StringRef target = pipeline::getTarget(program);
  bool isOpen = !program->hasAttr(pipeline::targetAttrName) &&
                !program.lookupSymbol(codeModuleName);
  if (isOpen && options.target != "cpu")
    program->setAttr(pipeline::targetAttrName,
                     StringAttr::get(context, options.target));
  else if (options.target == "cpu")
    options.target = target.str();
  else if (options.target != target)
    return makeError(exitUsage, "--target=" + options.target + ": '" + path +
                                    "' was made for " + target);
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

llvm::Expected<std::string> Compilation::emit() {
  ProgramSource sources[2];
  for (bool training : {true, false}) {
    ModuleOp program = getProgram(training);
    if (!program)
      continue;
    auto plan = makePlan(program, model);
    if (failed(plan))
      return makeError(exitInvalid, "compilation of '" + model + "' failed");
    if (auto fault = runtime::findFault(*plan))
      return makeError(exitInternal, "the plan of '" + model +
                                         "' is not one that runs: " + *fault);
    ProgramSource &source = sources[training ? 0 : 1];
    source.module = program;
    source.plan = runtime::toJson(*plan);
    if (!pipeline::isGpuTarget(program) || pipeline::isEmulatedTarget(program))
      continue;
    auto chip = pipeline::getTarget(program).split(':').second;
    auto code = emitDeviceCode(program, chip);
    if (!code)
      return code.takeError();
    deviceReport += code->report;
    source.device = std::move(*code);
  }
  if (!sources[1].module)
    return makeError(exitInvalid, "there is no inference program to emit");
  ObjectOptions object;
  object.cpu = options.cpu;
  return emitObject(sources[0], sources[1], object);
}
