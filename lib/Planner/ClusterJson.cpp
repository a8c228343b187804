//===- ClusterJson.cpp - The file format of clusters ----------------------===//
#include "ClusterJson.h"
#include "pp/Planner/Cluster.h"

using namespace pp::planner;

namespace {

constexpr size_t mostDevices = 65536;

class Reader {
public:
  Result<Cluster> read(const Json &json, const std::string &path) {
    ObjectReader root(json, path, error);
    std::optional<int64_t> version = root.integer("version", 1, 2);
    if (version == 1) {
      if (const Json *link = root.member("default_link"))
        cluster.defaultLink = readLink(*link, path + ".default_link");
      root.array("devices", true,
                 [&](const Json &json, const std::string &path) {
                   readDevice(json, path, "", std::nullopt);
                 });
    } else if (version == 2) {
      if (const Json *group = root.member("root"))
        readGroup(*group, path + ".root", "", "", std::nullopt);
    }
    root.array("links", false, [&](const Json &json, const std::string &path) {
      readPairLink(json, path);
    });
    root.finish();
    if (error.empty())
      if (std::optional<std::string> fault = cluster.check())
        error = path + ": " + *fault;
    if (!error.empty())
      return Failure{error};
    return std::move(cluster);
  }

private:
  Link readLink(const Json &json, const std::string &path) {
    Link link;
    ObjectReader reader(json, path, error);
    readLinkMembers(reader, link);
    reader.finish();
    return link;
  }

  static void readLinkMembers(ObjectReader &reader, Link &link) {
    reader.number("bandwidth", link.bandwidth, 0, /*above=*/true);
    reader.number("latency", link.latency, 0, /*above=*/false);
    reader.number("overhead", link.overhead, 0, /*above=*/false,
                  /*required=*/false);
  }

  size_t readCount(ObjectReader &reader) {
    return reader.integer("count", 1, mostDevices, /*required=*/false)
        .value_or(0);
  }

  /// With a count, members are numbered from 0.
  static std::string numbered(const std::string &name, size_t count,
                              size_t index) {
    return count == 0 ? name : name + std::to_string(index);
  }

  void readDevice(const Json &json, const std::string &path,
                  const std::string &prefix, std::optional<size_t> group) {
    ObjectReader reader(json, path, error);
    Device device;
    reader.text("name", device.name);
    reader.text("kind", device.kind, /*required=*/false);
    reader.bytes("memory_bytes", device.memoryBytes);
    reader.number("speed", device.speed, 0, /*above=*/true,
                  /*required=*/false);
    reader.flag("communicates", device.communicates);
    size_t count = readCount(reader);
    reader.finish();
    for (size_t i = 0; i < std::max<size_t>(count, 1) && error.empty(); ++i) {
      Device copy = device;
      copy.name = prefix + numbered(device.name, count, i);
      if (cluster.devices.size() == mostDevices)
        reader.fail("", "there are more than " + std::to_string(mostDevices) +
                            " devices");
      else if (!byName.emplace(copy.name, cluster.devices.size()).second)
        reader.fail("name", "'" + copy.name + "' is named twice");
      cluster.devices.push_back(std::move(copy));
      cluster.groupOf.push_back(group);
    }
  }

  /// Reads one group; `name` is empty for the root.
  void readGroup(const Json &json, const std::string &path,
                 const std::string &name, const std::string &prefix,
                 std::optional<size_t> parent) {
    ObjectReader reader(json, path, error);
    Link link;
    if (const Json *member = reader.member("link"))
      link = readLink(*member, path + ".link");
    std::optional<size_t> self;
    std::string inner;
    if (name.empty()) {
      cluster.defaultLink = link;
    } else {
      reader.member("name");
      reader.member("count", false);
      self = cluster.groups.size();
      if (cluster.groups.size() == mostDevices)
        reader.fail("", "there are more than " + std::to_string(mostDevices) +
                            " groups");
      cluster.groups.push_back({prefix + name, link, parent});
      inner = prefix + name + "/";
    }
    size_t members = 0;
    reader.array(
        "members", true, [&](const Json &json, const std::string &path) {
          ++members;
          if (!json.is_object() || !json.contains("members")) {
            readDevice(json, path, inner, self);
            return;
          }
          ObjectReader group(json, path, error);
          std::string groupName;
          group.text("name", groupName);
          if (groupName.empty())
            group.fail("name", "expected a name");
          size_t count = readCount(group);
          for (size_t i = 0; i < std::max<size_t>(count, 1) && error.empty();
               ++i) {
            std::string full = inner + numbered(groupName, count, i);
            if (!groupNames.insert(full).second)
              group.fail("name", "'" + full + "' is named twice");
            readGroup(json, path, numbered(groupName, count, i), inner, self);
          }
        });
    if (members == 0 && !name.empty())
      reader.fail("members", "a group needs a member");
    reader.finish();
  }

  void readPairLink(const Json &json, const std::string &path) {
    ObjectReader reader(json, path, error);
    std::string from, to;
    reader.text("from", from);
    reader.text("to", to);
    Link link;
    readLinkMembers(reader, link);
    reader.finish();
    if (!byName.count(from))
      reader.fail("from", "there is no device '" + from + "'");
    else if (!byName.count(to))
      reader.fail("to", "there is no device '" + to + "'");
    else if (!cluster.links.emplace(std::pair(byName[from], byName[to]), link)
                  .second)
      reader.fail("", "the link is stated twice");
  }

  Cluster cluster;
  std::string error;
  std::map<std::string, size_t> byName;
  std::set<std::string> groupNames;
};

Json linkToJson(const Link &link) {
  Json json;
  json["bandwidth"] = link.bandwidth;
  json["latency"] = link.latency;
  if (link.overhead > 0)
    json["overhead"] = link.overhead;
  return json;
}

/// What follows the prefix of its group.
std::string localName(const Cluster &cluster, const std::string &name,
                      std::optional<size_t> group) {
  return group ? name.substr(cluster.groups[*group].name.size() + 1) : name;
}

} // namespace

Result<Cluster> Cluster::fromJson(std::string_view text) {
  Result<Json> json = parseJson(text);
  if (!json)
    return Failure{json.error()};
  return Reader().read(*json, "$");
}

std::string Cluster::toJson() const { return printJson(clusterToJson(*this)); }

Result<Cluster> pp::planner::readCluster(const Json &json,
                                         const std::string &path) {
  return Reader().read(json, path);
}

Json pp::planner::clusterToJson(const Cluster &cluster) {
  const auto &[devices, defaultLink, links, groups, groupOf] = cluster;
  // Children follow their parents, so an object is complete before it is put
  // into its parent when groups are taken from the last to the first. Devices
  // of a group come before its groups.
  std::vector<Json> members(groups.size() + 1, Json::array());
  for (size_t i = 0; i < devices.size(); ++i) {
    std::optional<size_t> group =
        i < groupOf.size() ? groupOf[i] : std::nullopt;
    Json entry;
    entry["name"] = localName(cluster, devices[i].name, group);
    entry["kind"] = devices[i].kind;
    entry["memory_bytes"] = devices[i].memoryBytes;
    entry["speed"] = devices[i].speed;
    if (!devices[i].communicates)
      entry["communicates"] = false;
    members[group ? *group : groups.size()].push_back(std::move(entry));
  }
  std::vector<std::vector<size_t>> children(groups.size() + 1);
  for (size_t i = 0; i < groups.size(); ++i)
    children[groups[i].parent ? *groups[i].parent : groups.size()].push_back(i);
  std::vector<Json> done(groups.size());
  for (size_t i = groups.size(); i-- > 0;) {
    for (size_t child : children[i])
      members[i].push_back(std::move(done[child]));
    done[i]["name"] = localName(cluster, groups[i].name, groups[i].parent);
    done[i]["link"] = linkToJson(groups[i].link);
    done[i]["members"] = std::move(members[i]);
  }
  for (size_t child : children[groups.size()])
    members[groups.size()].push_back(std::move(done[child]));
  Json json;
  json["version"] = 2;
  json["root"]["link"] = linkToJson(defaultLink);
  json["root"]["members"] = std::move(members[groups.size()]);
  json["links"] = Json::array();
  for (const auto &[pair, link] : links) {
    Json entry;
    entry["from"] = devices[pair.first].name;
    entry["to"] = devices[pair.second].name;
    entry.update(linkToJson(link));
    json["links"].push_back(std::move(entry));
  }
  return json;
}
