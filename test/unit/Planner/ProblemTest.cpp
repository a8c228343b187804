//===- ProblemTest.cpp - Problems and answers as files --------------------===//
#include "pp/Planner/Problem.h"
#include "gtest/gtest.h"
#include <fstream>
#include <sstream>

using namespace pp::planner;

namespace {

std::string firstJson(const std::string &path, int index) {
  std::ifstream file(path);
  std::stringstream stream;
  stream << file.rdbuf();
  std::string text = stream.str();
  size_t end = 0, begin = 0;
  for (int i = 0; i <= index; ++i) {
    begin = text.find("```json\n", end) + 8;
    end = text.find("```", begin);
  }
  return text.substr(begin, end - begin);
}

TEST(Problem, exampleOfTheGuide) {
  Result<PlanningProblem> read =
      PlanningProblem::fromJson(firstJson(PP_DOCS "/problem-format.md", 0));
  ASSERT_TRUE(bool(read)) << read.error();
  EXPECT_EQ(read->graph.kernels.size(), 3u);
  EXPECT_EQ(read->graph.kernels[1].variants[0].name, "recompute");
  Result<PlanningProblem> again = PlanningProblem::fromJson(read->toJson());
  ASSERT_TRUE(bool(again)) << again.error();
  EXPECT_EQ(again->toJson(), read->toJson());

  PartitionProblem problem = read->problem();
  Result<PartitionSolution> solution = partitionGraph(problem);
  ASSERT_TRUE(bool(solution)) << solution.error();
  EXPECT_EQ(verify(problem, *solution), std::nullopt);
  std::string answer = read->answerToJson(*solution);
  Result<PartitionSolution> back = read->answerFromJson(answer);
  ASSERT_TRUE(bool(back)) << back.error();
  EXPECT_EQ(read->answerToJson(*back), answer);
  EXPECT_EQ(verify(problem, *back), std::nullopt);
}

TEST(Problem, answerOfTheGuide) {
  Result<PlanningProblem> read =
      PlanningProblem::fromJson(firstJson(PP_DOCS "/problem-format.md", 0));
  ASSERT_TRUE(bool(read)) << read.error();
  Result<PartitionSolution> answer =
      read->answerFromJson(firstJson(PP_DOCS "/problem-format.md", 1));
  ASSERT_TRUE(bool(answer)) << answer.error();
  EXPECT_EQ(verify(read->problem(), *answer), std::nullopt);
}

TEST(Answer, saysWhatStoppedTheSearch) {
  Result<PlanningProblem> read =
      PlanningProblem::fromJson(firstJson(PP_DOCS "/problem-format.md", 0));
  ASSERT_TRUE(bool(read)) << read.error();
  Result<PartitionSolution> solution = partitionGraph(read->problem());
  ASSERT_TRUE(bool(solution)) << solution.error();
  std::string answer = read->answerToJson(*solution);
  EXPECT_EQ(answer.find("stopped"), std::string::npos);
  solution->stopped = SearchStop::Time;
  answer = read->answerToJson(*solution);
  Result<PartitionSolution> back = read->answerFromJson(answer);
  ASSERT_TRUE(bool(back)) << back.error();
  EXPECT_EQ(back->stopped, SearchStop::Time);
  answer.replace(answer.find("\"time\""), 6, "\"rain\"");
  back = read->answerFromJson(answer);
  ASSERT_FALSE(bool(back));
  EXPECT_EQ(back.error(), "$.stopped: expected one of 'none', 'steps', 'time'");
}

TEST(Problem, kernelsAreSorted) {
  Result<PlanningProblem> read = PlanningProblem::fromJson(R"({"version": 1,
    "graph": {"kernels": [{"name": "b", "forward": 1},
                          {"name": "a", "forward": 2}],
              "values": [{"producer": "a", "consumers": ["b", "b"],
                          "bytes": 8}]},
    "cluster": {"version": 2, "root": {"link": {"bandwidth": 1, "latency": 0},
                "members": [{"name": "d", "memory_bytes": 1}]}}})");
  ASSERT_TRUE(bool(read)) << read.error();
  EXPECT_EQ(read->graph.kernels[0].name, "a");
  EXPECT_EQ(read->graph.values[0].consumers, std::vector<size_t>{1});
}

TEST(Problem, valuesGetNamesOfTheirOwn) {
  PlanningProblem problem;
  for (const char *name : {"a", "b", "c"}) {
    problem.graph.kernels.emplace_back().name = name;
    problem.graph.kernels.back().forwardTime = 1;
  }
  problem.graph.addEdge(0, 1, 8, "out");
  problem.graph.addEdge(1, 2, 8, "out");
  problem.cluster = Cluster::cpuCores();
  Result<PlanningProblem> read = PlanningProblem::fromJson(problem.toJson());
  ASSERT_TRUE(bool(read)) << read.error();
  EXPECT_EQ(read->graph.values[0].name, "out");
  EXPECT_EQ(read->graph.values[1].name, "out#2");
}

struct Bad {
  const char *graph, *rest, *error;
};

void PrintTo(const Bad &bad, std::ostream *out) { *out << bad.error; }

class ProblemErrors : public testing::TestWithParam<Bad> {};

/// Reading or solving the problem fails with this message.
TEST_P(ProblemErrors, areNamed) {
  std::string text =
      std::string(R"({"version": 1, "graph": )") + GetParam().graph +
      R"(, "cluster": {"version": 2, "root": {"link": {"bandwidth": 1,
      "latency": 0}, "members": [{"name": "d", "memory_bytes": 100,
      "count": 3}]}})" +
      GetParam().rest + "}";
  Result<PlanningProblem> read = PlanningProblem::fromJson(text);
  std::string error = read ? "" : read.error();
  if (read) {
    Result<PartitionSolution> solution = partitionGraph(read->problem());
    ASSERT_FALSE(bool(solution));
    error = solution.error();
  }
  EXPECT_EQ(error.find(GetParam().error), 0u) << error;
}

#define TWO                                                                    \
  R"({"kernels": [{"name": "a", "forward": 1}, {"name": "b", "forward": 1}]})"
#define KERNEL(TEXT) R"({"kernels": [{"name": "a", "forward": 1, )" TEXT "}]}"
INSTANTIATE_TEST_SUITE_P(
    Json, ProblemErrors,
    testing::Values(
        Bad{"[", "", "$: this is not JSON"},
        Bad{"[]", "", "$.graph: expected an object"},
        Bad{"{}", "", "$.graph: 'kernels' is missing"},
        Bad{R"({"kernels": []})", "", "the graph has no kernels"},
        Bad{R"({"kernels": [{"name": "a"}]})", "",
            "$.graph.kernels[0]: 'forward' is missing"},
        Bad{R"({"kernels": [{"name": "a", "forward": -1}]})", "",
            "$.graph.kernels[0].forward: expected a number of 0 or more"},
        Bad{KERNEL(R"("backward_input": -1e-9)"), "",
            "$.graph.kernels[0].backward_input: expected a number of 0"},
        Bad{KERNEL(R"("saved_bytes": -1)"), "",
            "$.graph.kernels[0].saved_bytes: expected a number of bytes"},
        Bad{KERNEL(R"("pass": "sideways")"), "",
            "$.graph.kernels[0].pass: expected one of 'forward', 'backward'"},
        Bad{KERNEL(R"("variants": [{"name": "v", "forward": -1}])"), "",
            "$.graph.kernels[0].variants[0].forward: expected a number"},
        Bad{KERNEL(
                R"("variants": [{"name": "v", "forward": 1, "devices": 0}])"),
            "", "$.graph.kernels[0].variants[0].devices: expected a whole"},
        Bad{KERNEL(R"("variants": [{"name": "v", "forward": 1},
                                   {"name": "v", "forward": 1}])"),
            "", "$.graph.kernels[0].variants[1].name: 'v' is named twice"},
        Bad{KERNEL(R"("measured": [{"kind": "x", "forward": 1},
                                   {"kind": "x", "forward": 1}])"),
            "", "$.graph: kernel 'a' has two times for devices of kind 'x'"},
        Bad{R"({"kernels": [{"name": "a", "forward": 1},
                            {"name": "a", "forward": 1}]})",
            "", "$.graph.kernels[1].name: 'a' is named twice"},
        Bad{R"({"kernels": [{"name": "a", "forward": 1}], "values":
            [{"producer": "a", "consumers": ["b"], "bytes": 1}]})",
            "", "$.graph.values[0].consumers[0]: there is no kernel 'b'"},
        Bad{R"({"kernels": [{"name": "a", "forward": 1}], "values":
            [{"producer": 3, "consumers": [], "bytes": 1}]})",
            "", "$.graph.values[0].producer: expected the name of a kernel"},
        Bad{R"({"kernels": [{"name": "a", "forward": 1},
            {"name": "b", "forward": 1}, {"name": "c", "forward": 1}],
            "values": [{"producer": "a", "consumers": ["b"], "bytes": 1},
            {"producer": "b", "consumers": ["a", "c"], "bytes": 1}]})",
            "", "$.graph.values: the kernels 'b', 'a' form a cycle"},
        Bad{R"({"kernels": [{"name": "a", "forward": 1, "forward": 2},
                            {"name": "b", "forward": 1, "name": "c"}]})",
            "",
            "$.graph.kernels[0].forward and $.graph.kernels[1].name: stated "
            "twice"},
        Bad{TWO, R"(, "cluster": {})", "$.cluster: stated twice"},
        Bad{R"({"kernels": [{"name": "a", "forward": 1},
            {"name": "b", "forward": 1}], "values":
            [{"name": "x", "producer": "a", "consumers": ["b"], "bytes": 1},
             {"name": "x", "producer": "a", "consumers": ["b"], "bytes": 2}]})",
            "", "$.graph.values[1].name: 'x' is named twice"},
        Bad{R"({"kernels": [
            {"name": "a", "forward": 1, "saved_bytes": 9000000000000000000},
            {"name": "b", "forward": 1, "saved_bytes": 9000000000000000000}]})",
            "",
            "$.graph: the sizes of all kernels or of all values together are "
            "more than 9223372036854775807 bytes"},
        Bad{R"({"kernels": [{"name": "a", "forward": 1}], "values":
            [{"producer": "a", "consumers": [], "bytes": 9000000000000000000,
              "gradient_bytes": 9000000000000000000}]})",
            "", "$.graph: the sizes of all kernels or of all values together"},
        Bad{KERNEL(R"("parameter_bytes": 9000000000000000000)"),
            R"(, "constraints": {"memory": {"parameter_copies": 2}})",
            "all kernels in one stage need more than 9.2e18 bytes"},
        Bad{TWO, R"(, "objective": {"kind": "speed"})",
            "$.objective.kind: expected one of 'time', 'memory'"},
        Bad{TWO, R"(, "objective": {"microbatches": 0})",
            "$.objective.microbatches: expected a whole number from 1"},
        Bad{TWO, R"(, "constraints": {"cuts": ["c"]})",
            "$.constraints.cuts[0]: there is no kernel 'c'"},
        Bad{TWO, R"(, "constraints": {"max_stage": 2})",
            "$.constraints.max_stage: unknown key"},
        Bad{TWO, R"(, "constraints": {"max_stages": 3,
            "exact_stage_count": true})",
            "3 stages need at least as many kernels; there are 2"},
        Bad{TWO, R"(, "constraints": {"exact_stage_count": true})",
            "an exact number of stages is asked for, but not which"},
        Bad{KERNEL(R"("parameter_bytes": 101)"),
            R"(, "constraints": {"limit_memory": true})",
            "not enough memory: kernel 'a' with all that must be in its stage "
            "needs 101 bytes, the largest device has 100"},
        Bad{R"({"kernels": [
            {"name": "a", "forward": 1, "parameter_bytes": 60},
            {"name": "b", "forward": 1, "parameter_bytes": 60}]})",
            R"(, "constraints": {"limit_memory": true, "max_stages": 1})",
            "no partition fits the memory of the devices with at most 1"},
        Bad{KERNEL(R"("stage_hint": 3)"), "",
            "kernel 'a' wants stage 3, but there are 3 stages"},
        Bad{R"({"kernels": [
            {"name": "a", "forward": 1, "stage_hint": 1,
             "colocation_class": 0},
            {"name": "b", "forward": 1, "stage_hint": 0,
             "colocation_class": 0}]})",
            "", "kernel 'a' wants stage 1, but must be in one stage with"},
        Bad{KERNEL(R"("stage_hint": 0)"),
            R"(, "constraints": {"limit_memory": true, "memory":
            {"rule": "from_last", "in_flight": [1, 2]}})",
            "kernel 'a' wants a stage, counted from the first"},
        Bad{KERNEL(R"("saved_bytes": 2, "variants": [{"name": "v", "forward": 2,
            "saved_bytes": 1}])"),
            R"(, "objective": {"kind": "memory"})",
            "the choice of variants with the objective memory is not"},
        Bad{TWO, R"(, "objective": {"kind": "memory"},
            "constraints": {"replicate": true})",
            "replication with the objective memory is not supported"},
        Bad{TWO, R"(, "objective": {"kind": "pipedream",
            "communication": "ignored"})",
            "the objective pipedream defines its own communication"},
        Bad{KERNEL(R"("variants": [{"name": "v", "forward": 1,
            "parameter_bytes": 1}])"),
            R"(, "constraints": {"replicate": true})",
            "kernel 'a' has variants on 1 device with different parameters"},
        Bad{TWO, R"(, "constraints": {"cuts": ["b"], "replicate": true})",
            "cuts leave no choice of replicas or devices"},
        Bad{TWO, R"(, "constraints": {"cuts": ["a"]})",
            "cut 0 is at kernel 0: cuts must increase"},
        Bad{TWO, R"(, "constraints": {"memory": {"rule": "replicas",
            "in_flight": [1]}})",
            "micro-batches in flight follow from the replicas"}));

TEST(Answer, errorsNameThePath) {
  Result<PlanningProblem> read =
      PlanningProblem::fromJson(firstJson(PP_DOCS "/problem-format.md", 0));
  ASSERT_TRUE(bool(read));
  auto error = [&](const std::string &kernels) {
    Result<PartitionSolution> answer = read->answerFromJson(
        R"({"version": 1, "method": "x", "exact": false, "value": 1,
            "lower_bound": 0, "stages": [{"devices": ["core0"], "replicas": 1,
            "degree": 1, "compute_seconds": 1, "communication_seconds": 0,
            "sync_seconds": 0, "memory_bytes": 0, "cost": 1}], "kernels": )" +
        kernels + "}");
    return answer ? "" : answer.error();
  };
  EXPECT_EQ(error("[]"), "$.kernels: kernel 'embed' is missing");
  EXPECT_EQ(error(R"([{"name": "x", "stage": 0}])"),
            "$.kernels[0].name: there is no kernel 'x'");
  EXPECT_EQ(error(R"([{"name": "embed", "stage": 1}])"),
            "$.kernels[0].stage: expected a whole number from 0 to 0");
  EXPECT_EQ(error(R"([{"name": "embed", "stage": 0, "variant": "v"}])"),
            "$.kernels[0].variant: kernel 'embed' has no variant 'v'");
}

} // namespace
