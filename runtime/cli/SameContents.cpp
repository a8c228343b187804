//===- SameContents.cpp ---------------------------------------------------===//
#include "cli/SameContents.h"
#include "support/ContentHash.h"
#include "support/MappedFile.h"
#include "support/SharedMemory.h"

#include <nlohmann/json.hpp>

#include <sys/stat.h>

using namespace pp::runtime;

void pp::runtime::compareData(ProcessGroup &group, const Plan &plan,
                              const DataSet &data, const std::string &flag,
                              const std::string &file,
                              const std::vector<std::string> &inputs) {
  if (group.size() == 1)
    return;
  group.compare(fmt::format("the number of samples of {}", flag),
                data.getSamples());
  std::vector<Content> contents;
  std::vector<uint64_t> hashes = data.hashFeeds();
  for (size_t f = 0; f < hashes.size(); ++f) {
    const std::string &name = plan.feeds[f].name;
    Content content{fmt::format("array '{}' of {}", name, flag), file,
                    hashes[f]};
    for (const std::string &input : inputs)
      if (input.starts_with(name + "="))
        content.file = input.substr(name.size() + 1);
    contents.push_back(std::move(content));
  }
  group.compareContents(contents);
}

void pp::runtime::compareArray(ProcessGroup &group, const std::string &name,
                               const Array &array, const std::string &flag,
                               const std::string &file) {
  if (group.size() > 1)
    group.compareContents({{fmt::format("array '{}' of {}", name, flag), file,
                            hashArray(name, array)}});
}

/// Equal for one and the same state of one file.
static std::string identityOf(const std::string &path) {
  struct stat status{};
  if (path.empty() || stat(path.c_str(), &status))
    return ""; // whoever reads it says so
  return fmt::format("{} {} {} {} {}.{} {}.{}", SharedMemory::machine(),
                     status.st_dev, status.st_ino, status.st_size,
                     status.st_mtim.tv_sec, status.st_mtim.tv_nsec,
                     status.st_ctim.tv_sec, status.st_ctim.tv_nsec);
}

void pp::runtime::compareFiles(ProcessGroup &group, const std::string &what,
                               const std::vector<std::string> &files) {
  if (group.size() == 1)
    return;
  using nlohmann::json;
  json own = json::array();
  for (const std::string &file : files)
    own.push_back(identityOf(file));
  std::string differs(files.size(), '0');
  std::vector<std::string> expected = own;
  for (const std::string &text : group.gather(own.dump())) {
    std::vector<std::string> theirs = json::parse(text);
    for (size_t i = 0; i < files.size(); ++i) {
      if (expected[i].empty())
        expected[i] = theirs.at(i);
      if (!theirs.at(i).empty() && theirs.at(i) != expected[i])
        differs[i] = '1';
    }
  }
  differs = group.broadcast(differs);
  std::vector<Content> contents;
  for (size_t i = 0; i < files.size(); ++i) {
    if (differs.at(i) == '0')
      continue;
    Content content{what, files[i], 0};
    if (!files[i].empty()) {
      MappedFile file(files[i]);
      content.hash = hashContent(file.data(), file.size());
    }
    contents.push_back(std::move(content));
  }
  group.compareContents(contents);
}

void pp::runtime::compareWeights(const Program &program,
                                 const std::string &directory) {
  const Plan &plan = program.getPlan();
  WeightFiles weights(plan, directory);
  std::vector<std::string> files(plan.weights.size());
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    if (!program.getPlacement().hasStage(static_cast<unsigned>(s)))
      continue;
    for (const auto *tensors :
         {&plan.stages[s].parameters, &plan.stages[s].buffers})
      for (const PlanTensor &tensor : *tensors)
        if (tensor.source.kind == PlanSource::Kind::File)
          files[tensor.source.file] = weights.pathOf(tensor.source.file);
  }
  compareFiles(program.getGroup(), "weights (--weights)", files);
}
