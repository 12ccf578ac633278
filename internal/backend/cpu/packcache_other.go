// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package cpu

import (
	"errors"
	"time"
)

// Without a shared mapping there is nothing to gain from the cache.
func mapPack(string, int) ([]byte, func(), error) { return nil, nil, errors.ErrUnsupported }

func lockPacks(string, time.Duration) (func(), error) { return nil, errors.ErrUnsupported }
