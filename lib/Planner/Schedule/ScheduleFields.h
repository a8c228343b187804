//===- ScheduleFields.h - The fields of a schedule's text -------*- C++ -*-===//
#ifndef PP_LIB_PLANNER_SCHEDULE_SCHEDULEFIELDS_H
#define PP_LIB_PLANNER_SCHEDULE_SCHEDULEFIELDS_H

#include "pp/Planner/Schedule/Schedule.h"

namespace pp::planner {

struct ScheduleField {
  /// In its line, from 1: several may come from one field of another notation.
  size_t number = 1;
  std::string text;
};

/// Without blanks and quotes around it.
std::string_view trim(std::string_view text);

/// The trimmed fields of each line.
std::vector<std::vector<ScheduleField>> splitFields(std::string_view text);

/// See parseSchedule. One row per rank.
Result<Schedule>
parseFields(const std::vector<std::vector<ScheduleField>> &rows,
            std::vector<Channel> channels, std::vector<RankGroup> groups);

} // namespace pp::planner

#endif // PP_LIB_PLANNER_SCHEDULE_SCHEDULEFIELDS_H
