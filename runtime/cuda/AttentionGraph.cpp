//===- AttentionGraph.cpp - The one file that sees cudnn-frontend ---------===//
#include "AttentionGraph.h"
#include "Failure.h"

using namespace pp::cuda;

#if defined(PP_WITHOUT_CUDNN_FRONTEND) || !__has_include(<cudnn_frontend.h>)

struct AttentionGraph::Plan {};
AttentionGraph::AttentionGraph(const AttentionMapping &,
                               const AttentionTarget &) {
  throw Failure(Failure::Usage,
                "this CUDA plugin was built without cudnn_frontend.h, which "
                "attention needs: build it where scripts/fetch-cuda has run, "
                "or compile the model with --fuse-attention=never");
}
AttentionGraph::~AttentionGraph() = default;
uint64_t AttentionGraph::getWorkspaceBytes() const { return 0; }
void AttentionGraph::execute(cudnnHandle_t, void *const *, void *) {}

#else

// Functions are looked up in `cudnn_dlhandle`, so that nothing is linked.
#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>

#include <mutex>

void *cudnn_frontend::cudnn_dlhandle = nullptr;

namespace frontend = cudnn_frontend;
using Attributes = frontend::graph::Tensor_attributes;
using TensorPointer = std::shared_ptr<Attributes>;

struct AttentionGraph::Plan {
  frontend::graph::Graph graph;
  int tensors = 0;
  int64_t workspaceBytes = 0;
};

/// The first version that needs no copies from the host for rows that are not a
/// multiple of 128.
static constexpr size_t oldestVersion = 91600;

static void useLibrary(void *library) {
  static std::once_flag once;
  std::call_once(once, [&] { frontend::cudnn_dlhandle = library; });
  size_t version = frontend::detail::get_backend_version();
  if (version < oldestVersion)
    throw Failure(Failure::Usage,
                  "attention needs cuDNN 9.16 or newer, and this is " +
                      frontend::detail::convert_version_to_str(version) +
                      ": install a newer version, or compile the model with "
                      "--fuse-attention=never");
}

static void check(frontend::error_t error) {
  if (error.is_bad())
    throw Failure(Failure::Input,
                  "cuDNN has no deterministic kernel for this attention; "
                  "compile the model with --fuse-attention=never: " +
                      error.get_message());
}

static frontend::DataType_t getType(ElementType type) {
  return type == ElementType::BF16  ? frontend::DataType_t::BFLOAT16
         : type == ElementType::F16 ? frontend::DataType_t::HALF
                                    : frontend::DataType_t::FLOAT;
}

/// Tensors are known by numbers, which are one more than their positions.
static void describe(Attributes &attributes, const AttentionMapping &map,
                     AttentionMapping::Tensor position) {
  const AttentionTensor &tensor = map.tensors[position];
  attributes.set_uid(position + 1)
      .set_dim(tensor.dims)
      .set_stride(tensor.strides)
      .set_data_type(getType(tensor.type));
}

static void addForward(frontend::graph::Graph &graph,
                       const AttentionMapping &map, const TensorPointer &q,
                       const TensorPointer &k, const TensorPointer &v) {
  auto attributes = frontend::graph::SDPA_attributes()
                        .set_name("attention_forward")
                        .set_generate_stats(true)
                        .set_attn_scale(map.scale);
  if (map.isCausal)
    attributes.set_causal_mask(true);
  auto [out, stats] = graph.sdpa(q, k, v, attributes);
  describe(out->set_output(true), map, AttentionMapping::Out);
  describe(stats->set_output(true), map, AttentionMapping::Stats);
}

static void addBackward(frontend::graph::Graph &graph,
                        const AttentionMapping &map, const TensorPointer &q,
                        const TensorPointer &k, const TensorPointer &v,
                        const TensorPointer &out, const TensorPointer &stats,
                        const TensorPointer &diffOut) {
  auto attributes = frontend::graph::SDPA_backward_attributes()
                        .set_name("attention_backward")
                        .set_deterministic_algorithm(true)
                        .set_attn_scale(map.scale);
  if (map.isCausal)
    attributes.set_causal_mask(true);
  auto [diffQ, diffK, diffV] =
      graph.sdpa_backward(q, k, v, out, diffOut, stats, attributes);
  describe(diffQ->set_output(true), map, AttentionMapping::DiffQ);
  describe(diffK->set_output(true), map, AttentionMapping::DiffK);
  describe(diffV->set_output(true), map, AttentionMapping::DiffV);
}

AttentionGraph::AttentionGraph(const AttentionMapping &map,
                               const AttentionTarget &target) {
  useLibrary(target.library);
  plan = std::make_unique<Plan>();
  plan->tensors = static_cast<int>(map.tensors.size());
  frontend::graph::Graph &graph = plan->graph;
  graph.set_intermediate_data_type(frontend::DataType_t::FLOAT)
      .set_compute_data_type(frontend::DataType_t::FLOAT)
      .set_io_data_type(getType(map.tensors[AttentionMapping::Q].type))
      // Else the frontend asks CUDA's runtime library, which nothing else here
      // needs.
      .set_sm_version(target.architecture);
  auto add = [&](AttentionMapping::Tensor position) {
    Attributes attributes;
    describe(attributes, map, position);
    return graph.tensor(attributes);
  };
  TensorPointer q = add(AttentionMapping::Q), k = add(AttentionMapping::K),
                v = add(AttentionMapping::V);
  if (map.isBackward)
    addBackward(graph, map, q, k, v, add(AttentionMapping::Out),
                add(AttentionMapping::Stats), add(AttentionMapping::DiffOut));
  else
    addForward(graph, map, q, k, v);

  check(graph.validate());
  if (target.properties.empty()) {
    check(graph.build_operation_graph(target.handle));
  } else {
    auto properties = std::make_shared<frontend::DeviceProperties>();
    check(properties->deserialize(
        {target.properties.begin(), target.properties.end()}));
    graph.set_device_properties(properties);
    check(graph.build_operation_graph());
  }
  check(graph.create_execution_plans({frontend::HeurMode_t::A}));
  graph.deselect_numeric_notes({frontend::NumericalNote_t::NONDETERMINISTIC});
  check(graph.check_support());
  check(graph.build_plans(frontend::BuildPlanPolicy_t::HEURISTICS_CHOICE));
  check(graph.get_workspace_size(plan->workspaceBytes));
}

AttentionGraph::~AttentionGraph() = default;

uint64_t AttentionGraph::getWorkspaceBytes() const {
  return static_cast<uint64_t>(plan->workspaceBytes);
}

void AttentionGraph::execute(cudnnHandle_t handle, void *const *tensors,
                             void *workspace) {
  // The pointers in the order of the tensors' numbers.
  frontend::error_t error = plan->graph.execute(
      handle, const_cast<void **>(tensors), plan->tensors, workspace);
  if (error.is_bad())
    throw Failure(Failure::Internal,
                  "cuDNN's attention: " + error.get_message());
}

#endif
