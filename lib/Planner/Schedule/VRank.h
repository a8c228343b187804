//===- VRank.h - One rank of a pipeline that folds ------------------------===//
#ifndef PP_LIB_PLANNER_SCHEDULE_VRANK_H
#define PP_LIB_PLANNER_SCHEDULE_VRANK_H

#include "PipelineBuilder.h"

namespace pp::planner {

/// Appends actions for the two chunks of a rank, 0 on the way down the V and 1
/// on the way up, each for the next micro-batch of its chunk.
class VRank {
public:
  VRank(int rank, int ranks, std::vector<Action> &actions)
      : chunks{{rank}, {2 * ranks - 1 - rank}}, actions(actions) {}

  int forwards(int chunk) const { return chunks[chunk].forwards; }
  int weights(int chunk) const { return chunks[chunk].weights; }

  void forward(int chunk) {
    add(ActionKind::Forward, chunk, chunks[chunk].forwards++);
  }
  void input(int chunk) {
    add(ActionKind::BackwardInput, chunk, chunks[chunk].inputs++);
  }
  void weight(int chunk) {
    add(ActionKind::BackwardWeight, chunk, chunks[chunk].weights++);
  }
  /// Needs all inputs before to have their weights.
  void backward(int chunk) {
    add(ActionKind::Backward, chunk, chunks[chunk].inputs++);
    ++chunks[chunk].weights;
  }
  void update() {
    for (const Chunk &chunk : chunks)
      actions.push_back({ActionKind::Update, chunk.stage});
  }

private:
  struct Chunk {
    int stage;
    int forwards = 0, inputs = 0, weights = 0;
  };
  void add(ActionKind kind, int chunk, int microbatch) {
    actions.push_back({kind, chunks[chunk].stage, microbatch});
  }

  Chunk chunks[2];
  std::vector<Action> &actions;
};

} // namespace pp::planner

#endif // PP_LIB_PLANNER_SCHEDULE_VRANK_H
