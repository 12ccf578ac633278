/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the assembly of this package that uses matrix tiles (AMX) on a processor without them.
 * Their instructions raise SIGILL there; the handler does what they would do (Intel SDM, volume 2)
 * and goes on behind them. All other instructions are the processor's.
 *
 * tiles FILE OFFSET SIZE NAME: the machine code of the function lies at that place of the file.
 * It is compared with plain loops; the exit status is 0 where all agree.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

static uint8_t tile[8][16][64], rows[8];
static uint16_t width[8];
static int configured;
static long products;

static void fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    _exit(3);
}

static long long value(ucontext_t *c, int r) {
    static const int names[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                  REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    return c->uc_mcontext.gregs[names[r]];
}

static void configure(const uint8_t *p) {
    if (p[0] != 1) fail("LDTILECFG: palette");
    for (int t = 0; t < 8; t++) {
        memcpy(&width[t], p + 16 + 2 * t, 2);
        rows[t] = p[48 + t];
        if (width[t] > 64 || rows[t] > 16) fail("LDTILECFG: shape");
    }
    memset(tile, 0, sizeof tile);
    configured = 1;
}

/* multiply is TDPBSSD. */
static void multiply(int c, int a, int b) {
    if (rows[a] != rows[c] || width[b] != width[c] || rows[b] * 4 != width[a] || a == b || a == c || b == c)
        fail("TDPBSSD: shapes");
    for (int m = 0; m < rows[c]; m++)
        for (int n = 0; n < width[c]; n += 4) {
            int32_t sum;
            memcpy(&sum, &tile[c][m][n], 4);
            for (int k = 0; k < width[a]; k++) sum += (int8_t)tile[a][m][k] * (int8_t)tile[b][k / 4][n + k % 4];
            memcpy(&tile[c][m][n], &sum, 4);
        }
    products++;
}

static void illegal(int signal, siginfo_t *info, void *context) {
    ucontext_t *c = context;
    uint8_t *p = (uint8_t *)c->uc_mcontext.gregs[REG_RIP], *address = 0;
    (void)signal, (void)info;
    if (p[0] != 0xc4 || (p[1] & 31) != 2) fail("an illegal instruction that is not of tiles");
    int prefix = p[2] & 3, third = ~(p[2] >> 3) & 15, op = p[3], t = p[4] >> 3 & 7, mod = p[4] >> 6, length = 5;
    long long stride = 0;
    if (mod != 3) {
        int base = (p[5] & 7) | (~p[1] >> 5 & 1) << 3, index = (p[5] >> 3 & 7) | (~p[1] >> 6 & 1) << 3;
        int32_t far = (int8_t)p[6];
        if ((p[4] & 7) != 4 || mod == 0) fail("an address of another form");
        if (mod == 2) memcpy(&far, p + 6, 4);
        length = mod == 1 ? 7 : 10;
        address = (uint8_t *)(value(c, base) + far);
        if (index != 4) stride = value(c, index) << (p[5] >> 6);
    }
    if (op == 0x49 && prefix == 0 && mod != 3)
        configure(address);
    else if (!configured)
        fail("tiles without a configuration");
    else if (op == 0x49 && prefix == 0)
        configured = 0; /* TILERELEASE */
    else if (op == 0x49 && prefix == 3)
        memset(tile[t], 0, 1024); /* TILEZERO */
    else if (op == 0x4b && prefix == 3) { /* TILELOADD */
        memset(tile[t], 0, 1024);
        for (int i = 0; i < rows[t]; i++) memcpy(tile[t][i], address + i * stride, width[t]);
    } else if (op == 0x4b && prefix == 2) /* TILESTORED */
        for (int i = 0; i < rows[t]; i++) memcpy(address + i * stride, tile[t][i], width[t]);
    else if (op == 0x5e && prefix == 3)
        multiply(t, p[4] & 7, third);
    else
        fail("an unknown instruction");
    c->uc_mcontext.gregs[REG_RIP] += length;
}

/* call calls a function of Go's that takes one argument on the stack. */
static void call(void *function, void *argument) {
    __asm__ volatile("sub $128, %%rsp\n\tpush %%rax\n\tcall *%%rcx\n\tadd $136, %%rsp"
                     : "+a"(argument), "+c"(function)
                     :
                     : "rbx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory", "cc",
                       "xmm0", "xmm1", "xmm2", "xmm3", "xmm4");
    if (configured) fail("tiles are not released");
}

static int random8(void) { return rand() % 255 - 127; }

static int dot(const int8_t *a, const int8_t *b, int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* pack puts columns into panels of 32, four bytes of the depth to a word. */
static uint8_t *pack(const int8_t *columns, int n, int depth) {
    uint8_t *out = calloc(n, depth);
    for (int j = 0; j < n; j++)
        for (int d = 0; d < depth; d++)
            out[4 * ((j / 32 * (depth / 4) + d / 4) * 32 + j % 32) + d % 4] = (uint8_t)columns[j * depth + d];
    return out;
}

static uint8_t *shapes(int quads, int rows_at, int columns_at) {
    static uint8_t c[64];
    memset(c, 0, sizeof c);
    c[0] = 1;
    for (int t = 0; t < 8; t++) {
        c[16 + 2 * t] = t >= rows_at && t < columns_at ? 4 * quads : 64;
        c[48 + t] = t >= columns_at ? quads : 16;
    }
    return c;
}

/* Int8Args and CellArgs are those of this package. */
typedef struct {
    const uint8_t *rows, *columns;
    long panels;
    int32_t *column_max, *stored, *row_max;
    long quads;
    void *start;
    uint8_t *shapes;
} Int8Args;

typedef struct {
    uint8_t *rows;
    long groups;
    const uint8_t *columns;
    long cells;
    int32_t *column_max, *top, *stored;
    long quads, stride;
    uint8_t *shapes;
} CellArgs;

static void compare(const char *what, const int32_t *got, const int32_t *want, int n, int quads) {
    for (int i = 0; i < n; i++)
        if (got[i] != want[i]) {
            fprintf(stderr, "%s %d, %d quads: %d, want %d\n", what, i, quads, got[i], want[i]);
            exit(1);
        }
}

static int8_t *bytes(int n) {
    int8_t *x = malloc(n);
    for (int i = 0; i < n; i++) x[i] = random8();
    return x;
}

static void strip(void *function, int both, int quads) {
    enum { panels = 3, n = 32 * panels, m = 32 };
    int depth = 4 * quads;
    int8_t *a = bytes(m * depth), *b = bytes(n * depth);
    int32_t column_max[n], row_max[m], want_columns[n], want_rows[m] = {0}, stored[512] __attribute__((aligned(64)));
    for (int j = 0; j < n; j++) {
        want_columns[j] = column_max[j] = rand() % 2 * 30000;
        for (int i = 0; i < m; i++) {
            int s = dot(a + i * depth, b + j * depth, depth);
            if (both && s > want_columns[j]) want_columns[j] = s;
            if (s > want_rows[i]) want_rows[i] = s;
        }
    }
    Int8Args p = {(uint8_t *)a, pack(b, n, depth), panels, column_max, stored, row_max, quads, 0, shapes(quads, 4, 6)};
    call(function, &p);
    compare("maximum of row", row_max, want_rows, m, quads);
    compare("maximum of column", column_max, want_columns, n, quads);
}

static void cells(void *function, int quads, int groups) {
    enum { count = 3, n = 64 * count };
    int depth = 4 * quads, stride = quads <= 8 ? 32 : 64, m = 16 * groups;
    int8_t *a = bytes(m * depth), *b = bytes(n * depth);
    uint8_t *memory = malloc(m * stride);
    int32_t stored[2 * 256] __attribute__((aligned(64)));
    memset(stored, 0x7f, sizeof stored); /* what an earlier call has left */
    for (int i = 0; i < m; i++) memcpy(memory + i * stride, a + i * depth, depth);
    int32_t column_max[n], want_columns[n], *top = calloc(count * (1 + groups), 4), *want = calloc(count * (1 + groups), 4);
    for (int j = 0; j < n; j++) {
        want_columns[j] = column_max[j] = rand() % 2 * 30000;
        for (int i = 0; i < m; i++) {
            int s = dot(a + i * depth, b + j * depth, depth);
            int32_t *t = &want[j / 64 * (1 + groups) + 1 + i / 16];
            if (s > want_columns[j]) want_columns[j] = s;
            if (s > *t) *t = s;
        }
    }
    CellArgs p = {memory, groups, pack(b, n, depth), count, column_max, top, stored, quads, stride, shapes(quads, 3, 4)};
    call(function, &p);
    for (int c = 0; c < count; c++) top[c * (1 + groups)] = 0; /* of no use */
    compare("cell", top, want, count * (1 + groups), quads);
    compare("maximum of column", column_max, want_columns, n, quads);
}

int main(int argc, char **argv) {
    if (argc != 5) fail("usage: tiles FILE OFFSET SIZE NAME");
    struct sigaction s = {.sa_sigaction = illegal, .sa_flags = SA_SIGINFO};
    long offset = atol(argv[2]), size = atol(argv[3]);
    FILE *f = fopen(argv[1], "rb");
    void *code = mmap(0, size, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (sigaction(SIGILL, &s, 0) || !f || fseek(f, offset, SEEK_SET) || code == MAP_FAILED ||
        fread(code, 1, size, f) != (size_t)size)
        fail("the code cannot be read");
    for (int quads = 1; quads <= 16; quads++) {
        if (!strcmp(argv[4], "stripAMX") || !strcmp(argv[4], "stripRowAMX"))
            strip(code, !strcmp(argv[4], "stripAMX"), quads);
        else
            for (int groups = 1; groups <= 13; groups += 4) cells(code, quads, groups);
    }
    if (!products) fail("no tile was multiplied");
    return 0;
}
