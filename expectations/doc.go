// Package expectations keeps a controller from acting on a cache that does not show its own writes yet.
package expectations
