//===- Action.h - Kinds of actions and phases, and what they are called ---===//
//
// The only list of each: planner, compiler, plan and executor use these, and
// these names. Header only, so that whoever needs the words links nothing.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_PLAN_ACTION_H
#define PP_RUNTIME_PLAN_ACTION_H

#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pp {

/// A part of a step that a stage runs for a micro-batch or, of the last two,
/// once: Update at the end, and Prepare at the beginning.
enum class Phase : uint8_t {
  Forward,
  BackwardInput,
  BackwardWeight,
  Update,
  Prepare
};

inline bool isBackward(Phase phase) {
  return phase == Phase::BackwardInput || phase == Phase::BackwardWeight;
}

/// The phases that run for a micro-batch; they are the first.
inline constexpr unsigned microbatchPhases = 3;

namespace detail {
inline constexpr std::array<std::string_view, 5> phaseNames = {
    "forward", "backward_input", "backward_weight", "update", "prepare"};
} // namespace detail

/// "forward", "backward_input", "backward_weight", "update" or "prepare".
constexpr std::string_view nameOf(Phase phase) {
  return detail::phaseNames[static_cast<size_t>(phase)];
}

/// As schedules write it: "F", "I", "W", "U" or "P".
constexpr std::string_view letterOf(Phase phase) {
  return std::string_view("FIWUP").substr(static_cast<size_t>(phase), 1);
}

/// Whether a stage runs `first` before `second`, for a micro-batch.
constexpr bool runsBefore(Phase first, Phase second) {
  return first == Phase::Prepare ? second != Phase::Prepare
                                 : second != Phase::Prepare && first < second;
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
  SumGradients,
  /// What depends on parameters alone is computed.
  Prepare,
  /// A virtual worker sends the sum of a wave's updates to where it is shared.
  /// The executor's plan has the transfers instead.
  Push,
  /// It takes the weights that all workers share, with a wave of all of them
  /// more, and adds its own waves since.
  Pull,
  /// A shard adds the waves that workers pushed. In the executor only.
  AddPushes
};

namespace detail {
inline constexpr std::array<std::string_view, 15> actionNames = {
    "F",           "R",         "I",        "W", "B",    "SEND", "RECV",    "U",
    "REDUCE_GRAD", "ALLREDUCE", "SUM_GRAD", "P", "PUSH", "PULL", "ADD_PUSH"};
} // namespace detail

/// As in PyTorch's schedules, with R, U, P, PUSH, PULL, ALLREDUCE, SUM_GRAD and
/// ADD_PUSH in addition.
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
  for (size_t phase = 0; phase < detail::phaseNames.size(); ++phase)
    if (nameOf(static_cast<Phase>(phase)) == name)
      return static_cast<Phase>(phase);
  return std::nullopt;
}

constexpr bool isTransfer(ActionKind kind) {
  return kind == ActionKind::Send || kind == ActionKind::Receive;
}

/// Whether all ranks of a group meet in it.
constexpr bool isCollective(ActionKind kind) {
  return kind == ActionKind::ReduceGradients || kind == ActionKind::AllReduce;
}

/// Whether virtual workers share their waves by it.
constexpr bool isOfWaves(ActionKind kind) {
  return kind == ActionKind::Push || kind == ActionKind::Pull ||
         kind == ActionKind::AddPushes;
}

/// Whether only the plan of the executor has it.
constexpr bool isOfExecutor(ActionKind kind) {
  return kind == ActionKind::SumGradients || kind == ActionKind::AddPushes;
}

/// Whether a stage does it for no micro-batch: once per step, or P and U of
/// virtual workers for each version of their weights.
constexpr bool isPerStep(ActionKind kind) {
  return kind == ActionKind::Update || kind == ActionKind::Prepare ||
         kind == ActionKind::SumGradients || isOfWaves(kind) ||
         isCollective(kind);
}

/// The largest stage or micro-batch that makes sense: tables have this many
/// entries.
inline constexpr int largestActionNumber = 1 << 24;

/// An action in the notation of PyTorch's schedules: `0F2`, `1B3`, `0SEND_F1`,
/// `0SEND_F1#2`, `0P`, `0U`, `0PUSH`, `0PULL`, `0REDUCE_GRAD`, `0ALLREDUCE#1`.
/// What only the executor has, has none.
struct ActionText {
  ActionKind kind = ActionKind::Forward;
  int stage = 0;
  /// Of transfers: F, a value of a forward phase, or B, one of a backward
  /// phase.
  bool isForward = true;
  /// -1 for what a stage does once per step.
  int microbatch = -1;
  /// What follows #, a channel (where several fit) or a group; -1 for none.
  int number = -1;

  bool operator==(const ActionText &) const = default;
};

inline std::string toString(const ActionText &action) {
  std::string text =
      std::to_string(action.stage) + std::string(nameOf(action.kind));
  if (isTransfer(action.kind))
    text += action.isForward ? "_F" : "_B";
  if (action.microbatch >= 0)
    text += std::to_string(action.microbatch);
  if (action.number >= 0)
    text += "#" + std::to_string(action.number);
  return text;
}

/// The reverse of toString; nothing for what is no action.
inline std::optional<ActionText> parseActionText(std::string_view text) {
  auto takeNumber = [&](int &value) {
    auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || value < 0)
      return false;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    return true;
  };
  auto takeWord = [&](std::string_view word) {
    bool isNext = text.substr(0, word.size()) == word;
    text.remove_prefix(isNext ? word.size() : 0);
    return isNext;
  };
  ActionText action;
  if (!takeNumber(action.stage))
    return std::nullopt;
  // The longest name that fits: RECV and REDUCE_GRAD begin as R does.
  std::optional<ActionKind> kind;
  for (size_t k = 0; k < detail::actionNames.size(); ++k)
    if (text.substr(0, detail::actionNames[k].size()) ==
            detail::actionNames[k] &&
        (!kind || detail::actionNames[k].size() > nameOf(*kind).size()))
      kind = static_cast<ActionKind>(k);
  if (!kind || isOfExecutor(*kind))
    return std::nullopt;
  action.kind = *kind;
  takeWord(nameOf(*kind));
  if (isTransfer(*kind)) {
    action.isForward = takeWord("_F");
    if (!action.isForward && !takeWord("_B"))
      return std::nullopt;
  }
  if (!isPerStep(*kind) && !takeNumber(action.microbatch))
    return std::nullopt;
  bool needsNumber = *kind == ActionKind::AllReduce;
  if (((needsNumber || isTransfer(*kind)) && takeWord("#")) || needsNumber)
    if (!takeNumber(action.number))
      return std::nullopt;
  return text.empty() ? std::optional(action) : std::nullopt;
}

} // namespace pp

#endif // PP_RUNTIME_PLAN_ACTION_H
