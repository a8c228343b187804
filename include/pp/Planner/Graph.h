//===- Graph.h - What is to be planned: kernels with costs ----------------===//
#ifndef PP_PLANNER_GRAPH_H
#define PP_PLANNER_GRAPH_H

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pp::planner {

/// Seconds for one micro-batch.
struct KernelTimes {
  double forward = 0;
  double backwardInput = 0;
  double backwardWeight = 0;

  double total() const { return forward + backwardInput + backwardWeight; }
  bool operator==(const KernelTimes &) const = default;
};

/// Times measured on devices of one kind; their speed does not count.
struct MeasuredTimes {
  std::string kind;
  KernelTimes times;
};

/// Another way to run a kernel: with recompute, or split over several devices
/// (tensor parallel). Its numbers stand in place of the kernel's own.
struct KernelVariant {
  std::string name;
  /// On a device of speed 1; with more devices, the time that each is busy.
  KernelTimes times;
  std::vector<MeasuredTimes> measured;
  int64_t parameterBytes = 0; // On each device, as the sizes below.
  int64_t savedBytes = 0;
  int64_t workspaceBytes = 0;
  /// The tensor-parallel degree. A stage has one degree.
  int devices = 1;
  /// Seconds per micro-batch for the collectives inside; added to the time.
  double syncSeconds = 0;
};

/// The smallest thing a partition moves. Times are seconds for one
/// micro-batch on a device of speed 1, sizes are bytes.
struct Kernel {
  std::string name;
  double forwardTime = 0;
  double backwardInputTime = 0;
  double backwardWeightTime = 0;
  int64_t parameterBytes = 0;
  /// Once per step: what is computed of parameters alone, and its bytes.
  double prepareTime = 0;
  int64_t preparedBytes = 0;
  /// What one micro-batch keeps from its forward to its backward pass.
  int64_t savedBytes = 0;
  /// Memory while the kernel runs; kernels of a stage share it.
  int64_t workspaceBytes = 0;
  /// The stage the user wants it in.
  std::optional<int> stageHint;
  /// Kernels of one class (>= 0) go to one stage: tied weights, for instance.
  int colocationClass = -1;
  std::vector<MeasuredTimes> measured = {};
  std::vector<KernelVariant> variants = {};
  /// A kernel of the backward pass, in graphs where that pass has its own
  /// kernels. It runs in the stage of its colocation class, and the order of
  /// stages is that of the forward kernels. A class (or kernel without one)
  /// that has backward kernels only is ordered by the values of the backward
  /// pass, against their direction.
  bool backward = false;

  double time() const {
    return forwardTime + backwardInputTime + backwardWeightTime;
  }
  /// Seconds on a device of this kind and speed: measured for the kind, or
  /// the time above over the speed. Variant 0 is the kernel itself, v its
  /// variants[v - 1].
  double timeOn(const std::string &kind, double speed,
                size_t variant = 0) const;
};

/// A value with all kernels that read it. It is sent once to each other stage
/// with a reader; its gradient, if it has one, comes back the same way.
struct Value {
  std::string name;
  size_t producer = 0;
  int64_t bytes = 0;
  /// 0 in inference and for values without a gradient.
  int64_t gradientBytes = 0;
  /// Ascending, without repetition.
  std::vector<size_t> consumers;
};

/// Kernels in topological order, and the values between them.
class Graph {
public:
  std::vector<Kernel> kernels;
  std::vector<Value> values;

  size_t addKernel(Kernel kernel);

  /// Adds an edge. Edges with the same producer and name are one value; sizes
  /// are those of the first.
  void addEdge(size_t producer, size_t consumer, int64_t bytes,
               const std::string &name = "", int64_t gradientBytes = 0);

  double totalTime() const;

  /// The first reason why this is no graph to plan, or nothing: a time that
  /// is negative or not finite, a negative size, a variant on less than one
  /// device, an edge to nowhere or against the order, sizes that add up to
  /// 2^63 bytes or more.
  std::optional<std::string> check() const;
};

} // namespace pp::planner

#endif // PP_PLANNER_GRAPH_H
