// Package problems joins the problems of a Config into one error.
//
//	problems.Join(errors.New("Config.Store is required"), errors.New("Config.Key is required"))
//
// # Guarantees
//
//  1. The text is one line, with semicolons between the problems. So a prefix that a caller puts before it belongs to all of them, as in
//     "leaderelect: new elector: Config.Store is required; Config.Key is required".
//  2. The error wraps each problem. Without a problem, there is no error.
package problems
