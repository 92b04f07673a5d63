/* The texts of lockstep stress's flags as options. */
#include "stress/stress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static ls_status_t read_parts(ls_ctx_t *ctx, const char *text, unsigned *parts) {
  *parts = text ? 0 : (1u << LS_STRESS_PARTS) - 1;
  if (text && !strcmp(text, "none")) return LS_OK;
  for (const char *name = text; name;) {
    const size_t len = strcspn(name, ",");
    int i = 0;
    while (ls_stress_part_names[i] &&
           (strncmp(name, ls_stress_part_names[i], len) || ls_stress_part_names[i][len]))
      i++;
    if (!ls_stress_part_names[i])
      return ls_fail(ctx, LS_ERR_ARGUMENT, "--parts takes compute, memory and links, not \"%.*s\"", (int)len,
                     name);
    *parts |= 1u << i;
    name = name[len] ? name + len + 1 : NULL;
  }
  return LS_OK;
}

/* "link:0-1" */
static ls_status_t read_plant(ls_ctx_t *ctx, const char *text, ls_plant_t *plant) {
  *plant = (ls_plant_t){.a = -1, .b = -1};
  for (int i = 1; text && i < LS_PLANT_KINDS; i++) {
    size_t len = strlen(ls_plant_names[i]);
    bool pair = i >= LS_PLANT_TRANSFER;
    if (strncmp(text, ls_plant_names[i], len) || text[len] != ':') continue;
    int end = 0;
    if (pair)
      sscanf(text + len, ":%d-%d%n", &plant->a, &plant->b, &end);
    else
      sscanf(text + len, ":%d%n", &plant->a, &end);
    if (end > 0 && !text[len + (size_t)end]) plant->kind = i;
  }
  if (!text || plant->kind) return LS_OK;
  return ls_fail(ctx, LS_ERR_ARGUMENT,
                 "--plant takes product:RANK, memory:RANK, host-memory:RANK, disk:RANK, transfer:FROM-TO or "
                 "link:FROM-TO, not \"%s\"",
                 text);
}

ls_status_t ls_stress_check_plant(ls_ctx_t *ctx, const ls_stress_request_t *request,
                                  const ls_stress_options_t *o, int ranks) {
  const ls_plant_t *plant = &o->plant;
  const char *text = request->plant;
  const bool pair = plant->kind >= LS_PLANT_TRANSFER;
  const bool runs[LS_PLANT_KINDS] = {[LS_PLANT_NONE] = true,
                                     [LS_PLANT_PRODUCT] = o->parts & LS_STRESS_COMPUTE,
                                     [LS_PLANT_MEMORY] = o->parts & LS_STRESS_MEMORY,
                                     [LS_PLANT_HOST] = o->host_share > 0,
                                     [LS_PLANT_DISK] = o->disk,
                                     [LS_PLANT_TRANSFER] = o->parts & LS_STRESS_LINKS,
                                     [LS_PLANT_LINK] = o->parts & LS_STRESS_LINKS};
  if (!runs[plant->kind])
    return ls_fail(ctx, LS_ERR_ARGUMENT,
                   "--plant %s: the part that finds it does not run (--parts, --host-memory, --disk)", text);
  if (!plant->kind || (plant->a >= 0 && plant->a < ranks &&
                       (!pair || (plant->b >= 0 && plant->b < ranks && plant->a != plant->b))))
    return LS_OK;
  return ls_fail(ctx, LS_ERR_ARGUMENT, "--plant %s: %s of 0 to %d expected (--ranks)", text,
                 pair ? "two different ranks" : "a rank", ranks - 1);
}

ls_status_t ls_stress_check_disk(ls_ctx_t *ctx, const ls_stress_request_t *request,
                                 const ls_stress_options_t *o, const ls_comm_t *control) {
  if (o->plant.kind != LS_PLANT_DISK || o->plant.a != control->rank || control->local_rank == 0) return LS_OK;
  return ls_fail(ctx, LS_ERR_ARGUMENT,
                 "--plant %s: rank %d writes no file; the first rank of each host does, such as 0",
                 request->plant, control->rank);
}

/* "/scratch", "/scratch:4G". A colon that no size follows belongs to the folder. */
static ls_status_t read_disk(ls_ctx_t *ctx, ls_arena_t *arena, const char *text, ls_stress_options_t *o) {
  static const char units[] = "KMGT";
  const char *colon = text ? strrchr(text, ':') : NULL;
  size_t len = text ? strlen(text) : 0;
  if (colon && colon[1] >= '0' && colon[1] <= '9') {
    char *end;
    double size = strtod(colon + 1, &end);
    const char *unit = *end ? strchr(units, *end) : NULL;
    for (int i = 0; unit && i <= unit - units; i++)
      size *= 1024;
    if (*end && (!unit || end[1])) size = NAN;
    if (!(size >= 1 && size < 1e18))
      return ls_fail(ctx, LS_ERR_ARGUMENT, "--disk takes DIR or DIR:SIZE (4G), not \"%s\"", text);
    o->disk_bytes = (int64_t)size;
    len = (size_t)(colon - text);
  }
  if (text) o->disk = ls_arena_strndup(arena, text, len);
  return !text || o->disk ? LS_OK : LS_ERR_MEMORY;
}

ls_status_t ls_stress_options_read(ls_ctx_t *ctx, ls_arena_t *arena, const ls_stress_request_t *r,
                                   ls_stress_options_t *o) {
  const double host_share = r->host_percent / 100;
  *o = (ls_stress_options_t){.seconds = r->seconds,
                             .memory_share = r->memory_percent / 100,
                             .network = r->network,
                             .transport = "auto"};
  ls_status_t status = read_disk(ctx, arena, r->disk, o);
  if (status == LS_OK) status = read_parts(ctx, r->parts, &o->parts);
  if (status == LS_OK) status = read_plant(ctx, r->plant, &o->plant);
  if (status == LS_OK) status = ls_backend_find(ctx, r->backend ? r->backend : "auto", &o->backend);
  if (status == LS_OK && !o->parts && !o->network && !o->disk && !(host_share > 0))
    status = ls_fail(ctx, LS_ERR_ARGUMENT,
                     "--parts none leaves nothing to do: add --network, --disk or --host-memory");
  if (status != LS_OK || !(host_share > 0)) return status;
  if (!o->backend->host_memory) {
    o->host_share = host_share;
  } else { /* the host's memory is the device's */
    o->memory_share = host_share;
    o->parts |= LS_STRESS_MEMORY;
    if (o->plant.kind == LS_PLANT_HOST) o->plant.kind = LS_PLANT_MEMORY;
  }
  return LS_OK;
}

ls_profile_t *ls_stress_profile(ls_ctx_t *ctx, bool tell) {
  ls_machine_t *machine = ls_alloc(ctx, sizeof *machine);
  ls_ctx_t *own = ls_ctx_create(NULL, NULL); /* its absence is no error */
  ls_profile_t *profile = NULL;
  char *path =
      machine && own && ls_machine_read(own, machine) == LS_OK ? ls_profile_default_path(own, machine) : NULL;
  if (path && ls_profile_load(own, path, machine, &profile) != LS_OK && tell)
    ls_log(ctx, LS_LOG_WARN,
           "rates are not compared with this machine's profile: there is none, or it does not fit; lockstep "
           "probe measures it");
  ls_free(path);
  ls_ctx_destroy(own);
  ls_free(machine);
  return profile;
}
