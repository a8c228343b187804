//===- PlanTest.cpp - Every malformed plan names its path -----------------===//
#include "plan/Plan.h"
#include "TestFiles.h"
#include "ToyProgram.h"
#include "exec/OptimizerScalars.h"
#include "plan/PlanJson.h"
#include "plan/SharePlan.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

using namespace pp::runtime;
using nlohmann::ordered_json;

namespace {

ordered_json validPlan() {
  return toy::trainingPlan({{0, 1, 2}, true, false, 0});
}

struct Fault {
  const char *expected; // in the message
  std::function<void(ordered_json &)> apply;
};

void PrintTo(const Fault &fault, std::ostream *out) { *out << fault.expected; }

class PlanFaultTest : public testing::TestWithParam<Fault> {};

TEST_P(PlanFaultTest, NamesThePath) {
  ordered_json plan = validPlan();
  ASSERT_EQ(errorOf([&] { Plan::parse(plan.dump()); }), "no error");
  GetParam().apply(plan);
  std::string message = errorOf([&] { Plan::parse(plan.dump()); });
  EXPECT_NE(message.find(GetParam().expected), std::string::npos) << message;
}

/// Position of the first action of a rank with this kind.
size_t find(const ordered_json &plan, size_t rank, const char *kind) {
  const auto &actions = plan["ranks"][rank]["actions"];
  for (size_t i = 0; i < actions.size(); ++i)
    if (actions[i][0] == kind)
      return i;
  return size_t(-1);
}

#define FAULT(expected, ...)                                                   \
  Fault {                                                                      \
    expected, [](ordered_json &p) { __VA_ARGS__; }                             \
  }

INSTANTIATE_TEST_SUITE_P(
    All, PlanFaultTest,
    testing::Values(
        FAULT("version: 2", p["version"] = 2),
        FAULT("key 'version'", p.erase("version")),
        FAULT("version: expected an integer", p["version"] = "1"),
        FAULT("mode: unknown mode", p["mode"] = "test"),
        FAULT("model: expected a string", p["model"] = 1),
        FAULT("microbatches: 3", p["microbatches"] = 3),
        FAULT("microbatches: 0", p["microbatches"] = 0),
        FAULT("batch: expected an integer", p["batch"] = -8),
        FAULT("weights_bytes: 1 entries", p["weights_bytes"] = {1}),
        FAULT("feeds[0].dtype: unknown", p["feeds"][0]["dtype"] = "f8"),
        FAULT("feeds[0].shape: axis 0", p["feeds"][0]["shape"] = {3, 4}),
        FAULT("feeds[1].name: 'x'", p["feeds"][1]["name"] = "x"),
        FAULT("feeds[0].role", p["feeds"][0]["role"] = "label"),
        FAULT("feeds[0].shape[1]", p["feeds"][0]["shape"] = {2, -4}),
        FAULT("feeds[0].role: a random counter",
              p["feeds"][0]["role"] = "random_counter"),
        FAULT("feeds[0].class_weights: expected a number for each label",
              p["feeds"][0]["class_weights"] = {1, 2}),
        FAULT("feeds[0].class_weights[1]: expected 0 or more",
              p["feeds"][0]["class_weights"] = {1, -2}),
        FAULT("feeds[0].counted: only a loss weight",
              p["feeds"][0]["counted"] = "target"),
        FAULT("feeds[0].compared: only targets",
              p["feeds"][0]["compared"] = "y"),
        FAULT("feeds[1].counted: there are no targets 'nowhere'",
              p["feeds"][1] = nlohmann::json({{"name", "loss_weight"},
                                              {"role", "loss_weight"},
                                              {"dtype", "f32"},
                                              {"shape",
                                               nlohmann::json::array()},
                                              {"batched", false},
                                              {"counted", "nowhere"}})),
        FAULT("too large", p["feeds"][0]["shape"] = {2, 1ull << 47, 16}),
        FAULT("fetches[0]: 0 phase outputs",
              p["fetches"] = {{{"name", "y"},
                               {"dtype", "f32"},
                               {"shape", {2, 4}},
                               {"batched", true}}}),
        FAULT("fetches[0].samples: expected an axis, outer and inner",
              p["fetches"] = {{{"name", "y"},
                               {"dtype", "f32"},
                               {"shape", {2, 4}},
                               {"batched", true},
                               {"samples", {0, 4}}}}),
        FAULT("fetches[0].samples: [0, 1, 3] is no place in [2, 4]",
              p["fetches"] = {{{"name", "y"},
                               {"dtype", "f32"},
                               {"shape", {2, 4}},
                               {"batched", true},
                               {"samples", {0, 1, 3}}}}),
        FAULT("fetches[0].samples",
              p["fetches"] = {{{"name", "y"},
                               {"dtype", "f32"},
                               {"shape", {2, 4}},
                               {"batched", true},
                               {"samples", {0, 1ull << 62, 16}}}}),
        FAULT("key 'optimizer'", p.erase("optimizer")),
        FAULT("optimizer.scalars[0]: expected one of",
              p["optimizer"]["scalars"][0].erase("value")),
        FAULT("optimizer.scalars[1].name",
              p["optimizer"]["scalars"][1]["name"] = "lr"),
        FAULT("optimizer.scalars[3].one_minus_power_of: no scalar",
              p["optimizer"]["scalars"][3]["one_minus_power_of"] = "beta"),
        FAULT("optimizer.dtype: an optimizer is of f32 or f64",
              p["optimizer"]["dtype"] = "bf16"),
        FAULT("parameters that are trained have to be f64",
              p["optimizer"]["dtype"] = "f64"),
        FAULT("optimizer.states[1]",
              p["optimizer"]["states"] = {"momentum", "momentum"}),
        FAULT("expected 128: 2 states",
              p["optimizer"]["states"] = {"momentum", "second"}),
        FAULT("channels[0].from: 3", p["channels"][0]["from"] = 3),
        FAULT("channels[0].to: channel leads", p["channels"][0]["to"] = 0),
        FAULT("channels[0].bytes: 33", p["channels"][0]["bytes"] = 33),
        FAULT("channels[0].release", p["channels"][0]["release"] = "U"),
        FAULT("channels[0].from_phase", p["channels"][0]["from_phase"] = "B"),
        FAULT("channels[0].send_slot: 1 entries",
              p["channels"][0]["send_slot"] = {0}),
        FAULT("channels[0].receive_slot[3]",
              p["channels"][0]["receive_slot"][3] = 9),
        FAULT("channels[0].send_offset: 4 is not",
              p["channels"][0]["send_offset"] = 4),
        FAULT("channels[0].send_offset: [1048576",
              p["channels"][0]["send_offset"] = 1048576),
        FAULT("channels[0].receive_offset: [1048576",
              p["channels"][0]["receive_offset"] = 1048576),
        FAULT("stages: 0 stages", p["stages"] = ordered_json::array()),
        FAULT("stages: expected an array", p["stages"] = 1),
        FAULT("ends behind memory_bytes 640",
              p["stages"][0]["memory_bytes"] = 640),
        FAULT("stages[0].memory_bytes: 100",
              p["stages"][0]["memory_bytes"] = 100),
        FAULT("stages[1].areas.gradients: bytes 0",
              p["stages"][1]["areas"]["gradients"]["bytes"] = 0),
        FAULT("stages[1].areas: 'parameters' and 'gradients' overlap",
              p["stages"][1]["areas"]["gradients"]["offset"] =
                  p["stages"][1]["areas"]["parameters"]["offset"]),
        FAULT("stages[1].areas.residuals: bytes",
              p["stages"][1]["areas"]["residuals"]["slots"] = 1),
        FAULT("stages[2].phases.F.outputs[0]: stage 2 has no 'loss'",
              p["stages"][2]["areas"].erase("loss")),
        FAULT("stages[1].parameters[0]: [64",
              p["stages"][1]["parameters"][0]["offset"] = 64),
        FAULT("stages[1].parameters[0].dtype",
              p["stages"][1]["parameters"][0]["dtype"] = "f64"),
        FAULT("stages[1].parameters[1].name",
              p["stages"][1]["parameters"].push_back(
                  p["stages"][1]["parameters"][0])),
        FAULT("stages[1].parameters[0].source: expected one",
              p["stages"][1]["parameters"][0]["source"] = {{"zero", 1}}),
        FAULT("stages[1].parameters[0].source.hex: 2 bytes",
              p["stages"][1]["parameters"][0]["source"] = {{"hex", "00ff"}}),
        FAULT("stages[1].parameters[0].source.hex: 'x'",
              p["stages"][1]["parameters"][0]["source"] = {{"hex", "0x"}}),
        FAULT("stages[1].parameters[0].source.file: 0",
              p["stages"][1]["parameters"][0]["source"] = {{"file", 0},
                                                           {"offset", 0},
                                                           {"bytes", 64}}),
        FAULT("stages[1].parameters[0].source: [8, 72)", p["weights"] = {"w"};
              p["weights_bytes"] = {64};
              p["stages"][1]["parameters"][0]["source"] = {{"file", 0},
                                                           {"offset", 8},
                                                           {"bytes", 64}}),
        FAULT(
            "stages[1].parameters[0].source.hash: '0x12'", p["weights"] = {"w"};
            p["weights_bytes"] = {64};
            p["stages"][1]["parameters"][0]["source"] =
                {{"file", 0}, {"offset", 0}, {"bytes", 64}, {"hash", "0x12"}}),
        FAULT("'w0' has another dtype or shape",
              p["stages"][1]["parameters"][0]["name"] = "w0";
              p["stages"][1]["parameters"][0]["shape"] = {16}),
        FAULT("is the name of a parameter",
              p["stages"][0]["buffers"][0]["name"] = "w0"),
        FAULT("stages[0].kernels[0]: key 'scratchpad'",
              p["stages"][0]["kernels"] = {{{"descriptor", "matmul"}}}),
        FAULT("stages[0].phases: key 'W'", p["stages"][0]["phases"].erase("W")),
        FAULT("stages[0].phases.F.inputs[0].feed: 7",
              p["stages"][0]["phases"]["F"]["inputs"][0]["feed"] = 7),
        FAULT("stages[0].phases.F.inputs[0]: channel 0 leads to stage 1",
              p["stages"][0]["phases"]["F"]["inputs"][0] = {{"channel", 0}}),
        FAULT("stages[1].phases.F.outputs[0]: channel 0 comes",
              p["stages"][1]["phases"]["F"]["outputs"][0] = {{"channel", 0}}),
        FAULT("stages[0].phases.F.inputs[0]: expected",
              p["stages"][0]["phases"]["F"]["inputs"][0] = {{"fetch", 0}}),
        FAULT("stages[0].phases.F.discards: 1 entries",
              p["stages"][0]["phases"]["F"]["discards"] = {0}),
        FAULT("stages[0].phases.F.discards[0]",
              p["stages"][0]["phases"]["F"]["discards"][0] = 6400),
        FAULT("phases.F.discard_statistics: [6400",
              p["stages"][0]["phases"]["F"]["discard_statistics"] = 6400),
        FAULT("stages[0].phases.F: key 'discard_statistics'",
              p["stages"][0]["phases"]["F"].erase("discard_statistics");
              p["ranks"][0]["actions"].insert(p["ranks"][0]["actions"].begin() +
                                                  find(p, 0, "B"),
                                              ordered_json{"R", 0, 0, 0})),
        FAULT("channels[0]: 0 phase outputs",
              p["stages"][0]["phases"]["F"]["outputs"].erase(0);
              p["stages"][0]["phases"]["F"].erase("discards")),
        FAULT("channels[2]: no phase reads it",
              p["stages"][2]["phases"]["F"]["inputs"].erase(0)),
        FAULT("stages: 0 phase outputs write the loss",
              p["stages"][2]["phases"]["F"]["outputs"] = ordered_json::array();
              p["stages"][2]["phases"]["F"].erase("discards")),
        FAULT("ranks: stage 2 is on no rank", p["ranks"].erase(2)),
        FAULT("ranks[1].stages[0]: stage 0 belongs",
              p["ranks"][1]["stages"] = {0}),
        FAULT("ranks[0].actions[0]: stage 1 is not",
              p["ranks"][0]["actions"][0] = {"F", 1, 0, 0}),
        FAULT("ranks[0].actions[0][0]: unknown action",
              p["ranks"][0]["actions"][0][0] = "G"),
        FAULT("ranks[0].actions[0]: 'F' has 3",
              p["ranks"][0]["actions"][0] = {"F", 0, 0}),
        FAULT("ranks[0].actions[0][2]: 4 is out",
              p["ranks"][0]["actions"][0][2] = 4),
        FAULT("ranks[0].actions[0][3]: residual slot",
              p["ranks"][0]["actions"][0][3] = 99),
        FAULT("ranks[0].actions: no F of stage 0 for micro-batch 0",
              p["ranks"][0]["actions"].erase(find(p, 0, "F"))),
        FAULT("ranks[0].actions: no I or B",
              p["ranks"][0]["actions"].erase(find(p, 0, "B"))),
        FAULT("channels[0]: no SEND",
              p["ranks"][0]["actions"].erase(find(p, 0, "SEND"))),
        FAULT("channels[0]: no RECV",
              p["ranks"][1]["actions"].erase(find(p, 1, "RECV"))),
        FAULT("ranks[0].actions: no U",
              p["ranks"][0]["actions"].erase(find(p, 0, "U"))),
        FAULT("has had its U", auto u = p["ranks"][0]["actions"].back();
              p["ranks"][0]["actions"].push_back(u)),
        FAULT("happens already", auto f = p["ranks"][0]["actions"][0];
              p["ranks"][0]["actions"].insert(p["ranks"][0]["actions"].begin(),
                                              f)),
        FAULT("which makes the value", std::swap(p["ranks"][0]["actions"][0],
                                                 p["ranks"][0]["actions"][1])),
        FAULT("before its RECV", std::swap(p["ranks"][1]["actions"][0],
                                           p["ranks"][1]["actions"][1])),
        FAULT("after its release", p["channels"][0]["release"] = "F"),
        FAULT("does not hold micro-batch",
              p["ranks"][0]["actions"][find(p, 0, "B")][3] = 1),
        FAULT("ranks: the actions cannot complete: rank 0 waits at",
              p["channels"][0]["receive_slot"] = {0, 0, 0, 0};
              p["channels"][1]["receive_slot"] = {0, 0, 0, 0}),
        FAULT("JSON is nested", ordered_json deep = 1;
              for (int i = 0; i < 100; ++i) deep = {{"a", deep}};
              p["weights"] = deep)));

TEST(PlanTest, TextThatIsNoPlan) {
  for (const char *text :
       {"", "{", "[]", "null", "\xff\xfe", "{\"version\":1}"})
    EXPECT_NE(errorOf([&] { Plan::parse(text); }), "no error") << text;
}

/// Three stages on one rank: nothing is sent.
ordered_json oneRankPlan(bool breadthFirst) {
  ordered_json plan = toy::trainingPlan({{0, 1, 2}, false, false, 0});
  for (auto &channel : plan["channels"]) {
    channel["send_slots"] = 0;
    channel["send_slot"] = ordered_json::array();
    channel["receive_slots"] = 1;
    for (auto &slot : channel["receive_slot"])
      slot = 0;
  }
  ordered_json actions = ordered_json::array();
  auto take = [&](int stage, const char *kind, int microbatch) {
    for (const auto &action : plan["ranks"][stage]["actions"])
      if (action[0] == kind && (microbatch < 0 || action[2] == microbatch))
        actions.push_back(action);
  };
  auto takeAll = [&](int stage, const char *kind) {
    for (int m = 0; m < toy::microbatches; ++m)
      take(stage, kind, m);
  };
  if (breadthFirst) {
    for (int stage : {0, 1, 2})
      takeAll(stage, "F");
    for (int stage : {2, 1, 0})
      takeAll(stage, "B");
  } else {
    for (int m = 0; m < toy::microbatches; ++m) {
      for (int stage : {0, 1, 2})
        take(stage, "F", m);
      for (int stage : {2, 1, 0})
        take(stage, "B", m);
    }
  }
  for (int stage : {0, 1, 2})
    take(stage, "U", -1);
  plan["ranks"] = {{{"stages", {0, 1, 2}}, {"actions", actions}}};
  return plan;
}

std::string faultOf(const ordered_json &plan) {
  return errorOf([&] { Plan::parse(plan.dump()); });
}

TEST(PlanTest, ChannelsInsideOfARank) {
  ordered_json plan = oneRankPlan(false);
  EXPECT_EQ(faultOf(plan), "no error");

  EXPECT_NE(faultOf(oneRankPlan(true)).find("use slot 0 at the same time"),
            std::string::npos)
      << faultOf(oneRankPlan(true));

  ordered_json sent = plan;
  sent["ranks"][0]["actions"].insert(sent["ranks"][0]["actions"].begin() + 1,
                                     ordered_json::array({"SEND", 0, 0}));
  EXPECT_NE(faultOf(sent).find("SEND for micro-batch 0, but there are no send"),
            std::string::npos)
      << faultOf(sent);

  ordered_json listed = plan;
  listed["channels"][0]["send_slot"] = {0, 0, 0, 0};
  EXPECT_NE(faultOf(listed).find("channels[0].send_slot: 4 entries"),
            std::string::npos)
      << faultOf(listed);

  ordered_json apart = validPlan();
  apart["channels"][0]["send_slots"] = 0;
  apart["channels"][0]["send_slot"] = ordered_json::array();
  EXPECT_NE(faultOf(apart).find("leads from rank 0 to rank 1"),
            std::string::npos)
      << faultOf(apart);
}

TEST(PlanTest, Preparation) {
  ordered_json valid = validPlan();
  toy::addPreparation(valid);
  auto fault = [&](const std::function<void(ordered_json &)> &change) {
    ordered_json plan = valid;
    change(plan);
    return errorOf([&] { Plan::parse(plan.dump()); });
  };
  EXPECT_EQ(fault([](ordered_json &) {}), "no error");
  Plan plan = Plan::parse(valid.dump());
  EXPECT_TRUE(plan.stages[1].prepares);
  EXPECT_EQ(toString(plan, plan.ranks[1].actions[0]), "1P");
  EXPECT_NE(fault([](ordered_json &p) {
              p["ranks"][1]["actions"].erase(0);
            }).find("before the P of stage 1"),
            std::string::npos);
  EXPECT_NE(fault([](ordered_json &p) {
              p["stages"][1]["phases"].erase("P");
            }).find("ranks[1].actions[0]: stage 1 has no phase P"),
            std::string::npos);
  EXPECT_NE(fault([](ordered_json &p) {
              p["ranks"][1]["actions"].insert(p["ranks"][1]["actions"].begin() +
                                                  2,
                                              ordered_json::array({"P", 1}));
            }).find("happens already at ranks[1].actions[0]"),
            std::string::npos);
}

TEST(PlanTest, LossScale) {
  toy::Options options{{0, 1, 2}, true, false, 0, 64, 10};
  const ordered_json valid = toy::trainingPlan(options);
  Plan plan = Plan::parse(valid.dump());
  ASSERT_TRUE(plan.findLossScale());
  EXPECT_EQ(plan.findLossScale()->value, 64.0);
  EXPECT_EQ(plan.stages[1].finiteKernel, 0u);
  EXPECT_EQ(plan.stages[1].lossScaleKernel, 1u);
  auto expect = [&](const char *message, auto change) {
    ordered_json changed = valid;
    change(changed);
    std::string found = errorOf([&] { Plan::parse(changed.dump()); });
    EXPECT_NE(found.find(message), std::string::npos) << found;
  };
  expect("optimizer.scalars[4].initial_scale: expected a positive number",
         [](auto &p) { p["optimizer"]["scalars"][4]["initial_scale"] = 0; });
  expect("optimizer.scalars: expected one scalar with 'initial_scale' and one "
         "with 'is_skipped', or neither",
         [](auto &p) { p["optimizer"]["scalars"].erase(5); });
  expect("stages[1].areas: a stage has an area 'loss_scale' where",
         [](auto &p) { p["stages"][1]["areas"].erase("loss_scale"); });
  expect("stages[2]: key 'loss_scale_kernel' is missing",
         [](auto &p) { p["stages"][2].erase("loss_scale_kernel"); });
  expect("stages[2]: key 'finite_kernel' is missing",
         [](auto &p) { p["stages"][2].erase("finite_kernel"); });
  expect("stages[0].finite_kernel: the stage has 2 kernels",
         [](auto &p) { p["stages"][0]["finite_kernel"] = 2; });
  // Of a rank with two stages, one has its U before the B of the other.
  ordered_json early = oneRankPlan(false);
  for (auto &stage : early["stages"]) {
    uint64_t end = stage["memory_bytes"];
    stage["areas"]["loss_scale"] = {{"offset", end}, {"bytes", 64}};
    stage["memory_bytes"] = end + 64;
    stage["kernels"] = valid["stages"][0]["kernels"];
    stage["finite_kernel"] = 0;
    stage["loss_scale_kernel"] = 1;
  }
  early["optimizer"] = valid["optimizer"];
  EXPECT_EQ(errorOf([&] { Plan::parse(early.dump()); }), "no error");
  auto &actions = early["ranks"][0]["actions"];
  for (size_t i = 0; i + 1 < actions.size(); ++i)
    if (actions[i + 1][0] == "U" && actions[i][0] != "U") {
      std::swap(actions[i], actions[i + 1]);
      break;
    }
  std::string found = errorOf([&] { Plan::parse(early.dump()); });
  EXPECT_NE(found.find("nothing may follow a U but another U"),
            std::string::npos)
      << found;
}

TEST(PlanTest, Replicas) {
  toy::Options options{{0, 2}};
  options.replicas = 2;
  const ordered_json valid = toy::trainingPlan(options);
  Plan plan = Plan::parse(valid.dump());
  ASSERT_EQ(plan.stages.size(), 4u);
  ASSERT_EQ(plan.ranks.size(), 4u);
  EXPECT_EQ(plan.stages[3].name, "stage1.1");
  EXPECT_EQ(plan.stages[3].code, 1u);
  EXPECT_EQ(plan.stages[3].replica, 1u);
  EXPECT_EQ(plan.ranks[3].stages, std::vector<unsigned>{3});
  std::string actions;
  for (const PlanAction &action : plan.ranks[1].actions)
    actions += toString(plan, action) + " ";
  // Gradients and statistics: 64 bytes are one part, which replica 0 adds up.
  EXPECT_EQ(actions, "1F1 1SEND_F1 1SEND_F1 1F3 1SEND_F3 1SEND_F3 "
                     "1RECV_B1 1RECV_B1 1B1 1RECV_B3 1RECV_B3 1B3 "
                     "1RECV_GRAD 1SEND_GRAD 1SEND_GRAD 1SUM_GRAD "
                     "1RECV_GRAD 1SEND_GRAD 1RECV_GRAD 1U ");
  uint64_t reductions = 0;
  for (const PlanChannel &channel : plan.channels) {
    reductions += channel.isReduction();
    EXPECT_EQ(plan.stages[channel.from].replica ==
                  plan.stages[channel.to].replica,
              !channel.isReduction());
  }
  EXPECT_EQ(reductions, 4u + 2u + 2u);
  auto expect = [&](const char *message, auto change) {
    ordered_json changed = valid;
    change(changed);
    EXPECT_NE(faultOf(changed).find(message), std::string::npos)
        << faultOf(changed);
  };
  expect("replicas: 3 replicas cannot share 4 micro-batches",
         [](auto &p) { p["replicas"] = 3; });
  expect("replicas: 0 replicas cannot share",
         [](auto &p) { p["replicas"] = 0; });
  expect("stages[0].areas.exchange: has 64 bytes, but 2 replicas need 128",
         [](auto &p) { p["stages"][0]["areas"]["exchange"]["bytes"] = 64; });
  auto isReduction = [](const ordered_json &action) {
    return action[0] == "REDUCE_GRAD";
  };
  expect("there are replicas, but no REDUCE_GRAD of stage 1 comes before",
         [&](auto &p) {
           auto &list = p["ranks"][1]["actions"];
           list.erase(std::find_if(list.begin(), list.end(), isReduction));
         });
  expect("the gradients of stage 0 were added up at", [&](auto &p) {
    auto &list = p["ranks"][0]["actions"];
    auto at = std::find_if(list.begin(), list.end(), isReduction);
    std::swap(*at, *(at - 1));
  });
  expect("the gradients of stage 0 were added up at", [&](auto &p) {
    auto &list = p["ranks"][0]["actions"];
    list.insert(std::find_if(list.begin(), list.end(), isReduction),
                ordered_json::array({"REDUCE_GRAD", 0}));
  });
  ordered_json alone = toy::trainingPlan({});
  auto &list = alone["ranks"][0]["actions"];
  list.insert(list.end() - 1, ordered_json::array({"REDUCE_GRAD", 0}));
  EXPECT_NE(faultOf(alone).find("there are no replicas"), std::string::npos)
      << faultOf(alone);
}

/// The toy in two stages, whose first weights are one parameter.
static ordered_json tiedPlan(unsigned replicas = 1) {
  toy::Options options{{0, 2}};
  options.replicas = replicas;
  ordered_json plan = toy::trainingPlan(options);
  ordered_json &home = plan["stages"][0], &other = plan["stages"][1];
  other["parameters"][0]["name"] = home["parameters"][0]["name"];
  uint64_t bytes = home["parameters"][1]["offset"];
  uint64_t end = home["memory_bytes"];
  ordered_json &areas = home["areas"];
  uint64_t before =
      replicas > 1 ? areas["exchange"]["bytes"].get<uint64_t>() : 0;
  areas["exchange"] = {{"offset", end}, {"bytes", before + bytes}};
  home["memory_bytes"] = end + before + bytes;
  plan["ties"] = {{{"name", "w0"},
                   {"bytes", bytes},
                   {"parts",
                    {{{"stage", 0}, {"offset", areas["gradients"]["offset"]}},
                     {{"stage", 1},
                      {"offset", other["areas"]["gradients"]["offset"]},
                      {"place", end + before}}}}}};
  return plan;
}

/// What follows the last W of a rank.
static std::string endOf(const Plan &plan, unsigned rank) {
  std::string actions;
  for (const PlanAction &action : plan.ranks[rank].actions)
    if (isPerStep(action.kind) || (isTransfer(action.kind) &&
                                   plan.channels[action.channel].isReduction()))
      actions += toString(plan, action) + " ";
  return actions;
}

TEST(PlanTest, Ties) {
  const ordered_json valid = tiedPlan();
  Plan plan = Plan::parse(valid.dump());
  EXPECT_EQ(endOf(plan, 0), "0RECV_GRAD 0SUM_GRAD 0SEND_GRAD 0U ");
  EXPECT_EQ(endOf(plan, 1), "1SEND_GRAD 1RECV_GRAD 1U ");
  const PlanSum &sum = plan.stages[0].sums.front();
  EXPECT_EQ(sum.parts.size(), 2u);
  EXPECT_EQ(sum.target, sum.parts[0]);
  EXPECT_EQ(plan.channels.back().repliesTo, plan.channels.size() - 2);

  // Replicas add up first, then the stages of each.
  plan = Plan::parse(tiedPlan(2).dump());
  EXPECT_EQ(plan.ties.size(), 2u);
  std::string end = endOf(plan, 0);
  std::string tied = "0RECV_GRAD 0SUM_GRAD 0SEND_GRAD 0U ";
  ASSERT_GE(end.size(), tied.size());
  EXPECT_EQ(end.substr(end.size() - tied.size()), tied);
  EXPECT_EQ(std::count(end.begin(), end.end(), 'M'), 2);

  auto expect = [&](const char *message, auto change) {
    ordered_json changed = valid;
    change(changed);
    EXPECT_NE(faultOf(changed).find(message), std::string::npos)
        << faultOf(changed);
  };
  auto part = [](auto &p, int i) -> ordered_json & {
    return p["ties"][0]["parts"][i];
  };
  expect("are no tie", [&](auto &p) { p["ties"][0]["parts"].erase(1); });
  expect("a part has a 'place' where it is of another stage",
         [&](auto &p) { part(p, 1).erase("place"); });
  expect("a part has a 'place' where it is of another stage",
         [&](auto &p) { part(p, 0)["place"] = part(p, 1)["place"]; });
  expect("are not in the area", [&](auto &p) {
    part(p, 1)["place"] = part(p, 1)["place"].template get<uint64_t>() + 64;
  });
  expect("are not in the area", [&](auto &p) { part(p, 0)["offset"] = 0; });
  expect("is not a multiple of 64", [&](auto &p) {
    part(p, 0)["offset"] = part(p, 0)["offset"].template get<uint64_t>() + 4;
  });
  expect("are not those of a parameter",
         [&](auto &p) { p["ties"][0]["bytes"] = 0; });
  expect("not where the update reads", [&](auto &p) {
    part(p, 0)["offset"] = part(p, 0)["offset"].template get<uint64_t>() +
                           p["ties"][0]["bytes"].template get<uint64_t>();
  });
  expect("not where the update reads",
         [&](auto &p) { p["ties"][0]["name"] = "w1"; });
  expect("two parts have the bytes", [&](auto &p) {
    ordered_json tie = p["ties"][0];
    p["ties"].push_back(tie);
  });
}

TEST(PlanTest, StageReplicas) {
  ordered_json valid = toy::stageReplicasPlan();
  ASSERT_EQ(faultOf(valid), "no error");
  Plan plan = Plan::parse(valid.dump());
  ASSERT_EQ(plan.stages.size(), 3u);
  EXPECT_EQ(plan.stages[1].name, "stage0.1");
  EXPECT_EQ(plan.stages[1].replica, 1u);
  EXPECT_EQ(plan.stages[2].name, "stage1");
  EXPECT_TRUE(plan.stages[1].runs(3));
  EXPECT_FALSE(plan.stages[1].runs(2));
  EXPECT_EQ(plan.replicasOfLoss(), 1u);
  // Each value that crosses, from or to each of the two; and the sums.
  size_t reductions = 0;
  for (const PlanChannel &channel : plan.channels)
    reductions += channel.isReduction();
  EXPECT_EQ(plan.channels.size() - reductions, 2 * valid["channels"].size());
  EXPECT_EQ(plan.channelCopies.size(), valid["channels"].size());
  for (const std::vector<unsigned> &copies : plan.channelCopies)
    EXPECT_EQ(copies.size(), 2u);
  EXPECT_EQ(toJson(fromJson(valid.dump())),
            toJson(fromJson(toJson(fromJson(valid.dump())))));
  auto expect = [&](const char *message, auto change) {
    ordered_json changed = valid;
    change(changed);
    EXPECT_NE(faultOf(changed).find(message), std::string::npos)
        << message << "\n"
        << faultOf(changed);
  };
  expect("stage_replicas: 1 numbers for 2 stages",
         [](auto &p) { p["stage_replicas"] = {2}; });
  expect("stage_replicas[0]: 5 replicas cannot share 4 micro-batches",
         [](auto &p) { p["stage_replicas"][0] = 5; });
  expect("ranks: 2 of them have stage 0, which has 3 replicas",
         [](auto &p) { p["stage_replicas"][0] = 3; });
  expect("micro-batch 1 is that of another replica than 0 of stage 0",
         [](auto &p) { p["ranks"][0]["actions"][0][2] = 1; });
  expect("there are replicas, but no REDUCE_GRAD of stage 0 comes before",
         [](auto &p) {
           auto &list = p["ranks"][1]["actions"];
           list.erase(list.size() - 2);
         });
  expect("there are no replicas", [](auto &p) {
    auto &list = p["ranks"][2]["actions"];
    list.insert(list.end() - 1, ordered_json::array({"REDUCE_GRAD", 1}));
  });
  expect("use slot 0, but other replicas are at the other end", [](auto &p) {
    for (ordered_json &channel : p["channels"])
      if (channel["to"] == 1)
        channel["receive_slot"][1] = 0;
  });
  expect("stages[0].areas.exchange: has 64 bytes, but 2 replicas need 128",
         [](auto &p) { p["stages"][0]["areas"]["exchange"]["bytes"] = 64; });
}

/// Leaves an action of a list out, doubles it, or changes one of its numbers by
/// 1; returns what it was.
static ordered_json damage(ordered_json &list, std::mt19937 &random) {
  size_t at = random() % list.size();
  ordered_json before = list[at];
  switch (random() % 3) {
  case 0:
    list.erase(at);
    break;
  case 1:
    list.insert(list.begin() + static_cast<std::ptrdiff_t>(at), list[at]);
    break;
  case 2: {
    ordered_json &number = list[at][1 + random() % (list[at].size() - 1)];
    number = number.get<int>() + (random() % 2 ? 1 : -1);
    break;
  }
  }
  return before;
}

/// Damages the lists of a plan in 1,000 ways, each of which must be found.
static void expectDamageIsFound(const ordered_json &valid, unsigned seed) {
  std::mt19937 random(seed);
  for (int i = 0; i < 1000; ++i) {
    ordered_json changed = valid;
    size_t rank = random() % valid["ranks"].size();
    auto &list = changed["ranks"][rank]["actions"];
    ordered_json before = damage(list, random);
    // With a flush, a residual slot may be another one that is free.
    bool isSlot = !valid.contains("flush") && before.size() == 4 &&
                  list.size() == valid["ranks"][rank]["actions"].size();
    if (!isSlot)
      EXPECT_NE(faultOf(changed), "no error")
          << before << " is now " << list.dump();
  }
}

TEST(PlanTest, NoDamageOfStageReplicasIsTaken) {
  expectDamageIsFound(toy::stageReplicasPlan(), 5);
}

TEST(PlanTest, PreparedByUpdate) {
  toy::Options options;
  options.cuts = {0};
  ordered_json valid = toy::trainingPlan(options);
  toy::addPreparation(valid);
  valid["stages"][0]["parameters"][0]["prepared"] = 0;
  valid["stages"][0]["parameters"][1]["prepared"] = 64;
  EXPECT_EQ(faultOf(valid), "no error");
  Plan plan = Plan::parse(valid.dump());
  EXPECT_EQ(plan.stages[0].parameters[1].prepared, 64u);
  EXPECT_EQ(toJson(Plan::parse(toJson(plan))), toJson(plan));
  auto expect = [&](const char *message, auto change) {
    ordered_json changed = valid;
    change(changed["stages"][0]);
    EXPECT_NE(faultOf(changed).find(message), std::string::npos)
        << message << "\n"
        << faultOf(changed);
  };
  expect("stages[0].parameters[1].prepared: overlaps",
         [](auto &stage) { stage["parameters"][1]["prepared"] = 0; });
  expect("stages[0].parameters[0].prepared: [65536",
         [](auto &stage) { stage["parameters"][0]["prepared"] = 65536; });
  expect("stages[0].parameters[0].prepared: 8",
         [](auto &stage) { stage["parameters"][0]["prepared"] = 8; });
  expect("of which P is one", [](auto &stage) { stage["phases"].erase("P"); });
}

/// The toy in two stages without a flush, with two versions of all weights: an
/// update per four micro-batches, which read the last but one (PipeDream-2BW).
static ordered_json rollingPlan() {
  toy::Options options;
  options.cuts = {0, 2};
  options.oneForwardOneBackward = true;
  ordered_json plan = toy::trainingPlan(options);
  plan["flush"] = false;
  for (ordered_json &stage : plan["stages"]) {
    uint64_t end = stage["memory_bytes"];
    uint64_t bytes = stage["areas"]["parameters"]["bytes"];
    stage["versions"] = 2;
    stage["areas"]["statistics"]["bytes"] = 0;
    stage["areas"]["versions"] = {{"offset", end}, {"bytes", bytes}};
    stage["memory_bytes"] = end + bytes;
  }
  for (ordered_json &channel : plan["channels"]) {
    channel["send_slot"] = ordered_json::array();
    channel["receive_slot"] = ordered_json::array();
    for (uint64_t slot = 0; slot < channel["receive_slots"]; ++slot) {
      channel["send_slot"].push_back(0);
      channel["receive_slot"].push_back(slot);
    }
  }
  ordered_json lists[2] = {ordered_json::array(), ordered_json::array()};
  auto transfer = [&](int rank, const char *kind, int k, int lag) {
    for (size_t c = 0; c < plan["channels"].size(); ++c)
      if (plan["channels"][c][kind[0] == 'S' ? "from" : "to"] == rank)
        lists[rank].push_back({kind, c, k, lag});
  };
  for (int k = 0; k < toy::microbatches; ++k) {
    lists[0].push_back({"F", 0, k, 0, -1});
    transfer(0, "SEND", k, 0);
    int done = (k + toy::microbatches - 1) % toy::microbatches, lag = k == 0;
    transfer(0, "RECV", done, lag);
    lists[0].push_back({"B", 0, done, lag, -1});
    if (lag)
      lists[0].push_back({"U", 0, lag, 1});
    transfer(1, "RECV", k, 0);
    lists[1].push_back({"F", 1, k, 0, -1});
    lists[1].push_back({"B", 1, k, 0, -1});
    transfer(1, "SEND", k, 0);
  }
  lists[1].push_back({"U", 1, 0, 1});
  for (int rank = 0; rank < 2; ++rank)
    plan["ranks"][rank]["actions"] = lists[rank];
  return plan;
}

TEST(PlanTest, WithoutAFlush) {
  ordered_json valid = rollingPlan();
  EXPECT_EQ(faultOf(valid), "no error");
  Plan plan = Plan::parse(valid.dump());
  EXPECT_FALSE(plan.flushes);
  EXPECT_EQ(plan.largestLag(), 1u);
  EXPECT_EQ(plan.stages[0].slotOf(-1), 1u);
  EXPECT_EQ(toJson(Plan::parse(toJson(plan))), toJson(plan));
  auto expect = [&](const char *message, auto change) {
    ordered_json changed = valid;
    change(changed);
    EXPECT_NE(faultOf(changed).find(message), std::string::npos)
        << message << "\n"
        << faultOf(changed);
  };
  auto setVersions = [](ordered_json &stage, uint64_t versions) {
    uint64_t bytes = stage["areas"]["parameters"]["bytes"];
    stage["versions"] = versions;
    stage["areas"]["versions"]["bytes"] = (versions - 1) * bytes;
  };
  expect("reads version 0 of the weights in slot 0, which holds version 1",
         [&](auto &p) { setVersions(p["stages"][0], 1); });
  expect("'versions' has 128 bytes, but 3 weight versions take 256 beside",
         [](auto &p) { p["stages"][0]["versions"] = 3; });
  expect("0.5 is not a number between 0 and 1, or there is no 'delay'",
         [](auto &p) { p["stages"][0]["correction"] = 0.5; });
  expect("1 is not a number between 0 and 1", [](auto &p) {
    p["stages"][0]["delay"] = 1.5;
    p["stages"][0]["correction"] = 1;
  });
  expect("'corrected' has 0 bytes, but must have 256", [](auto &p) {
    p["stages"][0]["delay"] = 1.5;
    p["stages"][0]["correction"] = 0.5;
  });
  expect("flush: only a training program without copies of the pipeline",
         [](auto &p) { p["replicas"] = 2; });
  expect("F has a lag of 1, must be 0",
         [](auto &p) { p["ranks"][0]["actions"][0][3] = 1; });
  expect("is for micro-batch 1 of all, but 0 have run",
         [](auto &p) { p["ranks"][1]["actions"][2][2] = 1; });
  expect("'I' does not go without a flush", [](auto &p) {
    p["ranks"][0]["actions"].push_back({"I", 0, 0, 0, -1});
  });
  for (const char *kind : {"PUSH", "PULL"})
    expect("does not go without a flush", [&](auto &p) {
      p["ranks"][0]["actions"].push_back({kind, 0, 0, -1});
    });
}

TEST(PlanTest, NoDamageWithoutAFlushIsTaken) {
  expectDamageIsFound(rollingPlan(), 3);
}

TEST(PlanTest, StageReplicasWithoutAFlush) {
  ordered_json valid = toy::dealtPlan();
  ASSERT_EQ(faultOf(valid), "no error");
  Plan plan = Plan::parse(valid.dump());
  EXPECT_TRUE(plan.dealsUpdates());
  EXPECT_EQ(plan.updatesOf(plan.stages[0]), 2u);
  EXPECT_EQ(plan.updatesOf(plan.stages[2]), 4u);
  EXPECT_EQ(plan.updatesPerStep(), 4u);
  EXPECT_EQ(plan.passIn(plan.stages[1], 3, 3), 7u);
  EXPECT_EQ(plan.microbatchOf(plan.stages[1], 2), 2u);
  // Of a smaller batch, the last updates have fewer samples, or none.
  unsigned size = plan.microbatchSize();
  EXPECT_EQ(plan.samplesOfUpdate(plan.stages[1], 1, 3 * size), 2 * size);
  EXPECT_EQ(plan.samplesOfUpdate(plan.stages[1], 2, 3 * size - 1), size - 1);
  EXPECT_EQ(plan.samplesOfUpdate(plan.stages[1], 2, 2 * size), 0u);
  // Each update has its sums.
  size_t sums = 0;
  for (const PlanAction &action : plan.ranks[0].actions)
    sums += action.kind == ActionKind::SumGradients;
  EXPECT_EQ(sums, 2u);
  auto expect = [&](const char *message, auto change) {
    ordered_json changed = valid;
    change(changed);
    EXPECT_NE(faultOf(changed).find(message), std::string::npos)
        << message << "\n"
        << faultOf(changed);
  };
  auto find = [](ordered_json &list, const char *kind) -> ordered_json & {
    for (ordered_json &action : list)
      if (action[0] == kind)
        return action;
    return list.front();
  };
  expect("comes before the gradients of all replicas are added up",
         [&](auto &p) {
           for (int r = 0; r < 2; ++r) {
             auto &list = p["ranks"][r]["actions"];
             list.erase(std::find(list.begin(), list.end(),
                                  find(list, "REDUCE_GRAD")));
           }
         });
  expect("'REDUCE_GRAD', but the stage has no replicas", [](auto &p) {
    p["ranks"][2]["actions"].push_back({"REDUCE_GRAD", 1, 0, 1});
  });
  expect(
      "comes after 1 reductions, 1 updates and 2 backward passes",
      [&](auto &p) { find(p["ranks"][1]["actions"], "REDUCE_GRAD")[3] = 1; });
  expect("stage_replicas[0]: 3 replicas of a stage cannot share 4",
         [](auto &p) { p["stage_replicas"][0] = 3; });
}

TEST(PlanTest, NoDamageOfReplicasWithoutAFlushIsTaken) {
  expectDamageIsFound(toy::dealtPlan(), 3);
}

TEST(PlanTest, VirtualWorkersShareWaves) {
  for (int workers : {1, 2, 4})
    for (int distance : {0, 1, 4})
      for (const std::vector<int> &cuts :
           {std::vector<int>{0}, {0, 2}, {0, 1, 2}}) {
        ordered_json valid = toy::wavePlan(cuts, workers, distance);
        EXPECT_EQ(faultOf(valid), "no error");
        Plan plan = Plan::parse(valid.dump());
        size_t stages = cuts.size() * workers;
        EXPECT_EQ(plan.stages.size(), stages);
        EXPECT_EQ(plan.ranksWithStages(), stages);
        EXPECT_LE(plan.ranks.size(), 2 * stages);
        Plan listed = fromJson(valid.dump());
        EXPECT_EQ(toJson(fromJson(toJson(listed))), toJson(listed));
      }
}

TEST(PlanTest, SharedWeightsLieInParts) {
  // 3 workers and a distance of 2: sums of 2 waves, 3 places for each transfer.
  SharedLayout layout(320, 3, 2);
  EXPECT_EQ(layout.begin(1), 128u);
  EXPECT_EQ(layout.bytesOf(2), 64u);
  EXPECT_EQ(layout.update(1), 2 * 128u);
  EXPECT_EQ(layout.pull(0), 2 * 320u);
  EXPECT_EQ(layout.shard(), 5 * 320u);
  EXPECT_EQ(layout.push(1), 5 * 320u + 128 + 3 * 128);
  EXPECT_EQ(layout.bytes(), 5 * 320u + 128 * (1 + 3 * 3) + 3 * 128);
  // Alone, with less than a place.
  EXPECT_EQ(SharedLayout(0, 1, 0).bytes(), 0u);
  EXPECT_EQ(SharedLayout(64, 4, 0).bytesOf(3), 0u);
}

TEST(PlanTest, WavesOfASmallerBatch) {
  Plan plan = Plan::parse(toy::wavePlan({0}, 2, 1).dump());
  unsigned size = plan.microbatchSize();
  // Update 2 of worker 1 is that of micro-batch 3.
  const PlanStage &stage = plan.stages[1];
  ASSERT_EQ(stage.replica, 1u);
  EXPECT_EQ(plan.samplesOfUpdate(stage, 2, plan.batch), size);
  EXPECT_EQ(plan.samplesOfUpdate(stage, 2, 3 * size + 1), 1u);
  EXPECT_EQ(plan.samplesOfUpdate(stage, 2, 3 * size), 0u);
}

TEST(PlanTest, WrongWavesAreNamed) {
  ordered_json valid = toy::wavePlan({0, 2}, 2, 1);
  auto expect = [&](const char *message, auto change) {
    ordered_json changed = valid;
    change(changed);
    EXPECT_NE(faultOf(changed).find(message), std::string::npos)
        << message << "\n"
        << faultOf(changed);
  };
  auto find = [](ordered_json &plan, int rank,
                 const std::string &kind) -> ordered_json & {
    for (ordered_json &action : plan["ranks"][rank]["actions"])
      if (action[0] == kind)
        return action;
    throw std::runtime_error(kind);
  };
  expect("PULL of 'stage0.0' is of version 4 of its step, must be of 2",
         [](auto &p) {
           p["clock_distance"] = 0;
           for (auto &stage : p["stages"]) {
             uint64_t bytes = stage["areas"]["parameters"]["bytes"];
             stage["areas"]["shared"]["bytes"] =
                 SharedLayout(bytes, 2, 0).bytes();
           }
         });
  expect("'shared' has ", [](auto &p) { p["clock_distance"] = 2; });
  expect("clock_distance: 1, but virtual workers have no flush",
         [](auto &p) { p["flush"] = true; });
  expect("PUSH of 'stage0.0' is of version 1 of its step, must be of 2",
         [&](auto &p) { find(p, 0, "PUSH")[3] = 1; });
  expect("PULL of 'stage0.0' is of version 3 of its step, must be of 4",
         [&](auto &p) { find(p, 0, "PULL")[3] = 3; });
  expect("cannot complete", [&](auto &p) { find(p, 0, "PULL")[2] = 0; });
  expect("uses version -2, must use -1, that before the 2 micro-batches in "
         "flight",
         [&](auto &p) { find(p, 0, "F")[4] = -2; });
  expect("makes version 3 of the weights, must make 1 to 2",
         [&](auto &p) { find(p, 1, "U")[3] = 3; });
}

TEST(PlanTest, VirtualWorkersMayDiffer) {
  ordered_json valid = toy::wavePlan({0, 1, 2}, 2, 1, {{2, 1}, {1, 1, 1}});
  EXPECT_EQ(faultOf(valid), "no error");
  Plan plan = Plan::parse(valid.dump());
  EXPECT_EQ(plan.ranksWithStages(), 5u);
  // Their weights are one place each, so worker 1 has no shards.
  EXPECT_EQ(plan.ranks.size(), 8u);
  EXPECT_EQ(plan.ranks[0].stages, (std::vector<unsigned>{0, 2}));
  EXPECT_EQ(plan.ranks[2].stages, (std::vector<unsigned>{1}));
  // Of the channels between stages 0 and 1, those of worker 0 stay on its rank.
  for (const PlanChannel &channel : plan.channels)
    EXPECT_EQ(channel.isResident(),
              channel.from + channel.to == 2 && channel.from != channel.to);
  auto expect = [&](const char *message, auto change) {
    ordered_json changed = valid;
    change(changed);
    EXPECT_NE(faultOf(changed).find(message), std::string::npos)
        << message << "\n"
        << faultOf(changed);
  };
  expect("ranks: virtual worker 1 has 2 of 3 stages",
         [](auto &p) { p["ranks"].erase(4); });
  expect("ranks: those of 2 virtual workers, but there are 1", [](auto &p) {
    p["replicas"] = 1;
    p["microbatches"] = 2;
    p["batch"] = 4;
    for (ordered_json &stage : p["stages"]) {
      uint64_t bytes = stage["areas"]["parameters"]["bytes"];
      stage["areas"]["shared"]["bytes"] = SharedLayout(bytes, 1, 1).bytes();
    }
  });
  expect("both stages are on one rank, so nothing is sent", [](auto &p) {
    ordered_json &list = p["ranks"][0]["actions"];
    list.insert(list.begin() + 1, ordered_json::array({"SEND", 0, 0, 0}));
  });
}

TEST(PlanTest, NoDamageOfWavesIsTaken) {
  std::mt19937 random(11);
  for (int distance : {0, 1, 3, -1}) {
    ordered_json valid = distance < 0
                             ? toy::wavePlan({0, 1, 2}, 2, 1, {{2, 1}, {1, 2}})
                             : toy::wavePlan({0, 2}, 2, distance);
    for (int i = 0; i < 500; ++i) {
      ordered_json changed = valid;
      auto &list =
          changed["ranks"][random() % valid["ranks"].size()]["actions"];
      ordered_json before = damage(list, random);
      EXPECT_NE(faultOf(changed), "no error")
          << before << " is now " << list.dump();
    }
  }
}

TEST(PlanTest, ThreadsAreCounted) {
  ordered_json plan = toy::trainingPlan({});
  for (int threads : {1, 1024}) {
    plan["threads"] = threads;
    EXPECT_EQ(faultOf(plan), "no error");
  }
  for (int threads : {0, -1, 1025}) {
    plan["threads"] = threads;
    EXPECT_NE(faultOf(plan).find("threads: "), std::string::npos)
        << faultOf(plan);
  }
}

TEST(PlanTest, WeightsTogetherAreCounted) {
  ordered_json plan = toy::trainingPlan({});
  EXPECT_EQ(Plan::parse(plan.dump()).stages[0].weightsTogether, 1u);
  for (unsigned together : {1, 16}) {
    plan["stages"][0]["weights_together"] = together;
    EXPECT_EQ(faultOf(plan), "no error");
    Plan parsed = Plan::parse(plan.dump());
    EXPECT_EQ(parsed.stages[0].weightsTogether, together);
    EXPECT_EQ(toJson(Plan::parse(toJson(parsed))), toJson(parsed));
  }
  for (int together : {0, 17}) {
    plan["stages"][0]["weights_together"] = together;
    EXPECT_NE(faultOf(plan).find("stages[0].weights_together: "),
              std::string::npos)
        << faultOf(plan);
  }
  ordered_json rolling = rollingPlan();
  rolling["stages"][0]["weights_together"] = 2;
  EXPECT_NE(faultOf(rolling).find("1 without a flush"), std::string::npos)
      << faultOf(rolling);
}

TEST(PlanTest, NoByteFlipCrashes) {
  std::string text = validPlan().dump();
  for (size_t i = 0; i < text.size(); i += 7) {
    std::string changed = text;
    changed[i] ^= 1 + i % 30;
    errorOf([&] { Plan::parse(changed); });
  }
  for (size_t i = 0; i < text.size(); i += 101)
    EXPECT_NE(errorOf([&] { Plan::parse(text.substr(0, i)); }), "no error");
}

TEST(OptimizerScalarsTest, FollowTheirBase) {
  ordered_json plan = validPlan();
  plan["optimizer"]["scalars"][3]["one_minus_power_of"] = "momentum";
  Plan parsed = Plan::parse(plan.dump());
  OptimizerScalars scalars(parsed.optimizer);
  scalars.set("momentum", 0.5);
  EXPECT_EQ(scalars.evaluate(1).values(),
            (std::vector<double>{0.05f, 0.5, 1, 0.5}));
  EXPECT_EQ(scalars.evaluate(3).values(),
            (std::vector<double>{0.05f, 0.5, 0, 0.875}));
  EXPECT_NE(errorOf([&] { scalars.set("first_step", 1); }).find("lr, momentum"),
            std::string::npos);
  EXPECT_NE(errorOf([&] { scalars.set("nope", 1); }), "no error");
}

TEST(OptimizerScalarsTest, HaveTheTypeOfTheParameters) {
  PlanOptimizer optimizer;
  optimizer.scalars = {{"lr", PlanScalar::Kind::Value, 0.1, ""}};
  EXPECT_EQ(OptimizerScalars(optimizer).evaluate(1).get(0), 0.1f);
  optimizer.type = DataType::F64;
  EXPECT_EQ(OptimizerScalars(optimizer).evaluate(1).get(0), 0.1);
}

TEST(OptimizerScalarsTest, TheLossScaleIsPositive) {
  Plan parsed =
      Plan::parse(toy::trainingPlan({{0}, false, false, 0, 64, 10}).dump());
  OptimizerScalars scalars(parsed.optimizer);
  scalars.set("loss_scale", 1024);
  EXPECT_EQ(scalars.find("loss_scale"), 1024.0);
  EXPECT_EQ(scalars.find("growth_interval"), 10.0);
  EXPECT_EQ(scalars.find("skipped"), std::nullopt);
  EXPECT_EQ(errorOf([&] { scalars.set("loss_scale", 0); }),
            "loss_scale: 0 is not a positive number of f32");
  EXPECT_NE(errorOf([&] { scalars.set("skipped", 1); }), "no error");
}

} // namespace
