// SPDX-License-Identifier: Apache-2.0
// Devices, buffers, command buffers, events, kernels.
#include "test.h"
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

static id dev(void)
{
	id d = MTLCreateSystemDefaultDevice();
	CHECK(d != NULL);
	return d;
}
static id buffer(id d, uint64_t n) { return M(id, (id, SEL, uint64_t, uint64_t), d, "newBufferWithLength:options:", n, (uint64_t)0); }
static float *contents(id b) { return M(float *, (id, SEL), b, "contents"); }
static id blit(id cb) { return M(id, (id, SEL), cb, "blitCommandEncoder"); }
static void end(id enc) { M(void, (id, SEL), enc, "endEncoding"); }
static void copy(id enc, id a, id b, uint64_t n)
{
	M(void, (id, SEL, id, uint64_t, id, uint64_t, uint64_t), enc, "copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:", a, (uint64_t)0, b, (uint64_t)0, n);
}

static void device(void)
{
	id d = dev(), e = dev();
	CHECK(d == e);
	objc_release(e);
	CHECK(!strcmp(M(const char *, (id, SEL), M(id, (id, SEL), d, "name"), "UTF8String"), "Apple Simulated GPU"));
	CHECK(M(bool, (id, SEL, int64_t), d, "supportsFamily:", (int64_t)1007) && !M(bool, (id, SEL, int64_t), d, "supportsFamily:", (int64_t)1009));
	CHECK(M(bool, (id, SEL), d, "hasUnifiedMemory"));
	Size s = ((Size(*)(id, SEL))send_stret)(d, sel_registerName("maxThreadsPerThreadgroup"));
	CHECK(s.w == 1024 && s.d == 1024);
	objc_release(d);
	metalsim_set("no_device", "1");
	CHECK(!MTLCreateSystemDefaultDevice());
}

static void buffers(void)
{
	id d = dev(), b = buffer(d, 100);
	CHECK(M(uint64_t, (id, SEL), b, "length") == 100 && contents(b)[0] == 0);
	CHECK(M(uint64_t, (id, SEL), d, "currentAllocatedSize") == 100);
	objc_release(b);
	CHECK(!buffer(d, 0));
	EXPECT("buffer-size");
	metalsim_set("max_buffer", "4096");
	CHECK(!buffer(d, 4097));
	EXPECT(NULL); // nil is the answer of the device, not a misuse
	metalsim_set("fail_alloc", "2");
	b = buffer(d, 64);
	CHECK(b && !buffer(d, 64));
	objc_release(b);
	metalsim_set("working_set", "1000");
	b = buffer(d, 2000);
	EXPECT("working-set");
	objc_release(b);
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	metalsim_defaults();
#define NOCOPY(p, n) M(id, (id, SEL, void *, uint64_t, uint64_t, void *), d, "newBufferWithBytesNoCopy:length:options:deallocator:", p, (uint64_t)(n), (uint64_t)0, NULL)
	b = NOCOPY(p, 2 * page);
	CHECK((char *)contents(b) == p && metalsim_counter("bytes_buffer") == 0);
	objc_release(b);
	CHECK(!NOCOPY(p + 8, page) && !M(id, (id, SEL), NULL, "x"));
	EXPECT("page-align");
	CHECK(!NOCOPY(p, page + 8));
	EXPECT("page-align");
	munmap(p + page, page);
	CHECK(!NOCOPY(p, 2 * page));
	EXPECT("bad-memory");
	munmap(p, page);
	objc_release(d);
}

static void commands(void)
{
	id d = dev(), q = M(id, (id, SEL), d, "newCommandQueue"), a = buffer(d, 4096), b = buffer(d, 4096);
	for (int i = 0; i < 1024; i++)
		contents(a)[i] = (float)i;
	id cb = M(id, (id, SEL), q, "commandBuffer"), enc = blit(cb);
	CHECK(M(uint64_t, (id, SEL), cb, "status") == 0);
	copy(enc, a, b, 4096);
	end(enc);
	M(void, (id, SEL), cb, "commit");
	M(void, (id, SEL), cb, "waitUntilCompleted");
	CHECK(M(uint64_t, (id, SEL), cb, "status") == 4 && !M(id, (id, SEL), cb, "error"));
	CHECK(contents(b)[1023] == 1023);
	CHECK(M(double, (id, SEL), cb, "GPUEndTime") > M(double, (id, SEL), cb, "GPUStartTime"));
	CHECK(metalsim_counter("command_buffers") == 1 && metalsim_counter("blits") == 1);
	objc_release(a);
	objc_release(b);
	objc_release(q);
	objc_release(d);
}

static void early_read(void)
{
	id d = dev(), q = M(id, (id, SEL), d, "newCommandQueue"), a = buffer(d, 4096), b = buffer(d, 4096);
	for (int round = 0; round < 2; round++) {
		id cb = M(id, (id, SEL), q, "commandBuffer"), enc = blit(cb);
		copy(enc, a, b, 4096);
		end(enc);
		M(void, (id, SEL), cb, "commit");
		usleep(20000); // done long ago, but the CPU does not know
		volatile float *p = round ? contents(b) : contents(a);
		CHECK(p[0] == 0);
		EXPECT(round ? "read-before-completion" : NULL); // inputs may be read
		if (!round)
			p[1] = 5; // but not written
		EXPECT(round ? NULL : "read-before-completion");
		M(void, (id, SEL), cb, "waitUntilCompleted");
		p[0] = 1;
		EXPECT(NULL);
		p[0] = 0;
	}
	objc_release(a);
	objc_release(b);
	objc_release(q);
	objc_release(d);
}

static void protocol_of_encoding(void)
{
	id d = dev(), q = M(id, (id, SEL), d, "newCommandQueue"), a = buffer(d, 64), b = buffer(d, 64);
	id cb = M(id, (id, SEL), q, "commandBuffer");
	M(void, (id, SEL), cb, "waitUntilCompleted");
	EXPECT("wait-before-commit");
	id enc = blit(cb);
	CHECK(!blit(cb));
	EXPECT("two-encoders");
	copy(enc, a, b, 65);
	EXPECT("range");
	end(enc);
	copy(enc, a, b, 64);
	EXPECT("encode-after-end");
	enc = blit(cb);
	M(void, (id, SEL), cb, "commit"); // endEncoding is missing
	EXPECT("encoder-open");
	end(enc);
	CHECK(!blit(cb));
	EXPECT("encode-after-commit");
	M(void, (id, SEL), cb, "commit");
	EXPECT("commit-twice");
	M(void, (id, SEL), cb, "waitUntilCompleted");
	void *p = objc_autoreleasePoolPush();
	blit(M(id, (id, SEL), q, "commandBuffer"));
	objc_autoreleasePoolPop(p);
	VIOLATED("encoder-open");
	id many[65];
	for (int i = 0; i < 65; i++)
		many[i] = M(id, (id, SEL), q, "commandBuffer");
	CHECK(many[63] && !many[64]); // 64 uncompleted buffers, then commandBuffer would block
	VIOLATED("too-many-command-buffers");
	objc_release(a);
	objc_release(b);
	objc_release(q);
	objc_release(d);
}

static void errors(void)
{
	id d = dev(), q = M(id, (id, SEL), d, "newCommandQueue"), a = buffer(d, 64), b = buffer(d, 64);
	metalsim_set("fail_command", "1");
	id cb = M(id, (id, SEL), q, "commandBuffer"), enc = blit(cb);
	copy(enc, a, b, 64);
	end(enc);
	M(void, (id, SEL), cb, "commit");
	M(void, (id, SEL), cb, "waitUntilCompleted");
	CHECK(M(uint64_t, (id, SEL), cb, "status") == 5 && isnan(contents(b)[0]));
	id e = M(id, (id, SEL), cb, "error");
	CHECK(M(int64_t, (id, SEL), e, "code") == 8);
	CHECK(strstr(M(const char *, (id, SEL), M(id, (id, SEL), e, "localizedDescription"), "UTF8String"), "Insufficient Memory"));
	objc_release(a);
	objc_release(b);
	objc_release(q);
	objc_release(d);
}

static void events(void)
{
	id d = dev(), q1 = M(id, (id, SEL), d, "newCommandQueue"), q2 = M(id, (id, SEL), d, "newCommandQueue");
	id ev = M(id, (id, SEL), d, "newSharedEvent"), a = buffer(d, 64), b = buffer(d, 64), c = buffer(d, 64);
	contents(a)[0] = 42;
	id first = M(id, (id, SEL), q1, "commandBuffer"), second = M(id, (id, SEL), q2, "commandBuffer");
	M(void, (id, SEL, id, uint64_t), second, "encodeWaitForEvent:value:", ev, (uint64_t)1);
	id enc = blit(second);
	copy(enc, b, c, 64);
	end(enc);
	M(void, (id, SEL, id, uint64_t), second, "encodeSignalEvent:value:", ev, (uint64_t)2);
	M(void, (id, SEL), second, "commit");
	CHECK(!M(bool, (id, SEL, uint64_t, uint64_t), ev, "waitUntilSignaledValue:timeoutMS:", (uint64_t)2, (uint64_t)20));
	enc = blit(first);
	copy(enc, a, b, 64);
	end(enc);
	M(void, (id, SEL, id, uint64_t), first, "encodeSignalEvent:value:", ev, (uint64_t)1);
	M(void, (id, SEL), first, "commit");
	CHECK(M(bool, (id, SEL, uint64_t, uint64_t), ev, "waitUntilSignaledValue:timeoutMS:", (uint64_t)2, (uint64_t)5000));
	CHECK(contents(c)[0] == 42 && contents(b)[0] == 42); // the event told the CPU of both
	CHECK(M(uint64_t, (id, SEL), ev, "signaledValue") == 2);
	EXPECT(NULL);
	M(void, (id, SEL), first, "waitUntilCompleted");
	M(void, (id, SEL), second, "waitUntilCompleted");
	id objs[] = {a, b, c, ev, q1, q2, d};
	for (int i = 0; i < 7; i++)
		objc_release(objs[i]);
}

static void race_between_queues(void)
{
	id d = dev(), q1 = M(id, (id, SEL), d, "newCommandQueue"), q2 = M(id, (id, SEL), d, "newCommandQueue");
	id a = buffer(d, 64), b = buffer(d, 64), c = buffer(d, 64);
	for (int waited = 0; waited < 2; waited++) {
		id first = M(id, (id, SEL), q1, "commandBuffer"), second = M(id, (id, SEL), q2, "commandBuffer");
		id enc = blit(first);
		copy(enc, a, b, 64);
		end(enc);
		M(void, (id, SEL), first, "commit");
		if (waited)
			M(void, (id, SEL), first, "waitUntilCompleted"); // the CPU orders them
		enc = blit(second);
		copy(enc, b, c, 64);
		end(enc);
		M(void, (id, SEL), second, "commit");
		M(void, (id, SEL), second, "waitUntilCompleted");
		M(void, (id, SEL), first, "waitUntilCompleted");
		EXPECT(waited ? NULL : "gpu-race");
	}
	id objs[] = {a, b, c, q1, q2, d};
	for (int i = 0; i < 6; i++)
		objc_release(objs[i]);
}

static const char *source = "#include <metal_stdlib>\n// kernel void not_this(\n"
	"kernel void normalize_u8(device const uchar *src [[buffer(0)]], device float *dst [[buffer(1)]],\n"
	"  constant float *table [[buffer(2)]], constant P &p [[buffer(3)]], uint gid [[thread_position_in_grid]]) { }\n";

static id library(id d, const char *src, id *err)
{
	return M(id, (id, SEL, id, id, id *), d, "newLibraryWithSource:options:error:", str(src), NULL, err);
}

static void kernels(void)
{
	id d = dev(), q = M(id, (id, SEL), d, "newCommandQueue"), err = NULL;
	CHECK(!library(d, "kernel void unknown_kernel(uint g [[thread_position_in_grid]]) {}", &err) && err);
	CHECK(!library(d, "kernel void normalize_u8(", &err) && err);
	metalsim_set("fail_compile", "1");
	CHECK(!library(d, source, &err) && err);
	id lib = library(d, source, &err), f = M(id, (id, SEL, id), lib, "newFunctionWithName:", str("normalize_u8"));
	CHECK(!M(id, (id, SEL, id), lib, "newFunctionWithName:", str("other")));
	id pipe = M(id, (id, SEL, id, id *), d, "newComputePipelineStateWithFunction:error:", f, &err);
	id src = buffer(d, 6), dst = buffer(d, 24);
	for (int i = 0; i < 6; i++)
		M(uint8_t *, (id, SEL), src, "contents")[i] = (uint8_t)i;
	float table[768];
	for (int i = 0; i < 768; i++)
		table[i] = (float)i / 2;
	uint32_t p[4] = {2, 1, 6, 1};
	id cb = M(id, (id, SEL), q, "commandBuffer"), enc = M(id, (id, SEL), cb, "computeCommandEncoder");
	M(void, (id, SEL, Size, Size), enc, "dispatchThreadgroups:threadsPerThreadgroup:", (Size){1, 1, 1}, (Size){32, 1, 1});
	EXPECT("dispatch"); // no pipeline
	M(void, (id, SEL, id), enc, "setComputePipelineState:", pipe);
	M(void, (id, SEL, id, uint64_t, uint64_t), enc, "setBuffer:offset:atIndex:", src, (uint64_t)0, (uint64_t)0);
	M(void, (id, SEL, id, uint64_t, uint64_t), enc, "setBuffer:offset:atIndex:", dst, (uint64_t)0, (uint64_t)1);
	M(void, (id, SEL, void *, uint64_t, uint64_t), enc, "setBytes:length:atIndex:", table, (uint64_t)sizeof table, (uint64_t)2);
	M(void, (id, SEL, Size, Size), enc, "dispatchThreadgroups:threadsPerThreadgroup:", (Size){1, 1, 1}, (Size){32, 1, 1});
	EXPECT("dispatch"); // nothing at index 3
	M(void, (id, SEL, void *, uint64_t, uint64_t), enc, "setBytes:length:atIndex:", p, (uint64_t)sizeof p, (uint64_t)3);
	M(void, (id, SEL, Size, Size), enc, "dispatchThreadgroups:threadsPerThreadgroup:", (Size){1, 1, 1}, (Size){32, 64, 1});
	EXPECT("dispatch"); // 2048 threads
	M(void, (id, SEL, Size, Size), enc, "dispatchThreadgroups:threadsPerThreadgroup:", (Size){1, 1, 1}, (Size){32, 1, 1});
	end(enc);
	M(void, (id, SEL), cb, "commit");
	M(void, (id, SEL), cb, "waitUntilCompleted");
	CHECK(contents(dst)[1] == 1.5f && contents(dst)[2] == 128.5f && metalsim_counter("dispatches") == 1);
	id objs[] = {src, dst, pipe, f, lib, q, d};
	for (int i = 0; i < 7; i++)
		objc_release(objs[i]);
}

static void mps_command_buffer(void)
{
	id d = dev(), q = M(id, (id, SEL), d, "newCommandQueue"), a = buffer(d, 64), b = buffer(d, 64);
	id m = M(id, (id, SEL, id), CLS("MPSCommandBuffer"), "commandBufferFromCommandQueue:", q);
	id root = M(id, (id, SEL), m, "rootCommandBuffer"), enc = blit(m);
	copy(enc, a, b, 64);
	end(enc);
	M(void, (id, SEL), m, "commitAndContinue");
	CHECK(M(id, (id, SEL), m, "rootCommandBuffer") != root);
	CHECK(!blit(root));
	EXPECT("encode-after-commit");
	M(void, (id, SEL), m, "commit");
	M(void, (id, SEL), m, "waitUntilCompleted");
	CHECK(M(uint64_t, (id, SEL), m, "status") == 4 && contents(b)[0] == 0);
	id objs[] = {a, b, q, d};
	for (int i = 0; i < 4; i++)
		objc_release(objs[i]);
}

const test metal_tests[] = {
	{"device", device}, {"buffers", buffers}, {"commands", commands}, {"early_read", early_read},
	{"protocol_of_encoding", protocol_of_encoding}, {"errors", errors}, {"race_between_queues", race_between_queues}, {"events", events}, {"kernels", kernels},
	{"mps_command_buffer", mps_command_buffer}, {NULL, NULL},
};
