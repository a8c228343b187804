//===- ClusterTest.cpp - Devices, links and their JSON form ---------------===//
#include "pp/Planner/Cluster.h"
#include "gtest/gtest.h"

using namespace pp::planner;

namespace {

TEST(Cluster, roundTrip) {
  Cluster cluster = Cluster::cpuCores(3);
  cluster.devices[1].speed = 0.75;
  cluster.links[{0, 2}] = {1e9, 5e-6};
  Result<Cluster> read = Cluster::fromJson(cluster.toJson());
  ASSERT_TRUE(bool(read)) << read.error();
  EXPECT_EQ(read->toJson(), cluster.toJson());
  EXPECT_EQ(read->devices[1].speed, 0.75);
  EXPECT_EQ(read->link(0, 2), (Link{1e9, 5e-6}));
  EXPECT_EQ(read->link(2, 0), cluster.defaultLink);
}

TEST(Cluster, transferTime) {
  EXPECT_DOUBLE_EQ((Link{1e9, 5e-6}).transferTime(1000000), 1.005e-3);
}

TEST(Cluster, slowestLink) {
  Cluster cluster = Cluster::cpuCores(3);
  cluster.links[{0, 1}] = {1e9, 1e-6};
  cluster.links[{1, 2}] = {1e10, 1e-3};
  EXPECT_EQ(cluster.slowestLink(2), (Link{1e9, 2e-6}));
  EXPECT_EQ(cluster.slowestLink(3), (Link{1e9, 1e-3}));
}

struct BadJson {
  const char *text, *error;
};

class ClusterErrors : public testing::TestWithParam<BadJson> {};

TEST_P(ClusterErrors, nameThePath) {
  Result<Cluster> cluster = Cluster::fromJson(GetParam().text);
  ASSERT_FALSE(bool(cluster));
  EXPECT_EQ(cluster.error().find(GetParam().error), 0u) << cluster.error();
}

#define LINK R"("default_link": {"bandwidth": 1, "latency": 0})"
INSTANTIATE_TEST_SUITE_P(
    Json, ClusterErrors,
    testing::Values(
        BadJson{"", "$: this is not JSON"}, BadJson{"{", "$: this is not"},
        BadJson{"[]", "$: expected an object"},
        BadJson{"{}", "$: 'version' is missing"},
        BadJson{R"({"version": 2})", "$.version: expected 1"},
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
                {"bandwidth": 1e999, "latency": 0}})",
                "$"}));

TEST(Cluster, deepNestingIsRefused) {
  Result<Cluster> cluster = Cluster::fromJson(std::string(1000000, '['));
  ASSERT_FALSE(bool(cluster));
}

} // namespace
