// Package store is a system of record: list, watch and write objects, with versions.
package store
