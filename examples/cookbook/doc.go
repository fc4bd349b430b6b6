// Package cookbook has the programs of docs/cookbook.md: each solves one problem in a few lines.
package cookbook

import "time"

// Site is a row of a table of sites. The user writes Tenant, Servers, and Expires; the program writes Running.
type Site struct {
	Name    string
	Tenant  string
	Servers int
	Expires time.Time
	Running int
}
