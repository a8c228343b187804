//===- LinkTimes.cpp ------------------------------------------------------===//
//
// A plan without actions: each process has two ranks, and channels lead to and
// fro between the first ranks of every two processes, and between the two of
// one. Messages of two sizes tell latency and bandwidth apart:
//
//   first   ──send──▶ ........ receive      half of the median round trip
//   second  receive ... ──send──▶
//
// What a rank loses that computes meanwhile is measured where it is lost: both
// send, compute for longer than messages take, and receive. That they compute
// the same alone before and afterwards leaves out what else a core has to do. A
// core is not always equally fast, so they compute hardly longer than they have
// to: the more of that time messages move, the more of it is lost.
//
//   first   compute | send compute····· receive | compute | ...
//   second  compute | send compute····· receive | compute | ...
//
//===----------------------------------------------------------------------===//
#include "exec/LinkTimes.h"
#include "support/Error.h"
#include "support/Thread.h"
#include "transport/RoutedTransport.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <limits>
#include <mutex>

using namespace pp::runtime;

namespace {

constexpr std::array<uint64_t, 2> messageBytes = {64, 4 << 20};
/// How many of a size may be under way at once.
constexpr std::array<unsigned, 2> messageSlots = {1, 2};

/// The channels between two stages, by size of the messages.
struct Road {
  std::array<unsigned, messageBytes.size()> there, back;
};

/// Stages 2p and 2p + 1 are those of process p.
class LinkPlan {
public:
  explicit LinkPlan(unsigned processes) {
    plan.model = "links";
    plan.mode = "infer";
    plan.batch = plan.microbatches = 1;
    for (unsigned s = 0; s < 2 * processes; ++s) {
      PlanStage stage{};
      stage.name = fmt::format("stage{}", s);
      stage.code = s;
      stage.areas.channels.bytes = sendOffset(messageBytes.size());
      plan.stages.push_back(std::move(stage));
      plan.ranks.push_back({.stages = {s}, .actions = {}});
    }
    for (unsigned p = 0; p < processes; ++p) {
      addRoad(2 * p, 2 * p + 1);
      for (unsigned q = p + 1; q < processes; ++q)
        addRoad(2 * p, 2 * q);
    }
    for (PlanStage &stage : plan.stages)
      stage.memoryBytes = stage.areas.channels.bytes;
  }

  const Plan &get() const { return plan; }
  const Road &between(unsigned from, unsigned to) const {
    return roads.at({from, to});
  }

private:
  void addRoad(unsigned from, unsigned to) {
    Road &road = roads[{from, to}];
    for (size_t i = 0; i < messageBytes.size(); ++i) {
      road.there[i] = addChannel(from, to, i);
      road.back[i] = addChannel(to, from, i);
    }
  }
  /// One message of a size leaves a stage at a time.
  static uint64_t sendOffset(size_t size) {
    uint64_t offset = 0;
    for (size_t i = 0; i < size; ++i)
      offset += messageSlots[i] * messageBytes[i];
    return offset;
  }
  unsigned addChannel(unsigned from, unsigned to, size_t size) {
    uint64_t bytes = messageBytes[size];
    unsigned slots = messageSlots[size];
    PlanChannel channel{};
    channel.name = fmt::format("{} to {}", from, to);
    channel.kind = "next";
    channel.from = from;
    channel.to = to;
    channel.fromPhase = channel.toPhase = Phase::Forward;
    channel.type = DataType::U8;
    channel.shape = {static_cast<int64_t>(bytes)};
    channel.bytes = bytes;
    PlanArea &area = plan.stages[to].areas.channels;
    channel.sendOffset = sendOffset(size);
    channel.receiveOffset = area.bytes;
    area.bytes += slots * bytes;
    channel.sendSlots = channel.receiveSlots = slots;
    for (unsigned slot = 0; slot < slots; ++slot) {
      channel.sendSlot.push_back(slot);
      channel.receiveSlot.push_back(slot);
    }
    channel.release = ActionKind::Forward;
    plan.channels.push_back(std::move(channel));
    return static_cast<unsigned>(plan.channels.size() - 1);
  }

  Plan plan;
  std::map<std::pair<unsigned, unsigned>, Road> roads; // by stages
};

using Clock = std::chrono::steady_clock;

double since(Clock::time_point time) {
  return std::chrono::duration<double>(Clock::now() - time).count();
}

double median(std::vector<double> &values) {
  auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// Computing that needs a core and nothing else.
class Work {
public:
  Work() {
    constexpr uint64_t some = 1 << 20;
    double fastest = std::numeric_limits<double>::infinity();
    for (int i = 0; i < 5; ++i) {
      Clock::time_point start = Clock::now();
      compute(some);
      fastest = std::min(fastest, since(start));
    }
    perSecond = some / fastest;
  }
  /// For about so long on a core of its own.
  void run(double seconds) const {
    compute(static_cast<uint64_t>(seconds * perSecond));
  }

private:
  static void compute(uint64_t count) {
    uint64_t value = 1;
    for (uint64_t i = 0; i < count; ++i) {
      value = value * 3 + 1;
      asm volatile("" : "+r"(value)); // or nothing is left of the loop
    }
  }
  double perSecond; // operations
};

/// The first bytes of a message.
struct Head {
  double seconds = 0; // for which the other end has to compute
  bool isFirst = false, isLast = false;
};
static_assert(sizeof(Head) <= messageBytes.front());

/// What a thread that sends and receives needs.
class Traveller {
public:
  Traveller(const Plan &plan, const std::deque<StageMemory> &memories,
            Transport &transport, Device &device)
      : plan(plan), memories(memories), transport(transport),
        streams{device.createStream(), device.createStream(),
                device.createStream()} {}

  void send(unsigned channel, Head head = {}, unsigned slot = 0) {
    const PlanChannel &of = plan.channels[channel];
    transport.prepareSend(channel, slot, streams);
    std::memcpy(memories[of.from].at(of.sendOffset + slot * of.bytes), &head,
                sizeof(head));
    transport.send(channel, slot, streams);
  }
  Head receive(unsigned channel, unsigned slot = 0) {
    const PlanChannel &of = plan.channels[channel];
    Head head;
    transport.receive(channel, slot, streams);
    std::memcpy(&head, memories[of.to].at(of.receiveOffset + slot * of.bytes),
                sizeof(head));
    transport.release(channel, slot, streams);
    return head;
  }

  /// Seconds that one message takes.
  double measure(unsigned there, unsigned back) {
    constexpr unsigned warmUp = 3, least = 11, most = 1000;
    constexpr double longest = 0.15; // seconds
    std::vector<double> times;
    Clock::time_point begin = Clock::now();
    bool isLast = false;
    for (unsigned i = 0; !isLast; ++i) {
      isLast = times.size() + 1 >= most ||
               (times.size() + 1 >= least && since(begin) >= longest);
      Clock::time_point start = Clock::now();
      send(there, {.isLast = isLast});
      (void)receive(back);
      if (i >= warmUp)
        times.push_back(since(start) / 2);
    }
    return median(times);
  }
  void answer(unsigned there, unsigned back) {
    for (Head head{}; !head.isLast;) {
      head = receive(there);
      send(back);
    }
  }

  /// Seconds of a core that sending or receiving a message takes, where it
  /// arrives after `transfer` seconds.
  double measureOverhead(const Road &road, double transfer) {
    constexpr unsigned least = 5, most = 15;
    constexpr double longest = 1, // seconds
        waits = 0.02;             // a share: as much as a core's time varies
    constexpr double mostStretch = 8;
    double shortest = messageSlots.back() * transfer + 2e-3;
    Work work;
    std::vector<double> lost;
    double before = 0; // of computing alone
    Clock::time_point begin = Clock::now();
    bool isLast = false;
    for (double stretch = 2; !isLast;) {
      isLast = lost.size() + 1 >= most ||
               (lost.size() + 1 >= least && since(begin) >= longest);
      double seconds = stretch * shortest;
      send(road.there.front(),
           {.seconds = seconds, .isFirst = before == 0, .isLast = isLast});
      (void)receive(road.back.front());
      auto compute = [&] {
        Clock::time_point start = Clock::now();
        work.run(seconds);
        return since(start);
      };
      if (before == 0)
        before = compute();
      Clock::time_point start = Clock::now();
      sendAll(road.there.back());
      work.run(seconds);
      Clock::time_point end = Clock::now();
      receiveAll(road.back.back());
      double both = since(start), waited = since(end), after = compute();
      // Nothing shall be waited for.
      if (waited > waits * after && stretch < mostStretch && !isLast) {
        stretch *= 1.5;
        before = 0;
        lost.clear();
      } else {
        lost.push_back(both - (before + after) / 2);
        before = after;
      }
    }
    return std::max(0.0, median(lost) / (2 * messageSlots.back()));
  }
  void answerOverhead(const Road &road) {
    Work work;
    for (Head head{}; !head.isLast;) {
      head = receive(road.there.front());
      send(road.back.front());
      if (head.isFirst)
        work.run(head.seconds);
      sendAll(road.back.back());
      work.run(head.seconds);
      receiveAll(road.there.back());
      work.run(head.seconds);
    }
  }

private:
  void sendAll(unsigned channel) {
    for (unsigned slot = 0; slot < messageSlots.back(); ++slot)
      send(channel, {}, slot);
  }
  void receiveAll(unsigned channel) {
    for (unsigned slot = 0; slot < messageSlots.back(); ++slot)
      (void)receive(channel, slot);
  }

  const Plan &plan;
  const std::deque<StageMemory> &memories;
  Transport &transport;
  RankStreams streams;
};

class LinkMeasurement {
public:
  explicit LinkMeasurement(ProcessGroup &group)
      : group(group), device(getCpuDevice()), links(group.size()),
        placement(plan(), group.process(), group.size()) {
    for (unsigned s = 0; s < plan().stages.size(); ++s)
      memories.emplace_back(plan().stages[s], device, placement.hasStage(s),
                            group.sharesMemory());
    transport = createTransport({plan(), placement, memories, device, group,
                                 [this](const auto &error) { fail(error); }});
    transport->start();
    handle = group.onFailure([this](const auto &error) { fail(error); });
  }

  std::vector<LinkTime> run() {
    unsigned self = group.process();
    std::vector<LinkTime> times;
    try {
      for (unsigned p = 0; p < group.size(); ++p)
        for (unsigned q = p; q < group.size(); ++q) {
          group.barrier();
          if (p == self)
            times.push_back(q == self ? measureWithin() : measureTo(q));
          else if (q == self)
            answer(travellerOf(), links.between(2 * p, 2 * q));
        }
      group.barrier();
    } catch (const Transport::Aborted &) {
      stop(/*isOrderly=*/false);
      std::lock_guard<std::mutex> lock(mutex);
      std::rethrow_exception(failure);
    } catch (...) {
      stop(/*isOrderly=*/false);
      throw;
    }
    stop(/*isOrderly=*/true);
    return times;
  }

private:
  const Plan &plan() const { return links.get(); }
  Traveller travellerOf() {
    return Traveller(plan(), memories, *transport, device);
  }
  static void answer(Traveller traveller, const Road &road) {
    for (size_t i = 0; i < messageBytes.size(); ++i)
      traveller.answer(road.there[i], road.back[i]);
    traveller.answerOverhead(road);
  }
  LinkTime measure(unsigned to, const Road &road) {
    std::array<double, messageBytes.size()> seconds{};
    Traveller traveller = travellerOf();
    for (size_t i = 0; i < messageBytes.size(); ++i)
      seconds[i] = traveller.measure(road.there[i], road.back[i]);
    double more = std::max(seconds.back() - seconds.front(), 1e-9);
    double bytes =
        static_cast<double>(messageBytes.back() - messageBytes.front());
    double overhead = traveller.measureOverhead(road, seconds.back());
    return {group.process(), to, seconds.front(), bytes / more,
            overhead / messageBytes.back()};
  }
  LinkTime measureTo(unsigned other) {
    return measure(other, links.between(2 * group.process(), 2 * other));
  }
  LinkTime measureWithin() {
    unsigned first = 2 * group.process();
    const Road &road = links.between(first, first + 1);
    std::thread second = startThread("the other end of a link", [&] {
      try {
        answer(travellerOf(), road);
      } catch (const Transport::Aborted &) {
        return; // The first one says why.
      }
    });
    try {
      LinkTime result = measure(group.process(), road);
      second.join();
      return result;
    } catch (...) {
      transport->abort();
      second.join();
      throw;
    }
  }

  /// Any thread.
  void fail(const std::exception_ptr &error) {
    std::lock_guard<std::mutex> lock(mutex);
    if (!failure)
      failure = error;
    if (transport)
      transport->abort();
  }
  void stop(bool isOrderly) {
    handle.reset();
    transport->stop(isOrderly);
  }

  ProcessGroup &group;
  Device &device;
  LinkPlan links;
  Placement placement;
  std::deque<StageMemory> memories; // by stage
  std::mutex mutex;
  std::exception_ptr failure; // under `mutex`
  std::unique_ptr<Transport> transport;
  ProcessGroup::HandlerHandle handle;
};

} // namespace

std::vector<LinkTime> pp::runtime::measureLinks(ProcessGroup &group) {
  return LinkMeasurement(group).run();
}
