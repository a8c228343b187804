//===- Buckets.h - Which of several programs fits the data ------*- C++ -*-===//
#ifndef PP_RUNTIME_CLI_BUCKETS_H
#define PP_RUNTIME_CLI_BUCKETS_H

#include "formats/Npy.h"
#include "plan/BucketAxes.h"
#include "pprt/pprt.h"

#include <map>
#include <string>
#include <vector>

namespace pp::runtime {

/// The programs of a binary for several sizes of a dimension, or the only one.
class Buckets {
public:
  using Arrays = std::map<std::string, Array>;

  /// Of the training programs, or of those for inference. `pads` is --pad: what
  /// inputs are padded with, NAME=VALUE; others with 0, and targets with what
  /// the loss leaves out. Throws Error(Usage) where one is malformed or names
  /// no input that is padded.
  Buckets(const pp_binary &binary, bool isTraining,
          const std::vector<std::string> &pads);

  /// What is chosen for some data.
  struct Fit {
    const pp_pipeline *program;
    size_t number = 0;  // of the bucket
    int64_t length = 0; // what the data have of the dimension
    bool isPadded = false;
  };
  /// The smallest program that takes the arrays. Throws Error(InvalidInput)
  /// where none does, or where the arrays have several lengths.
  Fit choose(const Arrays &arrays) const;

  /// The arrays as a program takes them. Throws Error(InvalidInput) where a
  /// target would have to be padded whose every element counts.
  Arrays pad(Arrays arrays, size_t number) const;
  /// Brings arrays, or outputs, to `length` of the dimension.
  Arrays cutFeeds(Arrays arrays, int64_t length) const;
  Arrays cutFetches(Arrays arrays, int64_t length) const;

  /// 0: there is one program.
  size_t size() const { return plans.size(); }
  const pp_pipeline *getProgram(size_t number) const {
    return programs[number];
  }
  int64_t getLimit(size_t number) const { return plans[number].bucket->size; }
  const std::string &getDim() const { return plans.front().bucket->dim; }

private:
  std::vector<const pp_pipeline *> programs;
  std::vector<Plan> plans; // smallest first; empty where there is one program
  std::map<std::string, BucketAxes::Axes> feeds, fetches;
  std::map<std::string, double> values; // to pad with, by feed
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CLI_BUCKETS_H
