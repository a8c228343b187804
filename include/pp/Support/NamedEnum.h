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
//   cl::opt<Fruit> fruit{"fruit", cl::desc("...")};
//   Option<"fruit", "fruit", "::pp::Fruit", "::pp::Fruit::Apple", "...">  //
//   ODS
//
//===----------------------------------------------------------------------===//

#ifndef PP_SUPPORT_NAMEDENUM_H
#define PP_SUPPORT_NAMEDENUM_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/CommandLine.h"
#include <optional>
#include <string>
#include <string_view>

namespace pp {

template <typename Enum> struct NamedValue {
  Enum value;
  std::string_view name;
  /// For --help; may be empty.
  std::string_view help;
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
    if (name == llvm::StringRef(entry.name))
      return entry.value;
  return std::nullopt;
}

/// An enumeration with EnumNames.
template <typename Enum>
concept NamedEnum = requires { EnumNames<Enum>::values; };

} // namespace pp

namespace llvm::cl {

/// What parser<> is to other enumerations, with all names from the start, and
/// with an error that lists them.
template <pp::NamedEnum Enum> class parser<Enum> : public generic_parser_base {
protected:
  struct OptionInfo {
    StringRef Name;
    OptionValue<Enum> V;
    StringRef HelpStr;
  };
  SmallVector<OptionInfo, 8> Values; // mlir::PassOptions reads it

public:
  using parser_data_type = Enum;

  explicit parser(Option &option) : generic_parser_base(option) {
    for (const pp::NamedValue<Enum> &entry : pp::EnumNames<Enum>::values)
      Values.push_back({entry.name, entry.value, entry.help});
  }

  unsigned getNumOptions() const override { return Values.size(); }
  StringRef getOption(unsigned index) const override {
    return Values[index].Name;
  }
  StringRef getDescription(unsigned index) const override {
    return Values[index].HelpStr;
  }
  const GenericOptionValue &getOptionValue(unsigned index) const override {
    return Values[index].V;
  }

  /// True on error.
  bool parse(Option &option, StringRef, StringRef text, Enum &value) {
    if (std::optional<Enum> parsed = pp::parseName<Enum>(text)) {
      value = *parsed;
      return false;
    }
    std::string known;
    for (const OptionInfo &info : Values)
      known += (known.empty() ? "" : ", ") + info.Name.str();
    return option.error("'" + text + "': expected " + known);
  }
};

} // namespace llvm::cl

#endif // PP_SUPPORT_NAMEDENUM_H
