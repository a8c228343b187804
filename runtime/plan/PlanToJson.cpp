//===- PlanToJson.cpp - Plan to JSON --------------------------------------===//
#include "plan/PlanJson.h"
#include "support/Error.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

using namespace pp::runtime;

/// Keeps the order in which keys are added.
using Json = nlohmann::ordered_json;

static void writeTensorType(Json &json, DataType type, const Shape &shape) {
  json["dtype"] = nameOf(type);
  json["shape"] = shape;
}

static Json writePort(const PlanPort &port, bool isFeed) {
  Json json;
  json["name"] = port.name;
  if (isFeed)
    json["role"] = port.role;
  writeTensorType(json, port.type, port.shape);
  json["batched"] = port.batched;
  if (!port.range.empty())
    json["range"] = port.range;
  if (port.ignoreIndex)
    json["ignore_index"] = *port.ignoreIndex;
  if (!port.classWeights.empty())
    json["class_weights"] = port.classWeights;
  if (!port.counted.empty())
    json["counted"] = port.counted;
  if (!port.compared.empty())
    json["compared"] = port.compared;
  if (port.samples != PlanPort::Samples{})
    json["samples"] = {port.samples.axis, port.samples.outer,
                       port.samples.inner};
  return json;
}

static Json writeScalar(const PlanScalar &scalar) {
  Json json;
  json["name"] = scalar.name;
  switch (scalar.kind) {
  case PlanScalar::Kind::Value:
    json["value"] = scalar.value;
    break;
  case PlanScalar::Kind::OneMinusPowerOf:
    if (scalar.baseOf.empty())
      json["one_minus_power_of"] = scalar.value;
    else
      json["one_minus_power_of"] = scalar.baseOf;
    break;
  case PlanScalar::Kind::PowerOfStep:
    json["power_of_step"] = scalar.value;
    break;
  case PlanScalar::Kind::IsFirstStep:
    json["is_first_step"] = true;
    break;
  case PlanScalar::Kind::LossScale:
    json["initial_scale"] = scalar.value;
    break;
  case PlanScalar::Kind::IsSkipped:
    json["is_skipped"] = true;
    break;
  }
  return json;
}

static Json writeOptimizer(const PlanOptimizer &optimizer) {
  Json json, scalars = Json::array();
  for (const PlanScalar &scalar : optimizer.scalars)
    scalars.push_back(writeScalar(scalar));
  json["kind"] = optimizer.kind;
  if (optimizer.type != DataType::F32)
    json["dtype"] = nameOf(optimizer.type);
  json["states"] = optimizer.states;
  json["scalars"] = std::move(scalars);
  return json;
}

static Json writeChannel(const PlanChannel &channel) {
  Json json;
  json["name"] = channel.name;
  json["kind"] = channel.kind;
  json["from"] = channel.from;
  json["to"] = channel.to;
  json["from_phase"] = letterOf(channel.fromPhase);
  json["to_phase"] = letterOf(channel.toPhase);
  writeTensorType(json, channel.type, channel.shape);
  json["bytes"] = channel.bytes;
  json["send_offset"] = channel.sendOffset;
  json["send_slots"] = channel.sendSlots;
  json["send_slot"] = channel.sendSlot;
  json["receive_offset"] = channel.receiveOffset;
  json["receive_slots"] = channel.receiveSlots;
  json["receive_slot"] = channel.receiveSlot;
  json["release"] = nameOf(channel.release);
  return json;
}

static Json writeAreas(const PlanAreas &areas) {
  Json json;
  for (const PlanAreas::Named &named : PlanAreas::all) {
    const PlanArea &area = areas.*named.area;
    if (area.bytes || !named.isOptional)
      json[named.name] = {{"offset", area.offset}, {"bytes", area.bytes}};
  }
  json["residuals"]["slots"] = areas.residualSlots;
  json["residuals"]["slot_bytes"] = areas.residualSlotBytes;
  return json;
}

static std::string toHex(const std::string &bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (unsigned char byte : bytes)
    fmt::format_to(std::back_inserter(text), "{:02x}", byte);
  return text;
}

static Json writeSource(const PlanSource &source, uint64_t tensorBytes) {
  uint64_t bytes = source.stored ? tensorBytes / 2 : tensorBytes;
  Json json;
  switch (source.kind) {
  case PlanSource::Kind::File:
    json["file"] = source.file;
    json["offset"] = source.offset;
    json["bytes"] = bytes;
    if (source.isTransposed)
      json["transposed"] = true;
    if (source.stored)
      json["dtype"] = nameOf(*source.stored);
    if (source.hash)
      json["hash"] = fmt::format("{:016x}", *source.hash);
    break;
  case PlanSource::Kind::Splat:
    json["splat"] = source.splat;
    break;
  case PlanSource::Kind::Bytes:
    json["hex"] = toHex(source.bytes);
    break;
  }
  if (!source.readers.empty())
    json["readers"] = source.readers;
  return json;
}

static Json writeTensors(const std::vector<PlanTensor> &tensors,
                         bool areParameters) {
  Json list = Json::array();
  for (const PlanTensor &tensor : tensors) {
    Json json;
    json["name"] = tensor.name;
    writeTensorType(json, tensor.type, tensor.shape);
    json["offset"] = tensor.offset;
    if (!areParameters)
      json["mutable"] = tensor.isMutable;
    if (!tensor.reason.empty())
      json["reason"] = tensor.reason;
    if (tensor.prepared)
      json["prepared"] = *tensor.prepared;
    json["source"] = writeSource(tensor.source, tensor.bytes);
    list.push_back(std::move(json));
  }
  return list;
}

static Json writeReferences(const std::vector<PlanReference> &references) {
  Json list = Json::array();
  for (PlanReference reference : references) {
    Json json;
    switch (reference.kind) {
    case PlanReference::Kind::Feed:
      json["feed"] = reference.index;
      break;
    case PlanReference::Kind::Channel:
      json["channel"] = reference.index;
      break;
    case PlanReference::Kind::Fetch:
      json["fetch"] = reference.index;
      break;
    case PlanReference::Kind::Loss:
      json["loss"] = true;
      break;
    case PlanReference::Kind::LossScale:
      json["loss_scale"] = true;
      break;
    }
    list.push_back(std::move(json));
  }
  return list;
}

static Json writeProbe(const PlanProbe &probe) {
  Json json, outputs = Json::array();
  for (const PlanProbe::Floats &floats : probe.outputs)
    outputs.push_back({nameOf(floats.type), nameOf(floats.area), floats.offset,
                       floats.count});
  json["node"] = probe.node;
  json["outputs"] = std::move(outputs);
  return json;
}

static Json writePhase(const PlanPhase &phase) {
  Json json;
  json["inputs"] = writeReferences(phase.inputs);
  json["outputs"] = writeReferences(phase.outputs);
  if (!phase.probes.empty()) {
    Json &probes = json["probes"] = Json::array();
    for (const PlanProbe &probe : phase.probes)
      probes.push_back(writeProbe(probe));
  }
  if (phase.discardStatistics) {
    json["discards"] = phase.discards;
    json["discard_statistics"] = *phase.discardStatistics;
  }
  return json;
}

static Json writeStage(const PlanStage &stage) {
  Json json;
  json["name"] = stage.name;
  json["nodes"] = stage.nodes;
  json["forward_seconds"] = stage.forwardSeconds;
  json["backward_seconds"] = stage.backwardSeconds;
  if (stage.prepares)
    json["prepare_seconds"] = stage.prepareSeconds;
  if (stage.writesGradients)
    json["writes_gradients"] = true;
  if (stage.weightsTogether > 1)
    json["weights_together"] = stage.weightsTogether;
  json["memory_bytes"] = stage.memoryBytes;
  json["areas"] = writeAreas(stage.areas);
  json["parameters"] = writeTensors(stage.parameters, true);
  json["buffers"] = writeTensors(stage.buffers, false);
  Json &kernels = json["kernels"] = Json::array();
  for (const PlanKernel &kernel : stage.kernels)
    kernels.push_back(
        {{"descriptor", kernel.descriptor}, {"scratchpad", kernel.scratchpad}});
  for (auto [key, number] :
       {std::pair("optimizer_kernel", stage.optimizerKernel),
        std::pair("finite_kernel", stage.finiteKernel),
        std::pair("finite_loss_kernel", stage.finiteLossKernel),
        std::pair("loss_scale_kernel", stage.lossScaleKernel)})
    if (number)
      json[key] = *number;
  if (stage.versions > 1)
    json["versions"] = stage.versions;
  if (stage.readsNewest)
    json["delay"] = stage.delay;
  if (stage.correction > 0)
    json["correction"] = stage.correction;
  Json &phases = json["phases"] = Json::object();
  if (stage.prepares)
    phases[std::string(letterOf(Phase::Prepare))] = Json::object();
  for (unsigned p = 0; p < microbatchPhases; ++p)
    if (stage.phases[p].present)
      phases[std::string(letterOf(static_cast<Phase>(p)))] =
          writePhase(stage.phases[p]);
  return json;
}

/// Without a flush: lag and version take the place of the slot.
static Json writeRollingAction(const PlanAction &action) {
  if (isTransfer(action.kind))
    return {nameOf(action.kind), action.channel, action.microbatch, action.lag};
  if (isPerStep(action.kind))
    return {nameOf(action.kind), action.stage, action.lag, action.version};
  return {nameOf(action.kind), action.stage, action.microbatch, action.lag,
          action.version};
}

static Json writeAction(const PlanAction &action) {
  switch (action.kind) {
  case ActionKind::Send:
  case ActionKind::Receive:
    return {nameOf(action.kind), action.channel, action.microbatch};
  case ActionKind::Prepare:
  case ActionKind::Update:
  case ActionKind::ReduceGradients:
  case ActionKind::AllReduce:
  case ActionKind::SumGradients:
  case ActionKind::Push:
  case ActionKind::Pull:
  case ActionKind::AddPushes:
    return {nameOf(action.kind), action.stage};
  case ActionKind::Forward:
  case ActionKind::Recompute:
  case ActionKind::BackwardInput:
  case ActionKind::BackwardWeight:
  case ActionKind::Backward:
    break;
  }
  return {nameOf(action.kind), action.stage, action.microbatch, action.slot};
}

static Json writeTie(const PlanTie &tie) {
  Json json{{"name", tie.name}, {"bytes", tie.bytes}};
  for (const PlanTie::Part &part : tie.parts) {
    Json &entry = json["parts"].emplace_back(
        Json{{"stage", part.stage}, {"offset", part.offset}});
    if (part.place)
      entry["place"] = *part.place;
  }
  return json;
}

std::string pp::runtime::toJson(const Plan &plan) {
  Json json;
  json["version"] = 1;
  json["model"] = plan.model;
  json["mode"] = plan.mode;
  if (!plan.hash.empty())
    json["hash"] = plan.hash;
  if (!plan.modelHash.empty())
    json["model_hash"] = plan.modelHash;
  if (plan.bucket)
    json["bucket"] = {{"dim", plan.bucket->dim}, {"size", plan.bucket->size}};
  json["target"] = plan.target;
  json["batch"] = plan.batch;
  json["microbatches"] = plan.microbatches;
  if (plan.replicas > 1)
    json["replicas"] = plan.replicas;
  if (!plan.stageReplicas.empty())
    json["stage_replicas"] = plan.stageReplicas;
  if (plan.gradientLanes)
    json["gradient_lanes"] = plan.gradientLanes;
  if (!plan.wholeBatches.empty())
    json["whole_batches"] = plan.wholeBatches;
  if (!plan.flushes)
    json["flush"] = false;
  if (plan.clockDistance)
    json["clock_distance"] = *plan.clockDistance;
  if (plan.threads > 1)
    json["threads"] = plan.threads;
  json["schedule"] = plan.schedule;
  json["checkpoint"] = nameOf(plan.checkpoint);
  json["weights"] = plan.weights;
  json["weights_bytes"] = plan.weightsBytes;
  auto write = [&](const char *key, const auto &list, auto &&writeOne) {
    Json &array = json[key] = Json::array();
    for (const auto &entry : list)
      array.push_back(writeOne(entry));
  };
  write("feeds", plan.feeds,
        [](const PlanPort &port) { return writePort(port, true); });
  write("fetches", plan.fetches,
        [](const PlanPort &port) { return writePort(port, false); });
  if (plan.isTraining())
    json["optimizer"] = writeOptimizer(plan.optimizer);
  write("channels", plan.channels, writeChannel);
  write("stages", plan.stages, writeStage);
  Json &ranks = json["ranks"] = Json::array();
  for (const PlanRank &rank : plan.ranks) {
    Json actions = Json::array();
    for (const PlanAction &action : rank.actions)
      actions.push_back(plan.flushes ? writeAction(action)
                                     : writeRollingAction(action));
    ranks.push_back({{"stages", rank.stages}, {"actions", std::move(actions)}});
  }
  for (const PlanTie &tie : plan.ties)
    json["ties"].push_back(writeTie(tie));
  for (const PlanMark &mark : plan.marks)
    json["marks"].push_back({{"key", mark.key},
                             {"node", mark.node},
                             {"operations", mark.operations},
                             {"flops", mark.flops},
                             {"bytes", mark.bytes}});
  // Names are UTF-8: the importer has looked.
  return json.dump(1, ' ', false, Json::error_handler_t::replace);
}

std::optional<std::string> pp::runtime::findFault(const Plan &plan) {
  try {
    (void)fromJson(toJson(plan));
  } catch (const Error &error) {
    return error.what();
  }
  return std::nullopt;
}
