//go:build cgo

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls that must work when the Go runtime cannot: in a forked child, where its
 * threads are gone and a call that needs one would hang.
 */
#include "guard.h"

#include <stdlib.h>
#include <string.h>

/* A key and not a _Thread_local array: Go's shared libraries use the static TLS block,
 * where a library that is loaded late finds room for a few words only. */
static int have_key;
static volatile int32_t forked;

#ifdef _WIN32 /* fibre-local storage calls free at a thread's end, as a pthread key does; there is no fork */
#include <windows.h>

static DWORD error_key;

static void WINAPI free_text(void *text) { free(text); }
static void *error_text(void) { return have_key ? FlsGetValue(error_key) : NULL; }
static void keep_text(char *text) { FlsSetValue(error_key, text); }

__attribute__((constructor)) static void start(void) {
  error_key = FlsAlloc(free_text);
  have_key = error_key != FLS_OUT_OF_INDEXES;
}
#else
#include <pthread.h>

static pthread_key_t error_key;

static void mark_forked(void) { forked = 1; }
static void *error_text(void) { return have_key ? pthread_getspecific(error_key) : NULL; }
static void keep_text(char *text) { pthread_setspecific(error_key, text); }

__attribute__((constructor)) static void start(void) {
  have_key = pthread_key_create(&error_key, free) == 0;
  pthread_atfork(NULL, NULL, mark_forked);
}
#endif

void m3r_set_error(const char *text) {
  char *copy = have_key ? strdup(text) : NULL;
  if (copy == NULL) return; /* out of memory: the status still tells */
  free(error_text());
  keep_text(copy);
}

EXPORT int32_t mast3r_in_forked_child(void) { return forked; }

EXPORT const char *mast3r_last_error(void) {
  const char *text = error_text();
  return text ? text : "";
}

EXPORT uint32_t mast3r_abi_version(void) { return MAST3R_ABI_VERSION; }

EXPORT const char *mast3r_version(void) { return MAST3R_VERSION; }

EXPORT const char *mast3r_status_name(mast3r_status status) {
  switch (status) {
  case MAST3R_OK: return "ok";
  case MAST3R_PENDING: return "pending";
  case MAST3R_E_ARGUMENT: return "bad argument";
  case MAST3R_E_ABI: return "struct of another size";
  case MAST3R_E_HANDLE: return "bad handle";
  case MAST3R_E_CLOSED: return "closed";
  case MAST3R_E_NOT_LOADED: return "no model loaded";
  case MAST3R_E_CANCELLED: return "cancelled";
  case MAST3R_E_WEIGHTS: return "bad model file";
  case MAST3R_E_IMAGE: return "bad image";
  case MAST3R_E_SHAPE: return "sizes do not fit";
  case MAST3R_E_DEVICE: return "device failure";
  case MAST3R_E_NOT_FOUND: return "not found";
  case MAST3R_E_FORKED: return "forked child";
  case MAST3R_E_INTERNAL: return "internal fault";
  case MAST3R_E_FILE: return "file refused";
  case MAST3R_E_MEMORY: return "too little memory";
  case MAST3R_E_UNSUPPORTED: return "not supported by the network";
  }
  return "unknown status";
}
