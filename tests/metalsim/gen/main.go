// SPDX-License-Identifier: Apache-2.0

// Command gen keeps the simulator's method table equal to Apple's.
//
//	go run ./tests/metalsim/gen                 data/selectors.json -> src/table_gen.c
//	go run ./tests/metalsim/gen -trim FILE      FILE (apple/selectors.json) -> data/selectors.json, then the table
//
// The full file holds 2,700 selectors with their provenance; the trimmed one keeps the
// classes that an engine on MPSGraph can meet and the facts that a call can be checked
// against: class or instance, type encoding, argument classes, nullability, ownership and
// the first macOS that has the method.
package main

import (
	"flag"
	"log/slog"
	"os"
	"path/filepath"
)

func main() {
	dir := flag.String("dir", "tests/metalsim", "the simulator's folder")
	full := flag.String("trim", "", "the full selectors.json to trim first")
	flag.Parse()
	if err := run(*dir, *full); err != nil {
		slog.Error("gen", "err", err)
		os.Exit(1)
	}
}

func run(dir, full string) error {
	data := filepath.Join(dir, "data", "selectors.json")
	if full != "" {
		raw, err := os.ReadFile(full)
		if err != nil {
			return err
		}
		small, err := Trim(raw)
		if err != nil {
			return err
		}
		if err := os.WriteFile(data, small, 0o644); err != nil {
			return err
		}
	}
	small, err := os.ReadFile(data)
	if err != nil {
		return err
	}
	c, err := Table(small)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "src", "table_gen.c"), c, 0o644)
}
