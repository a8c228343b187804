//===- Compiler.cpp - The functions of pp_compiler.h ----------------------===//
#include "ToolRun.h"
#include "pp_compiler.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>
#include <sstream>
#include <stdexcept>
#include <system_error>

using namespace pp::capi;

namespace {
/// What a function returns.
class Failure : public std::runtime_error {
public:
  Failure(pp_error_kind kind, const std::string &message)
      : std::runtime_error(message), kind(kind) {}
  pp_error_kind kind;
};

/// A file that is gone with the object.
class TemporaryFile {
public:
  TemporaryFile() {
    std::string name = std::filesystem::temp_directory_path() / "pp-XXXXXX";
    int file = mkstemp(name.data());
    if (file < 0)
      throw std::system_error(errno, std::generic_category(),
                              "cannot make a temporary file '" + name + "'");
    close(file);
    path = name;
  }
  ~TemporaryFile() {
    std::error_code code;
    std::filesystem::remove(path, code);
  }
  TemporaryFile(const TemporaryFile &) = delete;
  TemporaryFile &operator=(const TemporaryFile &) = delete;

  void write(const std::string &text) {
    std::ofstream file(path, std::ios::binary);
    file << text;
    if (!file.flush())
      throw Failure(PP_ERROR_IO, "cannot write '" + path + "'");
  }
  std::string read() const {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }

  std::string path;
};
} // namespace

template <typename Work> static pp_error *guard(Work work) {
  try {
    work();
    return nullptr;
  } catch (const Failure &failure) {
    return pp_error_make(failure.kind, failure.what());
  } catch (const std::bad_alloc &) {
    return pp_error_make(PP_ERROR_IO, "out of memory");
  } catch (const std::system_error &error) {
    return pp_error_make(PP_ERROR_IO, error.what());
  } catch (const std::exception &error) {
    return pp_error_make(PP_ERROR_INTERNAL, error.what());
  }
}

static std::string required(const char *text, const char *what) {
  if (!text)
    throw Failure(PP_ERROR_USAGE, std::string(what) + " is null");
  return text;
}

/// The model's path, which no flag begins like, and the flags.
static std::vector<std::string>
argumentsOf(const char *model, const char *const *flags, size_t count) {
  if (count && !flags)
    throw Failure(PP_ERROR_USAGE, "the flags are null");
  std::string path = required(model, "the model");
  if (path.starts_with("-"))
    path.insert(0, "./");
  std::vector<std::string> arguments{path};
  for (size_t i = 0; i < count; ++i) {
    arguments.push_back(required(flags[i], "a flag"));
    if (!arguments.back().starts_with("-"))
      throw Failure(PP_ERROR_USAGE,
                    "'" + arguments.back() +
                        "' is no flag; a value follows its flag as in "
                        "--batch=64");
  }
  return arguments;
}

static pp_error_kind kindOf(int exitCode) {
  switch (exitCode) {
  case PP_ERROR_INVALID_INPUT:
  case PP_ERROR_USAGE:
  case PP_ERROR_UNSUPPORTED:
  case PP_ERROR_IO:
    return static_cast<pp_error_kind>(exitCode);
  default:
    return PP_ERROR_INTERNAL;
  }
}

/// Runs a tool; what it says on standard error is a message or, where it fails,
/// the error.
static std::string run(const char *tool,
                       const std::vector<std::string> &arguments) {
  ToolRun result = runTool(tool, arguments);
  if (result.exitCode == 0) {
    if (!result.errors.empty())
      pp_message(result.errors.c_str());
    return std::move(result.output);
  }
  std::string text = std::move(result.errors);
  while (text.ends_with("\n"))
    text.pop_back();
  if (text.starts_with("error: "))
    text.erase(0, std::strlen("error: "));
  if (result.exitCode > 128)
    text = std::string(tool) + " was ended by signal " +
           std::to_string(result.exitCode - 128) +
           (text.empty() ? "" : ": " + text);
  if (text.empty())
    text = std::string(tool) + " ended with exit code " +
           std::to_string(result.exitCode);
  throw Failure(kindOf(result.exitCode), text);
}

static char *copyText(const std::string &text) {
  char *copy = static_cast<char *>(std::malloc(text.size() + 1));
  if (!copy)
    throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

pp_error *pp_import(const char *model, const char *const *flags,
                    size_t flag_count, char **ir) {
  return guard([&] {
    if (!ir)
      throw Failure(PP_ERROR_USAGE, "where to put the IR is null");
    *ir = nullptr;
    auto arguments = argumentsOf(model, flags, flag_count);
    arguments.push_back("--compile-to=import");
    *ir = copyText(run("pp-compile", arguments));
  });
}

pp_error *pp_plan(const char *model, const char *const *flags,
                  size_t flag_count, char **plan, char **report) {
  return guard([&] {
    if (!plan)
      throw Failure(PP_ERROR_USAGE, "where to put the plan is null");
    *plan = nullptr;
    if (report)
      *report = nullptr;
    TemporaryFile file;
    auto arguments = argumentsOf(model, flags, flag_count);
    arguments.insert(arguments.end(), {"-o", file.path});
    std::string text = run("pp-plan", arguments);
    *plan = copyText(file.read());
    if (report)
      *report = copyText(text);
  });
}

pp_error *pp_compile(const char *model, const char *plan,
                     const char *const *flags, size_t flag_count,
                     const char *output) {
  return guard([&] {
    auto arguments = argumentsOf(model, flags, flag_count);
    bool saysWhat = false;
    for (const std::string &argument : arguments)
      saysWhat |= argument.starts_with("--emit=");
    if (!saysWhat)
      arguments.push_back("--emit=library");
    TemporaryFile file;
    if (plan) {
      file.write(plan);
      arguments.push_back("--plan=" + file.path);
    }
    arguments.insert(arguments.end(), {"-o", required(output, "the output")});
    std::string text = run("pp-compile", arguments);
    if (!text.empty())
      pp_message(text.c_str());
  });
}

void pp_text_free(char *text) { std::free(text); }
