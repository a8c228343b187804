//===- PhaseCall.cpp ------------------------------------------------------===//
#include "exec/PhaseCall.h"
#include "cpu/LibraryKernel.h"
#include "support/Error.h"

#include <algorithm>
#include <array>

using namespace pp::runtime;

PhaseCall::PhaseCall(const Plan &plan, std::vector<StageState> &stages,
                     const PlanAction &action, Phase phase,
                     const CallPlace &place, std::string what)
    : stage(&stages[action.stage]), arguments(stage->arguments), phase(phase),
      stageNumber(action.stage), microbatch(action.microbatch),
      what(std::move(what)) {
  bool discard = action.kind == ActionKind::Recompute;
  const PlanAreas &areas = stage->plan->areas;
  const StageMemory &memory = *stage->memory;
  arguments.parameters = memory.at(areas.parametersOf(place.weightSlot));
  arguments.prepared = memory.at(areas.preparedOf(place.weightSlot));
  if (place.isCorrected) {
    arguments.parameters = memory.at(areas.correctedParameters());
    arguments.prepared = memory.at(areas.correctedPrepared());
  }
  arguments.gradients =
      memory.at(areas.gradientsOf(plan.laneOf(stage->plan->code, microbatch)));
  arguments.statistics =
      memory.at(areas.statisticsOf(plan.laneOf(stage->plan->code, microbatch)));
  if (phase == Phase::Prepare) {
    function = stage->functions.prepare;
    return;
  }
  const PlanPhase &lists = stage->plan->phases[static_cast<unsigned>(phase)];
  function = phase == Phase::Forward         ? stage->functions.forward
             : phase == Phase::BackwardInput ? stage->functions.backward_input
                                             : stage->functions.backward_weight;
  for (PlanReference reference : lists.inputs) {
    if (reference.kind == PlanReference::Kind::Feed) {
      feeds.push_back(
          {reference, inputs.size(), plan.feeds[reference.index].bytes});
      inputs.push_back(stage->feeds.empty()
                           ? nullptr
                           : stage->feeds[reference.index][microbatch]);
      continue;
    }
    if (reference.kind == PlanReference::Kind::LossScale) {
      inputs.push_back(memory.at(areas.lossScale));
      continue;
    }
    const PlanChannel &channel =
        plan.channels[plan.channelOf(reference, microbatch)];
    unsigned slot = channel.receiveSlot[channel.numberOf(place.microbatch)];
    inputs.push_back(
        memory.at(channel.receiveOffset + slot * alignUp(channel.bytes)));
  }
  for (size_t i = 0; i < lists.outputs.size(); ++i) {
    PlanReference reference = lists.outputs[i];
    if (discard) {
      outputs.push_back(memory.at(areas.discard.offset + lists.discards[i]));
    } else if (reference.kind == PlanReference::Kind::Fetch) {
      fetches.push_back(
          {reference, outputs.size(), plan.fetches[reference.index].bytes});
      outputs.push_back(stage->fetches.empty()
                            ? nullptr
                            : stage->fetches[reference.index][microbatch]);
    } else if (reference.kind == PlanReference::Kind::Loss) {
      outputs.push_back(
          memory.at(areas.loss.offset + microbatch / stage->plan->replicas *
                                            sizeOf(plan.optimizer.type)));
    } else {
      const PlanChannel &channel =
          plan.channels[plan.channelOf(reference, microbatch)];
      uint64_t stride = alignUp(channel.bytes);
      unsigned number = channel.numberOf(place.microbatch);
      outputs.push_back(channel.isResident()
                            ? stages[channel.to].memory->at(
                                  channel.receiveOffset +
                                  channel.receiveSlot[number] * stride)
                            : memory.at(channel.sendOffset +
                                        channel.sendSlot[number] * stride));
    }
  }
  arguments.residuals = memory.at(areas.residuals.offset +
                                  place.residualSlot * areas.residualSlotBytes);
  if (discard && areas.statistics.bytes)
    arguments.statistics =
        memory.at(areas.discard.offset + *lists.discardStatistics);
  arguments.inputs = inputs.data();
  arguments.outputs = outputs.data();
}

/// The call whose function this thread runs, while its kernels are looked at.
static thread_local PhaseCall *probedCall = nullptr;

void pp_probe_kernel(const pp_phase_arguments *arguments, int64_t kernel) {
  if (!arguments->is_probed)
    return;
  pp_join_parts(arguments);
  if (probedCall)
    probedCall->look(static_cast<uint64_t>(kernel));
  // The next kernel may write where this one did.
  pp_join_parts(arguments);
}

void PhaseCall::probe(bool isProbed) {
  arguments.is_probed = isProbed;
  if (isProbed)
    nonFinite.reset();
}

void PhaseCall::look(uint64_t number) {
  const auto &probes = stage->plan->phases[static_cast<unsigned>(phase)].probes;
  if (nonFinite || number >= probes.size())
    return;
  char *const areas[] = {arguments.parameters, arguments.buffers,
                         arguments.gradients,  arguments.statistics,
                         arguments.residuals,  arguments.scratch,
                         arguments.prepared};
  std::vector<char> values;
  for (const PlanProbe::Floats &floats : probes[number].outputs) {
    if (nonFinite || floats.area == Area::Input)
      continue;
    const char *at =
        floats.area == Area::Output
            ? outputs[floats.offset]
            : areas[static_cast<unsigned>(floats.area)] + floats.offset;
    values.resize(floats.count * sizeOf(floats.type));
    stream->read(values.data(), at, values.size());
    if (auto found = pp::runtime::findNonFinite(floats.type, values.data(),
                                                floats.count))
      nonFinite = NonFinite{stageNumber,
                            microbatch,
                            phase,
                            static_cast<unsigned>(number),
                            probes[number].node,
                            found->value};
  }
}

void PhaseCall::run(bool isFirst) {
  probedCall = arguments.is_probed ? this : nullptr;
  pp_phase_arguments own = arguments;
  own.is_first = isFirst;
  runAll({&own, 1});
}

void PhaseCall::runAll(std::span<const pp_phase_arguments> all) {
  // Each thread has its own: the first says how many there are.
  auto runPart = [this, all](Team *team, unsigned part) {
    std::array<pp_phase_arguments, PP_MOST_TOGETHER> own;
    std::ranges::copy(all, own.begin());
    own.front().together = all.size();
    for (pp_phase_arguments &one : std::span(own.data(), all.size()))
      if (team) {
        one.part = part;
        one.parts = team->getSize();
        one.team = team;
      }
    function(own.data());
  };
  if (Team *team = stage->team)
    team->run([&, team](unsigned part) { runPart(team, part); });
  else
    runPart(nullptr, 0);
  std::string error = takeKernelError();
  if (!error.empty())
    failInternal("{}: {}", what, error);
}

void PhaseCall::setPorts(Step &step) {
  for (const Port &feed : feeds)
    inputs[feed.position] = step.feeds[feed.reference.index].at(microbatch);
  for (const Port &fetch : fetches)
    outputs[fetch.position] =
        step.fetches[fetch.reference.index].at(microbatch);
}

void PhaseCall::enqueueTogether(const std::vector<WithFirst> &calls,
                                Stream &stream, Step &step,
                                KernelTimer *timer) {
  if (calls.empty() || !calls.front().call->function)
    return;
  PhaseCall &leader = *calls.front().call;
  std::vector<pp_phase_arguments> all;
  for (auto [call, isFirst] : calls) {
    call->setPorts(step);
    all.push_back(call->arguments);
    all.back().is_first = isFirst;
    ++call->runs;
  }
  stream.execute([&leader, timer, all = std::move(all)] {
    std::optional<KernelTimer::Scope> scope;
    if (timer)
      scope.emplace(*timer, /*mayHold=*/false);
    probedCall = nullptr;
    leader.runAll(all);
  });
}

void PhaseCall::enqueue(Stream &stream, Step &step, uint64_t number,
                        bool useGraphs, KernelTimer *timer, bool isFirst) {
  if (!function)
    return;
  this->stream = &stream;
  // A graph has no place where its kernels could be looked at.
  useGraphs &= !arguments.is_probed && isFirst == (arguments.is_first != 0);
  bool isStaged = !stage->feeds.empty() || !stage->fetches.empty();
  if (!isStaged)
    setPorts(step);
  else
    for (const Port &feed : feeds) {
      // F and W may read the same feed.
      uint64_t &last = stage->fed[feed.reference.index][microbatch];
      if (last != number)
        stream.copy(inputs[feed.position],
                    step.feeds[feed.reference.index].at(microbatch),
                    feed.bytes);
      last = number;
    }

  // The first run loads code and makes plans; a capture must not see that.
  if (useGraphs && runs > 0 && !graph) {
    stream.beginCapture();
    stream.execute([this, isFirst] { run(isFirst); });
    graph = stream.endCapture();
  }
  if (graph && useGraphs)
    stream.launch(*graph);
  else if (timer)
    stream.execute([this, timer, isFirst, mayHold = runs > 0] {
      KernelTimer::Scope scope(*timer, mayHold);
      run(isFirst);
    });
  else
    stream.execute([this, isFirst] { run(isFirst); });
  ++runs;

  if (isStaged)
    for (const Port &fetch : fetches)
      stream.copy(step.fetches[fetch.reference.index].at(microbatch),
                  outputs[fetch.position], fetch.bytes);
}
