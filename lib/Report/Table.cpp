//===- Table.cpp - Rows and columns of text -------------------------------===//

#include "pp/Report/Table.h"
#include "llvm/ADT/StringExtras.h"

void pp::Table::print(llvm::raw_ostream &os) const {
  std::vector<size_t> widths(rows.front().size());
  for (const auto &row : rows)
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  for (const auto &row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      std::string cell = row[i];
      bool isNumber =
          !rows.back()[i].empty() && llvm::isDigit(rows.back()[i].front());
      cell.insert(isNumber ? 0 : cell.size(), widths[i] - cell.size(), ' ');
      line += (i ? "  " : "") + cell;
    }
    os << llvm::StringRef(line).rtrim() << "\n";
  }
}
