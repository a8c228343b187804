//===- GreedyOrder.cpp - An order of F and I by list scheduling -----------===//
#include "GreedyOrder.h"
#include <algorithm>
#include <deque>
#include <functional>
#include <limits>
#include <queue>

using namespace pp::planner;

namespace {

class ListScheduler {
public:
  ListScheduler(const PipelineModel &model, const GreedyRule &rule)
      : model(model), rule(rule), ranks(model.ranks()), order(model.ranks()),
        next(model.stages) {
    for (std::vector<double> &times : endAt)
      times.assign(model.index(model.stages, 0), never);
    reserve.assign(model.stages, 0);
    for (int rank = 0; rank < model.ranks(); ++rank) {
      int64_t room = model.leastCapacity(rank);
      for (int stage : model.stagesOfRank[rank]) {
        room -= model.forwardBytes[stage];
        reserve[stage] = room;
      }
    }
  }

  StageOrder run() {
    for (int rank = 0; rank < model.ranks(); ++rank)
      events.push({0, rank});
    while (!events.empty()) {
      auto [now, rank] = events.top();
      events.pop();
      if (now >= ranks[rank].freeAt)
        decide(rank, now);
    }
    return std::move(order);
  }

private:
  using Event = std::pair<double, int>; // Time, rank.
  struct Rank {
    double freeAt = 0;
    int64_t bytes = 0;
    std::deque<int> weights; // Stages whose I has run.
  };
  struct Choice {
    int stage = -1;
    Phase phase = Phase::Forward;
    double ready = std::numeric_limits<double>::infinity();
  };

  double ready(Phase phase, int stage, int microbatch) const {
    return model.ready(endAt, phase, stage, microbatch);
  }

  bool admits(int number, Phase phase, int stage) const {
    const Rank &rank = ranks[number];
    if (phase == Phase::BackwardInput)
      return rank.bytes + model.growth(phase, stage) <= model.capacity[number];
    if (stage == model.stagesOfRank[number].front() &&
        next[stage][0] - next[stage][1] >= rule.inFlight[number])
      return false;
    return rank.bytes <=
           model.capacity[number] - model.forwardBytes[stage] - reserve[stage];
  }

  /// The F or I to run now, or the first to become ready as far as is known.
  Choice choose(int number, double now) const {
    const std::vector<int> &stages = model.stagesOfRank[number];
    Choice best;
    auto offer = [&](Phase phase, int stage) {
      int microbatch = next[stage][static_cast<size_t>(phase)];
      if (microbatch >= model.microbatches ||
          (phase == Phase::BackwardInput && microbatch >= next[stage][0]) ||
          !admits(number, phase, stage))
        return;
      double at = ready(phase, stage, microbatch);
      if (at >= 0 && std::max(at, now) < best.ready)
        best = {stage, phase, std::max(at, now)};
    };
    // The first offer wins among those that can start at once.
    auto offerForwards = [&] {
      for (size_t i = 0; i < stages.size(); ++i)
        offer(Phase::Forward,
              rule.deepFirst ? stages[stages.size() - 1 - i] : stages[i]);
    };
    if (rule.forwardFirst)
      offerForwards();
    for (int stage : stages)
      offer(Phase::BackwardInput, stage);
    if (!rule.forwardFirst)
      offerForwards();
    if (best.phase != Phase::Forward || best.stage < 0 || rule.patience == 0)
      return best;
    Choice forward = best;
    best = {};
    for (int stage : stages)
      offer(Phase::BackwardInput, stage);
    double latest = forward.ready +
                    rule.patience * model.time(Phase::Forward, forward.stage);
    return best.ready <= latest ? best : forward;
  }

  void decide(int number, double now) {
    Rank &rank = ranks[number];
    Choice choice = choose(number, now);
    if (choice.ready > now && !rank.weights.empty()) {
      int stage = rank.weights.front();
      double time = model.time(Phase::BackwardWeight, stage);
      double at = ready(Phase::BackwardWeight, stage, next[stage][2]);
      if (at >= 0 && at <= now &&
          now + time <= choice.ready + rule.overrun * time + 1e-9 * now) {
        rank.weights.pop_front();
        perform(number, Phase::BackwardWeight, stage, now);
        return;
      }
      if (at > now)
        events.push({at, number});
    }
    if (choice.stage < 0)
      return;
    if (choice.ready > now) {
      events.push({choice.ready, number});
      return;
    }
    order[number].push_back({choice.stage, choice.phase});
    if (choice.phase == Phase::BackwardInput)
      rank.weights.push_back(choice.stage);
    perform(number, choice.phase, choice.stage, now);
  }

  void perform(int number, Phase phase, int stage, double now) {
    Rank &rank = ranks[number];
    int microbatch = next[stage][static_cast<size_t>(phase)]++;
    double end = now + model.time(phase, stage);
    endAt[static_cast<size_t>(phase)][model.index(stage, microbatch)] = end;
    rank.bytes += model.growth(phase, stage);
    rank.freeAt = end;
    events.push({end, number});
    // A reader looks again now, since it may plan with the arrival.
    for (int reader : model.readers[number])
      events.push({std::max(now, ranks[reader].freeAt), reader});
  }

  const PipelineModel &model;
  const GreedyRule &rule;
  std::vector<Rank> ranks;
  StageOrder order;
  PipelineModel::EndTimes endAt;
  std::vector<std::array<int, phaseCount>> next;
  std::vector<int64_t> reserve; // By stage.
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events;
};

} // namespace

StageOrder pp::planner::greedyOrder(const PipelineModel &model,
                                    const GreedyRule &rule) {
  return ListScheduler(model, rule).run();
}
