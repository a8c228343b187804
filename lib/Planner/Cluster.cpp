//===- Cluster.cpp - Where a plan runs: devices and links -----------------===//
#include "pp/Planner/Cluster.h"
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

using namespace pp::planner;
using Json = nlohmann::ordered_json;

Link Cluster::link(size_t from, size_t to) const {
  auto found = links.find({from, to});
  return found == links.end() ? defaultLink : found->second;
}

Link Cluster::slowestLink(size_t count) const {
  if (count < 2)
    return defaultLink;
  // With few explicit links the default one is used somewhere.
  std::optional<Link> slowest;
  size_t explicitPairs = 0;
  auto meet = [&](const Link &link) {
    if (!slowest) {
      slowest = link;
      return;
    }
    slowest->bandwidth = std::min(slowest->bandwidth, link.bandwidth);
    slowest->latency = std::max(slowest->latency, link.latency);
  };
  for (const auto &[pair, link] : links)
    if (pair.first < count && pair.second < count) {
      ++explicitPairs;
      meet(link);
    }
  if (explicitPairs < count * (count - 1))
    meet(defaultLink);
  return *slowest;
}

static bool isPositive(double value) {
  return std::isfinite(value) && value > 0;
}

static bool isLink(const Link &link) {
  return isPositive(link.bandwidth) && std::isfinite(link.latency) &&
         link.latency >= 0;
}

std::optional<std::string> Cluster::check() const {
  if (devices.empty())
    return "the cluster has no devices";
  std::set<std::string> names;
  for (const Device &device : devices) {
    if (!names.insert(device.name).second)
      return "two devices are named '" + device.name + "'";
    if (device.memoryBytes < 0)
      return "device '" + device.name + "' has less than no memory";
    if (!isPositive(device.speed))
      return "the speed of device '" + device.name + "' is not above 0";
  }
  if (!isLink(defaultLink))
    return "the default link needs a bandwidth above 0 and a latency of 0 or "
           "more";
  for (const auto &[pair, link] : links) {
    if (pair.first >= devices.size() || pair.second >= devices.size() ||
        pair.first == pair.second)
      return "a link does not connect two devices";
    if (!isLink(link))
      return "the link from '" + devices[pair.first].name + "' to '" +
             devices[pair.second].name +
             "' needs a bandwidth above 0 and a latency of 0 or more";
  }
  return std::nullopt;
}

namespace {

/// Reads members of one JSON object; the first fault stays in `error`.
class ObjectReader {
public:
  ObjectReader(const Json &object, std::string path, std::string &error)
      : object(object), path(std::move(path)), error(error) {
    if (!object.is_object())
      fail("", "expected an object");
  }

  const Json *member(const char *key, bool required = true) {
    known.insert(key);
    if (!object.is_object())
      return nullptr;
    auto found = object.find(key);
    if (found != object.end())
      return &*found;
    if (required)
      fail("", std::string("'") + key + "' is missing");
    return nullptr;
  }

  void number(const char *key, double &value, double least, bool above,
              bool required = true) {
    const Json *json = member(key, required);
    if (!json)
      return;
    bool good = json->is_number();
    double number = good ? json->get<double>() : 0;
    good = good && std::isfinite(number) &&
           (above ? number > least : number >= least);
    if (good)
      value = number;
    else
      fail(key, std::string("expected a number ") +
                    (above ? "above 0" : "of 0 or more"));
  }

  void text(const char *key, std::string &value, bool required = true) {
    const Json *json = member(key, required);
    if (json && json->is_string())
      value = json->get<std::string>();
    else if (json)
      fail(key, "expected a string");
  }

  void bytes(const char *key, int64_t &value) {
    const Json *json = member(key);
    if (!json)
      return;
    if (json->is_number_unsigned() && json->get<uint64_t>() <= INT64_MAX)
      value = json->get<int64_t>();
    else
      fail(key, "expected a number of bytes");
  }

  void finish() {
    if (object.is_object())
      for (auto &[key, value] : object.items())
        if (!known.count(key))
          fail(key, "unknown key");
  }

  void fail(const std::string &key, const std::string &message) {
    if (error.empty())
      error = path + (key.empty() ? "" : "." + key) + ": " + message;
  }

private:
  const Json &object;
  std::string path;
  std::string &error;
  std::set<std::string> known;
};

void readLink(ObjectReader &reader, Link &link) {
  reader.number("bandwidth", link.bandwidth, 0, /*above=*/true);
  reader.number("latency", link.latency, 0, /*above=*/false);
}

} // namespace

Result<Cluster> Cluster::fromJson(std::string_view text) {
  // The parser recurses: a cluster has four levels.
  int depth = 0;
  bool tooDeep = false;
  auto limitDepth = [&](int level, Json::parse_event_t, Json &) {
    depth = std::max(depth, level);
    tooDeep |= level > 16;
    return !tooDeep;
  };
  Json json = Json::parse(text.begin(), text.end(), limitDepth,
                          /*allow_exceptions=*/false);
  if (tooDeep)
    return Failure{"$: nested too deep"};
  if (json.is_discarded())
    return Failure{"$: this is not JSON"};
  std::string error;
  Cluster cluster;
  ObjectReader root(json, "$", error);
  double version = 0;
  root.number("version", version, 0, /*above=*/true);
  if (error.empty() && version != 1)
    root.fail("version", "expected 1");
  std::map<std::string, size_t> byName;
  if (const Json *devices = root.member("devices")) {
    if (!devices->is_array())
      root.fail("devices", "expected an array");
    else
      for (size_t i = 0; i < devices->size(); ++i) {
        ObjectReader reader((*devices)[i],
                            "$.devices[" + std::to_string(i) + "]", error);
        Device device;
        reader.text("name", device.name);
        reader.text("kind", device.kind, /*required=*/false);
        reader.bytes("memory_bytes", device.memoryBytes);
        reader.number("speed", device.speed, 0, /*above=*/true,
                      /*required=*/false);
        reader.finish();
        if (!byName.emplace(device.name, i).second)
          reader.fail("name", "'" + device.name + "' is named twice");
        cluster.devices.push_back(std::move(device));
      }
  }
  if (const Json *link = root.member("default_link")) {
    ObjectReader reader(*link, "$.default_link", error);
    readLink(reader, cluster.defaultLink);
    reader.finish();
  }
  if (const Json *links = root.member("links", /*required=*/false)) {
    if (!links->is_array())
      root.fail("links", "expected an array");
    else
      for (size_t i = 0; i < links->size(); ++i) {
        ObjectReader reader((*links)[i], "$.links[" + std::to_string(i) + "]",
                            error);
        std::string from, to;
        reader.text("from", from);
        reader.text("to", to);
        Link link;
        readLink(reader, link);
        reader.finish();
        if (!byName.count(from))
          reader.fail("from", "there is no device '" + from + "'");
        else if (!byName.count(to))
          reader.fail("to", "there is no device '" + to + "'");
        else if (!cluster.links
                      .emplace(std::pair(byName[from], byName[to]), link)
                      .second)
          reader.fail("", "the link is stated twice");
      }
  }
  root.finish();
  if (error.empty())
    if (std::optional<std::string> fault = cluster.check())
      error = "$: " + *fault;
  if (!error.empty())
    return Failure{error};
  return cluster;
}

std::string Cluster::toJson() const {
  auto putLink = [](Json &json, const Link &link) {
    json["bandwidth"] = link.bandwidth;
    json["latency"] = link.latency;
  };
  Json json;
  json["version"] = 1;
  json["devices"] = Json::array();
  for (const Device &device : devices) {
    Json entry;
    entry["name"] = device.name;
    entry["kind"] = device.kind;
    entry["memory_bytes"] = device.memoryBytes;
    entry["speed"] = device.speed;
    json["devices"].push_back(std::move(entry));
  }
  putLink(json["default_link"], defaultLink);
  json["links"] = Json::array();
  for (const auto &[pair, link] : links) {
    Json entry;
    entry["from"] = devices[pair.first].name;
    entry["to"] = devices[pair.second].name;
    putLink(entry, link);
    json["links"].push_back(std::move(entry));
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Cluster Cluster::cpuCores(size_t count) {
  Cluster cluster;
  for (size_t i = 0; i < count; ++i)
    cluster.devices.push_back(
        {"core" + std::to_string(i), "cpu", int64_t(4) << 30, 1});
  cluster.defaultLink = {8e9, 2e-6};
  return cluster;
}
