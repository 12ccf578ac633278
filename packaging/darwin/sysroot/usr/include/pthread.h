#pragma once
#include "_types_min.h"
#include "time.h"
typedef struct _opaque_pthread_t *pthread_t;
typedef unsigned long pthread_key_t;
typedef struct { long sig; char o[56]; } pthread_attr_t;
typedef struct { long sig; char o[56]; } pthread_mutex_t;
typedef struct { long sig; char o[40]; } pthread_cond_t;
typedef struct { long sig; char o[8]; } pthread_mutexattr_t;
typedef struct { long sig; char o[8]; } pthread_condattr_t;
#define PTHREAD_MUTEX_INITIALIZER {0x32AAABA7, {0}}
#define PTHREAD_COND_INITIALIZER {0x3CB0B1BB, {0}}
#define PTHREAD_CREATE_DETACHED 2
int pthread_attr_init(pthread_attr_t*); int pthread_attr_destroy(pthread_attr_t*); int pthread_attr_getstacksize(const pthread_attr_t*,size_t*); int pthread_attr_setstacksize(pthread_attr_t*,size_t);
int pthread_attr_setdetachstate(pthread_attr_t*,int);
int pthread_create(pthread_t*,const pthread_attr_t*,void*(*)(void*),void*); int pthread_detach(pthread_t); pthread_t pthread_self(void); int pthread_atfork(void(*)(void),void(*)(void),void(*)(void));
int pthread_mutex_init(pthread_mutex_t*,const pthread_mutexattr_t*); int pthread_mutex_lock(pthread_mutex_t*); int pthread_mutex_unlock(pthread_mutex_t*);
int pthread_cond_init(pthread_cond_t*,const pthread_condattr_t*); int pthread_cond_wait(pthread_cond_t*,pthread_mutex_t*); int pthread_cond_broadcast(pthread_cond_t*); int pthread_cond_signal(pthread_cond_t*);
int pthread_key_create(pthread_key_t*,void(*)(void*)); void *pthread_getspecific(pthread_key_t); int pthread_setspecific(pthread_key_t,const void*);
void *pthread_get_stackaddr_np(pthread_t); size_t pthread_get_stacksize_np(pthread_t); int pthread_sigmask(int,const sigset_t*,sigset_t*);
