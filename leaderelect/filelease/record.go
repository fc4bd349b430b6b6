package filelease

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"

	"github.com/setpoint-go/setpoint/leaderelect"
)

// header is the first line of a record file. The value follows it.
type header struct {
	Format   int    `json:"format"`   // 1
	Key      []byte `json:"key"`      // the name of the directory does not contain a long key
	Term     uint64 `json:"term"`     // of the leaderelect.Entry
	Version  string `json:"version"`  // of the leaderelect.Entry
	Replaces string `json:"replaces"` // the version of the previous record; "" is none
	Size     int    `json:"size"`     // of the value, in bytes
	Checksum uint32 `json:"checksum"` // CRC-32 (IEEE) of the value
}

// errDamaged means that a file is not a complete record.
var errDamaged = errors.New("damaged record")

// encodeRecord returns the content of the file that replaces a record of the given version by e.
func encodeRecord(e leaderelect.Entry, replaces string) ([]byte, error) {
	line, err := json.Marshal(header{
		Format: 1, Key: []byte(e.Key), Term: e.Term, Version: e.Version, Replaces: replaces,
		Size: len(e.Value), Checksum: crc32.ChecksumIEEE(e.Value),
	})
	return append(append(line, '\n'), e.Value...), err
}

// decodeRecord reads the content of a record file. If the error wraps errDamaged, h has the readable part of the header.
func decodeRecord(data []byte) (h header, value []byte, err error) {
	line, value, _ := bytes.Cut(data, []byte("\n"))
	if err := json.Unmarshal(line, &h); err != nil {
		return header{}, nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if h.Format != 1 || h.Version == "" || h.Size != len(value) || h.Checksum != crc32.ChecksumIEEE(value) {
		return h, nil, errDamaged
	}
	return h, value, nil
}

// readRecord reads a record file. If the file is damaged, the error wraps errDamaged. Then the entry has a version, no
// value, and the term of the header if that is readable.
func readRecord(path string) (leaderelect.Entry, header, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return leaderelect.Entry{}, header{}, err
	}
	h, value, err := decodeRecord(data)
	if err != nil {
		version := fmt.Sprintf("damaged-%d-%08x", len(data), crc32.ChecksumIEEE(data))
		return leaderelect.Entry{Key: string(h.Key), Term: h.Term, Version: version}, h, fmt.Errorf("read %q: %w", path, err)
	}
	return leaderelect.Entry{Key: string(h.Key), Value: value, Term: h.Term, Version: h.Version}, h, nil
}
