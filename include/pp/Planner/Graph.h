//===- Graph.h - What is to be planned: kernels with costs ----------------===//
#ifndef PP_PLANNER_GRAPH_H
#define PP_PLANNER_GRAPH_H

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pp::planner {

/// The smallest thing a partition moves. Times are seconds for one
/// micro-batch on a device of speed 1, sizes are bytes.
struct Kernel {
  std::string name;
  double forwardTime = 0;
  double backwardInputTime = 0;
  double backwardWeightTime = 0;
  int64_t parameterBytes = 0;
  /// What one micro-batch keeps from its forward to its backward pass.
  int64_t savedBytes = 0;
  /// Memory while the kernel runs; kernels of a stage share it.
  int64_t workspaceBytes = 0;
  /// The stage the user wants it in.
  std::optional<int> stageHint;
  /// Kernels of one class (>= 0) go to one stage: tied weights, for instance.
  int colocationClass = -1;

  double time() const {
    return forwardTime + backwardInputTime + backwardWeightTime;
  }
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
  /// is negative or not finite, a negative size, an edge to nowhere or against
  /// the order.
  std::optional<std::string> check() const;
};

} // namespace pp::planner

#endif // PP_PLANNER_GRAPH_H
