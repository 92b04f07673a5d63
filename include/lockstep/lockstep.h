/* lockstep: trains neural networks on one device or many. This header includes the whole public API. */
#ifndef LOCKSTEP_LOCKSTEP_H
#define LOCKSTEP_LOCKSTEP_H

#include <lockstep/config.h>
#include <lockstep/context.h>
#include <lockstep/data.h>
#include <lockstep/memory.h>
#include <lockstep/status.h>
#include <lockstep/train.h>
#include <lockstep/version.h>

#endif
