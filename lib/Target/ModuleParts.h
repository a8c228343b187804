//===- ModuleParts.h - A module as several that compile side by side ------===//
#ifndef PP_LIB_TARGET_MODULEPARTS_H
#define PP_LIB_TARGET_MODULEPARTS_H

#include "llvm/ADT/SmallVector.h"

#include <vector>

namespace llvm {
class Module;
} // namespace llvm

namespace pp {

/// Cuts a module into parts of several functions each, as bitcode, so that each
/// can be compiled in a context of its own. Functions that follow each other
/// stay together, variables are all in the first part, and what is defined in
/// one part is declared in those that use it. Those that ask not to be
/// optimised are in parts without others, if there is enough of them. Where it
/// is cut depends on the module alone, not on the machine.
///
///   @a  @b      @c   @stage                 table
///   [ part 0 ]  [ part 1, declares @a, @b ]
///
/// `module` is good for nothing afterwards: its local symbols are hidden ones.
std::vector<llvm::SmallVector<char, 0>> cutModule(llvm::Module &module);

} // namespace pp

#endif // PP_LIB_TARGET_MODULEPARTS_H
