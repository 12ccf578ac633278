/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens an engine on Metal, which compiles the network of its self-check, in a process whose
 * threads have small stacks unless somebody asks for more. The simulator reports at exit.
 */
#include "mast3r.h"

#include <pthread.h>
#include <stdio.h>

static mast3r_status opened;

static void *open_engine(void *unused) {
  (void)unused;
  mast3r_config config = {.size = sizeof config, .backend = "metal"};
  mast3r_engine engine = 0;
  opened = mast3r_engine_create(&config, &engine);
  if (opened != MAST3R_OK)
    printf("%s\n", mast3r_last_error());
  else
    mast3r_engine_close(engine);
  return NULL;
}

int main(void) {
  open_engine(NULL); /* from the main thread, then from one of a small stack */
  if (opened != MAST3R_OK)
    return 1;
  pthread_t thread;
  pthread_create(&thread, NULL, open_engine, NULL);
  pthread_join(thread, NULL);
  return opened != MAST3R_OK;
}
