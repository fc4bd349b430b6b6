// Package binlog provides a source that follows an existing table of MariaDB by its binary log, with nothing installed. See [Table].
package binlog
