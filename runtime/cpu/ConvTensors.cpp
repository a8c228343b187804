//===- ConvTensors.cpp ----------------------------------------------------===//
#include "cpu/ConvTensors.h"

using namespace pp::runtime;

KernelBuilder::MemoryDesc pp::runtime::numbersIn(uint64_t bytes,
                                                 bool areShort) {
  const auto type =
      areShort ? KernelBuilder::Type::bf16 : KernelBuilder::Type::f32;
  return KernelBuilder::dense(
      {int64_t(bytes / dnnl::memory::data_type_size(type))}, type);
}

KernelBuilder::MemoryDesc
pp::runtime::withLanes(const KernelBuilder::MemoryDesc &desc) {
  ImagePlaces places = KernelBuilder::imagePlaces(desc);
  bool areTogether =
      places.blockChannels % WinogradConvolution::channelsTogether() == 0 ||
      (places.blockChannels == 1 && places.block == 1);
  return areTogether ? desc
                     : KernelBuilder::inLayout(desc.dims(), "channels_last",
                                               desc.data_type());
}

std::vector<KernelBuilder::Tensor>
pp::runtime::describeTensors(const ConvShape &shape, ConvDirection direction,
                             const ConvEpilogue &epilogue) {
  const bool isForward = direction == ConvDirection::Forward;
  std::vector<KernelBuilder::Tensor> tensors{
      KernelBuilder::tensorOf(isForward ? shape.src : shape.dst),
      KernelBuilder::tensorOf(shape.weights, shape.packedBytes)};
  if (epilogue.hasBias)
    tensors.push_back(
        KernelBuilder::tensorOf(DataType::F32, shape.outputChannels));
  if (epilogue.hasResidual)
    tensors.push_back(KernelBuilder::tensorOf(shape.dst));
  tensors.push_back(KernelBuilder::tensorOf(isForward ? shape.dst : shape.src));
  return tensors;
}

std::vector<KernelBuilder::Tensor>
pp::runtime::describeGradientTensors(const ConvShape &shape) {
  return {KernelBuilder::tensorOf(shape.src),
          KernelBuilder::tensorOf(shape.dst),
          KernelBuilder::tensorOf(shape.weights)};
}

std::vector<KernelBuilder::Tensor>
pp::runtime::describePacking(const ConvShape &shape, DataType type) {
  return {KernelBuilder::tensorOf(shape.weights), {shape.packedBytes, type}};
}
