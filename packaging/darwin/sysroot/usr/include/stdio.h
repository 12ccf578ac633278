#pragma once
#include "_types_min.h"
typedef struct __sFILE FILE; extern FILE *__stderrp, *__stdoutp;
#define stderr __stderrp
#define stdout __stdoutp
int fprintf(FILE*,const char*,...); int printf(const char*,...); int snprintf(char*,size_t,const char*,...); int vfprintf(FILE*,const char*,va_list); int fputc(int,FILE*); int fflush(FILE*); void perror(const char*);
