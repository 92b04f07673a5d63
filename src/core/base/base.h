/* Layer 0: what every other module stands on. Includes the public status and context. */
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
