// SPDX-License-Identifier: Apache-2.0
// Foundation as the other files use it.
#pragma once
#include "sim.h"

#define IMP(name) static void name(ms_call *c)
#define ARRAY_LEN(a) ((int)(sizeof(a) / sizeof(a[0])))

id ms_string(const char *utf8);              // +1
id ms_string_n(const char *p, size_t n);     // +1, NULL when not UTF-8
const char *ms_utf8(id string);              // interior
id ms_number_i(int64_t v);                   // +1
id ms_number_d(double v);                    // +1
double ms_number_double(id number);
int64_t ms_number_int(id number);
bool ms_number_is_integer(id number);
id ms_array(const id *v, int64_t n);         // +1, retains
id ms_array_owned(id *v, int64_t n);         // +1, takes the references
id ms_dictionary(const id *k, const id *v, int64_t n);
void ms_dictionary_set(id d, id k, id v);
id ms_dictionary_get(id d, id k);
int64_t ms_length(id collection);
id ms_element(id collection, int64_t i, int want_key);
const void *ms_data_bytes(id data);
int64_t ms_data_length(id data);
const char *ms_url_path(id url);
bool ms_equal(id a, id b);
id ms_error(const char *domain, int64_t code, const char *text); // +1
void ms_set_error(void *out, const char *domain, int64_t code, const char *text); // autoreleased into *out

id ms_init_self(ms_call *c);  // the initialised receiver of an init method, +1 in c->ret
void ms_init_fail(ms_call *c); // init gives nil and consumes the receiver
id ms_instance(ms_call *c, const char *base); // +1 instance for a class factory: of the receiving class
void ms_return(ms_call *c, id o);  // borrowed
void ms_return_new(ms_call *c, id o); // owned by the call

void ms_init_collections(void);
