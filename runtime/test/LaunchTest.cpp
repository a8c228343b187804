//===- LaunchTest.cpp - The variables of launchers ------------------------===//
#include "process/Launch.h"
#include "support/Error.h"

#include <gtest/gtest.h>

#include <map>

using namespace pp::runtime;

namespace {

using Variables = std::map<std::string, std::string>;

Launch detect(const Variables &variables, std::string_view launcher = "auto") {
  return detectLaunch(launcher, [&](const char *name) -> const char * {
    auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  });
}

std::string errorOf(const Variables &variables,
                    std::string_view launcher = "auto") {
  try {
    detect(variables, launcher);
  } catch (const Error &error) {
    EXPECT_EQ(error.getKind(), ErrorKind::Usage);
    return error.what();
  }
  return "no error";
}

const Variables openMpi{{"OMPI_COMM_WORLD_RANK", "3"},
                        {"OMPI_COMM_WORLD_SIZE", "4"},
                        {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
                        {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                        {"PMIX_NAMESPACE", "123"}};

TEST(Launch, AloneWithoutVariables) {
  EXPECT_EQ(detect({}).processes, 1U);
  EXPECT_EQ(detect({}).launcher, "");
  EXPECT_EQ(detect(openMpi, "none").processes, 1U);
  // One process needs nobody to meet.
  EXPECT_EQ(detect({{"PP_PROCESS", "0"}, {"PP_PROCESSES", "1"}}).launcher, "");
}

TEST(Launch, OpenMpi) {
  Launch launch = detect(openMpi);
  EXPECT_EQ(launch.launcher, "mpirun");
  EXPECT_EQ(launch.process, 3U);
  EXPECT_EQ(launch.processes, 4U);
  EXPECT_EQ(launch.localProcess, 3U);
  EXPECT_EQ(launch.job, "mpirun-123");
  EXPECT_TRUE(launch.address.starts_with("unix:pp-mlir-")) << launch.address;
  Variables other = openMpi;
  other["PMIX_NAMESPACE"] = "124";
  EXPECT_NE(detect(other).address, launch.address);
  other["OMPI_COMM_WORLD_LOCAL_SIZE"] = "2";
  // Unless MPI connects them, there is an error when they meet.
  EXPECT_EQ(detect(other).address, "");
  EXPECT_TRUE(detect(other).startsMpi);
  other["PP_MASTER"] = "node1:5000";
  EXPECT_EQ(detect(other).address, "node1:5000");
}

TEST(Launch, Mpich) {
  Launch launch = detect({{"PMI_RANK", "1"},
                          {"PMI_SIZE", "2"},
                          {"MPI_LOCALRANKID", "1"},
                          {"MPI_LOCALNRANKS", "2"}});
  EXPECT_EQ(launch.launcher, "mpirun");
  EXPECT_EQ(launch.process, 1U);
  EXPECT_EQ(launch.processes, 2U);
}

TEST(Launch, JobsOfSeveralMachinesHaveOneName) {
  // mpirun's own process has another number on each machine.
  Variables mpich{{"PMI_RANK", "1"},
                  {"PMI_SIZE", "2"},
                  {"MPI_LOCALRANKID", "0"},
                  {"MPI_LOCALNRANKS", "1"},
                  {"PP_MASTER", "node1:5000"}};
  EXPECT_EQ(detect(mpich).job, "mpirun");
}

TEST(Launch, Slurm) {
  Variables step{{"SLURM_PROCID", "5"},
                 {"SLURM_STEP_NUM_TASKS", "8"},
                 {"SLURM_LOCALID", "1"},
                 {"SLURM_STEP_TASKS_PER_NODE", "4(x2)"},
                 {"SLURM_JOB_ID", "77"},
                 {"SLURM_STEP_ID", "2"},
                 {"SLURM_STEP_NODELIST", "node[03-04]"}};
  Launch launch = detect(step);
  EXPECT_EQ(launch.launcher, "srun");
  EXPECT_EQ(launch.process, 5U);
  EXPECT_EQ(launch.processes, 8U);
  EXPECT_EQ(launch.localProcess, 1U);
  EXPECT_EQ(launch.localProcesses, 4U);
  EXPECT_EQ(launch.job, "srun-77.2");
  EXPECT_TRUE(launch.address.starts_with("node03:")) << launch.address;
  // Only with --mpi do processes of MPI find each other.
  EXPECT_FALSE(launch.startsMpi);
  step["PMIX_RANK"] = "5";
  EXPECT_TRUE(detect(step).startsMpi);
  // A batch script is a process alone.
  EXPECT_EQ(detect({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}).processes,
            1U);
}

TEST(Launch, FirstHostOfSlurmsList) {
  EXPECT_EQ(firstHost("node7"), "node7");
  EXPECT_EQ(firstHost("a,b"), "a");
  EXPECT_EQ(firstHost("node[03-07,9],other"), "node03");
  EXPECT_EQ(firstHost("node[9,03]"), "node9");
  EXPECT_EQ(firstHost("x,node[1-2]"), "x");
}

TEST(Launch, Torchrun) {
  Variables run{{"TORCHELASTIC_RUN_ID", "none"},
                {"RANK", "2"},
                {"WORLD_SIZE", "4"},
                {"LOCAL_RANK", "0"},
                {"LOCAL_WORLD_SIZE", "2"},
                {"MASTER_ADDR", "head"},
                {"MASTER_PORT", "29500"},
                {"TORCHELASTIC_RESTART_COUNT", "0"}};
  Launch launch = detect(run);
  EXPECT_EQ(launch.launcher, "torchrun");
  EXPECT_EQ(launch.process, 2U);
  EXPECT_EQ(launch.localProcess, 0U);
  EXPECT_EQ(launch.address, "head:29501");
  // torchrun started by srun.
  run["SLURM_STEP_NUM_TASKS"] = "2";
  run["SLURM_PROCID"] = "1";
  EXPECT_EQ(detect(run).launcher, "torchrun");
}

TEST(Launch, OwnVariables) {
  Launch launch =
      detect({{"PP_PROCESS", "1"}, {"PP_PROCESSES", "2"}, {"PP_JOB", "mine"}});
  EXPECT_EQ(launch.launcher, "env");
  EXPECT_EQ(launch.localProcess, 1U);
  EXPECT_EQ(launch.localProcesses, 2U);
  EXPECT_EQ(launch.job, "mine");
  // Another shell has another number.
  EXPECT_EQ(detect({{"PP_PROCESS", "1"}, {"PP_PROCESSES", "2"}}).job, "env");
}

TEST(Launch, Errors) {
  EXPECT_EQ(errorOf({{"PP_PROCESS", "1"}}), "env: PP_PROCESSES is not set");
  EXPECT_EQ(errorOf({{"PP_PROCESS", "x"}, {"PP_PROCESSES", "2"}}),
            "env: PP_PROCESS is 'x', which is not a number");
  EXPECT_EQ(errorOf({{"PP_PROCESS", "2"}, {"PP_PROCESSES", "2"}}),
            "env: PP_PROCESS is 2, but PP_PROCESSES is 2");
  EXPECT_EQ(errorOf({}, "srun"), "--launcher srun: its variables are not set");
}

} // namespace
