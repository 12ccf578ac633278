module github.com/mast3r-runtime/mast3r-runtime

go 1.26.0

require (
	github.com/ebitengine/purego v0.11.3
	golang.org/x/sys v0.50.0
)
