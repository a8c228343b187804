//===- Simulator.h - When each action of a schedule runs ------------------===//
#ifndef PP_PLANNER_SIMULATOR_H
#define PP_PLANNER_SIMULATOR_H

#include "pp/Planner/Cluster.h"
#include "pp/Planner/Schedule/Schedule.h"
#include "pp/Planner/Schedule/Verify.h"

namespace pp::planner {

/// Seconds for one micro-batch or, of `update` and `prepare`, for a step. B
/// takes both backward times.
struct StageTimes {
  double forward = 0;
  double backwardInput = 0;
  double backwardWeight = 0;
  double recompute = 0;
  double update = 0;
  double prepare = 0;
};

struct SimulationInput {
  /// One entry per stage, or one for all.
  std::vector<StageTimes> stages;
  /// Seconds from SEND (or, in schedules without transfers, from the end of
  /// the action that makes the value) to the value's arrival, per channel, one
  /// entry for all, or none for 0.
  std::vector<double> transfers;
  SendRule sends = {SendRule::Kind::Unbounded, {}, nullptr};
  /// With SendRule::Slots: seconds from the release of a slot until the sender
  /// may use it, per channel, one entry for all, or none for 0.
  std::vector<double> releases = {};
  /// Seconds of a SEND and of a RECEIVE, in which their ranks do nothing else,
  /// per channel, one entry for all, or none for 0: the overhead of the LogP
  /// model (Culler et al., PPoPP 1993). They are a part of the transfer, where
  /// it is long enough: a value arrives no later for them, but whoever goes on
  /// without waiting for it has lost them.
  std::vector<double> overheads = {};
  /// Seconds for which a value keeps the way from its rank to the other's,
  /// which carries one value at a time, in the order in which they are sent;
  /// per channel, one entry for all, or none for 0: then values do not delay
  /// each other. The bytes of the transfer, so to say, without its latency.
  /// With SendRule::Slots a send slot is free again when its value has taken
  /// the way. Only for schedules with transfers.
  std::vector<double> occupancies = {};
  /// The sender's rank does nothing else while a transfer lasts. False is the
  /// model of the literature: messages take no rank's time.
  bool sendOccupiesRank = false;
  /// Channels with the same number share a link (a network card, a bus), which
  /// carries one value at a time, in the order in which they are sent; at one
  /// time, the sender with the smaller rank is first. -1, or no entries: values
  /// of the channel do not delay each other. Only for sends that wait for
  /// nobody.
  std::vector<int> linkOfChannel = {};
  /// Seconds of a collective from when its last rank has come, per group, one
  /// entry for all, or none for 0. All of its ranks do nothing else until then.
  std::vector<double> collectives = {};
};

/// `input` with the times of all stages of one rank multiplied by `factor`: a
/// straggler, or a faster device.
SimulationInput scaleRank(const Schedule &schedule, SimulationInput input,
                          int rank, double factor);

/// Transfer times of a schedule's channels; rank r is device r.
std::vector<double> transferTimes(const Schedule &schedule,
                                  const Cluster &cluster);

/// Ring all-reduce (Patarasuk and Yuan, JPDC 2009): each of d devices sends 2
/// (d - 1) messages of 1 / d of the bytes to the next in the list, all as fast
/// as over the slowest of these links. 0 for less than two devices or no bytes.
double ringAllReduceTime(const Cluster &cluster,
                         const std::vector<size_t> &devices, int64_t bytes);

/// Times of a schedule's groups, each a ring in the order of ranks; rank r is
/// device r.
std::vector<double> collectiveTimes(const Schedule &schedule,
                                    const Cluster &cluster);

struct TimedAction {
  Action action;
  double start = 0, end = 0;
};

struct RankSummary {
  double busy = 0; // In P, F, R, I, W, B and U.
  /// From the start of the first to the end of the last action.
  double span = 0;
  double bubble() const { return span - busy; }
};

struct Simulation {
  std::vector<std::vector<TimedAction>> ranks;
  std::vector<RankSummary> summary;
  /// From 0 to the last end.
  double makespan = 0;
  /// The largest span of a rank: the cost in the zero-bubble literature
  /// (Qi et al., ICLR 2024), whose bubble is the largest of a rank's span.
  double span = 0;

  /// The most that a rank idles between its first and its last action.
  double bubble() const;
  /// The most that a rank idles between 0 and the makespan: what is lost if all
  /// ranks begin together and wait for each other at the end.
  double makespanBubble() const;
  /// Busy time over ranks times makespan.
  double utilization() const;
};

/// Fails, with the circle of waiting ranks, if the schedule does not complete.
/// Exact: no time steps. Linear as verifySchedule; O(actions log actions) with
/// shared links.
Result<Simulation> simulate(const Schedule &schedule,
                            const SimulationInput &input);

/// Seconds from the end of a step to the end of the next when steps follow each
/// other: a rank begins the next one as soon as it has done its own part, which
/// fills bubbles at the ends of steps. Not longer than the makespan but for
/// sends that wait for slots, which the next step finds occupied. Simulates
/// four steps; without replicas. Fails as `simulate`.
Result<double> stepPeriod(const Schedule &schedule,
                          const SimulationInput &input);

/// Makespan and span that no order of F, I and W on these ranks undercuts,
/// whatever the memory.
struct LowerBounds {
  double makespan = 0, span = 0;
};

/// Of `schedule` only stages, ranks and channels are read, and whether it
/// trains; B, R, collectives and waiting sends only add time. With replicas
/// only the work of each rank counts.
///
/// For every rank and every suffix T of its stages, with head(s) the longest
/// path to F of s, tail(s) that from the end of I of s to the end of a step (W
/// and U of the last stage on the path included):
///   makespan >= min head over T + m sum over T of F + I + W
///   makespan >= min head over T + m sum over T of F + I + min tail over T
/// and no span is shorter than the work of a rank, or one micro-batch's way
/// from F of a stage to its W. With one stage per rank this is the bound for
/// split backwards in the zero-bubble literature, with the times of each link.
/// O(stages^2 + stages * channels).
LowerBounds lowerBounds(const Schedule &schedule, const SimulationInput &input);

/// Its makespan alone: O(stages + channels).
double makespanLowerBound(const Schedule &schedule,
                          const SimulationInput &input);

/// One row per rank, at most `width` columns of time: digits are F (the last
/// digit of the micro-batch), a-z are B and I, A-Z W,
/// '+' is R, '^' P, '!' U, '=' a collective and '.' waiting.
std::string renderTimeline(const Simulation &simulation, int width = 80);

} // namespace pp::planner

#endif // PP_PLANNER_SIMULATOR_H
