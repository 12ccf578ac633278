#pragma once
#include "_types_min.h"
int usleep(useconds_t); pid_t getpid(void); ssize_t read(int,void*,size_t); ssize_t write(int,const void*,size_t); int close(int); unsigned sleep(unsigned);
