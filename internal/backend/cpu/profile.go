// SPDX-License-Identifier: Apache-2.0

package cpu

import "github.com/mast3r-runtime/mast3r-runtime/internal/backend"

// SetProfile replaces Config.Profile, from the next run on; nil turns it off.
func (b *Backend) SetProfile(f func(backend.Sample)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cfg.Profile = f
}
