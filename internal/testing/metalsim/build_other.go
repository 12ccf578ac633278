// SPDX-License-Identifier: Apache-2.0

//go:build !(linux && (amd64 || arm64))

package metalsim

import "fmt"

func build() (string, error) { return "", fmt.Errorf("%w: it runs on Linux only", errNoTools) }
