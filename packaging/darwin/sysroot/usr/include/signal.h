#pragma once
#include "_types_min.h"
#define SIG_BLOCK 1
#define SIG_UNBLOCK 2
#define SIG_SETMASK 3
#define SIGABRT 6
#define SIGSEGV 11
#define SIGPROF 27
#define sigfillset(s) (*(s) = ~(sigset_t)0, 0)
#define sigemptyset(s) (*(s) = 0, 0)
#define sigaddset(s,n) (*(s) |= (sigset_t)1 << ((n)-1), 0)
int sigprocmask(int,const sigset_t*,sigset_t*); int raise(int);
