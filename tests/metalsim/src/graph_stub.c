#include "sim.h"
void ms_init_graph(void) {}
