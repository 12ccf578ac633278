// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Command peak measures what this processor can do at most, whenever it is asked:
// for each line on standard input it runs the multiply-add loop of the matrix
// kernels for some milliseconds and prints a line of JSON. A benchmark keeps it
// running and asks between its rounds; between questions it sleeps.
//
// The figures are GFLOP/s of all threads together by the clock on the wall (best of
// a few bursts), and GFLOP per second of processor time, which other jobs on a
// shared machine disturb least.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu/gemm"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

const bursts = 8

func main() {
	threads := flag.Int("threads", 0, "threads, 0 for as many as there are processors")
	flag.Parse()
	if err := serve(*threads); err != nil {
		fmt.Fprintln(os.Stderr, "peak:", err)
		os.Exit(1)
	}
}

func serve(threads int) error {
	pool := par.New(threads)
	defer pool.Close()
	loops := map[string]*gemm.Peak{}
	for name, d := range map[string]tensor.DType{"f32": tensor.F32, "bf16": tensor.BF16} {
		if !gemm.Supports(d) {
			continue
		}
		p, err := gemm.NewPeak(pool, d)
		if err != nil {
			return err
		}
		loops[name] = p
	}
	out := json.NewEncoder(os.Stdout)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		answer := map[string]any{"isa": gemm.Active().String(), "threads": pool.Threads()}
		for name, p := range loops {
			wall, cpu, err := measure(pool, p)
			if err != nil {
				return err
			}
			answer[name], answer[name+"_cpu"] = wall, cpu
		}
		if err := out.Encode(answer); err != nil {
			return err
		}
	}
	return nil
}

// measure returns GFLOP per second of the wall clock and of processor time. Of the
// latter it takes the upper quartile: the best may owe its rank to the clock.
func measure(pool *par.Pool, p *gemm.Peak) (wall, cpu float64, err error) {
	var rates []float64
	for range bursts {
		c, err := processorTime()
		if err != nil {
			return 0, 0, err
		}
		start := time.Now()
		flop := p.Burst(pool)
		wall = max(wall, flop/float64(time.Since(start).Nanoseconds()))
		end, err := processorTime()
		if err != nil {
			return 0, 0, err
		}
		rates = append(rates, flop/float64((end-c).Nanoseconds()))
	}
	slices.Sort(rates)
	return wall, rates[bursts*3/4], nil
}

func processorTime() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, err
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}
