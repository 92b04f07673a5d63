/* Limits of this process's control groups (Linux, admin-guide/cgroup-v2 and cgroup-v1): a container or a batch job may
 * allow less than the machine has. */
#ifndef LS_BASE_CGROUP_H
#define LS_BASE_CGROUP_H

/* Calls look(arg, line) with the first line of the limit's file in this process's group and in every group above it:
 * `file` of version 2, and file_v1 of that controller of version 1 (both NULL: none). Files that are missing are left
 * out. Within a container the group's own name may not lead anywhere; the top, which is the container's, is always
 * read. root: "" or where a recorded system lies. */
typedef void (*ls_cgroup_fn)(void *arg, const char *line);
void ls_cgroup_each(const char *root, const char *file, const char *controller, const char *file_v1,
                    ls_cgroup_fn look, void *arg);

#endif
