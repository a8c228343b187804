//===- LowerBounds.cpp - Times that no schedule undercuts -----------------===//
#include "Schedule/PipelineModel.h"
#include <algorithm>
#include <limits>

using namespace pp::planner;

namespace {

/// Longest paths of one micro-batch through the phases of all stages.
class Paths {
public:
  explicit Paths(const PipelineModel &model)
      : model(model), nodes(size_t(model.stages) * phaseCount), outgoing(nodes),
        pending(nodes, 0) {
    for (int stage = 0; stage < model.stages; ++stage)
      for (Phase phase :
           {Phase::Forward, Phase::BackwardInput, Phase::BackwardWeight}) {
        size_t to = node(phase, stage);
        auto add = [&](size_t from, double delay) {
          outgoing[from].push_back({to, delay});
          ++pending[to];
        };
        if (phase != Phase::Forward)
          add(to - model.stages, 0);
        for (const PipelineModel::Edge &edge : model.inputs(phase, stage))
          add(node(edge.phase, edge.stage), edge.delay);
      }
    for (size_t i = 0; i < nodes; ++i)
      if (pending[i] == 0)
        order.push_back(i);
    for (size_t done = 0; done < order.size(); ++done)
      for (auto [to, delay] : outgoing[order[done]])
        if (--pending[to] == 0)
          order.push_back(to);
  }

  size_t node(Phase phase, int stage) const {
    return static_cast<size_t>(phase) * model.stages + stage;
  }
  /// False: channels in a circle, for which nothing completes.
  bool complete() const { return order.size() == nodes; }

  /// Per node: the earliest start.
  std::vector<double> heads() const {
    std::vector<double> at(nodes, 0);
    for (size_t from : order)
      for (auto [to, delay] : outgoing[from])
        at[to] = std::max(at[to], at[from] + time(from) + delay);
    return at;
  }
  /// Per node: the least time from its end to that of the step. `leaf` is what
  /// follows W of each stage.
  std::vector<double> tails(const std::vector<double> &leaf) const {
    std::vector<double> after(nodes, 0);
    for (int stage = 0; stage < model.stages; ++stage)
      after[node(Phase::BackwardWeight, stage)] = leaf[stage];
    for (size_t i = order.size(); i-- > 0;)
      for (auto [to, delay] : outgoing[order[i]])
        after[order[i]] =
            std::max(after[order[i]], delay + time(to) + after[to]);
    return after;
  }
  /// The longest path from the start of F of `stage` to the end of its W.
  double roundTrip(int stage) const {
    std::vector<double> at(nodes, -1);
    size_t first = node(Phase::Forward, stage);
    at[first] = 0;
    for (size_t from : order)
      for (auto [to, delay] : outgoing[from])
        if (at[from] >= 0)
          at[to] = std::max(at[to], at[from] + time(from) + delay);
    size_t last = node(Phase::BackwardWeight, stage);
    return at[last] + time(last);
  }

private:
  struct Edge {
    size_t to;
    double delay;
  };
  double time(size_t node) const {
    return model.duration[node / model.stages][node % model.stages];
  }

  const PipelineModel &model;
  size_t nodes;
  std::vector<std::vector<Edge>> outgoing;
  std::vector<int> pending;
  std::vector<size_t> order;
};

} // namespace

static double makespanBound(const PipelineModel &model, const Paths &paths) {
  double bound = 0;
  std::vector<double> heads = paths.heads(), tails = paths.tails(model.update);
  double m = model.microbatches;
  for (const std::vector<int> &stages : model.stagesOfRank) {
    double head = std::numeric_limits<double>::infinity(), tail = head;
    double all = 0, withoutWeights = 0, updates = 0;
    for (size_t i = stages.size(); i-- > 0;) {
      int stage = stages[i];
      double work = model.time(Phase::Forward, stage) +
                    model.time(Phase::BackwardInput, stage);
      withoutWeights += m * work;
      all += m * (work + model.time(Phase::BackwardWeight, stage));
      updates += model.update[stage];
      head = std::min(head, heads[paths.node(Phase::Forward, stage)]);
      tail = std::min(tail, tails[paths.node(Phase::BackwardInput, stage)]);
      bound =
          std::max({bound, head + all + updates, head + withoutWeights + tail});
    }
  }
  return bound;
}

static double spanBound(const PipelineModel &model, const Paths &paths) {
  double bound = 0;
  for (const std::vector<int> &stages : model.stagesOfRank) {
    double work = 0, updates = 0;
    for (size_t i = stages.size(); i-- > 0;) {
      int stage = stages[i];
      work += model.microbatches * (model.time(Phase::Forward, stage) +
                                    model.time(Phase::BackwardInput, stage) +
                                    model.time(Phase::BackwardWeight, stage));
      updates += model.update[stage];
      bound = std::max(bound, paths.roundTrip(stage) + model.update[stage]);
    }
    bound = std::max(bound, work + updates);
  }
  return bound;
}

LowerBounds pp::planner::lowerBounds(const PipelineModel &model) {
  Paths paths(model);
  if (!paths.complete())
    return {};
  return {makespanBound(model, paths), spanBound(model, paths)};
}

/// A micro-batch takes the way through its replicas, which Paths does not know.
static LowerBounds workBounds(const Schedule &schedule,
                              const SimulationInput &input) {
  std::vector<double> work(schedule.ranks.size(), 0);
  bool training = schedule.isTraining();
  for (int stage = 0; stage < schedule.stages; ++stage) {
    const StageTimes &times =
        input.stages[input.stages.size() == 1 ? 0 : stage];
    Replica replica = schedule.replicaOf(stage);
    int own = (schedule.microbatches - replica.number + replica.count - 1) /
              replica.count;
    double &rank = work[schedule.rankOfStage[stage]];
    rank += own * times.forward;
    if (training)
      rank += own * (times.backwardInput + times.backwardWeight) + times.update;
  }
  double most = work.empty() ? 0 : *std::max_element(work.begin(), work.end());
  return {most, most};
}

/// Without backward passes and updates if the schedule does not train.
static PipelineModel modelOf(const Schedule &schedule,
                             const SimulationInput &input) {
  PipelineModel model = buildModel(schedule, input);
  if (!schedule.isTraining())
    for (int stage = 0; stage < model.stages; ++stage)
      model.duration[1][stage] = model.duration[2][stage] =
          model.update[stage] = 0;
  return model;
}

LowerBounds pp::planner::lowerBounds(const Schedule &schedule,
                                     const SimulationInput &input) {
  if (!schedule.replicas.empty())
    return workBounds(schedule, input);
  return lowerBounds(modelOf(schedule, input));
}

double pp::planner::makespanLowerBound(const Schedule &schedule,
                                       const SimulationInput &input) {
  if (!schedule.replicas.empty())
    return workBounds(schedule, input).makespan;
  PipelineModel model = modelOf(schedule, input);
  Paths paths(model);
  return paths.complete() ? makespanBound(model, paths) : 0;
}
