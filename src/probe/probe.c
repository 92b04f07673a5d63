#include "machine/profile.h"
