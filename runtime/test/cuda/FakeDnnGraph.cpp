//===- FakeDnnGraph.cpp - Graphs of libcudnn on host memory ---------------===//
//
// Keeps what is set of descriptors, offers two engines for every graph, of
// which the second is deterministic, and executes the operations one after the
// other by their definitions. Values between operations are rounded to the
// types that their tensors have. Refuses pointers that are not aligned as their
// tensors say.
//
//===----------------------------------------------------------------------===//
#include "FakeNumbers.h"

#define NV_CUDNN_DISABLE_WARNINGS
#include <cudnn.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

struct Descriptor;
using Pointer = std::shared_ptr<Descriptor>;

struct Attribute {
  std::vector<char> bytes;
  std::vector<Pointer> descriptors;
};
struct Descriptor {
  cudnnBackendDescriptorType_t type;
  std::map<int, Attribute> attributes;
  bool isFinal = false;

  const Attribute &get(cudnnBackendAttributeName_t name) const {
    auto it = attributes.find(name);
    if (it == attributes.end())
      throw std::runtime_error("an attribute is missing");
    return it->second;
  }
  bool has(cudnnBackendAttributeName_t name) const {
    return attributes.count(name) != 0;
  }
  const Descriptor &child(cudnnBackendAttributeName_t name) const {
    return *get(name).descriptors.at(0);
  }
  template <typename T>
  std::vector<T> values(cudnnBackendAttributeName_t name) const {
    const std::vector<char> &bytes = get(name).bytes;
    std::vector<T> result(bytes.size() / sizeof(T));
    std::memcpy(result.data(), bytes.data(), bytes.size());
    return result;
  }
  template <typename T> T value(cudnnBackendAttributeName_t name) const {
    return values<T>(name).at(0);
  }
  bool isTrue(cudnnBackendAttributeName_t name) const {
    return has(name) && value<char>(name) != 0;
  }
  template <typename T> void set(cudnnBackendAttributeName_t name, T value) {
    std::vector<char> &bytes = attributes[name].bytes;
    bytes.resize(sizeof(T));
    std::memcpy(bytes.data(), &value, sizeof(T));
  }
};

/// What the opaque pointers point to.
Pointer &get(cudnnBackendDescriptor_t it) {
  return *static_cast<Pointer *>(it);
}

size_t sizeOf(cudnnBackendAttributeType_t type) {
  switch (type) {
  case CUDNN_TYPE_CHAR:
  case CUDNN_TYPE_BOOLEAN:
    return 1;
  case CUDNN_TYPE_HANDLE:
  case CUDNN_TYPE_INT64:
  case CUDNN_TYPE_DOUBLE:
  case CUDNN_TYPE_VOID_PTR:
    return 8;
  default:
    return 4;
  }
}

constexpr int64_t engines = 2, workspaceBytes = 512;

using Index = std::array<int64_t, 4>;

/// A tensor of the graph and the memory that it is in.
struct Tensor {
  int64_t uid = 0;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  Index dims{};
  Index declared{}; // strides, which between operations are only for reshapes
  Index strides{};  // of the memory
  bool isVirtual = false;
  void *data = nullptr;

  int64_t at(const Index &index, const Index &steps) const {
    int64_t place = 0;
    for (size_t i = 0; i < 4; ++i)
      place += (dims[i] == 1 ? 0 : index[i]) * steps[i];
    return place;
  }
  int64_t at(const Index &index) const { return at(index, strides); }
  int64_t getExtent() const {
    int64_t last = 0;
    for (size_t i = 0; i < 4; ++i)
      last += (dims[i] - 1) * declared[i];
    return last + 1;
  }
  fakenumbers::Type getNumberType() const {
    return type == CUDNN_DATA_BFLOAT16 ? fakenumbers::Type::BF16
           : type == CUDNN_DATA_HALF   ? fakenumbers::Type::F16
                                       : fakenumbers::Type::F32;
  }
  float load(const Index &index) const {
    if (isVirtual)
      return static_cast<const float *>(data)[at(index)];
    if (type == CUDNN_DATA_INT32)
      return static_cast<float>(static_cast<const int32_t *>(data)[at(index)]);
    return fakenumbers::load(data, getNumberType(), at(index));
  }
  void store(const Index &index, float value) const {
    if (!isVirtual) {
      fakenumbers::store(data, getNumberType(), at(index), value);
      return;
    }
    uint32_t word = 0;
    fakenumbers::store(&word, getNumberType(), 0, value);
    static_cast<float *>(data)[at(index)] =
        fakenumbers::load(&word, getNumberType(), 0);
  }
};

void forEach(const Index &dims,
             const std::function<void(const Index &)> &body) {
  Index i;
  for (i[0] = 0; i[0] < dims[0]; ++i[0])
    for (i[1] = 0; i[1] < dims[1]; ++i[1])
      for (i[2] = 0; i[2] < dims[2]; ++i[2])
        for (i[3] = 0; i[3] < dims[3]; ++i[3])
          body(i);
}

/// One run of a graph.
class Run {
public:
  explicit Run(const Descriptor &pack) {
    auto uids = pack.values<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    auto data = pack.values<void *>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    for (size_t i = 0; i < uids.size(); ++i)
      pointers[uids[i]] = data.at(i);
  }
  void execute(const Descriptor &operation);

private:
  Tensor find(const Descriptor &operation, cudnnBackendAttributeName_t name);
  void multiply(const Descriptor &operation);
  void pointwise(const Descriptor &operation);
  void reduce(const Descriptor &operation);
  void attend(const Descriptor &operation);

  std::map<int64_t, void *> pointers;
  std::map<int64_t, std::vector<float>> buffers; // of virtual tensors
};

Tensor Run::find(const Descriptor &operation,
                 cudnnBackendAttributeName_t name) {
  const Descriptor &descriptor = operation.child(name);
  Tensor tensor;
  tensor.uid = descriptor.value<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  tensor.type = descriptor.value<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
  auto dims = descriptor.values<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS),
       strides = descriptor.values<int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  if (dims.size() > 4 || strides.size() != dims.size())
    throw std::runtime_error("more than four dimensions");
  dims.insert(dims.begin(), 4 - dims.size(), 1);
  strides.insert(strides.begin(), 4 - strides.size(), 1);
  std::copy(dims.begin(), dims.end(), tensor.dims.begin());
  std::copy(strides.begin(), strides.end(), tensor.declared.begin());
  tensor.strides = tensor.declared;
  tensor.isVirtual = descriptor.isTrue(CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  if (tensor.isVirtual) {
    int64_t count = 1;
    for (size_t i = 4; i-- > 0; count *= tensor.dims[i])
      tensor.strides[i] = count;
    std::vector<float> &buffer = buffers[tensor.uid];
    buffer.resize(count, NAN);
    tensor.data = buffer.data();
    return tensor;
  }
  tensor.data = pointers.at(tensor.uid);
  bool isOnHost = descriptor.isTrue(CUDNN_ATTR_TENSOR_IS_BY_VALUE);
  auto alignment = descriptor.value<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  if (!isOnHost && reinterpret_cast<uintptr_t>(tensor.data) % alignment != 0)
    throw std::runtime_error("a pointer is not aligned");
  return tensor;
}

void Run::multiply(const Descriptor &operation) {
  Tensor a = find(operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC),
         b = find(operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC),
         c = find(operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
  if (a.dims[3] != b.dims[2] || a.dims[2] != c.dims[2] ||
      b.dims[3] != c.dims[3] || a.type != b.type)
    throw std::runtime_error("matrices that do not fit");
  forEach(c.dims, [&](const Index &i) {
    float sum = 0;
    for (int64_t k = 0; k < a.dims[3]; ++k)
      sum += a.load({i[0], i[1], i[2], k}) * b.load({i[0], i[1], k, i[3]});
    c.store(i, sum);
  });
}

void Run::pointwise(const Descriptor &operation) {
  const Descriptor &kind =
      operation.child(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  auto mode = kind.value<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
  Tensor y = find(operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
  std::vector<Tensor> inputs;
  for (auto name : {CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                    CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                    CUDNN_ATTR_OPERATION_POINTWISE_TDESC})
    if (operation.has(name))
      inputs.push_back(find(operation, name));
  forEach(y.dims, [&](const Index &i) {
    auto in = [&](size_t position) { return inputs.at(position).load(i); };
    switch (mode) {
    case CUDNN_POINTWISE_ADD:
      return y.store(i, in(0) + in(1));
    case CUDNN_POINTWISE_SUB:
      return y.store(i, in(0) - in(1));
    case CUDNN_POINTWISE_MUL:
      return y.store(i, in(0) * in(1));
    case CUDNN_POINTWISE_DIV:
      return y.store(i, in(0) / in(1));
    case CUDNN_POINTWISE_EXP:
      return y.store(i, std::exp(in(0)));
    case CUDNN_POINTWISE_LOG:
      return y.store(i, std::log(in(0)));
    case CUDNN_POINTWISE_IDENTITY:
      return y.store(i, in(0));
    case CUDNN_POINTWISE_CMP_GE:
      return y.store(i, in(0) >= in(1));
    case CUDNN_POINTWISE_BINARY_SELECT:
      return y.store(i, in(2) != 0 ? in(0) : in(1));
    case CUDNN_POINTWISE_GEN_INDEX:
      return y.store(i, static_cast<float>(i.at(
                            kind.value<int64_t>(CUDNN_ATTR_POINTWISE_AXIS))));
    default:
      throw std::runtime_error("pointwise " + std::to_string(mode));
    }
  });
}

void Run::reduce(const Descriptor &operation) {
  Tensor x = find(operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC),
         y = find(operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
  auto how = operation.child(CUDNN_ATTR_OPERATION_REDUCTION_DESC)
                 .value<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR);
  if (how != CUDNN_REDUCE_TENSOR_ADD && how != CUDNN_REDUCE_TENSOR_MAX)
    throw std::runtime_error("reduction " + std::to_string(how));
  bool isSum = how == CUDNN_REDUCE_TENSOR_ADD;
  forEach(y.dims, [&](const Index &i) { y.store(i, isSum ? 0 : -INFINITY); });
  forEach(x.dims, [&](const Index &i) {
    float value = x.load(i), before = y.load(i);
    y.store(i, isSum ? before + value : std::max(before, value));
  });
}

/// Attention as one operation, which has no mask here.
void Run::attend(const Descriptor &operation) {
  Tensor q = find(operation, CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC),
         k = find(operation, CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC),
         v = find(operation, CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC),
         out = find(operation, CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC),
         stats = find(operation, CUDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC),
         scale = find(operation, CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC);
  // Columns of rows, as the frontend gives it: k is transposed.
  bool isTransposed = k.dims[2] == q.dims[3] && k.dims[3] == v.dims[2];
  forEach(stats.dims, [&](const Index &i) {
    std::vector<float> p(v.dims[2]);
    float sum = 0;
    for (int64_t j = 0; j < v.dims[2]; ++j) {
      float score = 0;
      for (int64_t l = 0; l < q.dims[3]; ++l)
        score +=
            q.load({i[0], i[1], i[2], l}) *
            k.load({i[0], i[1], isTransposed ? l : j, isTransposed ? j : l});
      sum += p[j] = std::exp(score * scale.load({}));
    }
    stats.store(i, std::log(sum));
    for (int64_t l = 0; l < v.dims[3]; ++l) {
      float value = 0;
      for (int64_t j = 0; j < v.dims[2]; ++j)
        value += p[j] / sum * v.load({i[0], i[1], j, l});
      out.store({i[0], i[1], i[2], l}, value);
    }
  });
}

void Run::execute(const Descriptor &operation) {
  switch (operation.type) {
  case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
    return multiply(operation);
  case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
    return pointwise(operation);
  case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
    return reduce(operation);
  case CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR:
    return attend(operation);
  case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR: {
    // The same memory with other dimensions.
    Tensor x = find(operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC),
           y = find(operation, CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
    if (x.getExtent() != y.getExtent())
      throw std::runtime_error("a reshape of other memory");
    std::vector<float> memory(x.getExtent(), NAN);
    forEach(x.dims,
            [&](const Index &i) { memory[x.at(i, x.declared)] = x.load(i); });
    return forEach(y.dims, [&](const Index &i) {
      y.store(i, memory[y.at(i, y.declared)]);
    });
  }
  default:
    throw std::runtime_error("operation " + std::to_string(operation.type));
  }
}

/// Runs `work`; what it throws is the text of the last error.
thread_local std::string lastError;
template <typename Work> cudnnStatus_t guard(Work work) {
  try {
    work();
    return CUDNN_STATUS_SUCCESS;
  } catch (const std::exception &e) {
    lastError = std::string("the fake: ") + e.what();
    return CUDNN_STATUS_BAD_PARAM;
  }
}

/// What the library itself says of a descriptor.
void describe(Descriptor &it) {
  if (it.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
    it.set(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, workspaceBytes);
  if (it.type != CUDNN_BACKEND_ENGINE_DESCRIPTOR)
    return;
  if (it.value<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX) == 0)
    it.set(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
           CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
}

std::vector<Pointer> chooseEngines(const Descriptor &heuristics) {
  std::vector<Pointer> configurations;
  for (int64_t i = 0; i < engines; ++i) {
    auto engine = std::make_shared<Descriptor>();
    engine->type = CUDNN_BACKEND_ENGINE_DESCRIPTOR;
    engine->attributes[CUDNN_ATTR_ENGINE_OPERATION_GRAPH] =
        heuristics.get(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    engine->set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, i);
    describe(*engine);
    auto configuration = std::make_shared<Descriptor>();
    configuration->type = CUDNN_BACKEND_ENGINECFG_DESCRIPTOR;
    configuration->attributes[CUDNN_ATTR_ENGINECFG_ENGINE].descriptors = {
        engine};
    configuration->set(CUDNN_ATTR_ENGINECFG_SHARED_MEMORY_USED, int32_t(0));
    engine->isFinal = configuration->isFinal = true;
    configurations.push_back(configuration);
  }
  return configurations;
}

} // namespace

extern "C" {

size_t cudnnGetVersion() { return CUDNN_VERSION; }
void cudnnGetLastErrorString(char *text, size_t bytes) {
  std::strncpy(text, lastError.c_str(), bytes);
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *it) {
  auto descriptor = std::make_shared<Descriptor>();
  descriptor->type = type;
  *it = new Pointer(descriptor);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t it) {
  delete &get(it);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t it,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type,
                                       int64_t count, const void *elements) {
  return guard([&] {
    if (get(it)->isFinal)
      throw std::runtime_error("a descriptor is set after its end");
    Attribute &attribute = get(it)->attributes[name];
    attribute = {};
    if (type != CUDNN_TYPE_BACKEND_DESCRIPTOR) {
      auto *bytes = static_cast<const char *>(elements);
      attribute.bytes.assign(bytes, bytes + count * sizeOf(type));
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      Pointer &child =
          get(static_cast<const cudnnBackendDescriptor_t *>(elements)[i]);
      if (!child->isFinal)
        throw std::runtime_error("a descriptor is used before its end");
      attribute.descriptors.push_back(child);
    }
  });
}
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t it,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type,
                                       int64_t room, int64_t *count,
                                       void *elements) {
  return guard([&] {
    Attribute attribute;
    if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS)
      attribute.descriptors = chooseEngines(*get(it));
    else if (get(it)->has(name))
      attribute = get(it)->get(name);
    int64_t size = type == CUDNN_TYPE_BACKEND_DESCRIPTOR
                       ? attribute.descriptors.size()
                       : attribute.bytes.size() / sizeOf(type);
    if (count)
      *count = size;
    size = std::min(size, room);
    if (!elements)
      return;
    // Descriptors are the caller's and get filled.
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
      for (int64_t i = 0; i < size; ++i)
        *get(static_cast<cudnnBackendDescriptor_t *>(elements)[i]) =
            *attribute.descriptors[i];
    else if (size)
      std::memcpy(elements, attribute.bytes.data(), size * sizeOf(type));
  });
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t it) {
  return guard([&] {
    describe(*get(it));
    get(it)->isFinal = true;
  });
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  return guard([&] {
    auto *workspace =
        get(pack)->value<void *>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
    if (!workspace)
      throw std::runtime_error("no workspace");
    std::memset(workspace, 0xff, workspaceBytes);
    const Descriptor &engine =
        get(plan)
            ->child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
            .child(CUDNN_ATTR_ENGINECFG_ENGINE);
    if (engine.value<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX) == 0)
      throw std::runtime_error("that engine is not deterministic");
    Run run(*get(pack));
    for (const Pointer &operation :
         engine.child(CUDNN_ATTR_ENGINE_OPERATION_GRAPH)
             .get(CUDNN_ATTR_OPERATIONGRAPH_OPS)
             .descriptors)
      run.execute(*operation);
  });
}

} // extern "C"
