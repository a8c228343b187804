//===- Rank.cpp - One rank of an executor ---------------------------------===//
#include "core/ExecutorState.h"
#include "support/Error.h"

#include <chrono>
#include <cstring>

using namespace pp::runtime;

static int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Executor::Rank::Rank(State &state, unsigned index)
    : statistics(state.program.getPlan().stages.size()), state(state),
      index(index), stages(statistics.size()) {
  const Plan &plan = state.program.getPlan();
  trace.enabled = state.options.trace;
  std::vector<std::vector<bool>> recomputed(
      plan.stages.size(), std::vector<bool>(plan.microbatches));
  for (const PlanAction &action : plan.ranks[index].actions)
    if (action.kind == ActionKind::R)
      recomputed[action.stage][action.microbatch] = true;
  // A channel is released once, by the first action that qualifies.
  std::vector<std::vector<bool>> released(plan.channels.size(),
                                          std::vector<bool>(plan.microbatches));
  for (const PlanAction &action : plan.ranks[index].actions) {
    CompiledAction compiled{action, {}};
    if (action.kind < ActionKind::Send)
      for (unsigned c = 0; c < plan.channels.size(); ++c)
        if (plan.channels[c].to == action.stage &&
            !plan.channels[c].isResident() && !released[c][action.microbatch] &&
            releases(action.kind, plan.channels[c].release,
                     recomputed[action.stage][action.microbatch])) {
          released[c][action.microbatch] = true;
          compiled.releases.push_back(c);
        }
    actions.push_back(std::move(compiled));
  }
}

void Executor::Rank::createKernels() {
  const Plan &plan = state.program.getPlan();
  for (unsigned s : plan.ranks[index].stages) {
    StageState &stage = stages[s];
    stage.memory = &state.program.getMemories()[s];
    stage.functions = state.program.getFunctions().stages[s];
    for (size_t i = 0; i < plan.stages[s].kernels.size(); ++i) {
      const PlanKernel &kernel = plan.stages[s].kernels[i];
      std::string error;
      auto created = LibraryKernel::create(kernel.descriptor, error);
      if (!created)
        failInput("stages[{}].kernels[{}]: {}", s, i, error);
      if (created->scratchpadBytes() != kernel.scratchpad)
        failInput("stages[{}].kernels[{}]: '{}' wants a scratchpad of {} bytes "
                  "here, but {} where the model was compiled: compile on this "
                  "machine",
                  s, i, kernel.descriptor, created->scratchpadBytes(),
                  kernel.scratchpad);
      stage.kernelPointers.push_back(created.get());
      stage.kernels.push_back(std::move(created));
    }
    const PlanAreas &areas = plan.stages[s].areas;
    pp_phase_arguments &arguments = stage.arguments;
    arguments.parameters = stage.memory->at(areas.parameters);
    arguments.buffers = stage.memory->at(areas.buffers);
    arguments.gradients = stage.memory->at(areas.gradients);
    arguments.statistics = stage.memory->at(areas.statistics);
    arguments.scratch = stage.memory->at(areas.scratch);
    arguments.kernels = stage.kernelPointers.data();
  }
}

void Executor::Rank::main() {
  try {
    setKernelThreads(1);
    createKernels();
    takeSteps();
  } catch (const Transport::Aborted &) {
    // Whoever aborted has recorded why.
  } catch (...) {
    state.fail(std::current_exception());
  }
  std::lock_guard<std::mutex> lock(state.mutex);
  --state.ranksRunning;
  state.changed.notify_all();
}

void Executor::Rank::takeSteps() {
  uint64_t next = 0;
  std::unique_lock<std::mutex> lock(state.mutex);
  ++state.ranksReady;
  state.changed.notify_all();
  while (true) {
    state.changed.wait(lock, [&] {
      return state.stopping || state.error ||
             next < state.firstStep + state.steps.size();
    });
    if (state.stopping || state.error)
      return;
    Step &step = *state.steps[next - state.firstStep];
    lock.unlock();
    runStep(step);
    lock.lock();
    ++next;
    if (--step.ranksLeft == 0) {
      // Ranks finish steps in order, so this is the oldest one.
      state.steps.pop_front();
      ++state.firstStep;
      state.changed.notify_all();
    }
  }
}

void Executor::Rank::runStep(Step &step) {
  const Plan &plan = state.program.getPlan();
  for (unsigned s : plan.ranks[index].stages) {
    const StageMemory &memory = *stages[s].memory;
    const PlanAreas &areas = plan.stages[s].areas;
    for (const PlanArea *area :
         {&areas.gradients, &areas.statistics, &areas.loss})
      if (area->bytes)
        std::memset(memory.at(*area), 0, area->bytes);
  }
  int64_t begin = now();
  for (size_t i = 0; i < actions.size(); ++i) {
    current.store(i, std::memory_order_relaxed);
    runAction(actions[i], step);
    int64_t end = now();
    const PlanAction &action = actions[i].action;
    if (action.kind != ActionKind::Send && action.kind != ActionKind::Receive) {
      statistics[action.stage].busySeconds += (end - begin) * 1e-9;
      ++statistics[action.stage].actions;
    }
    trace.add({unsigned(i), step.number, begin, end});
    begin = end;
    completed.fetch_add(1, std::memory_order_relaxed);
  }
  current.store(idle, std::memory_order_relaxed);
  for (unsigned s : plan.ranks[index].stages)
    if (plan.stages[s].areas.loss.bytes && !step.losses.empty())
      std::memcpy(step.losses.data(),
                  stages[s].memory->at(plan.stages[s].areas.loss),
                  step.losses.size() * sizeof(float));
}

void Executor::Rank::runAction(const CompiledAction &compiled, Step &step) {
  const PlanAction &action = compiled.action;
  StageState &stage = stages[action.stage];
  switch (action.kind) {
  case ActionKind::Send:
    return state.transport->send(action.channel, action.microbatch);
  case ActionKind::Receive:
    return state.transport->receive(action.channel, action.microbatch);
  case ActionKind::Update:
    return runUpdate(stage, action.stage, step);
  case ActionKind::F:
    runPhase(stage, action, Phase::F, /*discard=*/false, step);
    break;
  case ActionKind::R:
    runPhase(stage, action, Phase::F, /*discard=*/true, step);
    break;
  case ActionKind::I:
    runPhase(stage, action, Phase::I, /*discard=*/false, step);
    break;
  case ActionKind::W:
    runPhase(stage, action, Phase::W, /*discard=*/false, step);
    break;
  case ActionKind::B:
    runPhase(stage, action, Phase::I, /*discard=*/false, step);
    runPhase(stage, action, Phase::W, /*discard=*/false, step);
    break;
  }
  for (unsigned channel : compiled.releases)
    state.transport->release(channel, action.microbatch);
}

void Executor::Rank::runPhase(StageState &stage, const PlanAction &action,
                              Phase phase, bool discard, Step &step) {
  const Plan &plan = state.program.getPlan();
  const PlanStage &stagePlan = plan.stages[action.stage];
  const PlanPhase &lists = stagePlan.phases[static_cast<unsigned>(phase)];
  const PlanAreas &areas = stagePlan.areas;
  unsigned m = action.microbatch;
  inputs.clear();
  outputs.clear();
  for (PlanReference reference : lists.inputs) {
    if (reference.kind == PlanReference::Kind::Feed) {
      inputs.push_back(step.feeds[reference.index].at(m));
      continue;
    }
    const PlanChannel &channel = plan.channels[reference.index];
    inputs.push_back(
        stage.memory->at(channel.receiveOffset +
                         channel.receiveSlot[m] * alignUp(channel.bytes)));
  }
  for (size_t i = 0; i < lists.outputs.size(); ++i) {
    PlanReference reference = lists.outputs[i];
    if (discard) {
      outputs.push_back(
          stage.memory->at(areas.discard.offset + lists.discards[i]));
    } else if (reference.kind == PlanReference::Kind::Fetch) {
      outputs.push_back(step.fetches[reference.index].at(m));
    } else if (reference.kind == PlanReference::Kind::Loss) {
      outputs.push_back(
          stage.memory->at(areas.loss.offset + m * sizeof(float)));
    } else {
      const PlanChannel &channel = plan.channels[reference.index];
      uint64_t stride = alignUp(channel.bytes);
      outputs.push_back(
          channel.isResident()
              ? stages[channel.to].memory->at(channel.receiveOffset +
                                              channel.receiveSlot[m] * stride)
              : stage.memory->at(channel.sendOffset +
                                 channel.sendSlot[m] * stride));
    }
  }
  pp_phase_arguments arguments = stage.arguments;
  arguments.residuals = stage.memory->at(areas.residuals.offset +
                                         action.slot * areas.residualSlotBytes);
  if (discard && areas.statistics.bytes)
    arguments.statistics =
        stage.memory->at(areas.discard.offset + *lists.discardStatistics);
  arguments.inputs = inputs.data();
  arguments.outputs = outputs.data();
  pp_phase_function function = phase == Phase::F ? stage.functions.forward
                               : phase == Phase::I
                                   ? stage.functions.backward_input
                                   : stage.functions.backward_weight;
  if (!function)
    return;
  function(&arguments);
  std::string error = takeKernelError();
  if (!error.empty())
    failInternal("stage '{}', action {}: {}", stagePlan.name,
                 toString(plan, action), error);
}

void Executor::Rank::runUpdate(StageState &stage, unsigned stageIndex,
                               const Step &step) {
  const PlanAreas &areas = state.program.getPlan().stages[stageIndex].areas;
  int64_t count = areas.parameters.bytes / sizeof(float);
  if (count)
    state.program.getFunctions().optimizer(
        count, reinterpret_cast<float *>(stage.arguments.parameters),
        reinterpret_cast<const float *>(stage.arguments.gradients),
        reinterpret_cast<float *>(stage.memory->at(areas.optimizer)), count,
        step.scalars.data());
  if (stage.functions.update) {
    pp_phase_arguments arguments = stage.arguments;
    arguments.residuals = stage.memory->at(areas.residuals);
    stage.functions.update(&arguments);
  }
}

std::string Executor::Rank::describe() const {
  int64_t position = current.load(std::memory_order_relaxed);
  if (position == idle)
    return fmt::format("rank {}: idle", index);
  const Plan &plan = state.program.getPlan();
  const PlanAction &action = actions[position].action;
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
