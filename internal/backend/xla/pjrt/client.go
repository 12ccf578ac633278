// SPDX-License-Identifier: Apache-2.0

package pjrt

import (
	"fmt"
	"runtime"
	"slices"
	"unsafe"
)

// Client is a plugin's devices. Its methods may be called from any goroutine.
type Client struct {
	p       *Plugin
	handle  uintptr
	devices []*Device
	// Platform is "cuda" or "cpu", PlatformVersion says more.
	Platform, PlatformVersion string
}

// Device is one of a client's devices.
type Device struct {
	c      *Client
	handle uintptr
	// Kind is the device's name, Attributes what else the plugin says of it.
	Kind       string
	Attributes map[string]any
	// HardwareID is the number that the system gives the device.
	HardwareID int
}

// NewClient opens the devices. Options are strings, int64, []int64, float32
// or bool.
func (p *Plugin) NewClient(options map[string]any) (*Client, error) {
	names := make([]string, 0, len(options))
	for name := range options {
		names = append(names, name)
	}
	slices.Sort(names)
	values := make([]namedValue, len(names))
	var pin runtime.Pinner
	defer pin.Unpin()
	for i, name := range names {
		if err := values[i].set(&pin, name, options[name]); err != nil {
			return nil, err
		}
	}
	args := &clientCreateArgs{options: unsafe.Pointer(unsafe.SliceData(values)), count: uintptr(len(values))}
	err := call(p, clientCreate, args)
	runtime.KeepAlive(values)
	if err != nil {
		return nil, fmt.Errorf("pjrt: open the devices: %w", err)
	}
	c := &Client{p: p, handle: args.client}
	if err := c.describe(); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// set fills in a named value; what it points to is pinned.
func (v *namedValue) set(pin *runtime.Pinner, name string, value any) error {
	chars := func(s string) (*byte, uintptr) {
		b := append([]byte(s), 0)
		pin.Pin(&b[0])
		return &b[0], uintptr(len(s))
	}
	v.size = unsafe.Sizeof(*v)
	v.name, v.length = chars(name)
	v.count = 1
	switch x := value.(type) {
	case string:
		p, n := chars(x)
		v.kind, v.value, v.count = kindString, uint64(uintptr(unsafe.Pointer(p))), n
	case int64:
		v.kind, v.value = kindInt64, uint64(x)
	case []int64:
		list := slices.Clone(x)
		if len(list) > 0 {
			pin.Pin(&list[0])
		}
		v.kind, v.value, v.count = kindInt64List, uint64(uintptr(unsafe.Pointer(unsafe.SliceData(list)))), uintptr(len(list))
	case float32:
		v.kind = kindFloat
		*(*float32)(unsafe.Pointer(&v.value)) = x
	case bool:
		v.kind = kindBool
		*(*bool)(unsafe.Pointer(&v.value)) = x
	default:
		return fmt.Errorf("pjrt: option %s is a %T, want string, int64, []int64, float32 or bool", name, value)
	}
	return nil
}

// describe reads names and devices.
func (c *Client) describe() error {
	name, version := &clientTextArgs{client: c.handle}, &clientTextArgs{client: c.handle}
	if err := call(c.p, clientPlatformName, name); err != nil {
		return fmt.Errorf("pjrt: platform: %w", err)
	}
	if err := call(c.p, clientPlatformVersion, version); err != nil {
		return fmt.Errorf("pjrt: platform: %w", err)
	}
	c.Platform, c.PlatformVersion = text(name.text, name.length), text(version.text, version.length)
	list := &clientDevicesArgs{client: c.handle}
	if err := call(c.p, clientAddressableDevices, list); err != nil {
		return fmt.Errorf("pjrt: devices: %w", err)
	}
	for _, h := range unsafe.Slice(list.devices, list.count) {
		d := &Device{c: c, handle: h}
		if err := d.describe(); err != nil {
			return fmt.Errorf("pjrt: device: %w", err)
		}
		c.devices = append(c.devices, d)
	}
	return nil
}

func (d *Device) describe() error {
	p := d.c.p
	desc := &deviceDescriptionArgs{device: d.handle}
	if err := call(p, deviceGetDescription, desc); err != nil {
		return err
	}
	kind := &deviceKindArgs{description: desc.description}
	if err := call(p, deviceDescriptionKind, kind); err != nil {
		return err
	}
	d.Kind = text(kind.kind, kind.length)
	attrs := &deviceAttributesArgs{description: desc.description}
	if err := call(p, deviceDescriptionAttributes, attrs); err != nil {
		return err
	}
	d.Attributes = readValues(attrs.attributes, attrs.count)
	id := &deviceHardwareArgs{device: d.handle}
	if err := call(p, deviceLocalHardwareID, id); err != nil {
		return err
	}
	d.HardwareID = int(id.id)
	return nil
}

// Platform is the device's kind of hardware, "cuda" or "cpu".
func (d *Device) Platform() string { return d.c.Platform }

// Client is the client that the device belongs to.
func (d *Device) Client() *Client { return d.c }

// Plugin is the client's plugin.
func (c *Client) Plugin() *Plugin { return c.p }

// Devices are those that this process can use.
func (c *Client) Devices() []*Device { return c.devices }

// Close frees the client; its buffers and executables must be gone.
func (c *Client) Close() error {
	if c.handle == 0 {
		return nil
	}
	err := call(c.p, clientDestroy, &clientArgs{client: c.handle})
	c.handle = 0
	return err
}

// Memory are the books of a device's allocator; 0 where it does not say.
type Memory struct{ InUse, Peak, Limit int64 }

// Memory asks for the books.
func (d *Device) Memory() (Memory, error) {
	args := &memoryStatsArgs{device: d.handle}
	if err := call(d.c.p, deviceMemoryStats, args); err != nil {
		return Memory{}, err
	}
	m := Memory{InUse: args.bytesInUse}
	if o := args.optional[statPeak]; o.set {
		m.Peak = o.value
	}
	if o := args.optional[statLimit]; o.set {
		m.Limit = o.value
	}
	return m, nil
}
