//===- Rank.cpp - One rank of an executor ---------------------------------===//
#include "cpu/LibraryKernel.h"
#include "exec/ExecutorState.h"
#include "plan/SharePlan.h"
#include "support/Error.h"
#include "support/FlushDenormals.h"
#include "support/Spin.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <numeric>
#include <utility>

using namespace pp::runtime;

Executor::Rank::Rank(State &state, unsigned index)
    : completed(state.program.getDevice().createCounter()),
      statistics(state.program.getPlan().stages.size()), state(state),
      index(index), stages(statistics.size()) {
  trace.enabled = state.options.trace;
  isFirstHere = index == 0 || !state.program.getPlacement().hasRank(index - 1);
}

/// A place on the device for each micro-batch of the ports that `phases` name.
static std::vector<std::vector<char *>>
stagePorts(StageState &stage, Device &device, const Plan &plan,
           const std::vector<PlanPort> &ports, PlanReference::Kind kind) {
  std::vector<std::vector<char *>> places(ports.size());
  std::vector<bool> used(ports.size());
  for (const PlanPhase &phase : stage.plan->phases)
    for (const auto *list : {&phase.inputs, &phase.outputs})
      for (PlanReference reference : *list)
        if (reference.kind == kind)
          used[reference.index] = true;
  for (size_t p = 0; p < ports.size(); ++p) {
    if (!used[p])
      continue;
    unsigned count =
        ports[p].isOfMicrobatch() ? plan.microbatchesOf(stage.plan->code) : 1;
    uint64_t stride = alignUp(ports[p].bytes);
    stage.staging.push_back(device.allocate(
        std::max<uint64_t>(count * stride, 64),
        fmt::format("stage '{}': '{}'", stage.plan->name, ports[p].name)));
    places[p].resize(plan.microbatches);
    for (unsigned m = 0; m < plan.microbatches; ++m)
      if (stage.plan->runs(m))
        places[p][m] =
            stage.staging.back().get() +
            (ports[p].isOfMicrobatch() ? m / stage.plan->replicas * stride : 0);
  }
  return places;
}

void Executor::Rank::createStage(unsigned s) {
  const Plan &plan = state.program.getPlan();
  Device &device = state.program.getDevice();
  StageState &stage = stages[s];
  stage.plan = &plan.stages[s];
  stage.memory = &state.program.getMemories()[s];
  stage.functions = state.program.getFunctions().stages[stage.plan->code];
  for (size_t i = 0; i < stage.plan->kernels.size(); ++i) {
    state.requireHeadroom("the code of kernels");
    std::string error;
    auto kernel =
        state.program.getCode().createKernel(stage.plan->kernels[i], error);
    if (!kernel)
      failInput("stages[{}].kernels[{}]: {}", s, i, error);
    stage.kernelPointers.push_back(kernel.get());
    stage.kernels.push_back(std::move(kernel));
  }
  const PlanAreas &areas = stage.plan->areas;
  pp_phase_arguments &arguments = stage.arguments;
  arguments.parameters = stage.memory->at(areas.parameters);
  arguments.buffers = stage.memory->at(areas.buffers);
  arguments.gradients = stage.memory->at(areas.gradients);
  arguments.statistics = stage.memory->at(areas.statistics);
  arguments.scratch = stage.memory->at(areas.scratch);
  arguments.prepared = stage.memory->at(areas.prepared);
  arguments.kernels = stage.kernelPointers.data();
  arguments.parts = 1;
  stage.team = team.get();
  size_t count = plan.optimizer.scalars.size();
  if (count && (plan.findLossScale() || !device.isHostMemory())) {
    size_t groups = stage.plan->optimizerKernel
                        ? state.options.groups.getGroups().size()
                        : 0;
    stage.scalarsStride = alignUp(count * sizeOf(plan.optimizer.type));
    stage.staging.push_back(device.allocate((1 + groups) * stage.scalarsStride,
                                            "optimizer scalars"));
    stage.scalars = stage.staging.back().get();
  }
  createRanges(stage);
  if (stage.plan->optimizerKernel)
    createRangeKernels(stage);
  if (device.isHostMemory())
    return;
  if (!state.options.clipping.empty())
    stage.hostGradients = device.allocateHost(
        std::max<uint64_t>(areas.gradients.bytes, 64), "gradients");
  stage.feeds =
      stagePorts(stage, device, plan, plan.feeds, PlanReference::Kind::Feed);
  stage.fetches =
      stagePorts(stage, device, plan, plan.fetches, PlanReference::Kind::Fetch);
  stage.fed.assign(plan.feeds.size(),
                   std::vector<uint64_t>(plan.microbatches, 0));
}

unsigned Executor::Rank::findPeriod() const {
  const Plan &plan = state.program.getPlan();
  if (plan.flushes)
    return 1;
  uint64_t period = 1;
  // Of a table by micro-batches, counted over all steps.
  auto addTable = [&](uint64_t length) {
    period = std::lcm(
        period, length / std::gcd<uint64_t>(length, plan.microbatchesListed()));
  };
  for (unsigned s : plan.ranks[index].stages) {
    const PlanStage &stage = plan.stages[s];
    period = std::lcm(period, stage.versions / std::gcd(stage.versions,
                                                        plan.updatesOf(stage)));
    // A replica takes its slots in turn for its own micro-batches.
    addTable(std::max<uint64_t>(stage.areas.residualSlots, 1) *
             (plan.dealsUpdates() ? stage.replicas : 1));
    for (const PlanChannel &channel : plan.channels)
      // Slots of waves are found when they are used.
      if ((channel.from == s || channel.to == s) && !channel.isOfWaves())
        addTable(channel.receiveSlot.size());
  }
  return static_cast<unsigned>(period);
}

/// The version that an action names, as the rank counts steps.
static int64_t versionOf(const Plan &plan, const PlanAction &action,
                         uint64_t sequence) {
  unsigned updates = plan.updatesOf(plan.stages[action.stage]);
  return static_cast<int64_t>(sequence * updates) + action.version;
}

std::vector<unsigned> Executor::Rank::findOrder() const {
  const Plan &plan = state.program.getPlan();
  const std::vector<PlanAction> &actions = plan.ranks[index].actions;
  std::vector<unsigned> order(actions.size());
  std::iota(order.begin(), order.end(), 0);
  auto isEarly = [&](unsigned number) {
    const PlanAction &action = actions[number];
    if (action.kind != ActionKind::Send)
      return false;
    const PlanChannel &channel = plan.channels[action.channel];
    // Others send what has come before.
    return !channel.isReduction() && !channel.isOfWaves() &&
           !channel.isOfIdle && state.transport->sendsAtOnce(action.channel);
  };
  auto computes = [&](unsigned number) {
    return !isTransfer(actions[number].kind);
  };
  for (auto begin = order.begin(); begin != order.end();) {
    auto end = std::find_if(begin, order.end(), computes);
    std::stable_partition(begin, end, isEarly);
    begin = end == order.end() ? end : std::next(end);
  }
  return order;
}

/// What an action of the list of step `round`, modulo the period, uses.
static CallPlace placeOf(const Plan &plan, const PlanAction &action,
                         unsigned round, unsigned period) {
  if (plan.flushes)
    return {action.microbatch, action.slot, 0};
  const PlanStage &stage = plan.stages[action.stage];
  int64_t step = (round + period - action.lag % period) % period;
  uint64_t microbatch = plan.numberIn(step, action.microbatch);
  uint64_t slots = std::max<uint64_t>(stage.areas.residualSlots, 1);
  return {microbatch,
          static_cast<unsigned>(plan.passIn(stage, step, action.microbatch) %
                                slots),
          stage.slotOf(versionOf(plan, action, step))};
}

std::vector<Executor::Rank::CompiledAction>
Executor::Rank::compileRound(unsigned round, unsigned period) {
  const Plan &plan = state.program.getPlan();
  std::vector<std::vector<bool>> recomputed(
      plan.stages.size(), std::vector<bool>(plan.microbatches));
  for (const PlanAction &action : plan.ranks[index].actions)
    if (action.kind == ActionKind::Recompute)
      recomputed[action.stage][action.microbatch] = true;
  using HasPhase = std::array<bool, microbatchPhases>;
  std::vector<HasPhase> hasPhase(plan.stages.size());
  // A channel is released once, by the first action that qualifies.
  std::vector<std::vector<bool>> released(plan.channels.size(),
                                          std::vector<bool>(plan.microbatches));
  std::vector<CompiledAction> actions;
  for (const PlanAction &action : plan.ranks[index].actions) {
    CompiledAction compiled{action, toString(plan, action), {}, {}, {}, {}};
    CallPlace place = placeOf(plan, action, round, period);
    const PlanStage &own = plan.stages[action.stage];
    place.isCorrected =
        own.correction > 0 && action.kind == ActionKind::Backward;
    if (place.isCorrected && own.prepares) {
      calls.emplace_back(
          plan, stages, action, Phase::Prepare, place,
          fmt::format("stage '{}', P of corrected weights", own.name));
      compiled.preparation = &calls.back();
    }
    auto addCall = [&](Phase phase) {
      calls.emplace_back(plan, stages, action, phase, place,
                         fmt::format("stage '{}', action {}",
                                     plan.stages[action.stage].name,
                                     compiled.name));
      compiled.calls.push_back(&calls.back());
      if (phase == Phase::Prepare)
        return;
      bool &isKnown = hasPhase[action.stage][static_cast<unsigned>(phase)];
      bool isFirst =
          plan.flushes ? !isKnown : plan.startsUpdate(action.microbatch);
      isKnown = true;
      if (isBackward(phase) && isFirst &&
          plan.stages[action.stage].writesGradients)
        calls.back().markFirst();
      const PlanPhase &lists =
          plan.stages[action.stage].phases[static_cast<unsigned>(phase)];
      if (action.kind == ActionKind::Recompute)
        return;
      for (PlanReference reference : lists.outputs)
        if (reference.kind == PlanReference::Kind::Channel)
          if (unsigned channel = plan.channelOf(reference, action.microbatch);
              !plan.channels[channel].isResident())
            compiled.sends.push_back(channel);
    };
    switch (action.kind) {
    case ActionKind::Forward:
    case ActionKind::Recompute:
      addCall(Phase::Forward);
      break;
    case ActionKind::BackwardInput:
      addCall(Phase::BackwardInput);
      break;
    case ActionKind::BackwardWeight:
      addCall(Phase::BackwardWeight);
      break;
    case ActionKind::Prepare:
      addCall(Phase::Prepare);
      break;
    case ActionKind::Backward:
      addCall(Phase::BackwardInput);
      addCall(Phase::BackwardWeight);
      break;
    case ActionKind::Send:
    case ActionKind::Receive:
    case ActionKind::Update:
    case ActionKind::ReduceGradients:
    case ActionKind::AllReduce:
    case ActionKind::SumGradients:
    case ActionKind::Push:
    case ActionKind::Pull:
    case ActionKind::AddPushes:
      break;
    }
    // What a wave's first update, or its sum, is written over.
    bool isWritten = action.kind == ActionKind::AddPushes ||
                     (action.kind == ActionKind::Update && action.version == 1);
    for (unsigned c = 0; c < plan.channels.size() && isWritten; ++c) {
      const PlanChannel &channel = plan.channels[c];
      bool isPushed = channel.release == ActionKind::AddPushes;
      if (channel.from == action.stage && channel.isOfWaves() &&
          !channel.isOfIdle && isPushed == (action.kind == ActionKind::Update))
        compiled.sends.push_back(c);
    }
    if (round == 0 && action.kind == ActionKind::Send &&
        plan.channels[action.channel].isReduction())
      reductions.push_back(action.channel);
    // A stage with several updates in a step has a reduction for each.
    unsigned use = plan.dealsUpdates() && isPerStep(action.kind)
                       ? std::max(action.version, 1) - 1
                       : action.microbatch;
    if (!isTransfer(action.kind) && action.kind != ActionKind::Prepare)
      for (unsigned c = 0; c < plan.channels.size(); ++c)
        if (plan.channels[c].to == action.stage &&
            !plan.channels[c].isResident() && !plan.channels[c].isOfIdle &&
            plan.carries(plan.channels[c], action.microbatch) &&
            !released[c][use] &&
            releases(action.kind, plan.channels[c].release,
                     recomputed[action.stage][action.microbatch]) &&
            (action.kind != ActionKind::SumGradients ||
             plan.channels[c].addedIn == action.slot)) {
          released[c][use] = true;
          compiled.releases.push_back(c);
        }
    actions.push_back(std::move(compiled));
  }
  std::vector<CompiledAction> ordered;
  for (unsigned number : order)
    ordered.push_back(std::move(actions[number]));
  joinWeights(ordered);
  return ordered;
}

void Executor::Rank::compile() {
  const Plan &plan = state.program.getPlan();
  Device &device = state.program.getDevice();
  streams = {device.createStream(), device.createStream(),
             device.createStream()};
  computeClock = streams.compute->computeClock();
  hasClock.store(true, std::memory_order_release);
  std::optional<unsigned> shardOf = plan.ranks[index].shardOf;
  if (shardOf) {
    stages[*shardOf].plan = &plan.stages[*shardOf];
    stages[*shardOf].memory = &state.program.getMemories()[*shardOf];
  }
  if (plan.threads > 1 && !shardOf) {
    // Some milliseconds, as OpenMP's threads do: kernels do not end at the same
    // time, and on a virtual machine it takes long to wake a core.
    unsigned spins =
        50 * spinsFor(static_cast<unsigned>(plan.ranks.size()) * plan.threads);
    team = std::make_unique<Team>(plan.threads, fmt::format("rank {}", index),
                                  state.program.coresOf(index), spins);
  }
  for (unsigned s : plan.ranks[index].stages)
    createStage(s);
  if (!state.options.clipping.empty() && !device.isHostMemory())
    gradientsCopied = device.createEvent();
  if (plan.findLossScale())
    overflows = device.allocate(alignUp(plan.ranks.size() * sizeof(float)),
                                "flags of the ranks");

  order = findOrder();
  unsigned period = findPeriod();
  for (unsigned round = 0; round < period; ++round)
    rounds.push_back(compileRound(round, period));
  recent.assign(state.lag + 1, nullptr);
  for (EnqueuedStep &step : enqueued) {
    step.done = device.createEvent();
    step.times.assign(rounds.front().size() + 1, 0);
    step.numbers.assign(rounds.front().size(), 0);
    if (overflows)
      step.overflows.resize(plan.ranks.size());
    if (state.options.timeKernels)
      step.timer.emplace(*streams.compute);
    for (unsigned s : plan.ranks[index].stages)
      step.losses.emplace_back(plan.optimizer.type,
                               plan.stages[s].areas.loss.bytes /
                                   sizeOf(plan.optimizer.type));
  }
}

void Executor::Rank::main() {
  flushDenormals();
  try {
    const Cores &cores = state.program.coresOf(index);
    bindThread(cores.empty() ? Cores() : Cores{cores.front()});
    compile();
    takeSteps();
  } catch (const Transport::Aborted &) {
    // Whoever aborted has recorded why.
  } catch (...) {
    state.fail(std::current_exception());
  }
  // Nothing may touch a step after this; destroying a stream waits for it.
  hasClock = false;
  streams = {};
  std::lock_guard<std::mutex> lock(state.mutex);
  --state.ranksRunning;
  state.completed.notify_all();
  state.ended.notify_all();
}

void Executor::Rank::takeSteps() {
  uint64_t finished = 0;
  std::unique_lock<std::mutex> lock(state.mutex);
  ++state.ranksReady;
  state.completed.notify_all();
  while (true) {
    uint64_t next = stepsEnqueued.load(std::memory_order_relaxed);
    auto isNextHere = [&] {
      return next < state.firstStep + state.steps.size();
    };
    if (next == finished)
      state.submitted.wait(
          lock, [&] { return state.stopping || state.error || isNextHere(); });
    if (state.stopping || state.error)
      return;
    EnqueuedStep &oldest = enqueued[finished % std::size(enqueued)];
    bool isOldestDone = next != finished && oldest.done->isReached();
    if (!isOldestDone && isNextHere() &&
        next - finished < std::size(enqueued)) {
      Step &step = *state.steps[next - state.firstStep];
      lock.unlock();
      enqueueStep(enqueued[next % std::size(enqueued)], step);
      lock.lock();
      continue;
    }
    lock.unlock();
    finishStep(oldest);
    lock.lock();
    if (state.error)
      return;
    bool isOver = state.leave(finished++);
    if (!isOver)
      continue;
    // Whoever wakes up wants the mutex.
    lock.unlock();
    state.completed.notify_all();
    lock.lock();
  }
}

static void throwKernelError(const StageState &stage, const char *what) {
  std::string error = takeKernelError();
  if (!error.empty())
    failInternal("stage '{}', {}: {}", stage.plan->name, what, error);
}

void Executor::Rank::enqueueStep(EnqueuedStep &into, Step &step) {
  const Plan &plan = state.program.getPlan();
  Device &device = state.program.getDevice();
  Stream &compute = *streams.compute;
  DeviceRange range(device, fmt::format("step {}", step.number));
  into.step = &step;
  uint64_t sequence = stepsEnqueued.fetch_add(1, std::memory_order_relaxed);
  recent[sequence % recent.size()] = step.isPause ? nullptr : &step;
  const std::vector<CompiledAction> &actions = rounds[sequence % rounds.size()];
  for (unsigned channel : reductions)
    if (plan.flushes)
      state.transport->prepareSend(channel, 0, streams);
  bool isFirstStep = sequence == 0;
  for (unsigned s : plan.ranks[index].stages) {
    const StageMemory &memory = *stages[s].memory;
    const PlanAreas &areas = plan.stages[s].areas;
    // Also where B and W write gradients: some parameters may have none, and a
    // replica may have no micro-batch. Without a flush, an earlier step may be
    // adding up its own.
    unsigned lanes = plan.lanesOf(plan.stages[s].code);
    for (unsigned lane = 0; lane < lanes; ++lane) {
      unsigned first = lane * plan.stages[s].replicas + plan.stages[s].replica;
      bool hasWrite = plan.stages[s].writesGradients &&
                      first < plan.microbatchesWith(step.rows);
      if (areas.gradients.bytes && (isFirstStep || (plan.flushes && !hasWrite)))
        compute.clear(memory.at(areas.gradientsOf(lane)),
                      areas.gradients.bytes);
      if (areas.statistics.bytes && (isFirstStep || plan.flushes))
        compute.clear(memory.at(areas.statisticsOf(lane)),
                      areas.statistics.bytes);
    }
    stages[s].written.assign(lanes, {});
    stages[s].isFolded = false;
    if (areas.loss.bytes)
      compute.clear(memory.at(areas.loss), areas.loss.bytes);
  }
  if (overflows)
    compute.clear(overflows.get(), plan.ranks.size() * sizeof(float));
  bool hasAgreed = false;
  compute.timestamp(into.times[0]);
  for (size_t i = 0; i < actions.size(); ++i) {
    if (overflows && !hasAgreed &&
        actions[i].action.kind == ActionKind::Update) {
      // Nothing but updates follows.
      for (unsigned s : plan.ranks[index].stages)
        foldLanes(stages[s]);
      enqueueFlagExchange();
      if (!state.options.clipping.empty())
        clipGradients(into);
      hasAgreed = true;
      into.agreesBefore = i;
      compute.timestamp(into.agreed);
    }
    DeviceRange actionRange(device, actions[i].name);
    // No step so far back, or a pause: before the first step, or after the
    // last.
    uint64_t lag = actions[i].action.lag;
    Step *listed =
        lag <= sequence ? recent[(sequence - lag) % recent.size()] : nullptr;
    Step *own = listed;
    // All ranks leave out the same micro-batches.
    if (own &&
        actions[i].action.microbatch >= plan.microbatchesWith(own->rows)) {
      // What the other replicas add up with.
      if (plan.dealsUpdates() && actions[i].action.kind == ActionKind::Backward)
        clearGradients(actions[i].action.stage);
      own = nullptr;
    }
    into.numbers[i] = own ? own->number : 0;
    if (listed && actions[i].together > 1)
      enqueueTogether(std::span(&actions[i], actions[i].together), *listed,
                      into);
    else if (own && actions[i].together == 1)
      enqueueAction(actions[i], *own, sequence - lag, into);
    compute.timestamp(into.times[i + 1]);
    compute.count(*completed);
  }
  if (step.isIdleAfter)
    settleWeights();
  if (!step.losses.empty()) {
    size_t local = 0;
    for (unsigned s : plan.ranks[index].stages) {
      const PlanArea &loss = plan.stages[s].areas.loss;
      if (loss.bytes)
        compute.copy(into.losses[local].data(), stages[s].memory->at(loss),
                     loss.bytes);
      ++local;
    }
  }
  if (overflows && isFirstHere) {
    const StageState &first = stages[plan.ranks[index].stages.front()];
    compute.copy(&into.lossScale, first.memory->at(first.plan->areas.lossScale),
                 sizeof(into.lossScale));
    compute.copy(into.overflows.data(), overflows.get(),
                 into.overflows.size() * sizeof(float));
  }
  compute.record(*into.done);
}

void Executor::Rank::finishStep(EnqueuedStep &oldest) {
  oldest.done->synchronize();
  Step &step = *oldest.step;
  const Plan &plan = state.program.getPlan();
  for (size_t i = 0; i < oldest.losses.size(); ++i) {
    const NumberArray &losses = oldest.losses[i];
    const PlanStage &stage = plan.stages[plan.ranks[index].stages[i]];
    if (losses.empty() || step.losses.empty())
      continue;
    for (unsigned m = 0; m < plan.microbatches; ++m)
      if (stage.runs(m))
        step.losses.set(m, losses.get(m / stage.replicas));
  }
  if (overflows && isFirstHere) {
    step.lossScale = oldest.lossScale;
    step.overflows = oldest.overflows;
    step.gradientNorm = oldest.gradientNorm;
  }
  shareTimes(oldest);
  for (size_t i = 0; i < oldest.numbers.size(); ++i) {
    if (!oldest.numbers[i])
      continue;
    // What it waited for the others is no work of the action.
    int64_t begin = i == oldest.agreesBefore ? oldest.agreed : oldest.times[i],
            end = oldest.times[i + 1];
    const PlanAction &action = plan.ranks[index].actions[order[i]];
    if (!isTransfer(action.kind) && !plan.ranks[index].shardOf) {
      statistics[action.stage].busySeconds += (end - begin) * 1e-9;
      ++statistics[action.stage].actions;
    }
    trace.add({order[i], oldest.numbers[i], begin, end});
  }
  if (!oldest.timer)
    return;
  auto seconds = [](int64_t nanoseconds) {
    return static_cast<double>(nanoseconds) * 1e-9;
  };
  int64_t last = 0;
  for (const KernelTimer::Run &run : oldest.timer->getRuns()) {
    double gap = last ? seconds(run.begin - last) : 0;
    for (unsigned i = 0; i < run.microbatches; ++i, gap = 0)
      kernelRuns.push_back({run.kernel, step.number,
                            seconds(run.end - run.begin) / run.microbatches,
                            gap});
    last = run.end;
  }
  oldest.timer->clear();
}

void Executor::Rank::enqueueAction(const CompiledAction &compiled, Step &step,
                                   uint64_t sequence, EnqueuedStep &into) {
  const Plan &plan = state.program.getPlan();
  const PlanAction &action = compiled.action;
  auto numberIn = [&](unsigned channel) {
    if (plan.flushes)
      return action.microbatch;
    const PlanChannel &own = plan.channels[channel];
    return own.numberOf(own.isOfWaves()
                            ? sequence
                            : plan.numberIn(sequence, action.microbatch));
  };
  // A replica that owns all of a small area sends nothing before it adds.
  if (action.kind == ActionKind::Update ||
      action.kind == ActionKind::SumGradients ||
      (action.kind == ActionKind::Send &&
       plan.channels[action.channel].isReduction()))
    foldLanes(stages[action.stage]);
  // When the others have a stage's part of a tie, the sum may come back.
  if (action.kind == ActionKind::Send &&
      plan.channels[action.channel].addedIn == PlanSum::ofTies)
    waitForReplicas(action.stage);
  if (action.kind == ActionKind::Send)
    return state.transport->send(action.channel, numberIn(action.channel),
                                 streams);
  if (action.kind == ActionKind::Receive)
    return state.transport->receive(action.channel, numberIn(action.channel),
                                    streams);
  if (action.kind == ActionKind::Prepare &&
      !needsPreparation(action, sequence) && !state.options.preparesInEachStep)
    return;
  for (unsigned channel : compiled.sends)
    state.transport->prepareSend(channel, numberIn(channel), streams);
  if (action.kind == ActionKind::Update)
    enqueueUpdate(action, step, sequence);
  if (action.kind == ActionKind::Pull)
    enqueuePull(action.stage, sequence);
  if (action.kind == ActionKind::AddPushes)
    enqueuePushes(action.stage, sequence);
  bool startsSums = !plan.flushes && action.kind == ActionKind::Backward &&
                    plan.startsUpdate(action.microbatch);
  if (startsSums) {
    waitForReplicas(action.stage);
    clearSums(stages[action.stage]);
  }
  if (action.kind == ActionKind::SumGradients)
    enqueueSums(action.stage, action.slot);
  bool useGraphs = state.options.graphs && !into.timer &&
                   state.program.getDevice().hasGraphs();
  if (uint64_t uploads = state.program.countUploads();
      compiled.preparation && stages[action.stage].correctedOf != uploads) {
    stages[action.stage].correctedOf = uploads;
    compiled.preparation->enqueue(
        *streams.compute, step, stepsEnqueued.load(std::memory_order_relaxed),
        /*useGraphs=*/false, /*timer=*/nullptr, /*isFirst=*/false);
  }
  for (PhaseCall *call : compiled.calls)
    call->enqueue(*streams.compute, step,
                  stepsEnqueued.load(std::memory_order_relaxed), useGraphs,
                  into.timer ? &*into.timer : nullptr,
                  isFirstWrite(action, call->getPhase()));
  for (unsigned channel : compiled.releases)
    state.transport->release(channel, numberIn(channel), streams);
}

void Executor::Rank::clearGradients(unsigned stage) {
  waitForReplicas(stage);
  const PlanAreas &areas = stages[stage].plan->areas;
  for (const PlanArea *area : {&areas.gradients, &areas.statistics})
    if (area->bytes)
      streams.compute->clear(stages[stage].memory->at(*area), area->bytes);
}

void Executor::Rank::clearSums(const StageState &stage) {
  const PlanAreas &areas = stage.plan->areas;
  if (!stage.plan->writesGradients && areas.gradients.bytes)
    streams.compute->clear(stage.memory->at(areas.gradients),
                           areas.gradients.bytes);
  if (areas.statistics.bytes)
    streams.compute->clear(stage.memory->at(areas.statistics),
                           areas.statistics.bytes);
}

bool Executor::Rank::isFirstWrite(const PlanAction &action, Phase phase) {
  StageState &stage = stages[action.stage];
  if (phase == Phase::Prepare)
    return stage.preparesAll;
  if (!stage.plan->writesGradients || !isBackward(phase))
    return false;
  if (!state.program.getPlan().flushes)
    return state.program.getPlan().startsUpdate(action.microbatch);
  unsigned lane =
      state.program.getPlan().laneOf(stage.plan->code, action.microbatch);
  StageState::Written &written = stage.written[lane];
  bool &isKnown =
      phase == Phase::BackwardInput ? written.byInput : written.byWeight;
  return !std::exchange(isKnown, true);
}

bool Executor::Rank::needsPreparation(const PlanAction &action,
                                      uint64_t sequence) {
  const Plan &plan = state.program.getPlan();
  StageState &stage = stages[action.stage];
  uint64_t uploads = state.program.countUploads();
  bool isStale = stage.preparedOf != uploads;
  stage.preparedOf = uploads;
  stage.preparesAll = isStale;
  if (isStale)
    stage.isPrepared.assign(stage.plan->versions, false);
  // The optimizer changes parameters in every step.
  if (plan.flushes)
    return isStale || plan.isTraining();
  unsigned slot = stage.plan->slotOf(versionOf(plan, action, sequence));
  bool isNeeded = !stage.isPrepared[slot];
  stage.isPrepared[slot] = true;
  return isNeeded;
}

void Executor::Rank::enqueueFlagExchange() {
  float *flags = reinterpret_cast<float *>(overflows.get());
  for (unsigned s : state.program.getPlan().ranks[index].stages) {
    StageState &stage = stages[s];
    if (!state.options.skipsNonFinite)
      continue;
    streams.compute->execute([&stage, flags, this] {
      auto check = [&](const std::optional<unsigned> &kernel, void *values) {
        if (!kernel)
          return;
        void *tensors[] = {values, flags + index};
        auto runPart = [&](unsigned) {
          stage.kernels[*kernel]->execute(tensors, nullptr);
        };
        if (team)
          team->run(runPart);
        else
          runPart(0);
      };
      check(stage.plan->finiteKernel, stage.arguments.gradients);
      check(stage.plan->finiteLossKernel,
            stage.memory->at(stage.plan->areas.loss));
      throwKernelError(stage, "the search for numbers that are not finite");
    });
  }
  state.flagExchange->allGather(index, flags, streams);
}

/// Adds the second half of the lanes to the first until one is left.
template <typename T>
static void foldLanesAs(const StageState &stage, unsigned lanes) {
  const PlanAreas &areas = stage.plan->areas;
  auto add = [&](uint64_t to, uint64_t from, uint64_t bytes) {
    auto *sums = reinterpret_cast<T *>(stage.memory->at(to));
    const auto *others = reinterpret_cast<const T *>(stage.memory->at(from));
    for (uint64_t i = 0; i < bytes / sizeof(T); ++i)
      sums[i] += others[i];
  };
  for (unsigned half = lanes / 2; half > 0; half /= 2)
    for (unsigned lane = 0; lane < half; ++lane) {
      add(areas.gradientsOf(lane), areas.gradientsOf(lane + half),
          areas.gradients.bytes);
      add(areas.statisticsOf(lane), areas.statisticsOf(lane + half),
          areas.statistics.bytes);
    }
}

void Executor::Rank::foldLanes(StageState &stage) {
  const Plan &plan = state.program.getPlan();
  unsigned lanes = plan.lanesOf(stage.plan->code);
  if (stage.isFolded || lanes == 1)
    return;
  stage.isFolded = true;
  bool isDouble = plan.optimizer.type == DataType::F64;
  streams.compute->execute([&stage, isDouble, lanes] {
    if (isDouble)
      foldLanesAs<double>(stage, lanes);
    else
      foldLanesAs<float>(stage, lanes);
  });
}

/// Adds the parts of replicas as lanes are added.
static void addInPairs(const StageState &stage, const PlanSum &sum) {
  for (size_t half = sum.parts.size() / 2; half > 0; half /= 2)
    for (size_t i = 0; i < half; ++i) {
      void *tensors[] = {
          stage.memory->at(sum.parts[i]), stage.memory->at(sum.parts[i + half]),
          stage.memory->at(half == 1 ? sum.target : sum.parts[i])};
      stage.kernels[sum.kernel]->execute(tensors, nullptr);
    }
}

void Executor::Rank::waitForReplicas(unsigned stage) {
  const Plan &plan = state.program.getPlan();
  for (unsigned channel : reductions)
    if (plan.channels[channel].from == stage &&
        plan.channels[channel].addedIn == PlanSum::ofReplicas)
      state.transport->prepareSend(channel, 0, streams);
}

void Executor::Rank::enqueueSums(unsigned number, unsigned group) {
  StageState &stage = stages[number];
  if (group == PlanSum::ofTies)
    waitForReplicas(number);
  // Parts of a tie are added as they are without lanes.
  bool inPairs = group == PlanSum::ofReplicas &&
                 state.program.getPlan().gradientLanes != 0;
  auto forNeighbors = [&](auto work) {
    for (const PlanSum &sum : stage.plan->sums)
      for (const PlanSum::Neighbor &neighbor : sum.neighbors)
        if (sum.group == group)
          work(sum, neighbor,
               stages[neighbor.stage].memory->at(neighbor.offset));
  };
  forNeighbors([&](const PlanSum &sum, const PlanSum::Neighbor &neighbor,
                   char *part) {
    foldLanes(stages[neighbor.stage]);
    waitForReplicas(neighbor.stage);
    streams.compute->copy(stage.memory->at(neighbor.place), part, sum.bytes);
  });
  streams.compute->execute([&stage, inPairs, group] {
    for (const PlanSum &sum : stage.plan->sums) {
      if (sum.group != group)
        continue;
      if (inPairs) {
        addInPairs(stage, sum);
        continue;
      }
      // Partial sums go where the first part of another replica lies, which
      // then has been read.
      uint64_t place = sum.parts[sum.parts[0] == sum.target ? 1 : 0];
      uint64_t before = sum.parts[0];
      for (size_t i = 1; i < sum.parts.size(); ++i) {
        uint64_t after = i + 1 == sum.parts.size() ? sum.target : place;
        void *tensors[] = {stage.memory->at(before),
                           stage.memory->at(sum.parts[i]),
                           stage.memory->at(after)};
        stage.kernels[sum.kernel]->execute(tensors, nullptr);
        before = after;
      }
    }
    throwKernelError(stage, "the sums of its gradients");
  });
  forNeighbors(
      [&](const PlanSum &sum, const PlanSum::Neighbor &neighbor, char *part) {
        if (neighbor.getsSum)
          streams.compute->copy(part, stage.memory->at(sum.target), sum.bytes);
      });
}

void Executor::Rank::settleWorkers() {
  const Plan &plan = state.program.getPlan();
  const std::vector<unsigned> &own = plan.ranks[index].stages;
  for (unsigned c = 0; c < plan.channels.size(); ++c) {
    if (!plan.channels[c].isOfIdle)
      continue;
    if (std::ranges::count(own, plan.channels[c].from)) {
      state.transport->send(c, 0, streams);
      // The next update changes what is sent.
      state.transport->prepareSend(c, 0, streams);
    } else if (std::ranges::count(own, plan.channels[c].to)) {
      state.transport->receive(c, 0, streams);
      state.transport->release(c, 0, streams);
    }
  }
}

void Executor::Rank::settleWeights() {
  if (state.program.getPlan().ranks[index].shardOf)
    return;
  if (state.program.getPlan().clockDistance)
    settleWorkers();
  streams.compute->execute([this] {
    for (unsigned s : state.program.getPlan().ranks[index].stages)
      stages[s].memory->fillVersions(stages[s].newest);
  });
  for (unsigned s : state.program.getPlan().ranks[index].stages) {
    stages[s].isPrepared.assign(stages[s].plan->versions, false);
    stages[s].correctedOf = 0;
  }
}

/// Updates the mean of the weights' changes, and makes corrected weights of it
/// where those before the update lie.
template <typename T>
static void correctAs(const T *weights, T *changes, T *corrected, int64_t count,
                      double keep, double distance) {
  for (int64_t i = 0; i < count; ++i) {
    T change = weights[i] - corrected[i];
    changes[i] = T(keep) * changes[i] + (1 - T(keep)) * change;
    corrected[i] = weights[i] - T(distance) * changes[i];
  }
}

void Executor::Rank::correct(const StageState &stage, int64_t begin,
                             int64_t end) const {
  const PlanAreas &areas = stage.plan->areas;
  double distance = stage.plan->delay;
  double keep = std::pow(stage.plan->correction, 1 / distance);
  auto correctRange = [&](auto one) {
    using T = decltype(one);
    auto at = [&](uint64_t offset) {
      return reinterpret_cast<T *>(stage.memory->at(offset) + begin);
    };
    correctAs<T>(at(areas.parametersOf(stage.newest)), at(areas.changes()),
                 at(areas.correctedParameters()),
                 (end - begin) / static_cast<int64_t>(sizeof(T)), keep,
                 distance);
  };
  if (state.program.getPlan().optimizer.type == DataType::F64)
    correctRange(double());
  else
    correctRange(float());
}

void Executor::Rank::anneal(StageState &stage, uint64_t update,
                            NumberArray &values) const {
  const auto &all = state.program.getPlan().optimizer.scalars;
  double done =
      std::min(double(update) / double(state.options.annealedSteps), 1.0);
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].name == "lr" && all[i].kind == PlanScalar::Kind::Value)
      values.set(i, values.get(i) / std::pow(stage.plan->delay, 1 - done));
}

void Executor::Rank::enqueueUpdate(const PlanAction &action, const Step &step,
                                   uint64_t sequence) {
  StageState &stage = stages[action.stage];
  const PlanAreas &areas = stage.plan->areas;
  const Plan &plan = state.program.getPlan();
  int64_t version = versionOf(plan, action, sequence);
  unsigned from = stage.plan->slotOf(version - 1);
  unsigned to = stage.plan->slotOf(version);
  stage.newest = to;
  Change change{from, to, sequence, action.version == 1};
  unsigned updates = plan.updatesOf(*stage.plan);
  if (action.version == static_cast<int>(updates))
    stage.wave = sequence;
  stage.correctedOf = 0;
  if (!stage.isPrepared.empty())
    stage.isPrepared[to] = false;
  bool hasSeveral = plan.clockDistance || plan.dealsUpdates();
  if (hasSeveral && plan.microbatchOf(*stage.plan, action.version) >=
                        plan.microbatchesWith(step.rows))
    return skipUpdate(stage, change);
  const UpdateScalars &values =
      step.scalarsOf(hasSeveral ? action.version - 1 : 0, updates);
  const char *scalars = values.own.data();
  std::vector<NumberArray> groups = values.groups;
  if (stage.plan->delay > 1 && state.options.annealedSteps) {
    stage.ownScalars = values.own;
    anneal(stage, step.number - 1, stage.ownScalars);
    for (NumberArray &own : groups)
      anneal(stage, step.number - 1, own);
    scalars = stage.ownScalars.data();
  }
  if (stage.scalars) {
    streams.compute->copy(stage.scalars, scalars, values.own.bytes());
    scalars = stage.scalars;
  }
  if (stage.plan->lossScaleKernel)
    streams.compute->execute([this, &stage, &areas] {
      void *tensors[] = {overflows.get(), stage.memory->at(areas.lossScale),
                         stage.scalars};
      stage.kernels[*stage.plan->lossScaleKernel]->execute(tensors, nullptr);
    });
  if (stage.plan->optimizerKernel)
    placeGroupScalars(stage, values.groups);
  auto samples = static_cast<int32_t>(
      plan.samplesOfUpdate(*stage.plan, action.version, step.rows));
  streams.compute->execute([this, &stage, &areas, scalars, change, samples,
                            groups = std::move(groups)]() mutable {
    if (stage.plan->optimizerKernel) {
      runOptimizerKernels(stage);
    } else if (areas.parameters.bytes) {
      shareScalars(stage, groups);
      optimize(stage, scalars, groups, change);
    }
    if (stage.functions.update) {
      pp_phase_arguments arguments = stage.arguments;
      arguments.residuals = stage.memory->at(areas.residuals);
      alignas(64) int32_t aligned = samples;
      arguments.samples = &aligned;
      stage.functions.update(&arguments);
    }
    throwKernelError(stage, "update");
  });
}

void Executor::Rank::probe(bool isProbed) {
  for (PhaseCall &call : calls)
    call.probe(isProbed);
}

std::optional<NonFinite> Executor::Rank::findNonFinite() const {
  std::optional<NonFinite> first;
  for (const PhaseCall &call : calls)
    keepFirst(first, call.findNonFinite());
  return first;
}

std::string Executor::Rank::describe() const {
  uint64_t done = completed->load(std::memory_order_relaxed);
  const Plan &plan = state.program.getPlan();
  const auto &actions = plan.ranks[index].actions;
  if (actions.empty() ||
      done >= stepsEnqueued.load(std::memory_order_relaxed) * actions.size())
    return fmt::format("rank {}: idle", index);
  size_t position = order[done % actions.size()];
  const PlanAction &action = actions[position];
  std::string what = "runs";
  if (action.kind == ActionKind::Send)
    what = fmt::format(
        "waits for a free slot of channel {} '{}' to stage {}:", action.channel,
        plan.channels[action.channel].name, plan.channels[action.channel].to);
  else if (action.kind == ActionKind::Receive)
    what = fmt::format(
        "waits for a value of channel {} '{}' from stage {}:", action.channel,
        plan.channels[action.channel].name, plan.channels[action.channel].from);
  return fmt::format("rank {}: {} {} (ranks[{}].actions[{}])", index, what,
                     toString(plan, action), index, position);
}
