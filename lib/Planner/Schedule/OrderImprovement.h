//===- OrderImprovement.h - Better orders by small changes ----------------===//
#ifndef PP_LIB_PLANNER_SCHEDULE_ORDERIMPROVEMENT_H
#define PP_LIB_PLANNER_SCHEDULE_ORDERIMPROVEMENT_H

#include "OrderDecoder.h"
#include "pp/Planner/Schedule/Search.h"

namespace pp::planner {

/// Decodes orders, compares them, and counts.
class OrderJudge {
public:
  OrderJudge(const PipelineModel &model, SearchObjective objective, int budget)
      : model(model), objective(objective), left(budget) {}

  struct Score {
    double objective, tie;
    /// By more than the noise of floating-point sums.
    bool operator<(const Score &other) const;
  };
  Score score(const DecodedOrder &decoded) const;
  DecodedOrder decode(const StageOrder &order, const DecodeRule &rule) {
    --left;
    return decodeOrder(model, order, rule);
  }
  bool spent() const { return left <= 0; }
  /// Allows at most `share` of what is left.
  int allowance(double share) const {
    return left - static_cast<int>(left * share);
  }
  int remaining() const { return left; }

  const PipelineModel &model;
  const SearchObjective objective;

private:
  int left;
};

struct JudgedOrder {
  StageOrder order;
  DecodeRule rule;
  DecodedOrder decoded;
  std::string origin;
};

/// Moves actions on the critical path by at most `farthest` places until
/// nothing helps, or only `reserve` decodings are left (neighbourhoods of van
/// Laarhoven et al., "Job Shop Scheduling by Simulated Annealing", 1992, and of
/// Dell'Amico and Trubian, 1993). Never worse.
void improveOrder(OrderJudge &judge, JudgedOrder &best, size_t farthest,
                  int reserve);

/// Moves actions on the critical path at random, also if it gets a little
/// worse, less and less so (Dueck and Scheuer, "Threshold Accepting", 1990).
/// Keeps the best. Never worse.
void wanderFrom(OrderJudge &judge, JudgedOrder &best, int reserve);

} // namespace pp::planner

#endif // PP_LIB_PLANNER_SCHEDULE_ORDERIMPROVEMENT_H
