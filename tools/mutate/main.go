// SPDX-License-Identifier: Apache-2.0

// Command mutate puts mistakes into the code, one at a time, and says which test
// notices each:
//
//	go run ./tools/mutate [-run REGEXP] [-timeout 5m] [-keep N/M]
//
// The list is mutants.txt beside it; doc.go describes its form. It works on a copy of
// the repository (git worktree) and leaves the checkout alone. The exit status is 1
// when a mutant survives.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// mutant is one mistake.
type mutant struct {
	id, file, text string // text says what the mistake is
	old, changed   string
	test           string // a shell command, in the root of the repository
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run() error {
	only := flag.String("run", "", "run the mutants whose id matches")
	limit := flag.Duration("timeout", 5*time.Minute, "for the tests of one mutant; one that hangs is noticed")
	list := flag.String("list", filepath.Join("tools", "mutate", "mutants.txt"), "the list")
	flag.Parse()
	pattern, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(*list)
	if err != nil {
		return err
	}
	mutants, err := parse(string(text))
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	tree := filepath.Join(dir, "tree")
	if out, err := exec.Command("git", "worktree", "add", "--detach", tree, "HEAD").CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	defer func() { _ = exec.Command("git", "worktree", "remove", "--force", tree).Run() }()
	var survivors []string
	killed := 0
	for _, m := range mutants {
		if !pattern.MatchString(m.id) {
			continue
		}
		start := time.Now()
		by, err := m.try(tree, *limit)
		if err != nil {
			fmt.Printf("%-6s %s\n", m.id, err)
			survivors = append(survivors, m.id)
			continue
		}
		verdict := "killed by " + by
		if by == "" {
			verdict = "SURVIVED"
			survivors = append(survivors, m.id)
		} else {
			killed++
		}
		fmt.Printf("%-6s %-60s %s (%.0f s)\n", m.id, m.file+": "+m.text, verdict, time.Since(start).Seconds())
	}
	total := killed + len(survivors)
	if total == 0 {
		return errors.New("no mutant of that name")
	}
	fmt.Printf("%d of %d killed (%.0f %%)", killed, total, 100*float64(killed)/float64(total))
	if len(survivors) > 0 {
		fmt.Printf("; survivors: %s\n", strings.Join(survivors, ", "))
		return errors.New("mutants survive")
	}
	fmt.Println()
	return nil
}

// parse reads the list.
func parse(text string) ([]mutant, error) {
	var all []mutant
	for i, block := range strings.Split(text, "\n=== ") {
		if i == 0 {
			continue // what stands before the first
		}
		head, body, _ := strings.Cut(block, "\n")
		f := strings.SplitN(head, " | ", 4)
		parts := strings.SplitN(body, "\n--- to\n", 2)
		if len(f) != 4 || len(parts) != 2 {
			return nil, fmt.Errorf("mutant %d: want ID | FILE | TEST | TEXT, the old lines, --- to, and the new ones", i)
		}
		all = append(all, mutant{id: f[0], file: f[1], test: f[2], text: f[3],
			old: strings.TrimSuffix(parts[0], "\n"), changed: strings.TrimRight(parts[1], "\n")})
	}
	return all, nil
}

// command is a test as a shell command: "py FILES" runs Python tests of the copy with the
// virtual environment and the library of the checkout.
func command(test string) string {
	files, python := strings.CutPrefix(test, "py ")
	if !python {
		return test
	}
	root, err := os.Getwd()
	if err != nil {
		root = "."
	}
	return fmt.Sprintf("PYTHONPATH=python MAST3R_LIBRARY=%[1]q/python/mast3r_runtime/libmast3r_runtime.so %[1]q/.venv/bin/python -m pytest -q -x -p no:cacheprovider %[2]s", root, files)
}

var failing = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)|^FAILED (\S+)|^FAIL\s+(\S+)`)

// try applies the mutant, runs its tests, and says which failed; "" when none did.
func (m *mutant) try(tree string, limit time.Duration) (by string, err error) {
	path := filepath.Join(tree, m.file)
	before, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if n := bytes.Count(before, []byte(m.old)); n != 1 {
		return "", fmt.Errorf("the old text is in %s %d times, want once: the list is out of date", m.file, n)
	}
	after := bytes.Replace(before, []byte(m.old), []byte(m.changed), 1)
	if err := os.WriteFile(path, after, 0o644); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.WriteFile(path, before, 0o644)) }()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", command(m.test))
	cmd.Dir = tree
	if shared, err := filepath.Abs(filepath.Join("..", "shared")); err == nil && os.Getenv("MAST3R_SHARED") == "" {
		cmd.Env = append(os.Environ(), "MAST3R_SHARED="+shared) // the copy is elsewhere
	}
	cmd.WaitDelay = 10 * time.Second
	out, failed := cmd.CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return "its time limit: it hangs", nil
	case failed == nil:
		return "", nil
	case bytes.Contains(out, []byte("[build failed]")), bytes.Contains(out, []byte("[setup failed]")):
		return "", fmt.Errorf("it does not compile:\n%s", out)
	}
	if f := failing.FindSubmatch(out); f != nil {
		return string(bytes.Join(f[1:], nil)), nil
	}
	return "the end of the process", nil
}
