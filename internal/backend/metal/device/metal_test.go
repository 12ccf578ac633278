// SPDX-License-Identifier: Apache-2.0

//go:build unix

package device_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/device"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/objc"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/metalsim"
	"golang.org/x/sys/unix"
)

// open gives a device and closes it at the end of the test.
func open(t *testing.T) (*device.Device, *metalsim.Sim) {
	t.Helper()
	s := metalsim.Open(t)
	d, err := device.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if n := d.LiveBuffers(); n != 0 {
			t.Errorf("%d buffers were not released", n)
		}
	})
	return d, s
}

func queue(t *testing.T, d *device.Device) *device.Queue {
	t.Helper()
	q, err := d.NewQueue()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Release)
	return q
}

func buffer(t *testing.T, d *device.Device, n int) *device.Buffer {
	t.Helper()
	b, err := d.NewBuffer(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Release)
	return b
}

// run encodes with f, commits and waits.
func run(t *testing.T, d *device.Device, q *device.Queue, f func(*device.CommandBuffer) error) error {
	t.Helper()
	var cb *device.CommandBuffer
	err := d.Do(func() error {
		var err error
		if cb, err = q.NewCommandBuffer("test"); err != nil {
			return err
		}
		if err := f(cb); err != nil {
			return err
		}
		return cb.Commit()
	})
	if err != nil {
		t.Fatal(err)
	}
	defer cb.Release()
	return cb.Wait()
}

func TestOpen(t *testing.T) {
	d, s := open(t)
	i := d.Info()
	if i.Name == "" || i.MaxBuffer == 0 || i.WorkingSet == 0 || i.RegistryID == 0 {
		t.Errorf("incomplete facts: %+v", i)
	}
	s.Set("os", "15.3.1")
	e, err := device.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if v := e.Info().System; v != (objc.OSVersion{Major: 15, Minor: 3, Patch: 1}) {
		t.Errorf("macOS %v", v)
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, c := range []struct {
		key, value string
		want       error
	}{
		{"os", "14.7", device.ErrOldSystem},
		{"no_device", "1", device.ErrNoDevice},
		{"unified", "0", device.ErrNoDevice},
	} {
		t.Run(c.key, func(t *testing.T) {
			s := metalsim.Open(t)
			s.Set(c.key, c.value)
			if _, err := device.Open(); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

func TestDo(t *testing.T) {
	d, _ := open(t)
	boom := errors.New("boom")
	if err := d.Do(func() error { return boom }); err != boom {
		t.Errorf("got %v", err)
	}
	func() {
		defer func() {
			if p, ok := recover().(*par.Panic); !ok || p.Value != "bang" {
				t.Errorf("the panic of a job did not reach its caller: %v", p)
			}
		}()
		_ = d.Do(func() error { panic("bang") })
	}()
	if err := d.Do(func() error { return nil }); err != nil {
		t.Errorf("after a panic: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if err := d.Do(func() error { return nil }); err != device.ErrClosed {
		t.Errorf("after Close: %v", err)
	}
	if _, err := d.NewBuffer(1); err != device.ErrClosed {
		t.Errorf("after Close: %v", err)
	}
}

func TestBuffers(t *testing.T) {
	d, s := open(t)
	b := buffer(t, d, 1000)
	if b.Len() != 1000 || len(b.Bytes()) != 1000 {
		t.Errorf("length %d", b.Len())
	}
	b.Bytes()[999] = 7
	b.Release()
	b.Release()
	for _, n := range []int{0, -1} {
		if _, err := d.NewBuffer(n); err == nil {
			t.Errorf("%d bytes passed", n)
		}
	}
	var ae *device.AllocError
	if _, err := d.NewBuffer(int(d.Info().MaxBuffer) + 1); !errors.As(err, &ae) || ae.Limit != d.Info().MaxBuffer || !errors.Is(err, device.ErrOutOfMemory) {
		t.Errorf("beyond the largest buffer: %v", err)
	}
	s.Set("fail_alloc", "1")
	if _, err := d.NewBuffer(64); !errors.Is(err, device.ErrOutOfMemory) {
		t.Errorf("a refused allocation: %v", err)
	}
	before := s.Counter("buffers_live")
	s.Set("fail_contents", "1")
	if _, err := d.NewBuffer(64); err == nil || !strings.Contains(err.Error(), "not visible") {
		t.Errorf("a buffer without memory for the host: %v", err)
	}
	if n := s.Counter("buffers_live") - before; n != 0 {
		t.Errorf("%d buffers without memory for the host were left", n)
	}
}

// mapped is a file of n bytes in memory.
func mapped(t *testing.T, n int) []byte {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i * 7)
	}
	if _, err := f.Write(data); err != nil {
		t.Fatal(err)
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, n, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	return mem
}

func TestBufferNoCopy(t *testing.T) {
	d, s := open(t)
	mem := mapped(t, 3*os.Getpagesize()+100) // not a multiple of the page
	before := s.Counter("bytes_buffer")
	b, err := d.NewBufferNoCopy(mem)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	if b.Len() != len(mem) || &b.Bytes()[0] != &mem[0] {
		t.Error("the buffer is not the mapping")
	}
	if after := s.Counter("bytes_buffer"); after != before {
		t.Errorf("%d bytes were allocated", after-before)
	}
	if _, err := d.NewBufferNoCopy(mem[1:]); err == nil || !strings.Contains(err.Error(), "aligned") {
		t.Errorf("misaligned memory: %v", err)
	}
	if _, err := d.NewBufferNoCopy(nil); err == nil {
		t.Error("empty memory passed")
	}
	s.Set("max_buffer", "4096")
	e, err := device.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if _, err := e.NewBufferNoCopy(mem); !errors.Is(err, device.ErrOutOfMemory) {
		t.Errorf("beyond the largest buffer: %v", err)
	}
}

func TestEvents(t *testing.T) {
	d, _ := open(t)
	encoder, decoder := queue(t, d), queue(t, d)
	e, err := d.NewEvent()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Release()
	if e.Wait(1, 10*time.Millisecond) {
		t.Error("the event was signalled by nobody")
	}
	// The waiting buffer is committed first, on another queue.
	var first, second *device.CommandBuffer
	err = d.Do(func() error {
		if second, err = decoder.NewCommandBuffer("second"); err != nil {
			return err
		}
		if err := second.WaitFor(e, 3); err != nil {
			return err
		}
		if err := second.Signal(e, 4); err != nil {
			return err
		}
		if err := second.Commit(); err != nil {
			return err
		}
		if first, err = encoder.NewCommandBuffer("first"); err != nil {
			return err
		}
		if err := first.Signal(e, 3); err != nil {
			return err
		}
		return first.Commit()
	})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Release()
	defer second.Release()
	if !e.Wait(4, 5*time.Second) || e.Value() != 4 {
		t.Errorf("value %d, want 4", e.Value())
	}
	for _, cb := range []*device.CommandBuffer{first, second} {
		if err := cb.Wait(); err != nil {
			t.Error(err)
		}
		if cb.GPUTime() < 0 {
			t.Errorf("GPU time %v", cb.GPUTime())
		}
		if cb.Commit() == nil || cb.Signal(e, 9) == nil || cb.WaitFor(e, 9) == nil {
			t.Error("a committed buffer took more work")
		}
	}
	e.Set(10)
	if e.Value() != 10 {
		t.Errorf("value %d, want 10", e.Value())
	}
}

func TestCommandErrors(t *testing.T) {
	d, s := open(t)
	q := queue(t, d)
	s.Set("fail_command", "1")
	err := run(t, d, q, func(*device.CommandBuffer) error { return nil })
	var ce *device.CommandError
	if !errors.As(err, &ce) || ce.Label != "test" || ce.Cause == nil || ce.Cause.Text == "" {
		t.Fatalf("got %v, want a CommandError with its cause", err)
	}
	if err := run(t, d, q, func(*device.CommandBuffer) error { return nil }); err != nil {
		t.Errorf("the queue is unusable after an error: %v", err)
	}
	var cb *device.CommandBuffer
	if err := d.Do(func() error { cb, err = q.NewCommandBuffer(""); return err }); err != nil {
		t.Fatal(err)
	}
	if cb.Wait() == nil {
		t.Error("waiting for an uncommitted buffer passed")
	}
	cb.Release()
	cb.Release()
	if cb.Commit() == nil {
		t.Error("a released buffer was committed")
	}
}

func TestCommandErrorKinds(t *testing.T) {
	const domain = "MTLCommandBufferErrorDomain"
	for _, c := range []struct {
		cause objc.Error
		want  error
	}{
		{objc.Error{Domain: domain, Code: 8, Text: "Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)"}, device.ErrOutOfMemory},
		{objc.Error{Domain: domain, Code: 1, Text: "Internal Error (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)"}, device.ErrOutOfMemory},
		{objc.Error{Domain: domain, Code: 2, Text: "Caused GPU Timeout Error"}, device.ErrTimeout},
		{objc.Error{Domain: domain, Code: 1, Text: "Impacting Interactivity (0000000e:kIOGPUCommandBufferCallbackErrorImpactingInteractivity)"}, device.ErrTimeout},
		{objc.Error{Domain: domain, Code: 1, Text: "Caused GPU Hang Error (00000003:kIOGPUCommandBufferCallbackErrorHang)"}, device.ErrTimeout},
		{objc.Error{Domain: domain, Code: 3, Text: "Page Fault"}, nil},
		{objc.Error{Domain: "Other", Code: 8, Text: "eight"}, nil},
	} {
		var err error = &device.CommandError{Label: "x", Status: 5, Cause: &c.cause}
		for _, kind := range []error{device.ErrOutOfMemory, device.ErrTimeout} {
			if got := errors.Is(err, kind); got != (kind == c.want) {
				t.Errorf("%v: is %v: %v", err, kind, got)
			}
		}
		if !strings.Contains(err.Error(), c.cause.Text) {
			t.Errorf("%v does not say why", err)
		}
	}
	if err := (&device.CommandError{Label: "x", Status: 5}); errors.Is(err, device.ErrTimeout) || !strings.Contains(err.Error(), "status 5") {
		t.Errorf("without a cause: %v", err)
	}
}
