//===- OrderDecoder.cpp - Put weight gradients into an order of F and I ---===//
#include "OrderDecoder.h"
#include "RankQueue.h"
#include <algorithm>
#include <deque>

using namespace pp::planner;

StageOrder pp::planner::orderOf(const Schedule &schedule) {
  StageOrder order;
  for (const std::vector<Action> &rank : schedule.ranks) {
    std::vector<StageAction> &list = order.emplace_back();
    for (const Action &action : rank)
      for (Phase phase : {Phase::Forward, Phase::BackwardInput})
        if (action.performs(phase))
          list.push_back({action.stage, phase});
  }
  return order;
}

namespace {

class Decoder {
public:
  Decoder(const PipelineModel &model, const StageOrder &order,
          const DecodeRule &rule)
      : model(model), order(order), rule(rule), ranks(model.ranks()) {
    for (std::vector<double> &times : endAt)
      times.assign(model.index(model.stages, 0), never);
    next.assign(model.stages, {});
    result.ranks.resize(ranks.size());
    for (size_t rank = 0; rank < ranks.size(); ++rank)
      result.ranks[rank].reserve(order[rank].size() * 3 / 2);
    result.peak.assign(ranks.size(), 0);
    result.heldWeights.assign(ranks.size(), 0);
  }

  DecodedOrder run() {
    RankQueue work(ranks.size());
    while (!work.empty()) {
      int rank = work.pop();
      bool moved = false;
      while (step(rank))
        moved = true;
      if (moved)
        work.push(model.readers[rank]);
    }
    finish();
    return std::move(result);
  }

private:
  struct Rank {
    size_t position = 0;
    double clock = 0;
    int64_t bytes = 0;
    std::deque<int> weights; // Stages whose I has run, in that order.
  };

  double ready(Phase phase, int stage, int microbatch) const {
    return model.ready(endAt, phase, stage, microbatch);
  }

  void perform(int number, Phase phase, int stage, double at) {
    Rank &rank = ranks[number];
    int microbatch = next[stage][static_cast<size_t>(phase)]++;
    double start = std::max(rank.clock, at);
    rank.clock = start + model.time(phase, stage);
    endAt[static_cast<size_t>(phase)][model.index(stage, microbatch)] =
        rank.clock;
    rank.bytes += model.growth(phase, stage);
    result.peak[number] = std::max(result.peak[number], rank.bytes);
    result.ranks[number].push_back(
        {{stage, phase}, microbatch, start, rank.clock});
  }

  /// Runs the oldest W that starts until `latest`; false if there is none.
  bool performWeight(int number, double latest) {
    Rank &rank = ranks[number];
    if (rank.weights.empty())
      return false;
    int stage = rank.weights.front();
    double at = ready(Phase::BackwardWeight, stage, next[stage][2]);
    if (at < 0 || std::max(at, rank.clock) > latest)
      return false;
    rank.weights.pop_front();
    perform(number, Phase::BackwardWeight, stage, at);
    return true;
  }

  bool step(int number) {
    Rank &rank = ranks[number];
    constexpr double whenever = 1e300;
    if (!rule.heldWeights.empty() &&
        static_cast<int>(rank.weights.size()) > rule.heldWeights[number] &&
        performWeight(number, whenever))
      return true;
    if (rank.position == order[number].size())
      return performWeight(number, whenever);
    auto [stage, phase] = order[number][rank.position];
    int microbatch = next[stage][static_cast<size_t>(phase)];
    if (microbatch >= model.microbatches)
      return false;
    double at = ready(phase, stage, microbatch);
    if (at < 0 || (phase != Phase::Forward &&
                   microbatch >= next[stage][static_cast<size_t>(phase) - 1]))
      return false;
    if (rank.bytes + model.growth(phase, stage) > model.capacity[number])
      return performWeight(number, whenever);
    if (at > rank.clock && !rank.weights.empty()) {
      double time = model.time(Phase::BackwardWeight, rank.weights.front());
      // Sums of the same numbers in another order must not miss a fit.
      double slack = rule.overrun * time + 1e-9 * at;
      if (performWeight(number, at - time + slack))
        return true;
    }
    result.heldWeights[number] = std::max(
        result.heldWeights[number], static_cast<int>(rank.weights.size()));
    perform(number, phase, stage, at);
    if (phase == Phase::BackwardInput && !rule.listed)
      rank.weights.push_back(stage);
    ++rank.position;
    return true;
  }

  void finish() {
    size_t cells = 0;
    for (size_t number = 0; number < ranks.size(); ++number) {
      double end = ranks[number].clock;
      for (int stage : model.stagesOfRank[number])
        end += model.update[stage];
      const std::vector<TimedStageAction> &list = result.ranks[number];
      cells += list.size();
      result.makespan = std::max(result.makespan, end);
      if (!list.empty())
        result.span = std::max(result.span, end - list.front().start);
    }
    result.feasible = cells == phaseCount * model.index(model.stages, 0);
  }

  const PipelineModel &model;
  const StageOrder &order;
  const DecodeRule &rule;
  std::vector<Rank> ranks;
  PipelineModel::EndTimes endAt;
  std::vector<std::array<int, phaseCount>> next; // By stage: micro-batch.
  DecodedOrder result;
};

} // namespace

DecodedOrder pp::planner::decodeOrder(const PipelineModel &model,
                                      const StageOrder &order,
                                      const DecodeRule &rule) {
  return Decoder(model, order, rule).run();
}

StageOrder DecodedOrder::order() const {
  StageOrder order;
  for (const std::vector<TimedStageAction> &rank : ranks) {
    std::vector<StageAction> &list = order.emplace_back();
    for (const TimedStageAction &timed : rank)
      list.push_back(timed.action);
  }
  return order;
}

std::vector<std::vector<Action>>
DecodedOrder::actions(const PipelineModel &model) const {
  constexpr ActionKind kinds[] = {ActionKind::Forward,
                                  ActionKind::BackwardInput,
                                  ActionKind::BackwardWeight};
  std::vector<std::vector<Action>> lists;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    std::vector<Action> &list = lists.emplace_back();
    for (const TimedStageAction &timed : ranks[rank])
      list.push_back({kinds[static_cast<size_t>(timed.action.phase)],
                      timed.action.stage, timed.microbatch});
    for (int stage : model.stagesOfRank[rank])
      list.push_back({ActionKind::Update, stage});
  }
  return lists;
}
