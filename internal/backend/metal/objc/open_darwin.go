// SPDX-License-Identifier: Apache-2.0

//go:build amd64 || arm64

package objc

import (
	"fmt"

	"github.com/ebitengine/purego"
)

// createDetached is PTHREAD_CREATE_DETACHED.
const createDetached = 2

// frameworks, in load order. Since macOS 11 these files exist only in the dyld
// shared cache: dlopen of the path works, stat does not. CoreGraphics must be
// there before Metal, or MTLCreateSystemDefaultDevice may return nil.
var frameworks = []string{
	"/usr/lib/libobjc.A.dylib",
	"/System/Library/Frameworks/Foundation.framework/Foundation",
	"/System/Library/Frameworks/CoreGraphics.framework/CoreGraphics",
	"/System/Library/Frameworks/Metal.framework/Metal",
	"/System/Library/Frameworks/MetalPerformanceShaders.framework/MetalPerformanceShaders",
	"/System/Library/Frameworks/MetalPerformanceShadersGraph.framework/MetalPerformanceShadersGraph",
}

func openRuntime() (runtimeCalls, error) {
	for _, f := range frameworks {
		if _, err := purego.Dlopen(f, purego.RTLD_GLOBAL|purego.RTLD_NOW); err != nil {
			return runtimeCalls{}, fmt.Errorf("objc: %w", err)
		}
	}
	return resolve(purego.RTLD_DEFAULT)
}
