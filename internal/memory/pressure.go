// SPDX-License-Identifier: Apache-2.0

//go:build !darwin

package memory

// Pressure says whether memory is short: low below a tenth of it, critical below a
// twentieth. These systems have no notice of their own that every process may read
// (Linux has pressure stall information only where the kernel was built with it), so
// that what is free decides. Unknown is not short.
func Pressure() (low, critical bool) {
	room, all := Now(), Total()
	if room.By == "" || all == 0 {
		return false, false
	}
	return short(room.Free, all)
}

func short(free, all uint64) (low, critical bool) { return free < all/10, free < all/20 }
