//===- InputValue.cpp -----------------------------------------------------===//

#include "InputValue.h"
#include "NarrowType.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace pp;

/// One element; null where the text is none of this type.
static Attribute readElement(Type element, onnx::DataType dataType,
                             StringRef text) {
  if (auto real = dyn_cast<FloatType>(element)) {
    double number;
    return llvm::to_float(text, number)
               ? Attribute(FloatAttr::get(real, number))
               : Attribute();
  }
  if (dataType == onnx::DataType::Bool)
    text = text == "true" ? "1" : text == "false" ? "0" : text;
  APInt number;
  bool isNegative = text.consume_front("-");
  if (text.getAsInteger(10, number))
    return {};
  // Room for the sign.
  number = number.zext(std::max(number.getBitWidth(), 64U) + 1);
  if (isNegative)
    number.negate();
  unsigned width = onnx::bitWidth(dataType);
  bool isUnsigned =
      dataType == onnx::DataType::Bool || element.isUnsignedInteger();
  if (isUnsigned
          ? (isNegative && !number.isZero()) ||
                !number.isIntN(dataType == onnx::DataType::Bool ? 1 : width)
          : !number.isSignedIntN(width))
    return {};
  return IntegerAttr::get(element,
                          number.sextOrTrunc(element.getIntOrFloatBitWidth()));
}

llvm::Expected<Constant> pp::readInputValue(RankedTensorType type,
                                            onnx::DataType dataType,
                                            ArrayRef<std::string> numbers) {
  auto refuse = [](const llvm::Twine &why) {
    return llvm::createStringError(why);
  };
  const int64_t count = type.getNumElements(), given = std::ssize(numbers);
  if (isNarrowFloat(dataType))
    return refuse("has elements of type " + onnx::dataTypeName(dataType) +
                  ", of which none can be given");
  if (count > maxConstantElements)
    return refuse("has more than " + llvm::Twine(maxConstantElements) +
                  " elements, too many to be given");
  if (given != 1 && given != count)
    return refuse("has " + llvm::Twine(count) +
                  (count == 1 ? " element, not " : " elements, not ") +
                  llvm::Twine(given));
  SmallVector<Attribute> elements;
  for (const std::string &number : numbers) {
    elements.push_back(readElement(type.getElementType(), dataType, number));
    if (!elements.back())
      return refuse("has elements of type " + onnx::dataTypeName(dataType) +
                    ", of which '" + number + "' is none");
  }
  return Constant(DenseElementsAttr::get(type, elements));
}
