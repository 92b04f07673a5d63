/* Places that a life leaves out, and what the others are called: devices, hosts. Inside supervise. */
#ifndef LS_SUPERVISE_PLACES_H
#define LS_SUPERVISE_PLACES_H

#include "supervise/supervise.h"

/* False: it is out already, or too many are. */
bool ls_places_take_out(ls_places_t *places, int place);
/* Takes out more, down to a number of ranks that a life may have: the last places then have nothing to do. False: there is no
 * such number. */
bool ls_places_fit(ls_places_t *places);
/* Takes in those of the places left out for which there[place], and fits. */
void ls_places_return(ls_places_t *places, const bool *there);

/* The entry of CUDA_VISIBLE_DEVICES for a place; `devices`: the variable as the user has set it, or NULL. False: it is
 * shorter. */
enum { LS_PLACES_DEVICE_BYTES = 256, LS_PLACES_DEVICES_BYTES = 4096 };
bool ls_places_device(const char *devices, int place, char device[LS_PLACES_DEVICE_BYTES]);
/* "CUDA_VISIBLE_DEVICES=..", in which each rank of a life finds the device of its place. */
void ls_places_devices(const ls_places_t *places, const char *devices,
                       char variable[LS_PLACES_DEVICES_BYTES]);

/* "parallel.hosts=[..]": each host with as many slots as it has places that are not left out. The caller's (free). */
char *ls_places_hosts(const ls_places_t *places);

#endif
