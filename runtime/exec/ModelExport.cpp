//===- ModelExport.cpp ----------------------------------------------------===//
#include "exec/ModelExport.h"
#include "plan/ShortFloat.h"
#include "support/AtomicFile.h"
#include "support/ContentHash.h"
#include "support/Error.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

using namespace pp::runtime;
namespace fs = std::filesystem;
using Form = OnnxInitializer::Form;

/// A location of external data without what names no folder.
static std::string normalize(const std::string &model,
                             const std::string &location) {
  fs::path path = fs::path(location).lexically_normal();
  if (location.empty() || path.is_absolute() ||
      (!path.empty() && *path.begin() == "..") || !path.has_filename())
    failInput("'{}': external data '{}' are not in the model's folder", model,
              location);
  return path.string();
}

static std::string inFolderOf(const std::string &file,
                              const std::string &name) {
  return (fs::path(file).parent_path() / name).string();
}

static bool isSameFile(const std::string &a, const std::string &b) {
  std::error_code none;
  return fs::weakly_canonical(a, none) == fs::weakly_canonical(b, none) ||
         fs::equivalent(a, b, none);
}

std::set<std::string> ModelExport::trainedTensors(const Plan &plan) {
  std::set<std::string> names;
  for (const PlanStage &stage : plan.stages) {
    for (const PlanTensor &tensor : stage.parameters)
      names.insert(tensor.name);
    for (const PlanTensor &tensor : stage.buffers)
      if (tensor.isMutable)
        names.insert(tensor.name);
  }
  return names;
}

/// Files of a plan are absolute; the model's has the program's name. Its data
/// may have that, too, with another extension.
bool ModelExport::isModel(const std::string &path) const {
  std::string name = fs::path(path).filename().string();
  return name == plan.model + ".onnx" ||
         (!paths.model.empty() && name == fs::path(paths.model).filename());
}

std::string ModelExport::findModel() const {
  if (!paths.model.empty())
    return paths.model;
  std::string found;
  for (const std::string &path : plan.weights)
    if (isModel(path))
      found = path;
  // A model whose values are all in other files.
  if (found.empty() && !plan.weights.empty())
    found = inFolderOf(plan.weights.front(), plan.model + ".onnx");
  if (found.empty())
    failUsage("the program reads no file, so it does not know that of its "
              "model: --model FILE.onnx says which");
  if (!paths.weights.empty())
    found = (fs::path(paths.weights) / fs::path(found).filename()).string();
  std::error_code none;
  if (!fs::exists(found, none))
    failInput("the model '{}', which the program was compiled from, is not "
              "there: --model FILE.onnx, or --weights DIR, says where it is",
              found);
  return found;
}

ModelExport::ModelExport(const Plan &plan, const std::set<std::string> &names,
                         ModelExportPaths givenPaths, bool verify)
    : plan(plan), paths(std::move(givenPaths)), model(findModel()),
      file(model) {
  if (isSameFile(paths.output, model))
    failUsage("'{}' is the model's own file, which the program reads: write "
              "the new one to another",
              paths.output);
  std::vector<std::string> faults;
  for (size_t i = 0; i < plan.weights.size() && paths.model.empty(); ++i)
    if (isModel(plan.weights[i]) &&
        file.getFile().size() != plan.weightsBytes[i] && verify)
      faults.push_back(fmt::format("it has {} bytes, and had {}",
                                   file.getFile().size(),
                                   plan.weightsBytes[i]));
  std::set<std::string> known;
  for (const PlanStage &stage : plan.stages)
    for (const auto *list : {&stage.parameters, &stage.buffers})
      for (const PlanTensor &tensor : *list) {
        // Several stages may have it.
        if (!names.count(tensor.name) || !known.insert(tensor.name).second)
          continue;
        std::optional<size_t> found = findInitializer(tensor);
        std::string fault =
            found ? checkTensor(tensor, file.getInitializers()[*found], verify)
                  : fmt::format("it has no initializer '{}'", tensor.name);
        if (!fault.empty())
          faults.push_back(std::move(fault));
        else
          tensors.push_back({&tensor, *found});
      }
  if (!faults.empty()) {
    size_t count = faults.size();
    if (count > 8) {
      faults.resize(8);
      faults.push_back(fmt::format("and {} more", count - 8));
    }
    failInput("'{}' is not the model that the program was compiled from: {}. "
              "Compile the program again, or name the right file with "
              "--model{}",
              model, fmt::join(faults, "; "),
              verify ? "; --no-verify-weights takes one with other values"
                     : "");
  }
  nameExternals();
  separateCopies();
  for (const Tensor &tensor : tensors)
    if (file.getInitializers()[tensor.initializer].form != Form::External &&
        tensor.initializer < countOfFile)
      file.replace(tensor.initializer);
  placeExternals();
  checkOverlaps();
  checkOutputs();
}

std::string ModelExport::externalPath(const std::string &location) const {
  std::string normal = normalize(model, location);
  if (!paths.weights.empty())
    return (fs::path(paths.weights) / fs::path(normal).filename()).string();
  return inFolderOf(model, normal);
}

bool ModelExport::isPlaceOf(const PlanTensor &tensor,
                            const OnnxInitializer &initializer) const {
  if (tensor.source.kind != PlanSource::Kind::File ||
      initializer.values.begin != tensor.source.offset)
    return false;
  const std::string &path = plan.weights[tensor.source.file];
  if (initializer.form == Form::Raw)
    return isModel(path);
  return initializer.form == Form::External &&
         ("/" + path).ends_with("/" + normalize(model, initializer.location));
}

std::optional<size_t>
ModelExport::findInitializer(const PlanTensor &tensor) const {
  const auto &all = file.getInitializers();
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].name == tensor.name)
      return i;
  // The compiler has given it a name that the exporter lost.
  for (auto [node, input] : tensor.source.readers)
    for (size_t i = 0; i < all.size(); ++i)
      if (all[i].name == file.getInput(node, input))
        return i;
  if (tensor.bytes)
    for (size_t i = 0; i < all.size(); ++i)
      if (isPlaceOf(tensor, all[i]))
        return i;
  return std::nullopt;
}

std::string ModelExport::checkTensor(const PlanTensor &tensor,
                                     const OnnxInitializer &initializer,
                                     bool verify) const {
  const std::string &name = initializer.name;
  Shape shape = tensor.shape;
  if (tensor.source.isTransposed)
    std::swap(shape[0], shape[1]);
  if (initializer.shape != shape || !initializer.type)
    return fmt::format("its initializer '{}' has the shape {}, and had {}",
                       name, toString(initializer.shape), toString(shape));
  DataType stored = tensor.source.stored.value_or(tensor.type);
  bool isSame = *initializer.type == stored;
  // Numbers that the file spells out are widened by the compiler.
  bool isWidened = !tensor.source.stored && tensor.type == DataType::F32 &&
                   isShortFloat(*initializer.type);
  if (!isSame && !isWidened)
    return fmt::format("its initializer '{}' is of {}, and was of {}", name,
                       nameOf(*initializer.type), nameOf(stored));
  if (tensor.source.kind != PlanSource::Kind::File || tensor.bytes == 0)
    return "";
  if (!isPlaceOf(tensor, initializer) && paths.model.empty())
    return fmt::format("the values of its initializer '{}' are in another "
                       "place than they were",
                       name);
  if (!verify || !tensor.source.hash)
    return "";
  uint64_t hash = 0;
  if (initializer.form == Form::External) {
    MappedFile external(externalPath(initializer.location));
    if (initializer.values.end > external.size())
      return fmt::format("the values of '{}' end behind '{}'", name,
                         externalPath(initializer.location));
    hash = hashContent(external.data() + initializer.values.begin,
                       initializer.values.end - initializer.values.begin);
  } else {
    hash = hashContent(file.getFile().data() + initializer.values.begin,
                       initializer.values.end - initializer.values.begin);
  }
  if (hash != *tensor.source.hash)
    return fmt::format("its initializer '{}' has other values (hash {}, and "
                       "had {})",
                       name, toHex(hash), toHex(*tensor.source.hash));
  return "";
}

void ModelExport::separateCopies() {
  countOfFile = file.getInitializers().size();
  std::map<size_t, std::vector<size_t>> sharing; // of `tensors`
  for (size_t t = 0; t < tensors.size(); ++t)
    sharing[tensors[t].initializer].push_back(t);
  for (const auto &[number, all] : sharing) {
    if (all.size() == 1)
      continue;
    for (size_t t : all) {
      const PlanTensor &tensor = *tensors[t].plan;
      const std::string name = file.getInitializers()[number].name;
      if (tensor.name == name)
        continue;
      if (tensor.source.readers.empty() || tensor.source.isTransposed)
        failInput("'{}': '{}' has the values of '{}' in the file, and nothing "
                  "says who reads which: export the model again with "
                  "torch.onnx.export(..., dynamo=True, optimize=False)",
                  model, tensor.name, name);
      uint64_t offset = 0;
      std::string location;
      const OnnxInitializer &own = file.getInitializers()[number];
      if (own.form == Form::External) {
        External &external = externals.at(normalize(model, own.location));
        offset = alignUp(external.bytes);
        external.bytes = offset + own.bytes();
        location = fs::path(external.target).filename().string();
      }
      tensors[t].initializer =
          file.addCopy(number, tensor.name, offset, location);
      for (auto [node, input] : tensor.source.readers)
        file.setInput(node, input, name, tensor.name);
    }
  }
}

void ModelExport::nameExternals() {
  std::set<std::string> locations;
  for (const OnnxInitializer &initializer : file.getInitializers())
    if (initializer.form == Form::External)
      locations.insert(normalize(model, initializer.location));
  std::set<std::string> taken;
  for (const std::string &location : locations) {
    External &external = externals[location];
    external.source = externalPath(location);
    external.bytes = MappedFile(external.source).size();
    std::string suffix = "data";
    if (locations.size() > 1)
      suffix = fs::path(location).filename().string();
    std::string name = suffix;
    for (unsigned n = 2; !taken.insert(name).second; ++n)
      name = fmt::format("{}.{}", n, suffix);
    external.target = paths.output + "." + name;
  }
}

void ModelExport::placeExternals() {
  for (size_t i = 0; i < file.getInitializers().size(); ++i) {
    const OnnxInitializer &initializer = file.getInitializers()[i];
    if (initializer.form != Form::External)
      continue;
    const External &external =
        externals.at(normalize(model, initializer.location));
    if (initializer.values.end > external.bytes)
      failInput("'{}': the values of initializer '{}' end behind '{}'", model,
                initializer.name, external.source);
    if (i < countOfFile)
      file.setLocation(i, fs::path(external.target).filename().string());
  }
  for (size_t t = 0; t < tensors.size(); ++t) {
    const OnnxInitializer &initializer =
        file.getInitializers()[tensors[t].initializer];
    if (initializer.form == Form::External && initializer.bytes())
      externals.at(normalize(model, initializer.location)).tensors.push_back(t);
  }
  for (auto &[location, external] : externals)
    std::sort(
        external.tensors.begin(), external.tensors.end(),
        [&](size_t a, size_t b) {
          auto begin = [&](size_t t) {
            return file.getInitializers()[tensors[t].initializer].values.begin;
          };
          return begin(a) < begin(b);
        });
}

/// What is trained may not share its bytes with anything.
void ModelExport::checkOverlaps() const {
  struct Range {
    uint64_t begin, end;
    size_t number;
  };
  for (const auto &[location, external] : externals) {
    std::set<size_t> trained;
    for (size_t t : external.tensors)
      trained.insert(tensors[t].initializer);
    std::vector<Range> ranges;
    for (size_t i = 0; i < file.getInitializers().size(); ++i) {
      const OnnxInitializer &initializer = file.getInitializers()[i];
      if (initializer.form == Form::External && initializer.bytes() &&
          normalize(model, initializer.location) == location)
        ranges.push_back({initializer.values.begin, initializer.values.end, i});
    }
    std::sort(ranges.begin(), ranges.end(), [](const Range &a, const Range &b) {
      return std::pair(a.begin, a.number) < std::pair(b.begin, b.number);
    });
    for (size_t i = 1; i < ranges.size(); ++i)
      if (ranges[i].begin < ranges[i - 1].end &&
          (trained.count(ranges[i].number) ||
           trained.count(ranges[i - 1].number)))
        failInput("'{}': initializers '{}' and '{}' have the same bytes of "
                  "'{}', and one of them is trained",
                  model, file.getInitializers()[ranges[i - 1].number].name,
                  file.getInitializers()[ranges[i].number].name,
                  external.source);
  }
}

void ModelExport::checkOutputs() const {
  for (const auto &[location, external] : externals)
    for (const auto &[other, source] : externals)
      if (isSameFile(external.target, source.source))
        failUsage("'{}' would be written over, which the model reads: choose "
                  "another name than '{}'",
                  source.source, paths.output);
}

unsigned ModelExport::countRounded() const {
  unsigned count = 0;
  for (const Tensor &tensor : tensors)
    count +=
        *file.getInitializers()[tensor.initializer].type != tensor.plan->type;
  return count;
}

std::string ModelExport::encode(const Tensor &tensor,
                                std::string_view values) const {
  const OnnxInitializer &initializer =
      file.getInitializers()[tensor.initializer];
  DataType type = tensor.plan->type;
  std::string result(values);
  if (*initializer.type != type) {
    std::string narrow(result.size() / 2, '\0');
    for (size_t i = 0; i < narrow.size() / 2; ++i) {
      float value = 0;
      std::memcpy(&value, &result[4 * i], sizeof(value));
      uint16_t bits = toShortFloat(*initializer.type, value);
      std::memcpy(&narrow[2 * i], &bits, sizeof(bits));
    }
    result = std::move(narrow);
  }
  if (!tensor.plan->source.isTransposed)
    return result;
  std::string transposed(result.size(), '\0');
  uint64_t size = sizeOf(*initializer.type);
  uint64_t rows = tensor.plan->shape[0], columns = tensor.plan->shape[1];
  for (uint64_t row = 0; row < rows; ++row)
    for (uint64_t column = 0; column < columns; ++column)
      std::memcpy(&transposed[(column * rows + row) * size],
                  &result[(row * columns + column) * size], size);
  return transposed;
}

std::vector<std::string> ModelExport::order() const {
  std::map<size_t, const PlanTensor *> byInitializer;
  for (const Tensor &tensor : tensors)
    byInitializer[tensor.initializer] = tensor.plan;
  std::vector<std::string> names;
  for (const auto &[location, external] : externals)
    for (size_t t : external.tensors)
      names.push_back(tensors[t].plan->name);
  for (size_t number : file.order())
    names.push_back(byInitializer.at(number)->name);
  return names;
}

void ModelExport::write(const Values &values) const {
  for (const auto &[location, external] : externals) {
    MappedFile source(external.source);
    AtomicFile target(external.target);
    uint64_t at = 0;
    auto copyUntil = [&](uint64_t end) {
      uint64_t own = std::min(end, source.size());
      if (at < own)
        target.write(source.data() + at, own - at);
      at = std::max(at, own);
      if (at < end)
        target.write(std::string(end - at, '\0'));
      at = end;
    };
    for (size_t t : external.tensors) {
      const Tensor &tensor = tensors[t];
      copyUntil(file.getInitializers()[tensor.initializer].values.begin);
      std::string bytes = encode(tensor, values(tensor.plan->name));
      target.write(bytes);
      at += bytes.size();
    }
    copyUntil(std::max(at, source.size()));
    target.commit();
  }
  std::map<size_t, const Tensor *> byInitializer;
  for (const Tensor &tensor : tensors)
    byInitializer[tensor.initializer] = &tensor;
  std::string bytes;
  AtomicFile target(paths.output);
  file.write(target, [&](size_t number) {
    const Tensor &tensor = *byInitializer.at(number);
    bytes = encode(tensor, values(tensor.plan->name));
    return std::string_view(bytes);
  });
  target.commit();
}
