//===- ClusterTest.cpp - Devices, links and their JSON form ---------------===//
#include "pp/Planner/Cluster.h"
#include "gtest/gtest.h"
#include <fstream>
#include <map>
#include <sstream>

using namespace pp::planner;

namespace {

TEST(Cluster, roundTrip) {
  Cluster cluster = Cluster::cpuCores(3);
  cluster.devices[1].speed = 0.75;
  cluster.links[{0, 2}] = {1e9, 5e-6};
  cluster.links[{0, 1}] = {1e9, 5e-6, 2e-10};
  Result<Cluster> read = Cluster::fromJson(cluster.toJson());
  ASSERT_TRUE(bool(read)) << read.error();
  EXPECT_EQ(read->toJson(), cluster.toJson());
  EXPECT_EQ(read->devices[1].speed, 0.75);
  EXPECT_EQ(read->link(0, 2), (Link{1e9, 5e-6}));
  EXPECT_EQ(read->link(0, 1), (Link{1e9, 5e-6, 2e-10}));
  EXPECT_EQ(read->link(2, 0), cluster.defaultLink);
}

TEST(Cluster, transferTime) {
  EXPECT_DOUBLE_EQ((Link{1e9, 5e-6}).transferTime(1000000), 1.005e-3);
  EXPECT_DOUBLE_EQ((Link{1e9, 5e-6, 2e-10}).overheadTime(1000000), 2e-4);
}

TEST(Cluster, slowestLink) {
  Cluster cluster = Cluster::cpuCores(3);
  cluster.links[{0, 1}] = {1e9, 1e-6};
  cluster.links[{1, 2}] = {1e10, 1e-3};
  EXPECT_EQ(cluster.slowestLink(2), (Link{1e9, 2e-6}));
  EXPECT_EQ(cluster.slowestLink(3), (Link{1e9, 1e-3}));
}

Cluster load(const std::string &name) {
  std::ifstream file(PP_CLUSTERS "/" + name);
  std::stringstream text;
  text << file.rdbuf();
  Result<Cluster> cluster = Cluster::fromJson(text.str());
  EXPECT_TRUE(bool(cluster)) << name << ": " << cluster.error();
  return cluster ? *cluster : Cluster();
}

TEST(Cluster, readyFiles) {
  std::map<std::string, std::pair<size_t, size_t>> devicesAndLevels = {
      {"two-cores.json", {2, 1}},
      {"8xh200.json", {8, 1}},
      {"4x8xh200.json", {32, 2}},
      {"4xh200-4xa100.json", {8, 0}},
      {"1024xh200.json", {1024, 3}}};
  for (const auto &[name, expected] : devicesAndLevels) {
    Cluster cluster = load(name);
    EXPECT_EQ(cluster.devices.size(), expected.first) << name;
    EXPECT_EQ(cluster.levels() ? cluster.levels()->size() : 0, expected.second)
        << name;
    Result<Cluster> again = Cluster::fromJson(cluster.toJson());
    ASSERT_TRUE(bool(again)) << again.error();
    EXPECT_EQ(again->toJson(), cluster.toJson());
  }
}

TEST(Cluster, linkOfTheSmallestCommonGroup) {
  Cluster cluster = load("1024xh200.json");
  EXPECT_EQ(cluster.link(0, 7), (Link{400e9, 3e-6}));
  EXPECT_EQ(cluster.link(0, 8), (Link{45e9, 1e-5}));
  EXPECT_EQ(cluster.link(1023, 0), (Link{25e9, 2e-5}));
  EXPECT_EQ(cluster.slowestLink(8), (Link{400e9, 3e-6}));
  EXPECT_EQ(cluster.slowestLink(9), (Link{45e9, 1e-5}));
  EXPECT_EQ(cluster.slowestLink(1024), (Link{25e9, 2e-5}));
  EXPECT_EQ(cluster.devices[64 + 8 + 3].name, "rack1/node1/gpu3");
  cluster.links[{0, 7}] = {1e9, 0};
  EXPECT_EQ(cluster.link(0, 7), (Link{1e9, 0}));
  EXPECT_EQ(cluster.link(7, 0), (Link{400e9, 3e-6}));
  EXPECT_EQ(cluster.slowestLink(8), (Link{1e9, 3e-6}));
  EXPECT_EQ(cluster.levels(), std::nullopt);
}

TEST(Cluster, levels) {
  EXPECT_EQ(
      load("4x8xh200.json").levels(),
      (std::vector<Cluster::Level>{{8, {400e9, 3e-6}}, {4, {45e9, 8e-6}}}));
  // A device beside groups makes the tree irregular.
  Cluster cluster = load("4x8xh200.json");
  cluster.devices.push_back({"host", "cpu", 1, 1});
  EXPECT_EQ(cluster.levels(), std::nullopt);
}

TEST(Cluster, slowestLinkEqualsAllPairs) {
  Cluster cluster = load("4xh200-4xa100.json");
  cluster.links[{1, 5}] = {1e9, 0};
  cluster.links[{2, 3}] = {500e9, 1e-3};
  for (size_t count = 2; count <= 8; ++count) {
    Link slowest = cluster.link(0, 1), fastest = slowest;
    for (size_t a = 0; a < count; ++a)
      for (size_t b = 0; b < count; ++b)
        if (a != b) {
          Link link = cluster.link(a, b);
          slowest.bandwidth = std::min(slowest.bandwidth, link.bandwidth);
          slowest.latency = std::max(slowest.latency, link.latency);
          fastest.bandwidth = std::max(fastest.bandwidth, link.bandwidth);
          fastest.latency = std::min(fastest.latency, link.latency);
        }
    EXPECT_EQ(cluster.slowestLink(count), slowest) << count;
    EXPECT_EQ(cluster.fastestLink(count), fastest) << count;
  }
}

struct BadJson {
  const char *text, *error;
};

void PrintTo(const BadJson &bad, std::ostream *out) { *out << bad.error; }

class ClusterErrors : public testing::TestWithParam<BadJson> {};

TEST_P(ClusterErrors, nameThePath) {
  Result<Cluster> cluster = Cluster::fromJson(GetParam().text);
  ASSERT_FALSE(bool(cluster));
  EXPECT_EQ(cluster.error().find(GetParam().error), 0u) << cluster.error();
}

#define LINK R"("default_link": {"bandwidth": 1, "latency": 0})"
#define ROOT(MEMBERS)                                                          \
  R"({"version": 2, "root": {"link": {"bandwidth": 1, "latency": 0}, )"        \
  R"("members": )" MEMBERS "}}"
INSTANTIATE_TEST_SUITE_P(
    Json, ClusterErrors,
    testing::Values(
        BadJson{"", "$: this is not JSON"}, BadJson{"{", "$: this is not"},
        BadJson{"[]", "$: expected an object"},
        BadJson{"{}", "$: 'version' is missing"},
        BadJson{R"({"version": 3})",
                "$.version: expected a whole number from 1 to 2"},
        BadJson{R"({"version": 2})", "$: 'root' is missing"},
        BadJson{R"({"version": 2, "root": {"members": []}})",
                "$.root: 'link' is missing"},
        BadJson{ROOT("[]"), "$: the cluster has no devices"},
        BadJson{ROOT(R"([{"name": "n", "members": []}])"),
                "$.root.members[0]: 'link' is missing"},
        BadJson{ROOT(R"([{"name": "n", "members": [], "link":
                {"bandwidth": 1, "latency": 0}}])"),
                "$.root.members[0].members: a group needs a member"},
        BadJson{ROOT(R"([{"members": [], "link":
                {"bandwidth": 1, "latency": 0}}])"),
                "$.root.members[0]: 'name' is missing"},
        BadJson{ROOT(R"([{"name": "n", "members": [{"name": "d"}], "link":
                {"bandwidth": 1, "latency": 0}}])"),
                "$.root.members[0].members[0]: 'memory_bytes' is missing"},
        BadJson{ROOT(R"([{"name": "d", "memory_bytes": 1, "count": 0}])"),
                "$.root.members[0].count: expected a whole number from 1"},
        BadJson{ROOT(R"([{"name": "d", "memory_bytes": 1, "count": 65536},
                {"name": "e", "memory_bytes": 1}])"),
                "$.root.members[1]: there are more than 65536 devices"},
        BadJson{ROOT(R"([{"name": "d", "memory_bytes": 1, "count": 2},
                {"name": "d1", "memory_bytes": 1}])"),
                "$.root.members[1].name: 'd1' is named twice"},
        BadJson{ROOT(R"([{"name": "d", "memory_bytes": 1,
                "communicates": 1}])"),
                "$.root.members[0].communicates: expected true or false"},
        BadJson{R"({"version": 1, "devices": [], )" LINK "}",
                "$: the cluster has no devices"},
        BadJson{R"({"version": 1, "devices": {}, )" LINK "}",
                "$.devices: expected an array"},
        BadJson{R"({"version": 1, "devices": [{"name": 1}], )" LINK "}",
                "$.devices[0].name: expected a string"},
        BadJson{R"({"version": 1, "devices": [{"name": "a"}], )" LINK "}",
                "$.devices[0]: 'memory_bytes' is missing"},
        BadJson{R"({"version": 1, "devices":
                [{"name": "a", "memory_bytes": -1}], )" LINK "}",
                "$.devices[0].memory_bytes: expected a number of bytes"},
        BadJson{R"({"version": 1, "devices":
                [{"name": "a", "memory_bytes": 1, "speed": 0}], )" LINK "}",
                "$.devices[0].speed: expected a number above 0"},
        BadJson{R"({"version": 1, "devices":
                [{"name": "a", "memory_bytes": 1, "sped": 1}], )" LINK "}",
                "$.devices[0].sped: unknown key"},
        BadJson{R"({"version": 1, "devices":
                [{"name": "a", "memory_bytes": 1},
                 {"name": "a", "memory_bytes": 1}], )" LINK "}",
                "$.devices[1].name: 'a' is named twice"},
        BadJson{R"({"version": 1, "devices":
                [{"name": "a", "memory_bytes": 1}],
                "links": [{"from": "a", "to": "b", "bandwidth": 1,
                           "latency": 0}], )" LINK "}",
                "$.links[0].to: there is no device 'b'"},
        BadJson{R"({"version": 1, "devices":
                [{"name": "a", "memory_bytes": 1}], "default_link":
                {"bandwidth": 1, "latency": 0, "overhead": -1}})",
                "$.default_link.overhead: expected a number"},
        BadJson{R"({"version": 1, "devices":
                [{"name": "a", "memory_bytes": 1}], "default_link":
                {"bandwidth": 1e999, "latency": 0}})",
                "$"}));

TEST(Cluster, deepNestingIsRefused) {
  Result<Cluster> cluster = Cluster::fromJson(std::string(1000000, '['));
  ASSERT_FALSE(bool(cluster));
}

} // namespace
