//===- MpiLooks.cpp -------------------------------------------------------===//
#include "process/MpiLooks.h"

#include <algorithm>
#include <filesystem>
#include <poll.h>

using namespace pp::runtime;
using std::chrono::microseconds;

// Without news: a share of the time since the last, within these. Each look
// takes 10 to 20 us from whoever computes on this core, and a message that
// leaves may have to wait for its place for as long as the other process
// computes.
namespace {
struct Pauses {
  int share; // one part of so many
  microseconds least, most;
};
} // namespace
static constexpr Pauses whileAwaited{8, microseconds(20), microseconds(300)},
    whileMoving{4, microseconds(50), microseconds(500)},
    whileIdle{4, microseconds(50), microseconds(2000)};
/// Where the news come by themselves, and ranks compute.
static constexpr microseconds whileTold(5'000);
/// Where a rank computes, news that have come so soon after each other share a
/// look: a wire brings a message as some thousand packets.
static constexpr Pauses toGather{8, microseconds(50), microseconds(1000)};
/// What is told so often without a message is nothing that a look takes away.
/// A message, of which some looks may each take a part, makes up for others.
static constexpr unsigned mostInVain = 1000, perMessage = 100;

/// Those of this process. None where the system does not say.
static std::set<int> epollInstances() {
  namespace fs = std::filesystem;
  std::set<int> found;
  std::error_code error;
  for (fs::directory_iterator entry("/proc/self/fd", error), end;
       !error && entry != end; entry.increment(error)) {
    std::error_code isGone; // closed since
    if (fs::read_symlink(entry->path(), isGone) == "anon_inode:[eventpoll]")
      found.insert(std::stoi(entry->path().filename()));
  }
  return found;
}

void MpiLooks::beforeStart() { known = epollInstances(); }

void MpiLooks::afterStart() {
  std::ranges::set_difference(epollInstances(), known,
                              std::back_inserter(instances));
}

void MpiLooks::note(bool haveCome) {
  if (haveCome && reason == Reason::Told)
    trust = std::min(trust + 1, mostTrust);
  else if (haveCome && reason == Reason::Timeout)
    trust = std::max(trust - enoughTrust / 4, 0);
  if (haveCome)
    inVain -= std::min(inVain, perMessage);
  else if (reason == Reason::Told)
    inVain = std::min(inVain + 1, mostInVain);
  reason = Reason::None;
}

/// Waits for one of the first `count`; returns whether any is ready.
static bool waitFor(std::vector<pollfd> &entries, size_t count,
                    microseconds most) {
  timespec time{0, std::chrono::nanoseconds(most).count()};
  return ppoll(entries.data(), count, &time, nullptr) > 0;
}

bool MpiLooks::wait(std::vector<pollfd> &entries, Pace pace) {
  const Pauses &pauses = pace == Pace::Awaited  ? whileAwaited
                         : pace == Pace::Moving ? whileMoving
                                                : whileIdle;
  auto since =
      std::chrono::duration_cast<microseconds>(Clock::now() - lastActive);
  auto pauseOf = [&](const Pauses &of) {
    return std::clamp(since / of.share, of.least, of.most);
  };
  size_t others = entries.size();
  bool mayTell = !instances.empty() && inVain < mostInVain;
  if (mayTell)
    for (int instance : instances)
      entries.push_back({instance, POLLIN, 0});
  // What has come already is all taken before it may gather again.
  bool isReady = mayTell && waitFor(entries, entries.size(), microseconds(0));
  if (!isReady && mayTell && pace != Pace::Awaited)
    isReady = waitFor(entries, others, pauseOf(toGather));
  if (!isReady) {
    microseconds pause = pauseOf(pauses);
    if (mayTell && areTold())
      pause = pace == Pace::Awaited ? pauses.most : whileTold;
    isReady = waitFor(entries, entries.size(), pause);
  }
  auto isSet = [](const pollfd &entry) { return entry.revents != 0; };
  bool isTold =
      isReady && std::any_of(entries.begin() + others, entries.end(), isSet);
  reason = isTold ? Reason::Told : isReady ? Reason::None : Reason::Timeout;
  return isReady && isSet(entries.front());
}
