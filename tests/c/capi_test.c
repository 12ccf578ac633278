/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The C interface as a C program meets it: capi_test MODEL.safetensors MANY_VIEWS.safetensors
 *
 * One line a failed check, exit 1; nothing else is printed but the closing count.
 */
#include "mast3r.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { HEIGHT = 48, WIDTH = 64, PIXELS = HEIGHT * WIDTH };

static int passed, failed;
static const char *model, *many;

#define CHECK(cond)                                                                        \
  do {                                                                                     \
    if (cond) {                                                                            \
      passed++;                                                                            \
    } else {                                                                               \
      failed++;                                                                            \
      printf("line %d: %s (last error: %s)\n", __LINE__, #cond, mast3r_last_error());      \
    }                                                                                      \
  } while (0)

/* want_error checks the status and that the text holds a word. */
#define WANT(call, code, word)                                                             \
  do {                                                                                     \
    mast3r_status got_ = (call);                                                           \
    CHECK(got_ == (code));                                                                 \
    CHECK(strstr(mast3r_last_error(), word) != NULL);                                      \
  } while (0)

/* A pointer, because C evaluates arguments in any order: the handle is read after the submit. */
static mast3r_status finish(mast3r_status submitted, const mast3r_job *job) {
  return submitted == MAST3R_OK ? mast3r_job_wait(*job, -1) : submitted;
}

static mast3r_engine open_engine(int load) {
  mast3r_config config = {.size = sizeof config, .backend = "cpu", .threads = 2};
  mast3r_engine engine = 0;
  mast3r_job job = 0;
  CHECK(mast3r_engine_create(&config, &engine) == MAST3R_OK && engine != 0);
  if (load) {
    CHECK(finish(mast3r_submit_load(engine, model, &job), &job) == MAST3R_OK);
    CHECK(mast3r_job_free(job) == MAST3R_OK);
  }
  return engine;
}

static uint8_t pixels[2][PIXELS * 3];

static mast3r_image picture(int i) {
  mast3r_image image = {.size = sizeof image, .height = HEIGHT, .width = WIDTH, .pixels = pixels[i]};
  return image;
}

static void make_pictures(void) {
  uint32_t state = 1;
  for (int i = 0; i < 2; i++)
    for (int k = 0; k < PIXELS * 3; k++) {
      state = state * 1664525u + 1013904223u;
      pixels[i][k] = (uint8_t)(state >> 24);
    }
}

static void release_result(const mast3r_result *r) {
  for (int i = 0; i < r->views; i++) {
    CHECK(mast3r_tensor_release(r->view[i].points) == MAST3R_OK);
    CHECK(mast3r_tensor_release(r->view[i].conf) == MAST3R_OK);
    CHECK(mast3r_tensor_release(r->view[i].desc) == MAST3R_OK);
    CHECK(mast3r_tensor_release(r->view[i].desc_conf) == MAST3R_OK);
  }
}

static void test_library(void) {
  CHECK(mast3r_abi_version() == MAST3R_ABI_VERSION);
  CHECK(strlen(mast3r_version()) > 0);
  CHECK(strcmp(mast3r_status_name(MAST3R_E_SHAPE), "sizes do not fit") == 0);
  CHECK(strcmp(mast3r_status_name(12345), "unknown status") == 0);
  CHECK(mast3r_in_forked_child() == 0);
  CHECK(strcmp(mast3r_last_error(), "") == 0);
}

static void test_arguments(void) {
  mast3r_config config = {.size = sizeof config};
  mast3r_engine engine = 0;
  mast3r_stats stats = {.size = 4};
  WANT(mast3r_engine_create(NULL, &engine), MAST3R_E_ARGUMENT, "NULL");
  WANT(mast3r_engine_create(&config, NULL), MAST3R_E_ARGUMENT, "NULL");
  WANT(mast3r_live(&stats), MAST3R_E_ABI, "size is 4, want");
  config.size--;
  WANT(mast3r_engine_create(&config, &engine), MAST3R_E_ABI, "sizeof");
  config.size++;
  config.backend = "abacus";
  WANT(mast3r_engine_create(&config, &engine), MAST3R_E_ARGUMENT, "abacus");
  config.backend = "cpu";
  config.threads = -1;
  WANT(mast3r_engine_create(&config, &engine), MAST3R_E_ARGUMENT, "-1");
}

static void test_handles(void) {
  const uint64_t wrong[] = {0, 1, 0xdeadbeefULL, UINT64_MAX, 1ULL << 32, (uint64_t)(uintptr_t)&passed};
  mast3r_info info = {.size = sizeof info};
  void *data;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    WANT(mast3r_engine_info(wrong[i], &info), MAST3R_E_HANDLE, "handle");
    WANT(mast3r_engine_close(wrong[i]), MAST3R_E_HANDLE, "handle");
    WANT(mast3r_job_wait(wrong[i], 0), MAST3R_E_HANDLE, "handle");
    WANT(mast3r_job_free(wrong[i]), MAST3R_E_HANDLE, "handle");
    WANT(mast3r_tensor_data(wrong[i], &data), MAST3R_E_HANDLE, "handle");
    WANT(mast3r_tensor_release(wrong[i]), MAST3R_E_HANDLE, "handle");
  }
  mast3r_engine engine = open_engine(0);
  WANT(mast3r_tensor_data(engine, &data), MAST3R_E_HANDLE, "an engine, want a tensor");
  WANT(mast3r_job_wait(engine, 0), MAST3R_E_HANDLE, "an engine, want a job");
  CHECK(mast3r_engine_close(engine) == MAST3R_OK);
  mast3r_engine again = open_engine(0); /* takes the slot; the old handle must not reach it */
  WANT(mast3r_engine_info(engine, &info), MAST3R_E_HANDLE, "released");
  CHECK(again != engine);
  CHECK(mast3r_engine_close(again) == MAST3R_OK);
}

static void test_bad_pictures(void) {
  mast3r_engine engine = open_engine(1);
  mast3r_image a = picture(0), b = picture(1);
  mast3r_infer_options raw = {.size = sizeof raw, .raw = 1};
  mast3r_job job = 0;
  WANT(mast3r_submit_infer(engine, NULL, &b, &raw, &job), MAST3R_E_ARGUMENT, "image1");
  WANT(mast3r_submit_infer(engine, &a, &b, &raw, NULL), MAST3R_E_ARGUMENT, "out");
  a.pixels = NULL;
  WANT(mast3r_submit_infer(engine, &a, &b, &raw, &job), MAST3R_E_ARGUMENT, "pixels");
  a = picture(0);
  a.height = 0;
  WANT(mast3r_submit_infer(engine, &a, &b, &raw, &job), MAST3R_E_IMAGE, "0 x 64");
  a.height = INT32_MAX;
  WANT(mast3r_submit_infer(engine, &a, &b, &raw, &job), MAST3R_E_IMAGE, "2147483647");
  a = picture(0);
  a.stride = 3 * WIDTH - 1;
  WANT(mast3r_submit_infer(engine, &a, &b, &raw, &job), MAST3R_E_IMAGE, "191");
  a = picture(0);
  a.size = 8;
  WANT(mast3r_submit_sequence(engine, &a, 2, &raw, &job), MAST3R_E_ABI, "image");
  a = picture(0);
  WANT(mast3r_submit_sequence(engine, &a, 1, &raw, &job), MAST3R_E_SHAPE, "1 images");
  a.width = 63; /* no multiple of the patch: found when the job runs */
  WANT(finish(mast3r_submit_infer(engine, &a, &b, &raw, &job), &job), MAST3R_E_IMAGE, "63");
  WANT(mast3r_job_results(job, &(size_t){0}), MAST3R_E_IMAGE, "63");
  CHECK(mast3r_job_free(job) == MAST3R_OK);
  CHECK(mast3r_engine_close(engine) == MAST3R_OK);
}

static void test_models(void) {
  mast3r_engine engine = open_engine(0);
  mast3r_image a = picture(0), b = picture(1);
  mast3r_job job = 0;
  char path[] = "/tmp/mast3r_capi_XXXXXX";
  int file = mkstemp(path);
  CHECK(file >= 0 && write(file, "version https://git-lfs", 23) == 23 && close(file) == 0);
  WANT(finish(mast3r_submit_load(engine, path, &job), &job), MAST3R_E_WEIGHTS, path);
  CHECK(mast3r_job_free(job) == MAST3R_OK);
  unlink(path);
  WANT(finish(mast3r_submit_load(engine, path, &job), &job), MAST3R_E_NOT_FOUND, path);
  CHECK(mast3r_job_free(job) == MAST3R_OK);
  WANT(finish(mast3r_submit_infer(engine, &a, &b, NULL, &job), &job), MAST3R_E_NOT_LOADED, "load");
  CHECK(mast3r_job_free(job) == MAST3R_OK);
  WANT(mast3r_submit_warmup(engine, -1, &job), MAST3R_E_ARGUMENT, "-1");
  CHECK(mast3r_engine_close(engine) == MAST3R_OK);
}

static void test_convert(void) {
  char dir[] = "/tmp/mast3r_convert_XXXXXX", out[64], files[128];
  mast3r_job job = 0;
  mast3r_progress progress = {.size = sizeof progress};
  size_t needed = 0;
  CHECK(mkdtemp(dir) != NULL);
  snprintf(out, sizeof out, "%s/unified.safetensors", dir);
  CHECK(finish(mast3r_submit_convert(model, dir, "fp32", &job), &job) == MAST3R_OK);
  CHECK(mast3r_job_progress(job, &progress) == MAST3R_OK);
  CHECK(progress.total > 0 && progress.done == progress.total);
  CHECK(mast3r_job_files(job, NULL, 0, &needed) == MAST3R_OK && needed == strlen(out) + 5);
  CHECK(mast3r_job_files(job, files, sizeof files, &needed) == MAST3R_OK);
  CHECK(strncmp(files + 2, out, strlen(out)) == 0);
  CHECK(mast3r_job_free(job) == MAST3R_OK);
  mast3r_engine engine = open_engine(0);
  CHECK(finish(mast3r_submit_load(engine, dir, &job), &job) == MAST3R_OK);
  CHECK(mast3r_job_free(job) == MAST3R_OK);
  CHECK(mast3r_engine_close(engine) == MAST3R_OK);
  WANT(finish(mast3r_submit_convert(model, dir, "int8", &job), &job), MAST3R_E_ARGUMENT, "int8");
  WANT(mast3r_job_files(job, files, sizeof files, &needed), MAST3R_E_ARGUMENT, "int8");
  CHECK(mast3r_job_free(job) == MAST3R_OK);
  WANT(finish(mast3r_submit_convert("/nowhere.pth", dir, NULL, &job), &job), MAST3R_E_NOT_FOUND, "nowhere");
  CHECK(mast3r_job_free(job) == MAST3R_OK);
  strcat(out, "/x.safetensors"); /* below a file */
  WANT(finish(mast3r_submit_convert(model, out, NULL, &job), &job), MAST3R_E_FILE, "unified");
  CHECK(mast3r_job_free(job) == MAST3R_OK);
  WANT(mast3r_submit_convert(NULL, dir, NULL, &job), MAST3R_E_ARGUMENT, "NULL");
  *strrchr(out, '/') = 0;
  unlink(out);
  CHECK(rmdir(dir) == 0); /* nothing else was left in it */
}

static char report[65536];

/* Reads the report of a job into `report`. */
static mast3r_status read_report(mast3r_job job) {
  size_t needed = 0;
  mast3r_status status = mast3r_job_report(job, NULL, 0, &needed);
  if (status != MAST3R_OK) return status;
  CHECK(needed <= sizeof report);
  status = mast3r_job_report(job, report, sizeof report, &needed);
  CHECK(strlen(report) + 1 == needed);
  return status;
}

static void test_reports(void) {
  mast3r_job job = 0;
  mast3r_cost_options cost = {.size = sizeof cost, .variant = "mast3r_vit_large", .height1 = 384, .width1 = 512};
  CHECK(finish(mast3r_submit_cost(&cost, &job), &job) == MAST3R_OK);
  CHECK(read_report(job) == MAST3R_OK && strstr(report, "\"predicted_ms\":") != NULL);
  CHECK(mast3r_job_free(job) == MAST3R_OK);
  cost.height1 = 100;
  WANT(finish(mast3r_submit_cost(&cost, &job), &job), MAST3R_E_SHAPE, "patch size 16");
  CHECK(mast3r_job_free(job) == MAST3R_OK);
  cost.size = 0;
  WANT(mast3r_submit_cost(&cost, &job), MAST3R_E_ABI, "size");
  WANT(mast3r_submit_cost(NULL, &job), MAST3R_E_ARGUMENT, "NULL");

  mast3r_memory_options need = {.size = sizeof need, .variant = "mast3r_vit_large", .height1 = 384, .width1 = 512};
  mast3r_memory memory = {.size = sizeof memory};
  WANT(mast3r_job_memory(job, &memory), MAST3R_E_HANDLE, "");
  CHECK(finish(mast3r_submit_memory(&need, &job), &job) == MAST3R_OK);
  CHECK(mast3r_job_memory(job, &memory) == MAST3R_OK);
  CHECK(memory.weights > 2500LL << 20 && memory.total == memory.weights + memory.activations + memory.buffers + memory.results + memory.runtime);
  CHECK(memory.free > 0 && memory.limit[0] != 0);
  CHECK(read_report(job) == MAST3R_OK && strstr(report, "\"activations\":") != NULL);
  memory.size = 0;
  WANT(mast3r_job_memory(job, &memory), MAST3R_E_ABI, "size");
  WANT(mast3r_job_memory(job, NULL), MAST3R_E_ARGUMENT, "NULL");
  CHECK(mast3r_job_free(job) == MAST3R_OK);
  need.pictures = 1;
  WANT(finish(mast3r_submit_memory(&need, &job), &job), MAST3R_E_ARGUMENT, "Pictures");
  CHECK(mast3r_job_free(job) == MAST3R_OK);
  need.pictures = 3, need.batch = 2;
  WANT(finish(mast3r_submit_memory(&need, &job), &job), MAST3R_E_ARGUMENT, "Batch");
  CHECK(mast3r_job_free(job) == MAST3R_OK);
  need.size = 0;
  WANT(mast3r_submit_memory(&need, &job), MAST3R_E_ABI, "size");

  mast3r_engine engine = open_engine(1);
  mast3r_image a = picture(0), b = picture(1);
  mast3r_infer_options raw = {.size = sizeof raw, .raw = 1};
  CHECK(finish(mast3r_submit_profile(engine, &a, &b, &raw, 2, 1, &job), &job) == MAST3R_OK);
  CHECK(read_report(job) == MAST3R_OK && strstr(report, "\"name\":\"decoder\"") != NULL);
  CHECK(strstr(report, "\"iterations\":2") != NULL && strstr(report, "\"wait\":true") != NULL);
  CHECK(mast3r_job_free(job) == MAST3R_OK);
  WANT(mast3r_submit_profile(engine, &a, &b, &raw, 0, 0, &job), MAST3R_E_ARGUMENT, "iterations");
  CHECK(finish(mast3r_submit_warmup(engine, 0, &job), &job) == MAST3R_OK);
  WANT(read_report(job), MAST3R_E_ARGUMENT, "no report");
  CHECK(mast3r_job_free(job) == MAST3R_OK);
  CHECK(mast3r_engine_close(engine) == MAST3R_OK);

  CHECK(finish(mast3r_submit_selfcheck(&job), &job) == MAST3R_OK);
  CHECK(read_report(job) == MAST3R_OK && strstr(report, "\"metal\":") != NULL);
  CHECK(mast3r_job_free(job) == MAST3R_OK);
  WANT(mast3r_submit_selfcheck(NULL), MAST3R_E_ARGUMENT, "NULL");
}

static void take(mast3r_engine engine, mast3r_result *out) {
  mast3r_image a = picture(0), b = picture(1);
  mast3r_infer_options raw = {.size = sizeof raw, .raw = 1};
  mast3r_job job = 0;
  size_t count = 0;
  CHECK(finish(mast3r_submit_infer(engine, &a, &b, &raw, &job), &job) == MAST3R_OK);
  CHECK(mast3r_job_results(job, &count) == MAST3R_OK && count == 1);
  *out = (mast3r_result){.size = sizeof *out};
  CHECK(mast3r_job_take_result(job, 0, out) == MAST3R_OK);
  mast3r_result twice = {.size = sizeof twice};
  WANT(mast3r_job_take_result(job, 0, &twice), MAST3R_E_ARGUMENT, "taken");
  WANT(mast3r_job_take_result(job, 1, &twice), MAST3R_E_ARGUMENT, "1 of 1");
  mast3r_matches none = {.size = sizeof none};
  WANT(mast3r_job_take_matches(job, &none), MAST3R_E_ARGUMENT, "no matches");
  CHECK(mast3r_job_free(job) == MAST3R_OK);
}

static void test_pair(void) {
  mast3r_engine engine = open_engine(1);
  mast3r_info info = {.size = sizeof info};
  CHECK(mast3r_engine_info(engine, &info) == MAST3R_OK && info.ready && info.patch == 16);
  CHECK(strncmp(info.name, "mast3r_tiny on cpu", 18) == 0 && strcmp(info.outputs, "pts3d conf desc desc_conf") == 0);
  size_t needed = 0;
  CHECK(mast3r_engine_metadata(engine, NULL, 0, &needed) == MAST3R_OK && needed > 2);
  char *text = malloc(needed);
  CHECK(mast3r_engine_metadata(engine, text, needed, &needed) == MAST3R_OK);
  CHECK(text[0] == '{' && strstr(text, "\"variant\":\"mast3r_tiny\"") != NULL);
  free(text);

  mast3r_result first, second;
  take(engine, &first);
  CHECK(first.views == 2 && first.view[0].transform.width == WIDTH && first.timing.total_ms > 0);
  mast3r_tensor_desc desc = {.size = sizeof desc};
  CHECK(mast3r_tensor_describe(first.view[0].points, &desc) == MAST3R_OK);
  CHECK(desc.dtype == MAST3R_F32 && desc.ndim == 3 && desc.valid && desc.nbytes == PIXELS * 12);
  CHECK(desc.shape[0] == HEIGHT && desc.shape[1] == WIDTH && desc.shape[2] == 3);
  float *points = NULL, *copy = malloc(PIXELS * 12);
  CHECK(mast3r_tensor_data(first.view[0].points, (void **)&points) == MAST3R_OK && points != NULL);
  int finite = 1;
  for (int i = 0; i < PIXELS * 3; i++) finite &= isfinite(points[i]);
  CHECK(finite);
  WANT(mast3r_tensor_copy(first.view[0].points, copy, 5), MAST3R_E_SHAPE, "5 bytes");
  WANT(mast3r_tensor_copy(first.view[0].points, copy, PIXELS * 12 - 1), MAST3R_E_SHAPE, "bytes");
  WANT(mast3r_tensor_copy(first.view[0].points, copy, PIXELS * 12 + 1), MAST3R_E_SHAPE, "bytes");
  WANT(mast3r_tensor_copy(first.view[0].points, NULL, PIXELS * 12), MAST3R_E_ARGUMENT, "NULL");
  CHECK(mast3r_tensor_copy(first.view[0].points, copy, PIXELS * 12) == MAST3R_OK);
  CHECK(memcmp(copy, points, PIXELS * 12) == 0);

  CHECK(mast3r_engine_trim(engine) == MAST3R_OK); /* results are not touched */
  take(engine, &second); /* the same numbers, in other memory */
  float *other = NULL;
  CHECK(mast3r_tensor_data(second.view[0].points, (void **)&other) == MAST3R_OK && other != points);
  CHECK(memcmp(copy, other, PIXELS * 12) == 0 && memcmp(copy, points, PIXELS * 12) == 0);
  release_result(&second);
  CHECK(mast3r_engine_close(engine) == MAST3R_OK); /* results outlive the engine */
  CHECK(memcmp(copy, points, PIXELS * 12) == 0);
  release_result(&first);
  WANT(mast3r_tensor_describe(first.view[0].points, &desc), MAST3R_E_HANDLE, "released");
  free(copy);
}

static void test_sequence_and_symmetric(void) {
  mast3r_engine engine = open_engine(1);
  mast3r_image images[3] = {picture(0), picture(1), picture(0)};
  mast3r_infer_options raw = {.size = sizeof raw, .raw = 1};
  mast3r_job job = 0;
  size_t count = 0;
  CHECK(finish(mast3r_submit_sequence(engine, images, 3, &raw, &job), &job) == MAST3R_OK);
  CHECK(mast3r_job_results(job, &count) == MAST3R_OK && count == 2);
  CHECK(mast3r_job_free(job) == MAST3R_OK); /* frees the results that nobody took */
  WANT(mast3r_submit_batch(engine, images, 3, &raw, &job), MAST3R_E_SHAPE, "even");
  CHECK(finish(mast3r_submit_batch(engine, images, 2, &raw, &job), &job) == MAST3R_OK);
  CHECK(mast3r_job_results(job, &count) == MAST3R_OK && count == 1);
  CHECK(mast3r_job_free(job) == MAST3R_OK);
  CHECK(finish(mast3r_submit_symmetric(engine, &images[0], &images[1], &raw, &job), &job) == MAST3R_OK);
  mast3r_result result = {.size = sizeof result};
  CHECK(mast3r_job_take_result(job, 0, &result) == MAST3R_OK && result.views == 4);
  release_result(&result);
  CHECK(mast3r_job_free(job) == MAST3R_OK);
  CHECK(mast3r_engine_close(engine) == MAST3R_OK);
}

/* What nobody takes of a job goes back with it, and no unknown output is asked for. */
static void test_left_in_jobs(void) {
  mast3r_engine engine = open_engine(1);
  mast3r_image a[2] = {picture(0), picture(1)};
  mast3r_infer_options options = {.size = sizeof options, .raw = 1};
  mast3r_pool before = {.size = sizeof before}, after = before;
  mast3r_job job = 0;
  CHECK(mast3r_pool_info(engine, &before) == MAST3R_OK && before.in_use_buffers == 0);
  for (int kind = 0; kind < 4; kind++) {
    mast3r_status status = kind == 0   ? mast3r_submit_encode(engine, a, 2, &options, &job)
                           : kind == 1 ? mast3r_submit_infer(engine, &a[0], &a[1], &options, &job)
                           : kind == 2 ? mast3r_submit_symmetric(engine, &a[0], &a[1], &options, &job)
                                       : mast3r_submit_sequence(engine, a, 2, &options, &job);
    CHECK(finish(status, &job) == MAST3R_OK);
    CHECK(mast3r_pool_info(engine, &after) == MAST3R_OK && after.in_use_buffers > 0);
    CHECK(mast3r_job_free(job) == MAST3R_OK);
    CHECK(mast3r_pool_info(engine, &after) == MAST3R_OK && after.in_use_buffers == 0);
  }
  const int32_t wrong[] = {-1, 16, 17, 31, 1 << 30, INT32_MIN};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    options.only = wrong[i];
    WANT(mast3r_submit_infer(engine, &a[0], &a[1], &options, &job), MAST3R_E_ARGUMENT, "only");
  }
  CHECK(mast3r_engine_close(engine) == MAST3R_OK);
}

static void test_views(void) {
  mast3r_engine engine = open_engine(1);
  mast3r_image images[2] = {picture(0), picture(1)};
  mast3r_job job = 0;
  CHECK(finish(mast3r_submit_views(engine, images, 2, NULL, &job), &job) == MAST3R_E_UNSUPPORTED);
  CHECK(strstr(mast3r_last_error(), "Infer") != NULL || strstr(mast3r_last_error(), "pair") != NULL);
  CHECK(mast3r_job_free(job) == MAST3R_OK);
  CHECK(finish(mast3r_submit_load(engine, many, &job), &job) == MAST3R_OK);
  CHECK(mast3r_job_free(job) == MAST3R_OK);
  mast3r_views_options options = {.size = sizeof options, .reference = "first"};
  double poses[32] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};
  options.poses = poses;
  CHECK(mast3r_submit_views(engine, images, 2, &options, &job) == MAST3R_E_ARGUMENT); /* no intrinsics */
  options.poses = NULL;
  CHECK(mast3r_submit_views(engine, images, 0, &options, &job) == MAST3R_E_SHAPE);
  CHECK(finish(mast3r_submit_views(engine, images, 2, &options, &job), &job) == MAST3R_OK);
  size_t count = 0;
  CHECK(mast3r_job_results(job, &count) == MAST3R_OK && count == 2);
  mast3r_scene_view view = {.size = sizeof view};
  CHECK(mast3r_job_take_view(job, 2, &view) == MAST3R_E_ARGUMENT);
  CHECK(mast3r_job_take_view(job, 1, &view) == MAST3R_OK && view.depth && view.conf && view.points && !view.rays);
  CHECK(view.pose[15] == 1 && view.intrinsics[0] > 0 && view.transform.width % 14 == 0);
  CHECK(mast3r_job_take_view(job, 1, &view) == MAST3R_E_ARGUMENT); /* taken */
  mast3r_tensor all[] = {view.depth, view.conf, view.points};
  for (int i = 0; i < 3; i++) CHECK(mast3r_tensor_release(all[i]) == MAST3R_OK);
  mast3r_window window = {.size = sizeof window};
  mast3r_timing timing;
  CHECK(mast3r_job_windows(job, &window, 1, &count, &timing) == MAST3R_OK && count == 1);
  CHECK(window.count == 2 && window.overlap == 0 && window.scale == 1 && timing.total_ms > 0);
  CHECK(mast3r_job_free(job) == MAST3R_OK); /* frees the view that nobody took */
  CHECK(mast3r_engine_close(engine) == MAST3R_OK);
}

static void test_match(void) {
  enum { N = 12, D = 8 };
  float desc[N * D];
  for (int i = 0; i < N * D; i++) desc[i] = (float)((i * 37 + i / D) % 101) / 101.0f - 0.5f;
  for (int i = 0; i < N; i++) {
    float norm = 0;
    for (int k = 0; k < D; k++) norm += desc[i * D + k] * desc[i * D + k];
    for (int k = 0; k < D; k++) desc[i * D + k] /= sqrtf(norm);
  }
  uint8_t mask[N];
  memset(mask, 1, sizeof mask);
  mask[3] = 0;
  mast3r_engine engine = open_engine(0); /* matching needs no model */
  mast3r_map map = {.size = sizeof map, .height = 3, .width = 4, .dim = D, .descriptors = desc};
  mast3r_map masked = map;
  masked.mask = mask;
  mast3r_job job = 0;
  CHECK(finish(mast3r_submit_match(engine, &map, &map, NULL, &job), &job) == MAST3R_OK);
  mast3r_matches matches = {.size = sizeof matches};
  CHECK(mast3r_job_take_matches(job, &matches) == MAST3R_OK && matches.count == N);
  CHECK(mast3r_job_free(job) == MAST3R_OK);
  int64_t *one = NULL, *two = NULL;
  float *points = NULL;
  CHECK(mast3r_tensor_data(matches.index1, (void **)&one) == MAST3R_OK);
  CHECK(mast3r_tensor_data(matches.index2, (void **)&two) == MAST3R_OK);
  CHECK(memcmp(one, two, N * sizeof *one) == 0); /* every pixel finds itself */
  CHECK(mast3r_tensor_data(matches.points1, (void **)&points) == MAST3R_OK && isnan(points[0]));
  mast3r_tensor all[] = {matches.index1, matches.index2, matches.pixel1, matches.pixel2,
                         matches.points1, matches.points2, matches.confidence};
  mast3r_tensor some[] = {matches.index2, 0, matches.points1};
  void *data[] = {&job, &job, &job};
  CHECK(mast3r_tensors_data(some, 3, data) == MAST3R_OK && data[0] == two && data[1] == NULL && data[2] == points);
  CHECK(mast3r_tensors_data(some, 0, data) == MAST3R_OK);
  WANT(mast3r_tensors_data(some, 3, NULL), MAST3R_E_ARGUMENT, "NULL");
  some[1] = engine;
  WANT(mast3r_tensors_data(some, 3, data), MAST3R_E_HANDLE, "an engine, want a tensor");
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) CHECK(mast3r_tensor_release(all[i]) == MAST3R_OK);
  CHECK(finish(mast3r_submit_match(engine, &masked, &map, NULL, &job), &job) == MAST3R_OK);
  CHECK(mast3r_job_take_matches(job, &matches) == MAST3R_OK && matches.count == N - 1);
  CHECK(mast3r_job_free(job) == MAST3R_OK);
  mast3r_tensor rest[] = {matches.index1, matches.index2, matches.pixel1, matches.pixel2,
                          matches.points1, matches.points2, matches.confidence};
  for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) CHECK(mast3r_tensor_release(rest[i]) == MAST3R_OK);
  map.dim = 0;
  WANT(mast3r_submit_match(engine, &map, &map, NULL, &job), MAST3R_E_SHAPE, "x 0");
  mast3r_match_options bad = {.size = sizeof bad, .top_k = -1};
  WANT(mast3r_submit_match(engine, &masked, &masked, &bad, &job), MAST3R_E_ARGUMENT, "top_k -1");
  CHECK(mast3r_engine_close(engine) == MAST3R_OK);
}

static void test_cancel(void) {
  mast3r_engine engine = open_engine(1);
  mast3r_job job = 0, other = 0;
  CHECK(mast3r_submit_warmup(engine, 1000, &job) == MAST3R_OK); /* minutes, if it ran to the end */
  CHECK(mast3r_job_wait(job, 1) == MAST3R_PENDING);
  mast3r_result result = {.size = sizeof result};
  WANT(mast3r_job_take_result(job, 0, &result), MAST3R_E_ARGUMENT, "still runs");
  CHECK(mast3r_job_cancel(job) == MAST3R_OK);
  CHECK(mast3r_job_wait(job, -1) == MAST3R_E_CANCELLED);
  CHECK(mast3r_job_free(job) == MAST3R_OK);
  CHECK(mast3r_submit_warmup(engine, 1000, &other) == MAST3R_OK);
  CHECK(mast3r_engine_close(engine) == MAST3R_OK); /* cancels what runs */
  CHECK(mast3r_job_wait(other, -1) == MAST3R_E_CANCELLED);
  CHECK(mast3r_job_free(other) == MAST3R_OK);
}

static void *one_thread(void *argument) {
  mast3r_result *result = argument;
  uint64_t engine = result->view[0].points; /* handed over in the struct that takes the result */
  if (strcmp(mast3r_last_error(), "") != 0) return NULL; /* the text belongs to another thread */
  mast3r_image a = picture(0), b = picture(1);
  mast3r_infer_options raw = {.size = sizeof raw, .raw = 1};
  mast3r_job job = 0;
  if (finish(mast3r_submit_infer(engine, &a, &b, &raw, &job), &job) != MAST3R_OK) return NULL;
  *result = (mast3r_result){.size = sizeof *result};
  if (mast3r_job_take_result(job, 0, result) != MAST3R_OK) return NULL;
  return mast3r_job_free(job) == MAST3R_OK ? result : NULL;
}

static void test_threads(void) {
  enum { THREADS = 8 };
  mast3r_engine engine = open_engine(1);
  pthread_t threads[THREADS];
  mast3r_result results[THREADS];
  float *data[THREADS];
  for (int i = 0; i < THREADS; i++) {
    results[i].view[0].points = engine;
    CHECK(pthread_create(&threads[i], NULL, one_thread, &results[i]) == 0);
  }
  for (int i = 0; i < THREADS; i++) {
    void *ended = NULL;
    CHECK(pthread_join(threads[i], &ended) == 0 && ended == &results[i]);
    CHECK(mast3r_tensor_data(results[i].view[1].desc, (void **)&data[i]) == MAST3R_OK);
    CHECK(memcmp(data[0], data[i], PIXELS * 24 * sizeof **data) == 0);
  }
  for (int i = 0; i < THREADS; i++) release_result(&results[i]);
  CHECK(mast3r_engine_close(engine) == MAST3R_OK);
}

static void test_log(void) {
  mast3r_log_record record = {.size = sizeof record};
  CHECK(mast3r_log_level(-4) == MAST3R_OK);
  while (mast3r_log_next(&record) == MAST3R_OK) {
  }
  mast3r_engine engine = open_engine(1);
  CHECK(mast3r_engine_close(engine) == MAST3R_OK);
  int loaded = 0;
  while (mast3r_log_next(&record) == MAST3R_OK) loaded |= strstr(record.text, "model loaded") != NULL;
  CHECK(loaded);
  CHECK(mast3r_log_next(&record) == MAST3R_PENDING);
  CHECK(mast3r_log_level(0) == MAST3R_OK);
}

static mast3r_status apply(mast3r_tensor_context context, const char *operation, const char *attributes, const mast3r_tensor *operands,
                           size_t count, mast3r_tensor *results, size_t capacity, size_t *produced) {
  mast3r_tensor_call call = {.size = sizeof call, .context = context, .operation = operation, .attributes = attributes,
                             .operands = operands, .count = count, .results = results, .capacity = capacity};
  mast3r_status status = mast3r_tensor_apply(&call);
  *produced = call.produced;
  return status;
}

/* Eager tensors: there and back, an operation by name, in place, and every kind of wrong call. */
static void test_eager(void) {
  mast3r_tensor_config config = {.size = sizeof config, .backend = "cpu", .threads = 2};
  mast3r_tensor_context context = 0;
  CHECK(mast3r_tensor_open(&config, &context) == MAST3R_OK && context != 0);
  const float numbers[6] = {1, -2, 3, 0.5f, 0, -1};
  const int64_t shape[2] = {2, 3}, huge[2] = {INT64_MAX, 2};
  mast3r_tensor x = 0, y = 0, parts[3] = {0}, both[2];
  size_t count = 9, needed = 0;
  float out[6];
  CHECK(mast3r_tensor_from_host(context, MAST3R_F32, 2, shape, numbers, sizeof numbers, &x) == MAST3R_OK);
  CHECK(apply(context, "relu", NULL, &x, 1, &y, 1, &count) == MAST3R_OK && count == 1);
  CHECK(mast3r_tensor_copy(y, out, sizeof out) == MAST3R_OK && out[0] == 1 && out[1] == 0 && out[3] == 0.5f);
  both[0] = y, both[1] = x;
  CHECK(apply(context, "add_", NULL, both, 2, NULL, 0, &count) == MAST3R_OK && count == 0);
  CHECK(mast3r_tensor_copy(y, out, sizeof out) == MAST3R_OK && out[0] == 2 && out[1] == -2);
  CHECK(apply(context, "split", "{\"axis\": 1, \"sizes\": [1, 1, 1]}", &x, 1, parts, 3, &count) == MAST3R_OK &&
        count == 3);
  for (int i = 0; i < 3; i++) CHECK(mast3r_tensor_release(parts[i]) == MAST3R_OK);
  mast3r_tensor_desc desc = {.size = sizeof desc};
  CHECK(mast3r_tensor_describe(x, &desc) == MAST3R_OK && desc.dtype == MAST3R_F32 && desc.ndim == 2 && desc.nbytes == 24);
  CHECK(mast3r_tensor_operations(NULL, 0, &needed) == MAST3R_OK && needed > 1000);

  /* A number in place of an operand. */
  const double two[2] = {7, 2};
  mast3r_tensor beside[2] = {x, 0}, twice = 0;
  mast3r_tensor_call scale = {.size = sizeof scale, .context = context, .operation = "mul", .operands = beside, .numbers = two,
                              .count = 2, .results = &twice, .capacity = 1};
  CHECK(mast3r_tensor_apply(&scale) == MAST3R_OK && scale.produced == 1);
  CHECK(mast3r_tensor_copy(twice, out, sizeof out) == MAST3R_OK && out[0] == 2 && out[1] == -4 && out[3] == 1);
  CHECK(mast3r_tensor_release(twice) == MAST3R_OK);
  beside[0] = 0;
  WANT(mast3r_tensor_apply(&scale), MAST3R_E_HANDLE, "nil");

  void *pointer;
  WANT(mast3r_tensor_data(x, &pointer), MAST3R_E_ARGUMENT, "mast3r_tensor_copy");
  WANT(mast3r_tensor_copy(x, out, 20), MAST3R_E_SHAPE, "want 24");
  WANT(apply(context, "sinh", NULL, &x, 1, parts, 1, &count), MAST3R_E_ARGUMENT, "sinh");
  WANT(apply(context, "relu", "{", &x, 1, parts, 1, &count), MAST3R_E_ARGUMENT, "attributes");
  WANT(apply(context, "relu", "{\"axis\": 1}", &x, 1, parts, 1, &count), MAST3R_E_ARGUMENT, "axis");
  WANT(apply(context, "chunk", "{\"axis\": 1, \"n\": 3}", &x, 1, parts, 2, &count), MAST3R_E_ARGUMENT, "want 3");
  WANT(apply(context, "matmul", NULL, both, 2, parts, 1, &count), MAST3R_E_SHAPE, "[2,3]");
  WANT(apply(context, "relu", NULL, parts, 1, parts, 1, &count), MAST3R_E_HANDLE, "released");
  WANT(apply(context, NULL, NULL, &x, 1, parts, 1, &count), MAST3R_E_ARGUMENT, "NULL");
  WANT(apply(context, "relu", NULL, &x, SIZE_MAX, parts, 1, &count), MAST3R_E_ARGUMENT, "at most 1024");
  WANT(apply(x, "relu", NULL, &x, 1, parts, 1, &count), MAST3R_E_HANDLE, "want a context");
  mast3r_tensor_call short_call = {.size = sizeof short_call - 1};
  WANT(mast3r_tensor_apply(&short_call), MAST3R_E_ABI, "sizeof");
  WANT(mast3r_tensor_apply(NULL), MAST3R_E_ARGUMENT, "NULL");
  WANT(mast3r_tensor_from_host(context, MAST3R_I64, 2, shape, numbers, 24, parts), MAST3R_E_ARGUMENT, "element type 2");
  WANT(mast3r_tensor_from_host(context, MAST3R_F32, 9, shape, numbers, 24, parts), MAST3R_E_ARGUMENT, "9 dimensions");
  WANT(mast3r_tensor_from_host(context, MAST3R_F32, 2, huge, NULL, 0, parts), MAST3R_E_SHAPE, "shape");
  WANT(mast3r_tensor_from_host(context, MAST3R_F32, 2, shape, numbers, 23, parts), MAST3R_E_SHAPE, "23 bytes");

  mast3r_tensor_stats stats = {.size = sizeof stats};
  CHECK(mast3r_tensor_info(context, &stats) == MAST3R_OK && stats.live_tensors == 2 && strcmp(stats.backend, "cpu") == 0);
  CHECK(mast3r_tensor_commit(context) == MAST3R_OK && mast3r_tensor_sync(context) == MAST3R_OK);

  /* A command buffer, and memory that is written by it. */
  mast3r_commands commands = 0, second = 0;
  mast3r_tensor z = 0;
  CHECK(mast3r_commands_begin(context, &commands) == MAST3R_OK && commands != 0);
  WANT(mast3r_commands_begin(context, &second), MAST3R_E_ARGUMENT, "open");
  WANT(mast3r_commands_wait(commands), MAST3R_E_ARGUMENT, "not committed");
  CHECK(mast3r_tensor_empty(context, MAST3R_F32, 2, shape, &z) == MAST3R_OK);
  both[0] = z, both[1] = x;
  CHECK(apply(context, "copy_", NULL, both, 2, NULL, 0, &count) == MAST3R_OK);
  CHECK(mast3r_commands_commit(commands) == MAST3R_OK);
  WANT(mast3r_commands_commit(commands), MAST3R_E_ARGUMENT, "before");
  CHECK(mast3r_commands_wait(commands) == MAST3R_OK && mast3r_commands_wait(commands) == MAST3R_OK);
  CHECK(mast3r_tensor_copy(z, out, sizeof out) == MAST3R_OK && memcmp(out, numbers, sizeof out) == 0);
  CHECK(mast3r_commands_release(commands) == MAST3R_OK && mast3r_tensor_release(z) == MAST3R_OK);
  WANT(mast3r_commands_wait(commands), MAST3R_E_HANDLE, "released");
  WANT(mast3r_commands_wait(context), MAST3R_E_HANDLE, "want a command buffer");
  WANT(mast3r_tensor_empty(context, 77, 2, shape, &z), MAST3R_E_ARGUMENT, "element type 77");
  CHECK(mast3r_commands_begin(context, &second) == MAST3R_OK && mast3r_commands_release(second) == MAST3R_OK);

  CHECK(mast3r_tensor_cleanup(context) == MAST3R_OK && mast3r_tensor_close(context) == MAST3R_OK);
  WANT(mast3r_tensor_sync(context), MAST3R_E_HANDLE, "released");
  CHECK(mast3r_tensor_copy(x, out, sizeof out) == MAST3R_OK && out[1] == -2); /* outlives its context */
  CHECK(mast3r_tensor_release(x) == MAST3R_OK && mast3r_tensor_release(y) == MAST3R_OK);
}

/* Graphs of the executor: two results, the reason of the CPU, and every kind of wrong call. */
static void test_executor(void) {
  mast3r_executor executor = 0;
  CHECK(mast3r_executor_open(2, &executor) == MAST3R_OK && executor != 0);
  const float x[4] = {1, 2, 3, 4}, w[4] = {0, 1, 1, 0};
  mast3r_input inputs[2] = {{.size = sizeof inputs[0], .ndim = 2, .name = "x", .data = x, .shape = {2, 2}},
                            {.size = sizeof inputs[0], .ndim = 2, .name = "w", .data = w, .shape = {2, 2}}};
  const char *graph = "{\"nodes\": [{\"name\": \"y\", \"op\": \"MatMul\", \"operands\": [\"x\", \"w\"]},"
                      "{\"name\": \"z\", \"op\": \"Add\", \"operands\": [\"y\", \"x\"]}], \"outputs\": [\"z\", \"y\"]}";
  mast3r_tensor results[2] = {0};
  size_t produced = 0, needed = 0;
  float out[4];
  CHECK(mast3r_executor_run(executor, graph, inputs, 2, results, 2, &produced) == MAST3R_OK && produced == 2);
  CHECK(mast3r_tensor_copy(results[1], out, sizeof out) == MAST3R_OK && out[0] == 2 && out[1] == 1 && out[3] == 3);
  CHECK(mast3r_tensor_copy(results[0], out, sizeof out) == MAST3R_OK && out[0] == 3 && out[3] == 7);
  for (int i = 0; i < 2; i++) CHECK(mast3r_tensor_release(results[i]) == MAST3R_OK);

  char info[4096];
  CHECK(mast3r_executor_configure(executor, "{\"MatMul\": 0}") == MAST3R_OK);
  CHECK(mast3r_executor_run(executor, graph, inputs, 2, results, 2, &produced) == MAST3R_OK);
  for (int i = 0; i < 2; i++) CHECK(mast3r_tensor_release(results[i]) == MAST3R_OK);
  CHECK(mast3r_executor_info(executor, info, sizeof info, &needed) == MAST3R_OK && needed < sizeof info);
  CHECK(strstr(info, "\"thresholds\":{\"MatMul\":0}") != NULL);
  CHECK(strstr(info, "\"gpu\":0") == NULL || strstr(info, "\"fallbacks\":{\"") != NULL); /* with the reason */
  CHECK(mast3r_executor_calibrate(executor) == MAST3R_OK);

  WANT(mast3r_executor_run(executor, graph, inputs, 2, results, 1, &produced), MAST3R_E_ARGUMENT, "room for 1 results, want 2");
  WANT(mast3r_executor_run(executor, graph, inputs, 1, results, 2, &produced), MAST3R_E_ARGUMENT, "\"w\"");
  WANT(mast3r_executor_run(executor, "{", inputs, 2, results, 2, &produced), MAST3R_E_ARGUMENT, "JSON");
  WANT(mast3r_executor_run(executor, NULL, inputs, 2, results, 2, &produced), MAST3R_E_ARGUMENT, "NULL");
  WANT(mast3r_executor_run(executor, graph, inputs, SIZE_MAX, results, 2, &produced), MAST3R_E_ARGUMENT, "at most");
  WANT(mast3r_executor_configure(executor, "{\"Sinh\": 1}"), MAST3R_E_ARGUMENT, "Sinh");
  WANT(mast3r_executor_configure(executor, "[]"), MAST3R_E_ARGUMENT, "thresholds");
  inputs[1].shape[0] = INT64_MAX;
  WANT(mast3r_executor_run(executor, graph, inputs, 2, results, 2, &produced), MAST3R_E_SHAPE, "address space");
  inputs[1].shape[0] = 3;
  WANT(mast3r_executor_run(executor, graph, (mast3r_input[]){inputs[0], {.size = sizeof inputs[0], .ndim = 1, .name = "w", .shape = {3}}}, 2,
                           results, 2, &produced), MAST3R_E_ARGUMENT, "data");
  inputs[0].size = 7;
  WANT(mast3r_executor_run(executor, graph, inputs, 2, results, 2, &produced), MAST3R_E_ABI, "size is 7");
  CHECK(mast3r_executor_close(executor) == MAST3R_OK);
  WANT(mast3r_executor_calibrate(executor), MAST3R_E_HANDLE, "released");
}

/* What a forked child does: every call must fail, at once. */
static int child_refused(mast3r_engine engine) {
  mast3r_config config = {.size = sizeof config};
  mast3r_engine other = 0;
  return mast3r_in_forked_child() == 1 && mast3r_engine_create(&config, &other) == MAST3R_E_FORKED &&
         strstr(mast3r_last_error(), "spawn") != NULL && mast3r_engine_close(engine) == MAST3R_E_FORKED;
}

/* Forks while the runtime's threads are busy, when a call into it would find no thread
 * to run on; a child that hangs is killed after five seconds. */
static void test_fork(void) {
  mast3r_engine engine = open_engine(1);
  mast3r_job job = 0;
  CHECK(mast3r_submit_warmup(engine, 1000, &job) == MAST3R_OK);
  for (int round = 0; round < 10; round++) {
    pid_t child = fork();
    if (child == 0) _exit(child_refused(engine) ? 0 : 1);
    int status = -1;
    for (int i = 0; i < 500 && waitpid(child, &status, WNOHANG) == 0; i++)
      nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    if (status == -1) {
      kill(child, 9);
      waitpid(child, NULL, 0);
    }
    CHECK(status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  CHECK(mast3r_in_forked_child() == 0);
  CHECK(mast3r_job_wait(job, 0) == MAST3R_PENDING);
  CHECK(mast3r_engine_close(engine) == MAST3R_OK);
  CHECK(mast3r_job_free(job) == MAST3R_OK);
}

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: capi_test MODEL.safetensors MANY_VIEWS.safetensors\n");
    return 2;
  }
  model = argv[1];
  many = argv[2];
  setvbuf(stdout, NULL, _IOLBF, 0); /* what was found is seen even when the next line crashes */
  make_pictures();
  test_library();
  test_arguments();
  test_handles();
  test_models();
  test_convert();
  test_reports();
  test_bad_pictures();
  test_pair();
  test_sequence_and_symmetric();
  test_left_in_jobs();
  test_views();
  test_match();
  test_cancel();
  test_threads();
  test_log();
  test_eager();
  test_executor();
  test_fork();
  mast3r_stats stats = {.size = sizeof stats};
  CHECK(mast3r_live(&stats) == MAST3R_OK);
  CHECK(stats.engines == 0 && stats.jobs == 0 && stats.tensors == 0);
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}
