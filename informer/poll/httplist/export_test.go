package httplist

// Exports for the black-box tests.
var NextLink, RetryAfter = nextLink, retryAfter
