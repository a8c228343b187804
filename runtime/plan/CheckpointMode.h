//===- CheckpointMode.h - Which forward passes run again ------------------===//
#ifndef PP_RUNTIME_PLAN_CHECKPOINTMODE_H
#define PP_RUNTIME_PLAN_CHECKPOINTMODE_H

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace pp {

/// What is recomputed in the backward pass instead of being kept: all
/// micro-batches, all but the last one of a step, or none (torchgpipe, arXiv
/// 2004.09910, section 3.2.3).
enum class CheckpointMode : uint8_t { Always, ExceptLast, Never };

/// All of them, in the order of the enumeration.
inline constexpr std::array<std::string_view, 3> checkpointModeNames = {
    "always", "except_last", "never"};

constexpr std::string_view nameOf(CheckpointMode mode) {
  return checkpointModeNames[static_cast<size_t>(mode)];
}

/// The reverse; nothing for an unknown name.
constexpr std::optional<CheckpointMode>
parseCheckpointMode(std::string_view name) {
  for (size_t mode = 0; mode < checkpointModeNames.size(); ++mode)
    if (checkpointModeNames[mode] == name)
      return static_cast<CheckpointMode>(mode);
  return std::nullopt;
}

} // namespace pp

#endif // PP_RUNTIME_PLAN_CHECKPOINTMODE_H
