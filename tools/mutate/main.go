// SPDX-License-Identifier: Apache-2.0

// Command mutate puts mistakes into the code, one at a time, and says which test
// notices each:
//
//	go run ./tools/mutate [-run REGEXP] [-timeout 5m] [-for 10m] [-resume FILE]
//
// The list is mutants.txt beside it; doc.go describes its form. It works on a copy of
// the repository's last commit (git worktree) and leaves the checkout alone. Mutants of
// one file follow each other, so that little is compiled. With -resume, what was found is
// kept in FILE, and the mutants in it are not tried again: a long run in pieces of -for. The
// exit status is 1 when a mutant survives.
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
	"slices"
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
	most := flag.Duration("for", 0, "begin no mutant after so long; 0: all")
	resume := flag.String("resume", "", "a file of what was found, read and continued")
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
	mutants = slices.DeleteFunc(mutants, func(m mutant) bool { return !pattern.MatchString(m.id) })
	if len(mutants) == 0 {
		return errors.New("no mutant of that name")
	}
	// Files of one folder share compiled packages.
	slices.SortStableFunc(mutants, func(a, b mutant) int { return strings.Compare(a.file, b.file) })
	found, file, err := results(*resume)
	if err != nil {
		return err
	}
	if file != nil {
		defer file.Close()
	}
	tree, remove, err := worktree()
	if err != nil {
		return err
	}
	defer remove()
	begin := time.Now()
	for _, m := range mutants {
		if _, done := found[m.id]; done || *most > 0 && time.Since(begin) > *most {
			continue
		}
		start := time.Now()
		by, err := m.try(tree, *limit)
		if err != nil {
			fmt.Printf("%-6s cannot be tried: %v\n", m.id, err)
			continue
		}
		found[m.id] = by
		if file != nil {
			if _, err := fmt.Fprintf(file, "%s\t%s\n", m.id, by); err != nil {
				return err
			}
		}
		verdict := "SURVIVED"
		if by != "" {
			verdict = "killed by " + by
		}
		fmt.Printf("%-6s %-60s %s (%.0f s)\n", m.id, m.file+": "+m.text, verdict, time.Since(start).Seconds())
	}
	return sum(mutants, found)
}

// sum says how many were killed, and which were not.
func sum(mutants []mutant, found map[string]string) error {
	killed, tried := 0, 0
	var survivors []string
	for _, m := range mutants {
		by, ok := found[m.id]
		switch {
		case !ok:
			continue
		case by == "":
			survivors = append(survivors, m.id)
		default:
			killed++
		}
		tried++
	}
	fmt.Printf("%d of %d killed (%.0f %%), %d not tried", killed, tried, 100*float64(killed)/float64(max(tried, 1)), len(mutants)-tried)
	if len(survivors) > 0 {
		fmt.Printf("; survivors: %s\n", strings.Join(survivors, ", "))
		return errors.New("mutants survive")
	}
	fmt.Println()
	return nil
}

// results reads what an earlier run found, by id, and opens the file for more.
func results(path string) (map[string]string, *os.File, error) {
	found := map[string]string{}
	if path == "" {
		return found, nil, nil
	}
	if text, err := os.ReadFile(path); err == nil {
		for line := range strings.Lines(string(text)) {
			id, by, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
			found[id] = by
		}
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	return found, file, err
}

// worktree is a copy of the last commit, and what removes it.
func worktree() (tree string, remove func(), err error) {
	dir, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return "", nil, err
	}
	tree = filepath.Join(dir, "tree")
	if out, err := exec.Command("git", "worktree", "add", "--detach", tree, "HEAD").CombinedOutput(); err != nil {
		return "", nil, errors.Join(fmt.Errorf("%w: %s", err, out), os.RemoveAll(dir))
	}
	return tree, func() {
		_ = exec.Command("git", "worktree", "remove", "--force", tree).Run()
		_ = os.RemoveAll(dir)
	}, nil
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
		return strings.ReplaceAll(test, "go test ", "go test -vet=off -failfast ") // the first that notices is enough
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
