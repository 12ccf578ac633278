// SPDX-License-Identifier: Apache-2.0

package objc

var (
	nsURL           = DeclareClass("NSURL", V(10, 0))
	fileURLWithPath = ClassMethod[func(c Class, path ID) ID]("NSURL", "fileURLWithPath:", V(12, 1))
)

// FileURL makes an NSURL of a path (+0), which must be UTF-8 without NUL.
func FileURL(path string) ID { return fileURLWithPath.Send(nsURL.ID, String(path)) }
