/* Evidence of a hang, taken before its processes are ended. */
#ifndef LS_SUPERVISE_EVIDENCE_H
#define LS_SUPERVISE_EVIDENCE_H

#include "monitor/ring.h"
#include "supervise/fault.h"

#include <jansson.h>

/* Whether devices exchange data among themselves. rings NULL: not known. */
bool ls_evidence_devices(ls_rings_t *rings);
/* Fills fault->differ, and names the rank that lags if the page could not tell one. */
void ls_evidence_differ(ls_rings_t *rings, const ls_page_look_t *look, ls_fault_t *fault);
/* An object: the threads of a process of this host, their stacks where a debugger is installed (5 s at most), and with
 * `devices` what NCCL's RAS says there (3 s at most). New reference. */
json_t *ls_evidence_process(pid_t pid, bool devices);
/* The same with the last collectives of each rank. If NCCL did not answer on another host, it is asked on this one where
 * devices exchange data (3 s at most). rings NULL: there are none. Takes the reference; new reference. */
json_t *ls_evidence_hang(ls_rings_t *rings, json_t *process);

/* NCCL's own report of a job: RAS, a text protocol (NCCL user guide, "RAS") on NCCL_RAS_ADDR of this rank's process, else of
 * this process, else on localhost:28028. "": nobody answers. Takes 3 s at most. */
void ls_evidence_ras(pid_t rank, char *text, size_t size_bytes);

#endif
