//===- RankCores.cpp ------------------------------------------------------===//
#include "program/RankCores.h"
#include "support/Error.h"

using namespace pp::runtime;

std::vector<Cores> pp::runtime::assignCores(const Plan &plan,
                                            const Placement &placement,
                                            const Launch &launch,
                                            const Cores &usable, size_t all) {
  unsigned first = launch.process - launch.localProcess;
  size_t before = 0, own = 0, together = 0; // ranks of this machine
  for (unsigned r = 0; r < plan.ranks.size(); ++r) {
    unsigned process = placement.processOfRank(r);
    if (process < first || process >= first + launch.localProcesses)
      continue;
    ++together;
    before += process < launch.process;
    own += process == launch.process;
  }
  bool isDivided = usable.size() < all && launch.localProcesses > 1;
  size_t begin = isDivided ? 0 : before * plan.threads;
  size_t needed = (isDivided ? own : together) * plan.threads;
  if (usable.size() < needed)
    failUsage("--pin: {} ranks of {} threads need {} cores, of which this "
              "process may use {}",
              isDivided ? own : together, plan.threads, needed, usable.size());
  std::vector<Cores> cores(plan.ranks.size());
  for (unsigned r = 0; r < plan.ranks.size(); ++r)
    if (placement.hasRank(r)) {
      cores[r].assign(usable.begin() + begin,
                      usable.begin() + begin + plan.threads);
      begin += plan.threads;
    }
  return cores;
}
