// SPDX-License-Identifier: Apache-2.0

package selfcheck

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
)

// Env names the environment variable that turns the comparison at opening off
// when it is "off".
const Env = "MAST3R_SELFCHECK"

// passed are the devices that have agreed in this process. One that did not is
// asked again: an allocation can fail once.
var passed struct {
	sync.Mutex
	devices map[string]bool
}

// Once runs Network, and attention at the published network's size, on a device
// that is being opened, once in a process for each
// device, system, precision and variant of the device's settings, and returns the
// check's error. open makes the reference, which Once closes. Nothing is compared
// where Env says so.
func Once(dev backend.Backend, open func() (backend.Backend, error), p backend.Precision, variant string) (err error) {
	if os.Getenv(Env) == "off" {
		return nil
	}
	passed.Lock()
	defer passed.Unlock()
	d := dev.Device()
	key := fmt.Sprintf("%s|%s|%v|%s", d.Name, d.OS, p, variant)
	if passed.devices[key] {
		return nil
	}
	ref, err := open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ref.Close()) }()
	defer dev.Trim()
	check := Network(context.Background(), dev, ref, p)
	if check.Err == nil {
		check = networkAttention.check(context.Background(), dev, ref, p)
	}
	if check.Err != nil {
		return check.Err
	}
	if passed.devices == nil {
		passed.devices = map[string]bool{}
	}
	passed.devices[key] = true
	return nil
}
