/* Walking up the control groups. */
#include "base/cgroup.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Shortens `group` up to the top. */
static void look_upwards(const char *root, const char *mount, char *group, const char *file,
                         ls_cgroup_fn look, void *arg) {
  for (;;) {
    char path[2 * PATH_MAX], line[256];
    int len = snprintf(path, sizeof path, "%s%s%s/%s", root, mount, group, file);
    FILE *in = len < (int)sizeof path ? fopen(path, "re") : NULL;
    if (in && fgets(line, sizeof line, in)) look(arg, line);
    if (in) fclose(in);
    char *slash = strrchr(group, '/');
    if (!slash) return;
    *slash = '\0';
  }
}

/* The group in a line "ID:CONTROLLERS:GROUP" of version 1 when the controller is among its own; NULL = not. */
static char *group_of(char *line, const char *controller) {
  char *controllers = strchr(line, ':');
  char *group = controllers ? strchr(controllers + 1, ':') : NULL;
  if (!group) return NULL;
  *group++ = '\0';
  for (char *name = controllers + 1; *name;) {
    size_t len = strcspn(name, ",");
    if (len == strlen(controller) && strncmp(name, controller, len) == 0) return group;
    name += len + (name[len] == ',');
  }
  return NULL;
}

void ls_cgroup_each(const char *root, const char *file, const char *controller, const char *file_v1,
                    ls_cgroup_fn look, void *arg) {
  static const char v2[] = "/sys/fs/cgroup";
  char path[PATH_MAX + 64], line[PATH_MAX], v1[64] = "", top[] = "";
  if (controller) snprintf(v1, sizeof v1, "%s/%s", v2, controller);
  look_upwards(root, v2, top, file, look, arg);
  if (controller) look_upwards(root, v1, top, file_v1, look, arg);
  snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
  FILE *groups = fopen(path, "re");
  if (!groups) return;
  while (fgets(line, sizeof line, groups)) {
    line[strcspn(line, "\n")] = '\0';
    bool second = strncmp(line, "0::", 3) == 0;
    char *group = second ? line + 3 : controller ? group_of(line, controller) : NULL;
    if (group) look_upwards(root, second ? v2 : v1, group, second ? file : file_v1, look, arg);
  }
  fclose(groups);
}
