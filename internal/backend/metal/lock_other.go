// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package metal

import (
	"errors"
	"os"
)

func lockFile(*os.File) error { return errors.ErrUnsupported }
