//===- PlanCheck.cpp - Order and completion of the actions ----------------===//
#include "plan/Plan.h"
#include "support/Error.h"

#include <algorithm>
#include <set>

using namespace pp::runtime;

namespace {

/// Positions of the actions of one (stage, micro-batch) on its rank; -1: none.
struct Cell {
  int forward = -1, recompute = -1, input = -1, weight = -1;
};

class Checker {
public:
  explicit Checker(const Plan &plan)
      : plan(plan),
        cells(plan.stages.size(), std::vector<Cell>(plan.microbatchesListed())),
        sends(plan.channels.size(),
              std::vector<int>(plan.microbatchesListed(), -1)),
        receives(sends), rankOf(plan.stages.size(), 0) {}

  void run() {
    checkReferences();
    if (!plan.flushes)
      return checkRollingActions(plan);
    if (plan.findLossScale())
      checkUpdatesAreLast();
    for (unsigned r = 0; r < plan.ranks.size(); ++r)
      collect(r);
    for (unsigned s = 0; s < plan.stages.size(); ++s)
      checkStage(s);
    for (unsigned c = 0; c < plan.channels.size(); ++c)
      checkChannel(c);
    for (unsigned r = 0; r < plan.ranks.size(); ++r)
      checkResiduals(r);
    findReleases();
    checkCompletion({plan.microbatchesListed(), plan.microbatchesListed()});
    checkSmallerSteps();
  }

private:
  bool hasReplicas(unsigned stage) const {
    return plan.replicasOf(plan.stages[stage].code) > 1;
  }

  std::string path(unsigned rank, int position) const {
    return fmt::format("ranks[{}].actions[{}]", rank, position);
  }

  /// Every channel is written by one phase and read; the loss comes from one
  /// stage.
  void checkReferences() {
    // Of all copies the first is as good as the others.
    size_t channels =
        plan.channelCopies.empty()
            ? std::count_if(plan.channels.begin(), plan.channels.end(),
                            [](const PlanChannel &channel) {
                              return !channel.isOfWaves();
                            })
            : plan.channelCopies.size();
    std::vector<unsigned> written(channels), read(channels),
        fetched(plan.fetches.size());
    unsigned losses = 0;
    for (const PlanStage &stage : plan.stages) {
      if (stage.replica != 0)
        continue;
      for (const PlanPhase &phase : stage.phases) {
        for (PlanReference reference : phase.inputs)
          if (reference.kind == PlanReference::Kind::Channel)
            ++read[reference.index];
        for (PlanReference reference : phase.outputs) {
          if (reference.kind == PlanReference::Kind::Channel)
            ++written[reference.index];
          else if (reference.kind == PlanReference::Kind::Fetch)
            ++fetched[reference.index];
          else if (reference.kind == PlanReference::Kind::Loss)
            ++losses;
        }
      }
    }
    for (size_t i = 0; i < channels; ++i) {
      if (written[i] != 1)
        failInput("channels[{}]: {} phase outputs write it, expected 1", i,
                  written[i]);
      if (read[i] == 0)
        failInput("channels[{}]: no phase reads it", i);
    }
    for (size_t i = 0; i < plan.fetches.size(); ++i)
      if (fetched[i] != 1)
        failInput("fetches[{}]: {} phase outputs write it, expected 1", i,
                  fetched[i]);
    if (plan.isTraining() && losses != 1)
      failInput("stages: {} phase outputs write the loss, expected 1", losses);
  }

  /// Whether a step is skipped is known when all ranks have all gradients.
  void checkUpdatesAreLast() {
    for (unsigned r = 0; r < plan.ranks.size(); ++r) {
      const auto &actions = plan.ranks[r].actions;
      int updates = 0;
      for (int i = 0, e = actions.size(); i < e; ++i) {
        bool isUpdate = actions[i].kind == ActionKind::Update;
        if (updates && !isUpdate)
          failInput("{}: with a loss scale, nothing may follow a U but another "
                    "U",
                    path(r, i));
        updates += isUpdate;
      }
      if (!updates)
        failInput("ranks[{}]: has no U, which a loss scale needs", r);
    }
  }

  void set(int &cell, unsigned rank, int position) {
    if (cell >= 0)
      failInput("{}: happens already at {}", path(rank, position),
                path(rank, cell));
    cell = position;
  }

  /// A copy of a stage runs, sends and receives its own micro-batches.
  void checkOwner(const PlanAction &action, const std::string &where) const {
    bool isOwn = true;
    if (isTransfer(action.kind)) {
      const PlanChannel &channel = plan.channels[action.channel];
      bool isSend = action.kind == ActionKind::Send;
      isOwn = (isSend ? channel.from : channel.to) == action.stage;
    } else if (!isPerStep(action.kind)) {
      isOwn = plan.stages[action.stage].runs(action.microbatch);
    }
    if (!isOwn)
      failInput("{}: micro-batch {} is that of another replica than {} of "
                "stage {}",
                where, action.microbatch, plan.stages[action.stage].replica,
                plan.stages[action.stage].code);
  }

  void collect(unsigned r) {
    const PlanRank &rank = plan.ranks[r];
    std::vector<int> updated(plan.stages.size(), -1), reduced = updated,
                                                      prepared = updated;
    for (unsigned s : rank.stages)
      rankOf[s] = r;
    for (int i = 0, e = rank.actions.size(); i < e; ++i) {
      const PlanAction &action = rank.actions[i];
      if (updated[action.stage] >= 0)
        failInput("{}: stage {} has had its U at {}", path(r, i), action.stage,
                  path(r, updated[action.stage]));
      if (reduced[action.stage] >= 0 && action.kind != ActionKind::Update)
        failInput("{}: the gradients of stage {} were added up at {}",
                  path(r, i), action.stage, path(r, reduced[action.stage]));
      if (plan.stages[action.stage].prepares && prepared[action.stage] < 0 &&
          !isTransfer(action.kind) && action.kind != ActionKind::Prepare)
        failInput("{}: before the P of stage {}", path(r, i), action.stage);
      checkOwner(action, path(r, i));
      Cell &cell = cells[action.stage][action.microbatch];
      switch (action.kind) {
      case ActionKind::Forward:
        set(cell.forward, r, i);
        break;
      case ActionKind::Recompute:
        set(cell.recompute, r, i);
        if (plan.stages[action.stage].phases[0].discards.size() !=
            plan.stages[action.stage].phases[0].outputs.size())
          failInput("stages[{}].phases.F: key 'discards' is missing, but {} "
                    "recomputes",
                    action.stage, path(r, i));
        if (plan.stages[action.stage].areas.statistics.bytes &&
            !plan.stages[action.stage].phases[0].discardStatistics)
          failInput("stages[{}].phases.F: key 'discard_statistics' is missing, "
                    "but {} recomputes",
                    action.stage, path(r, i));
        break;
      case ActionKind::BackwardInput:
        set(cell.input, r, i);
        break;
      case ActionKind::BackwardWeight:
        set(cell.weight, r, i);
        break;
      case ActionKind::Backward:
        set(cell.input, r, i);
        set(cell.weight, r, i);
        break;
      case ActionKind::Send:
        set(sends[action.channel][action.microbatch], r, i);
        break;
      case ActionKind::Receive:
        set(receives[action.channel][action.microbatch], r, i);
        break;
      case ActionKind::Update:
        if (hasReplicas(action.stage) && reduced[action.stage] < 0)
          failInput("{}: there are replicas, but no REDUCE_GRAD of stage {} "
                    "comes before",
                    path(r, i), plan.stages[action.stage].code);
        updated[action.stage] = i;
        break;
      case ActionKind::ReduceGradients:
        if (!hasReplicas(action.stage))
          failInput("{}: there are no replicas", path(r, i));
        reduced[action.stage] = i;
        break;
      case ActionKind::Prepare:
        if (!plan.stages[action.stage].prepares)
          failInput("{}: stage {} has no phase P", path(r, i), action.stage);
        set(prepared[action.stage], r, i);
        break;
      case ActionKind::Push:
      case ActionKind::Pull:
        failInput("{}: '{}' is for virtual workers, which have no flush",
                  path(r, i), nameOf(action.kind));
      case ActionKind::AllReduce:
      case ActionKind::SumGradients:
      case ActionKind::AddPushes:
        failInternal("{}: no plan has it", path(r, i));
      }
    }
    for (unsigned s : rank.stages)
      if (plan.stages[s].prepares && prepared[s] < 0)
        failInput("ranks[{}].actions: no P of stage {}", r, s);
    if (plan.isTraining())
      for (unsigned s : rank.stages)
        if (updated[s] < 0)
          failInput("ranks[{}].actions: no U of stage {}", r, s);
  }

  void checkStage(unsigned s) {
    unsigned r = rankOf[s];
    for (unsigned m = 0; m < plan.microbatchesListed(); ++m) {
      if (!plan.stages[s].runs(m))
        continue;
      const Cell &cell = cells[s][m];
      if (cell.forward < 0)
        failInput("ranks[{}].actions: no F of stage {} for micro-batch {}", r,
                  s, m);
      if (!plan.isTraining())
        continue;
      if (cell.input < 0 || cell.weight < 0)
        failInput("ranks[{}].actions: no {} of stage {} for micro-batch {}", r,
                  cell.input < 0 ? "I or B" : "W", s, m);
      if (cell.input < cell.forward || cell.weight < cell.input)
        failInput("{}: before what it needs", path(r, cell.weight));
      if (cell.recompute >= 0 &&
          (cell.recompute < cell.forward || cell.recompute > cell.input))
        failInput("{}: R has to stand between F and the backward pass",
                  path(r, cell.recompute));
    }
  }

  int positionOf(const Cell &cell, Phase phase) const {
    return phase == Phase::Forward         ? cell.forward
           : phase == Phase::BackwardInput ? cell.input
                                           : cell.weight;
  }

  /// Position of the action that frees the receive slot; -1: none.
  int releaseOf(unsigned c, unsigned m) const {
    const PlanChannel &channel = plan.channels[c];
    const Cell &cell = cells[channel.to][m];
    const auto &actions = plan.ranks[rankOf[channel.to]].actions;
    for (int position : {cell.forward, cell.recompute, cell.input, cell.weight})
      if (position >= 0 && releases(actions[position].kind, channel.release,
                                    cell.recompute >= 0))
        return position;
    return -1;
  }

  void checkChannel(unsigned c) {
    const PlanChannel &channel = plan.channels[c];
    unsigned from = rankOf[channel.from], to = rankOf[channel.to];
    if (channel.isResident())
      return checkResident(c);
    for (unsigned m = 0; m < plan.microbatchesListed(); ++m) {
      if (!plan.carries(channel, m))
        continue;
      if (sends[c][m] < 0 || receives[c][m] < 0)
        failInput("channels[{}]: no {} for micro-batch {}", c,
                  sends[c][m] < 0 ? "SEND" : "RECV", m);
      int produced = positionOf(cells[channel.from][m], channel.fromPhase);
      if (sends[c][m] < produced)
        failInput("{}: before {}, which makes the value",
                  path(from, sends[c][m]), path(from, produced));
      int released = releaseOf(c, m);
      if (released < 0)
        failInput("channels[{}].release: micro-batch {} has no action {}", c, m,
                  nameOf(channel.release));
      checkReads(c, m, released, to);
    }
    checkSlots(c, sends[c], channel.sendSlot, from, "send_slot");
    checkReceiveOrder(c);
  }

  /// A value that stays on its rank is received when it is made.
  void checkResident(unsigned c) {
    const PlanChannel &channel = plan.channels[c];
    unsigned rank = rankOf[channel.from];
    if (rank != rankOf[channel.to])
      failInput("channels[{}].send_slots: 0, but the channel leads from rank "
                "{} to rank {}",
                c, rank, rankOf[channel.to]);
    std::vector<int> released(plan.microbatchesListed());
    for (unsigned m = 0; m < plan.microbatchesListed(); ++m) {
      if (sends[c][m] >= 0 || receives[c][m] >= 0)
        failInput("channels[{}]: {} for micro-batch {}, but there are no send "
                  "slots",
                  c, sends[c][m] >= 0 ? "SEND" : "RECV", m);
      receives[c][m] = positionOf(cells[channel.from][m], channel.fromPhase);
      released[m] = releaseOf(c, m);
      if (released[m] < 0)
        failInput("channels[{}].release: micro-batch {} has no action {}", c, m,
                  nameOf(channel.release));
      checkReads(c, m, released[m], rank);
    }
    for (unsigned a = 0; a < plan.microbatchesListed(); ++a)
      for (unsigned b = a + 1; b < plan.microbatchesListed(); ++b)
        if (channel.receiveSlot[a] == channel.receiveSlot[b] &&
            receives[c][a] <= released[b] && receives[c][b] <= released[a])
          failInput("channels[{}].receive_slot: micro-batches {} and {} use "
                    "slot {} at the same time (rank {})",
                    c, a, b, channel.receiveSlot[a], rank);
  }

  /// All reads of the value lie between its RECV and its release.
  void checkReads(unsigned c, unsigned m, int released, unsigned rank) {
    const PlanChannel &channel = plan.channels[c];
    const Cell &cell = cells[channel.to][m];
    const PlanStage &stage = plan.stages[channel.to];
    for (unsigned p = 0; p < microbatchPhases; ++p) {
      bool reads = std::any_of(
          stage.phases[p].inputs.begin(), stage.phases[p].inputs.end(),
          [&](PlanReference reference) {
            return reference.kind == PlanReference::Kind::Channel &&
                   plan.channelOf(reference, m) == c;
          });
      if (!reads)
        continue;
      for (int position : {positionOf(cell, static_cast<Phase>(p)),
                           p == 0 ? cell.recompute : -1}) {
        if (position < 0)
          continue;
        if (position < receives[c][m])
          failInput("{}: reads channel {} before its RECV at {}",
                    path(rank, position), c, path(rank, receives[c][m]));
        if (position > released)
          failInput("{}: reads channel {} after its release at {}",
                    path(rank, position), c, path(rank, released));
      }
    }
  }

  /// A send slot is not written again before it was sent.
  void checkSlots(unsigned c, const std::vector<int> &sent,
                  const std::vector<unsigned> &slots, unsigned rank,
                  const char *key) {
    const PlanChannel &channel = plan.channels[c];
    for (unsigned a = 0; a < plan.microbatchesListed(); ++a)
      for (unsigned b = a + 1; b < plan.microbatchesListed(); ++b) {
        if (slots[a] != slots[b] || !plan.carries(channel, a) ||
            !plan.carries(channel, b))
          continue;
        int madeA = positionOf(cells[channel.from][a], channel.fromPhase);
        int madeB = positionOf(cells[channel.from][b], channel.fromPhase);
        if (madeA < sent[b] && madeB < sent[a])
          failInput("channels[{}].{}: micro-batches {} and {} use slot {} at "
                    "the same time (rank {})",
                    c, key, a, b, slots[a], rank);
      }
  }

  /// Micro-batches that share a receive slot are sent and received in one
  /// order.
  void checkReceiveOrder(unsigned c) {
    const PlanChannel &channel = plan.channels[c];
    for (unsigned a = 0; a < plan.microbatchesListed(); ++a)
      for (unsigned b = a + 1; b < plan.microbatchesListed(); ++b)
        if (channel.receiveSlot[a] == channel.receiveSlot[b] &&
            plan.carries(channel, a) && plan.carries(channel, b) &&
            (sends[c][a] < sends[c][b]) != (receives[c][a] < receives[c][b]))
          failInput(
              "channels[{}].receive_slot: micro-batches {} and {} of slot "
              "{} are sent in another order than received",
              c, a, b, channel.receiveSlot[a]);
  }

  /// A backward pass finds the residuals of its own micro-batch in its slot.
  void checkResiduals(unsigned r) {
    std::map<std::pair<unsigned, unsigned>, unsigned> holds;
    const auto &actions = plan.ranks[r].actions;
    for (int i = 0, e = actions.size(); i < e; ++i) {
      const PlanAction &action = actions[i];
      std::pair<unsigned, unsigned> slot{action.stage, action.slot};
      switch (action.kind) {
      case ActionKind::Forward:
      case ActionKind::Recompute:
        holds[slot] = action.microbatch;
        break;
      case ActionKind::BackwardInput:
      case ActionKind::BackwardWeight:
      case ActionKind::Backward: {
        auto it = holds.find(slot);
        if (it == holds.end() || it->second != action.microbatch)
          failInput("{}: residual slot {} does not hold micro-batch {}",
                    path(r, i), action.slot, action.microbatch);
        break;
      }
      default:
        break;
      }
    }
  }

  void findReleases() {
    releasedBy.resize(plan.ranks.size());
    for (unsigned c = 0; c < plan.channels.size(); ++c)
      for (unsigned m = 0;
           m < plan.microbatchesListed() && !plan.channels[c].isResident(); ++m)
        if (plan.carries(plan.channels[c], m))
          releasedBy[rankOf[plan.channels[c].to]].emplace_back(releaseOf(c, m),
                                                               c);
    for (auto &list : releasedBy)
      std::sort(list.begin(), list.end());
  }

  /// Steps of fewer samples, between whole ones. What an action waits for is an
  /// action before it on its rank, one of its own micro-batch, or the release
  /// of a slot by the micro-batch that is in it. So what is left when a
  /// micro-batch has left with all of its actions waits for nothing that is
  /// not there, and a list that completes does so without some of them: the
  /// play of few numbers of them in long lists is enough.
  void checkSmallerSteps() {
    constexpr size_t mostActions = size_t(1) << 22;
    size_t actions = 0;
    for (const PlanRank &rank : plan.ranks)
      actions += rank.actions.size();
    unsigned all = plan.microbatchesListed();
    std::set<unsigned> counts{0, 1, all / 2, all - 1};
    for (unsigned count = 0; count < all && all * actions < mostActions;
         ++count)
      counts.insert(count);
    for (unsigned count : counts)
      checkCompletion({all, count, all});
  }

  /// Plays steps that have so many micro-batches with the slot rules: every
  /// rank has to reach the end. More than one, since a send of the second may
  /// wait for a release of the first.
  void checkCompletion(const std::vector<unsigned> &steps) {
    std::vector<size_t> next(plan.ranks.size(), 0);
    // Per channel and slot: the micro-batch held, or -1.
    std::vector<std::vector<int>> held;
    held.reserve(plan.channels.size());
    for (const PlanChannel &channel : plan.channels)
      held.emplace_back(channel.receiveSlots, -1);
    bool progress = true;
    while (progress) {
      progress = false;
      for (size_t r = 0; r < plan.ranks.size(); ++r) {
        const auto &actions = plan.ranks[r].actions;
        for (; next[r] < steps.size() * actions.size();
             ++next[r], progress = true) {
          size_t position = next[r] % actions.size();
          const PlanAction &action = actions[position];
          // What is once in a step counts as of micro-batch 0.
          if (action.microbatch >= std::max(steps[next[r] / actions.size()],
                                            isPerStep(action.kind) ? 1u : 0u))
            continue;
          if (action.kind == ActionKind::Send ||
              action.kind == ActionKind::Receive) {
            int &slot =
                held[action.channel][plan.channels[action.channel]
                                         .receiveSlot[action.microbatch]];
            if (action.kind == ActionKind::Send) {
              if (slot >= 0)
                break;
              slot = action.microbatch;
            } else if (slot != int(action.microbatch)) {
              break;
            }
          }
          auto it =
              std::lower_bound(releasedBy[r].begin(), releasedBy[r].end(),
                               std::pair<unsigned, unsigned>(position, 0));
          for (; it != releasedBy[r].end() && it->first == position; ++it)
            held[it->second]
                [plan.channels[it->second].receiveSlot[action.microbatch]] = -1;
        }
      }
    }
    std::string waiting;
    for (size_t r = 0; r < plan.ranks.size(); ++r) {
      const auto &actions = plan.ranks[r].actions;
      if (next[r] < steps.size() * actions.size())
        waiting += fmt::format(
            "{}rank {} waits at {} ({})", waiting.empty() ? "" : ", ", r,
            path(r, next[r] % actions.size()),
            toString(plan, actions[next[r] % actions.size()]));
    }
    bool isWhole = steps[1] == plan.microbatchesListed();
    if (!waiting.empty())
      failInput(
          "ranks: the actions cannot complete{}: {}",
          isWhole ? ""
                  : fmt::format(" where a step has {} micro-batches", steps[1]),
          waiting);
  }

  const Plan &plan;
  std::vector<std::vector<Cell>> cells;          // [stage][micro-batch]
  std::vector<std::vector<int>> sends, receives; // [channel][micro-batch]
  std::vector<unsigned> rankOf;                  // by stage
  /// By rank: (position, channel), sorted.
  std::vector<std::vector<std::pair<unsigned, unsigned>>> releasedBy;
};

} // namespace

void pp::runtime::checkActions(const Plan &plan) { Checker(plan).run(); }
