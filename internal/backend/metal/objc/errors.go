// SPDX-License-Identifier: Apache-2.0

package objc

import "fmt"

// Error is an NSError, copied.
type Error struct {
	Domain string
	Code   int64
	Text   string // localizedDescription
}

func (e *Error) Error() string { return fmt.Sprintf("%s (%s %d)", e.Text, e.Domain, e.Code) }

// GoError copies an NSError; nil gives nil. Call it inside a pool.
func GoError(o ID) *Error {
	if o == 0 {
		return nil
	}
	return &Error{
		Domain: GoString(errorDomain.Send(o)),
		Code:   errorCode.Send(o),
		Text:   GoString(errorDescription.Send(o)),
	}
}
