// A module of its own, so that `go get` of the library does not download the model in the
// Python package. There is no Go code here.
module github.com/mast3r-runtime/mast3r-runtime/python

go 1.26.0
