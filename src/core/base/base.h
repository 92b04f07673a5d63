/* Layer 0: the base of every other module. Includes the public status and context. */
#ifndef LS_BASE_BASE_H
#define LS_BASE_BASE_H

#include "base/arena.h"
#include "base/clock.h"
#include "base/ctx.h"
#include "base/doc.h"
#include "base/field.h"
#include "base/file.h"
#include "base/json.h"
#include "base/option.h"
#include "base/rng.h"
#include "base/thread.h"

#endif
