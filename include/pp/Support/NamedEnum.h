//===- NamedEnum.h - Enumerations that flags and pass options name --------===//
//
// An enumeration says its names once:
//
//   enum class Fruit { Apple, Pear };
//   template <> struct EnumNames<Fruit> {
//     static constexpr NamedValue<Fruit> values[] = {
//         {Fruit::Apple, "apple", "red or green"}, {Fruit::Pear, "pear", ""}};
//   };
//
// and is an option by them, of tools and of passes:
//
//   cl::opt<Fruit> fruit{"fruit", cl::desc("..."), EnumValues<Fruit>()};
//   Option<"fruit", "fruit", "::pp::Fruit", "::pp::Fruit::Apple", "...",
//          "::pp::EnumValues<::pp::Fruit>()">                          // ODS
//
//===----------------------------------------------------------------------===//

#ifndef PP_SUPPORT_NAMEDENUM_H
#define PP_SUPPORT_NAMEDENUM_H

#include "llvm/ADT/StringRef.h"
#include <optional>

namespace pp {

template <typename Enum> struct NamedValue {
  Enum value;
  llvm::StringLiteral name;
  /// For --help; may be empty.
  llvm::StringLiteral help;
};

/// To be specialised: `values` lists all, in the order of the enumeration.
template <typename Enum> struct EnumNames;

template <typename Enum> llvm::StringRef getName(Enum value) {
  for (const NamedValue<Enum> &entry : EnumNames<Enum>::values)
    if (entry.value == value)
      return entry.name;
  return "";
}

/// The reverse; nothing for an unknown name.
template <typename Enum> std::optional<Enum> parseName(llvm::StringRef name) {
  for (const NamedValue<Enum> &entry : EnumNames<Enum>::values)
    if (entry.name == name)
      return entry.value;
  return std::nullopt;
}

/// What cl::values is to a list of values: lets an option have all names of
/// the enumeration.
template <typename Enum> struct EnumValues {
  template <typename Option> void apply(Option &option) const {
    for (const NamedValue<Enum> &entry : EnumNames<Enum>::values)
      option.getParser().addLiteralOption(entry.name, entry.value, entry.help);
  }
};

} // namespace pp

#endif // PP_SUPPORT_NAMEDENUM_H
