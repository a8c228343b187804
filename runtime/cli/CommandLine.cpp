//===- CommandLine.cpp ----------------------------------------------------===//
#include "cli/CommandLine.h"
#include "cli/Flags.h"
#include "plan/Plan.h"
#include "process/ProcessGroup.h"
#include "support/AddressSpace.h"
#include "support/Error.h"
#include "support/Print.h"
#include "support/Printable.h"
#include "transport/TransportRegistry.h"

#include <CLI/CLI.hpp>
#include <dnnl.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <new>

using namespace pp::runtime;

static std::vector<std::string> transportNames() {
  std::vector<std::string> names = {"auto"};
  for (const TransportKind &kind : transportKinds())
    names.emplace_back(kind.name);
  return names;
}

static std::string transportHelp() {
  std::string help;
  for (const TransportKind &kind : transportKinds())
    help += fmt::format("{}{} ({})", help.empty() ? "" : ", ", kind.name,
                        kind.help);
  return help;
}

/// Of commands that run in several processes.
static void addProcessOptions(CLI::App &command, RunOptions &options) {
  command
      .add_option("--processes", options.processes,
                  "Become N processes on this machine, which share the ranks")
      ->type_name("N")
      ->check(natural)
      ->check(CLI::Range(1U, 4096U));
  command
      .add_option("--launcher", options.launcher,
                  "Who started the processes that share the ranks: by default "
                  "as the environment says")
      ->check(
          CLI::IsMember({"auto", "none", "mpirun", "srun", "torchrun", "env"}));
  command
      .add_option("--transport", options.transport,
                  "Between processes: " + transportHelp() +
                      ", or what works best")
      ->check(CLI::IsMember(transportNames()));
  command
      .add_option("--secret-file", options.secretFile,
                  "What only the processes of the job know, needed between "
                  "machines; otherwise as PP_SECRET says")
      ->type_name("FILE");
  command
      .add_option("--join-timeout", options.joinTimeout,
                  "How long to wait for the other processes")
      ->type_name("SECONDS")
      ->check(realNumber(1e-3, mostSeconds, "from 0.001 to 1e9"));
}

static void addRunOptions(CLI::App &command, RunOptions &options) {
  command.add_option("--data", options.data, "NumPy archive with the inputs")
      ->type_name("FILE.npz");
  command
      .add_option("--input", options.inputs,
                  "One input from a file of its own; may be repeated")
      ->type_name("NAME=FILE.npy");
  command
      .add_option("--trace", options.trace,
                  "Write a timeline (Chrome JSON; open in Perfetto)")
      ->type_name("FILE.json");
  command
      .add_option("--report", options.report,
                  "Write memory, utilisation and traffic as JSON")
      ->type_name("FILE.json");
  addDeviceFlags(command, options);
  addProcessOptions(command, options);
}

static void addLinks(CLI::App &command, LinksOptions &options) {
  command
      .add_option("-o,--output", options.output,
                  "The cluster file, for pp-plan --cluster")
      ->type_name("FILE.json")
      ->required();
  addProcessOptions(command, options);
}
static constexpr const char *linksHelp =
    "Measure how fast values go between the processes of a job, and write a "
    "cluster file";

static CLI::App *addProfile(CLI::App &app, ProfileOptions &options) {
  CLI::App *command = app.add_subcommand(
      "profile", "Write a cost file; for programs of pp-profile");
  command->add_option("-o,--output", options.output, "The cost file")
      ->type_name("FILE.json")
      ->required();
  command
      ->add_option("--repetitions", options.repetitions,
                   "Steps to run; the middle half counts")
      ->check(natural)
      ->check(CLI::Range(3, 1 << 20));
  addWeightFlags(*command, options.weights, options.noVerifyWeights);
  command
      ->add_option("--device", options.device,
                   "By default what the model was compiled for")
      ->type_name("NAME");
  return command;
}

static constexpr const char *modelHelp =
    "The ONNX file that the program was compiled from, by default where it was";

static CLI::App *addExport(CLI::App &app, ExportOptions &options) {
  CLI::App *command = app.add_subcommand(
      "export", "Write the ONNX model with trained weights, for inference");
  command->add_option("--load", options.load, "The weights, by name")
      ->type_name("FILE.safetensors")
      ->required();
  addAverages(*command, options.averages);
  command->add_option("-o,--output", options.output, "The new model")
      ->type_name("FILE.onnx")
      ->required();
  command->add_option("--model", options.model, modelHelp)
      ->type_name("FILE.onnx");
  command
      ->add_option("--weights", options.weights,
                   "Directory to look up the model and its data in, by file "
                   "name")
      ->type_name("DIR");
  command->add_flag("--no-verify-weights", options.noVerifyWeights,
                    "Take a model whatever the values in it are");
  return command;
}

static void addMetrics(CLI::App &command, std::vector<std::string> &metrics) {
  command
      .add_option("--metrics", metrics,
                  "What is measured, with commas between: accuracy, topK, f1, "
                  "cross_entropy, perplexity of class numbers, mse, mae of "
                  "others (default: accuracy or mse)")
      ->delimiter(',');
}

static CLI::App *addTrain(CLI::App &app, TrainOptions &options) {
  CLI::App *command = app.add_subcommand("train", "Train the model");
  addRunOptions(*command, options);
  addPads(*command, options.pads);
  addNormalizationFlags(*command, options);
  command
      ->add_option("--epochs", options.epochs,
                   "Train up to this epoch in total (default 1)")
      ->check(natural);
  command
      ->add_option("--steps", options.steps, "Train up to this step in total")
      ->check(natural);
  addTrainingFlags(*command, options);
  command->add_flag("--no-shuffle", options.noShuffle,
                    "Keep the samples in the order of the file");
  command->add_flag("--drop-last", options.dropLast,
                    "Leave out the samples behind an epoch's last whole batch, "
                    "instead of a smaller batch of them");
  command
      ->add_option("--save", options.save,
                   "Write a snapshot at the end and when interrupted")
      ->type_name("FILE.safetensors");
  command
      ->add_option("--save-every", options.saveEvery,
                   "Also write it every N steps")
      ->check(natural);
  command
      ->add_option("--export", options.exportTo,
                   "Write the ONNX model with the trained weights at the end "
                   "and when interrupted, for inference")
      ->type_name("FILE.onnx");
  command->add_option("--model", options.model, modelHelp)
      ->type_name("FILE.onnx");
  command->add_option("--flushed-steps", options.flushedSteps,
                      "Of a program without a flush: let each of the first N "
                      "steps of the training end before the next");
  command->add_option("--resume", options.resume, "Go on from a snapshot")
      ->type_name("FILE.safetensors");
  command
      ->add_option("--load", options.load,
                   "Start a new training from the weights of any snapshot or "
                   "safetensors file, and from the optimizer's state where it "
                   "has it")
      ->type_name("FILE.safetensors")
      ->excludes("--resume");
  command->add_flag("--allow-other-model", options.allowOtherModel,
                    "Resume from another model with the same tensors");
  command->add_flag("--allow-not-finite", options.allowNotFinite,
                    "Resume although there is NaN or infinity in a tensor");
  command
      ->add_option("--eval-data", options.evalData,
                   "Evaluate on this data after each epoch")
      ->type_name("FILE.npz");
  addMetrics(*command, options.metrics);
  command
      ->add_option("--eval-every", options.evalEvery,
                   "Evaluate every N epochs; 0: only at the end")
      ->check(natural);
  command
      ->add_option("--eval-steps", options.evalSteps,
                   "Evaluate every N steps instead")
      ->check(natural)
      ->excludes("--eval-every");
  command
      ->add_option("--keep-best", options.keepBest,
                   "Write a snapshot after each evaluation that is better than "
                   "all before")
      ->type_name("FILE.safetensors");
  command
      ->add_option("--patience", options.patience,
                   "End the training when that many evaluations, one after the "
                   "other, were no better than the best")
      ->check(natural);
  command
      ->add_option(
          "--best-metric", options.bestOf,
          "Which of several --metrics decides what is better (default: "
          "the first)")
      ->type_name("NAME");
  command->add_flag("--log-bits", options.logBits,
                    "Print a hash of the bits of each step's losses");
  command->add_flag("--ema", options.averages,
                    "Evaluate and export the averages of parameters, which a "
                    "program keeps that is compiled with --ema-decay");
  command
      ->add_option("--dump-gradients", options.dumpGradients,
                   "Write the gradients of the last step")
      ->type_name("FILE.safetensors");
  return command;
}

static CLI::App *addEval(CLI::App &app, EvalOptions &options) {
  CLI::App *command =
      app.add_subcommand("eval", "Measure the model's outputs against targets");
  addRunOptions(*command, options);
  addPads(*command, options.pads);
  addNormalizationFlags(*command, options);
  command
      ->add_option("--load", options.load,
                   "Take weights from this file instead")
      ->type_name("FILE.safetensors");
  addAverages(*command, options.averages)->needs("--load");
  addMetrics(*command, options.metrics);
  command
      ->add_option("--target", options.target,
                   "The array with the targets (default: the training "
                   "program's, or target)")
      ->type_name("NAME");
  command
      ->add_option("--prediction", options.prediction,
                   "The output that is measured, where there are several")
      ->type_name("NAME");
  command->add_option("--ignore-index", options.ignoreIndex,
                      "The class number that does not count (default: the "
                      "training program's)");
  return command;
}

/// The model's inputs, for --help.
static std::string describeInputs(const pp_binary &binary) {
  std::string text;
  auto add = [&](const pp_pipeline *program, const char *title) {
    if (!program)
      return;
    Plan plan = Plan::parse({program->plan, program->plan_size});
    text += fmt::format("{} (batch {}):\n", title, plan.batch);
    auto port = [&](const char *kind, const PlanPort &port) {
      Shape shape = port.shape;
      if (port.batched)
        shape[0] = plan.batch;
      text += fmt::format("  {:<7} {:<20} {} {}\n", kind, printable(port.name),
                          nameOf(port.type), toString(shape));
    };
    for (const PlanPort &feed : plan.feeds)
      if (!feed.isFedByRuntime())
        port(feed.role.c_str(), feed);
    for (const PlanPort &fetch : plan.fetches)
      port("output", fetch);
  };
  add(binary.training, "train");
  add(binary.inference, "infer");
  return text;
}

/// What the results depend on besides the model.
static std::string describeVersion(const pp_binary &binary) {
  const dnnl_version_t *library = dnnl_version();
  Plan plan =
      Plan::parse({binary.inference->plan, binary.inference->plan_size});
  return fmt::format("{}, compiled by pp-mlir for {}\nprograms: ABI {}\n"
                     "oneDNN:   {}.{}.{}",
                     plan.model, plan.target, binary.abi_version,
                     library->major, library->minor, library->patch);
}

static int dispatch(int argc, const char *const *argv,
                    const pp_binary &binary) {
  if (binary.abi_version != PP_ABI_VERSION)
    failInternal("the compiler's ABI version is {}, the runtime's {}",
                 binary.abi_version, PP_ABI_VERSION);
  if (!binary.inference)
    failInternal("the binary has no inference program");
  TrainOptions train;
  InferOptions infer;
  EvalOptions evals;
  BenchOptions bench;
  InfoOptions info;
  ProfileOptions profile;
  VerifyOptions verify;
  ExportOptions exports;
  LinksOptions links;
  CLI::App app("A model compiled by pp-compile");
  app.require_subcommand(1);
  app.set_version_flag("--version", [&] { return describeVersion(binary); });
  app.footer(describeInputs(binary));
  app.option_defaults()->always_capture_default(false);

  CLI::App *infoCommand =
      app.add_subcommand("info", "Show the model, its stages and memory");
  infoCommand->add_flag("--plan", info.plan, "Print the plan");
  infoCommand->add_flag("--json", info.json, "Print as JSON");
  infoCommand->add_option("--mode", info.mode, "Only this program")
      ->check(CLI::IsMember({"train", "infer"}));

  CLI::App *trainCommand = addTrain(app, train);

  CLI::App *inferCommand = app.add_subcommand("infer", "Run the model");
  addRunOptions(*inferCommand, infer);
  inferCommand->add_option("--output", infer.output, "Write the outputs")
      ->type_name("FILE.npz");
  inferCommand
      ->add_option("--load", infer.load, "Take weights from this file instead")
      ->type_name("FILE.safetensors");
  addAverages(*inferCommand, infer.averages)->needs("--load");

  addPads(*inferCommand, infer.pads);
  addNormalizationFlags(*inferCommand, infer);
  inferCommand->add_flag("--no-verify-padding", infer.noVerifyPadding,
                         "Do not compare with a program of another size "
                         "whether padding changes the results");

  CLI::App *evalCommand = addEval(app, evals);

  CLI::App *benchCommand =
      app.add_subcommand("bench", "Measure on synthetic data");
  addRunOptions(*benchCommand, bench);
  benchCommand->add_option("--mode", bench.mode, "Program to measure")
      ->check(CLI::IsMember({"train", "infer"}));
  benchCommand->add_option("--steps", bench.steps, "Steps to measure")
      ->check(natural)
      ->check(CLI::Range(uint64_t(1), uint64_t(1) << 32));
  benchCommand
      ->add_option("--duration", bench.duration,
                   "Seconds to measure, instead of --steps")
      ->check(CLI::PositiveNumber)
      ->excludes("--steps");
  benchCommand->add_option("--warmup", bench.warmup, "Steps before")
      ->check(natural);
  benchCommand
      ->add_option("--kernels", bench.kernels,
                   "Print that many kernels, those that take longest first; of "
                   "a program that was compiled with --mark-kernels")
      ->check(natural)
      ->check(CLI::Range(uint64_t(1), uint64_t(1) << 32));
  benchCommand->add_flag("--json", bench.json, "Print as JSON");

  CLI::App *profileCommand = addProfile(app, profile);

  CLI::App *verifyCommand = app.add_subcommand(
      "verify", "Whether the tensors of two snapshots have the same bits");
  verifyCommand->add_option("first", verify.first, "A snapshot")
      ->type_name("A.safetensors")
      ->required();
  verifyCommand->add_option("second", verify.second, "Another one")
      ->type_name("B.safetensors")
      ->required();

  CLI::App *exportCommand = addExport(app, exports);

  CLI::App *linksCommand = app.add_subcommand("links", linksHelp);
  addLinks(*linksCommand, links);

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success &e) {
    return app.exit(e);
  } catch (const CLI::ParseError &e) {
    failUsage("{} (--help lists the options)", e.what());
  }
  if (infoCommand->parsed())
    return runInfo(binary, info);
  if (trainCommand->parsed())
    return runTrain(binary, train);
  if (inferCommand->parsed())
    return runInfer(binary, infer);
  if (evalCommand->parsed())
    return runEval(binary, evals);
  if (profileCommand->parsed())
    return runProfile(binary, profile);
  if (verifyCommand->parsed())
    return runVerify(verify);
  if (exportCommand->parsed())
    return runExport(binary, exports);
  if (linksCommand->parsed())
    return runLinks(links);
  (void)benchCommand;
  return runBench(binary, bench);
}

static int dispatchLinks(int argc, const char *const *argv) {
  LinksOptions links;
  CLI::App app(linksHelp, "pp-profile --links");
  app.option_defaults()->always_capture_default(false);
  addLinks(app, links);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success &e) {
    return app.exit(e);
  } catch (const CLI::ParseError &e) {
    failUsage("{} (--help lists the options)", e.what());
  }
  return runLinks(links);
}

/// Prints what `work` throws, and makes it the exit code.
static int guarded(const std::function<int()> &work) {
  prepareStreams();
  prepareForLimit();
  try {
    int code = work();
    requireOutput();
    return code;
  } catch (const RemoteFailure &e) {
    if (!e.isTold())
      printMessage("error: {}\n", e.what());
    return e.getExitCode();
  } catch (const Error &e) {
    printMessage("error: {}\n", e.what());
    return e.getExitCode();
  } catch (const std::bad_alloc &) {
    printOutOfMemory();
    return static_cast<int>(ErrorKind::IO);
  } catch (const std::exception &e) {
    printMessage("error: {}\n", e.what());
    return static_cast<int>(ErrorKind::Internal);
  }
}

int pp::runtime::runCommandLine(int argc, const char *const *argv,
                                const pp_binary &binary) {
  return guarded([&] { return dispatch(argc, argv, binary); });
}

int pp::runtime::runLinksCommandLine(int argc, const char *const *argv) {
  return guarded([&] { return dispatchLinks(argc, argv); });
}
