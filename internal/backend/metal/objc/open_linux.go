// SPDX-License-Identifier: Apache-2.0

//go:build amd64 || arm64

package objc

import (
	"fmt"

	"github.com/ebitengine/purego"
)

// createDetached is PTHREAD_CREATE_DETACHED.
const createDetached = 1

// openRuntime opens the simulator: the same Go code then runs against a strict
// model of the Objective-C runtime, Metal and MPSGraph.
func openRuntime() (runtimeCalls, error) {
	if simulator == "" {
		return runtimeCalls{}, ErrUnavailable
	}
	h, err := purego.Dlopen(simulator, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return runtimeCalls{}, fmt.Errorf("objc: simulator: %w", err)
	}
	return resolve(h)
}
