//===- RankCores.cpp ------------------------------------------------------===//
#include "program/RankCores.h"
#include "support/Error.h"

#include <map>

using namespace pp::runtime;

std::vector<Cores> pp::runtime::assignCores(const Plan &plan,
                                            const Placement &placement,
                                            const Launch &launch,
                                            const Cores &usable, size_t all) {
  unsigned first = launch.process - launch.localProcess;
  size_t before = 0, own = 0, together = 0; // ranks of this machine
  for (unsigned r = 0; r < plan.ranks.size(); ++r) {
    unsigned process = placement.processOfRank(r);
    if (plan.ranks[r].shardOf)
      continue;
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
  std::map<unsigned, Cores> ofStage;
  for (unsigned r = 0; r < plan.ranks.size(); ++r)
    if (placement.hasRank(r)) {
      // A shard mostly waits, and shares the cores of its stage.
      if (std::optional<unsigned> stage = plan.ranks[r].shardOf) {
        cores[r] = ofStage[*stage];
        continue;
      }
      cores[r].assign(usable.begin() + begin,
                      usable.begin() + begin + plan.threads);
      begin += plan.threads;
      for (unsigned stage : plan.ranks[r].stages)
        ofStage[stage] = cores[r];
    }
  return cores;
}
