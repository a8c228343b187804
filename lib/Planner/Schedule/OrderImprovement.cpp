//===- OrderImprovement.cpp - Better orders by small changes --------------===//
#include "OrderImprovement.h"
#include <algorithm>
#include <cmath>
#include <random>

using namespace pp::planner;

bool OrderJudge::Score::operator<(const Score &other) const {
  double noise = 1e-9 * std::abs(other.objective);
  if (std::abs(objective - other.objective) > noise)
    return objective < other.objective;
  return tie < other.tie * (1 - 1e-9);
}

OrderJudge::Score OrderJudge::score(const DecodedOrder &decoded) const {
  // Equal objectives: the sum over the ranks says which is nearer to better.
  double tie = 0;
  for (const std::vector<TimedStageAction> &rank : decoded.ranks)
    tie += rank.back().end -
           (objective == SearchObjective::Span ? rank.front().start : 0);
  return {objective == SearchObjective::Span ? decoded.span : decoded.makespan,
          tie};
}

namespace {

/// A place in an order.
struct Place {
  int rank;
  size_t position;
};

/// Walks back from the last action through what each had to wait for.
class CriticalPath {
public:
  CriticalPath(const PipelineModel &model, const DecodedOrder &decoded,
               bool listed)
      : model(model), decoded(decoded), listed(listed) {
    for (std::vector<size_t> &positions : at)
      positions.assign(model.index(model.stages, 0), 0);
    for (const std::vector<TimedStageAction> &rank : decoded.ranks) {
      std::vector<size_t> &positions = withoutWeights.emplace_back();
      size_t count = 0;
      for (size_t i = 0; i < rank.size(); ++i) {
        const TimedStageAction &timed = rank[i];
        at[static_cast<size_t>(timed.action.phase)]
          [model.index(timed.action.stage, timed.microbatch)] = i;
        positions.push_back(count);
        count += listed || timed.action.phase != Phase::BackwardWeight;
      }
    }
  }

  /// The actions on the path that the order has, as places in it.
  std::vector<Place> trace(int rank) const {
    std::vector<Place> path;
    size_t i = decoded.ranks[rank].size() - 1;
    while (true) {
      const TimedStageAction &timed = decoded.ranks[rank][i];
      if (listed || timed.action.phase != Phase::BackwardWeight)
        path.push_back({rank, withoutWeights[rank][i]});
      // Waiting for a value: go where it was made.
      const PipelineModel::Edge *latest = nullptr;
      for (const PipelineModel::Edge &edge :
           model.inputs(timed.action.phase, timed.action.stage))
        if (model.rankOfStage[edge.stage] != rank &&
            maker(edge, timed.microbatch).end + edge.delay >= timed.start)
          latest = &edge;
      bool waited = i == 0 || decoded.ranks[rank][i - 1].end < timed.start;
      if (waited && latest) {
        i = at[static_cast<size_t>(latest->phase)]
              [model.index(latest->stage, timed.microbatch)];
        rank = model.rankOfStage[latest->stage];
      } else if (i-- == 0) {
        return path;
      }
    }
  }

private:
  const TimedStageAction &maker(const PipelineModel::Edge &edge,
                                int microbatch) const {
    size_t i = at[static_cast<size_t>(edge.phase)]
                 [model.index(edge.stage, microbatch)];
    return decoded.ranks[model.rankOfStage[edge.stage]][i];
  }

  const PipelineModel &model;
  const DecodedOrder &decoded;
  bool listed;
  std::array<std::vector<size_t>, phaseCount> at;
  std::vector<std::vector<size_t>> withoutWeights;
};

int criticalRank(const OrderJudge &judge, const DecodedOrder &decoded) {
  int critical = 0;
  double most = -1;
  for (size_t rank = 0; rank < decoded.ranks.size(); ++rank) {
    const std::vector<TimedStageAction> &list = decoded.ranks[rank];
    double time = list.back().end;
    for (int stage : judge.model.stagesOfRank[rank])
      time += judge.model.update[stage];
    if (judge.objective == SearchObjective::Span)
      time -= list.front().start;
    if (time > most) {
      most = time;
      critical = static_cast<int>(rank);
    }
  }
  return critical;
}

} // namespace

/// Moves an action of a list; others close up.
static void move(std::vector<StageAction> &list, size_t from, size_t to) {
  auto begin = list.begin();
  if (from < to)
    std::rotate(begin + from, begin + from + 1, begin + to + 1);
  else
    std::rotate(begin + to, begin + from, begin + from + 1);
}

void pp::planner::improveOrder(OrderJudge &judge, JudgedOrder &best,
                               size_t farthest, int reserve) {
  OrderJudge::Score score = judge.score(best.decoded);
  /// True if the move helps; undone if not.
  auto accept = [&](int rank, size_t from, size_t to) {
    std::vector<StageAction> &list = best.order[rank];
    move(list, from, to);
    DecodedOrder decoded = judge.decode(best.order, best.rule);
    if (decoded.feasible && judge.score(decoded) < score) {
      score = judge.score(decoded);
      best.decoded = std::move(decoded);
      return true;
    }
    move(list, to, from);
    return false;
  };
  bool improved = true;
  while (improved) {
    improved = false;
    std::vector<Place> path =
        CriticalPath(judge.model, best.decoded, best.rule.listed)
            .trace(criticalRank(judge, best.decoded));
    for (auto [rank, position] : path) {
      const std::vector<StageAction> &list = best.order[rank];
      // Earlier itself, or what is in its way later.
      for (size_t distance = 1; distance <= farthest && !improved; ++distance) {
        if (judge.remaining() <= reserve)
          return;
        if (position >= distance && list[position - distance] != list[position])
          improved = accept(rank, position, position - distance);
        if (!improved && position + distance < list.size() &&
            list[position + distance] != list[position])
          improved = accept(rank, position, position + distance);
        if (!improved && position > 0 &&
            position - 1 + distance < list.size() && distance > 1)
          improved = accept(rank, position - 1, position - 1 + distance);
      }
      if (improved)
        break;
    }
  }
}

void pp::planner::wanderFrom(OrderJudge &judge, JudgedOrder &best,
                             int reserve) {
  // The same numbers each time and on every platform.
  std::mt19937 random(1); // NOLINT(bugprone-random-generator-seed)
  auto below = [&](size_t limit) { return random() % limit; };
  // The objective of the worst rank alone says too little of the direction.
  auto energy = [&](const DecodedOrder &decoded) {
    OrderJudge::Score score = judge.score(decoded);
    return score.objective +
           .1 * score.tie / static_cast<double>(decoded.ranks.size());
  };
  JudgedOrder current = best;
  double at = energy(current.decoded);
  const double all = judge.remaining() - reserve;
  double shortest = at;
  for (const std::vector<double> &times : judge.model.duration)
    for (double time : times)
      if (time > 0)
        shortest = std::min(shortest, time);
  std::vector<Place> path;
  for (int rejected = 0; judge.remaining() > reserve;) {
    if (path.empty())
      path = CriticalPath(judge.model, current.decoded, current.rule.listed)
                 .trace(criticalRank(judge, current.decoded));
    auto [rank, position] = path[below(path.size())];
    std::vector<StageAction> &list = current.order[rank];
    size_t distance = 1 + below(5), from = position, to = 0;
    // Earlier, later, or the one before out of the way.
    size_t kind = below(3);
    if (kind == 2)
      from -= from > 0;
    to = kind == 0 ? from - std::min(from, distance)
                   : std::min(from + distance, list.size() - 1);
    double left = (judge.remaining() - reserve) / all;
    if (from == to || list[from] == list[to]) {
      // A list of equal actions must not hold the loop.
      if (++rejected > 1000)
        return;
      continue;
    }
    move(list, from, to);
    DecodedOrder decoded = judge.decode(current.order, current.rule);
    double there = decoded.feasible ? energy(decoded) : at;
    if (!decoded.feasible || there > at + .25 * left * left * shortest) {
      move(list, to, from);
      continue;
    }
    rejected = 0;
    path.clear();
    at = there;
    current.decoded = std::move(decoded);
    if (judge.score(current.decoded) < judge.score(best.decoded))
      best = current;
  }
}
