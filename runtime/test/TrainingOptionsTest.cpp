//===- TrainingOptionsTest.cpp - Schedules, groups and norms --------------===//
#include "TestFiles.h"
#include "ToyProgram.h"
#include "exec/GradientNorm.h"
#include "exec/LearningRate.h"
#include "exec/ParameterGroups.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

using namespace pp::runtime;
using Settings = LearningRateSchedule::Settings;

namespace {

TEST(LearningRateTest, FactorsOfEachKind) {
  auto at = [](Settings settings, uint64_t done, uint64_t steps = 10) {
    return LearningRateSchedule(settings, steps).factor(done);
  };
  EXPECT_EQ(at({"", {}}, 1000), 1);
  EXPECT_EQ(at({"constant", {{"warmup_steps", 4}, {"warmup_start", 0.5}}}, 1),
            0.625);
  EXPECT_EQ(at({"linear", {}}, 5), 0.5);
  EXPECT_EQ(at({"linear", {{"end", 0.25}}}, 99), 0.25);
  EXPECT_NEAR(at({"cosine", {}}, 5), 0.5, 1e-15);
  EXPECT_EQ(at({"cosine", {{"end", 0.1}}}, 10), 0.1);
  // The decay begins behind the warm-up, with the full rate.
  EXPECT_EQ(at({"cosine", {{"warmup_steps", 4}}}, 0), 0);
  EXPECT_EQ(at({"cosine", {{"warmup_steps", 4}}}, 4), 1);
  EXPECT_EQ(at({"step", {{"every", 3}}}, 2), 1);
  EXPECT_EQ(at({"step", {{"every", 3}, {"gamma", 0.5}}}, 6), 0.25);
  EXPECT_EQ(at({"exponential", {{"gamma", 0.5}}}, 3), 0.125);
  EXPECT_EQ(at({"polynomial", {{"power", 2}}}, 5), 0.25);
  EXPECT_EQ(at({"polynomial", {}}, 11), 0);
  EXPECT_NEAR(at({"one-cycle", {}}, 0), 0.04, 1e-15);
  EXPECT_EQ(at({"one-cycle", {}}, 2), 1);
  EXPECT_NEAR(at({"one-cycle", {}}, 9), 4e-6, 1e-18);
  EXPECT_NEAR(at({"one-cycle", {}}, 100), 4e-6, 1e-18);
  EXPECT_EQ(at({"linear", {{"warmup_steps", 10}}}, 10), 0);
}

TEST(LearningRateTest, JsonKeepsEverything) {
  for (const Settings &settings :
       {Settings{"cosine", {{"warmup_steps", 3}, {"end", 0.1}}},
        Settings{"step", {{"every", 7}, {"gamma", 0.3}}},
        Settings{"one-cycle", {{"pct_start", 0.7}}}}) {
    LearningRateSchedule schedule(settings, 20);
    std::string text = schedule.toJson();
    // The number of steps is that of then.
    LearningRateSchedule again(LearningRateSchedule::fromJson(text, "x"), 999);
    EXPECT_EQ(again.toJson(), text);
    for (uint64_t step = 0; step < 30; ++step)
      EXPECT_EQ(again.factor(step), schedule.factor(step));
  }
}

TEST(LearningRateTest, WhatDoesNotFitIsRefused) {
  auto error = [](Settings settings) {
    return errorOf([&] { LearningRateSchedule schedule(settings, 10); });
  };
  EXPECT_NE(error({"cosin", {}}).find("cosine"), std::string::npos);
  EXPECT_NE(error({"step", {}}).find("--lr-every"), std::string::npos);
  EXPECT_NE(error({"exponential", {}}).find("--lr-gamma"), std::string::npos);
  EXPECT_NE(error({"cosine", {{"gamma", 1}}}).find("--lr-gamma"),
            std::string::npos);
  EXPECT_NE(error({"linear", {{"warmup_steps", 11}}}).find("--warmup-steps"),
            std::string::npos);
  EXPECT_NE(error({"step", {{"every", 0}}}).find("--lr-every"),
            std::string::npos);
  EXPECT_NE(error({"polynomial", {{"power", 0}}}).find("--lr-power"),
            std::string::npos);
  EXPECT_NE(error({"step", {{"every", 2.5}}}).find("whole"), std::string::npos);
  for (const char *text : {"", "[]", "{\"schedule\": 1}", "{\"what\": 1}",
                           "{\"end\": \"x\"}", "{\"end\": 1e999}"})
    EXPECT_NE(errorOf([&] { LearningRateSchedule::fromJson(text, "file"); }),
              "no error")
        << text;
}

TEST(ParameterGroupsTest, Patterns) {
  for (const char *pattern :
       {"a.b", "*", "a*", "*b", "a?b", "*.*", "**b", "a.b*"})
    EXPECT_TRUE(fitsPattern("a.b", pattern)) << pattern;
  for (const char *pattern : {"", "a", "b*", "*a", "a??b", "a.b?", "A.b"})
    EXPECT_FALSE(fitsPattern("a.b", pattern)) << pattern;
  EXPECT_TRUE(fitsPattern("", "*"));
  EXPECT_TRUE(fitsPattern("abcabcabd", "*abd"));
}

TEST(ParameterGroupsTest, Texts) {
  ParameterGroup group = ParameterGroup::parse(
      "onnx::MatMul_*,*.bias:lr_factor=0.5,weight_decay=0");
  EXPECT_EQ(group.patterns,
            (std::vector<std::string>{"onnx::MatMul_*", "*.bias"}));
  EXPECT_EQ(group.learningRateFactor, 0.5);
  EXPECT_EQ(group.values.at("weight_decay"), 0);
  EXPECT_FALSE(group.isFrozen);
  EXPECT_TRUE(ParameterGroup::parse("a:frozen").isFrozen);
  for (const char *text : {"", "a", "a:", ":frozen", "a:b", "a:b=", "a:b=x",
                           "a:=1", "a:b=inf", "a:b=1,"})
    EXPECT_NE(errorOf([&] { ParameterGroup::parse(text); }).find("--group"),
              std::string::npos)
        << text;
}

TEST(ParameterGroupsTest, WhatIsOfAllParametersIsRefused) {
  auto json = toy::trainingPlan({});
  auto &scalars = json["optimizer"]["scalars"];
  scalars.push_back({{"name", "skip_limit"}, {"value", 50}});
  Plan plan = Plan::parse(json.dump());
  auto errorWith = [&](const std::string &text) {
    return errorOf([&] { ParameterGroups({text}, plan); });
  };
  EXPECT_EQ(errorWith("*:momentum=0.5"), "no error");
  EXPECT_NE(errorWith("*:skip_limit=2").find("--set skip_limit=2"),
            std::string::npos);
}

TEST(GradientNormTest, SumsAndScales) {
  std::vector<float> values(19);
  std::iota(values.begin(), values.end(), 1);
  const char *data = reinterpret_cast<const char *>(values.data());
  EXPECT_EQ(sumOfSquares(DataType::F32, data, 19), 19.0 * 20 * 39 / 6);
  EXPECT_EQ(sumOfSquares(DataType::F32, data, 0), 0);
  std::vector<double> wide(values.begin(), values.end());
  EXPECT_EQ(sumOfSquares(DataType::F64,
                         reinterpret_cast<const char *>(wide.data()), 19),
            19.0 * 20 * 39 / 6);
  EXPECT_EQ(normOf({9, 16}, 1), 5);
  EXPECT_EQ(normOf({9, 16}, 2), 2.5);
  char *bytes = reinterpret_cast<char *>(values.data());
  values[0] = -7;
  values[1] = NAN;
  clampNumbers(DataType::F32, bytes, 19, 3);
  EXPECT_EQ(values[0], -3);
  EXPECT_TRUE(std::isnan(values[1]));
  EXPECT_EQ(values[18], 3);
  scaleNumbers(DataType::F32, bytes, 19, 0.5);
  EXPECT_EQ(values[18], 1.5f);
}

} // namespace
