// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package capi

import (
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
)

func TestTableRefusesWhatItDidNotGive(t *testing.T) {
	var tab table
	h := tab.add(kindJob, "a")
	for _, bad := range []uint64{0, 1, 2, h + 1, h + 1<<32, h | 1<<63, ^uint64(0)} {
		if v, err := tab.get("call", bad, kindJob); err == nil {
			t.Errorf("handle %#x reached %v", bad, v)
		}
	}
	if _, err := tab.get("call", h, kindTensor); err == nil || !strings.Contains(err.Error(), "a job, want a tensor") {
		t.Errorf("another kind: %v", err)
	}
	if v, err := tab.get("call", h, kindJob); err != nil || v != "a" {
		t.Errorf("get: %v, %v", v, err)
	}
}

func TestTableReusesSlotsWithNewHandles(t *testing.T) {
	var tab table
	old := tab.add(kindEngine, 1)
	if _, err := tab.remove("call", old, kindEngine); err != nil {
		t.Fatal(err)
	}
	fresh := tab.add(kindEngine, 2)
	if fresh == old || len(tab.slots) != 1 {
		t.Fatalf("old %#x, new %#x, %d slots", old, fresh, len(tab.slots))
	}
	if _, err := tab.remove("call", old, kindEngine); err == nil || !strings.Contains(err.Error(), "released") {
		t.Errorf("a released handle: %v", err)
	}
	if v, _ := tab.get("call", fresh, kindEngine); v != 2 {
		t.Errorf("the new handle reaches %v", v)
	}
}

// TestTableRetiresWornSlots: when a slot's generations are used up, old handles
// of it must not become valid again.
func TestTableRetiresWornSlots(t *testing.T) {
	var tab table
	first := tab.add(kindJob, 0)
	tab.slots[0].generation = ^uint32(0)
	last := uint64(^uint32(0))<<32 | 1
	if _, err := tab.remove("call", last, kindJob); err != nil {
		t.Fatal(err)
	}
	if h := tab.add(kindJob, 1); h == first || len(tab.slots) != 2 {
		t.Errorf("handle %#x from a worn slot", h)
	}
}

// TestTableAgainstMap runs random calls from several goroutines, each checking
// its own handles against a map.
func TestTableAgainstMap(t *testing.T) {
	var tab table
	var wg sync.WaitGroup
	for g := range uint64(4) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, g))
			mine := map[uint64]uint64{}
			for i := range uint64(5000) {
				if rng.IntN(2) == 0 {
					mine[tab.add(kindTensor, g<<32|i)] = g<<32 | i
					continue
				}
				for h, want := range mine {
					if v, err := tab.remove("call", h, kindTensor); err != nil || v != want {
						t.Errorf("handle %#x: %v, %v, want %d", h, v, err, want)
					}
					if _, err := tab.get("call", h, kindTensor); err == nil {
						t.Errorf("handle %#x lives on", h)
					}
					delete(mine, h)
					break
				}
			}
			for h := range mine {
				if _, err := tab.remove("call", h, kindTensor); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if tensors := tab.counts()[kindTensor]; tensors != 0 {
		t.Errorf("%d tensors alive", tensors)
	}
}
