//===- GrowingStage.cpp - A stage that takes one group after the other ----===//
#include "GrowingStage.h"
#include "../Infinity.h"
#include <algorithm>

using namespace pp::planner;
using namespace pp::planner::partition;

GrowingStage::GrowingStage(const CostModel &model,
                           const VariantChooser &chooser,
                           const GroupGraph &graph)
    : model(model), chooser(chooser), graph(graph), modes(model.modes.size()),
      pins(graph.nets.size(), 0), levels(1), loads(modes), lean(modes) {
  for (const Group &group : graph.groups) {
    fastest.insert(fastest.end(), group.fastest.begin(), group.fastest.end());
    leanest.insert(leanest.end(), group.leanest.begin(), group.leanest.end());
  }
}

void GrowingStage::add(uint32_t index) {
  const Group &group = graph.groups[index];
  size_t from = groups.size() * modes, to = from + modes;
  groups.push_back(index);
  auto extend = [&](std::vector<Load> &list, const std::vector<Load> &added) {
    if (list.size() < to + modes)
      list.resize(to + modes);
    for (size_t mode = 0; mode < modes; ++mode) {
      list[to + mode] = list[from + mode];
      list[to + mode].add(added[index * modes + mode]);
    }
  };
  extend(loads, fastest);
  if (model.needsMemory)
    extend(lean, leanest);
  Level level = levels.back();
  if (group.stageHint >= 0) {
    level.hintsClash |= level.hint >= 0 && level.hint != group.stageHint;
    level.hint = group.stageHint;
  }
  for (uint32_t id : group.nets) {
    const Net &net = graph.nets[id];
    uint32_t inside = ++pins[id];
    if (inside == 1)
      level.communication += net.transfer;
    if (inside == net.pins.size())
      level.communication -= net.transfer;
  }
  levels.push_back(level);
  fits.clear();
}

void GrowingStage::undo() {
  for (uint32_t id : graph.groups[groups.back()].nets)
    --pins[id];
  groups.pop_back();
  levels.pop_back();
  fits.clear();
}

bool GrowingStage::canCost(double bound) const {
  bool isShort = model.problem.objective == Objective::Memory;
  for (size_t mode = 0; mode < modes && !isShort; ++mode)
    isShort = time(mode) <= bound * model.modes[mode].maxReplicas;
  return isShort && !levels.back().hintsClash && isLeanEnough(bound);
}

bool GrowingStage::isLeanEnough(double bound) const {
  if (!model.needsMemory)
    return true;
  int inFlight = model.leastInFlight();
  for (size_t mode = 0; mode < modes; ++mode) {
    const Load &least = lean[groups.size() * modes + mode];
    double memory = model.memory(least, inFlight);
    if (least.time < infinity && model.fits(model.modes[mode], memory) &&
        (model.problem.objective != Objective::Memory || memory <= bound))
      return true;
  }
  return false;
}

std::optional<double> GrowingStage::fittingTime(size_t mode, int inFlight) {
  auto key = std::pair(mode, inFlight);
  for (const auto &[known, time] : fits)
    if (known == key)
      return time;
  std::vector<size_t> kernels;
  for (uint32_t group : groups)
    kernels.insert(kernels.end(), graph.groups[group].kernels.begin(),
                   graph.groups[group].kernels.end());
  std::optional<VariantChooser::Fit> fit =
      chooser.fastest(kernels, mode, inFlight, variantsExact);
  std::optional<double> time;
  if (fit)
    time = fit->time;
  fits.push_back({key, time});
  return time;
}

std::optional<CostParts> GrowingStage::cost(size_t mode, int replicas,
                                            int inFlight,
                                            const Surroundings &around) {
  Load chosen = load(mode);
  const Mode &how = model.modes[mode];
  if (model.needsMemory) {
    double memory = model.memory(chosen, inFlight);
    bool fitsAsIs = model.fits(how, memory);
    if (model.problem.objective == Objective::Memory) {
      if (!fitsAsIs)
        return std::nullopt;
      CostParts parts;
      parts.total = memory;
      return parts;
    }
    if (!fitsAsIs) {
      const Load &least = lean[groups.size() * modes + mode];
      if (!model.hasChoices || !model.fits(how, model.memory(least, inFlight)))
        return std::nullopt;
      std::optional<double> time = fittingTime(mode, inFlight);
      if (!time)
        return std::nullopt;
      chosen.time = *time;
    }
  }
  return model.cost(how, replicas, chosen, around);
}
