// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package capi

import (
	"testing"
	"time"
)

func TestBriefIsWhatTookLittleTheLastTime(t *testing.T) {
	var d durations
	pair := likeness{call: "infer", h1: 32, w1: 32, h2: 32, w2: 48, options: [2]int{1, 2}}
	other := pair
	other.options = [2]int{1, 3}
	if d.is(pair) {
		t.Error("a job that never ran is brief")
	}
	d.note(pair, time.Millisecond)
	if !d.is(pair) {
		t.Error("a job that took 1 ms is not brief")
	}
	if d.is(other) {
		t.Error("a job with other options is brief")
	}
	d.note(pair, brief)
	if d.is(pair) {
		t.Errorf("a job that took %v is brief", brief)
	}
	d.note(pair, 0)
	d.forget()
	if d.is(pair) {
		t.Error("a job is brief after its time was forgotten")
	}
}

// TestNothingLikeNothing: jobs that say no sizes are never done by their caller.
func TestNothingLikeNothing(t *testing.T) {
	var d durations
	d.note(likeness{call: "load"}, 0)
	if d.is(likeness{call: "load"}) {
		t.Error("jobs of unknown sizes are brief")
	}
}

func TestDurationsAreBounded(t *testing.T) {
	var d durations
	for i := range 10 * maxLikenesses {
		d.note(likeness{h1: i + 1}, 0)
	}
	if n := len(d.took); n > maxLikenesses {
		t.Errorf("%d times kept, want at most %d", n, maxLikenesses)
	}
	if !d.is(likeness{h1: 10 * maxLikenesses}) {
		t.Error("the newest time is gone")
	}
}
