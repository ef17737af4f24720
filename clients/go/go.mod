// The path has no dot in it, so that the go command asks no proxy for it: a program names
// where its copy is with a replace line, as README.md says.
module pgfairq

go 1.19
