/* What can be seen of a hang before its processes are ended. */
#ifndef LS_SUPERVISE_EVIDENCE_H
#define LS_SUPERVISE_EVIDENCE_H

#include "monitor/ring.h"
#include "supervise/fault.h"

#include <jansson.h>

/* Fills fault->differ, and names the rank that is behind where the page could not tell one. */
void ls_evidence_differ(ls_rings_t *rings, const ls_page_look_t *look, ls_fault_t *fault);
/* An object: the threads of a process of this host, and their stacks where a debugger is installed. Takes 5 s at most. */
json_t *ls_evidence_process(pid_t pid);
/* The same with the last collectives of each rank, and what NCCL's RAS says where devices exchange data. Takes 3 s at
 * most. rings NULL: there are none. Takes the reference; new reference. */
json_t *ls_evidence_hang(ls_rings_t *rings, json_t *process);

/* NCCL's own report of a job: RAS, a text protocol on NCCL_RAS_ADDR, else localhost:28028 (NCCL user guide,
 * "RAS"). "": nobody answers. Takes 3 s at most. */
void ls_evidence_ras(char *text, size_t size_bytes);

#endif
