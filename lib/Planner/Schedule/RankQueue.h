//===- RankQueue.h - Ranks that may be able to go on ----------------------===//
#ifndef PP_LIB_PLANNER_SCHEDULE_RANKQUEUE_H
#define PP_LIB_PLANNER_SCHEDULE_RANKQUEUE_H

#include <deque>
#include <vector>

namespace pp::planner {

/// First in, first out; each rank is in it at most once. At first all are.
class RankQueue {
public:
  explicit RankQueue(size_t ranks) : isQueued(ranks, true) {
    for (size_t rank = 0; rank < ranks; ++rank)
      queue.push_back(static_cast<int>(rank));
  }

  bool empty() const { return queue.empty(); }
  int pop() {
    int rank = queue.front();
    queue.pop_front();
    isQueued[rank] = false;
    return rank;
  }
  void push(const std::vector<int> &ranks) {
    for (int rank : ranks) {
      if (isQueued[rank])
        continue;
      isQueued[rank] = true;
      queue.push_back(rank);
    }
  }

private:
  std::deque<int> queue;
  std::vector<bool> isQueued;
};

} // namespace pp::planner

#endif // PP_LIB_PLANNER_SCHEDULE_RANKQUEUE_H
