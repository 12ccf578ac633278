// SPDX-License-Identifier: Apache-2.0

package pickle

import "errors"

// The instructions of protocols 2 to 5 (CPython, Lib/pickletools.py). Protocol 2
// keeps the binary ones of protocol 1.
const (
	opMark            = '('
	opStop            = '.'
	opPop             = '0'
	opPopMark         = '1'
	opDup             = '2'
	opBinFloat        = 'G'
	opBinInt          = 'J'
	opBinInt1         = 'K'
	opBinInt2         = 'M'
	opNone            = 'N'
	opBinPersID       = 'Q'
	opEmptySet        = 0x8f
	opAddItems        = 0x90
	opFrozenSet       = 0x91
	opNewObjEx        = 0x92
	opReduce          = 'R'
	opBinUnicode      = 'X'
	opAppend          = 'a'
	opBuild           = 'b'
	opGlobal          = 'c'
	opDict            = 'd'
	opEmptyDict       = '}'
	opAppends         = 'e'
	opBinGet          = 'h'
	opLongBinGet      = 'j'
	opList            = 'l'
	opEmptyList       = ']'
	opBinPut          = 'q'
	opLongBinPut      = 'r'
	opSetItem         = 's'
	opTuple           = 't'
	opEmptyTuple      = ')'
	opSetItems        = 'u'
	opBinString       = 'T'
	opShortBinString  = 'U'
	opBinBytes        = 'B'
	opShortBinBytes   = 'C'
	opProto           = 0x80
	opNewObj          = 0x81
	opTuple1          = 0x85
	opTuple2          = 0x86
	opTuple3          = 0x87
	opNewTrue         = 0x88
	opNewFalse        = 0x89
	opLong1           = 0x8a
	opLong4           = 0x8b
	opShortBinUnicode = 0x8c
	opBinUnicode8     = 0x8d
	opBinBytes8       = 0x8e
	opStackGlobal     = 0x93
	opMemoize         = 0x94
	opFrame           = 0x95
	opByteArray8      = 0x96
)

// refusedOps are instructions that exist but have no business in a checkpoint.
var refusedOps = map[byte]string{
	'F': "FLOAT", 'I': "INT", 'L': "LONG", 'P': "PERSID", 'S': "STRING", 'V': "UNICODE",
	'g': "GET", 'i': "INST", 'o': "OBJ", 'p': "PUT",
	0x82: "EXT1", 0x83: "EXT2", 0x84: "EXT4", 0x97: "NEXT_BUFFER", 0x98: "READONLY_BUFFER",
}

// step runs one instruction: scalars here, the rest by kind.
func (m *machine) step(op byte) error {
	switch op {
	case opNone:
		return m.push(nil)
	case opNewTrue:
		return m.push(true)
	case opNewFalse:
		return m.push(false)
	case opBinFloat:
		return m.float()
	case opBinInt:
		v, err := m.uint(4)
		if err != nil {
			return err
		}
		return m.push(int64(int32(v)))
	case opBinInt1, opBinInt2:
		v, err := m.uint(map[byte]int{opBinInt1: 1, opBinInt2: 2}[op])
		if err != nil {
			return err
		}
		return m.push(int64(v))
	case opLong1, opLong4:
		b, err := m.counted(map[byte]int{opLong1: 1, opLong4: 4}[op])
		if err != nil {
			return err
		}
		return m.long(b)
	case opProto:
		v, err := m.u8()
		if err == nil && (v < 2 || v > 5) {
			err = m.refused("protocol %d, want 2 to 5", v)
		}
		return err
	case opFrame: // a hint for buffered reading
		_, err := m.uint(8)
		return err
	}
	if size, ok := textSizes[op]; ok {
		return m.pushText(op, size)
	}
	return m.structure(op)
}

// textSizes are the instructions that a length of so many bytes follows, and the
// text or bytes of that length.
var textSizes = map[byte]int{
	opShortBinUnicode: 1, opBinUnicode: 4, opBinUnicode8: 8,
	opShortBinString: 1, opBinString: 4,
	opShortBinBytes: 1, opBinBytes: 4, opBinBytes8: 8, opByteArray8: 8,
}

func (m *machine) pushText(op byte, size int) error {
	b, err := m.counted(size)
	if err != nil {
		return err
	}
	switch op {
	case opShortBinBytes, opBinBytes, opBinBytes8, opByteArray8:
		return m.push(b)
	}
	s, err := m.string(b)
	if err != nil {
		return err
	}
	return m.push(s)
}

// structure runs the instructions that move and combine values.
func (m *machine) structure(op byte) error {
	switch op {
	case opMark:
		m.marks = append(m.marks, len(m.stack))
		return nil
	case opPop:
		// As in CPython: with nothing above the mark, the mark itself goes.
		if n := len(m.marks); n > 0 && m.marks[n-1] == len(m.stack) {
			m.marks = m.marks[:n-1]
			return nil
		}
		_, err := m.pop()
		return err
	case opPopMark:
		_, err := m.popMark()
		return err
	case opDup:
		v, err := m.peek()
		if err != nil {
			return err
		}
		return m.push(v)
	case opMemoize:
		return m.remember(uint64(len(m.memo)))
	case opBinPut, opLongBinPut, opBinGet, opLongBinGet:
		return m.memory(op)
	case opEmptyTuple:
		return m.push(Tuple{})
	case opEmptyList:
		return m.push(&List{})
	case opEmptyDict:
		return m.push(&Dict{})
	case opTuple1, opTuple2, opTuple3:
		t, err := m.popTuple(int(op-opTuple1) + 1)
		if err != nil {
			return err
		}
		return m.push(t)
	case opTuple, opList, opDict, opAppends, opSetItems:
		return m.collect(op)
	case opAppend, opSetItem:
		return m.add(op)
	}
	return m.objects(op)
}

func (m *machine) memory(op byte) error {
	size := 1
	if op == opLongBinPut || op == opLongBinGet {
		size = 4
	}
	key, err := m.uint(size)
	switch {
	case err != nil:
		return err
	case op == opBinPut || op == opLongBinPut:
		return m.remember(key)
	}
	return m.recall(key)
}

// collect runs the instructions that take everything above the last mark.
func (m *machine) collect(op byte) error {
	items, err := m.popMark()
	if err != nil {
		return err
	}
	switch op {
	case opTuple:
		return m.push(items)
	case opList:
		return m.push(&List{items})
	case opAppends:
		return m.extend(items)
	case opDict:
		if err := m.push(&Dict{}); err != nil {
			return err
		}
	}
	return m.update(items)
}

func (m *machine) add(op byte) error {
	n := 1
	if op == opSetItem {
		n = 2
	}
	items, err := m.popTuple(n)
	switch {
	case err != nil:
		return err
	case op == opAppend:
		return m.extend(items)
	}
	return m.update(items)
}

// extend appends to the list on top of the stack.
func (m *machine) extend(items Tuple) error {
	v, err := m.peek()
	if err != nil {
		return err
	}
	if _, ok := v.(*Opaque); ok {
		return nil
	}
	l, ok := v.(*List)
	if !ok {
		return m.malformed("items for a %s, want a list", TypeName(v))
	}
	l.Items = append(l.Items, items...)
	return nil
}

// update puts keys and values, in turn, into the dict on top of the stack.
func (m *machine) update(items Tuple) error {
	v, err := m.peek()
	if err != nil {
		return err
	}
	if _, ok := v.(*Opaque); ok {
		return nil
	}
	d, ok := v.(*Dict)
	if !ok || len(items)%2 != 0 {
		return m.malformed("%d keys and values for a %s, want an even number and a dict", len(items), TypeName(v))
	}
	for i := 0; i < len(items); i += 2 {
		switch items[i].(type) {
		case Tuple, Name, *class, *Opaque:
			continue // no name of a weight
		}
		if err := d.set(items[i], items[i+1]); err != nil {
			return m.refused("%v", err)
		}
	}
	return nil
}

// objects runs the instructions that make objects of classes.
func (m *machine) objects(op byte) error {
	switch op {
	case opGlobal:
		module, err := m.line()
		if err != nil {
			return err
		}
		name, err := m.line()
		if err != nil {
			return err
		}
		return m.global(module, name)
	case opStackGlobal:
		t, err := m.popTuple(2)
		if err != nil {
			return err
		}
		module, ok1 := t[0].(string)
		name, ok2 := t[1].(string)
		if !ok1 || !ok2 {
			return m.malformed("a global named by %s and %s, want two strings", TypeName(t[0]), TypeName(t[1]))
		}
		return m.global(module, name)
	case opReduce, opNewObj:
		return m.call()
	case opBuild:
		return m.build()
	case opBinPersID:
		id, err := m.pop()
		if err != nil {
			return err
		}
		s, err := storage(id)
		if err != nil {
			return m.malformed("persistent id: %v", err)
		}
		return m.push(s)
	}
	switch op {
	case opEmptySet:
		return m.push(&Opaque{"set"})
	case opFrozenSet, opAddItems:
		if _, err := m.popMark(); err != nil {
			return err
		}
		if op == opFrozenSet {
			return m.push(&Opaque{"frozenset"})
		}
		v, err := m.peek()
		if _, ok := v.(*Opaque); err == nil && !ok {
			err = m.malformed("items for a %s, want a set", TypeName(v))
		}
		return err
	case opNewObjEx: // class, arguments, named arguments
		t, err := m.popTuple(3)
		if err != nil {
			return err
		}
		if c, ok := t[0].(*class); ok {
			return m.push(&Opaque{c.name})
		}
		return m.malformed("a new %s, want a class", TypeName(t[0]))
	}
	if name, ok := refusedOps[op]; ok {
		return m.refused("instruction %s", name)
	}
	return m.malformed("unknown instruction %#02x", op)
}

func (m *machine) call() error {
	t, err := m.popTuple(2)
	if err != nil {
		return err
	}
	if o, ok := t[0].(*Opaque); ok { // a method of what is not known
		return m.push(o)
	}
	c, ok := t[0].(*class)
	args, isTuple := t[1].(Tuple)
	if !ok || !isTuple {
		return m.malformed("a call of %s with %s, want a class and a tuple", TypeName(t[0]), TypeName(t[1]))
	}
	if c.make == nil {
		return m.refused("a call of %s, which is only a name here", c.name)
	}
	v, err := c.make(m, args)
	var own *Error
	switch {
	case errors.As(err, &own):
		return err
	case err != nil:
		return m.malformed("%s: %v", c.name, err)
	}
	return m.push(v)
}

// build gives the object on top of the stack its state.
func (m *machine) build() error {
	state, err := m.pop()
	if err != nil {
		return err
	}
	v, err := m.peek()
	if err != nil {
		return err
	}
	switch v := v.(type) {
	case *Object:
		d, ok := state.(*Dict)
		if !ok {
			return m.malformed("the state of a %s is a %s, want a dict", v.Class, TypeName(state))
		}
		if err := m.spend(d.Len()); err != nil {
			return err
		}
		for _, k := range d.keys {
			if err := v.Attrs.set(k, d.values[k]); err != nil {
				return m.refused("%v", err)
			}
		}
		return nil
	case *Dict: // an OrderedDict's attributes; torch keeps format versions there
		return nil
	case *Opaque:
		return nil
	case *Array:
		return m.wrap(v.build(state))
	case *dtype:
		return m.wrap(v.build(state))
	}
	return m.refused("a state for a %s", TypeName(v))
}

func (m *machine) wrap(err error) error {
	if err == nil {
		return nil
	}
	return m.malformed("%v", err)
}
