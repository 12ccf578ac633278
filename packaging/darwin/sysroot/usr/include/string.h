#pragma once
#include "_types_min.h"
void *memset(void*,int,size_t); void *memcpy(void*,const void*,size_t); void *memmove(void*,const void*,size_t); int memcmp(const void*,const void*,size_t); size_t strlen(const char*); int strcmp(const char*,const char*); char *strerror(int); char *strdup(const char*);
