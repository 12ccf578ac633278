// SPDX-License-Identifier: Apache-2.0

package pickle

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

// The sentinels of an *Error.
var (
	// ErrMalformed: not a pickle, or a damaged one.
	ErrMalformed = errors.New("pickle: malformed")
	// ErrRefused: a pickle that wants something which is not allowed here.
	ErrRefused = errors.New("pickle: refused")
	// ErrLimit: a pickle that costs more than any checkpoint would.
	ErrLimit = errors.New("pickle: too large")
)

// Error says what was met, and at which byte.
type Error struct {
	Kind   error // ErrMalformed, ErrRefused or ErrLimit
	Offset int
	Text   string
}

func (e *Error) Error() string { return fmt.Sprintf("%v: byte %d: %s", e.Kind, e.Offset, e.Text) }

// Unwrap makes errors.Is(err, ErrRefused) work.
func (e *Error) Unwrap() error { return e.Kind }

// The limits. A published checkpoint takes 50 thousand instructions and 100 kB of
// text; one instruction costs at most some hundred bytes of memory.
const (
	maxOps  = 1 << 20
	maxText = 1 << 26
)

// machine is the state of one reading.
type machine struct {
	data  []byte
	at    int // of the next byte
	start int // of the running instruction
	stack []Value
	marks []int // stack heights
	memo  map[uint32]Value
	ops   int // instructions run, and items copied by them
	text  int // bytes of text made so far
}

// Decode runs a pickle to its end and returns the value and the number of bytes
// it took. Byte strings and arrays are views into data.
func Decode(data []byte) (Value, int, error) {
	m := &machine{data: data, memo: map[uint32]Value{}}
	v, err := m.run()
	if err != nil {
		var e *Error
		if !errors.As(err, &e) {
			err = &Error{ErrMalformed, m.start, err.Error()}
		}
		return nil, 0, err
	}
	return v, m.at, nil
}

func (m *machine) run() (Value, error) {
	if len(m.data) < 2 || m.data[0] != opProto {
		return nil, m.malformed("no PROTO instruction, want a pickle of protocol 2 to 5")
	}
	for {
		m.start = m.at
		if err := m.spend(1); err != nil {
			return nil, err
		}
		op, err := m.u8()
		if err != nil {
			return nil, err
		}
		if op == opStop {
			return m.pop()
		}
		if err := m.step(op); err != nil {
			return nil, err
		}
	}
}

// spend counts what costs memory. An instruction that copies items pays for each:
// a dict in the memo can be copied by three bytes of pickle, as often as they stand
// there.
func (m *machine) spend(n int) error {
	if m.ops += n; m.ops > maxOps {
		return &Error{ErrLimit, m.start, fmt.Sprintf("more than %d instructions", maxOps)}
	}
	return nil
}

func (m *machine) malformed(format string, args ...any) error {
	return &Error{ErrMalformed, m.start, fmt.Sprintf(format, args...)}
}

func (m *machine) refused(format string, args ...any) error {
	return &Error{ErrRefused, m.start, fmt.Sprintf(format, args...)}
}

// take returns the next n bytes. n is compared as unsigned: lengths come from the
// file, and eight bytes of it may exceed any int.
func (m *machine) take(n uint64) ([]byte, error) {
	if n > uint64(len(m.data)-m.at) {
		return nil, m.malformed("%d bytes wanted, %d left", n, len(m.data)-m.at)
	}
	b := m.data[m.at : m.at+int(n) : m.at+int(n)]
	m.at += int(n)
	return b, nil
}

func (m *machine) u8() (byte, error) {
	b, err := m.take(1)
	if err != nil {
		return 0, err
	}
	return b[0], nil
}

// uint reads a little-endian number of 1, 2, 4 or 8 bytes.
func (m *machine) uint(size int) (uint64, error) {
	b, err := m.take(uint64(size))
	if err != nil {
		return 0, err
	}
	var wide [8]byte
	copy(wide[:], b)
	return binary.LittleEndian.Uint64(wide[:]), nil
}

// counted reads a length of the given size and then as many bytes.
func (m *machine) counted(size int) ([]byte, error) {
	n, err := m.uint(size)
	if err != nil {
		return nil, err
	}
	return m.take(n)
}

// line reads up to a newline.
func (m *machine) line() (string, error) {
	for i := m.at; i < len(m.data); i++ {
		if m.data[i] == '\n' {
			b := m.data[m.at:i]
			m.at = i + 1
			return m.string(b)
		}
	}
	return "", m.malformed("a line without an end")
}

// string copies text out of the file, whose mapping the values outlive.
func (m *machine) string(b []byte) (string, error) {
	if err := m.charge(len(b)); err != nil {
		return "", err
	}
	if !utf8.Valid(b) {
		return "", m.malformed("a string that is no UTF-8")
	}
	return string(b), nil
}

func (m *machine) charge(n int) error {
	if m.text += n; m.text > maxText {
		return &Error{ErrLimit, m.start, fmt.Sprintf("more than %d bytes of text", maxText)}
	}
	return nil
}

func (m *machine) push(v Value) error {
	m.stack = append(m.stack, v)
	return nil
}

// floor is the height below which an instruction may not reach: the last mark.
func (m *machine) floor() int {
	if n := len(m.marks); n > 0 {
		return m.marks[n-1]
	}
	return 0
}

func (m *machine) pop() (Value, error) {
	top := len(m.stack) - 1
	if top < m.floor() {
		return nil, m.malformed("the stack is empty")
	}
	v := m.stack[top]
	m.stack = m.stack[:top]
	return v, nil
}

func (m *machine) peek() (Value, error) {
	if len(m.stack) <= m.floor() {
		return nil, m.malformed("the stack is empty")
	}
	return m.stack[len(m.stack)-1], nil
}

// popTuple pops n values into a tuple.
func (m *machine) popTuple(n int) (Tuple, error) {
	from := len(m.stack) - n
	if from < m.floor() {
		return nil, m.malformed("the stack holds fewer than %d values", n)
	}
	t := append(Tuple{}, m.stack[from:]...)
	m.stack = m.stack[:from]
	return t, nil
}

// popMark pops everything above the last mark, and the mark.
func (m *machine) popMark() (Tuple, error) {
	if len(m.marks) == 0 {
		return nil, m.malformed("no mark on the stack")
	}
	t, err := m.popTuple(len(m.stack) - m.floor())
	m.marks = m.marks[:len(m.marks)-1]
	return t, err
}

func (m *machine) remember(key uint64) error {
	v, err := m.peek()
	if err == nil {
		m.memo[uint32(key)] = v
	}
	return err
}

func (m *machine) recall(key uint64) error {
	v, ok := m.memo[uint32(key)]
	if !ok {
		return m.malformed("memo %d was never written", key)
	}
	return m.push(v)
}

// long reads a two's complement integer of n bytes.
func (m *machine) long(b []byte) error {
	if len(b) > 8 {
		return m.refused("an integer of %d bytes, want at most 8", len(b))
	}
	var v uint64
	if n := len(b); n > 0 && b[n-1]&0x80 != 0 {
		v = math.MaxUint64 << (8 * uint(n)) // sign extension; a shift by 64 gives 0
	}
	for i, c := range b {
		v |= uint64(c) << (8 * i)
	}
	return m.push(int64(v))
}

func (m *machine) float() error {
	b, err := m.take(8)
	if err != nil {
		return err
	}
	return m.push(math.Float64frombits(binary.BigEndian.Uint64(b)))
}

// global pushes the class of a name; the name is all that is looked at.
func (m *machine) global(module, name string) error {
	c, ok := classes[module+"."+name]
	if !ok && !unknown(module, name) {
		return m.refused("the pickle calls %s", strconv.Quote(short(module)+"."+short(name)))
	}
	if !ok {
		full := module + "." + name
		if err := m.charge(len(full)); err != nil {
			return err
		}
		c = &class{name: full, make: makeOpaque(full)}
	}
	return m.push(c)
}

func short(s string) string {
	const most = 100
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}
