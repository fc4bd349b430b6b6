package replica

// Run is what Main runs once it has read its arguments.
var Run = run
