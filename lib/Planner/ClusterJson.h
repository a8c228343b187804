//===- ClusterJson.h - Clusters inside other files ------------------------===//
#ifndef PP_LIB_PLANNER_CLUSTERJSON_H
#define PP_LIB_PLANNER_CLUSTERJSON_H

#include "ObjectReader.h"
#include "pp/Planner/Cluster.h"

namespace pp::planner {

/// Errors begin with `path`.
Result<Cluster> readCluster(const Json &json, const std::string &path);
Json clusterToJson(const Cluster &cluster);

} // namespace pp::planner

#endif // PP_LIB_PLANNER_CLUSTERJSON_H
