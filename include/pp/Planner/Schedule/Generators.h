//===- Generators.h - Schedules by name -----------------------------------===//
//
// All generators make the compute actions only (insertTransfers adds the
// rest), for any number of micro-batches from 1 unless they say otherwise.
// Weight gradients of a stage are in the order 0, 1, ..., so that they are
// summed in the same order under every schedule.
//
//===----------------------------------------------------------------------===//
#ifndef PP_PLANNER_SCHEDULE_GENERATORS_H
#define PP_PLANNER_SCHEDULE_GENERATORS_H

#include "pp/Planner/Schedule/Schedule.h"
#include <optional>

namespace pp::planner {

struct PipelineShape {
  int stages = 1;
  int microbatches = 1;
  /// 0: as many as stages. The stages of one rank are called its chunks.
  int ranks = 0;
  /// Of "wsp".
  int clockDistance = 0;

  int rankCount() const { return ranks == 0 ? stages : ranks; }
};

/// Which stages a rank has.
enum class Placement {
  /// Rank r has stage r.
  OnePerRank,
  /// Rank r of p has the stages r, p + r, 2 p + r, ...
  Loop,
  /// Rank r of p has the stages r and 2 p - 1 - r.
  V
};

/// Whether what stands for a schedule's name is a file of PyTorch's; see
/// importComputation.
inline bool isScheduleFile(std::string_view name) {
  return name.ends_with(".csv");
}

/// The rank of each stage. Fails if the shape does not fit the placement.
Result<std::vector<int>> placeStages(PipelineShape shape, Placement placement);

/// Forward only. How many micro-batches may wait between two ranks is no matter
/// of the order: a SendRule of the simulation bounds the queues.
Result<Schedule> inferenceSchedule(PipelineShape shape);

/// All forwards, then all backwards (Huang et al., "GPipe", NeurIPS 2019).
/// Every rank keeps all micro-batches at once.
Result<Schedule> gpipeSchedule(PipelineShape shape);

/// One forward, one backward, with a flush (Narayanan et al., "Memory-Efficient
/// Pipeline-Parallel DNN Training", ICML 2021): rank r of p starts with
/// min(m, p - 1 - r) forwards and keeps min(m, p - r) micro-batches at most.
Result<Schedule> oneForwardOneBackwardSchedule(PipelineShape shape);

/// 1F1B with v chunks per rank, chunk k of rank r being stage k p + r
/// (Narayanan et al., "Efficient Large-Scale Language Model Training on GPU
/// Clusters Using Megatron-LM", SC 2021). Micro-batches pass the chunks of a
/// rank in groups. Idles v times less than 1F1B for any m from p on, and sends
/// v times more. If p divides m, a group has p micro-batches, and rank r keeps
/// (v - 1) p + 2 (p - 1 - r) + 1 chunks at most. With one chunk its warm-up is
/// longer than that of 1F1B.
Result<Schedule> interleavedSchedule(PipelineShape shape);

/// All micro-batches through one chunk of a rank, then through the next, with
/// the stages of interleavedSchedule (Lamy-Poirier, "Breadth-First Pipeline
/// Parallelism", MLSys 2023). Idles as little, and keeps all micro-batches of
/// all chunks. PyTorch runs the backwards of a chunk from the last micro-batch;
/// here they keep their order, which takes as long if stages are equal.
Result<Schedule> breadthFirstSchedule(PipelineShape shape);

/// 1F1B with the backward of weights split off, which fills a part of the
/// bubble: ZB-H1 of Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024.
/// The bubble is (p - 1) (F + I - W); every rank keeps min(m, p) micro-batches,
/// rank r up to r of them between I and W only.
Result<Schedule> zeroBubbleH1Schedule(PipelineShape shape);

/// Like ZB-H1 with a warm-up of 2 (p - r) - 1 forwards: ZB-H2 of the same
/// paper. The bubble is (p - 1) (F + I - 2 W) if that is not negative; every
/// rank keeps min(m, 2 p - 1) micro-batches.
Result<Schedule> zeroBubbleH2Schedule(PipelineShape shape);

/// Like 1F1B with min(m, 2 (p - 1 - r) + 1) forwards before the first backward
/// instead of min(m, p - r), so that a rank that waits for a transfer has
/// something else to do: the "overlap-friendly" 1F1B of Alpa (Zhuang et al.,
/// "On Optimizing the Communication of Model Parallelism", MLSys 2023), which
/// jaxpp calls eager. As fast as 1F1B if transfers take no time; rank r keeps
/// that many micro-batches at most.
Result<Schedule> eagerOneForwardOneBackwardSchedule(PipelineShape shape);

/// Two chunks per rank, r and 2 p - 1 - r, so that a micro-batch ends on the
/// rank where it began: ZB-V of the same paper. With F = I = W and no time for
/// transfers no rank idles between its first and last action if m is at least
/// 2 p - 1. Every rank keeps min(2 m, 2 p) chunks at most, as much as the first
/// rank of 1F1B.
Result<Schedule> zeroBubbleVSchedule(PipelineShape shape);

/// The stages of zeroBubbleVSchedule at about half the memory and half the
/// bubble of 1F1B: V-Half of Qi et al., "Pipeline Parallelism with Controllable
/// Memory", NeurIPS 2024. Every rank keeps 2 floor((p + 2) / 2) chunks at most,
/// from F to W. If F = I = W = 1 per chunk and transfers take no time, the
/// bubble is 3 p - 4 for p from 3 on and m from p on, where 1F1B has 6 (p - 1).
/// O(m p log m).
Result<Schedule> vHalfSchedule(PipelineShape shape);

/// V-Min of the same paper: about a third of the memory of 1F1B and two thirds
/// of its bubble. Every rank keeps 2 floor((p + 4) / 3) chunks at most. The
/// bubble is 4 p - 3 if 3 divides p and 4 p - 5 if not, in the units of
/// vHalfSchedule and for p from 2 on.
Result<Schedule> vMinSchedule(PipelineShape shape);

/// The stages of zeroBubbleVSchedule with forwards and backwards in pairs that
/// could overlap (DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, and the
/// DualPipe repository); here the actions of a pair follow each other. Weights
/// wait only where that helps. Every rank keeps 2 p + 1 chunks at most. Fails
/// for less than 2 p micro-batches.
Result<Schedule> dualPipeVSchedule(PipelineShape shape);

/// By the name that users know: "1f1b". Fails with the list of names, or with
/// the reason why the schedule does not fit the shape.
Result<Schedule> makeSchedule(std::string_view name, PipelineShape shape);

/// The names that makeSchedule knows.
std::vector<std::string_view> scheduleNames();

/// Those of them that have backward passes.
std::vector<std::string_view> trainingScheduleNames();

/// Which stages a rank has in the schedule of this name; nothing if there is
/// none.
std::optional<Placement> placementOf(std::string_view name);

} // namespace pp::planner

#endif // PP_PLANNER_SCHEDULE_GENERATORS_H
