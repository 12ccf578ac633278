// SPDX-License-Identifier: Apache-2.0

//go:build !(linux && (amd64 || arm64))

package metalsim

import "errors"

func build() (string, error) { return "", errors.New("the simulator runs on Linux only") }
