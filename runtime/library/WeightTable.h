//===- WeightTable.h - A program's weights by name --------------*- C++ -*-===//
#ifndef PP_RUNTIME_LIBRARY_WEIGHTTABLE_H
#define PP_RUNTIME_LIBRARY_WEIGHTTABLE_H

#include "program/Program.h"

#include <map>
#include <string>
#include <vector>

namespace pp::runtime {

/// Parameters, and buffers that training changes, in the order of their names,
/// however the program is cut. Reads and writes need that no step runs.
class WeightTable {
public:
  /// `program` is all in this process, and outlives the object.
  explicit WeightTable(const Program &program);

  struct Weight {
    const PlanTensor *tensor;
    bool isTrained; // a parameter
    /// The stages that have a copy; all are the same.
    std::vector<const StageMemory *> stages;
  };
  size_t size() const { return weights.size(); }
  const Weight &at(size_t index) const { return *order[index]; }
  /// Throws Error(Usage) for a name that there is not.
  const Weight &find(const std::string &name) const;

  void read(const Weight &weight, void *target) const;
  void write(const Weight &weight, const void *source);
  /// Throws Error(Usage) for what is not trained.
  std::vector<char> gradient(const Weight &weight) const;

  /// Of all parameters, one behind the other.
  uint64_t parametersBytes() const;
  void readParameters(char *target) const;
  void writeParameters(const char *source);

private:
  char *in(const Weight &weight, const StageMemory &stage) const;

  const Program &program;
  std::map<std::string, Weight> weights;
  std::vector<const Weight *> order;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_LIBRARY_WEIGHTTABLE_H
