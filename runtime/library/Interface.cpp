//===- Interface.cpp - The functions of pp_runtime.h ----------------------===//
#include "library/LoadedProgram.h"
#include "support/Error.h"
#include "support/Print.h"

#include <cmath>
#include <memory>
#include <new>

using namespace pp::runtime;

struct pp_error {
  pp_error_kind kind;
  std::string message;
};

struct pp_program {
  LoadedProgram loaded;
};

// Where there is no memory for an error.
static pp_error outOfMemory{PP_ERROR_IO, "out of memory"};

pp_error *pp_error_make(pp_error_kind kind, const char *message) {
  try {
    return new pp_error{kind, message};
  } catch (const std::bad_alloc &) {
    return &outOfMemory;
  }
}

/// Calls `work`; what it throws becomes the error.
template <typename Work> static pp_error *guard(Work work) {
  try {
    work();
    return nullptr;
  } catch (const Error &error) {
    return pp_error_make(static_cast<pp_error_kind>(error.getKind()),
                         error.what());
  } catch (const std::bad_alloc &) {
    return &outOfMemory;
  } catch (const std::exception &error) {
    return pp_error_make(PP_ERROR_INTERNAL, error.what());
  }
}

/// The same with the program's mutex.
template <typename Work>
static pp_error *guard(const pp_program *program, Work work) {
  return guard([&] {
    if (!program)
      failUsage("the program is null");
    std::lock_guard lock(program->loaded.getMutex());
    work(const_cast<pp_program *>(program)->loaded);
  });
}

template <typename T> static T &required(T *pointer, const char *what) {
  if (!pointer)
    failUsage("{} is null", what);
  return *pointer;
}

/// A list of the caller's; null is allowed where it is empty.
template <typename T>
static std::span<const T> listOf(const T *values, size_t count,
                                 const char *what) {
  if (!values && count)
    failUsage("{}: there is no list, which should have {}", what, count);
  return {values, count};
}

static std::vector<std::string> textsOf(const char *const *texts, size_t count,
                                        const char *what) {
  std::vector<std::string> result;
  for (const char *text : listOf(texts, count, what))
    result.emplace_back(&required(text, what));
  return result;
}

const char *pp_version(void) { return PP_VERSION; }

pp_error_kind pp_error_get_kind(const pp_error *error) { return error->kind; }

const char *pp_error_message(const pp_error *error) {
  return error->message.c_str();
}

void pp_error_free(pp_error *error) {
  if (error != &outOfMemory)
    delete error;
}

pp_error *pp_program_open(const char *path, pp_mode mode,
                          const char *const *flags, size_t flag_count,
                          pp_program **program) {
  return guard([&] {
    required(program, "where to put the program") = nullptr;
    if (mode != PP_INFER && mode != PP_TRAIN)
      failUsage("there is no mode {}", static_cast<int>(mode));
    *program = new pp_program{{&required(path, "the path"), mode == PP_TRAIN,
                               textsOf(flags, flag_count, "a flag")}};
  });
}

void pp_program_close(pp_program *program) { delete program; }

uint64_t pp_batch_size(const pp_program *program) {
  return program->loaded.batch();
}

size_t pp_input_count(const pp_program *program, pp_mode mode) {
  try {
    return program->loaded.inputs(mode == PP_TRAIN).size();
  } catch (const Error &) {
    return 0;
  }
}

size_t pp_output_count(const pp_program *program) {
  return program->loaded.outputs().size();
}

static void describePort(const std::vector<PortDescription> &ports,
                         size_t index, pp_port *port) {
  if (index >= ports.size())
    failUsage("there is no port {}: there are {}", index, ports.size());
  required(port, "where to put the port") = ports[index].describe();
}

pp_error *pp_get_input(const pp_program *program, pp_mode mode, size_t index,
                       pp_port *port) {
  return guard(program, [&](LoadedProgram &loaded) {
    describePort(loaded.inputs(mode == PP_TRAIN), index, port);
  });
}

pp_error *pp_get_output(const pp_program *program, size_t index,
                        pp_port *port) {
  return guard(program, [&](LoadedProgram &loaded) {
    describePort(loaded.outputs(), index, port);
  });
}

pp_error *pp_train_step(pp_program *program, const pp_tensor *inputs,
                        size_t count, pp_step_result *result) {
  return guard(program, [&](LoadedProgram &loaded) {
    if (loaded.countInFlight())
      failUsage("{} steps are in flight; pp_train_wait gives their results",
                loaded.countInFlight());
    loaded.submit(listOf(inputs, count, "the inputs"));
    pp_step_result own = loaded.wait();
    if (result)
      *result = own;
  });
}

pp_error *pp_train_submit(pp_program *program, const pp_tensor *inputs,
                          size_t count) {
  return guard(program, [&](LoadedProgram &loaded) {
    loaded.submit(listOf(inputs, count, "the inputs"));
  });
}

pp_error *pp_train_wait(pp_program *program, pp_step_result *result) {
  return guard(program, [&](LoadedProgram &loaded) {
    pp_step_result own = loaded.wait();
    if (result)
      *result = own;
  });
}

size_t pp_steps_in_flight(const pp_program *program) {
  std::lock_guard lock(program->loaded.getMutex());
  return program->loaded.countInFlight();
}

size_t pp_most_steps_in_flight(const pp_program *program) {
  return program->loaded.mostInFlight();
}

pp_error *pp_train(pp_program *program, const pp_tensor *inputs, size_t count,
                   uint64_t epochs, int shuffle, pp_progress progress,
                   void *data) {
  return guard(program, [&](LoadedProgram &loaded) {
    loaded.train(listOf(inputs, count, "the inputs"), epochs, shuffle != 0,
                 progress, data);
  });
}

pp_error *pp_set_learning_rate(pp_program *program, double rate) {
  return pp_set_scalar(program, "lr", rate);
}

pp_error *pp_get_learning_rate(const pp_program *program, double *rate) {
  return pp_get_scalar(program, "lr", rate);
}

pp_error *pp_set_scalar(pp_program *program, const char *name, double value) {
  return guard(program, [&](LoadedProgram &loaded) {
    loaded.setScalar(&required(name, "the name"), value);
  });
}

pp_error *pp_get_scalar(const pp_program *program, const char *name,
                        double *value) {
  return guard(program, [&](LoadedProgram &loaded) {
    required(value, "where to put the value") =
        loaded.getScalar(&required(name, "the name"));
  });
}

pp_error *pp_infer(pp_program *program, const pp_tensor *inputs,
                   size_t input_count, const pp_tensor *outputs,
                   size_t output_count) {
  return guard(program, [&](LoadedProgram &loaded) {
    loaded.infer(listOf(inputs, input_count, "the inputs"),
                 listOf(outputs, output_count, "the outputs"));
  });
}

pp_error *pp_eval_step(pp_program *program, const pp_tensor *inputs,
                       size_t count, const char *const *metrics,
                       size_t metric_count, double *values) {
  return guard(program, [&](LoadedProgram &loaded) {
    std::vector<double> measured =
        loaded.evaluate(listOf(inputs, count, "the inputs"),
                        textsOf(metrics, metric_count, "a metric"));
    std::copy(measured.begin(), measured.end(),
              &required(values, "where to put the values"));
  });
}

size_t pp_weight_count(const pp_program *program) {
  return program->loaded.getWeights().size();
}

pp_error *pp_get_weight_info(const pp_program *program, size_t index,
                             pp_weight *weight) {
  return guard(program, [&](LoadedProgram &loaded) {
    const WeightTable &weights = loaded.getWeights();
    if (index >= weights.size())
      failUsage("there is no weight {}: there are {}", index, weights.size());
    const auto &[tensor, isTrained, stages] = weights.at(index);
    required(weight, "where to put the weight") = {
        {tensor->name.c_str(), toPublic(tensor->type),
         static_cast<int32_t>(tensor->shape.size()), tensor->shape.data(),
         nullptr},
        isTrained};
  });
}

pp_error *pp_get_weight(pp_program *program, const pp_tensor *target) {
  return guard(program, [&](LoadedProgram &loaded) {
    loaded.readWeight(required(target, "the tensor"));
  });
}

pp_error *pp_set_weight(pp_program *program, const pp_tensor *source) {
  return guard(program, [&](LoadedProgram &loaded) {
    loaded.writeWeight(required(source, "the tensor"));
  });
}

pp_error *pp_get_gradient(pp_program *program, const pp_tensor *target) {
  return guard(program, [&](LoadedProgram &loaded) {
    loaded.readGradient(required(target, "the tensor"));
  });
}

uint64_t pp_parameters_bytes(const pp_program *program) {
  return program->loaded.getWeights().parametersBytes();
}

pp_error *pp_get_parameters(pp_program *program, void *target, uint64_t bytes) {
  return guard(program, [&](LoadedProgram &loaded) {
    loaded.readParameters(target, bytes);
  });
}

pp_error *pp_set_parameters(pp_program *program, const void *source,
                            uint64_t bytes) {
  return guard(program, [&](LoadedProgram &loaded) {
    loaded.writeParameters(source, bytes);
  });
}

pp_error *pp_save(pp_program *program, const char *path) {
  return guard(program, [&](LoadedProgram &loaded) {
    loaded.save(&required(path, "the path"));
  });
}

pp_error *pp_load(pp_program *program, const char *path) {
  return guard(program, [&](LoadedProgram &loaded) {
    loaded.load(&required(path, "the path"));
  });
}

pp_error *pp_load_weights(pp_program *program, const char *path) {
  return guard(program, [&](LoadedProgram &loaded) {
    loaded.loadWeights(&required(path, "the path"));
  });
}

pp_error *pp_export(pp_program *program, const char *path, const char *model) {
  return guard(program, [&](LoadedProgram &loaded) {
    loaded.exportModel(&required(path, "the path"), model ? model : "");
  });
}

void pp_set_message_handler(pp_message_handler handler, void *data) {
  if (!handler)
    return setMessageHandler({});
  setMessageHandler([handler, data](std::string_view text) {
    handler(std::string(text).c_str(), data);
  });
}

void pp_message(const char *text) { writeMessage(text); }
