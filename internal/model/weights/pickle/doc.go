// SPDX-License-Identifier: Apache-2.0

// Package pickle reads the pickles in PyTorch and numpy files without running
// them.
//
// A pickle is a program for a stack machine, and its GLOBAL and REDUCE
// instructions call any Python function by name: to unpickle a file in Python is
// to run its author's code. Here the machine is only a reader. It knows the
// names that checkpoints are made of (tensors and their storages, numpy arrays,
// ordered dictionaries, argparse namespaces) as constructors of plain values;
// every other name, and every instruction of protocol 0, is refused by name.
//
// The machine is a loop, not a recursion, and each instruction adds a bounded
// amount of memory, so that a file of a given size cannot cost more than a fixed
// multiple of it. Values may form cycles, as Python's may: who walks them has to
// bound the depth.
package pickle
