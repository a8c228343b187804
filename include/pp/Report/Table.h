//===- Table.h - Rows and columns of text -----------------------*- C++ -*-===//

#ifndef PP_REPORT_TABLE_H
#define PP_REPORT_TABLE_H

#include "llvm/Support/raw_ostream.h"
#include <string>
#include <vector>

namespace pp {

/// Columns as wide as their widest cell; numbers to the right.
class Table {
public:
  explicit Table(std::vector<std::string> titles) { add(std::move(titles)); }

  void add(std::vector<std::string> row) { rows.push_back(std::move(row)); }

  void print(llvm::raw_ostream &os) const;

private:
  std::vector<std::vector<std::string>> rows;
};

} // namespace pp

#endif // PP_REPORT_TABLE_H
