//===- PlanProblem.cpp - Solve a planning problem from a file -------------===//
//
//   PPPlanProblem problem.json    writes the answer to the standard output
//
//===----------------------------------------------------------------------===//
#include "pp/Planner/Problem.h"
#include <fstream>
#include <iostream>
#include <sstream>

using namespace pp::planner;

int main(int argc, char **argv) {
  std::ifstream file(argc > 1 ? argv[1] : "");
  if (!file) {
    std::cerr << "usage: PPPlanProblem problem.json\n";
    return 2;
  }
  std::stringstream text;
  text << file.rdbuf();
  Result<PlanningProblem> read = PlanningProblem::fromJson(text.str());
  if (!read) {
    std::cerr << argv[1] << ": " << read.error() << "\n";
    return 1;
  }
  PartitionProblem problem = read->problem();
  Result<PartitionSolution> solution = partitionGraph(problem);
  if (!solution) {
    std::cerr << solution.error() << "\n";
    return 1;
  }
  if (std::optional<std::string> fault = verify(problem, *solution)) {
    std::cerr << "the answer is wrong: " << *fault << "\n";
    return 3;
  }
  std::cout << read->answerToJson(*solution);
}
