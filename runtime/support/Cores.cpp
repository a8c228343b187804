//===- Cores.cpp ----------------------------------------------------------===//
#include "support/Cores.h"
#include "support/Error.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <sched.h>
#include <sstream>
#include <tuple>

using namespace pp::runtime;

namespace {
/// A set of the system's for any number of hardware threads.
class CoreSet {
public:
  static constexpr unsigned most = 1 << 14;

  CoreSet() : set(CPU_ALLOC(most)) {
    if (!set)
      throw std::bad_alloc();
    CPU_ZERO_S(bytes(), set);
  }
  ~CoreSet() { CPU_FREE(set); }
  CoreSet(const CoreSet &) = delete;
  CoreSet &operator=(const CoreSet &) = delete;

  static size_t bytes() { return CPU_ALLOC_SIZE(most); }
  cpu_set_t *get() { return set; }
  void add(unsigned core) { CPU_SET_S(core, bytes(), set); }
  bool has(unsigned core) const { return CPU_ISSET_S(core, bytes(), set); }

private:
  cpu_set_t *set;
};
} // namespace

Cores pp::runtime::usableCores() {
  CoreSet set;
  Cores cores;
  if (sched_getaffinity(0, CoreSet::bytes(), set.get()) != 0)
    return cores;
  for (unsigned core = 0; core < CoreSet::most; ++core)
    if (set.has(core))
      cores.push_back(core);
  return cores;
}

/// `0-3,8,10-11`; empty where there is no such file.
static Cores readList(const std::string &path) {
  std::ifstream file(path);
  Cores cores;
  for (std::string part; std::getline(file, part, ',');) {
    std::istringstream range(part);
    unsigned first = 0, last = 0;
    char dash = 0;
    if (!(range >> first))
      break;
    last = range >> dash >> last && dash == '-' ? last : first;
    for (unsigned core = first; core <= last && core < CoreSet::most; ++core)
      cores.push_back(core);
  }
  return cores;
}

Cores pp::runtime::nearestFirst(Cores cores, const std::string &system) {
  std::map<unsigned, unsigned> nodes;
  for (unsigned node : readList(system + "/node/online"))
    for (unsigned core :
         readList(fmt::format("{}/node/node{}/cpulist", system, node)))
      nodes[core] = node;
  auto keyOf = [&](unsigned core) {
    Cores siblings = readList(fmt::format(
        "{}/cpu/cpu{}/topology/thread_siblings_list", system, core));
    // How many of them come before it, of those that may be used.
    long before =
        std::count_if(siblings.begin(), siblings.end(), [&](unsigned sibling) {
          return sibling < core &&
                 std::find(cores.begin(), cores.end(), sibling) != cores.end();
        });
    auto node = nodes.find(core);
    return std::tuple(before, node == nodes.end() ? 0 : node->second, core);
  };
  std::vector<std::pair<decltype(keyOf(0)), unsigned>> keys;
  for (unsigned core : cores)
    keys.emplace_back(keyOf(core), core);
  std::sort(keys.begin(), keys.end());
  for (size_t i = 0; i < keys.size(); ++i)
    cores[i] = keys[i].second;
  return cores;
}

void pp::runtime::bindThread(const Cores &cores) {
  if (cores.empty())
    return;
  CoreSet set;
  for (unsigned core : cores)
    set.add(core);
  if (sched_setaffinity(0, CoreSet::bytes(), set.get()) != 0)
    throw Error(ErrorKind::IO,
                fmt::format("cannot bind a thread to core {}: {}",
                            fmt::join(cores, ", "), std::strerror(errno)));
}

ScopedBinding::ScopedBinding(const Cores &cores) {
  if (cores.empty())
    return;
  before = usableCores();
  bindThread(cores);
}

ScopedBinding::~ScopedBinding() {
  try {
    bindThread(before);
  } catch (const Error &) {
    // It could run on them before.
  }
}
