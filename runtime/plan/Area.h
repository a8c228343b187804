//===- Area.h - Areas of a stage's memory that kernels use ----------------===//
#ifndef PP_RUNTIME_PLAN_AREA_H
#define PP_RUNTIME_PLAN_AREA_H

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace pp {

/// Where a value lies while its phase runs. Input and Output are what is handed
/// to the phase: slots of channels, feeds, fetches, the loss.
enum class Area : uint8_t {
  Parameters,
  Buffers,
  Gradients,
  Statistics,
  Residuals,
  Scratch,
  Prepared,
  Input,
  Output
};

namespace detail {
inline constexpr std::array<std::string_view, 9> areaNames = {
    "parameters", "buffers",  "gradients", "statistics", "residuals",
    "scratch",    "prepared", "input",     "output"};
} // namespace detail

constexpr std::string_view nameOf(Area area) {
  return detail::areaNames[static_cast<size_t>(area)];
}

/// The reverse; nothing for an unknown name.
constexpr std::optional<Area> parseArea(std::string_view name) {
  for (size_t area = 0; area < detail::areaNames.size(); ++area)
    if (detail::areaNames[area] == name)
      return static_cast<Area>(area);
  return std::nullopt;
}

} // namespace pp

#endif // PP_RUNTIME_PLAN_AREA_H
