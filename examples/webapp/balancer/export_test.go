package balancer

// Serve is Listen with a listener of the test.
var Serve = serve
