//===- Action.h - Kinds of actions and phases, and what they are called ---===//
//
// The only list of each: planner, compiler, plan and executor use these, and
// these names. Header only, so that whoever needs the words links nothing.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_PLAN_ACTION_H
#define PP_RUNTIME_PLAN_ACTION_H

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace pp {

/// A part of a step that a stage runs for a micro-batch, or, for Update, once.
enum class Phase : uint8_t { Forward, BackwardInput, BackwardWeight, Update };

/// The phases that run for a micro-batch: all but Update.
inline constexpr unsigned microbatchPhases = 3;

/// "forward", "backward_input", "backward_weight" or "update".
constexpr std::string_view nameOf(Phase phase) {
  constexpr std::array<std::string_view, 4> names = {
      "forward", "backward_input", "backward_weight", "update"};
  return names[static_cast<size_t>(phase)];
}

/// As schedules write it: "F", "I", "W" or "U".
constexpr std::string_view letterOf(Phase phase) {
  return std::string_view("FIWU").substr(static_cast<size_t>(phase), 1);
}

/// What a rank does next.
enum class ActionKind : uint8_t {
  Forward,
  /// Forward again, to have the residuals back.
  Recompute,
  /// Backward of inputs.
  BackwardInput,
  /// Backward of weights.
  BackwardWeight,
  /// BackwardInput, then BackwardWeight.
  Backward,
  Send,
  Receive,
  /// The optimizer's step.
  Update,
  /// The replicas of a stage add up their gradients. The executor's plan of all
  /// replicas has the transfers and sums instead.
  ReduceGradients,
  /// The ranks of a group add up something else. Planned only.
  AllReduce,
  /// A replica adds up its part of the gradients. In the executor only.
  SumGradients
};

namespace detail {
inline constexpr std::array<std::string_view, 11> actionNames = {
    "F",    "R", "I",           "W",         "B",       "SEND",
    "RECV", "U", "REDUCE_GRAD", "ALLREDUCE", "SUM_GRAD"};
} // namespace detail

/// As in PyTorch's schedules, with R, U, ALLREDUCE and SUM_GRAD in addition.
constexpr std::string_view nameOf(ActionKind kind) {
  return detail::actionNames[static_cast<size_t>(kind)];
}

/// The reverse; nothing for an unknown name.
constexpr std::optional<ActionKind> parseActionKind(std::string_view name) {
  for (size_t kind = 0; kind < detail::actionNames.size(); ++kind)
    if (detail::actionNames[kind] == name)
      return static_cast<ActionKind>(kind);
  return std::nullopt;
}

/// The reverse of letterOf, for the phases of a micro-batch.
constexpr std::optional<Phase> parsePhaseLetter(std::string_view letter) {
  for (unsigned phase = 0; phase < microbatchPhases; ++phase)
    if (letterOf(static_cast<Phase>(phase)) == letter)
      return static_cast<Phase>(phase);
  return std::nullopt;
}

/// The reverse of nameOf.
constexpr std::optional<Phase> parsePhase(std::string_view name) {
  for (unsigned phase = 0; phase <= microbatchPhases; ++phase)
    if (nameOf(static_cast<Phase>(phase)) == name)
      return static_cast<Phase>(phase);
  return std::nullopt;
}

constexpr bool isTransfer(ActionKind kind) {
  return kind == ActionKind::Send || kind == ActionKind::Receive;
}

} // namespace pp

#endif // PP_RUNTIME_PLAN_ACTION_H
