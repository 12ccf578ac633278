// SPDX-License-Identifier: Apache-2.0

package cpu

// SetProfile replaces Config.Profile, from the next run on; nil turns it off.
func (b *Backend) SetProfile(f func(Sample)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cfg.Profile = f
}
