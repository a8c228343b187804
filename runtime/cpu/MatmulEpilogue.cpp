//===- MatmulEpilogue.cpp -------------------------------------------------===//
#include "cpu/MatmulEpilogue.h"

using namespace pp::runtime;

MatmulEpilogue pp::runtime::readEpilogue(Descriptor &descriptor,
                                         const Descriptor::Dims &c,
                                         bool isDense) {
  MatmulEpilogue epilogue;
  if (!descriptor.has("epilogue"))
    return epilogue;
  const std::string &name = descriptor.getText("epilogue");
  epilogue.hasBias = true;
  if (name == "bias_relu")
    epilogue.activation = MatmulEpilogue::Relu;
  else if (name == "bias_gelu" || name == "bias_gelu_aux")
    epilogue.activation = MatmulEpilogue::Gelu;
  else if (name != "bias")
    throw DescriptorError("epilogue: unknown word '" + name +
                          "', expected bias, bias_relu, bias_gelu or "
                          "bias_gelu_aux");
  epilogue.hasAuxiliary = name == "bias_gelu_aux";
  if (c.size() != 2)
    throw DescriptorError("epilogue: only of one product, not of a batch");
  if (!isDense)
    throw DescriptorError("epilogue: the result must be dense and row-major");
  if (epilogue.hasAuxiliary && c[1] % 8 != 0)
    throw DescriptorError("epilogue=bias_gelu_aux: the number of columns must "
                          "be a multiple of 8");
  return epilogue;
}
