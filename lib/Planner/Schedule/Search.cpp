//===- Search.cpp - Find a schedule for given times and memory ------------===//
#include "pp/Planner/Schedule/Search.h"
#include "GreedyOrder.h"
#include "OrderImprovement.h"
#include <algorithm>
#include <optional>
#include <tuple>

using namespace pp::planner;

static constexpr double overruns[] = {0, .25, .5, 1};

/// Decodings times actions: a few seconds.
static constexpr int64_t mostActions = 60'000'000;

namespace {

/// Makes an order longer by `more` micro-batches: in each list, the actions
/// from one I to the next, as near to the middle as possible, are repeated.
/// They must have as many F as I (and W, if the order has them) of each stage;
/// nothing if a list has no such actions.
std::optional<StageOrder> repeatSteadyState(const PipelineModel &model,
                                            const StageOrder &order, int more) {
  StageOrder longer;
  for (size_t rank = 0; rank < order.size(); ++rank) {
    const std::vector<StageAction> &list = order[rank];
    const std::vector<int> &stages = model.stagesOfRank[rank];
    std::vector<size_t> starts;
    for (size_t i = 0; i < list.size(); ++i)
      if (list[i] == StageAction{stages.front(), Phase::BackwardInput})
        starts.push_back(i);
    auto isSteady = [&](size_t first, size_t last) {
      for (int stage : stages)
        for (Phase phase :
             {Phase::Forward, Phase::BackwardInput, Phase::BackwardWeight}) {
          const StageAction action{stage, phase};
          auto count =
              std::count(list.begin() + first, list.begin() + last, action);
          if (count != 1 && std::count(list.begin(), list.end(), action) > 0)
            return false;
        }
      return true;
    };
    size_t middle = starts.size() / 2, from = 0, to = 0;
    for (size_t i = 0; i < starts.size() && to == 0; ++i) {
      size_t k = i % 2 ? middle - (i + 1) / 2 : middle + i / 2;
      if (k + 1 < starts.size() && isSteady(starts[k], starts[k + 1])) {
        from = starts[k];
        to = starts[k + 1];
      }
    }
    if (to == 0)
      return std::nullopt;
    std::vector<StageAction> &all =
        longer.emplace_back(list.begin(), list.begin() + to);
    for (int i = 0; i < more; ++i)
      all.insert(all.end(), list.begin() + from, list.begin() + to);
    all.insert(all.end(), list.begin() + to, list.end());
  }
  return longer;
}

class Search {
public:
  explicit Search(const SearchProblem &problem,
                  int64_t mostActions = ::mostActions)
      : problem(problem), mostActions(mostActions) {}

  Result<SearchResult> run() {
    if (std::optional<std::string> fault = prepare())
      return Failure{*fault};
    LowerBounds bounds = lowerBounds(model);
    bool span = problem.objective == SearchObjective::Span;
    double bound = span ? bounds.span : bounds.makespan;
    auto optimal = [&](double value) { return value <= bound * (1 + 1e-9); };
    tryNamed();
    bool done = result && optimal(span ? result->span : result->makespan);
    if (!done)
      repeatShorter();
    OrderJudge judge(model, problem.objective, budget());
    addRepeated(judge);
    findOrders(judge);
    keepBest(judge, 8);
    // Half of the budget for the best starts, half for what is best then.
    size_t kept = orders.size();
    int half = judge.remaining() / 2;
    for (size_t i = 0; i < 2 * kept && !done; ++i) {
      JudgedOrder order = orders[i / 2];
      int share = (judge.remaining() - half) / static_cast<int>(2 * kept - i);
      int reserve = judge.remaining() - share;
      improve(judge, order, i % 2 == 0, reserve + share / 2);
      if (!paced || judge.score(order.decoded) < judge.score(paced->decoded))
        paced = order;
      placeWeights(judge, order, reserve);
      if (!best || judge.score(order.decoded) < judge.score(best->decoded))
        best = std::move(order);
      done = optimal(judge.score(best->decoded).objective);
    }
    if (best) {
      if (!done)
        wanderFrom(judge, *best, 0);
      offer(*best);
    }
    if (!result)
      return Failure{"no order of the stages' actions completes; are the "
                     "channels of the problem in a circle?"};
    result->lowerBound = bound;
    result->peak =
        peakBytes(result->schedule, problem.forwardBytes, problem.weightBytes);
    return std::move(*result);
  }

private:
  std::optional<std::string> prepare() {
    PipelineShape shape = problem.shape;
    int ranks = shape.rankCount();
    if (shape.stages < 1 || shape.microbatches < 1 || ranks < 1 ||
        int64_t(shape.stages) * shape.microbatches > 10'000'000)
      return "a schedule cannot be searched for " +
             std::to_string(shape.stages) + " stages, " +
             std::to_string(shape.microbatches) + " micro-batches and " +
             std::to_string(ranks) + " ranks";
    pipeline.stages = shape.stages;
    pipeline.microbatches = shape.microbatches;
    pipeline.rankOfStage = problem.rankOfStage;
    if (problem.rankOfStage.empty())
      for (int stage = 0; stage < shape.stages; ++stage)
        pipeline.rankOfStage.push_back(stage % ranks);
    if (auto fault = checkRanks(ranks))
      return fault;
    pipeline.channels = problem.channels.empty()
                            ? neighborChannels(shape.stages, true)
                            : problem.channels;
    if (auto fault = checkSizes(ranks))
      return fault;
    model = buildModel(pipeline, problem.times);
    auto fill = [](std::vector<int64_t> &to, const std::vector<int64_t> &from) {
      for (size_t i = 0; i < to.size() && !from.empty(); ++i)
        to[i] = from[from.size() == 1 ? 0 : i];
    };
    fill(model.forwardBytes, problem.forwardBytes);
    fill(model.weightBytes, problem.weightBytes);
    fill(model.capacity, problem.capacity);
    for (int rank = 0; rank < ranks; ++rank)
      if (model.leastCapacity(rank) > model.capacity[rank])
        return "rank " + std::to_string(rank) + " may keep " +
               std::to_string(model.capacity[rank]) +
               " bytes, but one micro-batch needs " +
               std::to_string(model.leastCapacity(rank)) +
               "; recompute, or put fewer layers on it";
    if (!problem.splitBackward)
      fuseBackward();
    return std::nullopt;
  }

  std::optional<std::string> checkRanks(int ranks) const {
    if (pipeline.rankOfStage.size() != static_cast<size_t>(pipeline.stages))
      return "there are ranks for " +
             std::to_string(pipeline.rankOfStage.size()) + " stages, not " +
             std::to_string(pipeline.stages);
    std::vector<bool> used(ranks, false);
    for (int rank : pipeline.rankOfStage) {
      if (rank < 0 || rank >= ranks)
        return "a stage is on rank " + std::to_string(rank) +
               ", which does not exist";
      used[rank] = true;
    }
    for (int rank = 0; rank < ranks; ++rank)
      if (!used[rank])
        return "rank " + std::to_string(rank) + " has no stage";
    return std::nullopt;
  }

  std::optional<std::string> checkSizes(int ranks) const {
    for (const Channel &channel : pipeline.channels)
      if (channel.from < 0 || channel.to < 0 ||
          channel.from >= pipeline.stages || channel.to >= pipeline.stages)
        return "channel '" + channel.name + "' does not connect two stages";
    auto check = [](size_t entries, size_t number, bool none,
                    const std::string &what) -> std::optional<std::string> {
      if (entries == 1 || entries == number || (none && entries == 0))
        return std::nullopt;
      return what + ": there are " + std::to_string(entries) +
             " entries, not " + std::to_string(number);
    };
    size_t stages = pipeline.stages;
    for (auto fault :
         {check(problem.times.stages.size(), stages, false, "times of stages"),
          check(problem.times.transfers.size(), pipeline.channels.size(), true,
                "times of channels"),
          check(problem.forwardBytes.size(), stages, true, "bytes from F to I"),
          check(problem.weightBytes.size(), stages, true, "bytes from I to W"),
          check(problem.capacity.size(), ranks, true, "bytes of ranks")})
      if (fault)
        return fault;
    for (const std::vector<int64_t> *bytes :
         {&problem.forwardBytes, &problem.weightBytes})
      for (int64_t count : *bytes)
        if (count < 0 || count > int64_t(1) << 50)
          return "a stage keeps " + std::to_string(count) + " bytes";
    for (const StageTimes &times : problem.times.stages)
      for (double time : {times.forward, times.backwardInput,
                          times.backwardWeight, times.update})
        if (!(time >= 0 && time < 1e100))
          return "a stage takes " + std::to_string(time) + " seconds";
    for (double time : problem.times.transfers)
      if (!(time >= 0 && time < 1e100))
        return "a transfer takes " + std::to_string(time) + " seconds";
    return std::nullopt;
  }

  /// B is an I that takes the time of both, and a W that takes none. What a B
  /// adds to the bytes while it runs is left free.
  void fuseBackward() {
    for (int rank = 0; rank < model.ranks(); ++rank) {
      int64_t excess = 0;
      for (int stage : model.stagesOfRank[rank])
        excess = std::max(excess,
                          model.weightBytes[stage] - model.forwardBytes[stage]);
      if (!problem.capacity.empty())
        model.capacity[rank] -= excess;
    }
    for (int stage = 0; stage < model.stages; ++stage) {
      model.duration[1][stage] += model.duration[2][stage];
      model.duration[2][stage] = 0;
      model.weightBytes[stage] = 0;
    }
  }

  int budget() const {
    int64_t actions = int64_t(phaseCount) * pipeline.stages *
                      std::max(pipeline.microbatches, 1);
    return static_cast<int>(std::clamp<int64_t>(
        mostActions / actions, 100, std::max(problem.simulations, 100)));
  }

  void offer(const Schedule &schedule, const std::string &origin) {
    Schedule complete = schedule;
    complete.channels = pipeline.channels;
    SimulationInput input = problem.times;
    input.sends = {SendRule::Kind::Unbounded, {}, nullptr};
    Result<Simulation> simulation = simulate(complete, input);
    if (!simulation)
      return;
    bool span = problem.objective == SearchObjective::Span;
    double value = span ? simulation->span : simulation->makespan;
    if (result && value >= (span ? result->span : result->makespan))
      return;
    result.emplace();
    result->schedule = schedule;
    result->origin = origin;
    result->makespan = simulation->makespan;
    result->span = simulation->span;
  }

  void offer(const JudgedOrder &order) {
    Schedule schedule = pipeline;
    schedule.channels.clear();
    schedule.ranks = order.decoded.actions(model);
    if (!problem.splitBackward)
      for (std::vector<Action> &rank : schedule.ranks) {
        std::erase_if(rank, [](const Action &action) {
          return action.kind == ActionKind::BackwardWeight;
        });
        for (Action &action : rank)
          if (action.kind == ActionKind::BackwardInput)
            action.kind = ActionKind::Backward;
      }
    offer(schedule, order.origin);
  }

  bool fits(const Schedule &schedule) const {
    std::vector<int64_t> peaks =
        peakBytes(schedule, problem.forwardBytes, problem.weightBytes);
    for (size_t rank = 0; rank < peaks.size(); ++rank)
      if (!problem.capacity.empty() &&
          peaks[rank] >
              problem.capacity[problem.capacity.size() == 1 ? 0 : rank])
        return false;
    return true;
  }

  void tryNamed() {
    for (std::string_view name : trainingScheduleNames()) {
      Result<Schedule> schedule = makeSchedule(name, problem.shape);
      if (!schedule || schedule->rankOfStage != pipeline.rankOfStage)
        continue;
      bool split = false;
      for (const std::vector<Action> &rank : schedule->ranks)
        for (const Action &action : rank)
          split |= action.kind == ActionKind::BackwardInput;
      if ((problem.splitBackward || !split) && fits(*schedule))
        offer(*schedule, std::string(name));
      // As an order it may fit although the schedule does not, and fit the
      // times better.
      starts.push_back({std::string(name) + ", improved", orderOf(*schedule)});
    }
  }

  void addOrder(OrderJudge &judge, const std::string &origin,
                const StageOrder &order) {
    // Weights may wait as in no schedule, as in ZB-H1, or not at all.
    int p = model.ranks();
    std::vector<std::vector<int>> holds = {std::vector<int>(p, 0)};
    if (problem.splitBackward) {
      holds.emplace_back();
      std::vector<int> &byRank = holds.emplace_back();
      for (int rank = 0; rank < p; ++rank)
        byRank.push_back(rank);
    }
    for (const std::vector<int> &held : holds) {
      std::optional<JudgedOrder> best;
      for (double overrun : overruns) {
        DecodeRule rule{overrun, held};
        DecodedOrder decoded = judge.decode(order, rule);
        if (decoded.feasible &&
            (!best || judge.score(decoded) < judge.score(best->decoded)))
          best = {order, rule, std::move(decoded), origin};
      }
      if (best)
        orders.push_back(std::move(*best));
    }
  }

  void findOrders(OrderJudge &judge) {
    for (const auto &[origin, order] : starts)
      addOrder(judge, origin, order);
    if (oneStagePerRank())
      for (double part : {0., .25, .5, .75, 1., 1.25})
        addOrder(judge, "warm-up of a round trip, improved",
                 warmupOrder(roundTripWarmup(part)));
    for (bool forwardFirst : {false, true})
      for (bool deepFirst : {true, false})
        for (double patience : {0., .1, .3, .6}) {
          if ((oneStagePerRank() && !deepFirst) ||
              (forwardFirst && patience > 0))
            continue;
          for (int limit : {pipeline.microbatches, 2 * model.ranks(),
                            (3 * model.ranks() + 1) / 2, model.ranks()}) {
            GreedyRule rule;
            rule.inFlight.assign(model.ranks(), std::max(limit, 1));
            rule.deepFirst = deepFirst;
            rule.forwardFirst = forwardFirst;
            rule.patience = patience;
            for (double overrun : {0., .5, 1.}) {
              rule.overrun = overrun;
              // Half of the budget is for improvement.
              if (judge.remaining() > budget() / 2)
                addOrder(judge, "list scheduling, improved",
                         greedyOrder(model, rule));
            }
          }
        }
  }

  /// The best `count` of the orders, best first; of those with equal times the
  /// first found.
  void keepBest(const OrderJudge &judge, size_t count) {
    std::vector<std::tuple<double, double, size_t>> ranking;
    for (size_t i = 0; i < orders.size(); ++i) {
      OrderJudge::Score score = judge.score(orders[i].decoded);
      ranking.push_back({score.objective, score.tie, i});
    }
    std::sort(ranking.begin(), ranking.end());
    std::vector<JudgedOrder> best;
    for (auto [objective, tie, i] : ranking) {
      if (best.size() == count)
        break;
      if (best.empty() ||
          best.back().decoded.makespan != orders[i].decoded.makespan ||
          best.back().decoded.span != orders[i].decoded.span)
        best.push_back(std::move(orders[i]));
    }
    orders = std::move(best);
  }

  /// With many micro-batches the budget allows few orders. What is best for as
  /// many as fill the pipeline thrice costs less to find, and is nearly best
  /// with more of them in its steady state.
  void repeatShorter() {
    int microbatches = 3 * model.ranks();
    if (int64_t(3) * pipeline.microbatches <= int64_t(4) * microbatches)
      return;
    SearchProblem shorter = problem;
    shorter.shape.microbatches = microbatches;
    mostActions /= 2;
    Search search(shorter, mostActions);
    if (!search.run())
      return;
    for (std::optional<JudgedOrder> *found : {&search.paced, &search.best}) {
      if (!*found)
        continue;
      auto order = repeatSteadyState(model, (*found)->order,
                                     pipeline.microbatches - microbatches);
      if (!order)
        continue;
      JudgedOrder &longer = repeated.emplace_back(std::move(**found));
      longer.order = std::move(*order);
    }
  }

  void addRepeated(OrderJudge &judge) {
    for (JudgedOrder &order : repeated) {
      order.decoded = judge.decode(order.order, order.rule);
      if (order.decoded.feasible)
        orders.push_back(std::move(order));
    }
  }

  bool oneStagePerRank() const { return model.ranks() == model.stages; }

  /// Per rank: F before the first I, then I and F in turn.
  StageOrder warmupOrder(const std::vector<int> &warmup) const {
    StageOrder order;
    int m = model.microbatches;
    for (int rank = 0; rank < model.ranks(); ++rank) {
      int stage = model.stagesOfRank[rank].front();
      std::vector<StageAction> &list = order.emplace_back();
      for (int i = 0; i < warmup[rank]; ++i)
        list.push_back({stage, Phase::Forward});
      for (int i = 0; i < m; ++i) {
        list.push_back({stage, Phase::BackwardInput});
        if (i + warmup[rank] < m)
          list.push_back({stage, Phase::Forward});
      }
    }
    return order;
  }

  int mostWarmup(int rank) const {
    int64_t bytes = model.forwardBytes[model.stagesOfRank[rank].front()];
    int64_t most = model.microbatches;
    if (bytes > 0)
      most = std::min(most, model.capacity[rank] / bytes);
    return static_cast<int>(std::max<int64_t>(most, 1));
  }

  /// F that fit into `part` of the time that micro-batch 0 is away.
  std::vector<int> roundTripWarmup(double part) const {
    Schedule timed = pipeline;
    std::vector<int> warmup(model.ranks(), 1);
    std::vector<std::pair<int, int>> byStage;
    double away = 0;
    for (int stage = model.stages - 1; stage >= 0; --stage) {
      int rank = model.rankOfStage[stage];
      double forward = model.time(Phase::Forward, stage);
      double ahead = forward > 0 ? part * away / forward : 0;
      warmup[rank] = std::clamp(1 + static_cast<int>(std::min(ahead, 1e6)), 1,
                                mostWarmup(rank));
      away += forward + model.time(Phase::BackwardInput, stage);
      for (Phase phase : {Phase::Forward, Phase::BackwardInput})
        for (const PipelineModel::Edge &edge : model.inputs(phase, stage))
          away += edge.delay;
    }
    return warmup;
  }

  /// The warm-ups of an order, if it is one of warmupOrder.
  std::optional<std::vector<int>> warmupOf(const StageOrder &order) const {
    std::vector<int> warmup;
    for (const std::vector<StageAction> &list : order) {
      size_t count = 0;
      while (count < list.size() && list[count].phase == Phase::Forward)
        ++count;
      warmup.push_back(static_cast<int>(count));
    }
    if (!oneStagePerRank() || warmupOrder(warmup) != order)
      return std::nullopt;
    return warmup;
  }

  /// Longer and shorter warm-ups, and more and fewer W held back, on ranks next
  /// to each other.
  void improvePace(OrderJudge &judge, JudgedOrder &best, int reserve) const {
    int p = model.ranks();
    std::optional<std::vector<int>> warmup = warmupOf(best.order);
    if (best.rule.heldWeights.empty())
      best.rule.heldWeights.assign(p, model.microbatches);
    OrderJudge::Score score = judge.score(best.decoded);
    auto accept = [&](StageOrder &&order, DecodeRule &&rule) {
      DecodedOrder decoded = judge.decode(order, rule);
      if (!decoded.feasible || !(judge.score(decoded) < score))
        return false;
      score = judge.score(decoded);
      best.order = std::move(order);
      best.rule = std::move(rule);
      best.decoded = std::move(decoded);
      return true;
    };
    bool improved = true;
    while (improved) {
      improved = false;
      for (int width = p; width >= 1; --width)
        for (int first = 0; first + width <= p; ++first)
          for (int change : {1, -1, 2, -2}) {
            if (judge.remaining() <= reserve)
              return;
            if (warmup) {
              std::vector<int> changed = *warmup;
              for (int rank = first; rank < first + width; ++rank)
                changed[rank] =
                    std::clamp(changed[rank] + change, 1, mostWarmup(rank));
              if (changed != *warmup &&
                  accept(warmupOrder(changed), DecodeRule(best.rule))) {
                warmup = std::move(changed);
                improved = true;
              }
            }
            if (!problem.splitBackward)
              continue;
            DecodeRule rule = best.rule;
            for (int rank = first; rank < first + width; ++rank)
              rule.heldWeights[rank] =
                  std::max(std::min(rule.heldWeights[rank],
                                    best.decoded.heldWeights[rank]) +
                               change,
                           0);
            if (rule.heldWeights != best.rule.heldWeights)
              improved |= accept(StageOrder(best.order), std::move(rule));
          }
    }
  }

  /// Changing the pace of ranks first leads to other orders than exchanging
  /// neighbours first.
  void improve(OrderJudge &judge, JudgedOrder &order, bool paceFirst,
               int reserve) const {
    if (paceFirst)
      improvePace(judge, order, reserve + (judge.remaining() - reserve) / 2);
    improveOrder(judge, order, 1, reserve);
    if (!paceFirst)
      improvePace(judge, order, reserve);
    for (double overrun : overruns) {
      DecodeRule rule{overrun, order.rule.heldWeights};
      DecodedOrder decoded = judge.decode(order.order, rule);
      if (decoded.feasible &&
          judge.score(decoded) < judge.score(order.decoded)) {
        order.rule = rule;
        order.decoded = std::move(decoded);
      }
    }
  }

  /// W where they stand, then moved like the others.
  void placeWeights(OrderJudge &judge, JudgedOrder &order, int reserve) const {
    if (!problem.splitBackward)
      return;
    order.order = order.decoded.order();
    order.rule = DecodeRule{};
    order.rule.listed = true;
    improveOrder(judge, order, 4, reserve);
  }

  const SearchProblem &problem;
  Schedule pipeline; // Without lists.
  PipelineModel model;
  std::vector<std::pair<std::string, StageOrder>> starts;
  std::vector<JudgedOrder> orders;
  std::vector<JudgedOrder> repeated; // Not yet decoded.
  /// The best ones with W by the rule, and with W listed.
  std::optional<JudgedOrder> paced, best;
  int64_t mostActions;
  std::optional<SearchResult> result;
};

} // namespace

Result<SearchResult> pp::planner::searchSchedule(const SearchProblem &problem) {
  return Search(problem).run();
}
