// SPDX-License-Identifier: Apache-2.0

package stablehlo

import (
	"fmt"
	"strings"
)

// kernel is a program in Triton's dialect of MLIR, which XLA's compiler for
// NVIDIA's GPUs takes in a custom call.
type kernel struct {
	name string
	// args are the element types of what it reads, then of what it writes.
	args  []string
	warps int
	grid  [2]int
	body  string
}

// text is the kernel as a module.
func (k kernel) text() string {
	params := make([]string, len(k.args))
	for i, t := range k.args {
		params[i] = fmt.Sprintf("%%p%d: !tt.ptr<%s> {tt.divisibility = 16 : i32}", i, t)
	}
	return fmt.Sprintf("module {\n  tt.func public @%s(%s) attributes {noinline = false} {\n%s    tt.return\n  }\n}\n",
		k.name, strings.Join(params, ", "), k.body)
}

// call has XLA run a kernel; results are written as a whole.
func (w *writer) call(k kernel, in []value, out ...value) []value {
	escaped := strings.NewReplacer("\\", "\\5C", "\n", "\\0A", `"`, "\\22").Replace(k.text())
	var names, types []string
	for _, x := range in {
		names, types = append(names, x.name), append(types, x.typ())
	}
	results := make([]string, len(out))
	name := fmt.Sprintf("%%%d", w.fresh)
	w.fresh++
	for i := range out {
		results[i] = out[i].typ()
		out[i].name = fmt.Sprintf("%s#%d", name, i)
	}
	fmt.Fprintf(&w.body, "    %s:%d = stablehlo.custom_call @__gpu$xla.gpu.triton(%s) {api_version = 4 : i32, backend_config = {name = \"%s\", ir = \"%s\", "+
		"num_stages = 3 : i32, num_warps = %d : i32, grid_x = %d : i32, grid_y = %d : i32, grid_z = 1 : i32, debug = false}, "+
		"operand_layouts = [%s], result_layouts = [%s]} : (%s) -> (%s)\n",
		name, len(out), strings.Join(names, ", "), k.name, escaped, k.warps, k.grid[0], k.grid[1], rowMajor(in), rowMajor(out),
		strings.Join(types, ", "), strings.Join(results, ", "))
	return out
}

// rowMajor are the layouts of values as a C program has them.
func rowMajor(list []value) string {
	parts := make([]string, len(list))
	for i, v := range list {
		r := len(v.shape)
		order := make([]int, r)
		for k := range order {
			order[k] = r - 1 - k
		}
		parts[i] = fmt.Sprintf("dense<%s> : tensor<%dxindex>", ints(order), r)
		if r == 0 {
			parts[i] = "dense<> : tensor<0xindex>"
		}
	}
	return strings.Join(parts, ", ")
}

// maximaKernel is the pass over all pairs of descriptors, rounded to half
// precision: of each of its tiles of rows the maxima of the rows, and of step
// tiles below each other the maxima of the columns.
//
//	reads a [rows,deep], b [cols,deep]; writes [cols/wide,rows], [rows/(high*step),cols]
func maximaKernel(rows, cols, deep int) kernel {
	tile := fmt.Sprintf("%dx%d", matchHigh, matchWide)
	r := strings.NewReplacer("ROWS", fmt.Sprint(rows), "COLS", fmt.Sprint(cols), "DEEP", fmt.Sprint(deep),
		"HIGH", fmt.Sprint(matchHigh), "WIDE", fmt.Sprint(matchWide), "STEP", fmt.Sprint(matchStep), "TILE", tile)
	return kernel{name: "maxima", args: []string{"f16", "f16", "f32", "f32"}, warps: matchWarps,
		grid: [2]int{cols / matchWide, rows / (matchHigh * matchStep)}, body: r.Replace(maximaBody)}
}

const maximaBody = `    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %step = arith.constant STEP : i32
    %high = arith.constant HIGH : i32
    %wide = arith.constant WIDE : i32
    %allrows = arith.constant ROWS : i32
    %allcols = arith.constant COLS : i32
    %zero = arith.constant dense<0.000000e+00> : tensor<TILExf32>
    %none = arith.constant dense<0xFF800000> : tensor<TILExf32>
    %deepa = arith.constant dense<DEEP> : tensor<HIGHx1xi32>
    %deepb = arith.constant dense<DEEP> : tensor<1xWIDExi32>
    %j = tt.get_program_id x : i32
    %g = tt.get_program_id y : i32
    %k = tt.make_range {end = DEEP : i32, start = 0 : i32} : tensor<DEEPxi32>
    %x = tt.make_range {end = WIDE : i32, start = 0 : i32} : tensor<WIDExi32>
    %y = tt.make_range {end = HIGH : i32, start = 0 : i32} : tensor<HIGHxi32>
    %ka = tt.expand_dims %k {axis = 0 : i32} : tensor<DEEPxi32> -> tensor<1xDEEPxi32>
    %kka = tt.broadcast %ka : tensor<1xDEEPxi32> -> tensor<HIGHxDEEPxi32>
    %kb = tt.expand_dims %k {axis = 1 : i32} : tensor<DEEPxi32> -> tensor<DEEPx1xi32>
    %kkb = tt.broadcast %kb : tensor<DEEPx1xi32> -> tensor<DEEPxWIDExi32>
    %x0 = arith.muli %j, %wide : i32
    %x1 = tt.splat %x0 : i32 -> tensor<WIDExi32>
    %cols = arith.addi %x1, %x : tensor<WIDExi32>
    %xb = tt.expand_dims %cols {axis = 0 : i32} : tensor<WIDExi32> -> tensor<1xWIDExi32>
    %xbk = arith.muli %xb, %deepb : tensor<1xWIDExi32>
    %xbb = tt.broadcast %xbk : tensor<1xWIDExi32> -> tensor<DEEPxWIDExi32>
    %offb = arith.addi %xbb, %kkb : tensor<DEEPxWIDExi32>
    %pb = tt.splat %p1 : !tt.ptr<f16> -> tensor<DEEPxWIDEx!tt.ptr<f16>>
    %pbb = tt.addptr %pb, %offb : tensor<DEEPxWIDEx!tt.ptr<f16>>, tensor<DEEPxWIDExi32>
    %b = tt.load %pbb : tensor<DEEPxWIDEx!tt.ptr<f16>>
    %first = arith.muli %g, %step : i32
    %out1 = arith.muli %j, %allrows : i32
    %prow = tt.addptr %p2, %out1 : !tt.ptr<f32>, i32
    %prows = tt.splat %prow : !tt.ptr<f32> -> tensor<HIGHx!tt.ptr<f32>>
    %pa = tt.splat %p0 : !tt.ptr<f16> -> tensor<HIGHxDEEPx!tt.ptr<f16>>
    %top = scf.for %i = %c0 to %step step %c1 iter_args(%t = %none) -> (tensor<TILExf32>) : i32 {
      %y0 = arith.addi %first, %i : i32
      %y1 = arith.muli %y0, %high : i32
      %y2 = tt.splat %y1 : i32 -> tensor<HIGHxi32>
      %rows = arith.addi %y2, %y : tensor<HIGHxi32>
      %ya = tt.expand_dims %rows {axis = 1 : i32} : tensor<HIGHxi32> -> tensor<HIGHx1xi32>
      %yak = arith.muli %ya, %deepa : tensor<HIGHx1xi32>
      %yaa = tt.broadcast %yak : tensor<HIGHx1xi32> -> tensor<HIGHxDEEPxi32>
      %offa = arith.addi %yaa, %kka : tensor<HIGHxDEEPxi32>
      %paa = tt.addptr %pa, %offa : tensor<HIGHxDEEPx!tt.ptr<f16>>, tensor<HIGHxDEEPxi32>
      %a = tt.load %paa : tensor<HIGHxDEEPx!tt.ptr<f16>>
      %s = tt.dot %a, %b, %zero : tensor<HIGHxDEEPxf16> * tensor<DEEPxWIDExf16> -> tensor<TILExf32>
      %m = "tt.reduce"(%s) <{axis = 1 : i32}> ({
      ^bb0(%u: f32, %v: f32):
        %w = arith.maxnumf %u, %v : f32
        tt.reduce.return %w : f32
      }) : (tensor<TILExf32>) -> tensor<HIGHxf32>
      %pm = tt.addptr %prows, %rows : tensor<HIGHx!tt.ptr<f32>>, tensor<HIGHxi32>
      tt.store %pm, %m : tensor<HIGHx!tt.ptr<f32>>
      %n = arith.maxnumf %t, %s : tensor<TILExf32>
      scf.yield %n : tensor<TILExf32>
    }
    %mc = "tt.reduce"(%top) <{axis = 0 : i32}> ({
    ^bb0(%u: f32, %v: f32):
      %w = arith.maxnumf %u, %v : f32
      tt.reduce.return %w : f32
    }) : (tensor<TILExf32>) -> tensor<WIDExf32>
    %out2 = arith.muli %g, %allcols : i32
    %pcol = tt.addptr %p3, %out2 : !tt.ptr<f32>, i32
    %pcols = tt.splat %pcol : !tt.ptr<f32> -> tensor<WIDEx!tt.ptr<f32>>
    %pmc = tt.addptr %pcols, %cols : tensor<WIDEx!tt.ptr<f32>>, tensor<WIDExi32>
    tt.store %pmc, %mc : tensor<WIDEx!tt.ptr<f32>>
`

// settleKernel finds the exact neighbours, a program for each query: of the strips of wide candidates whose
// maximum reaches the query's best one less the slack it computes all scores, as
// fused multiply-adds in the order of the components.
//
//	reads queries [n,dim], penalty of the queries [n], candidates [dim,m],
//	penalty of the candidates [m], maxima [m/wide,n], slack [n]; writes [n] numbers, [n] scores
func settleKernel(n, m, dim, wide int) kernel {
	strips := m / wide
	all := 1
	for all < strips {
		all *= 2
	}
	var dot strings.Builder
	last := "%acc"
	for k := range dim {
		fmt.Fprintf(&dot, `      %%ok%[1]d = arith.constant %[1]d : i32
      %%pq%[1]d = tt.addptr %%pq, %%ok%[1]d : !tt.ptr<f32>, i32
      %%q%[1]d = tt.load %%pq%[1]d : !tt.ptr<f32>
      %%qs%[1]d = tt.splat %%q%[1]d : f32 -> tensor<WIDExf32>
      %%ob%[1]d = arith.constant dense<%[2]d> : tensor<WIDExi32>
      %%pb%[1]d = tt.addptr %%pb, %%ob%[1]d : tensor<WIDEx!tt.ptr<f32>>, tensor<WIDExi32>
      %%b%[1]d = tt.load %%pb%[1]d : tensor<WIDEx!tt.ptr<f32>>
      %%s%[1]d = math.fma %%qs%[1]d, %%b%[1]d, %[3]s : tensor<WIDExf32>
`, k, k*m, last)
		last = fmt.Sprintf("%%s%d", k)
	}
	r := strings.NewReplacer("COUNT", fmt.Sprint(n), "OTHER", fmt.Sprint(m), "DIM", fmt.Sprint(dim),
		"WIDE", fmt.Sprint(wide), "STRIPS", fmt.Sprint(strips), "ALL", fmt.Sprint(all), "SCORES", last)
	body := strings.Replace(settleBody, "DOT\n", dot.String(), 1)
	return kernel{name: fmt.Sprintf("settle_%d", wide), args: []string{"f32", "f32", "f32", "f32", "f32", "f32", "i32", "f32"}, warps: settleWarps,
		grid: [2]int{n, 1}, body: r.Replace(body)}
}

const settleBody = `    %c0 = arith.constant 0 : i32
    %dim = arith.constant DIM : i32
    %wide = arith.constant WIDE : i32
    %strips = arith.constant STRIPS : i32
    %all = arith.constant ALL : i32
    %zero = arith.constant 0.000000e+00 : f32
    %lowest = arith.constant 0xFF800000 : f32
    %stripsv = arith.constant dense<STRIPS> : tensor<ALLxi32>
    %allv = arith.constant dense<ALL> : tensor<ALLxi32>
    %countv = arith.constant dense<COUNT> : tensor<ALLxi32>
    %lowestv = arith.constant dense<0xFF800000> : tensor<ALLxf32>
    %otherv = arith.constant dense<OTHER> : tensor<WIDExi32>
    %row = tt.get_program_id x : i32
    %st = tt.make_range {end = ALL : i32, start = 0 : i32} : tensor<ALLxi32>
    %inside = arith.cmpi slt, %st, %stripsv : tensor<ALLxi32>
    %stn = arith.muli %st, %countv : tensor<ALLxi32>
    %ptable = tt.splat %p4 : !tt.ptr<f32> -> tensor<ALLx!tt.ptr<f32>>
    %ptab = tt.addptr %ptable, %stn : tensor<ALLx!tt.ptr<f32>>, tensor<ALLxi32>
    %x = tt.make_range {end = WIDE : i32, start = 0 : i32} : tensor<WIDExi32>
    %pcand = tt.splat %p2 : !tt.ptr<f32> -> tensor<WIDEx!tt.ptr<f32>>
    %ppen = tt.splat %p3 : !tt.ptr<f32> -> tensor<WIDEx!tt.ptr<f32>>
    %rowv = tt.splat %row : i32 -> tensor<ALLxi32>
    %pm = tt.addptr %ptab, %rowv : tensor<ALLx!tt.ptr<f32>>, tensor<ALLxi32>
    %m = tt.load %pm, %inside, %lowestv : tensor<ALLx!tt.ptr<f32>>
    %top = "tt.reduce"(%m) <{axis = 0 : i32}> ({
    ^bb0(%u: f32, %v: f32):
      %w = arith.maxnumf %u, %v : f32
      tt.reduce.return %w : f32
    }) : (tensor<ALLxf32>) -> f32
    %pslack = tt.addptr %p5, %row : !tt.ptr<f32>, i32
    %slack = tt.load %pslack : !tt.ptr<f32>
    %floor = arith.subf %top, %slack : f32
    %floorv = tt.splat %floor : f32 -> tensor<ALLxf32>
    %alive = arith.cmpf oge, %m, %floorv : tensor<ALLxf32>
    %which = arith.select %alive, %st, %allv : tensor<ALLxi1>, tensor<ALLxi32>
    %lead = "tt.reduce"(%which) <{axis = 0 : i32}> ({
    ^bb0(%u: i32, %v: i32):
      %w = arith.minsi %u, %v : i32
      tt.reduce.return %w : i32
    }) : (tensor<ALLxi32>) -> i32
    %ppq = tt.addptr %p1, %row : !tt.ptr<f32>, i32
    %penalty = tt.load %ppq : !tt.ptr<f32>
    %skip = arith.cmpf olt, %penalty, %zero : f32
    %start = arith.select %skip, %all, %lead : i32
    %oq = arith.muli %row, %dim : i32
    %pq = tt.addptr %p0, %oq : !tt.ptr<f32>, i32
    %r:3 = scf.while (%s = %start, %best = %lowest, %at = %c0) : (i32, f32, i32) -> (i32, f32, i32) {
      %more = arith.cmpi slt, %s, %strips : i32
      scf.condition(%more) %s, %best, %at : i32, f32, i32
    } do {
    ^bb0(%s: i32, %best: f32, %at: i32):
      %x0 = arith.muli %s, %wide : i32
      %x1 = tt.splat %x0 : i32 -> tensor<WIDExi32>
      %cols = arith.addi %x1, %x : tensor<WIDExi32>
      %pa = tt.addptr %ppen, %cols : tensor<WIDEx!tt.ptr<f32>>, tensor<WIDExi32>
      %acc = tt.load %pa : tensor<WIDEx!tt.ptr<f32>>
      %pb = tt.addptr %pcand, %cols : tensor<WIDEx!tt.ptr<f32>>, tensor<WIDExi32>
DOT
      %t = "tt.reduce"(SCORES) <{axis = 0 : i32}> ({
      ^bb0(%u: f32, %v: f32):
        %w = arith.maxnumf %u, %v : f32
        tt.reduce.return %w : f32
      }) : (tensor<WIDExf32>) -> f32
      %tv = tt.splat %t : f32 -> tensor<WIDExf32>
      %equal = arith.cmpf oeq, SCORES, %tv : tensor<WIDExf32>
      %place = arith.select %equal, %cols, %otherv : tensor<WIDExi1>, tensor<WIDExi32>
      %c = "tt.reduce"(%place) <{axis = 0 : i32}> ({
      ^bb0(%u: i32, %v: i32):
        %w = arith.minsi %u, %v : i32
        tt.reduce.return %w : i32
      }) : (tensor<WIDExi32>) -> i32
      %better = arith.cmpf ogt, %t, %best : f32
      %at1 = arith.select %better, %c, %at : i32
      %best1 = arith.maxnumf %best, %t : f32
      %sv = tt.splat %s : i32 -> tensor<ALLxi32>
      %later = arith.cmpi sgt, %st, %sv : tensor<ALLxi32>
      %left = arith.andi %alive, %later : tensor<ALLxi1>
      %rest = arith.select %left, %st, %allv : tensor<ALLxi1>, tensor<ALLxi32>
      %next = "tt.reduce"(%rest) <{axis = 0 : i32}> ({
      ^bb0(%u: i32, %v: i32):
        %w = arith.minsi %u, %v : i32
        tt.reduce.return %w : i32
      }) : (tensor<ALLxi32>) -> i32
      scf.yield %next, %best1, %at1 : i32, f32, i32
    }
    %pn = tt.addptr %p6, %row : !tt.ptr<i32>, i32
    tt.store %pn, %r#2 : !tt.ptr<i32>
    %ps = tt.addptr %p7, %row : !tt.ptr<f32>, i32
    tt.store %ps, %r#1 : !tt.ptr<f32>
`
