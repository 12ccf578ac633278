#pragma once
#include "_types_min.h"
int nanosleep(const struct timespec*,struct timespec*); int clock_gettime(clockid_t,struct timespec*);
