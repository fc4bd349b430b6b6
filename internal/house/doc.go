// Package house has the tests of the repository as a whole: imports go down the layers, the root module requires one module, no package
// has global state, and the pages link to, name, and show only what exists. It has no code.
package house
