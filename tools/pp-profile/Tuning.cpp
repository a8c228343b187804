//===- Tuning.cpp - Times of all kernels that passes choose among ---------===//

#include "Tuning.h"

#include "cpu/Processor.h"
#include "pp/Driver/Errors.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace pp;

static constexpr llvm::StringLiteral kernelsField = "kernels";
static constexpr llvm::StringLiteral deviceField = "device";
static constexpr llvm::StringLiteral stepField = "step_seconds";
static constexpr unsigned fewestSteps = 3;
/// Of a step, in seconds.
static constexpr double longStep = 0.5;
/// Programs that the times choose one after another, until one has no kernel
/// whose time is not known.
static constexpr unsigned mostChoices = 4;

namespace {

struct Candidate {
  std::string name;
  CompileOptions options;
};

class Tuner {
public:
  Tuner(const CompileOptions &options, ModelImport &import,
        const MeasureOptions &settings, bool isFixed,
        mlir::MLIRContext &context)
      : options(options), import(import), settings(settings), isFixed(isFixed),
        context(context) {}

  llvm::Expected<llvm::json::Object> run(llvm::StringRef path) {
    llvm::outs() << "as the rules choose\n";
    if (!isFixed)
      settings.repetitions = fewestSteps;
    auto chosen = measure(options, import, settings, context);
    if (!chosen)
      return chosen.takeError();
    auto keys = listKernels(options, import, context);
    if (!keys)
      return keys.takeError();
    costs = std::move(*chosen);
    if (!isFixed)
      settings.repetitions = static_cast<unsigned>(std::clamp(
          2 / std::max(stepOf(costs), 1e-6), double(fewestSteps), 50.0));
    llvm::json::Object known = readKnown(path);
    for (const Candidate &candidate : listCandidates(*keys))
      if (auto error = add(candidate, known))
        return std::move(error);
    // What other models have in the file stays there.
    for (auto &[key, seconds] : known)
      kernels().try_emplace(key, seconds);
    if (auto error = confirm(*keys))
      return std::move(error);
    return std::move(costs);
  }

private:
  llvm::json::Object &kernels() { return *costs.getObject(kernelsField); }

  /// The times of a file of this processor; none if there is no such file, or
  /// of another one.
  llvm::json::Object readKnown(llvm::StringRef path) {
    auto buffer = llvm::MemoryBuffer::getFile(path);
    if (!buffer)
      return {};
    auto json = llvm::json::parse((*buffer)->getBuffer());
    llvm::json::Object *root = json ? json->getAsObject() : nullptr;
    if (!json)
      llvm::consumeError(json.takeError());
    llvm::json::Object *times = root ? root->getObject(kernelsField) : nullptr;
    auto device = root ? root->getString(deviceField) : std::nullopt;
    if (!times || !device || device != costs.getString(deviceField)) {
      llvm::outs() << "'" << path
                   << "' has no times of this processor and is replaced\n";
      return {};
    }
    return std::move(*times);
  }

  /// What the options leave to the rules, decided otherwise. Not each
  /// combination: of two choices that do not touch the same kernels, both are
  /// measured at once.
  std::vector<Candidate> listCandidates(llvm::ArrayRef<std::string> keys) {
    bool hasConvolutions = llvm::any_of(keys, [](llvm::StringRef key) {
      return key.starts_with("conv_") || key.starts_with("pack_conv_");
    });
    auto choose = [](auto &field, auto open, auto value) {
      if (field == open)
        field = value;
    };
    std::vector<Candidate> candidates;
    auto add = [&](llvm::StringRef name, nn::LayoutChoice layout,
                   nn::ConvolutionChoice algorithm, nn::PackWeightsMode mode) {
      CompileOptions own = options;
      choose(own.layouts.layouts, nn::LayoutChoice::Auto, layout);
      choose(own.convolutions.convolutions, nn::ConvolutionChoice::Auto,
             algorithm);
      choose(own.packWeights.mode, nn::PackWeightsMode::Auto, mode);
      candidates.push_back({name.str(), own});
    };
    using Layouts = nn::LayoutChoice;
    using Algorithm = nn::ConvolutionChoice;
    using Mode = nn::PackWeightsMode;
    add(hasConvolutions ? "plain, nothing packed" : "nothing packed",
        Layouts::Plain, Algorithm::Direct, Mode::Never);
    if (!hasConvolutions) {
      add("packed", Layouts::Plain, Algorithm::Direct, Mode::Always);
      return candidates;
    }
    add("channels last, packed", Layouts::ChannelsLast, Algorithm::Direct,
        Mode::Always);
    add("blocks of channels, packed", Layouts::Blocked, Algorithm::Direct,
        Mode::Always);
    bool isWidened =
        options.precision == nn::Precision::BF16 && !runtime::hasFastBFloat16();
    if (options.precision == nn::Precision::F32 || isWidened)
      add("blocks of channels, packed, Winograd's algorithm", Layouts::Blocked,
          Algorithm::Winograd, Mode::Always);
    if (options.precision == nn::Precision::F32 ||
        options.precision == nn::Precision::BF16) {
      add("blocks of channels, packed, our own tiles of 2 x 2",
          Layouts::Blocked, Algorithm::Winograd2, Mode::Always);
      add("blocks of channels, packed, our own tiles of 4 x 4",
          Layouts::Blocked, Algorithm::Winograd4, Mode::Always);
    }
    if (options.precision == nn::Precision::BF16 && !isWidened)
      add("blocks of channels, packed, our own tiles of 2 x 2 in bf16",
          Layouts::Blocked, Algorithm::Winograd2BF16, Mode::Always);
    return candidates;
  }

  /// Measures the candidate unless all of its kernels are known. Of a kernel
  /// that was measured several times, the shortest time counts: what disturbs
  /// only adds to it.
  llvm::Error add(const Candidate &candidate, const llvm::json::Object &known) {
    auto keys = listKernels(candidate.options, import, context);
    if (!keys)
      return keys.takeError();
    alternatives.insert_range(*keys);
    bool isKnown = llvm::all_of(*keys, [&](const std::string &key) {
      return known.get(key) || kernels().get(key);
    });
    llvm::outs() << candidate.name << (isKnown ? ": known\n" : "\n");
    if (isKnown)
      return llvm::Error::success();
    auto more = measure(candidate.options, import, settings, context);
    if (!more)
      return more.takeError();
    keepShortest(*more->getObject(kernelsField));
    return llvm::Error::success();
  }

  void keepShortest(const llvm::json::Object &more) {
    for (auto &[key, value] : more) {
      auto known = kernels().getNumber(key);
      if (!known || *value.getAsNumber() < *known)
        kernels()[key] = value;
    }
  }

  /// The kernels that a program has which the times choose; `own` is told their
  /// file, `path`.
  llvm::Expected<std::vector<std::string>> choose(CompileOptions &own,
                                                  llvm::StringRef path) {
    if (auto error = llvm::writeToOutput(path, [&](llvm::raw_ostream &os) {
          os << llvm::json::Value(llvm::json::Object(costs));
          return llvm::Error::success();
        }))
      return std::move(error);
    own.tuningFile = path.str();
    auto keys = listKernels(own, import, context);
    if (keys)
      alternatives.insert_range(*keys);
    return keys;
  }

  /// Leaves of the times what the rules choose: for this model alone, whose
  /// kernels otherwise chosen are left out, or where other models' times choose
  /// for it, too, for all.
  llvm::Error keepRules(llvm::ArrayRef<std::string> rules,
                        llvm::StringRef path) {
    auto keep = [&](auto isKept) {
      llvm::json::Object kept;
      for (auto &[key, time] : kernels())
        if (llvm::is_contained(rules, key.str()) || isKept(key))
          kept[key] = time;
      costs[kernelsField] = std::move(kept);
    };
    keep([&](llvm::StringRef key) { return !alternatives.contains(key); });
    CompileOptions own = options;
    auto keys = choose(own, path);
    if (!keys)
      return keys.takeError();
    if (llvm::ArrayRef(*keys) != rules)
      keep([](llvm::StringRef) { return false; });
    return llvm::Error::success();
  }

  /// Measures the program that the times choose and keeps its step's time and
  /// those of kernels that were not known; returns the step's, in seconds.
  /// Shorter times of what was known could choose another program than the one
  /// that is measured here.
  llvm::Expected<double> measureChosen(const CompileOptions &own) {
    auto measured = measure(own, import, settings, context);
    if (!measured)
      return measured.takeError();
    for (auto &[key, value] : *measured->getObject(kernelsField))
      kernels().try_emplace(key, value);
    costs[stepField] = *measured->get(stepField);
    return stepOf(*measured);
  }

  /// Compares the program that the times choose with that of the rules, whose
  /// kernels are `rules`.
  ///
  /// A program that mixes candidates may have kernels that none of them has (a
  /// reorder between two layouts, say). With their times the file may choose
  /// another program, which is measured in its turn: what is kept is a file
  /// that chooses a program whose kernels it has all, or the rules' kernels.
  llvm::Error confirm(llvm::ArrayRef<std::string> rules) {
    llvm::SmallString<128> path;
    if (std::error_code code =
            llvm::sys::fs::createTemporaryFile("pp-tune", "json", path))
      return makeError(exitInputOutput,
                       "cannot make a temporary file: " + code.message());
    llvm::FileRemover remove(path);
    CompileOptions own = options;
    auto keys = choose(own, path);
    if (!keys)
      return keys.takeError();
    if (llvm::ArrayRef(*keys) == rules) {
      llvm::outs() << "the measured times choose as the rules do\n";
      return llvm::Error::success();
    }
    llvm::json::Value stepOfRules = *costs.get(stepField);
    double before = stepOf(costs), after = 0;
    bool isLong = before >= longStep, isSettled = false;
    for (unsigned choice = 0; choice < mostChoices && !isSettled; ++choice) {
      llvm::outs() << "as the times choose\n";
      auto step = measureChosen(own);
      if (!step)
        return step.takeError();
      after = *step;
      auto next = choose(own, path);
      if (!next)
        return next.takeError();
      isSettled = *next == *keys;
      keys = std::move(next);
    }
    if (isSettled) {
      // The rules' program has run once already: both have two turns, or one
      // where a step is long.
      llvm::outs() << "as the rules choose again\n";
      auto rulesAgain = measure(options, import, settings, context);
      if (!rulesAgain)
        return rulesAgain.takeError();
      before = std::min(before, stepOf(*rulesAgain));
      if (!isLong) {
        auto step = measureChosen(own);
        if (!step)
          return step.takeError();
        after = std::min(after, *step);
      }
      llvm::outs() << llvm::formatv(
          "tuned: {0:f3} ms per step, untuned: {1:f3}\n", 1e3 * after,
          1e3 * before);
      if (after < before)
        return llvm::Error::success();
    }
    llvm::outs() << "of this model, the file has only what the rules choose\n";
    costs[stepField] = std::move(stepOfRules);
    return keepRules(rules, path);
  }

  const CompileOptions &options;
  ModelImport &import;
  MeasureOptions settings;
  bool isFixed;
  mlir::MLIRContext &context;
  /// The cost file in the making.
  llvm::json::Object costs;
  /// Kernels of programs that are not as the rules choose, or not only.
  llvm::StringSet<> alternatives;
};

} // namespace

llvm::Expected<llvm::json::Object>
pp::tune(const CompileOptions &options, ModelImport &import,
         llvm::StringRef path, const MeasureOptions &settings, bool isFixed,
         mlir::MLIRContext &context) {
  return Tuner(options, import, settings, isFixed, context).run(path);
}
