// SPDX-License-Identifier: Apache-2.0

package weights

import "encoding/binary"

// zip64 rewrites the directory of an archive with 64-bit sizes and offsets
// (APPNOTE.TXT 4.3.14, 4.5.3): each 32-bit field is all ones, the true value is in
// an extra field, and the end record points to a larger one before it.
func zip64(image []byte) []byte {
	le := binary.LittleEndian
	end := len(image) - 22 // archives of archive/zip have no comment
	start := int(le.Uint32(image[end+16:]))
	count := le.Uint16(image[end+10:])
	out := append([]byte{}, image[:start]...)
	for at := start; at < end; {
		name, extra := int(le.Uint16(image[at+28:])), int(le.Uint16(image[at+30:]))
		head := append([]byte{}, image[at:at+46+name+extra]...)
		wide := []byte{1, 0, 24, 0}
		for _, field := range []int{24, 20, 42} { // length, stored length, offset
			wide = le.AppendUint64(wide, uint64(le.Uint32(head[field:])))
			le.PutUint32(head[field:], 0xffffffff)
		}
		le.PutUint16(head[30:], uint16(extra+len(wide)))
		out = append(append(out, head...), wide...)
		at += 46 + name + extra
	}
	size := len(out) - start
	record := len(out)
	out = append(out, "PK\x06\x06"...)
	out = le.AppendUint64(out, 44)
	out = append(out, 45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	for _, v := range []uint64{uint64(count), uint64(count), uint64(size), uint64(start)} {
		out = le.AppendUint64(out, v)
	}
	out = append(out, "PK\x06\x07\x00\x00\x00\x00"...)
	out = le.AppendUint64(out, uint64(record))
	out = append(out, 1, 0, 0, 0)
	out = append(out, "PK\x05\x06\x00\x00\x00\x00"...)
	for range 12 {
		out = append(out, 0xff)
	}
	return append(out, 0, 0)
}
