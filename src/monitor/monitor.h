/* Seeing a run from outside. */
#ifndef LS_MONITOR_MONITOR_H
#define LS_MONITOR_MONITOR_H

#include "base/option.h"

/* Section monitor. */
typedef struct {
  const char *dir; /* NULL: the run shows nothing */
} ls_monitor_config_t;
extern const ls_section_t ls_monitor_section;

#endif
