// SPDX-License-Identifier: Apache-2.0

package gomps

import (
	"context"
	"errors"
	"fmt"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/device"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/open"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/selfcheck"
)

// CheckReport is what SelfCheck found.
type CheckReport struct {
	// Metal says whether there is a GPU to check; Reason says why not.
	Metal  bool   `json:"metal"`
	Reason string `json:"reason,omitempty"`
	Device string `json:"device,omitempty"`
	OS     string `json:"os,omitempty"`
	// Build is the operating system's; SDK is the one that the program was linked with,
	// by which Apple's code behaves; Family is Apple's of the GPU, 7 the M1.
	Build  string `json:"build,omitempty"`
	SDK    string `json:"sdk,omitempty"`
	Family int    `json:"family,omitempty"`
	// Checks are what was looked at, in order.
	Checks []CheckResult `json:"checks"`
}

// CheckResult is one thing that was looked at.
type CheckResult struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// OK reports whether everything that was looked at is right.
func (r *CheckReport) OK() bool {
	for _, c := range r.Checks {
		if !c.OK {
			return false
		}
	}
	return true
}

// SelfCheck compares this machine's Metal with what the engine believes of it:
// every Objective-C method that it sends, by the runtime's own type encoding
// (which needs no GPU), then the network's operations and a whole small network
// against the CPU in float32 and in half precision. Without Metal there is
// nothing to check and the report says so. Errors are those of a cancelled ctx;
// what fails to run is a check that failed.
func SelfCheck(ctx context.Context) (*CheckReport, error) {
	r := &CheckReport{Checks: []CheckResult{}}
	rep, err := device.SelfCheck()
	if err != nil {
		r.Reason = err.Error()
		return r, nil
	}
	c := CheckResult{Name: "methods", OK: len(rep.Mismatches) == 0,
		Detail: fmt.Sprintf("%d of %d agree with this system, %d cannot be asked", rep.Checked-len(rep.Mismatches), rep.Checked, len(rep.Unchecked))}
	if !c.OK {
		c.Detail += ": " + rep.Mismatches[0].Error()
	}
	r.Checks = append(r.Checks, c)
	if err := r.devices(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

// leastStack is what a compiler gets by on; threads of a library on macOS have 512
// KiB by default.
const leastStack = 8 << 20

// devices compares the GPU with the CPU.
func (r *CheckReport) devices(ctx context.Context) (err error) {
	gpu, err := open.Metal(open.Config{})
	if setting := (*open.SettingError)(nil); errors.As(err, &setting) {
		return openError(err)
	}
	if err != nil {
		r.Reason = err.Error()
		return nil
	}
	defer func() { err = errors.Join(err, gpu.Close()) }()
	ref, err := open.CPU(open.Config{})
	if err != nil {
		return openError(err)
	}
	defer ref.Close()
	d := gpu.Device()
	r.Metal, r.Device, r.OS, r.Build, r.SDK, r.Family = true, d.Name, d.OS, d.Build, d.SDK, d.Family
	r.Checks = append(r.Checks, CheckResult{Name: "stack", OK: d.Stack >= leastStack,
		Detail: fmt.Sprintf("%d MB for the thread that compiles (at least %d)", d.Stack>>20, leastStack>>20)})
	for _, p := range []backend.Precision{backend.FP32, backend.FP16} {
		for _, c := range append(selfcheck.Operations(ctx, gpu, ref, p), selfcheck.Network(ctx, gpu, ref, p)) {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("gomps: self-check: %w", err)
			}
			out := CheckResult{Name: fmt.Sprintf("%v %s", p, c.Name), OK: c.Err == nil,
				Detail: fmt.Sprintf("relative L2 %.1e (limit %.0e)", c.Worst, c.Limit)}
			if c.Err != nil && !errors.Is(c.Err, selfcheck.ErrDisagree) {
				out.Detail = c.Err.Error()
			}
			r.Checks = append(r.Checks, out)
		}
	}
	return nil
}
