// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"math"
	"unsafe"
)

// readGo is Read in plain Go. A conversion to float32 keeps the compiler from
// fusing a product with a sum.
func readGo(p *readArgs) {
	n := 8 * p.blocks
	out, u, v := unsafe.Slice(p.out, n), unsafe.Slice(p.u, n), unsafe.Slice(p.v, n)
	for i := range out {
		fx, fy := p.g.at(u[i], v[i])
		ix, iy := int(fx), int(fy)
		fx, fy = fx-float32(ix), fy-float32(iy)
		at := unsafe.Add(unsafe.Pointer(p.pix), 4*(iy*p.stride+ix)) // Read has checked the corners
		a, b := (*[2]float32)(at), (*[2]float32)(unsafe.Add(at, 4*p.stride))
		up := a[0] + float32(fx*(a[1]-a[0]))
		down := b[0] + float32(fx*(b[1]-b[0]))
		out[i] = up + float32(fy*(down-up))
	}
}

func fitGo(p *fitArgs) {
	n := 8 * p.blocks
	now, weight, value := unsafe.Slice(p.now, n), unsafe.Slice(p.weight, n), unsafe.Slice(p.value, n)
	gx, gy := unsafe.Slice(p.gx, n), unsafe.Slice(p.gy, n)
	var sums [8]float32
	for i, x := range now {
		sums[i%8] += float32(weight[i] * x)
	}
	mean := added(sums)
	sums = [8]float32{}
	for i, x := range now {
		x -= mean
		sums[i%8] += float32(float32(weight[i]*x) * x)
	}
	p.mean, p.spread = mean, float32(math.Sqrt(float64(added(sums))))+spreadFloor
	scale := 1 / p.spread
	var bx, by, off [8]float32
	for i, x := range now {
		r := float32((x-mean)*scale) - value[i]
		bx[i%8] += float32(gx[i] * r)
		by[i%8] += float32(gy[i] * r)
		off[i%8] += float32(float32(weight[i]*r) * r)
	}
	p.bx, p.by, p.off = added(bx), added(by), added(off)
}

// spreadFloor keeps a flat patch from a division by 0.
const spreadFloor = 1e-3
