//===- LinksCommand.cpp - `links` -----------------------------------------===//
//
// Writes what pp-plan has to know of the machines of a job (see
// docs/cluster-format.md): the cores that each process may use, and the links
// within a process, between processes of a machine, and between machines.
//
//===----------------------------------------------------------------------===//
#include "cli/RunOnAllProcesses.h"
#include "exec/LinkTimes.h"
#include "support/AtomicFile.h"
#include "support/Cores.h"
#include "support/Print.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>
#include <unistd.h>

using namespace pp::runtime;
using Json = nlohmann::ordered_json;

namespace {

/// What a process tells the first one.
struct ProcessReport {
  std::string host;
  unsigned machine; // the first process of the machine that it is on
  Cores cores;      // that it may run on
  uint64_t memory;  // bytes that the machine has free
  std::vector<LinkTime> links;

  std::string toText() const;
  static ProcessReport parse(const std::string &text);
};

/// Several measured links taken for one.
struct LinkSummary {
  std::vector<double> latencies, bandwidths, overheads;

  void add(const LinkTime &link) {
    latencies.push_back(link.latency);
    bandwidths.push_back(link.bandwidth);
    overheads.push_back(link.overhead);
  }
  static double median(std::vector<double> values) {
    auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
    std::ranges::nth_element(values, middle);
    return *middle;
  }
  double latency() const { return median(latencies); }
  double bandwidth() const { return median(bandwidths); }
  double overhead() const { return median(overheads); }
  Json toJson() const {
    return {{"bandwidth", bandwidth()},
            {"latency", latency()},
            {"overhead", overhead()}};
  }
  /// Whether a link is so far from the others that they do not stand for it.
  bool isFarFrom(const LinkTime &link) const {
    auto isFar = [](double a, double b) { return a > 2 * b || b > 2 * a; };
    return isFar(link.latency, latency()) || isFar(link.bandwidth, bandwidth());
  }
  std::string describe(const char *what) const {
    auto [low, high] = std::ranges::minmax(bandwidths);
    auto [soon, late] = std::ranges::minmax(latencies);
    return fmt::format("{:<16}{:>6}  {:9.2f} us ({:.2f} to {:.2f})  {:8.3f} "
                       "GB/s ({:.3f} to {:.3f})  {:.3f} ms/MB\n",
                       what, latencies.size(), 1e6 * latency(), 1e6 * soon,
                       1e6 * late, 1e-9 * bandwidth(), 1e-9 * low, 1e-9 * high,
                       1e9 * overhead());
  }
};

/// The file of all reports, by process.
class ClusterFile {
public:
  explicit ClusterFile(std::vector<ProcessReport> reports);
  Json toJson() const;
  /// A line for each level.
  std::string toTable() const;

private:
  /// The group of a process or a machine, or, of one, its only member.
  struct Group {
    std::string name;
    std::vector<Json> members;
    LinkSummary links;
  };
  static Json toJson(const Group &group);
  Json device(unsigned process, const std::string &name) const;
  std::vector<std::string> deviceNames(unsigned process) const;
  void addLinks(Json &json, const LinkTime &link) const;
  Group makeMachine(unsigned machine) const;

  std::vector<ProcessReport> reports;
  std::map<unsigned, std::vector<unsigned>> machines; // processes, by the first
  std::map<unsigned, std::string> names;              // of machines
  std::vector<unsigned> devices;                      // by process, how many
  std::map<unsigned, unsigned> devicesOf;             // by machine
  LinkSummary within, ofMachine, between;             // by level
};

} // namespace

std::string ProcessReport::toText() const {
  Json times = Json::array();
  for (const LinkTime &link : links)
    times.push_back(
        {link.from, link.to, link.latency, link.bandwidth, link.overhead});
  return Json{{"host", host},
              {"machine", machine},
              {"cores", cores},
              {"memory", memory},
              {"links", times}}
      .dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

ProcessReport ProcessReport::parse(const std::string &text) {
  Json json = Json::parse(text);
  ProcessReport report{
      json["host"], json["machine"], json["cores"], json["memory"], {}};
  for (const Json &link : json["links"])
    report.links.push_back({link[0], link[1], link[2], link[3], link[4]});
  return report;
}

/// Processes of a machine that may use the same cores divide them.
static std::vector<unsigned>
countDevices(const std::vector<ProcessReport> &reports) {
  std::map<std::pair<unsigned, unsigned>, unsigned> users; // machine, core
  for (const ProcessReport &report : reports)
    for (unsigned core : report.cores)
      ++users[{report.machine, core}];
  std::vector<unsigned> counts;
  for (const ProcessReport &report : reports) {
    double share = 0;
    for (unsigned core : report.cores)
      share += 1.0 / users[{report.machine, core}];
    counts.push_back(std::max(1U, static_cast<unsigned>(share + 1e-6)));
  }
  return counts;
}

ClusterFile::ClusterFile(std::vector<ProcessReport> all)
    : reports(std::move(all)), devices(countDevices(reports)) {
  std::map<std::string, unsigned> hosts;
  for (unsigned p = 0; p < reports.size(); ++p) {
    unsigned machine = reports[p].machine;
    if (machine == p) {
      std::string name = reports[p].host.empty() ? "machine" : reports[p].host;
      std::ranges::replace(name, '/', '-');
      unsigned number = hosts[name]++;
      names[p] = number ? fmt::format("{}-{}", name, number + 1) : name;
    }
    machines[machine].push_back(p);
    devicesOf[machine] += devices[p];
    for (const LinkTime &link : reports[p].links)
      (link.to == p                          ? within
       : reports[link.to].machine == machine ? ofMachine
                                             : between)
          .add(link);
  }
}

std::string ClusterFile::toTable() const {
  std::string text = fmt::format(
      "{:<16}{:>6}  {}\n", "between", "links",
      "latency                       bandwidth                   busy");
  text += within.describe("threads");
  if (!ofMachine.latencies.empty())
    text += ofMachine.describe("processes");
  if (!between.latencies.empty())
    text += between.describe("machines");
  return text;
}

Json ClusterFile::device(unsigned process, const std::string &name) const {
  unsigned machine = reports[process].machine;
  Json json{{"name", name},
            {"kind", "cpu"},
            {"memory_bytes", reports[machine].memory / devicesOf.at(machine)}};
  if (devices[process] > 1)
    json["count"] = devices[process];
  return json;
}

Json ClusterFile::toJson(const Group &group) {
  Json json;
  if (!group.name.empty())
    json["name"] = group.name;
  json["link"] = group.links.toJson();
  json["members"] = group.members;
  return json;
}

/// The full names of a process's devices.
std::vector<std::string> ClusterFile::deviceNames(unsigned process) const {
  unsigned machine = reports[process].machine, count = devices[process];
  bool isAlone = machines.at(machine).size() == 1;
  std::string prefix = machines.size() > 1 ? names.at(machine) + "/" : "";
  if (!isAlone)
    prefix += fmt::format("process{}", process);
  if (count == 1)
    return {isAlone ? prefix + "core" : prefix};
  std::vector<std::string> result;
  for (unsigned i = 0; i < count; ++i)
    result.push_back(fmt::format("{}{}core{}", prefix, isAlone ? "" : "/", i));
  return result;
}

void ClusterFile::addLinks(Json &json, const LinkTime &link) const {
  for (const std::string &from : deviceNames(link.from))
    for (const std::string &to : deviceNames(link.to))
      for (bool isBack : {false, true})
        json["links"].push_back({{"from", isBack ? to : from},
                                 {"to", isBack ? from : to},
                                 {"bandwidth", link.bandwidth},
                                 {"latency", link.latency},
                                 {"overhead", link.overhead}});
}

ClusterFile::Group ClusterFile::makeMachine(unsigned machine) const {
  const std::vector<unsigned> &processes = machines.at(machine);
  Group result;
  for (unsigned p : processes) {
    if (processes.size() == 1) {
      result.members.push_back(device(p, "core"));
      result.links.add(reports[p].links.front());
      continue;
    }
    for (const LinkTime &link : reports[p].links)
      if (link.to != p && reports[link.to].machine == machine)
        result.links.add(link);
    Group process{fmt::format("process{}", p), {}, {}};
    process.members.push_back(device(p, "core"));
    process.links.add(reports[p].links.front());
    result.members.push_back(devices[p] > 1 ? toJson(process)
                                            : device(p, process.name));
  }
  return result;
}

Json ClusterFile::toJson() const {
  Group root;
  if (machines.size() == 1) {
    root = makeMachine(machines.begin()->first);
  } else {
    root.links = between;
    for (const auto &[machine, processes] : machines) {
      Group group = makeMachine(machine);
      group.name = names.at(machine);
      root.members.push_back(toJson(group));
    }
  }
  Json json{{"version", 2}, {"root", toJson(root)}};
  for (const ProcessReport &report : reports)
    for (const LinkTime &link : report.links)
      if (reports[link.to].machine != report.machine && between.isFarFrom(link))
        addLinks(json, link);
  return json;
}

/// Bytes that can be allocated; 0 where the system does not say.
static uint64_t availableMemory() {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  for (uint64_t kilobytes = 0; file >> key >> kilobytes;
       std::getline(file, unit))
    if (key == "MemAvailable:")
      return kilobytes << 10;
  auto pages = sysconf(_SC_AVPHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
  return pages > 0 ? static_cast<uint64_t>(pages) * bytes : 0;
}

static ProcessReport reportOf(const ProcessGroup &group,
                              std::vector<LinkTime> links) {
  std::string host(256, '\0');
  if (gethostname(host.data(), host.size()) != 0)
    host.clear();
  host.resize(host.find('\0') == std::string::npos ? host.size()
                                                   : host.find('\0'));
  unsigned machine = group.process();
  for (unsigned other = group.process(); other-- > 0;)
    if (group.isOnThisMachine(other))
      machine = other;
  return {host, machine, usableCores(), availableMemory(), std::move(links)};
}

int pp::runtime::runLinks(const LinksOptions &given) {
  RunOptions options = given;
  options.device = "cpu";
  // No process has anything of its own that could differ.
  return runOnAllProcesses(
      pp_binary{}, options, {}, "links", [&](ProcessGroup &group) {
        // That it cannot be written shall show before the work is done.
        std::optional<AtomicFile> file;
        if (group.isFirst())
          file.emplace(given.output);
        std::vector<std::string> texts =
            group.gather(reportOf(group, measureLinks(group)).toText());
        if (!group.isFirst())
          return 0;
        std::vector<ProcessReport> reports;
        for (const std::string &text : texts)
          reports.push_back(ProcessReport::parse(text));
        ClusterFile cluster(std::move(reports));
        file->write(cluster.toJson().dump(2) + "\n");
        file->commit();
        printOutput("{}", cluster.toTable());
        return 0;
      });
}
