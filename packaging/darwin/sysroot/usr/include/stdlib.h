#pragma once
#include "_types_min.h"
void *malloc(size_t); void *calloc(size_t,size_t); void *realloc(void*,size_t); void free(void*); int posix_memalign(void**,size_t,size_t); void abort(void) __attribute__((noreturn)); void exit(int) __attribute__((noreturn)); char *getenv(const char*); int setenv(const char*,const char*,int); int unsetenv(const char*);
