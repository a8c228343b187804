//===- LoadedProgram.cpp --------------------------------------------------===//
#include "library/LoadedProgram.h"
#include "cli/Evaluation.h"
#include "cli/ExportReport.h"
#include "cli/Session.h"
#include "device/OpenDevice.h"
#include "exec/Shuffle.h"
#include "support/Error.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

using namespace pp::runtime;

/// As programs do, but a hang is an error of the call that waits for it.
static Executor::Options settingsOf(const RunOptions &options,
                                    const Plan &plan) {
  Executor::Options settings = executorOptions(options, plan);
  settings.onHang = nullptr;
  return settings;
}

LoadedProgram::Ports LoadedProgram::describePorts(const pp_pipeline &pipeline) {
  Plan plan = Plan::parse({pipeline.plan, pipeline.plan_size});
  Ports ports;
  ports.batch = plan.batch;
  for (const PlanPort &feed : plan.feeds)
    if (!feed.isFedByRuntime())
      ports.inputs.emplace_back(feed, plan.batch);
  for (const PlanPort &fetch : plan.fetches)
    ports.outputs.emplace_back(fetch, plan.batch);
  return ports;
}

LoadedProgram::Inference::Inference(LoadedProgram &owner,
                                    const pp_pipeline &pipeline)
    : program(pipeline, *owner.device) {
  if (owner.options.pin)
    program.pin();
  program.allocate(owner.options.weights, !owner.options.noVerifyWeights);
  executor.emplace(program, settingsOf(owner.options, program.getPlan()));
}

LoadedProgram::LoadedProgram(const std::string &path, bool trains,
                             const std::vector<std::string> &flags)
    : library(path), options(parseProgramFlags(flags, trains)),
      normalizations(normalizationsOf(options)),
      inferenceBuckets(library.getBinary(), /*isTraining=*/false, options.pads),
      inferencePorts(describePorts(*library.getBinary().inference)),
      targetName("target") {
  const pp_binary &binary = library.getBinary();
  if (binary.training) {
    trainingPorts = describePorts(*binary.training);
    Plan plan =
        Plan::parse({binary.training->plan, binary.training->plan_size});
    if (const PlanPort *target = plan.findTarget()) {
      targetName = target->name;
      ignoreIndex = target->ignoreIndex;
      comparedName = target->compared;
    }
  } else if (trains) {
    failUsage("'{}': the model was compiled without a loss; pp-compile --loss "
              "says what is trained",
              path);
  }
  const pp_pipeline &pipeline = trains ? *binary.training : *binary.inference;
  device = openDevice(options.device, pipeline);
  if (!trains) {
    inference.emplace(*this, pipeline);
    weights.emplace(inference->program);
    return;
  }
  trainingBuckets.emplace(binary, /*isTraining=*/true, options.pads);
  training.emplace(pipeline, *device);
  if (options.pin)
    training->pin();
  training->allocate(options.weights, !options.noVerifyWeights);
  weights.emplace(*training);
  firstRows.resize(training->getPlan().batch);
  std::iota(firstRows.begin(), firstRows.end(), 0);
  if (options.averages && !training->getPlan().optimizer.averageState())
    failUsage("--ema: '{}' keeps no averages of its parameters; pp-compile "
              "--ema-decay=0.999 makes a model that does",
              path);
  trainer = std::make_unique<Trainer>(*training, options);
  trainer->position.seed = options.seed.value_or(0);
  trainer->position.dropsLast = !training->getPlan().wholeBatches.empty();
  isStale = true;
  startTrainer();
}

/// From where its position is.
void LoadedProgram::startTrainer() {
  trainer->choose(/*lastStep=*/std::nullopt);
  trainer->start(settingsOf(options, training->getPlan()));
}

const std::vector<PortDescription> &
LoadedProgram::inputs(bool ofTraining) const {
  if (!ofTraining)
    return inferencePorts.inputs;
  if (!trainingPorts)
    failUsage("the model was compiled without a loss");
  return trainingPorts->inputs;
}

Trainer &LoadedProgram::requireTrainer() const {
  if (!trainer)
    failUsage("the program was opened for inference, with PP_INFER");
  return *trainer;
}

size_t LoadedProgram::countInFlight() const {
  return trainer ? trainer->countSubmitted() - trainer->position.step +
                       finished.size()
                 : 0;
}

size_t LoadedProgram::mostInFlight() const {
  return trainer ? trainer->getExecutor().stepsToEnd() + 2 : 0;
}

//===- Training -----------------------------------------------------------===//

/// The inputs of a training, which borrows them.
DataSet LoadedProgram::trainingData(Tensors inputs) const {
  auto arrays = borrowArrays(inputs);
  requireArrays(trainingPorts->inputs, arrays, /*allowOthers=*/false);
  trainingBuckets->choose(arrays); // throws where none fits
  if (trainingBuckets->size())
    arrays =
        trainingBuckets->pad(std::move(arrays), trainingBuckets->size() - 1);
  return {training->getPlan(), std::move(arrays), /*allowOthers=*/false,
          normalizations};
}

void LoadedProgram::submitRows(const DataSet &data,
                               const std::vector<uint64_t> &order,
                               uint64_t first) {
  data.fill(trainer->next(), order, first);
  isStale = true;
  trainer->submit();
}

void LoadedProgram::submit(Tensors inputs) {
  Trainer &trainer = requireTrainer();
  if (countInFlight() >= mostInFlight())
    failUsage("{} steps are in flight; wait for one before the next is "
              "submitted",
              countInFlight());
  const Plan &plan = training->getPlan();
  DataSet data = trainingData(inputs);
  if (data.getSamples() > plan.batch)
    failUsage("the inputs have {} samples, a step has {} at most",
              data.getSamples(), plan.batch);
  if (data.getSamples() < plan.batch && !plan.wholeBatches.empty())
    failUsage("the inputs have {} samples, and this program takes whole "
              "batches of {} only: {}",
              data.getSamples(), plan.batch, plan.wholeBatches);
  // Whoever gives steps one by one has no epochs.
  trainer.position.samples = 0;
  firstRows.resize(data.getSamples());
  std::iota(firstRows.begin(), firstRows.end(), 0);
  submitRows(data, firstRows, 0);
}

void LoadedProgram::countEpochs() {
  TrainingPosition &position = trainer->position;
  if (position.samples == 0) {
    position.epoch = 0;
    position.stepInEpoch = position.step;
    return;
  }
  if (++position.stepInEpoch ==
      stepsOfEpoch(position.samples, batch(), position.dropsLast)) {
    position.stepInEpoch = 0;
    ++position.epoch;
  }
}

pp_step_result LoadedProgram::finishOne() {
  Executor &executor = trainer->getExecutor();
  uint64_t later = trainer->countSubmitted() - trainer->position.step - 1;
  if (later < executor.stepsToEnd())
    executor.flush();
  Trainer::Outcome outcome = trainer->finish();
  countEpochs();
  trainer->limitSkips();
  pp_step_result result{};
  result.step = trainer->position.step;
  result.loss = outcome.step->loss();
  result.learning_rate =
      trainer->getScalars().find("lr")
          ? outcome.learningRate.value_or(
                trainer->getScalars().learningRate(result.step))
          : NAN;
  bool hasNorm = outcome.gradientNorm || trainer->position.clipNorm > 0;
  result.gradient_norm = hasNorm ? outcome.step->gradientNorm : NAN;
  result.is_skipped = outcome.isSkipped;
  return result;
}

pp_step_result LoadedProgram::wait() {
  Trainer &trainer = requireTrainer();
  if (finished.empty()) {
    if (trainer.isIdle())
      failUsage("no step is in flight");
    return finishOne();
  }
  pp_step_result result = finished.front();
  finished.pop_front();
  return result;
}

void LoadedProgram::drain() {
  while (trainer && !trainer->isIdle())
    finished.push_back(finishOne());
}

void LoadedProgram::train(Tensors inputs, uint64_t epochs, bool shuffle,
                          pp_progress progress, void *data) {
  Trainer &trainer = requireTrainer();
  if (countInFlight())
    failUsage("{} steps are in flight; wait for them first", countInFlight());
  const Plan &plan = training->getPlan();
  DataSet set = trainingData(inputs);
  TrainingPosition &position = trainer.position;
  uint64_t steps =
      stepsOfEpoch(set.getSamples(), plan.batch, position.dropsLast);
  if (steps == 0)
    failUsage("the inputs have {} samples, and this program takes whole "
              "batches of {} only: {}",
              set.getSamples(), plan.batch, plan.wholeBatches);
  // An epoch that was begun on these samples goes on; others are new.
  if (position.step == 0)
    position.samples = set.getSamples();
  bool goesOn = position.samples == set.getSamples();
  if (!goesOn)
    position.samples = 0;
  uint64_t epoch = goesOn ? position.epoch : 0;
  uint64_t at = goesOn ? position.stepInEpoch : 0;
  position.shuffle = shuffle;
  std::vector<uint64_t> order(set.getSamples());
  bool stops = false;
  auto report = [&] {
    pp_step_result result = wait();
    stops |= progress && progress(&result, data) != 0;
  };
  // Whoever stops at a step means no later one, unless it needs those to end.
  bool isOneByOne = progress && trainer.getExecutor().stepsToEnd() == 0;
  for (uint64_t end = epoch + epochs; epoch < end && !stops; ++epoch, at = 0) {
    if (shuffle)
      order = shuffledOrder(position.seed, epoch, set.getSamples());
    else
      std::iota(order.begin(), order.end(), 0);
    for (; at < steps && !stops; ++at) {
      while (trainer.isFull() && !stops)
        report();
      if (stops)
        break;
      submitRows(set, order, at * plan.batch);
      if (isOneByOne)
        report();
    }
  }
  while (countInFlight())
    report();
}

double LoadedProgram::getScalar(const std::string &name) const {
  std::optional<double> value = requireTrainer().getScalars().find(name);
  if (!value)
    failUsage("the optimizer has no value '{}'", name);
  return *value;
}

void LoadedProgram::setScalar(const std::string &name, double value) {
  Trainer &trainer = requireTrainer();
  if (!std::isfinite(static_cast<float>(value)))
    failUsage("{}: {} is not a number that a float holds", name, value);
  trainer.getScalars().set(name, value);
  trainer.position.scalars = trainer.getScalars().settings();
}

//===- Inference ----------------------------------------------------------===//

/// With the weights as they are after all steps.
LoadedProgram::Inference &LoadedProgram::freshInference() {
  drain();
  if (!inference)
    inference.emplace(*this, *library.getBinary().inference);
  if (training && isStale)
    inference->program.copyWeightsFrom(*training, options.averages);
  isStale = false;
  return *inference;
}

std::map<std::string, Array> LoadedProgram::inferArrays(Tensors inputs,
                                                        Buckets::Fit &fit,
                                                        bool allowOthers) {
  auto arrays = borrowArrays(inputs);
  requireArrays(inferencePorts.inputs, arrays, allowOthers);
  fit = inferenceBuckets.choose(arrays);
  if (inferenceBuckets.size())
    arrays =
        inferenceBuckets.pad(std::move(arrays), inferenceBuckets.size() - 1);
  Inference &inference = freshInference();
  const Plan &plan = inference.program.getPlan();
  DataSet data(plan, std::move(arrays), allowOthers, normalizations);
  return inferenceBuckets.cutFetches(
      runInference(plan, data, *inference.executor).fetches, fit.length);
}

void LoadedProgram::infer(Tensors inputs, Tensors outputs) {
  Buckets::Fit fit{};
  auto results = inferArrays(inputs, fit, /*allowOthers=*/false);
  for (const pp_tensor &output : outputs) {
    auto found = results.find(output.name ? output.name : "");
    if (found == results.end())
      failUsage("the model has no output '{}'", output.name ? output.name : "");
    requireShape(output, found->second.type, found->second.shape);
  }
  for (const pp_tensor &output : outputs) {
    const Array &result = results.find(output.name)->second;
    if (!result.data.empty())
      std::memcpy(output.data, result.data.data(), result.data.size());
  }
}

std::vector<double>
LoadedProgram::evaluate(Tensors inputs,
                        const std::vector<std::string> &metrics) {
  if (comparedName.empty() && inferencePorts.outputs.size() != 1)
    failUsage("the model has {} outputs, evaluation needs one",
              inferencePorts.outputs.size());
  auto given = borrowArrays(inputs);
  auto target = given.find(targetName);
  if (target == given.end())
    failUsage("the inputs lack the targets, '{}'", targetName);
  Buckets::Fit fit{};
  auto results = inferArrays(inputs, fit, /*allowOthers=*/true);
  const Array &prediction =
      comparedName.empty() ? results.begin()->second : results.at(comparedName);
  std::vector<double> values;
  for (const Metric &metric :
       pp::runtime::evaluate(prediction, target->second, ignoreIndex, metrics))
    values.push_back(metric.value);
  return values;
}

//===- Weights and files --------------------------------------------------===//

void LoadedProgram::readWeight(const pp_tensor &target) {
  drain();
  const WeightTable::Weight &weight =
      weights->find(target.name ? target.name : "");
  requireShape(target, weight.tensor->type, weight.tensor->shape);
  weights->read(weight, target.data);
}

void LoadedProgram::writeWeight(const pp_tensor &source) {
  drain();
  const WeightTable::Weight &weight =
      weights->find(source.name ? source.name : "");
  requireShape(source, weight.tensor->type, weight.tensor->shape);
  weights->write(weight, source.data);
  isStale = true;
}

void LoadedProgram::readGradient(const pp_tensor &target) {
  requireTrainer();
  drain();
  const WeightTable::Weight &weight =
      weights->find(target.name ? target.name : "");
  requireShape(target, weight.tensor->type, weight.tensor->shape);
  std::vector<char> gradient = weights->gradient(weight);
  std::memcpy(target.data, gradient.data(), gradient.size());
}

void LoadedProgram::requireParametersBytes(const void *buffer,
                                           uint64_t bytes) const {
  if (bytes != weights->parametersBytes() || !buffer)
    failUsage("the parameters have {} bytes, the buffer {}",
              weights->parametersBytes(), buffer ? bytes : 0);
}

void LoadedProgram::readParameters(void *target, uint64_t bytes) {
  drain();
  requireParametersBytes(target, bytes);
  weights->readParameters(static_cast<char *>(target));
}

void LoadedProgram::writeParameters(const void *source, uint64_t bytes) {
  drain();
  requireParametersBytes(source, bytes);
  weights->writeParameters(static_cast<const char *>(source));
  isStale = true;
}

void LoadedProgram::save(const std::string &path) {
  requireTrainer();
  drain();
  saveSnapshot(path, *training, trainer->position);
}

void LoadedProgram::load(const std::string &path) {
  requireTrainer();
  drain();
  TrainingPosition position = loadSnapshot(path, *training);
  // Options win over what the snapshot says.
  if (options.seed)
    position.seed = *options.seed;
  trainer->position = position;
  finished.clear();
  isStale = true;
  startTrainer();
}

void LoadedProgram::loadWeights(const std::string &path) {
  drain();
  isStale = true;
  if (!trainer) {
    pp::runtime::loadWeights(path, inference->program, options.averages);
    return;
  }
  trainer->loadStart(path);
  trainer->getScalars().setStepsBefore(trainer->position.optimizerSteps);
}

void LoadedProgram::exportModel(const std::string &path,
                                const std::string &model) {
  requireTrainer();
  drain();
  const Plan &plan = training->getPlan();
  ModelExport writer(plan, ModelExport::trainedTensors(plan),
                     {path, model, options.weights}, !options.noVerifyWeights);
  TensorGatherer tensors(*training, options.averages);
  writer.write([&](const std::string &name) { return tensors.get(name); });
  reportExport(writer, path, writer.order().size());
}
