package env

import (
	"io"
	"os"
	"strings"
)

// FirstLine returns the first line of a file; "" if it cannot be read. It reads at most 4 KiB, because the
// file may be a large binary. This is enough: for `#!`, the kernel itself reads only 256 bytes.
func FirstLine(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	text, _ := io.ReadAll(io.LimitReader(file, 4096))
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

// Read returns the content of a file without trailing newlines; "" if it cannot be read.
func Read(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimRight(string(text), "\n")
}

// Link creates a symbolic link, or replaces an existing one.
func Link(target, path string) error {
	fresh := path + ".new"
	os.Remove(fresh)
	if err := os.Symlink(target, fresh); err != nil {
		return err
	}
	return os.Rename(fresh, path)
}
