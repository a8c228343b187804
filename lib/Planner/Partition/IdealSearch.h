//===- IdealSearch.h - The best path through a lattice of ideals ----------===//
#ifndef PP_LIB_PLANNER_PARTITION_IDEALSEARCH_H
#define PP_LIB_PLANNER_PARTITION_IDEALSEARCH_H

#include "GrowingStage.h"
#include "Lattice.h"
#include "SearchBudget.h"
#include "StateSpace.h"
#include <limits>

namespace pp::planner::partition {

struct StagePlan {
  std::vector<uint32_t> groups;
  size_t mode = 0;
  int replicas = 1;
  int inFlight = 1;
};

struct Plan {
  std::vector<StagePlan> stages; // First stage first.
  double value = 0;
};

class IdealSearch {
public:
  IdealSearch(const CostModel &model, const VariantChooser &chooser,
              const GroupGraph &graph, const Lattice &lattice,
              SearchBudget &budget);

  /// The best plan through this lattice, if there is one with at most the
  /// value `bound`. If the budget runs out, none or one that is not proven.
  /// `exactCounts`: the numbers of stages and devices that the problem demands
  /// are kept; else they are preferred among equal plans.
  std::optional<Plan>
  run(bool exactCounts, double bound = std::numeric_limits<double>::infinity());

  /// False if variants were chosen by a list that was cut short.
  bool isExact() const { return stage.isExact(); }

private:
  struct From {
    uint32_t ideal = 0;
    uint32_t state = 0;
    uint32_t label = 0;
    uint16_t mode = 0;
    uint16_t replicas = 0;
    int inFlight = 1;
  };
  struct Label {
    double largest, sum;
    From from;
  };

  void measureIdeals();
  void findBorders(double bound);
  std::optional<Plan> runLargest(double bound);
  std::optional<Plan> runFlush(double bound);
  void fill(double bound);
  void walk(uint32_t top);
  void relax(uint32_t top, uint32_t inside);
  void relaxMode(uint32_t top, uint32_t inside, size_t mode, int replicas,
                 double least, const Surroundings &around);
  void meet(uint32_t top, size_t state, double largest, double sum,
            const From &from);
  int inFlightAfter(size_t state, int replicas) const;
  std::optional<size_t> bestFinalState(bool exactCounts) const;
  bool isWanted(size_t state) const;
  Plan follow(size_t state, double value) const;
  double recompute(const StagePlan &entry);
  double lowestValue() const;
  size_t cell(uint32_t ideal, size_t state) const {
    return row[ideal] + state - space.firstWith[fewest[ideal]];
  }
  uint32_t everything() const {
    return static_cast<uint32_t>(lattice.size() - 1);
  }
  double restLeast(uint32_t ideal) const {
    return leastSum.back() - leastSum[ideal];
  }

  const CostModel &model;
  const GroupGraph &graph;
  const Lattice &lattice;
  SearchBudget &budget;
  StateSpace space;
  size_t modes;
  bool flush, wantsExactCounts = false;
  bool hinted = false;
  double leastValue = 0; // No plan has a smaller largest cost.
  double residue = 0;    // Of rounding, in the cost of a stage.
  double bound = 0;      // On the cost of a stage.
  double flushBound = 0; // On the value, for the labels.
  bool keepsLabels = false;

  std::vector<double> weight, leastSum, crossing; // Per ideal.
  /// Per ideal, the cell of its first state; -1: no border.
  std::vector<int64_t> row;
  std::vector<uint32_t> fewest, most; // Devices, per ideal.
  std::vector<double> best;           // Per cell: border and state.
  std::vector<From> from;
  std::vector<std::vector<Label>> labels;
  /// Per border, the states that are reached, ascending.
  std::vector<std::vector<uint32_t>> reached;

  // The walk and its stage, both empty between walks.
  struct Frame {
    uint32_t ideal;
    const Lattice::Step *next;
  };
  std::vector<Frame> frames;
  std::vector<uint32_t> seen; // Per ideal, the last walk that came there.
  GrowingStage stage;
};

} // namespace pp::planner::partition

#endif // PP_LIB_PLANNER_PARTITION_IDEALSEARCH_H
