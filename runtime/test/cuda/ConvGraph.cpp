//===- ConvGraph.cpp ------------------------------------------------------===//
#include "ConvGraph.h"

#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>

#include <stdexcept>

using namespace pp::cuda;
namespace frontend = cudnn_frontend;
using Attributes = frontend::graph::Tensor_attributes;
using frontend::NumericalNote_t;

static void check(frontend::error_t error) {
  if (error.is_bad())
    throw std::runtime_error(error.get_message());
}

static std::vector<int64_t> widen(const std::vector<int> &values) {
  return {values.begin(), values.end()};
}

template <typename Operation>
static Operation describe(const ConvMapping &map) {
  Operation operation;
  operation.set_pre_padding(widen(map.pad))
      .set_post_padding(widen(map.pad))
      .set_stride(widen(map.strides))
      .set_dilation(widen(map.dilations));
  return operation;
}

static void addConv(frontend::graph::Graph &graph, const std::string &kind,
                    const ConvMapping &map, frontend::DataType_t type) {
  auto getTensor = [&](int64_t uid, const std::vector<int> &dims) {
    std::vector<int64_t> strides(dims.size(), 1);
    for (size_t i = dims.size() - 1; i-- > 0;)
      strides[i] = strides[i + 1] * dims[i + 1];
    return Attributes()
        .set_uid(uid)
        .set_dim(widen(dims))
        .set_stride(strides)
        .set_data_type(type);
  };
  Attributes src = getTensor(1, map.src), weights = getTensor(2, map.weights),
             dst = getTensor(3, map.dst);
  auto setResult = [](const std::shared_ptr<Attributes> &result,
                      const Attributes &like) {
    *result = like;
    result->set_output(true).set_is_virtual(false);
  };
  using namespace frontend::graph;
  if (kind == "conv_forward")
    setResult(graph.conv_fprop(graph.tensor(src), graph.tensor(weights),
                               describe<Conv_fprop_attributes>(map)),
              dst);
  else if (kind == "conv_backward_data")
    setResult(graph.conv_dgrad(graph.tensor(dst), graph.tensor(weights),
                               describe<Conv_dgrad_attributes>(map)),
              src);
  else
    setResult(graph.conv_wgrad(graph.tensor(dst), graph.tensor(src),
                               describe<Conv_wgrad_attributes>(map)),
              weights);
}

uint64_t pp::cuda::getConvWorkspaceBytes(const std::string &kind,
                                         const ConvMapping &map,
                                         const AttentionTarget &target) {
  frontend::cudnn_dlhandle = target.library;
  auto isF32 = [](ElementType type) { return type == ElementType::F32; };
  bool isWide =
      isF32(map.srcType) || isF32(map.weightsType) || isF32(map.dstType);
  bool isExact = isF32(map.srcType) && isF32(map.weightsType) &&
                 isF32(map.dstType) && !map.allowsTf32;
  auto type = isWide ? frontend::DataType_t::FLOAT
              : map.srcType == ElementType::BF16
                  ? frontend::DataType_t::BFLOAT16
                  : frontend::DataType_t::HALF;

  frontend::graph::Graph graph;
  graph.set_intermediate_data_type(frontend::DataType_t::FLOAT)
      .set_compute_data_type(frontend::DataType_t::FLOAT)
      .set_io_data_type(type)
      .set_sm_version(target.architecture);
  addConv(graph, kind, map, type);
  check(graph.validate());
  auto properties = std::make_shared<frontend::DeviceProperties>();
  check(properties->deserialize(
      {target.properties.begin(), target.properties.end()}));
  graph.set_device_properties(properties);
  check(graph.build_operation_graph());
  check(graph.create_execution_plans(
      {frontend::HeurMode_t::A, frontend::HeurMode_t::FALLBACK}));
  graph.deselect_numeric_notes({NumericalNote_t::NONDETERMINISTIC});
  if (isExact)
    graph.deselect_numeric_notes(
        {NumericalNote_t::TENSOR_CORE, NumericalNote_t::DOWN_CONVERT_INPUTS});
  check(graph.build_plans(frontend::BuildPlanPolicy_t::HEURISTICS_CHOICE));
  int64_t bytes = 0;
  check(graph.get_workspace_size(bytes));
  return static_cast<uint64_t>(bytes);
}
