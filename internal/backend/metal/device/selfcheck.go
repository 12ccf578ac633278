// SPDX-License-Identifier: Apache-2.0

package device

import "github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/objc"

// SelfCheck compares every declared selector with the running system (see
// objc.SelfCheck). Metal's interfaces are protocols; it makes an object of each
// that a GPU can give. Without a GPU the classes are checked and the protocols
// only where the system keeps their metadata.
func SelfCheck() (objc.Report, error) {
	if err := objc.Load(); err != nil {
		return objc.Report{}, err
	}
	var system objc.Version
	objc.WithPool(func() {
		v := objc.SystemVersion()
		system = objc.V(int(v.Major), int(v.Minor))
	})
	d, err := Open()
	if err != nil {
		return objc.SelfCheck(system, nil)
	}
	defer d.Close()
	var rep objc.Report
	err = d.Do(func() error {
		var own objc.Owner
		defer own.Release()
		rep, err = objc.SelfCheck(system, d.samples(&own))
		return err
	})
	return rep, err
}

// samples makes one object per protocol; those that cannot be made are left out.
func (d *Device) samples(own *objc.Owner) map[string]objc.ID {
	s := map[string]objc.ID{
		"MTLDevice":       d.id,
		"MTLCommandQueue": own.Own(newCommandQueue.Send(d.id)),
		"MTLBuffer":       own.Own(newBufferWithLength.Send(d.id, 16, storageShared)),
		"MTLSharedEvent":  own.Own(newSharedEvent.Send(d.id)),
	}
	if q := s["MTLCommandQueue"]; q != 0 {
		s["MTLCommandBuffer"] = rootCommandBuffer.Send(commandBufferFromQueue.Send(mpsCommandBuffer.ID, q))
	}
	return s
}
