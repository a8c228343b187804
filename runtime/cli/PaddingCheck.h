//===- PaddingCheck.h - Whether a model disregards its padding --*- C++ -*-===//
#ifndef PP_RUNTIME_CLI_PADDINGCHECK_H
#define PP_RUNTIME_CLI_PADDINGCHECK_H

#include "cli/Buckets.h"
#include "cli/CommandLine.h"
#include "process/ProcessGroup.h"

namespace pp::runtime {

/// Infers the first batch with the program of `fit` and with one of another
/// size, and compares: with a smaller one of as much as this takes without
/// padding, else with the next larger one. A model without a mask, or with one
/// that is padded wrongly, has other results, which throws Error(InvalidInput).
void checkPadding(const Buckets &buckets, const Buckets::Fit &fit,
                  const Buckets::Arrays &arrays, const InferOptions &options,
                  ProcessGroup &group);

} // namespace pp::runtime

#endif // PP_RUNTIME_CLI_PADDINGCHECK_H
